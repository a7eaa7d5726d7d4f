"""The implementer's tools, carried out on one laid-out tree.

box = Toolbox(folder, rules)
box.call("edit", {"path": "a.py", "old": "1", "new": "2", "count": None})   # "ok: …", or raises ToolError
box.touched                                                               # the paths to commit, and no others
"""

import asyncio
import os
import stat
from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import regex

from taskyard.services.errors import ToolError
from taskyard.services.pipeline.edits import replace

RESULT_BYTES = 10_000
"""The most that one tool result may hold; head and tail are kept."""
_FILE_BYTES = 5_000_000
_LINE = 500
_MATCHES = 200
_SEARCH_S = 5.0
_SECRETS = (".env", ".env.*", "*.pem", "*.key", "id_rsa*", "id_ed25519*", ".netrc", ".npmrc", ".pypirc", "credentials*")
_NOT_SECRET = (".env.example", ".env.sample", ".env.template")


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What the tools may not touch."""

    protected: tuple[str, ...]
    """Globs of files that may be read and added, but not changed or deleted."""
    denied: tuple[str, ...]
    """Paths out of reach: the board, the lessons."""
    existing: frozenset[str]
    """The files of the attempt's base; only these count as protected."""


class Toolbox:
    """Runs tool calls in a folder. All paths are relative to it, with `/`."""

    def __init__(self, folder: Path, rules: Rules) -> None:
        self._folder = folder.resolve()
        self._rules = rules
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
        self._folder = folder.resolve()

    async def carry_out(self, name: str, arguments: Mapping[str, Any]) -> str:
        """`call` in a thread. A cancelled caller waits for it, since it must not write into the next task's tree."""
        work = asyncio.ensure_future(asyncio.to_thread(self.call, name, arguments))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            await asyncio.wait([work])
            raise

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Carry out one call; returns what the model is told. Raises ToolError for what can't be done."""
        if name not in self._tools:
            raise ToolError(f"there is no tool {name!r}")
        type_, run = self._tools[name]
        return run(_arguments(name, type_, arguments))

    def _view(self, call: "View") -> str:
        lines = self._text(call.path).splitlines()
        first = max(call.start or 1, 1)
        last = min(call.end or len(lines), len(lines))
        if lines and first > len(lines):
            raise ToolError(f"{call.path} has {len(lines)} lines; there is no line {first}")
        return clip("\n".join(f"{n}\t{lines[n - 1]}" for n in range(first, last + 1))) or "(the file is empty)"

    def _search(self, call: "Search") -> str:
        try:
            pattern = regex.compile(call.pattern)
        except regex.error as error:
            raise ToolError(f"not a regular expression: {error}") from error
        found: list[str] = []
        for path in self._files(call.glob):
            found += self._matches(path, pattern)
            if len(found) >= _MATCHES:
                return clip("\n".join(found[:_MATCHES]) + "\n(more matches were left out)")
        return clip("\n".join(found)) or "(no match)"

    def _matches(self, path: str, pattern: Any) -> list[str]:
        try:
            text = self._text(path)
            return [
                f"{path}:{number}:{line[:_LINE]}"
                for number, line in enumerate(text.splitlines(), 1)
                if pattern.search(line[: 20 * _LINE], timeout=_SEARCH_S)
            ]
        except TimeoutError as error:
            raise ToolError("this regular expression takes too long; use a simpler one") from error
        except ToolError:  # binary, too large or out of reach: searched past
            return []

    def _edit(self, call: "Edit") -> str:
        path = self._changeable(call.path)
        data = replace(self._bytes(call.path), call.old, call.new, 1 if call.count is None else call.count)
        self._write(path, data)
        return self._changed(path, "edited")

    def _create(self, call: "Create") -> str:
        path = self._inside(call.path)
        if os.path.lexists(path):
            raise ToolError(f"{call.path} exists; use edit to change it")
        try:
            data = call.text.encode()
        except UnicodeEncodeError as error:
            raise ToolError("`text` holds a lone surrogate, which no file can hold") from error
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ToolError(f"{call.path}: a part of its folder is a file") from error
        self._write(path, data)
        return self._changed(path, "created")

    def _delete(self, call: "Delete") -> str:
        path = self._changeable(call.path)
        if not os.path.lexists(path):
            raise ToolError(f"there is no file {call.path}")
        if path.is_dir() and not path.is_symlink():
            raise ToolError(f"{call.path} is a folder; delete its files one by one")
        path.unlink()
        return self._changed(path, "deleted")

    def _changed(self, path: Path, what: str) -> str:
        name = path.relative_to(self._folder).as_posix()
        self.touched.add(name)
        return f"ok: {what} {name}"

    def _write(self, path: Path, data: bytes) -> None:
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644
        beside = path.with_name(f".{path.name[:100]}.taskyard")
        beside.write_bytes(data)
        beside.chmod(mode)
        beside.replace(path)

    def _text(self, name: str) -> str:
        data = self._bytes(name)
        if b"\0" in data[:8192]:
            raise ToolError(f"{name} is a binary file")
        return data.decode("utf-8-sig", errors="replace")

    def _bytes(self, name: str) -> bytes:
        path = self._inside(name)
        if path.is_dir():
            raise ToolError(f"{name} is a folder; its files: {', '.join(sorted(p.name for p in path.iterdir())[:50])}")
        if not path.is_file():
            raise ToolError(f"there is no file {name}")
        if path.stat().st_size > _FILE_BYTES:
            raise ToolError(f"{name} is larger than {_FILE_BYTES // 1_000_000} MB")
        return path.read_bytes()

    def _files(self, glob: str | None) -> list[str]:
        names = []
        for folder, folders, files in os.walk(self._folder):
            folders[:] = sorted(name for name in folders if name != ".git")
            base = Path(folder).relative_to(self._folder)
            names += [(base / name).as_posix() for name in files]
        return sorted(name for name in names if glob is None or matches(name, (glob,)))

    def _changeable(self, name: str) -> Path:
        path = self._inside(name)
        relative = path.relative_to(self._folder).as_posix()
        if relative in self._rules.existing and matches(relative, self._rules.protected):
            raise ToolError(
                f"{relative} is protected: this task may not change or delete it. "
                "Add a new file beside it if you need one."
            )
        return path

    def _inside(self, name: str) -> Path:
        """The path in the folder, links resolved. Raises ToolError for what is outside or out of reach."""
        if not name or "\0" in name or PurePosixPath(name).is_absolute():
            raise ToolError(f"{name!r} is no path inside the repository; give one relative to its root")
        path = Path(os.path.normpath(self._folder / name))
        parent = path.parent.resolve()
        resolved = path.resolve()
        if not (_within(parent, self._folder) and _within(resolved, self._folder)) or resolved == self._folder:
            raise ToolError(f"{name} leads out of the repository")
        relative = resolved.relative_to(self._folder).as_posix()
        if any(_git_like(part) for part in relative.split("/")):
            raise ToolError(f"{name}: git's own files are out of reach")
        if _secret(resolved.name) or relative in self._rules.denied or relative.split("/")[0].casefold() == ".taskyard":
            raise ToolError(f"{name} is out of reach of the tools; leave it as it is")
        return resolved


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


def matches(path: str, globs: tuple[str, ...]) -> bool:
    """Whether a path fits one of the globs; `**/` fits any folders, also none."""
    return any(fnmatch(path, glob) or (glob.startswith("**/") and fnmatch(path, glob[3:])) for glob in globs)


def clip(text: str) -> str:
    """At most `RESULT_BYTES` of text: its head and its tail."""
    data = text.encode(errors="replace")
    if len(data) <= RESULT_BYTES:
        return text
    half = RESULT_BYTES // 2
    head, tail = data[:half].decode(errors="ignore"), data[-half:].decode(errors="ignore")
    return f"{head}\n… ({len(data) - 2 * half} bytes left out) …\n{tail}"


def _arguments(name: str, type_: type[Any], given: Mapping[str, Any]) -> Any:
    try:
        return msgspec.convert(given, type=type_)
    except msgspec.ValidationError as error:
        raise ToolError(f"{name}: {error}") from error


def _within(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


def _git_like(part: str) -> bool:
    """`.git`, and the spellings that some file systems take for it."""
    folded = part.casefold().rstrip(". ")
    return folded in {".git", "git~1"}


def _secret(name: str) -> bool:
    folded = name.casefold()
    return any(fnmatch(folded, glob) for glob in _SECRETS) and folded not in _NOT_SECRET
