"""What goes in and out of the history. Frozen; units: seconds, bytes, US dollars."""

import msgspec
from msgspec import UNSET, UnsetType

from taskyard.services.records import TaskState

Metrics = dict[str, int | float | str | None]


class AttemptKey(msgspec.Struct, frozen=True, order=True):
    """Names one attempt: a retried task has several."""

    run: str
    task: str
    attempt: int
    """1 for the first."""


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a task, as it is kept."""

    run: str
    task: str
    attempt: int
    status: TaskState
    """How far it came; of a finished attempt, how it ended."""
    start: float
    """Seconds since 1970."""
    end: float | None = None
    """None while it runs: an unfinished attempt is never pruned."""
    cost_usd: float | None = 0.0
    """None when a price is unknown."""
    output: str = ""
    error: str = ""
    metrics: Metrics = {}
    """Whatever is counted: tokens, turns, check runs. A number that is not finite is kept as None."""

    @property
    def key(self) -> AttemptKey:
        return AttemptKey(self.run, self.task, self.attempt)


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of an attempt that are to change; those left out stay."""

    status: TaskState | UnsetType = UNSET
    end: float | UnsetType | None = UNSET
    cost_usd: float | UnsetType | None = UNSET
    output: str | UnsetType = UNSET
    error: str | UnsetType = UNSET
    metrics: Metrics | UnsetType = UNSET


class AttemptLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of `history list --json`."""

    task: str
    attempt: int
    run: str
    status: TaskState
    start: str
    """RFC 3339."""
    end: str | None
    duration_s: float | None
    cost_usd: float | None
    bytes: int
    """What is stored of it: its texts in UTF-8 and 8 for each number."""
    archived: bool


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much history is kept in the database. None is no limit."""

    max_bytes: int | None = None
    max_age_s: float | None = None
    """Since an attempt's end."""
    max_entries: int | None = None


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """The object that `history prune --json` prints."""

    pruned: int = 0
    """Attempts taken out of the database."""
    archived: int = 0
    """Those of them that the archive has; 0 without an archive."""
    bytes_freed: int = 0


class HistoryStats(msgspec.Struct, frozen=True, kw_only=True):
    """The object that `history stats --json` prints."""

    entries: int
    bytes: int
    max_entries: int | None
    max_bytes: int | None
    max_age_s: float | None
    usage_ratio: float
    """The fuller of bytes and entries against its limit; 0 without limits."""
    growth_bytes_per_s: float
    """Bytes added by writes of the last ten minutes, per second."""
    pruned: int
    """Since the database was made; likewise `archived`."""
    archived: int
    last_prune: str | None
    """RFC 3339."""
