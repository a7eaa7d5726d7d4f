"""A disk that fills up under a worktree stops the run; it is no fault of the task or of git."""

import errno
import os
import tempfile
from pathlib import Path

import pytest

from taskyard.services.errors import GitError, StorageFull
from taskyard.services.repo import Checkout, Identity, Repository, WorktreePool, scaffold


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, StorageFull), (errno.EDQUOT, StorageFull), (5, GitError)])
async def test_a_full_disk_is_told_from_other_errors_when_a_tree_is_laid_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception]
) -> None:
    """The dispatcher parks the task for a full disk, and fails it for anything else; afterwards the pool works."""
    await scaffold(tmp_path / "work", tmp_path / "r.git", {"a.txt": (b"a\n", False)}, Identity("A", "a@x"), "First")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    repository = await Repository.open(tmp_path / "s" / "r", await Checkout.find(tmp_path / "work", environ), "origin")
    tree = await repository.tree_of(await repository.fetch("main"))
    pool = WorktreePool(repository, tmp_path / "trees", 1)
    make = tempfile.mkdtemp

    def full(*_: object, prefix: str = "", **more: str) -> str:
        if prefix == "w":
            raise OSError(number, os.strerror(number))
        return make(prefix=prefix, **more)

    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "mkdtemp", full)
        with pytest.raises(kind):
            async with pool.lay_out(tree):
                pass
    async with pool.lay_out(tree) as worktree:
        assert (worktree.path / "a.txt").read_bytes() == b"a\n"
    assert pool.in_use == 0
    await pool.close()
