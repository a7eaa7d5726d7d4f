"""What people decided about tasks that wait for them. `taskyard decide` writes here from another process."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

import msgspec

from taskyard.services.database import Database, Migration

MIGRATIONS = (
    Migration(
        "decisions",
        1,
        """create table decision (
            id integer primary key, run text not null, task text not null, action text not null, comment text not null,
            at real not null, taken integer not null default 0
        );
        create index decision_task on decision (run, task, taken);""",
    ),
)

Action = Literal["accept", "send-back", "reject", "retry"]

_POLL_S = 0.5
_ADD = "insert into decision (run, task, action, comment, at) values (?, ?, ?, ?, ?)"
_NEXT = "select id, action, comment from decision where run = ? and task = ? and taken = 0 order by id limit 1"
_TAKE = "update decision set taken = 1 where id = ?"


class Decision(msgspec.Struct, frozen=True):
    """One decision. id: its row."""

    id: int
    action: Action
    comment: str = ""


class NobodyThere(Exception):
    """The run ends, and nobody has decided."""


class Decisions:
    """The decisions of one run."""

    def __init__(self, db: Database, run: str) -> None:
        self._db = db
        self._run = run
        self._over = asyncio.Event()

    async def add(self, task: str, action: Action, comment: str, now: float) -> None:
        """Record a decision."""
        await self._db.write(lambda c: c.execute(_ADD, (self._run, task, action, comment, now)))

    async def wait(self, task: str) -> Decision:
        """The next decision on a task. Raises NobodyThere once the run has nobody to wait for."""
        while True:
            row = await self._db.read(lambda c: c.execute(_NEXT, (self._run, task)).fetchone())
            if row is not None:
                return Decision(*row)
            if self._over.is_set():
                raise NobodyThere(task)
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self._over.wait()

    async def taken(self, decision: Decision) -> None:
        """The decision is in the task's journal now; it won't be given again."""
        await self._db.write(lambda c: c.execute(_TAKE, (decision.id,)))

    def give_up(self) -> None:
        """Whoever still waits gets NobodyThere."""
        self._over.set()


def when_only_people_are_left(only_people: Callable[[], bool], decisions: Decisions) -> Callable[[], None]:
    """A listener for `Activity`: without a screen, waiting for people ends once nothing else is under way."""

    def look() -> None:
        if only_people():
            decisions.give_up()

    return look
