"""Takes everything out of a folder that a layout does not name, whatever was done to it.

Symbolic links are never followed. Folders that were made read-only are opened up again; nested repositories, `.git`
entries, pipes and sockets go like anything else. So do tracked files that git would not have written like that, to be
written again. What a file holds is not looked at: that is git's part.
"""

# Names may be any bytes, and this loop is on the way of every task.
# ruff: noqa: PTH101, PTH102, PTH106, PTH108, PTH118

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass

_OWNER, _FOREIGN = 0o700, 0o7002


@dataclass(frozen=True)
class Layout:
    """The paths that belong into a folder, relative, `/`-separated, as bytes."""

    files: frozenset[bytes]
    submodules: frozenset[bytes]
    """Each is an empty folder."""
    folders: frozenset[bytes]
    """All folders, submodules included."""

    @classmethod
    def of(cls, files: Iterable[bytes], submodules: Iterable[bytes] = ()) -> "Layout":
        """The layout of these files and submodules and all folders above them."""
        files, submodules = frozenset(files), frozenset(submodules)
        folders = set(submodules)
        for path in (*files, *submodules):
            while (path := path.rpartition(b"/")[0]) and path not in folders:
                folders.add(path)
        return cls(files, submodules, frozenset(folders))


def sweep(root: bytes, layout: Layout) -> None:
    """Leave only what `layout` names, each of its kind. Raises OSError when something can't be removed."""
    if not stat.S_ISDIR(os.lstat(root).st_mode):
        os.unlink(root)
        os.mkdir(root)
    waiting = [b""]
    while waiting:
        folder = waiting.pop()
        place = os.path.join(root, folder) if folder else root
        _open_up(place)
        for entry in _entries(place):
            path = folder + b"/" + entry.name if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                if path in layout.folders:
                    waiting.append(path)
                else:
                    remove_tree(entry.path)
            elif path not in layout.files or not _as_written(entry):
                os.unlink(entry.path)


def remove_tree(folder: bytes) -> None:
    """Remove a real folder and all in it. Raises OSError when something can't be removed."""
    _open_up(folder)
    for entry in _entries(folder):
        if entry.is_dir(follow_symlinks=False):
            remove_tree(entry.path)
        else:
            os.unlink(entry.path)
    os.rmdir(folder)


def _as_written(entry: os.DirEntry[bytes]) -> bool:
    """Could git have written this, as far as kind, mode and links say?

    Git compares no mode but the executable bit, and times by the second: a `chmod` right after a checkout is missed.
    """
    if entry.is_symlink():
        return True
    facts = entry.stat(follow_symlinks=False)
    mode = facts.st_mode
    return stat.S_ISREG(mode) and mode & 0o600 == 0o600 and not mode & _FOREIGN and facts.st_nlink == 1


def _entries(folder: bytes) -> list[os.DirEntry[bytes]]:
    with os.scandir(folder) as entries:
        return list(entries)


def _open_up(folder: bytes) -> None:
    mode = stat.S_IMODE(os.lstat(folder).st_mode)
    if mode & _OWNER != _OWNER or mode & _FOREIGN:
        os.chmod(folder, 0o755)
