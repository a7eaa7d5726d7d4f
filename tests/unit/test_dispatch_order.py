"""Which task runs when, what happens to the others when one goes wrong, and that every task ends."""

import asyncio
import errno
from collections.abc import Awaitable, Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskyard.services.activity import Activity
from taskyard.services.clock import SystemClock
from taskyard.services.dispatch import Dispatcher
from taskyard.services.errors import (
    BudgetReached,
    ConfigError,
    EnvironmentFault,
    KeyRefused,
    RequestRefused,
    ServerUnreachable,
    StorageFull,
)
from taskyard.services.events import Event, TaskStateChanged, Warned
from taskyard.services.pipeline import TaskEnd
from taskyard.services.records import Task

LONG_S = 60.0
"""A bound for runs that end at once unless the promise is broken."""
MERGED = TaskEnd(state="merged", attempt=1)
Way = Callable[[Task], Awaitable[TaskEnd]]


def task(id_: str, *parents: str, priority: int = 2) -> Task:
    return Task(id_, "", "", "open", 1, depends_on=parents, priority=priority)


class Board:
    """A dispatcher over tasks whose ways are given, and what was seen of it."""

    def __init__(
        self, tasks: Sequence[Task], way: Way | None = None, *, in_flight: int = 200, done: frozenset[str] = frozenset()
    ) -> None:
        self.events: list[Event] = []
        self.begun: list[str] = []
        self.told: list[str] = []
        self.parents: dict[str, list[TaskEnd]] = {}
        self.running = 0
        self.peak = 0
        self._way = way
        self.activity = Activity(SystemClock())
        self.dispatcher = Dispatcher(
            tasks, self._run, done=done, activity=self.activity, max_in_flight=in_flight, emit=self.events.append,
            ended=self.told.append,
        )  # fmt: skip

    async def _run(self, task: Task, parents: Sequence[TaskEnd]) -> TaskEnd:
        self.begun.append(task.id)
        self.parents[task.id] = list(parents)
        self.running += 1
        self.peak = max(self.peak, self.running)
        assert self.activity.begun >= self.running
        try:
            await asyncio.sleep(0)
            return MERGED if self._way is None else await self._way(task)
        finally:
            self.running -= 1

    async def run(self) -> dict[str, str]:
        async with asyncio.timeout(LONG_S):
            return {id_: end.state for id_, end in (await self.dispatcher.run()).items()}

    def states(self, id_: str) -> list[str]:
        return [e.state for e in self.events if isinstance(e, TaskStateChanged) and e.task == id_]


async def test_tasks_start_by_priority_and_then_in_the_boards_order() -> None:
    """D09: one slot: P0 first, and within a priority the board's order."""
    tasks = [
        task("a"),
        task("b", priority=0),
        task("c"),
        task("d", priority=3),
        task("e", priority=0),
        task("f", priority=1),
    ]
    board = Board(tasks, in_flight=1)
    await board.run()
    assert board.begun == ["b", "e", "f", "a", "c", "d"]
    assert board.told == board.begun


async def test_every_task_is_announced_before_any_begins() -> None:
    """D14: a screen knows the whole board from the start, in its order."""
    board = Board([task("b"), task("a", "b")])
    await board.run()
    first = [event for event in board.events[:2] if isinstance(event, TaskStateChanged)]
    assert [(event.task, event.state) for event in first] == [("b", "queued"), ("a", "queued")]


async def test_a_task_begins_when_all_that_it_depends_on_is_merged() -> None:
    """Dependencies go before board order and priority; a task gets the ends of its parents, in its own order."""
    board = Board([task("c", "b", "a", priority=0), task("a"), task("b", "a")])
    assert await board.run() == {"a": "merged", "b": "merged", "c": "merged"}
    assert board.begun == ["a", "b", "c"]
    assert [len(board.parents[id_]) for id_ in "abc"] == [0, 1, 2]


async def test_a_dependency_that_is_done_already_holds_nothing_up() -> None:
    """What an earlier run merged need not be part of this one."""
    board = Board([task("b", "a")], done=frozenset({"a"}))
    assert await board.run() == {"b": "merged"}


@pytest.mark.parametrize("state", ["failed", "needs_you", "cancelled"])
async def test_what_depends_on_a_task_that_was_not_merged_is_skipped_with_the_reason(state: str) -> None:
    """The reason names the parent and its fate, down the chain; the others go on."""

    async def way(task: Task) -> TaskEnd:
        return TaskEnd(state=state, attempt=2) if task.id == "a" else MERGED  # type: ignore[arg-type]

    board = Board([task("a"), task("b", "a"), task("c", "b"), task("d")], way)
    assert await board.run() == {"a": state, "b": "skipped", "c": "skipped", "d": "merged"}
    details = {e.task: e.detail for e in board.events if isinstance(e, TaskStateChanged) and e.state == "skipped"}
    assert details["b"] == f"waits for a, which {state.replace('_', ' ') if state != 'needs_you' else 'needs you'}"
    assert details["c"] == "waits for b, which was skipped"
    assert board.begun == ["a", "d"]


async def test_a_dependency_that_is_not_part_of_the_run_is_a_reason_to_skip() -> None:
    """With --only the parent may be missing: skipped at once, said so, and nothing waits for ever."""
    board = Board([task("b", "a"), task("c", "b"), task("d")])
    assert await board.run() == {"b": "skipped", "c": "skipped", "d": "merged"}
    details = [event.detail for event in board.events if isinstance(event, TaskStateChanged)]
    assert "waits for a, which is not part of this run" in details


async def test_a_chain_longer_than_the_stack_is_skipped_to_its_end() -> None:
    """5,000 tasks in a row behind one that fails: no recursion, each has its end and its event."""

    async def way(_: Task) -> TaskEnd:
        return TaskEnd(state="failed", attempt=1)

    tasks = [task("0"), *(task(str(n), str(n - 1)) for n in range(1, 5000))]
    board = Board(tasks, way)
    ends = await board.run()
    assert len(ends) == 5000
    assert set(list(ends.values())[1:]) == {"skipped"}
    assert board.told == [str(n) for n in range(5000)]


async def test_the_same_chain_is_skipped_when_its_beginning_is_not_there() -> None:
    """The other way into the chain: its first task is skipped before anything runs."""
    board = Board([task(str(n), str(n - 1)) for n in range(5000)])
    assert set((await board.run()).values()) == {"skipped"}


async def test_never_more_tasks_are_under_way_than_allowed() -> None:
    """D11: 500 tasks, five in flight; what is not begun is no asyncio task either."""
    most = 0

    async def way(_: Task) -> TaskEnd:
        nonlocal most
        most = max(most, sum(job.get_name().startswith("task ") for job in asyncio.all_tasks()))
        return MERGED

    board = Board([task(str(n)) for n in range(500)], way, in_flight=5)
    assert len(await board.run()) == 500
    assert board.peak == 5
    assert most <= 10  # those that have just ended may not be gone yet


BUGS = [
    ValueError("bug"),
    RecursionError(),
    KeyError("x"),
    ConfigError("odd"),
    RequestRefused("no"),
    OSError(errno.EIO, ""),
]


@pytest.mark.parametrize("error", BUGS, ids=lambda error: type(error).__name__)
async def test_an_error_of_one_task_never_touches_another(error: Exception) -> None:
    """D02: caught at its task, told with its traceback; the task is failed and the board goes on."""

    async def way(task: Task) -> TaskEnd:
        if task.id == "b":
            raise error
        return MERGED

    board = Board([task("a"), task("b"), task("c", "b"), task("d")], way)
    assert await board.run() == {"a": "merged", "b": "failed", "c": "skipped", "d": "merged"}
    assert board.states("b") == ["queued", "failed"]
    (warning,) = [event for event in board.events if isinstance(event, Warned)]
    assert warning.code == "internal_error"
    assert "Traceback" in warning.message
    assert type(error).__name__ in warning.message
    assert board.dispatcher.stopped_by is None


STOPPING = [
    BudgetReached("b"), KeyRefused("k"), ServerUnreachable("s"), StorageFull("d"), EnvironmentFault("e"),
    OSError(errno.ENOSPC, "no space"), OSError(errno.EDQUOT, "quota"),
]  # fmt: skip


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("error", STOPPING, ids=lambda error: f"{type(error).__name__}-{getattr(error, 'errno', '')}")
async def test_what_concerns_the_whole_run_parks_its_task_and_begins_nothing_new(
    error: Exception, grouped: bool
) -> None:
    """Budget, key, server, disk: the task stays open for `resume`, what is under way ends, nothing else begins."""
    other_may_end = asyncio.Event()

    async def way(task: Task) -> TaskEnd:
        if task.id == "stops":
            other_may_end.set()
            raise ExceptionGroup("steps side by side", [error]) if grouped else error
        await other_may_end.wait()
        return MERGED

    board = Board([task("other"), task("stops"), task("child", "stops"), task("next")], way, in_flight=2)
    assert await board.run() == {"other": "merged"}
    assert board.begun == ["other", "stops"]
    stopped = board.dispatcher.stopped_by
    assert type(stopped) is (StorageFull if isinstance(error, OSError) else type(error))
    assert board.states("stops") == ["queued"]
    assert not [event for event in board.events if isinstance(event, Warned)]
    assert board.activity.begun == 0


async def test_the_first_reason_to_stop_is_the_one_that_is_told() -> None:
    """Others that follow from it don't hide it."""

    async def way(task: Task) -> TaskEnd:
        raise KeyRefused(task.id)

    board = Board([task("a"), task("b")], way)
    assert await board.run() == {}
    assert str(board.dispatcher.stopped_by) == "a"


async def test_a_cancelled_run_ends_all_its_tasks() -> None:
    """D07, D08: cancel reaches everything that is under way, and nothing begins after it."""
    ended: list[str] = []
    all_begun = asyncio.Event()

    async def way(task: Task) -> TaskEnd:
        if task.id == "1":
            all_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(task.id)
        return MERGED

    board = Board([task(str(n)) for n in range(5)], way, in_flight=2)
    run = asyncio.create_task(board.run())
    await all_begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert sorted(ended) == ["0", "1"]
    assert board.begun == ["0", "1"]
    assert board.activity.begun == 0


async def test_a_board_without_tasks_ends_at_once() -> None:
    """Nothing to do is no reason to wait."""
    assert await Board([]).run() == {}


@st.composite
def boards(draw: st.DrawFn) -> tuple[list[Task], dict[str, str], int]:
    """A board without circles, in any order, with the fate of each task and the number that may be under way."""
    size = draw(st.integers(1, 12))
    tasks = []
    for number in range(size):
        parents = draw(st.sets(st.integers(-1, number - 1), max_size=3)) if number else set()
        tasks.append(task(str(number), *map(str, sorted(parents)), priority=draw(st.integers(0, 3))))
    fates = {t.id: draw(st.sampled_from(["merged", "merged", "merged", "failed", "needs_you", "bug"])) for t in tasks}
    return draw(st.permutations(tasks)), fates, draw(st.integers(1, 4))


@given(boards())
@settings(max_examples=150, deadline=None)
def test_every_task_ends_in_exactly_one_state_and_the_right_one(drawn: tuple[list[Task], dict[str, str], int]) -> None:
    """D04: on any board: a task runs once and only after its parents merged, or is skipped because one did not."""
    tasks, fates, in_flight = drawn

    async def way(task: Task) -> TaskEnd:
        for _ in range(int(task.id) % 3):
            await asyncio.sleep(0)
        assert all(parent in merged or parent == "-1" for parent in task.depends_on)
        if fates[task.id] == "bug":
            raise RuntimeError("a bug")
        return TaskEnd(state=fates[task.id], attempt=1)  # type: ignore[arg-type]

    merged: set[str] = set()
    expected: dict[str, str] = {}
    for one in sorted(tasks, key=lambda task: int(task.id)):
        good = all(parent == "-1" or expected[parent] == "merged" for parent in one.depends_on)
        expected[one.id] = {"bug": "failed"}.get(fates[one.id], fates[one.id]) if good else "skipped"
        if expected[one.id] == "merged":
            merged.add(one.id)
    board = Board(tasks, way, in_flight=in_flight, done=frozenset({"-1"}))
    ends = asyncio.run(board.run())
    assert ends == expected
    assert sorted(board.told) == sorted(expected)
    assert sorted(board.begun) == sorted(id_ for id_, state in expected.items() if state != "skipped")
    assert board.peak <= in_flight
    assert board.activity.begun == 0
