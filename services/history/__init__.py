"""History: attempts on record for people to look up, within limits, pruned into an archive. Replay never reads it.

db = await Database.open(path, history.MIGRATIONS)
history = History(db, clock, limits=Limits(max_entries=1000, max_age_s=86_400), archive_folder=folder)
await history.add(AttemptRecord(run="r1", task="T1", attempt=1, status="planning", start=clock.now()))
await history.list(task="T1", limit=20)
"""

from taskyard.services.history.records import (
    AttemptKey,
    AttemptLine,
    AttemptRecord,
    Changes,
    HistoryStats,
    Limits,
    Pruned,
)
from taskyard.services.history.store import History
from taskyard.services.history.tables import MIGRATIONS

__all__ = [
    "MIGRATIONS",
    "AttemptKey",
    "AttemptLine",
    "AttemptRecord",
    "Changes",
    "History",
    "HistoryStats",
    "Limits",
    "Pruned",
]
