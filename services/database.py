"""The one SQLite file: migrations, one writer thread with group commit, readers of their own.

    db = await Database.open(path, [*journal.MIGRATIONS, *history.MIGRATIONS])
    await db.write(lambda c: c.execute("insert into note values (?)", ("x",)))   # durable when it returns
    rows = await db.read(lambda c: c.execute("select * from note").fetchall())

All writes that wait when the writer thread comes round go into one transaction and share one fsync (group commit);
each has a savepoint of its own, so that one that fails takes no other with it. WAL with `synchronous=FULL`.
"""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from sqlite3 import Connection
from typing import Any, TypeVar

import msgspec

from taskyard.services import fault
from taskyard.services.errors import EnvironmentFault, StorageFull, TaskyardError

__all__ = ["Connection", "Database", "Migration"]

T = TypeVar("T")

_BATCH = 1000
_BUSY_MS = 30_000
_READERS = 2
_SCHEMA = "create table if not exists migration (owner text, number integer, primary key (owner, number)) without rowid"
_FULL = {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_IOERR_WRITE,
    sqlite3.SQLITE_IOERR_FSYNC,
    sqlite3.SQLITE_IOERR_SHMSIZE,
}
_UNUSABLE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}


class Migration(msgspec.Struct, frozen=True):
    """One forward step of a room's tables. `number` starts at 1 and rises by 1 per owner."""

    owner: str
    number: int
    sql: str


class _Write:
    """A function that waits for the writer, and the future that tells its fate."""

    __slots__ = ("error", "fn", "future", "value")

    def __init__(self, fn: Callable[[Connection], Any], future: Future[Any] | None) -> None:
        self.fn = fn
        self.future = future
        self.value: Any = None
        self.error: BaseException | None = None

    def run(self, connection: Connection) -> None:
        """Run inside a savepoint; a failure undoes this write alone."""
        connection.execute("savepoint one")
        try:
            self.value = self.fn(connection)
        except BaseException as error:
            self.error = error
            if not connection.in_transaction:  # SQLite has rolled everything back (disk full, for one)
                raise
            connection.execute("rollback to one")
        connection.execute("release one")

    def settle(self) -> None:
        if self.future is None or not self.future.set_running_or_notify_cancel():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.value)


class Database:
    """The program's SQLite file. Made by `open`; `close` waits for every write that was handed in.

    A failed commit (`StorageFull` when the disk is full) fails all writes of that transaction; none is on disk then.
    """

    def __init__(self, path: Path, writer: Connection) -> None:
        self._path = path
        self._writer = writer
        self._queue: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._failure: BaseException | None = None
        self._closed = False
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="db-read")
        self._local = threading.local()
        self._connections: list[Connection] = []
        self._thread = threading.Thread(target=self._serve, name="db-write", daemon=True)
        self._thread.start()

    @classmethod
    async def open(cls, path: Path, migrations: Iterable[Migration]) -> "Database":
        """Open or make the file (mode 0600) and bring its tables up to date.

        Raises EnvironmentFault when the file is not a database, or was written by a newer taskyard; StorageFull.
        """
        steps = tuple(migrations)
        return cls(path, await asyncio.to_thread(_prepare, path, steps))

    async def write(self, fn: Callable[[Connection], T]) -> T:
        """Run `fn` in a transaction on the writer thread; returns its value once that is durable.

        Raises what `fn` raised (its changes undone), or StorageFull. A caller that is cancelled undoes nothing.
        """
        future: Future[T] = Future()
        self._hand_in(_Write(fn, future))
        return await asyncio.wrap_future(future)

    def post(self, fn: Callable[[Connection], object]) -> None:
        """Hand in a write without waiting for it. Order with later writes is kept; a failure is raised by `close`."""
        self._hand_in(_Write(fn, None))

    async def read(self, fn: Callable[[Connection], T]) -> T:
        """Run `fn` on a reader thread, with a read-only connection of its own."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, self._read, fn)

    async def close(self) -> None:
        """Finish what was handed in and close. Raises the first failure of a posted write."""
        self._closed = True
        await asyncio.to_thread(self._close)
        if self._failure is not None:
            raise self._failure

    def _hand_in(self, write: _Write) -> None:
        if self._closed:  # nobody would ever serve it
            raise RuntimeError(f"the database {self._path} is closed")
        self._queue.put(write)

    def _close(self) -> None:
        self._queue.put(None)
        self._thread.join()
        self._readers.shutdown()
        for connection in self._connections:
            connection.close()
        self._writer.close()

    def _read(self, fn: Callable[[Connection], T]) -> T:
        connection: Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = _connect(self._path)
            connection.execute("pragma query_only = 1")
            self._local.connection = connection
            self._connections.append(connection)
        try:
            return fn(connection)
        except sqlite3.Error as error:
            raise _translated(error, self._path) from error

    def _serve(self) -> None:
        ended = False
        while not ended:
            batch: list[_Write] = []
            item = self._queue.get()
            while item is not None and len(batch) < _BATCH:
                batch.append(item)
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    break
            else:
                if item is not None:  # the batch is full: the one in hand goes with it
                    batch.append(item)
                ended = item is None
            self._commit(batch)

    def _commit(self, batch: list[_Write]) -> None:
        if not batch:
            return
        try:
            self._writer.execute("begin immediate")
            for write in batch:
                write.run(self._writer)
            fault.point("database.commit.before")
            self._writer.execute("commit")
            fault.point("database.commit.after")
        except BaseException as error:
            failure = _translated(error, self._path) if isinstance(error, sqlite3.Error) else error
            if self._writer.in_transaction:
                self._writer.execute("rollback")
            for write in batch:
                write.error = failure
        for write in batch:
            if isinstance(write.error, sqlite3.OperationalError):
                write.error = _translated(write.error, self._path)
            if write.future is None and write.error is not None and self._failure is None:
                self._failure = write.error
            write.settle()


def _connect(path: Path) -> Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=_BUSY_MS / 1000)
    connection.execute("pragma foreign_keys = 1")
    return connection


def _prepare(path: Path, migrations: tuple[Migration, ...]) -> Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        path.touch(mode=0o600, exist_ok=True)
        connection = _connect(path)
    except (OSError, sqlite3.Error) as error:
        raise EnvironmentFault(f"can't open the database {path}: {error}. Check the folder's rights.") from error
    try:
        connection.execute("pragma auto_vacuum = incremental")  # has no effect any more once the journal mode is set
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        _migrate(connection, migrations, path)
    except sqlite3.Error as error:
        connection.close()
        raise _translated(error, path) from error
    except TaskyardError:
        connection.close()
        raise
    return connection


def _migrate(connection: Connection, migrations: tuple[Migration, ...], path: Path) -> None:
    connection.execute("begin immediate")
    connection.execute(_SCHEMA)
    done = set(connection.execute("select owner, number from migration").fetchall())
    known = {(step.owner, step.number) for step in migrations}
    owners = {step.owner for step in migrations}
    if newer := sorted(step for step in done - known if step[0] in owners):
        connection.execute("rollback")
        raise EnvironmentFault(
            f"the database {path} was written by a newer taskyard (it has {newer[0][0]} {newer[0][1]}). "
            "Use that version, or move the file aside."
        )
    for step in sorted(migrations, key=lambda step: (step.owner, step.number)):
        if (step.owner, step.number) in done:
            continue
        for statement in _statements(step.sql):
            connection.execute(statement)
        connection.execute("insert into migration values (?, ?)", (step.owner, step.number))
    connection.execute("commit")


def _statements(sql: str) -> Iterable[str]:
    """Single statements of a script; `executescript` would commit the open transaction."""
    pending = ""
    for piece in sql.split(";"):
        pending += piece + ";"
        if sqlite3.complete_statement(pending):
            if pending.strip(" \n\t;"):
                yield pending
            pending = ""


def _translated(error: BaseException, path: Path) -> BaseException:
    """SQLite's own words as an error of ours where a person has to do something."""
    code = getattr(error, "sqlite_errorcode", None)
    if code in _FULL or "disk is full" in str(error):
        return StorageFull(f"the disk is full ({path}: {error}). Make room, then run `taskyard resume`.")
    if isinstance(error, sqlite3.DatabaseError) and code in {sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT}:
        return EnvironmentFault(f"{path} is damaged or no database ({error}). Move it aside, then start again.")
    if code is not None and code & 0xFF in _UNUSABLE:
        return EnvironmentFault(f"can't use the database {path}: {error}. Check the rights of the file and its folder.")
    if code is not None and code & 0xFF == sqlite3.SQLITE_BUSY:
        return EnvironmentFault(f"another process keeps the database {path} locked ({error}). End it, then try again.")
    return error
