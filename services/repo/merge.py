"""Three-way merges of trees, without a working folder and without anything the tree could say about it.

`git merge-tree` takes commits only (before git 2.45), so each tree is dressed as a commit of nobody at the time 0:
ours and theirs have the base as their one parent. In a bare repository without an index git reads no attributes,
so neither a merge driver nor `merge=union` of the user's tree has a say.
"""

import hashlib
import re
from dataclasses import dataclass

from taskyard.services.errors import GitError
from taskyard.services.repo.git import Bare
from taskyard.services.repo.records import Conflict, Merge
from taskyard.services.repo.trees import bytes_of, read_blobs, text_of, write_blobs

_NOBODY = "taskyard <taskyard> 0 +0000"
_TEXT_LIMIT = 4096
_CONTEXT = 3
_START, _END = re.compile(rb"<<<<<<< "), re.compile(rb">>>>>>> ")


@dataclass(frozen=True)
class _Dressed:
    """A tree as a commit."""

    id: str
    content: bytes


async def merge(bare: Bare, base_tree: str, ours_tree: str, theirs_tree: str) -> Merge:
    """See `Repository.merge`."""
    if ours_tree == theirs_tree or base_tree == theirs_tree:
        return Merge(ours_tree)
    if base_tree == ours_tree:
        return Merge(theirs_tree)
    base = _dress(base_tree, None)
    ours, theirs = _dress(ours_tree, base), _dress(theirs_tree, base)
    written = await write_blobs(bare, [side.content for side in (base, ours, theirs)], kind="commit", durable=False)
    if written != [base.id, ours.id, theirs.id]:
        raise GitError(f"git named the synthetic commits of a merge otherwise than expected: {written}")
    done = await bare.run("merge-tree", "--write-tree", "-z", "--messages", ours.id, theirs.id, ok=(0, 1))
    tree, _, rest = done.out.partition(b"\0")
    if done.code == 0:
        return Merge(tree.decode())
    return Merge(None, await _conflicts(bare, tree.decode(), rest, {ours.id: "ours", theirs.id: "theirs"}))


def _dress(tree: str, parent: _Dressed | None) -> _Dressed:
    above = f"parent {parent.id}\n" if parent else ""
    content = f"tree {tree}\n{above}author {_NOBODY}\ncommitter {_NOBODY}\n\n".encode()
    algorithm = hashlib.sha1 if len(tree) == 40 else hashlib.sha256
    return _Dressed(algorithm(b"commit %d\0" % len(content) + content).hexdigest(), content)


async def _conflicts(bare: Bare, tree: str, rest: bytes, labels: dict[str, str]) -> tuple[Conflict, ...]:
    """From the rest of merge-tree's output: stages, an empty field, then messages (count, paths, type, text)."""
    fields = rest.split(b"\0")
    end = fields.index(b"")
    paths = sorted({field.partition(b"\t")[2] for field in fields[:end]})
    words = _messages(fields[end + 1 :])
    contents = await read_blobs(bare, [f"{tree}:{text_of(path)}" for path in paths])
    found = []
    for path, content in zip(paths, contents, strict=True):
        hunks = _hunks(content or b"")
        text = text_of(hunks) if hunks else "".join(words.get(path, ["CONFLICT: both sides changed it\n"]))
        shown = text_of(path)
        for commit, label in labels.items():
            text = text.replace(commit, label)
            shown = shown.removesuffix(f"~{commit}")
        found.append(Conflict(shown, _printable(text)))
    return tuple(found)


def _messages(fields: list[bytes]) -> dict[bytes, list[str]]:
    words: dict[bytes, list[str]] = {}
    at = 0
    while at < len(fields) and fields[at]:
        count = int(fields[at])
        paths = fields[at + 1 : at + 1 + count]
        kind, text = fields[at + 1 + count], fields[at + 2 + count]
        at += count + 3
        if kind.startswith(b"CONFLICT"):
            for path in paths:
                words.setdefault(path, []).append(text_of(text))
    return words


def _hunks(content: bytes) -> bytes:
    """The lines between conflict markers with some lines around, apart by `...`; empty when there are none."""
    lines = content.splitlines(keepends=True)
    kept: set[int] = set()
    start: int | None = None
    for number, line in enumerate(lines):
        if start is None and _START.match(line):
            start = number
        elif start is not None and _END.match(line):
            kept.update(range(max(0, start - _CONTEXT), min(len(lines), number + 1 + _CONTEXT)))
            start = None
    out = b""
    for number in sorted(kept):
        if out and number - 1 not in kept:
            out += b"...\n"
        out += lines[number]
        if len(out) > 2 * _TEXT_LIMIT:
            break
    return out


def _printable(text: str) -> str:
    """UTF-8 whatever the file holds, and bounded."""
    raw = bytes_of(text)
    if len(raw) > _TEXT_LIMIT:
        raw = raw[:_TEXT_LIMIT] + b"\n... (cut)\n"
    return raw.decode("utf-8", "replace")
