"""Which paths the implementer's tools reach, and which of those they may change.

reach = Reach(folder, rules)
reach.file("src/a.py")        # links followed: to read and to edit
reach.entry("src/a.py")       # the entry itself, also when it is a link: to create and to delete
"""

import os
import posixpath
import re
import tomllib
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import product
from pathlib import Path, PurePosixPath

import msgspec

from taskyard.services.errors import ToolError
from taskyard.services.repo import is_dot_git

_OURS = (".taskyard", "taskyard.toml")
"""Lessons, prompts and settings decide what later runs do; no task has a say in them."""
_PROJECT = "pyproject.toml"
_NO_SETTINGS = repr(None)
_SECRETS = (
    ".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "id_rsa*", "id_ed25519*", ".netrc", ".npmrc", ".pypirc",
    ".git-credentials", "credentials", "credentials.json", "credentials.y*ml", "credentials.toml", "credentials.ini",
)  # fmt: skip
_NOT_SECRET = (".env.example", ".env.sample", ".env.template")
_ANY_FOLDERS = re.compile(r"(?:(?<=/)|^)(?:\*\*/)+")
_EXPANDED = 4
"""How many `**/` of one glob may stand for no folder at all."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What the tools may not touch."""

    protected: tuple[str, ...]
    """Globs of files that may be read and added, but not changed or deleted."""
    denied: tuple[str, ...]
    """Files and folders out of reach: the board, the lessons, submodules."""
    existing: frozenset[str]
    """The files of the attempt's base; only these count as protected."""


class Reach:
    """The paths below one folder. All methods raise ToolError for what is out of reach."""

    def __init__(self, folder: Path, rules: Rules) -> None:
        self._folder = folder.resolve()
        self._rules = rules
        self._denied = [posixpath.normpath(path).casefold() for path in (*_OURS, *rules.denied)]

    @property
    def folder(self) -> Path:
        """The root, links resolved."""
        return self._folder

    def file(self, name: str) -> Path:
        """The file that `name` stands for, links followed."""
        return self._checked(name, _resolved(name, self.entry(name)))

    def entry(self, name: str) -> Path:
        """The entry `name` itself; only its folder's links are followed."""
        if not name or "\0" in name or PurePosixPath(name).is_absolute():
            raise ToolError(f"{name!r} is no path inside the repository; give one relative to its root")
        try:
            os.fsencode(name)
        except UnicodeEncodeError as error:
            raise ToolError(f"{name!r} can't be the name of a file") from error
        path = Path(os.path.normpath(self._folder / name))
        if path == self._folder:
            raise ToolError(f"{name!r} is the repository's root; name a file in it, or search with a glob")
        return self._checked(name, _resolved(name, path.parent) / path.name)

    def name(self, path: Path) -> str:
        """A reachable path relative to the root, with `/`."""
        return path.relative_to(self._folder).as_posix()

    def refuse_protected(self, path: Path) -> None:
        """Raise ToolError when the file at `path` must stay as it is."""
        name = self.name(path)
        if name in self._rules.existing and matches(name, self._rules.protected):
            raise ToolError(
                f"{name} is protected: this task may not change or delete it. Add a new file beside it if you need one."
            )

    def refuse_settings(self, path: Path, data: bytes | None) -> None:
        """Raise ToolError when `data` (None: no file) at `path` would change what `[tool.taskyard]` says."""
        if not self._is_project(path):
            return
        before = _settings(path.read_bytes() if path.is_file() else b"")
        after = _settings(data or b"")
        if after is None:
            raise ToolError(f"{self.name(path)}: this would be no TOML, so nobody could tell what [tool.taskyard] says")
        if after != (before or _NO_SETTINGS):
            raise ToolError(
                f"{self.name(path)}: [tool.taskyard] is out of reach of the tools; leave that table as it is"
            )

    def _is_project(self, path: Path) -> bool:
        """Whether `path` is the root's pyproject.toml in any spelling, or what that leads to."""
        if path.parent == self._folder and path.name.casefold() == _PROJECT:
            return True
        entries = (entry for entry in self._folder.iterdir() if entry.name.casefold() == _PROJECT)
        return any(Path(os.path.realpath(entry)) == path for entry in entries)

    def _checked(self, name: str, path: Path) -> Path:
        if self._folder not in path.parents:
            raise ToolError(f"{name} leads out of the repository")
        relative = self.name(path)
        if any(is_dot_git(part) for part in relative.split("/")):
            raise ToolError(f"{name}: git's own files are out of reach")
        folded = relative.casefold()
        if _secret(path.name) or any(folded == place or folded.startswith(f"{place}/") for place in self._denied):
            raise ToolError(f"{name} is out of reach of the tools; leave it as it is")
        return path


def matches(path: str, globs: tuple[str, ...]) -> bool:
    """Whether a path fits one of the globs. `**/` fits any folders, also none; `*` fits `/` too."""
    return any(fnmatchcase(path, plain) for glob in globs for plain in _plain(glob))


@lru_cache(maxsize=1000)
def _plain(glob: str) -> tuple[str, ...]:
    """The globs without `**/` that together fit the same paths."""
    first, *rest = _ANY_FOLDERS.split(glob)
    choices = [("", "*/") if number < _EXPANDED else ("*/",) for number in range(len(rest))]
    return tuple(
        first + "".join(folders + part for folders, part in zip(chosen, rest, strict=True))
        for chosen in product(*choices)
    )


def _resolved(name: str, path: Path) -> Path:
    try:
        return path.resolve()
    except (RuntimeError, OSError) as error:  # before Python 3.13 a loop is a RuntimeError
        raise ToolError(f"{name}: its links lead in a circle") from error


def _settings(data: bytes) -> str | None:
    """What `[tool.taskyard]` says in a pyproject.toml; None for what is no TOML but names taskyard."""
    try:
        tool = tomllib.loads(data.decode("utf-8-sig")).get("tool")
    except (ValueError, RecursionError):
        return None if b"taskyard" in data.lower() else _NO_SETTINGS
    # Its text, since values that are equal need not be the same setting: 1 is True.
    return repr(tool.get("taskyard")) if isinstance(tool, dict) else _NO_SETTINGS


def _secret(name: str) -> bool:
    folded = name.casefold()
    return any(fnmatchcase(folded, glob) for glob in _SECRETS) and folded not in _NOT_SECRET
