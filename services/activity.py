"""Where each task is now. Quiescence, the moment at which nothing more can join a pool, is computed from it.

activity.begin("T1")
with activity.at("T1", "in-flight"):
    ...                                  # a live model call
async with slots.hold("T1"):             # local-queued, then local-running
    ...
activity.end("T1")
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Literal, get_args

from taskyard.services.clock import Clock

Place = Literal["local-running", "local-queued", "pooled", "in-flight", "landing", "dependency", "person", "backoff"]

_LOCAL: tuple[Place, ...] = ("local-running", "local-queued")


class Activity:
    """The place of every task that was begun and has not ended. One in none of the eight is busy between two."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._places: dict[str, list[list[Place]]] = {}
        self._counts: Counter[Place] = Counter()
        self._seconds: dict[Place, float] = dict.fromkeys(get_args(Place), 0.0)
        self._since = clock.monotonic()
        self._listeners: list[Callable[[], None]] = []

    def listen(self, changed: Callable[[], None]) -> None:
        """Call `changed` after every move. It must be quick and must not move a task itself."""
        self._listeners.append(changed)

    def begin(self, task: str) -> None:
        """The task is under way."""
        self._leave(self._places.pop(task, []))
        self._places[task] = []
        self._told()

    def end(self, task: str) -> None:
        """The task has ended, wherever it was."""
        self._leave(self._places.pop(task, []))
        self._told()

    @contextmanager
    def at(self, task: str, place: Place) -> Iterator[None]:
        """The task is at `place` while the block runs, then where it was before."""
        stack = self._places.get(task)
        if stack is None:  # it has ended: only a shared flight's back-off still speaks of it
            yield
            return
        mark = [place]  # removed by identity, since a flight's back-off and its waiter may leave in any order
        self._leave(stack)
        stack.append(mark)
        self._enter(stack)
        try:
            yield
        finally:
            if self._places.get(task) is stack:
                self._leave(stack)
                stack[:] = [other for other in stack if other is not mark]
                self._enter(stack)

    def place(self, task: str) -> Place | None:
        """Where the task is; None while it is busy between places or not under way."""
        stack = self._places.get(task)
        return stack[-1][0] if stack else None

    def count(self, place: Place) -> int:
        """How many tasks are at `place`."""
        return self._counts[place]

    @property
    def begun(self) -> int:
        """How many tasks are under way."""
        return len(self._places)

    @property
    def busy(self) -> int:
        """How many tasks are between two places: about to move on without outside help."""
        return self.begun - sum(self._counts.values())

    def seconds(self, place: Place) -> float:
        """Task-seconds spent at `place` so far."""
        self._account()
        return self._seconds[place]

    def only_at(self, *places: Place) -> bool:
        """True when tasks are under way and every one of them is at one of `places`."""
        return self.begun > 0 and sum(self._counts[place] for place in places) == self.begun

    @property
    def quiescent(self) -> bool:
        """True when no task can go on by itself: nothing local, live or landing, so nothing can join a pool soon."""
        return self.busy == 0 and not any(self._counts[p] for p in (*_LOCAL, "in-flight", "landing"))

    def _enter(self, stack: list[list[Place]]) -> None:
        self._account()
        if stack:
            self._counts[stack[-1][0]] += 1
        self._told()

    def _leave(self, stack: list[list[Place]]) -> None:
        self._account()
        if stack:
            self._counts[stack[-1][0]] -= 1

    def _account(self) -> None:
        now = self._clock.monotonic()
        for place, count in self._counts.items():
            if count:
                self._seconds[place] += (now - self._since) * count
        self._since = now

    def _told(self) -> None:
        for listener in self._listeners:
            listener()


class Slots:
    """The places for local steps: at most `size` at once, first come first served."""

    def __init__(self, size: int, activity: Activity) -> None:
        self.size = size
        self._free = asyncio.Semaphore(size)
        self._activity = activity

    @asynccontextmanager
    async def hold(self, task: str) -> AsyncIterator[None]:
        """Wait for a slot (local-queued) and hold it (local-running) while the block runs."""
        with self._activity.at(task, "local-queued"):
            await self._free.acquire()
        try:
            with self._activity.at(task, "local-running"):
                yield
        finally:
            self._free.release()
