"""The archive: JSON lines in zstd files, one file for each step of a prune, written before anything is deleted."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
import zstandard

from taskyard.services import fault
from taskyard.services.clock import rfc3339
from taskyard.services.errors import EnvironmentFault
from taskyard.services.history.records import AttemptRecord

_LEVEL = 3


def write(folder: Path, records: Sequence[AttemptRecord]) -> str:
    """Put `records` into a new file of `folder` and wait until it is on the disk; returns the file's name.

    The name comes from the content: the same records written again after a crash make the same file, not a second one.
    Raises EnvironmentFault when the folder can't be made or written.
    """
    content = b"".join(msgspec.json.encode(record) + b"\n" for record in records)
    stamp = rfc3339(min(record.end or record.start for record in records)).replace(":", "")
    name = f"attempts-{stamp}-{hashlib.blake2b(content, digest_size=8).hexdigest()}.jsonl.zst"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(folder, name, zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(content))
    except OSError as error:
        raise EnvironmentFault(
            f"can't write the history archive {folder}: {error.strerror}. Nothing was pruned; make room or set "
            "history.archive."
        ) from error
    return name


def read(path: Path) -> list[AttemptRecord]:
    """The records of an archive file, oldest first. Raises EnvironmentFault when it is damaged or can't be read."""
    try:
        with (
            path.open("rb") as file,
            zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as stream,
        ):
            lines = stream.read().splitlines()
        return [msgspec.json.decode(line, type=AttemptRecord) for line in lines]
    except (OSError, zstandard.ZstdError, msgspec.DecodeError) as error:
        raise EnvironmentFault(f"can't read the history archive {path}: {error}") from error


def _write(folder: Path, name: str, content: bytes) -> None:
    """Whole or not at all: written aside, synced, then renamed."""
    aside = folder / f"{name}.{os.getpid()}.new"
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            fault.point("history.archive.sync.before")
            os.fsync(file.fileno())
        fault.point("history.archive.rename.before")
        aside.replace(folder / name)
    except OSError:
        aside.unlink(missing_ok=True)
        raise
    fault.point("history.archive.rename.after")
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
