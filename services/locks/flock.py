"""A lock held by an open file: it ends with its process, however that dies."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from taskyard.services.errors import EnvironmentFault


@contextmanager
def hold(path: Path, who: str) -> Iterator[None]:
    """Hold the lock while the block runs; `who` is what others are told.

    Raises EnvironmentFault, naming the holder, when another process has it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _taken(descriptor):
            raise EnvironmentFault(
                f"{_read(descriptor) or 'another process'} is under way in this repository. Wait for it or stop it; "
                "`taskyard status` shows how far it is."
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{who}, process {os.getpid()}".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def holder(path: Path) -> str | None:
    """Who holds the lock now; None when nobody does."""
    with suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read(descriptor) or "another process"
        finally:
            os.close(descriptor)
    return None


def _taken(descriptor: int) -> bool:
    """Take the lock unless somebody holds it. A look of `holder`, a shared lock for an instant, is nobody."""
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # only an exclusive holder is in its way
            except BlockingIOError:
                return False
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def _read(descriptor: int) -> str:
    return os.pread(descriptor, 200, 0).decode(errors="replace")
