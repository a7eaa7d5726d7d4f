"""Frozen records of the git room.

Ids are lower-case hex; paths are relative and `/`-separated, their bytes that are not UTF-8 as surrogates.
"""

from typing import Literal

import msgspec


class Commit(msgspec.Struct, frozen=True):
    """One commit of a history."""

    id: str
    tree: str
    parents: tuple[str, ...]
    subject: str
    message: str
    """All of it, subject and trailers included."""
    trailers: dict[str, str]
    """Key → value; of a key that occurs twice, the last."""


class TreeFile(msgspec.Struct, frozen=True):
    """One entry of a tree that is not a folder."""

    mode: str
    """`100644`, `100755`, `120000` (symbolic link) or `160000` (submodule)."""
    blob: str
    size: int
    """Bytes; 0 for a submodule."""
    path: str


class Change(msgspec.Struct, frozen=True):
    """How one path differs between two trees. A rename is a D and an A."""

    path: str
    kind: Literal["A", "M", "D", "T"]
    old_mode: str
    """`000000` when the path is new."""
    new_mode: str
    """`000000` when the path is gone."""


class Conflict(msgspec.Struct, frozen=True):
    """A path on which both sides did different things."""

    path: str
    text: str
    """The conflicted parts with markers `<<<<<<< ours` … `>>>>>>> theirs`, or git's words when there are none.

    At most about 4 KB.
    """


class Merge(msgspec.Struct, frozen=True):
    """The outcome of a three-way merge of trees: a tree, or conflicts."""

    tree: str | None
    conflicts: tuple[Conflict, ...] = ()


class PushUpdate(msgspec.Struct, frozen=True):
    """One ref to be set at the remote."""

    ref: str
    """In full: `refs/heads/main`."""
    new: str
    """The commit it shall name."""
    old: str | None
    """The commit it names as far as we know (the lease); None: it must not exist yet."""
