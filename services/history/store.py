"""Attempts on record, within limits."""

import asyncio
import math
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET

from taskyard.services import fault
from taskyard.services.clock import Clock, rfc3339
from taskyard.services.database import Connection, Database
from taskyard.services.errors import EnvironmentFault, TaskyardError, UsageError
from taskyard.services.history import archive, tables
from taskyard.services.history.records import (
    AttemptKey,
    AttemptLine,
    AttemptRecord,
    Changes,
    HistoryStats,
    Limits,
    Metrics,
    Pruned,
)
from taskyard.services.records import TaskState

TRIGGER = 0.9
"""A prune begins when this part of a limit is used …"""
TARGET = 0.75
"""… and goes on down to this one, so that the next adds need none."""
GROWTH_S = 600.0

_STEP = 1_000
_RETRY_S = 60.0
_Candidate = tuple[str, str, int, int, float, int]
_Candidates = list[_Candidate]  # inside the class `list` is the method
_metrics = msgspec.json.Decoder(Metrics).decode


class History:
    """Every attempt of every run: what a person looks up later. Replay never reads it.

        history = History(db, clock, limits=Limits(max_entries=1000), archive_folder=folder)
        await history.add(AttemptRecord(run="r1", task="T1", attempt=1, status="planning", start=clock.now()))
        await history.update(AttemptKey("r1", "T1", 1), Changes(status="merged", end=clock.now()))

    limits: when an add or update leaves 90 % of one in use, or an attempt too old, the oldest finished ones are pruned,
    down to 75 %. Unfinished attempts and the newest finished one always stay, and so do those of the runs that
    `protected` names.
    archive_folder: where pruned attempts are written before they are deleted; None: they are gone.
    warn: told when an automatic prune fails; everything is kept, and it is tried again after a minute.
    """

    def __init__(
        self,
        db: Database,
        clock: Clock,
        *,
        limits: Limits | None = None,
        archive_folder: Path | None = None,
        warn: Callable[[str], None] | None = None,
        protected: Callable[[], Collection[str]] = tuple,
    ) -> None:
        self._db = db
        self._clock = clock
        self._limits = limits or Limits()
        self._archive = archive_folder
        self._warn = warn
        self._protected = protected
        self._pruning = asyncio.Lock()
        self._not_before = -math.inf

    async def add(self, record: AttemptRecord) -> None:
        """Put an attempt on record; durable when this returns. The same key again replaces it (a replay).

        Raises UsageError for a value of the wrong type.
        """
        _check(msgspec.structs.asdict(record), AttemptRecord, record.key)
        row = (*map(_stored, msgspec.structs.astuple(record)), self._clock.now())
        await self._db.write(lambda connection: connection.execute(tables.ADD, row))
        await self.maybe_prune()

    async def update(self, key: AttemptKey, changes: Changes) -> None:
        """Change some fields of an attempt. Raises UsageError for a wrong type, TaskyardError for an unknown key."""
        fields = {name: value for name, value in msgspec.structs.asdict(changes).items() if value is not UNSET}
        _check(fields, Changes, key)
        if not fields:
            return
        sql = tables.UPDATE.format(fields=", ".join(f"{name} = ?" for name in fields))
        row = (*map(_stored, fields.values()), self._clock.now(), key.run, key.task, key.attempt)
        if not await self._db.write(lambda connection: connection.execute(sql, row).rowcount):
            raise TaskyardError(f"there is no attempt {key.attempt} of task {key.task} in run {key.run} on record")
        await self.maybe_prune()

    async def get(self, key: AttemptKey) -> AttemptRecord | None:
        """The whole record of an attempt."""
        return await self._db.read(lambda connection: _get(connection, key))

    async def list(
        self,
        *,
        status: TaskState | None = None,
        task: str | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> tuple[AttemptLine, ...]:
        """Attempts, newest start first. The time range is half-open: since <= start < until.

        limit: None is all. Raises UsageError for a negative limit or offset.
        """
        if offset < 0 or (limit is not None and limit < 0):
            raise UsageError(f"limit and offset can't be negative, got {limit} and {offset}")
        given = (status, task, since, until, -1 if limit is None else limit, offset)
        rows = await self._db.read(lambda connection: connection.execute(tables.LIST, given).fetchall())
        return tuple(_line(*row) for row in rows)

    async def stats(self) -> HistoryStats:
        """How much there is, how fast it grows, and what was pruned."""
        since = self._clock.now() - GROWTH_S

        def query(connection: Connection) -> tuple[tuple[int, int, int, int, float | None], int]:
            return connection.execute(tables.TOTALS).fetchone(), connection.execute(tables.GROWTH, (since,)).fetchone()[
                0
            ]

        (entries, size, pruned, archived, last), grown = await self._db.read(query)
        return HistoryStats(
            entries=entries,
            bytes=size,
            max_entries=self._limits.max_entries,
            max_bytes=self._limits.max_bytes,
            max_age_s=self._limits.max_age_s,
            usage_ratio=max(_used(entries, self._limits.max_entries), _used(size, self._limits.max_bytes)),
            growth_bytes_per_s=grown / GROWTH_S,
            pruned=pruned,
            archived=archived,
            last_prune=None if last is None else rfc3339(last),
        )

    async def maybe_prune(self) -> Pruned:
        """Prune if a limit calls for it; a failure is a warning, not an error. Also for a timer, for the age limit."""
        if self._clock.monotonic() < self._not_before or not await self._db.read(self._is_due):
            return Pruned()
        try:
            return await self.prune()
        except EnvironmentFault as error:
            self._not_before = self._clock.monotonic() + _RETRY_S
            if self._warn is not None:
                self._warn(str(error))
            return Pruned()

    async def prune(self, limits: Limits | None = None, *, dry_run: bool = False) -> Pruned:
        """Take out the oldest finished attempts that are too old, or more than 75 % of what is allowed.

        limits: instead of the history's own. dry_run: say what would go, change nothing.
        Raises EnvironmentFault when the archive can't be written; what is not archived stays.
        """
        limits = limits or self._limits
        async with self._pruning:
            protected = frozenset(self._protected())
            chosen = await self._db.read(lambda connection: self._chosen(connection, limits, protected))
            if dry_run:
                return Pruned(pruned=len(chosen), bytes_freed=sum(one[5] for one in chosen))
            total = Pruned()
            for start in range(0, len(chosen), _STEP):
                step = await self._prune_step(chosen[start : start + _STEP])
                total = Pruned(
                    pruned=total.pruned + step.pruned,
                    archived=total.archived + step.archived,
                    bytes_freed=total.bytes_freed + step.bytes_freed,
                )
            return total

    async def _prune_step(self, chosen: Sequence[_Candidate]) -> Pruned:
        name: str | None = None
        if self._archive is not None:
            keys = [AttemptKey(run, task, attempt) for run, task, attempt, *_ in chosen]
            found = await self._db.read(lambda connection: [_get(connection, key) for key in keys])
            # One that changed or went meanwhile has another version, and is not deleted below.
            records = [record for record in found if record is not None and record.end is not None]
            if records:
                name = await asyncio.to_thread(archive.write, self._archive, records)
        now = self._clock.now()

        def delete(connection: Connection) -> Pruned:
            gone = [one for one in chosen if connection.execute(tables.DELETE, one[:4]).rowcount]
            freed = sum(one[5] for one in gone)
            archived = len(gone) if name is not None else 0
            if name is not None and gone:
                connection.execute(tables.ARCHIVED, (name, archived, freed, gone[0][4], gone[-1][4]))
            connection.execute(tables.COUNT_PRUNED, (len(gone), archived, now))
            return Pruned(pruned=len(gone), archived=archived, bytes_freed=freed)

        fault.point("history.prune.delete.before")
        pruned = await self._db.write(delete)
        fault.point("history.prune.delete.after")
        return pruned

    def _is_due(self, connection: Connection) -> bool:
        entries, size, *_ = connection.execute(tables.TOTALS).fetchone()
        if max(_used(entries, self._limits.max_entries), _used(size, self._limits.max_bytes)) >= TRIGGER:
            return True
        (oldest,) = connection.execute(tables.OLDEST_END).fetchone()
        return oldest is not None and oldest < self._oldest_allowed(self._limits)

    def _chosen(self, connection: Connection, limits: Limits, protected: frozenset[str]) -> _Candidates:
        """The oldest finished attempts, until those that stay are within the targets. The newest is never chosen."""
        entries, size, *_ = connection.execute(tables.TOTALS).fetchone()
        most_entries, most_bytes = _target(limits.max_entries), _target(limits.max_bytes)
        chosen: _Candidates = []
        waiting: _Candidate | None = None
        for candidate in connection.execute(tables.OLDEST_FIRST):
            if waiting is not None and waiting[0] not in protected:
                chosen.append(waiting)
                entries, size = entries - 1, size - waiting[5]
            waiting = candidate
            if entries <= most_entries and size <= most_bytes and candidate[4] >= self._oldest_allowed(limits):
                break
        return chosen

    def _oldest_allowed(self, limits: Limits) -> float:
        return -math.inf if limits.max_age_s is None else self._clock.now() - limits.max_age_s


def _target(limit: int | None) -> float:
    return math.inf if limit is None else limit * TARGET


def _used(amount: int, limit: int | None) -> float:
    """The part of a limit that is used; always finite."""
    return 0.0 if limit is None else amount / max(1, limit)


def _check(fields: dict[str, object], kind: type[AttemptRecord] | type[Changes], key: AttemptKey) -> None:
    """Structs check no types when they are made, and SQLite takes any."""
    try:
        msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"attempt {key.attempt} of task {key.task} can't be put on record: {error}") from error


def _stored(value: object) -> object:
    """As SQLite takes it: text without lone surrogates, metrics as JSON with finite numbers only."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        finite = {
            _stored(name): None if isinstance(one, float) and not math.isfinite(one) else _stored(one)
            for name, one in value.items()
        }
        return msgspec.json.encode(finite, order="sorted").decode()
    return value


def _get(connection: Connection, key: AttemptKey) -> AttemptRecord | None:
    row = connection.execute(tables.GET, (key.run, key.task, key.attempt)).fetchone()
    if row is None:
        return None
    run, task, attempt, status, start, end, cost_usd, output, error, metrics = row
    return AttemptRecord(
        run=run,
        task=task,
        attempt=attempt,
        status=status,
        start=start,
        end=end,
        cost_usd=cost_usd,
        output=output,
        error=error,
        metrics=_metrics(metrics),
    )


def _line(
    task: str,
    attempt: int,
    run: str,
    status: TaskState,
    start: float,
    end: float | None,
    cost_usd: float | None,
    size: int,
) -> AttemptLine:
    return AttemptLine(
        task=task,
        attempt=attempt,
        run=run,
        status=status,
        start=rfc3339(start),
        end=None if end is None else rfc3339(end),
        duration_s=None if end is None else round(end - start, 6),
        cost_usd=cost_usd,
        bytes=size,
        archived=False,
    )
