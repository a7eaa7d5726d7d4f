"""The database in one process: group commit, savepoints, readers, posted writes, a full disk."""

import asyncio
import sqlite3
import stat
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from taskyard.services.database import Connection, Database, Migration
from taskyard.services.errors import StorageFull

NOTES = Migration("note", 1, "create table note (n integer primary key, text text not null)")
LONG_S = 60.0
"""A bound for waits that end at once unless the promise is broken."""


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    database = await Database.open(tmp_path / "state" / "taskyard.db", [NOTES])
    yield database
    await database.close()


class Gate:
    """A write that keeps the writer thread busy until `release`, so that others pile up behind it."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self._go = threading.Event()

    def __call__(self, _: Connection) -> None:
        self.entered.set()
        assert self._go.wait(LONG_S)

    def release(self) -> None:
        self._go.set()


def insert(n: int, text: str = "x") -> Callable[[Connection], object]:
    return lambda c: c.execute("insert into note values (?, ?)", (n, text))


def numbers(connection: Connection) -> list[int]:
    return [n for (n,) in connection.execute("select n from note order by n")]


async def behind(db: Database, gate: Gate, *writes: Callable[[Connection], object]) -> list[object]:
    """Hand the writes in while the gate holds the writer; their results or errors."""
    first = asyncio.create_task(db.write(gate))
    assert await asyncio.to_thread(gate.entered.wait, LONG_S)
    others = [asyncio.create_task(db.write(write)) for write in writes]
    await asyncio.sleep(0)
    gate.release()
    await first
    return list(await asyncio.gather(*others, return_exceptions=True))


async def test_the_file_is_private_and_syncs_every_commit(db: Database, tmp_path: Path) -> None:
    """The file is for its owner alone, and a commit is synced: WAL, synchronous=FULL, foreign keys on."""
    path = tmp_path / "state" / "taskyard.db"
    pragmas = ("journal_mode", "synchronous", "foreign_keys")
    found = await db.write(lambda c: [c.execute(f"pragma {name}").fetchone()[0] for name in pragmas])
    assert found == ["wal", 2, 1]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_a_write_is_there_for_every_other_connection_when_it_returns(db: Database, tmp_path: Path) -> None:
    """What `write` returned for is committed, not only handed in."""
    for n in range(50):
        assert await db.write(lambda c, n=n: insert(n)(c) and n) == n
        other = sqlite3.connect(tmp_path / "state" / "taskyard.db")
        assert numbers(other) == list(range(n + 1))
        other.close()
        assert await db.read(numbers) == list(range(n + 1))


async def test_writes_that_wait_together_share_one_commit(db: Database) -> None:
    """Group commit: 300 writes that pile up cost one fsync, not 300."""
    statements: list[str] = []
    await db.write(lambda c: c.set_trace_callback(statements.append))
    await behind(db, Gate(), *(insert(n) for n in range(300)))
    await db.write(lambda c: c.set_trace_callback(None))
    assert await db.read(numbers) == list(range(300))
    # the tracing write's own, the gate's, and one for all the others
    assert sum(statement.lower() == "commit" for statement in statements) == 3


@pytest.mark.parametrize("count", [999, 1000, 1001, 2500])
async def test_a_queue_longer_than_one_transaction_is_written_whole(tmp_path: Path, count: int) -> None:
    """However many writes are handed in before `close`, none is left behind."""
    path = tmp_path / "many.db"
    db = await Database.open(path, [NOTES])
    gate = Gate()
    first = asyncio.create_task(db.write(gate))
    assert await asyncio.to_thread(gate.entered.wait, LONG_S)
    for n in range(count):
        db.post(insert(n))
    closing = asyncio.create_task(db.close())
    gate.release()
    await first
    await closing
    check = sqlite3.connect(path)
    assert numbers(check) == list(range(count))
    check.close()


async def test_a_failing_write_undoes_only_itself(db: Database) -> None:
    """One write of a shared transaction fails half-way: its own changes go, its neighbours' stay."""

    def half(connection: Connection) -> None:
        insert(100)(connection)
        raise ValueError("changed my mind")

    def twice(connection: Connection) -> None:
        insert(200)(connection)
        insert(1)(connection)

    results = await behind(db, Gate(), insert(1), half, insert(2), twice, insert(3))
    assert isinstance(results[1], ValueError)
    assert isinstance(results[3], sqlite3.IntegrityError)
    assert [isinstance(result, Exception) for result in results] == [False, True, False, True, False]
    assert await db.read(numbers) == [1, 2, 3]


async def test_a_failed_commit_fails_every_write_in_it_and_leaves_nothing(tmp_path: Path) -> None:
    """When the commit itself fails nobody is told that his write is durable, and the writer goes on."""
    deferred = """create table parent (id integer primary key);
        create table child (parent integer references parent (id) deferrable initially deferred)"""
    db = await Database.open(tmp_path / "x.db", [NOTES, Migration("family", 1, deferred)])
    orphan: Callable[[Connection], object] = lambda c: c.execute("insert into child values (1)")  # noqa: E731
    results = await behind(db, Gate(), insert(1), orphan, insert(2))
    shared = [result for result in results if not isinstance(result, sqlite3.IntegrityError)]
    assert shared == []
    assert await db.read(numbers) == []
    await db.write(insert(3))
    assert await db.read(numbers) == [3]
    await db.close()


async def test_writes_are_carried_out_in_the_order_in_which_they_were_handed_in(db: Database) -> None:
    """A posted write is before every later one, awaited or not."""
    db.post(insert(1, "posted"))
    await db.write(lambda c: c.execute("update note set text = text || ', awaited' where n = 1"))
    db.post(lambda c: c.execute("update note set text = text || ', posted again' where n = 1"))
    text = await db.write(lambda c: c.execute("select text from note").fetchone()[0])
    assert text == "posted, awaited, posted again"


async def test_a_reader_sees_what_is_committed_and_nothing_else(db: Database) -> None:
    """Readers neither wait for a write under way nor see it."""
    await db.write(insert(1))
    inside, go = threading.Event(), threading.Event()

    def slow(connection: Connection) -> None:
        insert(2)(connection)
        inside.set()
        assert go.wait(LONG_S)

    writing = asyncio.create_task(db.write(slow))
    assert await asyncio.to_thread(inside.wait, LONG_S)
    assert await db.read(numbers) == [1]
    go.set()
    await writing
    assert await db.read(numbers) == [1, 2]


async def test_a_reader_can_not_write(db: Database) -> None:
    """Only the writer thread changes the file."""
    with pytest.raises(Exception, match="readonly"):
        await db.read(insert(1))
    assert await db.read(numbers) == []


async def test_the_event_loop_goes_on_while_a_write_takes_its_time(db: Database) -> None:
    """The loop never waits for the disk: it is the loop itself that lets the write end."""
    go = threading.Event()
    writing = asyncio.create_task(db.write(lambda _: go.wait(LONG_S)))
    for _ in range(1000):
        await asyncio.sleep(0)
    assert not writing.done()
    go.set()
    assert await writing is True


async def test_a_cancelled_caller_undoes_nothing(db: Database) -> None:
    """A write that was handed in is carried out, also when nobody waits for it any more."""
    gate = Gate()
    first = asyncio.create_task(db.write(gate))
    assert await asyncio.to_thread(gate.entered.wait, LONG_S)
    second = asyncio.create_task(db.write(insert(1)))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    gate.release()
    await first
    await db.write(insert(2))
    assert await db.read(numbers) == [1, 2]


async def test_close_raises_the_failure_of_a_posted_write(tmp_path: Path) -> None:
    """Nobody waits for a posted write, so `close` tells of the first that failed; the others are kept."""
    path = tmp_path / "x.db"
    db = await Database.open(path, [NOTES])
    db.post(insert(1))
    db.post(insert(1, "again"))
    db.post(insert(2))
    with pytest.raises(sqlite3.IntegrityError):
        await db.close()
    check = sqlite3.connect(path)
    assert numbers(check) == [1, 2]
    check.close()


async def test_a_closed_database_says_so(tmp_path: Path) -> None:
    """A write after `close` is an error at once; it would wait for ever."""
    db = await Database.open(tmp_path / "x.db", [NOTES])
    await db.close()
    async with asyncio.timeout(LONG_S):
        with pytest.raises(RuntimeError, match="closed"):
            await db.write(insert(1))
    with pytest.raises(RuntimeError, match="closed"):
        db.post(insert(1))


async def test_a_full_disk_is_told_as_such_and_leaves_nothing_half_written(db: Database) -> None:
    """C13: SQLite's own SQLITE_FULL becomes StorageFull; nothing is half written, and what was committed stays."""
    pages = await db.read(lambda c: c.execute("pragma page_count").fetchone()[0])
    await db.write(lambda c: c.execute(f"pragma max_page_count = {pages + 20}").fetchone())
    await db.write(insert(1))

    def big(connection: Connection) -> None:
        insert(100)(connection)
        insert(101, "x" * 1_000_000)(connection)

    results = await behind(db, Gate(), insert(2), big, insert(3))
    assert isinstance(results[1], StorageFull)
    assert "taskyard resume" in str(results[1])
    kept = [n for n, result in ((2, results[0]), (3, results[2])) if not isinstance(result, Exception)]
    assert await db.read(numbers) == [1, *kept]
    await db.write(insert(4))
    assert await db.read(numbers) == [1, *kept, 4]
