"""What people decided about tasks that wait for them. `taskyard decide` writes here from another process."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

import msgspec

from taskyard.services.database import Connection, Database, Migration

MIGRATIONS = (
    Migration(
        "decisions",
        1,
        """create table decision (
            id integer primary key autoincrement, run text not null, task text not null, attempt integer not null,
            action text not null, comment text not null, at real not null, taken integer not null default 0
        );
        create index decision_task on decision (run, task, attempt, taken);""",
    ),
)

Action = Literal["accept", "send-back", "reject", "retry"]

_POLL_S = 0.5
_ADD = "insert into decision (run, task, attempt, action, comment, at) values (?, ?, ?, ?, ?, ?)"
_LAST = """select id, action, comment from decision where run = ? and task = ? and attempt = ? and taken = 0
    order by id desc limit 1"""
_TAKE = "update decision set taken = 1 where run = ? and task = ? and attempt = ? and id <= ?"


class Decision(msgspec.Struct, frozen=True):
    """One decision. id: its row."""

    id: int
    action: Action
    comment: str = ""


class NobodyThere(Exception):
    """The run ends, and nobody has decided."""


class Decisions:
    """The decisions of one run. Each is about one attempt, the one a person looked at; the last word counts."""

    def __init__(self, db: Database, run: str) -> None:
        self._db = db
        self._run = run
        self._over = asyncio.Event()

    async def add(self, task: str, attempt: int, action: Action, comment: str, now: float) -> Decision | None:
        """Record a decision; gives the one that it replaces."""

        def write(connection: Connection) -> Decision | None:
            before = connection.execute(_LAST, (self._run, task, attempt)).fetchone()
            connection.execute(_ADD, (self._run, task, attempt, action, comment, now))
            return Decision(*before) if before else None

        return await self._db.write(write)

    async def wait(self, task: str, attempt: int) -> Decision:
        """The decision on an attempt of a task. Raises NobodyThere once the run has nobody to wait for."""
        while True:
            row = await self._db.read(lambda c: c.execute(_LAST, (self._run, task, attempt)).fetchone())
            if row is not None:
                return Decision(*row)
            if self._over.is_set():
                raise NobodyThere(task)
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_S):
                    await self._over.wait()

    async def taken(self, task: str, attempt: int, decision: Decision) -> None:
        """The decision is in the task's journal now; neither it nor what it replaced will be given again."""
        await self._db.write(lambda c: c.execute(_TAKE, (self._run, task, attempt, decision.id)))

    def give_up(self) -> None:
        """Whoever still waits gets NobodyThere."""
        self._over.set()


def when_only_people_are_left(only_people: Callable[[], bool], decisions: Decisions) -> Callable[[], None]:
    """A listener for `Activity`: without a screen, waiting for people ends once nothing else is under way."""

    def look() -> None:
        if only_people():
            decisions.give_up()

    return look
