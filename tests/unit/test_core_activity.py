"""Where each task is: the eight places, the seconds spent there, and quiescence."""

import asyncio
from contextlib import AbstractContextManager, ExitStack
from typing import get_args

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from taskyard.services.activity import Activity, Place, Slots

PLACES: tuple[Place, ...] = get_args(Place)
WAITING: set[Place] = {"pooled", "dependency", "person", "backoff"}


class HandClock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.time = 100.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time


def test_there_are_the_eight_places_of_the_design() -> None:
    """The places are a contract: quiescence is computed from them, screens name them."""
    assert set(PLACES) == {
        "local-running", "local-queued", "pooled", "in-flight", "landing", "dependency", "person", "backoff",
    }  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_quiescence_by_place(place: Place) -> None:
    """Truth table: local, live and landing tasks can still add to a pool; all other places wait for outside help."""
    activity = Activity(HandClock())
    activity.begin("T1")
    activity.begin("T2")
    with activity.at("T1", "pooled"), activity.at("T2", place):
        assert activity.place("T2") == place
        assert activity.quiescent == (place in WAITING)


def test_a_task_between_two_places_is_not_quiescent() -> None:
    """A busy task is about to move on by itself, so a flush would come too early."""
    activity = Activity(HandClock())
    assert activity.quiescent
    activity.begin("T1")
    assert (activity.busy, activity.quiescent, activity.place("T1")) == (1, False, None)
    with activity.at("T1", "pooled"):
        assert (activity.busy, activity.quiescent) == (0, True)
    assert not activity.quiescent
    activity.end("T1")
    assert (activity.begun, activity.quiescent) == (0, True)


def test_only_at_is_about_tasks_that_are_under_way() -> None:
    """Nobody under way is not "only people are left"."""
    activity = Activity(HandClock())
    assert not activity.only_at("person")
    activity.begin("T1")
    activity.begin("T2")
    with activity.at("T1", "person"):
        assert not activity.only_at("person")
        with activity.at("T2", "dependency"):
            assert not activity.only_at("person")
            assert activity.only_at("person", "dependency")


def test_an_inner_place_hides_the_outer_one_and_gives_it_back() -> None:
    """A flight that backs off is in back-off, and afterwards in flight again; a task is never at two places."""
    activity = Activity(HandClock())
    activity.begin("T1")
    with activity.at("T1", "in-flight"):
        with activity.at("T1", "backoff"):
            assert [activity.count(place) for place in ("in-flight", "backoff")] == [0, 1]
        assert [activity.count(place) for place in ("in-flight", "backoff")] == [1, 0]
    assert activity.place("T1") is None


def test_seconds_are_task_seconds() -> None:
    """D12: two tasks at a place for three seconds are six task-seconds, and waiting is told apart from running."""
    clock = HandClock()
    activity = Activity(clock)
    activity.begin("T1")
    activity.begin("T2")
    clock.time += 1000
    with activity.at("T1", "local-running"):
        clock.time += 1
        with activity.at("T2", "local-running"):
            clock.time += 3
            assert activity.seconds("local-running") == pytest.approx(7)
        with activity.at("T2", "local-queued"):
            clock.time += 0.5
    clock.time += 1000
    assert activity.seconds("local-running") == pytest.approx(7.5)
    assert activity.seconds("local-queued") == pytest.approx(0.5)
    assert sum(activity.seconds(place) for place in PLACES) == pytest.approx(8)


def test_every_move_is_told() -> None:
    """A listener hears of each change after it was made."""
    activity = Activity(HandClock())
    seen: list[tuple[int, Place | None]] = []
    activity.listen(lambda: seen.append((activity.begun, activity.place("T1"))))
    activity.begin("T1")
    with activity.at("T1", "landing"):
        pass
    activity.end("T1")
    assert seen == [(1, None), (1, "landing"), (1, None), (0, None)]


async def test_slots_let_in_so_many_and_in_order() -> None:
    """Never more than `size` local steps at once, first come first served; who waits is local-queued."""
    activity = Activity(HandClock())
    slots = Slots(2, activity)
    go = [asyncio.Event() for _ in range(5)]
    order: list[int] = []

    async def step(number: int) -> None:
        activity.begin(str(number))
        async with slots.hold(str(number)):
            order.append(number)
            await go[number].wait()
        activity.end(str(number))

    async def settle() -> tuple[int, int]:
        for _ in range(10):
            await asyncio.sleep(0)
        return activity.count("local-running"), activity.count("local-queued")

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(step(number)) for number in range(5)]
        assert await settle() == (2, 3)
        tasks[2].cancel()  # while it waits: it takes nobody's slot with it
        go[1].set()
        assert await settle() == (2, 1)
        tasks[0].cancel()  # while it holds one
        assert await settle() == (2, 0)
        go[3].set()
        go[4].set()
    assert order == [0, 1, 3, 4]
    assert activity.count("local-running") == activity.count("local-queued") == 0


class Moves(RuleBasedStateMachine):
    """Tasks begin, move in and out of places in any order, and end in mid-place."""

    visits = Bundle("visits")

    def __init__(self) -> None:
        super().__init__()
        self.clock = HandClock()
        self.activity = Activity(self.clock)
        self.model: dict[str, list[tuple[int, Place]]] = {}
        self.lives: dict[str, int] = {}
        self.serial = 0
        self.seconds = dict.fromkeys(PLACES, 0.0)

    @rule(task=st.sampled_from("ABC"))
    def begin(self, task: str) -> None:
        self.activity.begin(task)
        self.model[task] = []
        self.lives[task] = self.lives.get(task, 0) + 1

    @rule(task=st.sampled_from("ABC"))
    def end(self, task: str) -> None:
        self.activity.end(task)
        self.model.pop(task, None)

    @rule(target=visits, task=st.sampled_from("ABC"), place=st.sampled_from(PLACES))
    def enter(self, task: str, place: Place) -> tuple[AbstractContextManager[None], str, int, int]:
        visit = self.activity.at(task, place)
        visit.__enter__()
        self.serial += 1
        if task in self.model:
            self.model[task].append((self.serial, place))
        return visit, task, self.lives.get(task, 0) if task in self.model else -1, self.serial

    @rule(visit=consumes(visits))
    def leave(self, visit: tuple[AbstractContextManager[None], str, int, int]) -> None:
        manager, task, life, serial = visit
        manager.__exit__(None, None, None)
        if task in self.model and self.lives[task] == life:
            self.model[task] = [mark for mark in self.model[task] if mark[0] != serial]

    @rule(seconds=st.integers(1, 9))
    def wait(self, seconds: int) -> None:
        for marks in self.model.values():
            if marks:
                self.seconds[marks[-1][1]] += seconds
        self.clock.time += seconds

    @invariant()
    def counts_are_those_of_the_model(self) -> None:
        now = [marks[-1][1] for marks in self.model.values() if marks]
        assert {place: self.activity.count(place) for place in PLACES} == {place: now.count(place) for place in PLACES}
        assert self.activity.begun == len(self.model)
        assert self.activity.busy == len(self.model) - len(now) >= 0
        assert self.activity.quiescent == (len(now) == len(self.model) and set(now) <= WAITING)

    @invariant()
    def seconds_are_those_of_the_model(self) -> None:
        assert {place: self.activity.seconds(place) for place in PLACES} == pytest.approx(self.seconds)


TestMoves = Moves.TestCase


def test_places_of_one_task_may_be_left_in_any_order() -> None:
    """A shared flight's back-off and its waiter leave in the order in which they end, not in that of a stack."""
    activity = Activity(HandClock())
    activity.begin("T1")
    with ExitStack() as inner:
        with ExitStack() as outer:
            outer.enter_context(activity.at("T1", "in-flight"))
            inner.enter_context(activity.at("T1", "backoff"))
        assert activity.place("T1") == "backoff"
    assert activity.place("T1") is None
