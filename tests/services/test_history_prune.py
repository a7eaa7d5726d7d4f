"""Pruning: the oldest finished first, archived before deleted, within limits at every moment."""
# ruff: noqa: ASYNC240  (the tests themselves may block)

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskyard.services.clock import SystemClock
from taskyard.services.database import Database
from taskyard.services.errors import EnvironmentFault
from taskyard.services.history import MIGRATIONS, AttemptKey, AttemptRecord, Changes, History, Limits, Pruned
from taskyard.services.history import archive as archives


class HandClock(SystemClock):
    """Moved by hand."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(tmp_path / "taskyard.db", MIGRATIONS)
    yield opened
    await opened.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "archive"


def attempt(number: int, **changes: object) -> AttemptRecord:
    given: dict[str, object] = {"run": "r1", "status": "merged", "end": 1_000.0 + number, "attempt": 1, **changes}
    return AttemptRecord(task=f"T{number}", start=float(number), **given)  # type: ignore[arg-type]


def archived(folder: Path) -> list[AttemptRecord]:
    return [record for path in sorted(folder.iterdir()) for record in archives.read(path)]


async def tasks(history: History) -> list[str]:
    return [line.task for line in await history.list()]


async def test_the_newest_are_kept(db: Database, clock: HandClock) -> None:
    """H01: the oldest go first, also when the limit is tiny."""
    history = History(db, clock, limits=Limits(max_entries=3))
    for number in range(6):
        await history.add(attempt(number))
    assert await tasks(history) == ["T5", "T4"]


async def test_the_newest_are_kept_within_a_size(db: Database, clock: HandClock) -> None:
    """H02, H18: the same for bytes, and what was freed is what was stored."""
    history = History(db, clock)
    for number in range(8):
        await history.add(attempt(number, output="x" * 1000))
    sizes = [line.bytes for line in await history.list()]
    pruned = await history.prune(Limits(max_bytes=sum(sizes[:4]) * 4 // 3))
    assert await tasks(history) == ["T7", "T6", "T5", "T4"]
    assert pruned == Pruned(pruned=4, archived=0, bytes_freed=sum(sizes[4:]))


async def test_an_unfinished_attempt_is_never_pruned(db: Database, clock: HandClock, folder: Path) -> None:
    """H03: however old; it can be completed later, and goes when its turn comes."""
    history = History(db, clock, limits=Limits(max_entries=4, max_age_s=10.0), archive_folder=folder)
    await history.add(attempt(0, end=None, status="implementing"))
    for number in range(1, 9):
        await history.add(attempt(number))
    assert "T0" in await tasks(history)
    await history.update(AttemptKey("r1", "T0", 1), Changes(status="merged", end=clock.seconds))
    assert await tasks(history) == ["T0"]
    assert [record.task for record in archived(folder)] == [f"T{number}" for number in range(1, 9)]


async def test_attempts_of_protected_runs_stay(db: Database, clock: HandClock) -> None:
    """What the caller still needs."""
    history = History(db, clock, limits=Limits(max_entries=2), protected=lambda: ["r1"])
    for number in range(4):
        await history.add(attempt(number))
        await history.add(attempt(number, run="r0"))
    assert {line.task for line in await history.list() if line.run == "r1"} == {"T0", "T1", "T2", "T3"}
    assert {line.task for line in await history.list() if line.run == "r0"} <= {"T3"}


async def test_every_attempt_is_archived_whole(db: Database, clock: HandClock, folder: Path) -> None:
    """H04, H05, H06: attempts of one task, odd ids and paths all come back from the archive."""
    history = History(db, clock, archive_folder=folder)
    odd = ("../../owned", "task/branch", "T1", "T1", "T1", "é\n")
    records = [
        attempt(number, run="r/1", attempt=number, output="o" * number, metrics={"turns": number})
        for number in range(1, 7)
    ]
    records = [msgspec.structs.replace(record, task=task) for record, task in zip(records, odd, strict=True)]
    for record in [*records, attempt(9_999)]:
        await history.add(record)
    pruned = await history.prune(Limits(max_entries=1))
    assert (pruned.pruned, pruned.archived) == (6, 6)
    assert archived(folder) == records
    assert {path.parent for path in folder.rglob("*")} == {folder}
    assert not (folder.stat().st_mode | next(folder.iterdir()).stat().st_mode) & 0o077


async def test_without_an_archive_nothing_counts_as_archived(db: Database, clock: HandClock) -> None:
    """H07: pruned and archived are counted apart."""
    history = History(db, clock)
    for number in range(3):
        await history.add(attempt(number))
    pruned = await history.prune(Limits(max_entries=1))
    assert (pruned.pruned, pruned.archived) == (2, 0)
    stats = await history.stats()
    assert (stats.entries, stats.pruned, stats.archived) == (1, 2, 0)
    assert stats.last_prune == "1970-01-12T13:46:40.000Z"


async def test_age_alone_prunes(db: Database, clock: HandClock) -> None:
    """H11: on add, and by the timer's call; younger ones stay."""
    history = History(db, clock, limits=Limits(max_age_s=3600.0))
    await history.add(attempt(1, end=clock.seconds))
    await history.add(attempt(2, end=clock.seconds + 10.0))
    clock.seconds += 3601.0
    assert (await history.maybe_prune()).pruned == 1
    assert await tasks(history) == ["T2"]
    clock.seconds += 3600.0
    await history.add(attempt(3, end=clock.seconds))
    assert await tasks(history) == ["T3"]


async def test_a_prune_begins_at_90_percent_and_ends_at_75(db: Database, clock: HandClock) -> None:
    """H12: so most adds prune nothing, and the limit is never passed."""
    history = History(db, clock, limits=Limits(max_entries=100))
    counts = []
    for number in range(200):
        await history.add(attempt(number))
        counts.append((await history.stats()).entries)
    assert max(counts) == 89
    assert [now for before, now in pairwise(counts) if now < before] == [75] * 8


async def test_an_update_prunes_as_well(db: Database, clock: HandClock) -> None:
    """H13: a big output that arrives late."""
    history = History(db, clock, limits=Limits(max_bytes=10_000))
    for number in range(4):
        await history.add(attempt(number, output="x" * 1000))
    await history.update(AttemptKey("r1", "T3", 1), Changes(output="x" * 6_000))
    assert (await history.stats()).bytes <= 7_500
    assert (await tasks(history))[0] == "T3"


async def test_none_is_no_limit(db: Database, clock: HandClock) -> None:
    """H15: nothing goes."""
    history = History(db, clock, limits=Limits())
    for number in range(50):
        await history.add(attempt(number, output="x" * 10_000))
    assert await history.prune() == Pruned()
    assert len(await tasks(history)) == 50


async def test_a_record_above_the_limit_is_kept(db: Database, clock: HandClock, folder: Path) -> None:
    """H17: as the newest it stays; later it is in the archive whole."""
    history = History(db, clock, limits=Limits(max_bytes=1_000), archive_folder=folder)
    big = attempt(1, output="x" * 50_000)
    await history.add(big)
    assert await history.get(big.key) == big
    await history.add(attempt(2))
    assert await tasks(history) == ["T2"]
    assert archived(folder) == [big]


async def test_an_archive_that_can_not_be_written_keeps_everything(
    db: Database, clock: HandClock, folder: Path
) -> None:
    """H19: kept, warned, tried again later; an explicit prune raises."""
    folder.parent.mkdir()
    folder.write_text("in the way")
    warnings: list[str] = []
    history = History(db, clock, limits=Limits(max_entries=4), archive_folder=folder, warn=warnings.append)
    for number in range(6):
        await history.add(attempt(number))
    assert len(await tasks(history)) == 6
    assert len(warnings) == 1 and str(folder) in warnings[0]
    with pytest.raises(EnvironmentFault, match="Nothing was pruned"):
        await history.prune()
    assert (await history.stats()).pruned == 0
    folder.unlink()
    clock.seconds += 61.0
    await history.add(attempt(6))
    assert await tasks(history) == ["T6", "T5", "T4"]
    assert len(archived(folder)) == 4


async def test_an_attempt_that_changes_while_it_is_archived_is_not_deleted(
    db: Database, clock: HandClock, folder: Path
) -> None:
    """Only what the archive has may go: the writer is held up until the old version is archived, then changes it."""
    history = History(db, clock, archive_folder=folder)
    for number in range(3):
        await history.add(attempt(number))
    go_on = threading.Event()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(db.write(lambda _: go_on.wait(60)))
        update = group.create_task(history.update(AttemptKey("r1", "T0", 1), Changes(error="late")))
        prune = group.create_task(history.prune(Limits(max_entries=1)))
        while not list(folder.glob("*.zst")):  # noqa: ASYNC110  (the file is the only sign there is)
            await asyncio.sleep(0.01)
        go_on.set()
    assert update.done() and prune.result().pruned == 1
    kept = await history.get(AttemptKey("r1", "T0", 1))
    assert kept is not None and kept.error == "late"
    assert await tasks(history) == ["T2", "T0"]


async def test_a_dry_run_says_what_would_go_and_changes_nothing(db: Database, clock: HandClock, folder: Path) -> None:
    """The same counts as the prune that follows."""
    history = History(db, clock, archive_folder=folder)
    for number in range(10):
        await history.add(attempt(number))
    would = await history.prune(Limits(max_entries=4), dry_run=True)
    assert len(await tasks(history)) == 10 and not folder.exists()
    did = await history.prune(Limits(max_entries=4))
    assert (would.pruned, would.bytes_freed) == (did.pruned, did.bytes_freed) == (7, did.bytes_freed)


async def test_more_than_one_step_of_a_prune_keeps_order_and_counts(
    db: Database, clock: HandClock, folder: Path
) -> None:
    """A file for every thousand, nothing lost or doubled."""
    history = History(db, clock, archive_folder=folder)
    for number in range(2_101):
        await history.add(attempt(number))
    pruned = await history.prune(Limits(max_entries=1))
    assert (pruned.pruned, pruned.archived) == (2_100, 2_100)
    assert [record.task for record in archived(folder)] == [f"T{number}" for number in range(2_100)]
    assert len(list(folder.iterdir())) == 3


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 3), st.booleans(), st.integers(0, 400)), max_size=40),
    st.none() | st.integers(1, 12),
    st.none() | st.integers(1, 4_000),
)
async def test_live_and_archived_together_are_all_that_was_added(
    tmp_path_factory: pytest.TempPathFactory,
    adds: list[tuple[int, int, bool, int]],
    max_entries: int | None,
    max_bytes: int | None,
) -> None:
    """H21: the invariants, whatever is added in whatever order."""
    place = tmp_path_factory.mktemp("history")
    db = await Database.open(place / "taskyard.db", MIGRATIONS)
    try:
        limits = Limits(max_entries=max_entries, max_bytes=max_bytes)
        history = History(db, HandClock(), limits=limits, archive_folder=place / "archive")
        latest: dict[AttemptKey, AttemptRecord] = {}
        unfinished: set[AttemptKey] = set()
        for number, again, finished, size in adds:
            record = attempt(number, attempt=again, end=1_000.0 + number if finished else None, output="x" * size)
            await history.add(record)
            latest[record.key] = record
            unfinished = unfinished - {record.key} | (set() if finished else {record.key})
        lines = await history.list()
        live = {AttemptKey(line.run, line.task, line.attempt) for line in lines}
        gone = {record.key for record in archived(place / "archive")} if (place / "archive").exists() else set()
        assert live | gone == set(latest) and unfinished <= live
        stats = await history.stats()
        assert (stats.entries, stats.bytes) == (len(lines), sum(line.bytes for line in lines))
        finished_live = live - unfinished
        assert len(finished_live) <= 1 or stats.usage_ratio < 0.9
    finally:
        await db.close()


PROGRAM = """
import asyncio, sys
from pathlib import Path
from taskyard.services.clock import SystemClock
from taskyard.services.database import Database
from taskyard.services.history import MIGRATIONS, AttemptRecord, History, Limits

async def main():
    place = Path(sys.argv[1])
    db = await Database.open(place / "taskyard.db", MIGRATIONS)
    history = History(db, SystemClock(), limits=Limits(max_entries=10), archive_folder=place / "archive")
    for n in range(30):
        await history.add(AttemptRecord(run="r", task=f"T{n}", attempt=1, status="merged", start=n, end=n))
    await db.close()

asyncio.run(main())
"""
POINTS = (
    "history.archive.sync.before",
    "history.archive.rename.before",
    "history.archive.rename.after",
    "history.prune.delete.before",
    "history.prune.delete.after",
)


async def live_and_archived(place: Path) -> tuple[set[str], set[str]]:
    db = await Database.open(place / "taskyard.db", MIGRATIONS)
    live = set(await tasks(History(db, SystemClock())))
    await db.close()
    whole = [path for path in (place / "archive").iterdir() if path.suffix == ".zst"]
    return live, {record.task for path in whole for record in archives.read(path)}


def adding(place: Path, **environ: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(place)], env=os.environ | environ, cwd=place)


@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_while_pruning_loses_nothing(tmp_path: Path, point: str) -> None:
    """At every named point of the second prune: each attempt is live or archived, and the next run goes on."""
    assert adding(tmp_path, TASKYARD_FAULT=f"{point}:2").wait(timeout=60) == -signal.SIGKILL
    live, gone = await live_and_archived(tmp_path)
    assert live | gone == {f"T{number}" for number in range(len(live | gone))}
    assert len(live | gone) >= 11
    assert adding(tmp_path).wait(timeout=60) == 0
    live, gone = await live_and_archived(tmp_path)
    assert live | gone == {f"T{number}" for number in range(30)}
    assert live.isdisjoint(gone) and len(live) < 9
