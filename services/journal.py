"""The record that replay reads: every answer a task waited for is here before the task goes on.

    steps = Journal(db, run, warn).attempt("T1", 1, rows)
    verdict = await steps.step("judge", digest(tree), Verdict, judge)   # runs `judge` once, ever; later only reads

A step is named by its place (run, task, attempt, seq) and checked by its kind and the hash of its inputs. When a
replay asks for something else than it recorded, the rest of that attempt's record is set aside (kept in
`journal_aside`), an event tells of it, and the attempt goes on for real: never a silent second payment. Order across
runs lives in `Sticky`.
"""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from taskyard.services import fault
from taskyard.services.database import Connection, Database, Migration

T = TypeVar("T")

MIGRATIONS = (
    Migration(
        "journal",
        1,
        """
        create table journal (
            run text not null, task text not null, attempt integer not null, seq integer not null,
            kind text not null, input_hash text not null, output blob not null,
            primary key (run, task, attempt, seq)
        ) without rowid;
        create table journal_aside (
            id integer primary key, run text, task text, attempt integer, seq integer, kind text, input_hash text,
            output blob
        );
        create table sticky_choice (key text primary key, output blob not null) without rowid;
        create table sticky_order (
            id integer primary key autoincrement, scope text not null, task text not null, attempt integer not null,
            unique (scope, task, attempt)
        );
        """,
    ),
)

_INSERT = "insert into journal values (?, ?, ?, ?, ?, ?, ?)"
_TASK = "select attempt, seq, kind, input_hash, output from journal where run = ? and task = ? order by attempt, seq"
_ASIDE = """insert into journal_aside (run, task, attempt, seq, kind, input_hash, output)
    select run, task, attempt, seq, kind, input_hash, output from journal
    where run = ? and task = ? and attempt = ? and seq >= ?"""
_CUT = "delete from journal where run = ? and task = ? and attempt = ? and seq >= ?"
_CHOICE = "select output from sticky_choice where key = ?"
_CHOOSE = "insert into sticky_choice values (?, ?) on conflict (key) do nothing"
_ORDER = "select task, attempt from sticky_order where scope = ? order by id"
_MET = "insert into sticky_order (scope, task, attempt) values (?, ?, ?) on conflict do nothing"


def digest(*parts: str | bytes) -> str:
    """A hash of the parts that can't be confused: each is length-prefixed. 32 hex digits of BLAKE2b."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "big"))
        state.update(data)
    return state.hexdigest()


class Row(msgspec.Struct, frozen=True):
    """One recorded step."""

    kind: str
    input_hash: str
    output: bytes


class Journal:
    """All steps of one run."""

    def __init__(self, db: Database, run: str, diverged: Callable[[str, int, str], None]) -> None:
        """diverged(task, attempt, what) is called when a replay asks for something else than was recorded."""
        self._db = db
        self._run = run
        self._diverged = diverged

    async def task(self, task: str) -> "TaskJournal":
        """What is on record for a task, read once."""
        rows = await self._db.read(lambda c: c.execute(_TASK, (self._run, task)).fetchall())
        recorded: dict[int, list[Row]] = {}
        for attempt, _seq, kind, input_hash, output in rows:
            recorded.setdefault(attempt, []).append(Row(kind, input_hash, output))
        return TaskJournal(self._db, self._run, task, recorded, self._diverged)


class TaskJournal:
    """The steps of one task, by attempt."""

    def __init__(
        self,
        db: Database,
        run: str,
        task: str,
        recorded: dict[int, list[Row]],
        diverged: Callable[[str, int, str], None],
    ) -> None:
        self._db = db
        self._run = run
        self._task = task
        self._recorded = recorded
        self._diverged = diverged

    def find(self, kind: str, type_: type[T]) -> T | None:
        """The output of the last recorded step of that kind, in any attempt that has not been taken up yet."""
        found = [row for rows in self._recorded.values() for row in rows if row.kind == kind]
        return msgspec.json.decode(found[-1].output, type=type_) if found else None

    def attempt(self, number: int) -> "Steps":
        """The steps of one attempt, from its beginning."""
        return Steps(self._db, self._run, self._task, number, self._recorded.pop(number, []), self._diverged)


class Steps:
    """One attempt's way through its record: first what is there, then new steps, each durable before the next."""

    def __init__(
        self,
        db: Database,
        run: str,
        task: str,
        attempt: int,
        rows: list[Row],
        diverged: Callable[[str, int, str], None],
    ) -> None:
        self.run = run
        self.task = task
        self.number = attempt
        self.seq = 0
        """The place of the next step."""
        self._db = db
        self._rows = rows
        self._diverged = diverged

    @property
    def replaying(self) -> bool:
        """Whether the next step is on record."""
        return self.seq < len(self._rows)

    def next_is(self, kind: str) -> bool:
        """Whether the next step is on record and of that kind."""
        return self.replaying and self._rows[self.seq].kind == kind

    async def peek(self, kind: str, input_hash: str) -> bytes | None:
        """The recorded output of the next step, and move past it; None when it has to be made for real."""
        if not self.replaying:
            return None
        row = self._rows[self.seq]
        if (row.kind, row.input_hash) != (kind, input_hash):
            await self._set_aside(f"step {self.seq + 1}, {kind}")
            return None
        self.seq += 1
        return row.output

    def writer(self, kind: str, input_hash: str, output: bytes) -> Callable[[Connection], None]:
        """A write of the next step, to be part of the caller's transaction; moves past it."""
        values = (self.run, self.task, self.number, self.seq, kind, input_hash, output)
        self.seq += 1

        def insert(connection: Connection) -> None:
            connection.execute(_INSERT, values)

        return insert

    async def step(self, kind: str, input_hash: str, type_: type[T], make: Callable[[], Awaitable[T]]) -> T:
        """The recorded output of this step; or else make it, commit it, and return it."""
        recorded = await self.peek(kind, input_hash)
        if recorded is not None:
            return msgspec.json.decode(recorded, type=type_)
        output = await make()
        fault.point("journal.step.before")
        await self._db.write(self.writer(kind, input_hash, msgspec.json.encode(output)))
        fault.point("journal.step.after")
        return output

    async def _set_aside(self, what: str) -> None:
        place = (self.run, self.task, self.number, self.seq)

        def cut(connection: Connection) -> None:
            connection.execute(_ASIDE, place)
            connection.execute(_CUT, place)

        await self._db.write(cut)
        del self._rows[self.seq :]
        self._diverged(self.task, self.number, what)


class Sticky:
    """What stays chosen across runs, so that an unchanged board on an unchanged base asks the same and pays nothing."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def choose(self, key: str, type_: type[T], make: Callable[[], Awaitable[T]]) -> T:
        """What was chosen for `key` by this or an earlier run; or else choose now, and keep it."""
        found = await self._db.read(lambda c: c.execute(_CHOICE, (key,)).fetchone())
        if found is None:
            chosen = msgspec.json.encode(await make())

            def keep(connection: Connection) -> Any:
                connection.execute(_CHOOSE, (key, chosen))
                return connection.execute(_CHOICE, (key,)).fetchone()

            found = await self._db.write(keep)
        return msgspec.json.decode(found[0], type=type_)

    async def order(self, scope: str) -> tuple[tuple[str, int], ...]:
        """(task digest, attempt) in the order in which they first met the tip within `scope`."""
        rows = await self._db.read(lambda c: c.execute(_ORDER, (scope,)).fetchall())
        return tuple((task, attempt) for task, attempt in rows)

    async def met(self, scope: str, task: str, attempt: int) -> None:
        """Record that a task meets the tip now; the first record of a place stays."""
        await self._db.write(lambda c: c.execute(_MET, (scope, task, attempt)))
