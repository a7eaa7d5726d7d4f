"""A gateway over the real practice server, in as many lives as a test needs, all on one database file."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from taskyard.services import journal, llm
from taskyard.services.activity import Activity, Place
from taskyard.services.clock import SystemClock
from taskyard.services.database import Database
from taskyard.services.events import AnswerGiven, Event, PossiblyPaid
from taskyard.services.journal import Journal
from taskyard.services.llm import Answer, Budget, Endpoint, Gateway, LiveLane, Patience, PriceTable, Request
from taskyard.services.practice import Fault, PracticeServer, Reply
from taskyard.services.records import Role

QUICK = Patience(backoff_s=0.01, backoff_max_s=0.02)
LONG_S = 60.0


class ShiftedClock(SystemClock):
    """The machine's clock, but for days that are said to have passed."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def now(self) -> float:
        return super().now() + self.ahead_s


class Brain:
    """Answers with a tool call that says how often it was asked; may be held up, or told to do something first."""

    def __init__(self) -> None:
        self.asked: list[Mapping[str, Any]] = []
        self.entered = threading.Event()
        self.go = threading.Event()
        self.go.set()
        self.before: Callable[[], object] = lambda: None
        self.reply: Callable[[int], Reply] = lambda number: Reply(
            [{"type": "tool_use", "name": "note", "input": {"number": number}}], "tool_use"
        )
        self._lock = threading.Lock()

    def __call__(self, body: Mapping[str, Any]) -> Reply:
        with self._lock:
            self.asked.append(body)
            number = len(self.asked)
        self.before()
        self.entered.set()
        assert self.go.wait(LONG_S)
        return self.reply(number)


@dataclass
class Life:
    """One life of a process: a gateway and what it told."""

    run: str
    db: Database
    gateway: Gateway
    journal: Journal
    activity: Activity
    budget: Budget
    events: list[Event]
    _begun: set[str] = field(default_factory=set)

    async def ask(
        self,
        task: str = "T1",
        prompt: str = "hello",
        *,
        attempt: int = 1,
        turn: int = 1,
        role: Role = "planner",
        **changes: Any,
    ) -> Answer:
        """Ask as the first step of that attempt, on the record of this life's run."""
        params = {
            "model": "claude-sonnet-5-5",
            "max_tokens": 500,
            "messages": [{"role": "user", "content": prompt}],
            "tools": [{"name": "note", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "any"},
        } | changes
        if task not in self._begun:
            self._begun.add(task)
            self.activity.begin(task)
        request = Request(params=params, role=role, task=task, attempt=attempt, turn=turn)
        steps = (await self.journal.task(task)).attempt(attempt)
        return await self.gateway.ask(request, steps)

    async def until(self, place: Place, count: int) -> None:
        """Wait until so many tasks are at a place."""
        changed = asyncio.Event()
        self.activity.listen(changed.set)
        async with asyncio.timeout(LONG_S):
            while self.activity.count(place) < count:
                changed.clear()
                await changed.wait()

    @property
    def answers(self) -> list[AnswerGiven]:
        return [event for event in self.events if isinstance(event, AnswerGiven)]

    @property
    def sources(self) -> list[str]:
        return [event.source for event in self.answers]

    @property
    def doubts(self) -> list[PossiblyPaid]:
        return [event for event in self.events if isinstance(event, PossiblyPaid)]


class Desk:
    """The file, the server and the lives of one test."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.brain = Brain()
        self.clock = ShiftedClock()
        self.on_event: Callable[[Event], object] = lambda _: None
        self.server = PracticeServer(model=self.brain).start()

    @asynccontextmanager
    async def life(
        self,
        run: str = "r1",
        *,
        limit_usd: float | None = None,
        live_requests: int = 50,
        cache: llm.CacheMode = "on",
        ttl_s: float | None = None,
        patience: Patience = QUICK,
        timeout_s: float = LONG_S,
        endpoint: Endpoint | None = None,
    ) -> AsyncIterator[Life]:
        """Open the file and start a gateway; both are closed at the end."""
        db = await Database.open(self.path, [*journal.MIGRATIONS, *llm.MIGRATIONS])
        events: list[Event] = []

        def hear(event: Event) -> None:
            events.append(event)
            self.on_event(event)

        activity, budget = Activity(self.clock), Budget(limit_usd, 0.0)
        lane = LiveLane(endpoint or Endpoint(base_url=self.server.url, api_key="any"), timeout_s)
        gateway = Gateway(
            db=db, run=run, lane=lane, prices=PriceTable.load(None), budget=budget, activity=activity, clock=self.clock,
            emit=hear, live_requests=live_requests, cache=cache, ttl_s=ttl_s, patience=patience,
        )  # fmt: skip
        try:
            yield Life(run, db, gateway, Journal(db, run, lambda *_: None), activity, budget, events)
        finally:
            await gateway.close()
            await db.close()

    def arm(self, *faults: Fault) -> None:
        self.server.faults.arm(faults)

    def rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """What another process would read from the file now."""
        connection = sqlite3.connect(self.path)
        try:
            return connection.execute(sql).fetchall()
        finally:
            connection.close()

    @property
    def states(self) -> list[str]:
        """The state of every submission, in the order in which they were made."""
        return [state for (state,) in self.rows("select state from submission order by id")]

    @property
    def posts(self) -> int:
        """Requests that reached the server, answered or not."""
        return int(self.server.ledger.snapshot()["requests"])

    @property
    def paid(self) -> int:
        """Payments that the server took."""
        return sum(self.server.ledger.paid().values())


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path / "taskyard.db")
    yield made
    made.brain.go.set()
    made.server.close()
    assert made.server.crashes == ()
