"""Reads trees and makes new ones without a working folder."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, cast

from taskyard.services.errors import GitError
from taskyard.services.repo.git import Bare
from taskyard.services.repo.records import Change, TreeFile

REGULAR, EXECUTABLE, LINK, SUBMODULE, ABSENT = "100644", "100755", "120000", "160000", "000000"

# Code points that HFS+ leaves out when it compares names (git's own list, utf8.c).
_IGNORED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])


def text_of(path: bytes) -> str:
    """A path as git gives it."""
    return path.decode("utf-8", "surrogateescape")


def bytes_of(path: str) -> bytes:
    """A path as git takes it."""
    return path.encode("utf-8", "surrogateescape")


def refused(path: str, rule: str) -> GitError:
    """The error for a path that must not get into a tree."""
    return GitError(f"{path!r} is refused: {rule}")


def is_dot_git(part: str) -> bool:
    """Does this part of a path stand for `.git` on some file system (HFS+, NTFS)?"""
    plain = part.translate(_IGNORED).lower().split(":")[0].rstrip(" .")
    return plain in (".git", "git~1") or ("\\" in part and ".git" in plain)


def check_path(path: str) -> str:
    """`path` itself. Raises GitError when it could lead out of the tree or steer git."""
    parts = path.split("/")
    if "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise refused(path, "a path must be relative, without empty, '.' or '..' parts")
    if any(is_dot_git(part) for part in parts):
        raise refused(path, "one of its names stands for .git on some systems")
    return path


async def list_files(bare: Bare, tree: str) -> tuple[TreeFile, ...]:
    """Every file of the tree, sorted by path."""
    done = await bare.run("ls-tree", "-r", "-l", "-z", "--full-tree", tree)
    found = []
    for record in done.out.split(b"\0")[:-1]:
        facts, _, path = record.partition(b"\t")
        mode, _kind, blob, size = facts.decode().split()
        found.append(TreeFile(mode=mode, blob=blob, size=0 if size == "-" else int(size), path=text_of(path)))
    return tuple(sorted(found, key=lambda file: file.path))


async def list_modes(bare: Bare, tree: str) -> dict[str, tuple[str, str]]:
    """{path: (mode, id)} of every entry that is not a folder; cheaper than `list_files`."""
    done = await bare.run("ls-tree", "-r", "-z", "--full-tree", tree)
    found = {}
    for record in done.out.split(b"\0")[:-1]:
        facts, _, path = record.partition(b"\t")
        mode, _kind, blob = facts.decode().split()
        found[text_of(path)] = (mode, blob)
    return found


async def read_blobs(bare: Bare, names: Sequence[str]) -> list[bytes | None]:
    """The content of each blob, by id or `TREE:PATH`; None for what is not there or is not a blob."""
    done = await bare.run("cat-file", "--batch", "-z", stdin=b"".join(bytes_of(name) + b"\0" for name in names))
    contents: list[bytes | None] = []
    at = 0
    for name in names:
        missing = bytes_of(name) + b" missing\n"
        if done.out.startswith(missing, at):
            contents.append(None)
            at += len(missing)
            continue
        head = done.out.index(b"\n", at)
        _, kind, size = done.out[at:head].split(b" ")
        start, at = head + 1, head + 1 + int(size) + 1
        contents.append(done.out[start : at - 1] if kind == b"blob" else None)
    return contents


async def write_blobs(bare: Bare, contents: Sequence[bytes], *, kind: str = "blob", durable: bool = True) -> list[str]:
    """Store contents as they are, in one process; their ids."""
    if not contents:
        return []
    with tempfile.TemporaryDirectory(dir=bare.git_dir, prefix="tmp-") as folder:
        await asyncio.to_thread(_write_files, Path(folder), contents)
        # Names relative to the folder: its own may hold a line end.
        names = "".join(f"{number}\n" for number in range(len(contents))).encode()
        options = () if durable else ("-c", "core.fsync=none")
        command = ("hash-object", "-w", "-t", kind, "--no-filters", "--stdin-paths")
        done = await bare.run(*options, *command, stdin=names, work_tree=Path(folder))
    return done.text.split()


def _write_files(folder: Path, contents: Sequence[bytes]) -> None:
    for number, content in enumerate(contents):
        (folder / str(number)).write_bytes(content)


async def edit(bare: Bare, tree: str, entries: Mapping[str, tuple[str, str] | None]) -> str:
    """A new tree with these entries, path → (mode, id), set or (None) taken out."""
    zero = "0" * len(tree)
    lines = []
    # Removals first, so that a file may take the place of a folder and the other way round.
    for path, entry in sorted(entries.items(), key=lambda item: (item[1] is not None, item[0])):
        mode, blob = entry or ("0", zero)
        lines.append(f"{mode} {blob}\t".encode() + bytes_of(check_path(path)) + b"\0")
    async with scratch_index(bare) as index:
        await bare.run("read-tree", tree, index=index)
        await bare.run("update-index", "-z", "--index-info", stdin=b"".join(lines), index=index)
        return (await bare.run("write-tree", index=index)).line


@asynccontextmanager
async def scratch_index(bare: Bare) -> AsyncIterator[Path]:
    """A place for an index file that is gone afterwards."""
    with tempfile.TemporaryDirectory(dir=bare.git_dir, prefix="tmp-") as folder:
        yield Path(folder) / "index"


async def replace(bare: Bare, tree: str, changes: Mapping[str, bytes | None], modes: Mapping[str, str]) -> str:
    """See `Repository.replace`."""
    if not changes:
        return tree
    there = await list_modes(bare, tree)
    written = [path for path, content in changes.items() if content is not None]
    blobs = await write_blobs(bare, [content for content in changes.values() if content is not None])
    entries: dict[str, tuple[str, str] | None] = dict.fromkeys(changes)
    for path, blob in zip(written, blobs, strict=True):
        entries[path] = (modes.get(path) or there.get(path, (REGULAR, ""))[0], blob)
    return await edit(bare, tree, entries)


async def restore(bare: Bare, tree: str, source_tree: str, paths: Sequence[str]) -> str:
    """See `Repository.restore`."""
    have, want = await list_modes(bare, tree), await list_modes(bare, source_tree)
    entries: dict[str, tuple[str, str] | None] = {}
    for path in paths:
        for side in (have, want):
            entries |= {name: want.get(name) for name in side if _within(name, path)}
    entries = {name: entry for name, entry in entries.items() if have.get(name) != entry}
    return await edit(bare, tree, entries) if entries else tree


def _within(name: str, path: str) -> bool:
    return name == path or name.startswith(path + "/")


async def changed(bare: Bare, old: str, new: str) -> tuple[Change, ...]:
    """See `Repository.changed`."""
    done = await bare.run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, new)
    fields = done.out.split(b"\0")[:-1]
    found = []
    for facts, path in zip(fields[::2], fields[1::2], strict=True):
        old_mode, new_mode, _, _, kind = facts.decode().removeprefix(":").split()
        found.append(
            Change(
                path=text_of(path), kind=cast(Literal["A", "M", "D", "T"], kind), old_mode=old_mode, new_mode=new_mode
            )
        )
    return tuple(found)


async def diff(bare: Bare, old: str, new: str) -> bytes:
    """See `Repository.diff`."""
    options = (
        "-p", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--unified=3",
        "--diff-algorithm=myers", "--no-indent-heuristic", "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short",
    )  # fmt: skip
    return (await bare.run("diff-tree", "-r", *options, old, new)).out
