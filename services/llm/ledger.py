"""The durable side of the gateway: paid answers by name, and the ledger of every submission.

A submission's row is committed as `submitting` before its POST leaves. It ends as `done` (in the same transaction as
the answer itself), `refused` (the server surely did not take it) or `possibly_paid` (nobody can tell). A row still
`submitting` when a process starts is the trace of a death in mid-request: possibly paid.
"""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from taskyard.services.database import Connection, Database, Migration
from taskyard.services.llm.answers import Answer, read_answer
from taskyard.services.llm.requests import Request
from taskyard.services.records import Lane

MIGRATIONS = (
    Migration(
        "llm",
        1,
        """
        create table answer (
            id integer primary key, name text not null, role text not null, model text not null, raw blob not null,
            good integer not null, created_at real not null, expires_at real, run text not null, task text not null,
            attempt integer not null, turn integer not null, cost_usd real
        );
        create index answer_name on answer (name);
        create table submission (
            id integer primary key autoincrement, name text not null, run text not null, task text not null,
            attempt integer not null, turn integer not null, role text not null, model text not null,
            lane text not null, state text not null,
            worst_case_usd real, cost_usd real, prompt_cache_usd real, started_at real not null, ended_at real,
            reason text
        );
        create index submission_run on submission (run, task, state);
        create table lookup (
            role text, model text, hits integer not null, misses integer not null, saved_usd real not null,
            primary key (role, model)
        ) without rowid;
        """,
    ),
)

State = Literal["submitting", "done", "refused", "possibly_paid"]

_OPEN = """insert into submission (name, run, task, attempt, turn, role, model, lane, state, worst_case_usd, started_at)
    values (?, ?, ?, ?, ?, ?, ?, ?, 'submitting', ?, ?)"""
_END = "update submission set state = ?, cost_usd = ?, prompt_cache_usd = ?, ended_at = ?, reason = ? where id = ?"
_STORE = "insert into answer values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_ANSWER = "select id, name, raw, good, run, task, attempt, turn, cost_usd, expires_at from answer"
_FIND = f"{_ANSWER} where name = ? order by id desc"
_BY_ID = f"{_ANSWER} where id = ?"
_LOST = "select id, name, model, worst_case_usd from submission where run = ? and state = 'submitting'"
_COUNT = """insert into lookup values (?, ?, ?, ?, ?) on conflict (role, model) do update set
    hits = hits + excluded.hits, misses = misses + excluded.misses, saved_usd = saved_usd + excluded.saved_usd"""
_PAID = """select count(*), sum(cost_usd), sum(prompt_cache_usd), count(*) - count(cost_usd), sum(ended_at - started_at)
    from submission where run = ? and state = 'done'"""
_DOUBT = """select count(*), sum(worst_case_usd), count(*) - count(worst_case_usd) from submission
    where run = ? and state = 'possibly_paid'"""
_COSTS = "select task, sum(cost_usd) from submission where run = ? and state = 'done' group by task"
_COST = """select sum(cost_usd) from submission
    where run = ?1 and task = ?2 and (?3 is null or attempt = ?3) and state = 'done'"""
_LOOKUPS = "select role, model, hits, misses, saved_usd from lookup order by role, model"
_SIZE = "select count(*), coalesce(sum(length(raw)), 0) from answer"


class Stored(msgspec.Struct, frozen=True):
    """An answer on disk and who paid for it."""

    id: int
    """The submission that brought it."""
    answer: Answer
    good: bool
    owner: tuple[str, str, int, int]
    """run, task, attempt and turn that it was paid for."""
    cost_usd: float | None
    expires_at: float | None


class Lost(msgspec.Struct, frozen=True):
    """A submission that a dead process left open."""

    id: int
    name: str
    model: str
    worst_case_usd: float | None


class Spent(msgspec.Struct, frozen=True):
    """What a run paid, from the ledger. A sum is None when one of its parts is unpriced."""

    paid: int
    cost_usd: float | None
    prompt_cache_usd: float
    possibly_paid: int
    possibly_paid_usd: float | None
    seconds: float
    """From POST to answer, summed over the paid answers; no waiting for a turn."""


class CacheStats(msgspec.Struct, frozen=True):
    """The result cache's figures over the life of the database."""

    entries: int
    bytes: int
    hits: int
    misses: int
    saved_usd: float
    by_role: dict[str, tuple[int, int]]
    """hits and misses."""
    by_model: dict[str, tuple[int, int]]

    @property
    def hit_rate(self) -> float:
        """hits / (hits + misses), 0 while nothing was looked up (C08)."""
        return self.hits / (self.hits + self.misses) if self.hits + self.misses else 0.0


class Ledger:
    """Reads and writes of the tables `answer`, `submission` and `lookup`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def find(self, name: str) -> tuple[Stored, ...]:
        """The answers of that name, whoever paid for them, latest first. None ever takes another's place."""
        rows = await self._db.read(lambda c: c.execute(_FIND, (name,)).fetchall())
        return tuple(_stored(row) for row in rows)

    async def get(self, id_: int) -> Stored | None:
        """The answer that a submission brought."""
        row = await self._db.read(lambda c: c.execute(_BY_ID, (id_,)).fetchone())
        return None if row is None else _stored(row)

    async def open(self, name: str, run: str, request: Request, lane: Lane, worst: float | None, now: float) -> int:
        """Put the intent on disk; returns the submission's id once it is durable."""
        values = (name, run, request.task, request.attempt, request.turn, request.role, request.model, lane, worst, now)

        def insert(connection: Connection) -> int:
            return int(connection.execute(_OPEN, values).lastrowid or 0)

        return await self._db.write(insert)

    async def end(self, submission: int, state: State, now: float, reason: str) -> None:
        """A submission ended without an answer."""
        await self._db.write(lambda c: c.execute(_END, (state, None, None, now, reason, submission)))

    async def done(self, stored: Stored, role: str, model: str, prompt_cache_usd: float | None, now: float) -> None:
        """The answer, the end of its submission and the count of the miss, in one transaction."""
        answer = stored.answer
        row = (
            stored.id,
            answer.name,
            role,
            model,
            answer.raw,
            int(stored.good),
            now,
            stored.expires_at,
            *stored.owner,
            stored.cost_usd,
        )

        def store(connection: Connection) -> None:
            connection.execute(_STORE, row)
            connection.execute(_END, ("done", stored.cost_usd, prompt_cache_usd, now, None, stored.id))
            connection.execute(_COUNT, (role, model, 0, 1, 0.0))

        await self._db.write(store)

    def count_hit(self, role: str, model: str, saved_usd: float | None) -> Callable[[Connection], object]:
        """The write that counts a hit, to be part of the transaction of the step that it serves."""
        return lambda connection: connection.execute(_COUNT, (role, model, 1, 0, saved_usd or 0.0))

    async def lost(self, run: str) -> tuple[Lost, ...]:
        """What a dead process of this run left open."""
        rows = await self._db.read(lambda c: c.execute(_LOST, (run,)).fetchall())
        return tuple(Lost(*row) for row in rows)

    async def spent(self, run: str) -> Spent:
        """The run's bill so far, over all its lives."""
        paid, cost, saved, unpriced, seconds = await self._db.read(lambda c: c.execute(_PAID, (run,)).fetchone())
        doubts, worst, unknown = await self._db.read(lambda c: c.execute(_DOUBT, (run,)).fetchone())
        return Spent(
            paid=paid,
            cost_usd=None if unpriced else cost or 0.0,
            prompt_cache_usd=saved or 0.0,
            possibly_paid=doubts,
            possibly_paid_usd=None if unknown else worst or 0.0,
            seconds=seconds or 0.0,
        )

    async def cost_by_task(self, run: str) -> dict[str, float]:
        """US dollars paid for each task of a run."""
        rows = await self._db.read(lambda c: c.execute(_COSTS, (run,)).fetchall())
        return {task: cost or 0.0 for task, cost in rows}

    async def cost(self, run: str, task: str, attempt: int | None) -> float:
        """US dollars paid for a task of a run, or for one attempt of it. Unpriced answers count 0."""
        row = await self._db.read(lambda c: c.execute(_COST, (run, task, attempt)).fetchone())
        return float(row[0] or 0.0)

    async def cache_stats(self) -> CacheStats:
        """Entries, bytes, hits, misses and dollars saved."""
        entries, size = await self._db.read(lambda c: c.execute(_SIZE).fetchone())
        rows = await self._db.read(lambda c: c.execute(_LOOKUPS).fetchall())
        by_role: dict[str, tuple[int, int]] = {}
        by_model: dict[str, tuple[int, int]] = {}
        for role, model, hits, misses, _saved in rows:
            for table, key in ((by_role, role), (by_model, model)):
                before = table.get(key, (0, 0))
                table[key] = (before[0] + hits, before[1] + misses)
        return CacheStats(
            entries, size, sum(r[2] for r in rows), sum(r[3] for r in rows), sum(r[4] for r in rows), by_role, by_model
        )


def _stored(row: tuple[Any, ...]) -> Stored:
    id_, name, raw, good, run, task, attempt, turn, cost, expires = row
    return Stored(id_, read_answer(name, raw), bool(good), (run, task, attempt, turn), cost, expires)
