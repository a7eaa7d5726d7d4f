"""The database across processes, deaths and versions."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from taskyard.services.database import Database, Migration
from taskyard.services.errors import EnvironmentFault

NOTES = Migration("note", 1, "create table note (n integer primary key)")

WRITER = """
import asyncio, sys
from pathlib import Path
from taskyard.services.database import Database, Migration

async def main():
    db = await Database.open(Path(sys.argv[1]), [Migration("note", 1, "create table note (n integer primary key)")])
    for n in range(20):
        await db.write(lambda c: c.execute("insert into note values (?)", (n,)))
        print(n, flush=True)
    sys.stdin.read()

asyncio.run(main())
"""

COUNTER = """
import asyncio, sys
from pathlib import Path
from taskyard.services.database import Database, Migration

def add(connection):
    n = connection.execute("select coalesce(max(n), 0) from note").fetchone()[0]
    connection.execute("insert into note values (?)", (n + 1,))

async def main():
    sys.stdin.readline()
    db = await Database.open(Path(sys.argv[1]), [Migration("note", 1, "create table note (n integer primary key)")])
    for _ in range(100):
        await db.write(add)
    await db.close()

asyncio.run(main())
"""

FULL = """
import asyncio, resource, sys
from pathlib import Path
from taskyard.services.database import Database, Migration
from taskyard.services.errors import StorageFull

async def main():
    db = await Database.open(Path(sys.argv[1]), [Migration("note", 1, "create table note (n integer primary key)")])
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
    for n in range(10_000):
        try:
            await db.write(lambda c: c.execute("insert into note values (?)", (n,)))
        except StorageFull as error:
            print(n, error, flush=True)
            return

asyncio.run(main())
"""


def start(code: str, path: Path, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environ,
    )


def dump(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def numbers(path: Path) -> list[int]:
    connection = sqlite3.connect(path)
    try:
        return [n for (n,) in connection.execute("select n from note order by n")]
    finally:
        connection.close()


def test_what_write_returned_for_survives_sigkill(tmp_path: Path) -> None:
    """A write is durable when it returns: the process is killed at once after its last one."""
    path = tmp_path / "x.db"
    with start(WRITER, path) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.strip() == "19":
                break
        process.kill()
    assert numbers(path) == list(range(20))


@pytest.mark.parametrize(("point", "kept"), [("before", 4), ("after", 5)])
def test_a_death_around_a_commit_keeps_all_of_it_or_nothing(tmp_path: Path, point: str, kept: int) -> None:
    """Killed just before the fifth commit its write is gone and nobody was told otherwise; just after, it is there."""
    path = tmp_path / "x.db"
    with start(WRITER, path, TASKYARD_FAULT=f"database.commit.{point}:5") as process:
        said, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert said.split() == ["0", "1", "2", "3"]
    assert numbers(path) == list(range(kept))


def test_processes_that_write_at_once_wait_for_each_other(tmp_path: Path) -> None:
    """Four processes make the file together and count together; none fails, no step of any is lost."""
    path = tmp_path / "x.db"
    processes = [start(COUNTER, path) for _ in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        _, complaints = process.communicate()
        assert (process.returncode, complaints) == (0, "")
    assert numbers(path) == list(range(1, 401))


async def test_a_write_waits_while_another_process_holds_the_file(tmp_path: Path) -> None:
    """A busy file is waited for; the event loop goes on meanwhile and is what ends the wait."""
    path = tmp_path / "x.db"
    db = await Database.open(path, [NOTES])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("begin immediate")
    writing = asyncio.create_task(db.write(lambda c: c.execute("insert into note values (1)")))
    for _ in range(1000):
        await asyncio.sleep(0)
    assert not writing.done()
    other.execute("commit")
    await writing
    assert numbers(path) == [1]
    other.close()
    await db.close()


def test_a_disk_that_takes_no_more_ends_in_storage_full(tmp_path: Path) -> None:
    """A real refusal of the operating system to let the file grow: StorageFull, and every earlier write is there."""
    path = tmp_path / "x.db"
    with start(FULL, path) as process:
        said, complaints = process.communicate()
    assert complaints == ""
    failed, _, words = said.partition(" ")
    assert "disk is full" in words
    assert numbers(path) == list(range(int(failed)))


async def test_a_file_of_a_newer_version_is_refused_untouched(tmp_path: Path) -> None:
    """A schema this version does not know is never written into."""
    path = tmp_path / "x.db"
    newer = await Database.open(path, [NOTES, Migration("note", 2, "create table later (n integer)")])
    await newer.close()
    before = dump(path)
    with pytest.raises(EnvironmentFault, match=r"newer taskyard \(it has note 2\)"):
        await Database.open(path, [NOTES])
    assert dump(path) == before


async def test_tables_of_rooms_that_are_not_asked_for_are_no_newer_version(tmp_path: Path) -> None:
    """A command that opens only some rooms' tables works on the whole file."""
    path = tmp_path / "x.db"
    await (await Database.open(path, [NOTES, Migration("other", 1, "create table other (n)")])).close()
    await (await Database.open(path, [NOTES])).close()


@pytest.mark.parametrize("content", [b"this is a shopping list\n" * 200, b"SQLite format 3\0" + b"\xff" * 4080])
async def test_a_file_that_is_no_database_is_refused_untouched(tmp_path: Path, content: bytes) -> None:
    """The message names the file and what to do; the file stays as it was."""
    path = tmp_path / "x.db"
    path.write_bytes(content)
    with pytest.raises(EnvironmentFault, match="no database") as caught:
        await Database.open(path, [NOTES])
    assert str(path) in str(caught.value)
    assert path.read_bytes() == content


async def test_a_folder_in_the_files_place_is_refused(tmp_path: Path) -> None:
    """What can't be opened at all is the environment's fault, with the path."""
    path = tmp_path / "x.db"
    path.mkdir()
    with pytest.raises(EnvironmentFault, match=str(path)):
        await Database.open(path, [NOTES])


async def test_migrations_run_once_each_and_in_order(tmp_path: Path) -> None:
    """A file of an older version gets the missing steps only, whatever order they are listed in."""
    path = tmp_path / "x.db"
    first = await Database.open(path, [NOTES])
    await first.write(lambda c: c.execute("insert into note values (7)"))
    await first.close()
    steps = [
        Migration("note", 3, "update note set more = more || 'c'"),
        Migration("note", 2, "alter table note add column more text; update note set more = 'a;b'"),
        NOTES,
    ]
    for _ in range(2):
        db = await Database.open(path, steps)
        assert await db.read(lambda c: c.execute("select * from note").fetchall()) == [(7, "a;bc")]
        await db.close()


async def test_a_migration_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """All missing steps are one transaction: the file is as before, and the next start can try again."""
    path = tmp_path / "x.db"
    broken = Migration("note", 2, "create table half (n); create tabel oops (n)")
    with pytest.raises(sqlite3.OperationalError, match="tabel"):
        await Database.open(path, [NOTES, broken])
    db = await Database.open(path, [])
    tables = await db.read(
        lambda c: [name for (name,) in c.execute("select name from sqlite_schema where type = 'table'")]
    )
    assert "note" not in tables
    assert "half" not in tables
    await db.close()
