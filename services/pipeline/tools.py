"""The implementer's tools, carried out on one laid-out tree.

box = Toolbox(folder, rules, clock)
box.call("edit", {"path": "a.py", "old": "1", "new": "2", "count": None})   # "ok: …", or raises ToolError
box.touched                                                               # the paths to commit, and no others
"""

import asyncio
import errno
import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import re2

from taskyard.services.clock import Clock
from taskyard.services.errors import StorageFull, ToolError
from taskyard.services.pipeline.edits import encoded, lines_of, replace
from taskyard.services.pipeline.reach import Reach, Rules, matches

T = TypeVar("T")

RESULT_BYTES = 10_000
"""The most that one tool result may hold; head and tail are kept."""
_FILE_BYTES = 5_000_000
_LINE = 500
_MATCHES = 200
_LISTED = 50
_PATTERN_BYTES = 8_000_000
_SEARCH_S = 10.0
"""How long one search may take."""
_FULL = {errno.ENOSPC, errno.EDQUOT}


class View(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    start: int | None = None
    end: int | None = None


class Search(msgspec.Struct, forbid_unknown_fields=True):
    pattern: str
    glob: str | None = None


class Edit(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    old: str
    new: str
    count: int | None = None


class Create(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    text: str


class Delete(msgspec.Struct, forbid_unknown_fields=True):
    path: str


class RunCheck(msgspec.Struct, forbid_unknown_fields=True):
    name: str


class Finish(msgspec.Struct, forbid_unknown_fields=True):
    summary: str


class Toolbox:
    """Runs tool calls in a folder. All paths are relative to it, with `/`."""

    def __init__(self, folder: Path, rules: Rules, clock: Clock) -> None:
        self._reach = Reach(folder, rules)
        self._rules = rules
        self._clock = clock
        self.touched: set[str] = set()
        self._tools: dict[str, tuple[type[Any], Callable[[Any], str]]] = {
            "view": (View, self._view),
            "search": (Search, self._search),
            "edit": (Edit, self._edit),
            "create": (Create, self._create),
            "delete": (Delete, self._delete),
        }

    def move(self, folder: Path) -> None:
        """The tree lies in another folder now."""
        self._reach = Reach(folder, self._rules)

    async def carry_out(self, name: str, arguments: object) -> str:
        """`call` in a thread. A cancelled caller waits for it, since it must not write into the next task's tree."""
        work = asyncio.ensure_future(asyncio.to_thread(self.call, name, arguments))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            await asyncio.wait([work])
            raise

    def call(self, name: str, arguments: object) -> str:
        """Carry out one call; returns what the model is told.

        Raises ToolError for what can't be done, StorageFull when the disk is full.
        """
        if name not in self._tools:
            raise ToolError(f"there is no tool {name!r}")
        type_, run = self._tools[name]
        given = read_arguments(name, type_, arguments)
        try:
            return run(given)
        except OSError as error:
            if error.errno in _FULL:
                raise StorageFull(
                    "The disk is full: no room for a worktree's file. Make room, then run `taskyard resume`."
                ) from error
            raise ToolError(f"{name}: {os.strerror(error.errno or errno.EIO)}") from error

    def _view(self, call: View) -> str:
        lines = lines_of(self._text(call.path))
        if not lines:
            return "(the file is empty)"
        first = max(call.start or 1, 1)
        last = len(lines) if call.end is None else min(call.end, len(lines))
        if first > len(lines):
            raise ToolError(f"{call.path} has {len(lines)} lines; there is no line {first}")
        if last < first:
            raise ToolError(f"`end` ({call.end}) lies before `start` ({first})")
        return clip("\n".join(f"{n}\t{lines[n - 1]}" for n in range(first, last + 1)))

    def _search(self, call: Search) -> str:
        pattern = _compiled(call.pattern)
        files = self._files(call.glob)
        if not files:
            return f"(no file fits the glob {call.glob})" if call.glob else "(there are no files)"
        until = self._clock.monotonic() + _SEARCH_S
        found: list[str] = []
        for path in files:
            found += self._matches(path, pattern, until)
            if len(found) > _MATCHES:
                return clip("\n".join(found[:_MATCHES]) + "\n(more matches were left out)")
        return clip("\n".join(found)) or "(no match)"

    def _matches(self, path: str, pattern: Any, until: float) -> list[str]:
        try:
            lines = lines_of(self._text(path))
        except (ToolError, OSError):  # binary, too large or out of reach: searched past
            return []
        found = []
        for number, line in enumerate(lines, 1):
            if self._clock.monotonic() > until:
                raise ToolError("this search takes too long; use a simpler pattern, or a glob for fewer files")
            if pattern.search(line[: 20 * _LINE]):
                found.append(f"{path}:{number}:{line[:_LINE]}")
        return found

    def _edit(self, call: Edit) -> str:
        path = self._reach.file(call.path)
        self._reach.refuse_protected(path)
        data = replace(self._bytes(call.path), call.old, call.new, 1 if call.count is None else call.count)
        self._reach.refuse_settings(path, data)
        _write(path, data)
        return self._changed(path, "edited")

    def _create(self, call: Create) -> str:
        path = self._reach.entry(call.path)
        if path.is_dir() and not path.is_symlink():
            raise ToolError(f"{call.path} is a folder")
        if os.path.lexists(path):
            raise ToolError(f"{call.path} exists; use edit to change it")
        data = encoded(call.text, "text")
        self._reach.refuse_settings(path, data)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise ToolError(f"{call.path}: a part of its folder is a file") from error
        _write(path, data)
        return self._changed(path, "created")

    def _delete(self, call: Delete) -> str:
        path = self._reach.entry(call.path)
        self._reach.refuse_protected(path)
        if not os.path.lexists(path):
            raise ToolError(f"there is no file {call.path}")
        if path.is_dir() and not path.is_symlink():
            raise ToolError(f"{call.path} is a folder; delete its files one by one")
        self._reach.refuse_settings(path, None)
        path.unlink()
        with suppress(OSError):  # as git has it: a folder without files is no folder
            for folder in path.parents:
                if folder == self._reach.folder:
                    break
                folder.rmdir()
        return self._changed(path, "deleted")

    def _changed(self, path: Path, what: str) -> str:
        name = self._reach.name(path)
        self.touched.add(name)
        return f"ok: {what} {name}"

    def _text(self, name: str) -> str:
        data = self._bytes(name)
        if b"\0" in data:
            raise ToolError(f"{name} is a binary file")
        return data.decode("utf-8-sig", errors="replace")

    def _bytes(self, name: str) -> bytes:
        path = self._reach.file(name)
        if path.is_dir():
            names = sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in path.iterdir())
            more = ", …" if len(names) > _LISTED else ""
            raise ToolError(f"{name} is a folder; in it: {', '.join(names[:_LISTED])}{more}")
        if not path.exists():
            raise ToolError(f"there is no file {name}")
        if not path.is_file():
            raise ToolError(f"{name} is no ordinary file")
        if path.stat().st_size > _FILE_BYTES:
            raise ToolError(f"{name} is larger than {_FILE_BYTES // 1_000_000} MB")
        return path.read_bytes()

    def _files(self, glob: str | None) -> list[str]:
        """Every file, or those that fit the glob; a folder's name stands for what is in it."""
        names = []
        for folder, _, files in os.walk(self._reach.folder):
            base = Path(folder).relative_to(self._reach.folder)
            names += [(base / name).as_posix() for name in files]
        wanted = (glob or "").removeprefix("./").strip("/")
        globs = (wanted, f"{wanted}/**")
        return sorted(name for name in names if wanted in {"", "."} or matches(name, globs))


def _write(path: Path, data: bytes) -> None:
    """Put a file in place whole, its mode kept."""
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644
    number, name = tempfile.mkstemp(dir=path.parent, prefix=".taskyard-")
    beside = Path(name)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(data)
        beside.chmod(mode)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _compiled(pattern: str) -> Any:
    """The pattern, by RE2: linear in time and bounded in memory whatever the model writes, which `re` is not."""
    options = re2.Options()
    options.max_mem = _PATTERN_BYTES
    options.log_errors = False
    try:
        return re2.compile(pattern, options=options)
    except (re2.error, UnicodeEncodeError) as error:
        words = error.args[0] if error.args else error
        why = words.decode(errors="replace") if isinstance(words, bytes) else str(error)
        raise ToolError(
            f"not a usable regular expression (RE2 syntax, no lookaround or back-references): {why}"
        ) from error


def clip(text: str) -> str:
    """At most `RESULT_BYTES` of text that can be sent: its head and its tail."""
    data = text.encode(errors="replace")
    if len(data) <= RESULT_BYTES:
        return data.decode()
    half = (RESULT_BYTES - 100) // 2
    head, tail = data[:half].decode(errors="ignore"), data[-half:].decode(errors="ignore")
    return f"{head}\n… ({len(data) - 2 * half} bytes left out) …\n{tail}"


def read_arguments(name: str, type_: type[T], given: object) -> T:
    """The arguments of a call. Raises ToolError that names the field at fault."""
    if not isinstance(given, Mapping):
        raise ToolError(f"{name}: the input is no object")
    try:
        return msgspec.convert(given, type=type_)
    except msgspec.ValidationError as error:
        raise ToolError(f"{name}: {error}") from error
