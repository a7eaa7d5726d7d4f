"""Puts a run's commits onto another base, since the remote moved. Moves no ref: the result is verified first."""

from collections.abc import Iterable

import msgspec

from taskyard.services.repo.checkout import Identity
from taskyard.services.repo.records import Commit
from taskyard.services.repo.repository import Repository


class Rebased(msgspec.Struct, frozen=True):
    """A run's commits on another base."""

    tip: str
    landed: dict[str, str]
    """{task id: commit}: those that followed, and those that the base holds already."""
    lost: dict[str, str]
    """{task id: why} of those that can't follow."""


def own_commits(commits: Iterable[Commit], run: str) -> dict[str, str]:
    """{task id: commit} of a run's commits among these, by their trailers."""
    return {
        commit.trailers["Task-Id"]: commit.id
        for commit in commits
        if commit.trailers.get("Run-Id") == run and "Task-Id" in commit.trailers
    }


async def rebased(
    repository: Repository, *, run: str, tip: str, old: str, new: str, identity: Identity, when: float
) -> Rebased:
    """The run's commits between `old` and `tip`, put onto `new` one by one. when: seconds since 1970."""
    landed = own_commits(await repository.log(new, old), run)
    lost: dict[str, str] = {}
    current, tree = new, await repository.tree_of(new)
    for commit in await repository.log(tip, old):
        task = commit.trailers.get("Task-Id", "")
        if commit.trailers.get("Run-Id") != run or task in landed:
            continue
        merge = await repository.merge(await repository.tree_of(commit.parents[0]), tree, commit.tree)
        if merge.tree is None or merge.tree == tree:
            lost[task] = "its commit conflicts with it" if merge.tree is None else "it holds every line of it already"
            continue
        tree = merge.tree
        current = await repository.commit(tree, [current], commit.message, identity=identity, when=when)
        if task:
            landed[task] = current
    lost.pop("", None)  # ticks that can't follow are made anew by the next push
    return Rebased(current, landed, lost)
