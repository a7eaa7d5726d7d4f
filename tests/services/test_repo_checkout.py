"""The user's checkout: what is read from it, and that nothing is ever written."""

import os
import subprocess
from pathlib import Path

import pytest

from taskyard.services.errors import EnvironmentFault
from taskyard.services.repo import Checkout, Identity, RemoteUrl, Repository, scaffold

ME = Identity("Ada L", "ada@example.org")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home").mkdir()
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "GIT_CONFIG_NOSYSTEM": "1"}


@pytest.fixture
async def work(tmp_path: Path) -> Path:
    """A repository with one commit on main, and its remote."""
    files = {"README.md": (b"hello\n", False), "src/run.sh": (b"#!/bin/sh\n", True)}
    await scaffold(tmp_path / "work", tmp_path / "remote.git", files, ME, "First\n")
    return tmp_path / "work"


def git(folder: Path, *args: str) -> str:
    done = subprocess.run(["git", "-C", folder, *args], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def frozen(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Content and mtime of every file of a folder."""
    return {
        str(file.relative_to(folder)): (file.read_bytes(), file.stat().st_mtime_ns)
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


async def test_the_top_is_found_from_a_folder_below(work: Path, environ: dict[str, str]) -> None:
    """Taskyard may be started anywhere in the repository."""
    assert (await Checkout.find(work / "src", environ)).top == work


async def test_an_inherited_git_dir_is_ignored(work: Path, tmp_path: Path, environ: dict[str, str]) -> None:
    """Started from a hook of another repository, this repository is the one that counts."""
    other = tmp_path / "other"
    git(tmp_path, "init", "-q", str(other))
    environ |= {"GIT_DIR": str(other / ".git"), "GIT_WORK_TREE": str(other), "GIT_INDEX_FILE": str(other / "i")}
    checkout = await Checkout.find(work, environ)
    assert checkout.top == work
    assert await checkout.dirty() == ()


async def test_what_is_no_usable_repository_is_told(work: Path, tmp_path: Path, environ: dict[str, str]) -> None:
    """Not a repository, bare, no commits, inside .git, no such folder: each has its own message."""
    empty = tmp_path / "empty"
    git(tmp_path, "init", "-q", str(empty))
    (tmp_path / "plain").mkdir()
    for folder, words in (
        (tmp_path / "plain", "not in a git repository"),
        (tmp_path / "remote.git", "bare repository"),
        (empty, "no commits yet"),
        (work / ".git", "inside a .git folder"),
        (tmp_path / "nowhere", "does not exist"),
    ):
        with pytest.raises(EnvironmentFault, match=words):
            await Checkout.find(folder, environ)


async def test_an_old_git_is_refused(tmp_path: Path, environ: dict[str, str]) -> None:
    """merge-tree --write-tree needs git 2.38."""
    (tmp_path / "bin").mkdir()
    old = tmp_path / "bin" / "git"
    old.write_text("#!/bin/sh\necho git version 2.37.1\n")
    old.chmod(0o755)
    with pytest.raises(EnvironmentFault, match=r"2\.38 or later is needed, this is 'git version 2\.37\.1'"):
        await Checkout.find(tmp_path, environ | {"PATH": f"{old.parent}:{environ['PATH']}"})


async def test_a_missing_remote_is_told_with_those_there_are(work: Path, environ: dict[str, str]) -> None:
    """A wrong or missing remote names what could be meant."""
    checkout = await Checkout.find(work, environ)
    with pytest.raises(EnvironmentFault, match=r"no remote 'upstream'\. It has: origin\."):
        await checkout.remote_url("upstream")
    git(work, "remote", "remove", "origin")
    with pytest.raises(EnvironmentFault, match=r"no remote 'origin'\. It has none\..*git remote add"):
        await checkout.remote_url("origin")


async def test_a_relative_remote_starts_at_the_top(work: Path, tmp_path: Path, environ: dict[str, str]) -> None:
    """`../remote.git` works from everywhere, also for the fetch itself."""
    git(work, "remote", "set-url", "origin", "../remote.git")
    checkout = await Checkout.find(work / "src", environ)
    there = str(tmp_path / "remote.git")
    assert await checkout.remote_url("origin") == RemoteUrl(there, there)
    repository = await Repository.open(tmp_path / "state" / "repo.git", checkout, "origin")
    assert await repository.fetch("main") == git(work, "rev-parse", "HEAD")


async def test_instead_of_rules_hold_for_fetch_and_push(work: Path, tmp_path: Path, environ: dict[str, str]) -> None:
    """`url.*.insteadOf` of the user's configuration leads to the real place, in messages and in deed."""
    git(work, "remote", "set-url", "origin", "hub:remote.git")
    git(work, "config", f"url.{tmp_path}/.insteadOf", "hub:")
    checkout = await Checkout.find(work, environ)
    there = str(tmp_path / "remote.git")
    assert await checkout.remote_url("origin") == RemoteUrl(there, there)
    repository = await Repository.open(tmp_path / "repo.git", checkout, "origin")
    assert await repository.fetch("main")
    assert await repository.can_push() is None


async def test_network_settings_are_handed_on(work: Path, environ: dict[str, str]) -> None:
    """Credentials and transport travel, lists start anew, the rest of the configuration does not."""
    for key, value in (
        ("credential.helper", "store"),
        ("http.https://x.example/.extraHeader", "Authorization: basic abc"),
        ("core.sshCommand", "ssh -i key"),
        ("remote.origin.proxy", "http://proxy"),
        ("remote.origin.mirror", "true"),
        ("filter.lfs.clean", "git-lfs clean"),
        ("core.hooksPath", "hooks"),
    ):
        git(work, "config", key, value)
    config = await (await Checkout.find(work, environ)).network_config("origin")
    assert ("credential.helper", "") in config
    assert config.index(("credential.helper", "")) < config.index(("credential.helper", "store"))
    assert ("http.https://x.example/.extraheader", "Authorization: basic abc") in config
    assert {"core.sshcommand": "ssh -i key", "remote.taskyard.proxy": "http://proxy"}.items() <= dict(config).items()
    assert not [key for key, _ in config if key.startswith(("filter.", "core.hooks")) or key.endswith(".mirror")]


async def test_the_identity_is_the_user_s(work: Path, environ: dict[str, str]) -> None:
    """Commits are by whom git says; nobody known is a fault with the cure."""
    checkout = await Checkout.find(work, environ)
    assert await checkout.identity() == ME
    git(work, "config", "--unset", "user.email")
    with pytest.raises(EnvironmentFault, match=r"git config --global user\.email"):
        await checkout.identity()


async def test_dirty_lists_changed_tracked_files_only(work: Path, environ: dict[str, str]) -> None:
    """Odd names come through; untracked files are no business of ours."""
    odd = "line\nend ü.txt"
    (work / odd).write_text("1")
    git(work, "add", "-A")
    (work / "README.md").write_text("changed")
    (work / "untracked").write_text("1")
    assert await (await Checkout.find(work, environ)).dirty() == ("README.md", odd)


async def test_reading_changes_not_one_byte_of_the_checkout(
    work: Path, tmp_path: Path, environ: dict[str, str]
) -> None:
    """HEAD, refs, index (its mtime too), configuration and files are as before, though the index is stale."""
    os.utime(work / "README.md", ns=(10**18, 10**18))  # git status would refresh the index now
    (work / "src" / "run.sh").write_text("dirty")
    before = frozen(work)
    checkout = await Checkout.find(work, environ)
    assert await checkout.dirty() == ("src/run.sh",)
    repository = await Repository.open(tmp_path / "repo.git", checkout, "origin")
    await repository.fetch("main")
    await repository.resolve("HEAD")
    await repository.local_only("main")
    await checkout.identity()
    assert frozen(work) == before


async def test_nothing_of_the_checkout_s_configuration_runs(
    work: Path, tmp_path: Path, environ: dict[str, str]
) -> None:
    """Hooks, fsmonitor and filters stay off while the checkout is read."""
    canary = tmp_path / "canary"
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\necho $0 $* >>{canary}\ncat\n")
    trap.chmod(0o755)
    hooks = work / ".git" / "hooks"
    hooks.mkdir()
    for name in ("post-index-change", "reference-transaction", "post-checkout", "pre-push", "fsmonitor-watchman"):
        (hooks / name).symlink_to(trap)
    (work / ".gitattributes").write_text("* filter=trap diff=trap merge=trap\n")
    git(work, "add", ".gitattributes")
    for key in ("core.fsmonitor", "filter.trap.clean", "filter.trap.smudge", "filter.trap.process", "diff.external"):
        git(work, "config", key, str(trap))
    canary.unlink(missing_ok=True)
    os.utime(work / "README.md", ns=(10**18, 10**18))
    checkout = await Checkout.find(work, environ)
    assert ".gitattributes" in await checkout.dirty()
    repository = await Repository.open(tmp_path / "repo.git", checkout, "origin")
    await repository.fetch("main")
    assert await repository.can_push() is None
    assert not canary.exists()
