"""The order in which tasks meet the tip: the same in a second run whatever the timing, and never a deadlock."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest

from taskyard.services import journal
from taskyard.services.activity import Activity
from taskyard.services.clock import SystemClock
from taskyard.services.database import Database
from taskyard.services.dispatch import Dispatcher
from taskyard.services.journal import Sticky
from taskyard.services.pipeline import Meeting, TaskEnd
from taskyard.services.records import Task

SCOPE = "scope"
PERSON = "waits for a person"


@pytest.fixture
async def sticky(tmp_path: Path) -> AsyncIterator[Sticky]:
    db = await Database.open(tmp_path / "t.db", journal.MIGRATIONS)
    yield Sticky(db)
    await db.close()


class Runs:
    """One run of a board, begun by the real dispatcher, whose tasks reach the tip in a seeded, random order."""

    def __init__(
        self, sticky: Sticky, plan: Mapping[str, Sequence[str]], *, texts: Mapping[str, str] | None = None
    ) -> None:
        """plan: {task: how each attempt ends at the tip: "lands" or "conflicts"; or PERSON}."""
        self.sticky = sticky
        self.plan = plan
        self.texts = texts or {task: f"text of {task}" for task in plan}
        self.queue: list[tuple[str, int]] = []
        """(task, attempt) in the order in which they stood in the merge queue."""
        self.needs: dict[str, str] = {}
        """{task: the task that it depends on}."""
        self.most = 1000
        """How many tasks may be under way."""

    async def run(self, seed: int) -> list[tuple[str, int]]:
        self.rng = random.Random(seed)
        self.activity = Activity(SystemClock())
        texts = {task: self.texts[task] for task in self.plan}
        self.meeting = Meeting(self.sticky, self.activity, SCOPE, await self.sticky.order(SCOPE), texts)
        self.nobody = asyncio.Event()
        self.activity.listen(lambda: self.nobody.set() if self.activity.only_at("person") else None)
        names = list(self.plan)
        self.rng.shuffle(names)
        tasks = [
            Task(name, name, name, "open", 1, depends_on=(self.needs[name],) if name in self.needs else ())
            for name in names
        ]
        dispatcher = Dispatcher(
            tasks, self._task, done=frozenset(), activity=self.activity, max_in_flight=self.most,
            emit=lambda _: None, ended=self.meeting.ended,
        )  # fmt: skip
        async with asyncio.timeout(60):
            await dispatcher.run()
        return self.queue

    async def _task(self, task: Task, _: Sequence[TaskEnd]) -> TaskEnd:
        for number, fate in enumerate(self.plan[task.id], 1):
            self.meeting.attempt(task.id, number)
            await _a_while(self.rng)
            if fate == PERSON:
                with self.activity.at(task.id, "person"):
                    await self.nobody.wait()
                return TaskEnd(state="needs_you", attempt=number)
            await self.meeting.turn(task.id, number)
            self.meeting.submitted(task.id, number)
            self.queue.append((task.id, number))
            with self.activity.at(task.id, "landing"):
                await _a_while(self.rng)
        return TaskEnd(state="merged", attempt=1)


async def _a_while(rng: random.Random) -> None:
    for _ in range(rng.randrange(8)):
        await asyncio.sleep(0)


PLAN = {
    "A": ["lands"],
    "B": ["conflicts", "lands"],
    "C": ["lands"],
    "D": ["conflicts", "conflicts", "lands"],
    "E": ["lands"],
    "F": ["conflicts", "lands"],
}


@pytest.mark.parametrize("seed", range(12))
async def test_a_second_run_meets_the_tip_in_the_order_of_the_first(sticky: Sticky, seed: int) -> None:
    """Whatever the timing, so that the same tasks conflict and nothing new is asked of the model."""
    first = await Runs(sticky, PLAN).run(seed)
    assert await sticky.order(SCOPE) == tuple((f"text of {task}", number) for task, number in first)
    for other in range(seed + 100, seed + 108):
        assert await Runs(sticky, PLAN).run(other) == first


@pytest.mark.parametrize("most", [1, 2, 3])
async def test_few_places_under_way_do_not_deadlock(sticky: Sticky, most: int) -> None:
    """When those under way wait for one that could not begin, the first in line goes."""
    await Runs(sticky, PLAN).run(1)
    for seed in range(5):
        runs = Runs(sticky, PLAN)
        runs.most = most
        assert sorted(await runs.run(seed)) == sorted((t, n) for t in PLAN for n in range(1, len(PLAN[t]) + 1))


@pytest.mark.parametrize("seed", range(8))
async def test_an_edited_board_goes_through(sticky: Sticky, seed: int) -> None:
    """Tasks that are gone, new, edited, landing sooner or later: all come through, the rest in order."""
    before = [task for task, number in await Runs(sticky, PLAN).run(seed) if number == 1]
    edited = {"B": ["lands"], "C": ["lands"], "D": ["conflicts", "lands"], "E": ["conflicts", "lands"], "N": ["lands"]}
    texts = {task: f"text of {task}" for task in edited} | {"C": "another text"}
    runs = Runs(sticky, edited, texts=texts)
    queue = await runs.run(seed + 1)
    assert sorted(queue) == sorted((t, n) for t in edited for n in range(1, len(edited[t]) + 1))
    kept = [task for task in before if task in {"B", "D", "E"}]
    assert [task for task, number in queue if number == 1 and task in kept] == kept


@pytest.mark.parametrize("seed", range(8))
async def test_dependencies_the_other_way_round_do_not_deadlock(sticky: Sticky, seed: int) -> None:
    """A task waits for one that now begins after it: when all wait, the first in line goes."""
    plan = {"A": ["lands"], "B": ["lands"], "C": ["lands"]}
    runs = Runs(sticky, plan)
    runs.needs = {"B": "A", "C": "B"}
    assert [task for task, _ in await runs.run(seed)] == ["A", "B", "C"]
    runs = Runs(sticky, plan)
    runs.needs = {"A": "B", "B": "C"}
    assert [task for task, _ in await runs.run(seed)] == ["C", "B", "A"]


@pytest.mark.parametrize("seed", range(8))
async def test_nobody_waits_for_one_who_waits_for_a_person(sticky: Sticky, seed: int) -> None:
    """A predecessor that now needs a person holds up the others only while anything else is under way."""
    await Runs(sticky, PLAN).run(seed)
    changed = PLAN | {"A": [PERSON], "D": ["conflicts", PERSON]}
    queue = await Runs(sticky, changed).run(seed + 50)
    assert {task for task, _ in queue} == {"B", "C", "D", "E", "F"}


@pytest.mark.parametrize("seed", range(8))
async def test_a_predecessor_that_fails_before_the_tip_is_not_waited_for(sticky: Sticky, seed: int) -> None:
    """Its end says that it will not come."""
    first = await Runs(sticky, PLAN).run(seed)
    queue = await Runs(sticky, PLAN | {"A": [], "F": ["conflicts"]}).run(seed + 9)
    assert queue == [entry for entry in first if entry not in {("A", 1), ("F", 2)}]


async def test_a_cancelled_waiter_is_forgotten(sticky: Sticky) -> None:
    """Its place in line is free, and the others still get their turn."""
    for task in ("A", "B", "C"):
        await sticky.met(SCOPE, f"text of {task}", 1)
    activity = Activity(SystemClock())
    texts = {task: f"text of {task}" for task in "ABC"}
    meeting = Meeting(sticky, activity, SCOPE, await sticky.order(SCOPE), texts)
    for task in "ABC":
        activity.begin(task)
    waiting = {task: asyncio.create_task(meeting.turn(task, 1)) for task in "BC"}
    while activity.count("dependency") < 2:  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0)
    waiting["B"].cancel()
    await asyncio.wait([waiting["B"]])
    activity.end("B")
    meeting.ended("B")
    assert not waiting["C"].done()
    await meeting.turn("A", 1)
    meeting.submitted("A", 1)
    await asyncio.wait_for(waiting["C"], 30)


async def test_an_earlier_attempt_that_failed_before_the_tip_is_not_waited_for(sticky: Sticky) -> None:
    """A task that works on its second attempt will not bring its first one any more."""
    for task, number in (("A", 1), ("B", 1), ("A", 2)):
        await sticky.met(SCOPE, f"text of {task}", number)
    activity = Activity(SystemClock())
    texts = {task: f"text of {task}" for task in "AB"}
    meeting = Meeting(sticky, activity, SCOPE, await sticky.order(SCOPE), texts)
    for task in "AB":
        activity.begin(task)
    waiting = asyncio.create_task(meeting.turn("B", 1))
    while activity.count("dependency") < 1:  # noqa: ASYNC110 - what is waited for has no event
        await asyncio.sleep(0)
    meeting.attempt("A", 2)
    await asyncio.wait_for(waiting, 30)
    assert activity.busy == 2
