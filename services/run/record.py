"""The run on record: what was asked, where each task stands, every event, and the totals over all of its lives."""

from typing import Literal

import msgspec

from taskyard.services.activity import Activity
from taskyard.services.clock import Clock
from taskyard.services.database import Connection, Database, Migration
from taskyard.services.events import Event, RequestCounts, RunFinished, SavedUsd, TaskStateChanged, Totals, encode
from taskyard.services.llm import Ledger, Served

MIGRATIONS = (
    Migration(
        "run",
        1,
        """
        create table run (
            id text primary key, board text not null, content blob not null, base text not null, options text not null,
            state text not null, exit integer, pid integer, started_at real not null, finished_at real
        ) without rowid;
        create table life (
            run text not null, number integer not null, started_at real not null, last_at real not null,
            work_s real not null default 0, primary key (run, number)
        ) without rowid;
        create table task_state (
            run text not null, task text not null, state text not null, attempt integer not null, detail text,
            place integer not null, primary key (run, task)
        ) without rowid;
        create table event (id integer primary key, run text not null, line blob not null);
        create index event_run on event (run, id);
        create table push (
            id integer primary key, run text not null, ref text not null, old text, new text not null,
            state text not null,
            at real not null
        );
        """,
    ),
)

_DIGITS = 9
"""Of a dollar: below the price of one token, above the noise of adding floats."""

RunState = Literal["running", "interrupted", "finished"]
PushState = Literal["pushing", "pushed", "refused", "lost"]

_NEW = "insert into run values (?, ?, ?, ?, ?, 'running', null, ?, ?, null)"
_ALIVE = "update run set state = 'running', pid = ?, exit = null, finished_at = null where id = ?"
_OVER = "update run set state = ?, exit = ?, pid = null, finished_at = ? where id = ?"
_GET = "select id, board, content, base, options, state, exit, pid, started_at from run"
_LATEST = "order by (select max(life.started_at) from life where life.run = run.id) desc"
_LIFE = "insert into life (run, number, started_at, last_at) select ?1, count(*), ?2, ?2 from life where run = ?1"
_LIVED = """update life set last_at = ?, work_s = ? where run = ?3
    and number = (select max(number) from life where run = ?3)"""
_EVENT = "insert into event (run, line) values (?, ?)"
_STATE = """insert into task_state select ?1, ?2, ?3, ?4, ?5, count(*) from task_state where run = ?1
    on conflict (run, task) do update
    set state = excluded.state, attempt = excluded.attempt, detail = excluded.detail"""
_STATES = "select task, state, attempt, detail from task_state where run = ? order by place"
_TIMES = "select coalesce(sum(last_at - started_at), 0), coalesce(sum(work_s), 0) from life where run = ?"
_ANSWERS = "select output from journal where run = ? and kind = 'answer'"
_LANDINGS = """select count(*) from event where run = ? and json_extract(cast(line as text), '$.event') = 'landing'
    and json_extract(cast(line as text), '$.step') = 'merging'"""
_PUSH = "insert into push (run, ref, old, new, state, at) values (?, ?, ?, ?, 'pushing', ?)"
_PUSHED = "update push set state = ? where id = ?"
_OPEN_PUSHES = "select id, ref, new from push where run = ? and state = 'pushing'"
_PUSHES = "select count(*) from push where run = ? and state in ('pushed', 'refused')"
_LAST_PUSH = "select new from push where run = ? and ref = ? and state = 'pushed' order by id desc limit 1"


class RunRow(msgspec.Struct, frozen=True):
    """One run as it is kept."""

    id: str
    board: str
    content: bytes
    """The board's bytes as the run read them."""
    base: str
    options: str
    """JSON of RunOptions."""
    state: RunState
    exit: int | None
    pid: int | None
    started_at: float


class TaskRow(msgspec.Struct, frozen=True):
    """Where a task stands."""

    task: str
    state: str
    attempt: int
    detail: str | None


class Record:
    """Reads and writes of one run's own tables. `keep` is a sink for events."""

    def __init__(self, db: Database, run: str, clock: Clock, activity: Activity) -> None:
        self._db = db
        self._run = run
        self._clock = clock
        self._activity = activity

    async def begin(self, board: str, content: bytes, base: str, options: str, pid: int) -> None:
        """Put a new run on record."""
        now = self._clock.now()

        def insert(connection: Connection) -> None:
            connection.execute(_NEW, (self._run, board, content, base, options, pid, now))
            connection.execute(_LIFE, (self._run, now))

        await self._db.write(insert)

    async def live_again(self, pid: int) -> None:
        """The run goes on, in another process."""
        now = self._clock.now()

        def update(connection: Connection) -> None:
            connection.execute(_ALIVE, (pid, self._run))
            connection.execute(_LIFE, (self._run, now))

        await self._db.write(update)

    async def over(self, state: RunState, exit_code: int) -> None:
        """The process ends; `interrupted` means that `resume` can go on."""
        await self._db.write(lambda c: c.execute(_OVER, (state, exit_code, self._clock.now(), self._run)))

    def keep(self, event: Event) -> None:
        """Store an event, the state that it tells of, and how long this life has lasted. Does not wait for the disk."""
        line = encode(event)
        lived = self._lived()

        def write(connection: Connection) -> None:
            connection.execute(_EVENT, (self._run, line))
            if not isinstance(event, RunFinished):  # its own figures stay the last ones
                connection.execute(_LIVED, lived)
            if isinstance(event, TaskStateChanged):
                connection.execute(_STATE, (self._run, event.task, event.state, event.attempt, event.detail))

        self._db.post(write)

    async def landings(self) -> int:
        """How many landings the run has begun so far."""
        return int(await self._db.read(lambda c: c.execute(_LANDINGS, (self._run,)).fetchone()[0]))

    async def touch(self) -> None:
        """This life has lasted until now; durable, with all events before it."""
        lived = self._lived()
        await self._db.write(lambda c: c.execute(_LIVED, lived))

    def _lived(self) -> tuple[float, float, str]:
        return self._clock.now(), self._activity.seconds("local-running"), self._run

    async def totals(self) -> Totals:
        """The figures of the run over all of its lives, from the ledger, the journal and the pushes."""
        spent = await Ledger(self._db).spent(self._run)
        answers = await self._db.read(lambda c: c.execute(_ANSWERS, (self._run,)).fetchall())
        served = [msgspec.json.decode(output, type=Served) for (output,) in answers]
        wall, work = await self._db.read(lambda c: c.execute(_TIMES, (self._run,)).fetchone())
        pushes = await self._db.read(lambda c: c.execute(_PUSHES, (self._run,)).fetchone()[0])
        by_source = {source: [item for item in served if item.source == source] for source in ("cache", "shared")}
        return Totals(
            cost_usd=_rounded(spent.cost_usd),
            possibly_paid_usd=_rounded(spent.possibly_paid_usd),
            saved_usd=SavedUsd(
                cache=round(sum(item.saved_usd or 0.0 for item in by_source["cache"]), _DIGITS),
                shared=round(sum(item.saved_usd or 0.0 for item in by_source["shared"]), _DIGITS),
                prompt_cache=round(spent.prompt_cache_usd, _DIGITS),
            ),
            requests=RequestCounts(
                paid=spent.paid,
                cache=len(by_source["cache"]),
                shared=len(by_source["shared"]),
                live=spent.paid,
            ),
            pushes=pushes,
            wall_s=round(wall, 3),
            work_s=round(work, 3),
            speedup=round((work + spent.seconds) / wall, 2) if wall > 0 else 0.0,
        )

    async def push_begins(self, ref: str, old: str | None, new: str) -> int:
        """Put the intent of a push on disk; its row."""
        values = (self._run, ref, old, new, self._clock.now())
        return await self._db.write(lambda c: int(c.execute(_PUSH, values).lastrowid or 0))

    async def push_ended(self, row: int, state: PushState) -> None:
        """A push's fate. `lost`: it never reached the remote."""
        await self._db.write(lambda c: c.execute(_PUSHED, (state, row)))

    async def open_pushes(self) -> tuple[tuple[int, str, str], ...]:
        """(row, ref, commit) of pushes whose fate a dead process left open."""
        return tuple(await self._db.read(lambda c: c.execute(_OPEN_PUSHES, (self._run,)).fetchall()))

    async def last_pushed(self, ref: str) -> str | None:
        """What this run last pushed to a ref."""
        row = await self._db.read(lambda c: c.execute(_LAST_PUSH, (self._run, ref)).fetchone())
        return None if row is None else str(row[0])


async def find_run(db: Database, id_: str | None, *, unfinished: bool = False) -> RunRow | None:
    """The run of that id, or (None) the latest one, or the latest that is not finished."""
    where, values = ("where id = ?", [id_]) if id_ else ("where state != 'finished'" if unfinished else "", [])
    sql = f"{_GET} {where} {_LATEST} limit 1"
    row = await db.read(lambda c: c.execute(sql, values).fetchone())
    return None if row is None else RunRow(*row)


async def unfinished_runs(db: Database) -> tuple[RunRow, ...]:
    """The runs that can be resumed, the latest first."""
    rows = await db.read(lambda c: c.execute(f"{_GET} where state != 'finished' {_LATEST}").fetchall())
    return tuple(RunRow(*row) for row in rows)


async def task_rows(db: Database, run: str) -> tuple[TaskRow, ...]:
    """Where each task of a run stands, in the order in which they were first heard of."""
    rows = await db.read(lambda c: c.execute(_STATES, (run,)).fetchall())
    return tuple(TaskRow(*row) for row in rows)


def _rounded(usd: float | None) -> float | None:
    return None if usd is None else round(usd, _DIGITS)
