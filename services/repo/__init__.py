"""The git room: the user's checkout (read only), our own bare repository, worktrees, merging and pushing.

    checkout = await Checkout.find(Path.cwd())
    repository = await Repository.open(state / "repo.git", checkout, "origin")
    base = await repository.fetch("main")
    pool = WorktreePool(repository, cache / "work", size=4)
    async with pool.lay_out(await repository.tree_of(base)) as worktree:
        ...
        tree = await worktree.write_tree(["src/new.py"])

Only this room runs git. What is kept of a run lives in the bare repository under `refs/taskyard/`.
"""

from taskyard.services.repo.candidates import Candidate, OnTip, Outcome, Refused, Verify
from taskyard.services.repo.checkout import Checkout, Identity, RemoteUrl
from taskyard.services.repo.landing import Landing
from taskyard.services.repo.names import ref_of
from taskyard.services.repo.records import Change, Commit, Conflict, Merge, PushUpdate, TreeFile
from taskyard.services.repo.repository import Repository
from taskyard.services.repo.scaffold import scaffold
from taskyard.services.repo.trees import is_dot_git
from taskyard.services.repo.worktrees import Worktree, WorktreePool

__all__ = [
    "Candidate",
    "Change",
    "Checkout",
    "Commit",
    "Conflict",
    "Identity",
    "Landing",
    "Merge",
    "OnTip",
    "Outcome",
    "PushUpdate",
    "Refused",
    "RemoteUrl",
    "Repository",
    "TreeFile",
    "Verify",
    "Worktree",
    "WorktreePool",
    "is_dot_git",
    "ref_of",
    "scaffold",
]
