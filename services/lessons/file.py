"""The lessons file: JSON lines, append-only, the last line of an id wins.

Reading is tolerant: a line that is no lesson is passed over and told, with its number and why. A last line without its
line end is not read yet: somebody is still writing it. The file may be rewritten by git, an editor or a rename at any
time; nothing here remembers where a line stood.

`times_seen` is merged, because two branches may both have appended to it: each line's `seen_by` names the attempt that
made it, so the count is the larger of the highest count written and the number of different attempts. `first_seen` is
the earliest. All other fields are the last line's.
"""

import errno
import fcntl
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from taskyard.services import fault
from taskyard.services.clock import rfc3339, seconds_of
from taskyard.services.errors import ConfigError, EnvironmentFault, StorageFull
from taskyard.services.lessons.records import Skipped
from taskyard.services.records import Lesson

LINE_BYTES = 10_000_000
SEEN_BY = "seen_by"
_MARKERS = (b"<<<<<<< ", b"||||||| ", b">>>>>>> ")
_decode = msgspec.json.Decoder(Lesson).decode


class Contents(msgspec.Struct, frozen=True):
    """What a file says: made once, never changed."""

    digest: bytes = b""
    """Of the whole file; empty when there is none."""
    lessons: dict[str, Lesson] = {}
    """By id, in the order of their first lines."""
    seen_by: dict[str, tuple[str, ...]] = {}
    """By id, the attempts that saw it, first one first."""
    skipped: tuple[Skipped, ...] = ()


def read(path: Path, known: Contents) -> Contents:
    """What the file says now; `known` itself when not one byte differs. No file is an empty one.

    Raises ConfigError for a folder, EnvironmentFault when the file can't be read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return known if not known.digest else Contents()
    except IsADirectoryError as error:
        raise ConfigError(f"the lessons file {path} is a folder; set lessons.file to a file") from error
    except OSError as error:
        raise EnvironmentFault(f"can't read the lessons file {path}: {error.strerror}. Check its rights.") from error
    digest = hashlib.blake2b(content, digest_size=32).digest()
    return known if digest == known.digest else parse(content, digest)


def parse(content: bytes, digest: bytes) -> Contents:
    """Read every whole line of a file's content."""
    lessons: dict[str, Lesson] = {}
    seen_by: dict[str, dict[str, None]] = {}
    skipped: list[Skipped] = []
    for number, line in enumerate(content.split(b"\n")[:-1], 1):
        if not line.strip():
            continue
        try:
            lesson = _lesson(line)
        except (ValueError, RecursionError) as error:
            skipped.append(Skipped(number, _why(error)))
            continue
        keys = seen_by.setdefault(lesson.id, {})
        if key := lesson.metadata.get(SEEN_BY):
            keys[key] = None
        lessons[lesson.id] = _merged(lessons.get(lesson.id), lesson, len(keys))
    return Contents(digest, lessons, {id_: tuple(keys) for id_, keys in seen_by.items()}, tuple(skipped))


def _lesson(line: bytes) -> Lesson:
    """One line's lesson. Raises ValueError, or RecursionError for deep nesting."""
    if len(line) > LINE_BYTES:
        raise ValueError(f"longer than {LINE_BYTES // 1_000_000} MB")
    if line.startswith(b"\xef\xbb\xbf"):
        raise ValueError("begins with a byte order mark; save the file as UTF-8 without one")
    if line.startswith(_MARKERS) or line.rstrip() == b"=======":
        raise ValueError("a marker of a merge conflict")
    line.decode()
    lesson = _decode(line)
    if not lesson.id.strip():
        raise ValueError("has no id")
    if lesson.times_seen < 1:
        raise ValueError(f"times_seen is {lesson.times_seen}")
    return msgspec.structs.replace(
        lesson, first_seen=_stamp(lesson.first_seen), last_seen=_stamp(lesson.last_seen or lesson.first_seen)
    )


def _stamp(given: str) -> str:
    """One form for all times, so that they sort as text."""
    return rfc3339(seconds_of(given)) if given else ""


def _merged(before: Lesson | None, lesson: Lesson, attempts: int) -> Lesson:
    seen = max(lesson.times_seen, attempts)
    if before is None:
        return msgspec.structs.replace(lesson, times_seen=seen)
    first = min(filter(None, (before.first_seen, lesson.first_seen)), default="")
    return msgspec.structs.replace(lesson, times_seen=max(seen, before.times_seen), first_seen=first)


def _why(error: ValueError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 at byte {error.start}"
    return str(error)[:200]


@contextmanager
def appending(path: Path) -> Iterator[int]:
    """The file, made if need be, open for appending and locked against other taskyards.

    The lock is on the file itself (a lock file would litter the repository); the file that was locked may meanwhile
    have been replaced by a rename, then the new one is locked. A torn last line, of a writer that was killed or an
    editor that adds no line end, is ended first, so that it can't swallow the next.
    Raises StorageFull, ConfigError, EnvironmentFault.
    """
    try:
        descriptor = _locked(path)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                os.write(descriptor, b"\n")
            yield descriptor
        finally:
            os.close(descriptor)
    except IsADirectoryError as error:
        raise ConfigError(f"the lessons file {path} is a folder; set lessons.file to a file") from error
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise StorageFull(f"the disk is full ({path}). Make room, then run `taskyard resume`.") from error
        raise EnvironmentFault(f"can't write the lessons file {path}: {error.strerror}. Check its rights.") from error


def _locked(path: Path) -> int:
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_still(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_still(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def append(descriptor: int, folder: Path, lesson: Lesson) -> None:
    """Write `lesson` as a line of its own and wait until it is on the disk."""
    new = os.fstat(descriptor).st_size == 0
    left = memoryview(msgspec.json.encode(lesson) + b"\n")
    fault.point("lessons.append.before")
    while left:
        left = left[os.write(descriptor, left) :]
    fault.point("lessons.sync.before")
    os.fsync(descriptor)
    if new:
        _sync_folder(folder)
    fault.point("lessons.append.after")


def _sync_folder(folder: Path) -> None:
    """A new file is only safe once its folder is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
