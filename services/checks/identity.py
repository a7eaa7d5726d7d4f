"""What the toolchains are, in one short string that changes when they change: part of a result's environment key.

Looked at, without running anything (some 20 ms):
- every entry of PATH: name, size and time of change of each tool, links by their target;
- every installation PATH leads to: its pyvenv.cfg, the names in its site-packages, dist-packages and node_modules (a
  package's name there holds its version), and its chosen version where a version manager keeps one;
- the package database of the system (dpkg, rpm, apk, pacman): time of change.
Not looked at: times of folders, because version managers and byte code touch them without changing anything.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from taskyard.services.checks.toolchains import Toolchains

_DATABASES = ("/var/lib/dpkg/status", "/var/lib/rpm/rpmdb.sqlite", "/lib/apk/db/installed", "/var/lib/pacman/local")
_LIBRARIES = (
    "lib/python*/site-packages",
    "lib/python*/dist-packages",
    "lib64/python*/site-packages",
    "lib/node_modules",
)
_FILES = ("pyvenv.cfg", "version", "settings.toml", "VERSION", "release")
_TIMED = (".dist-info", ".egg-info", ".pth", ".egg-link")


def identity(toolchains: Toolchains) -> str:
    """32 hexadecimal digits for the toolchains as they are on disk now."""
    digest = hashlib.blake2b(digest_size=16)
    for line in _facts(toolchains):
        digest.update(os.fsencode(line))
        digest.update(b"\0")
    return digest.hexdigest()


def _facts(toolchains: Toolchains) -> Iterator[str]:
    for entry in toolchains.path:
        yield f"entry {entry}"
        yield from _tools(entry)
    roots = {*toolchains.prefixes, *(folder for _, folder in toolchains.managers), "/usr", "/usr/local"}
    for root in sorted(roots):
        yield f"root {root}"
        for name in _FILES:
            yield _stamp(f"{root}/{name}")
        for pattern in _LIBRARIES:
            for library in sorted(Path(root).glob(pattern)):
                yield from _packages(str(library))
    for database in _DATABASES:
        yield _stamp(database)
    for extra in toolchains.folders:
        yield f"folder {extra}"


def _tools(folder: str) -> Iterator[str]:
    for name in _names(folder):
        yield _stamp(f"{folder}/{name}")


def _packages(folder: str) -> Iterator[str]:
    yield f"library {folder}"
    for name in _names(folder):
        if name != "__pycache__":
            yield _stamp(f"{folder}/{name}") if name.endswith(_TIMED) else name


def _names(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries)
    except OSError:
        return []


def _stamp(path: str) -> str:
    """Path, size and time of change; of a link also where it leads. Only the path when there is nothing."""
    try:
        target = str(Path(path).readlink())
    except OSError:
        target = ""
    try:
        facts = Path(path).stat()
    except OSError:
        return f"{path} {target}"
    return f"{path} {target} {facts.st_size} {facts.st_mtime_ns}"
