"""Attempts on record: exact, typed, found by time and kind."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from taskyard.services.clock import SystemClock
from taskyard.services.database import Database
from taskyard.services.errors import TaskyardError, UsageError
from taskyard.services.history import (
    MIGRATIONS,
    AttemptKey,
    AttemptRecord,
    Changes,
    History,
    Limits,
)


class HandClock(SystemClock):
    """Moved by hand."""

    def __init__(self) -> None:
        self.seconds = 1_800_000_000.0

    def now(self) -> float:
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
def history(db: Database, clock: HandClock) -> History:
    return History(db, clock)


def attempt(task: str, number: int = 1, start: float = 100.0, **changes: object) -> AttemptRecord:
    given: dict[str, object] = {"run": "r1", "status": "merged", "end": start + 5.0, **changes}
    return AttemptRecord(task=task, attempt=number, start=start, **given)  # type: ignore[arg-type]


async def stored_bytes(db: Database) -> tuple[int, int]:
    """The sum over the rows, and what the totals say."""
    return await db.read(
        lambda connection: (
            connection.execute("select coalesce(sum(bytes), 0) from attempt_record").fetchone()[0],
            connection.execute("select bytes from attempt_total").fetchone()[0],
        )
    )


async def test_a_record_comes_back_as_it_was(history: History) -> None:
    """H05: any text is a legal id; every field keeps its type."""
    record = attempt(
        "../T/7:é",
        status="failed",
        cost_usd=None,
        output="out\n",
        error="err",
        metrics={"turns": 3, "x": 0.5, "m": "a"},
    )
    await history.add(record)
    assert await history.get(record.key) == record
    assert await history.get(AttemptKey("r1", "other", 1)) is None


async def test_adding_the_same_attempt_again_replaces_it(history: History, db: Database) -> None:
    """A replay after a crash leaves one record, and the totals right."""
    await history.add(attempt("T1", status="planning", end=None))
    await history.add(attempt("T1", output="x" * 1000))
    assert (await history.stats()).entries == 1
    summed, total = await stored_bytes(db)
    assert summed == total > 1000


async def test_attempts_of_one_task_are_apart(history: History) -> None:
    """H10: the key is run, task and attempt."""
    for number in (1, 2):
        await history.add(attempt("T1", number, status="implementing", end=None))
    await history.add(attempt("T1", 1, run="r2", status="implementing", end=None))
    await history.update(AttemptKey("r1", "T1", 2), Changes(status="merged", end=110.0))
    found = {(line.run, line.attempt): line.status for line in await history.list()}
    assert found == {("r1", 1): "implementing", ("r1", 2): "merged", ("r2", 1): "implementing"}


async def test_an_update_changes_the_given_fields_only(history: History, db: Database) -> None:
    """H09: also cost and metrics; bytes follow."""
    await history.add(attempt("T1", status="judging", end=None, output="o", metrics={"turns": 1}))
    await history.update(AttemptKey("r1", "T1", 1), Changes(cost_usd=0.5, metrics={"turns": 2}, error="e" * 500))
    await history.update(AttemptKey("r1", "T1", 1), Changes())
    expected = attempt(
        "T1", status="judging", end=None, output="o", cost_usd=0.5, metrics={"turns": 2}, error="e" * 500
    )
    assert await history.get(expected.key) == expected
    summed, total = await stored_bytes(db)
    assert summed == total > 500


@pytest.mark.parametrize("wrong", [{"output": 7}, {"end": "now"}, {"status": "great"}, {"metrics": {"a": []}}])
async def test_a_wrong_type_is_an_error_and_changes_nothing(history: History, wrong: dict[str, object]) -> None:
    """H08: for updates and adds alike."""
    before = attempt("T1")
    await history.add(before)
    with pytest.raises(UsageError, match="attempt 1 of task T1"):
        await history.update(before.key, Changes(**wrong))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="attempt 1 of task T1"):
        await history.add(attempt("T1", **wrong))
    assert await history.get(before.key) == before


async def test_unknown_fields_and_unknown_keys_are_errors(history: History) -> None:
    """H09: a typing mistake is not passed over."""
    with pytest.raises(TypeError):
        Changes(outptu="x")  # type: ignore[call-arg]
    with pytest.raises(TaskyardError, match="no attempt 9 of task T1 in run r1"):
        await history.update(AttemptKey("r1", "T1", 9), Changes(output="x"))


async def test_what_json_or_sqlite_can_not_take_is_kept_in_another_form(history: History, db: Database) -> None:
    """H16: NaN, infinity and lone surrogates; the bytes are those stored."""
    await history.add(
        attempt("T1", output="\udcff" + "x" * 1_000_000, metrics={"nan": float("nan"), "inf": float("inf")})
    )
    record = await history.get(AttemptKey("r1", "T1", 1))
    assert record is not None
    assert record.output.startswith("\\udcffxxx")
    assert record.metrics == {"nan": None, "inf": None}
    assert (await stored_bytes(db))[1] > 1_000_000


async def test_bytes_are_exactly_what_is_stored(history: History) -> None:
    """Texts in UTF-8, 8 for each of the four numbers."""
    await history.add(attempt("Tä", output="é\n", error="abc", metrics={"a": 1}))
    (line,) = await history.list()
    assert line.bytes == len("r1") + len("Tä".encode()) + len("merged") + 3 + 3 + len('{"a":1}') + 32
    assert (await history.stats()).bytes == line.bytes


async def test_the_list_is_newest_first_with_filters_and_pages(history: History) -> None:
    """The range is half-open: an attempt at `since` is in, one at `until` is not."""
    for number in range(6):
        status = "failed" if number % 2 else "merged"
        await history.add(attempt(f"T{number}", start=100.0 + number, status=status))
    assert [line.task for line in await history.list()] == ["T5", "T4", "T3", "T2", "T1", "T0"]
    assert [line.task for line in await history.list(status="failed", limit=2)] == ["T5", "T3"]
    assert [line.task for line in await history.list(since=101.0, until=103.0)] == ["T2", "T1"]
    assert [line.task for line in await history.list(task="T4")] == ["T4"]
    assert [line.task for line in await history.list(limit=2, offset=4)] == ["T1", "T0"]
    assert await history.list(limit=0) == ()


async def test_a_negative_limit_is_an_error(history: History) -> None:
    """H14: a message, not a crash."""
    for wrong in ({"limit": -1}, {"offset": -1}):
        with pytest.raises(UsageError, match="negative"):
            await history.list(**wrong)


async def test_json_has_the_fields_of_the_contract(history: History) -> None:
    """`history list`, `history stats` and `history prune` with `--json`."""
    await history.add(attempt("T1", start=1_800_000_000.0, cost_usd=0.25))
    await history.add(attempt("T2", start=1_700_000_000.0, end=None, status="planning"))
    first, second = msgspec.to_builtins(await history.list())
    size = first.pop("bytes")
    assert first == {
        "task": "T1", "attempt": 1, "run": "r1", "status": "merged", "start": "2027-01-15T08:00:00.000Z",
        "end": "2027-01-15T08:00:05.000Z", "duration_s": 5.0, "cost_usd": 0.25, "archived": False,
    }  # fmt: skip
    assert (second["end"], second["duration_s"]) == (None, None)
    stats = msgspec.to_builtins(await history.stats())
    assert list(stats) == [
        "entries", "bytes", "max_entries", "max_bytes", "max_age_s", "usage_ratio", "growth_bytes_per_s", "pruned",
        "archived", "last_prune",
    ]  # fmt: skip
    assert stats["bytes"] == size + second["bytes"]
    assert list(msgspec.to_builtins(await history.prune())) == ["pruned", "archived", "bytes_freed"]


async def test_usage_is_the_fuller_of_both_limits_and_growth_is_measured(db: Database, clock: HandClock) -> None:
    """H15: no limit is 0; a limit of 0 stays finite. Growth is over ten minutes."""
    history = History(db, clock, limits=Limits(max_entries=100, max_bytes=1_000_000))
    await history.add(attempt("T1", output="x" * 100_000))
    clock.seconds += 500.0
    await history.add(attempt("T2", output="x" * 100_000))
    stats = await history.stats()
    assert stats.usage_ratio == stats.bytes / 1_000_000 > 0.2
    assert stats.growth_bytes_per_s == stats.bytes / 600.0
    clock.seconds += 150.0
    assert (await history.stats()).growth_bytes_per_s == pytest.approx(stats.bytes / 1200.0)
    assert (await History(db, clock).stats()).usage_ratio == 0.0
    assert (await History(db, clock, limits=Limits(max_entries=0)).stats()).usage_ratio == 2.0


async def test_results_are_frozen(history: History) -> None:
    """H20: a panel can't break the accounting."""
    await history.add(attempt("T1"))
    (line,) = await history.list()
    with pytest.raises(AttributeError):
        line.bytes = -1  # type: ignore[misc]


async def test_records_are_there_after_a_restart(tmp_path: Path, clock: HandClock) -> None:
    """In the database, not in memory."""
    for task in ("T1", "T2"):
        db = await Database.open(tmp_path / "again.db", MIGRATIONS)
        history = History(db, clock)
        await history.add(attempt(task))
        lines = await history.list()
        await db.close()
    assert sorted(line.task for line in lines) == ["T1", "T2"]
