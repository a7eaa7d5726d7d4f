"""Pushing: one receive-pack, guarded by leases, with a remote that counts."""

import os
import subprocess
from pathlib import Path

import pytest

from taskyard.services.errors import GitError, PushRefused
from taskyard.services.repo import Checkout, Identity, PushUpdate, Repository, scaffold

ME = Identity("Ada L", "ada@example.org")


class Side:
    """A repository that has fetched, and a way to make commits in it."""

    def __init__(self, repository: Repository, base: str, folder: Path) -> None:
        self.repository = repository
        self.base = base
        self.folder = folder

    @property
    def pushes(self) -> int:
        """Receive-packs that the remote has seen."""
        counted = self.folder / "pushes"
        return len(counted.read_text().splitlines()) if counted.exists() else 0

    async def commit(self, content: str, parent: str | None = None) -> str:
        parent = parent or self.base
        tree = await self.repository.replace(await self.repository.tree_of(parent), {"x": content.encode()})
        return await self.repository.commit(tree, [parent], content, identity=ME, when=0)

    def refs(self) -> list[str]:
        """All refs of the remote."""
        command: list[str | Path] = ["git", "-C", self.folder / "remote.git", "for-each-ref", "--format=%(refname)"]
        listed: str = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return listed.split()

    def hook(self, name: str, script: str) -> None:
        hook = self.folder / "remote.git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\n{script}\n")
        hook.chmod(0o755)


@pytest.fixture
async def side(tmp_path: Path) -> Side:
    await scaffold(tmp_path / "work", tmp_path / "remote.git", {"README.md": (b"hi\n", False)}, ME, "First\n")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    checkout = await Checkout.find(tmp_path / "work", environ)
    repository = await Repository.open(tmp_path / "repo.git", checkout, "origin")
    return Side(repository, await repository.fetch("main"), tmp_path)


async def test_many_refs_go_out_in_one_receive_pack(side: Side) -> None:
    """A hundred updates are one push; the remote's own hook counts."""
    assert side.pushes == 0
    new = await side.commit("one")
    updates = [PushUpdate(f"refs/heads/task/{number}", new, None) for number in range(99)]
    await side.repository.push([*updates, PushUpdate("refs/heads/main", new, side.base)])
    assert side.pushes == 1
    assert await side.repository.remote_ref("refs/heads/main") == new
    assert await side.repository.remote_ref("refs/heads/task/98") == new
    assert await side.repository.remote_ref("refs/heads/nothing") is None
    assert await side.repository.remote_ref("main") is None


async def test_a_lease_protects_a_ref_that_moved(side: Side) -> None:
    """Even after a fetch in the background, another's commit is not overwritten; nothing of the push lands."""
    theirs, ours = await side.commit("theirs"), await side.commit("ours")
    await side.repository.push([PushUpdate("refs/heads/main", theirs, side.base)])
    await side.repository.fetch("main")
    updates = [PushUpdate("refs/heads/main", ours, side.base), PushUpdate("refs/heads/extra", ours, None)]
    with pytest.raises(PushRefused, match="has moved on") as refused:
        await side.repository.push(updates)
    assert refused.value.moved
    assert await side.repository.remote_ref("refs/heads/main") == theirs
    assert await side.repository.remote_ref("refs/heads/extra") is None


async def test_a_new_ref_must_not_exist_yet(side: Side) -> None:
    """An empty lease means: it is not there."""
    one, two = await side.commit("one"), await side.commit("two")
    await side.repository.push([PushUpdate("refs/heads/taskyard/r1", one, None)])
    with pytest.raises(PushRefused) as refused:
        await side.repository.push([PushUpdate("refs/heads/taskyard/r1", two, None)])
    assert refused.value.moved
    assert await side.repository.remote_ref("refs/heads/taskyard/r1") == one


async def test_pushing_again_what_is_there_is_no_error(side: Side) -> None:
    """After a crash between the push and its record, the same push succeeds."""
    new = await side.commit("one")
    for _ in range(2):
        await side.repository.push([PushUpdate("refs/heads/main", new, side.base)])
    assert await side.repository.remote_ref("refs/heads/main") == new


async def test_a_hook_s_words_are_told(side: Side) -> None:
    """Refused by a rule is not a lost race; what the hook said is shown, safe to print."""
    side.hook("pre-receive", "cat >/dev/null; printf 'sign \\033[31mthe CLA\\033[0m first\\n' >&2; exit 1")
    with pytest.raises(PushRefused, match="refused the push") as refused:
        await side.repository.push([PushUpdate("refs/heads/main", await side.commit("one"), side.base)])
    assert not refused.value.moved
    assert "sign the CLA first" in str(refused.value)
    assert "\x1b" not in str(refused.value)


async def test_a_long_refusal_is_bounded(side: Side) -> None:
    """A hook that prints a megabyte does not fill the screen."""
    side.hook("pre-receive", "cat >/dev/null; yes refused | head -n 100000 >&2; exit 1")
    with pytest.raises(PushRefused) as refused:
        await side.repository.push([PushUpdate("refs/heads/main", await side.commit("one"), side.base)])
    assert len(str(refused.value)) < 4000


async def test_a_race_inside_the_remote_counts_as_moved(side: Side) -> None:
    """The ref moves between the advertisement and the update: a lost race, told as such."""
    theirs, ours = await side.commit("theirs"), await side.commit("ours")
    await side.repository.push([PushUpdate("refs/heads/parked", theirs, None)])
    side.hook("pre-receive", f"cat >/dev/null; unset GIT_QUARANTINE_PATH; git update-ref refs/heads/main {theirs}")
    with pytest.raises(PushRefused) as refused:
        await side.repository.push([PushUpdate("refs/heads/main", ours, side.base)])
    assert refused.value.moved
    assert await side.repository.remote_ref("refs/heads/main") == theirs


async def test_a_remote_out_of_reach_is_a_git_error(side: Side) -> None:
    """Not a refusal: trying later may work."""
    (side.folder / "remote.git").rename(side.folder / "away.git")
    with pytest.raises(GitError, match="could not be pushed to") as failed:
        await side.repository.push([PushUpdate("refs/heads/main", await side.commit("one"), side.base)])
    assert not isinstance(failed.value, PushRefused)
    with pytest.raises(GitError):
        await side.repository.remote_ref("refs/heads/main")
    assert "does not appear to be a git repository" in (await side.repository.can_push() or "")


async def test_the_dry_run_makes_nothing_and_runs_no_hook(side: Side) -> None:
    """The doctor asks whether a push would work, without a trace at the remote."""
    assert await side.repository.can_push() is None
    assert side.pushes == 0
    assert side.refs() == ["refs/heads/main"]


async def test_the_user_s_push_settings_send_nothing_else(side: Side) -> None:
    """followTags, push options and hooks of the user's global configuration take no part."""
    canary = side.folder / "canary"
    (side.folder / "hooks").mkdir()
    for name in ("pre-push", "reference-transaction"):
        hook = side.folder / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {canary}\n")
        hook.chmod(0o755)
    (side.folder / ".gitconfig").write_text(
        f"[core]\n\thooksPath = {side.folder / 'hooks'}\n"
        "[push]\n\tfollowTags = true\n\tgpgSign = true\n\tpushOption = x\n"
    )
    await side.repository.push([PushUpdate("refs/heads/main", await side.commit("one"), side.base)])
    assert side.pushes == 1
    assert await side.repository.fetch("main") != side.base
    assert not canary.exists()


@pytest.mark.parametrize("ref", ["main", "refs/heads/a:refs/heads/b", "--mirror"])
async def test_only_full_ref_names_are_pushed(side: Side, ref: str) -> None:
    """Nothing that git could take for an option or for two refs."""
    with pytest.raises(GitError, match="full ref names"):
        await side.repository.push([PushUpdate(ref, side.base, None)])
