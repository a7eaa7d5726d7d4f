"""Turns named files of a worktree into a tree, and nothing else.

The files are linked into an empty folder and added from there, so a `.git`, a `.gitattributes` or any other file
that happens to lie in the worktree can't have a say; attributes come from the tree that was laid out and from the
named files. The index starts without stat data: content is read anew, a restored mtime fools nobody.
"""

import asyncio
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from taskyard.services.errors import GitError
from taskyard.services.repo.git import Bare, clean_words
from taskyard.services.repo.trees import bytes_of, check_path, is_dot_git, refused


async def stage(bare: Bare, tree: str, folder: Path, paths: Iterable[str], beside: Path) -> str:
    """The tree with `paths` as they are in `folder` now. `beside`: a folder on the same disk for scratch files.

    Raises GitError that names the path and the rule when one can't be taken, or with git's words when attributes
    among them make a tree that can't be laid out.
    """
    wanted = sorted({check_path(path) for path in paths})
    if not wanted:
        return tree
    with tempfile.TemporaryDirectory(dir=beside, prefix="stage-") as scratch:
        index, copy = Path(scratch) / "index", Path(scratch) / "files"
        await asyncio.to_thread(_link, folder, copy, wanted)
        await bare.run("read-tree", tree, index=index)
        listed = b"".join(
            bytes_of(path) + b"\0" for path in wanted if not (copy / path).is_dir() or (copy / path).is_symlink()
        )
        options = ("--add", "--remove", "--replace", "-z", "--stdin")
        with _without_places(scratch):
            await bare.run("update-index", *options, stdin=listed, index=index, work_tree=copy)
            new = (await bare.run("write-tree", index=index)).line
            if any(path.rpartition("/")[2].casefold() == ".gitattributes" for path in wanted):
                await _try_out(bare, new, Path(scratch) / "whole")
        return new


async def _try_out(bare: Bare, tree: str, folder: Path) -> None:
    """Lay out everything once, in `folder`.

    Attributes also hold for files that were not staged: an encoding that git does not know shows only here.
    """
    await asyncio.to_thread(folder.mkdir)
    index = folder.with_name("whole-index")
    done = await bare.run("read-tree", "--reset", "-u", tree, index=index, work_tree=folder)
    if done.err.strip():  # git goes on past a file that it can't encode
        raise GitError(f"with these attributes the tree can't be laid out: {clean_words(done.err)}")


@contextmanager
def _without_places(scratch: str) -> Iterator[None]:
    """Leave the scratch folder out of git's words: it is another one each time, and no concern of who reads them."""
    try:
        yield
    except GitError as error:
        words = str(error).replace(f" in {scratch}/files", "").replace(f" in {scratch}/whole", "")
        raise GitError(words.replace(f"{scratch}/", "")) from error


def _link(folder: Path, copy: Path, paths: list[str]) -> None:
    copy.mkdir()
    for path in paths:
        if not _on_disk(folder, path):
            continue
        source, place = folder / path, copy / path
        mode = source.lstat().st_mode
        if stat.S_ISDIR(mode):
            if os.path.lexists(source / ".git"):
                raise refused(path, "it is a nested repository")
            continue
        if stat.S_ISLNK(mode):
            _check_link(folder, path)
        elif not stat.S_ISREG(mode):
            raise refused(path, "it is neither a file nor a symbolic link")
        place.parent.mkdir(parents=True, exist_ok=True)
        _same_file(source, place)


def _on_disk(folder: Path, path: str) -> bool:
    """Is there something at `path`? Not when a part above it is no folder; a link above it does not lead anywhere."""
    if not os.path.lexists(folder / path):
        return False
    for above in _above(path):
        place = folder / above
        if place.is_symlink() or not place.is_dir():
            return False
        if os.path.lexists(place / ".git"):
            raise refused(path, f"'{above}' is a nested repository")
    return True


def _above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _check_link(folder: Path, path: str) -> None:
    if path.rpartition("/")[2].lower().startswith(".git"):
        raise refused(path, "a .git… file can't be a symbolic link")
    target = str((folder / path).readlink())
    inside = os.path.normpath(Path(path).parent / target)
    root = os.path.realpath(folder)
    real = os.path.realpath(folder / path)
    outside = real != root and not real.startswith(root + os.sep)
    if Path(target).is_absolute() or inside == ".." or inside.startswith("../") or outside:
        raise refused(path, f"the symbolic link leaves the tree (to {target!r})")
    if any(is_dot_git(part) for part in inside.split("/")):
        raise refused(path, f"the symbolic link leads into .git (to {target!r})")


def _same_file(source: Path, place: Path) -> None:
    try:
        os.link(source, place, follow_symlinks=False)
    except OSError:  # another owner, or a file system without hard links
        shutil.copy2(source, place, follow_symlinks=False)
