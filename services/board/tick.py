"""Marks tasks as done on a board: their status cells change and not one other byte."""

import os
import stat
from collections.abc import Collection
from hashlib import blake2b
from pathlib import Path

import filelock

from taskyard.services import fault
from taskyard.services.board.read import decode
from taskyard.services.board.rows import Row, read_rows
from taskyard.services.errors import BoardError

_DONE_MARK = "[x]"
_LOCK_SECONDS = 60
_TRIES = 10


def tick(content: bytes, ids: Collection[str], shown: str = "the board") -> bytes:
    """The board with the open tasks of `ids` marked as done.

    `[ ]` becomes `[x]`, an empty cell `[x]` of the same width where it has the room, `todo` and `open` become `done`
    in the same case. Rows that are done, or that a person set aside, stay. Raises BoardError when an id has no row.
    """
    ticked, missing = _ticked(content, ids, shown)
    _refuse_missing(missing, shown)
    return ticked


def tick_file(path: Path, ids: Collection[str], lock: Path) -> None:
    """`tick` in place, on what the file holds now.

    Blocks (a lock, two fsyncs). The file is replaced in one step and keeps its mode; a symbolic link stays one. lock:
    a path outside the repository that all writers of this board share. Raises BoardError when a row is gone (the
    others are ticked), or when the file can't be read or written.
    """
    try:
        with filelock.FileLock(lock, timeout=_LOCK_SECONDS):
            missing = _tick_in_place(path.resolve(), ids, path.name)
    except filelock.Timeout as error:
        raise BoardError(f"{path.name} was not ticked: another process has held its lock for a minute") from error
    except OSError as error:
        raise BoardError(f"{path.name} was not ticked: {error}; tick {', '.join(ids)} by hand") from error
    _refuse_missing(missing, path.name)


def _tick_in_place(target: Path, ids: Collection[str], shown: str) -> list[str]:
    # One name per board, used under the lock only, so that what a killed process left behind goes with the next tick.
    name = blake2b(os.fsencode(target.name), digest_size=6).hexdigest()
    temporary = target.with_name(f".taskyard-{name}.tmp")
    temporary.unlink(missing_ok=True)
    for _ in range(_TRIES):
        content = target.read_bytes()
        ticked, missing = _ticked(content, ids, shown)
        if ticked == content or _replaced(target, temporary, content, ticked):
            return missing
    raise BoardError(f"{shown} was not ticked: it changed {_TRIES} times in a row while it was written")


def _replaced(target: Path, temporary: Path, expected: bytes, content: bytes) -> bool:
    """Replaces the file unless it was changed meanwhile (an editor knows nothing of our lock)."""
    try:
        with temporary.open("xb") as file:
            os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if target.read_bytes() != expected:
            return False
        fault.point("board.replace.before")
        temporary.replace(target)
        fault.point("board.replace.after")
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(target.parent)
    return True


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _ticked(content: bytes, ids: Collection[str], shown: str) -> tuple[bytes, list[str]]:
    text = decode(content, shown)
    rows = {row.id: row for row in read_rows(text, shown)[0]}
    missing = [task for task in ids if task not in rows]
    chosen = [rows[task] for task in set(ids) if task in rows and rows[task].status == "open"]
    parts, at = [], 0
    for row in sorted(chosen, key=lambda row: row.line.start):
        start, end = _status_span(row)
        parts += [text[at:start], _done(text[start:end])]
        at = end
    return "".join([*parts, text[at:]]).encode("utf-8"), missing


def _refuse_missing(missing: list[str], shown: str) -> None:
    if missing:
        raise BoardError(f"{shown} has no row any more for {', '.join(missing)}; it was not ticked there")


def _status_span(row: Row) -> tuple[int, int]:
    cell = row.cells["status"]
    return row.line.start + cell.start, row.line.start + cell.end


def _done(cell: str) -> str:
    """The source of an open status cell, made done."""
    if not cell.strip():
        return _filled(cell)
    if "[ ]" in cell:
        return cell.replace("[ ]", _DONE_MARK)
    for word in ("todo", "open"):
        at = cell.casefold().find(word)
        if at >= 0:
            return cell[:at] + _like(cell[at : at + len(word)]) + cell[at + len(word) :]
    return cell


def _filled(blank: str) -> str:
    if len(blank) >= len(_DONE_MARK):
        before = 0 if len(blank) == len(_DONE_MARK) else 1
        return blank[:before] + _DONE_MARK + blank[before + len(_DONE_MARK) :]
    return f"{blank}{_DONE_MARK}{blank}" if len(blank) == 1 else blank[:1] + _DONE_MARK + blank[1:]


def _like(word: str) -> str:
    """ "done" in the case of the word it replaces."""
    if word.isupper():
        return "DONE"
    return "Done" if word[0].isupper() else "done"
