"""What `taskyard doctor` finds, in real repositories."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from taskyard.services.clock import SystemClock
from taskyard.services.config import Settings
from taskyard.services.doctor import Finding, examine, healthy
from taskyard.services.errors import KeyRefused
from taskyard.services.repo import Identity, scaffold

SETTINGS = '[checks]\ntest = "test -f README.md"\n'


async def _accepts(settings: Settings) -> None:
    assert settings.models.planner


async def _refuses(settings: Settings) -> None:
    raise KeyRefused(f"401 for {settings.models.planner}")


@pytest.fixture
def environ(tmp_path: Path) -> Mapping[str, str]:
    """Where taskyard's folders are the test's own, and a key is set."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TASKYARD_STATE": str(tmp_path / "state"),
        "ANTHROPIC_API_KEY": "canary-key",
    }


@pytest.fixture
async def project(tmp_path: Path) -> Path:
    """A repository with a remote, a commit and a check that is green."""
    files = {"README.md": (b"Hello\n", False), "taskyard.toml": (SETTINGS.encode(), False)}
    folder = tmp_path / "project"
    await scaffold(folder, tmp_path / "remote.git", files, Identity("Ada", "ada@example.org"), "Begin")
    return folder


async def _found(folder: Path, environ: Mapping[str, str], preflight: object = _accepts) -> dict[str, Finding]:
    findings = await examine(folder, environ, clock=SystemClock(), preflight=preflight)  # type: ignore[arg-type]
    assert len({finding.check for finding in findings}) == len(findings)
    return {finding.check: finding for finding in findings}


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.needs_bwrap
async def test_a_repository_that_lacks_nothing_is_healthy(project: Path, environ: Mapping[str, str]) -> None:
    """Every subject is named once, and each check ran once on the base, in the sandbox."""
    found = await _found(project, environ)
    assert [finding for finding in found.values() if not finding.ok] == []
    assert healthy(found.values())
    assert list(found) == [
        "git", "repository", "identity", "settings", "folders", "remote", "target", "local commits", "push", "key",
        "prices", "sandbox", "check test",
    ]  # fmt: skip
    assert found["check test"].detail.startswith("green on the base")


async def test_nothing_of_the_users_changes(project: Path, environ: Mapping[str, str], tmp_path: Path) -> None:
    """The checkout, its configuration and the remote are as before; no push was made."""
    before = [_git(project, "status", "--porcelain"), _git(project, "config", "--list"), _git(project, "for-each-ref")]
    remote = _git(tmp_path / "remote.git", "for-each-ref")
    await _found(project, environ)
    after = [_git(project, "status", "--porcelain"), _git(project, "config", "--list"), _git(project, "for-each-ref")]
    assert (after, _git(tmp_path / "remote.git", "for-each-ref")) == (before, remote)
    assert not (tmp_path / "pushes").exists()


async def test_outside_a_repository_what_rests_on_one_is_not_looked_at(
    tmp_path: Path, environ: Mapping[str, str]
) -> None:
    """One clear finding, not six that follow from it; key, prices and sandbox are found all the same."""
    found = await _found(tmp_path, environ)
    assert not found["repository"].ok
    assert found["repository"].do
    assert list(found) == ["repository", "key", "prices", "sandbox"]
    assert not healthy(found.values())


async def test_a_missing_and_a_refused_key_are_told_apart_and_the_key_is_never_shown(
    project: Path, environ: Mapping[str, str]
) -> None:
    """The one says which variable to set, the other that the server refuses."""
    without = {name: value for name, value in environ.items() if name != "ANTHROPIC_API_KEY"}
    assert (await _found(project, without))["key"].detail == "no API key is set"
    refused = await _found(project, environ, _refuses)
    assert "401" in refused["key"].detail
    assert not healthy(refused.values())
    assert not any("canary" in str(finding) for finding in refused.values())


async def test_a_server_that_is_not_there_is_found_out(project: Path, environ: Mapping[str, str]) -> None:
    """The default preflight asks the server that the environment names."""
    findings = await examine(project, {**environ, "ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}, clock=SystemClock())
    key = next(finding for finding in findings if finding.check == "key")
    assert not key.ok
    assert "server" in key.detail


@pytest.mark.needs_bwrap
async def test_a_red_and_a_broken_check_each_say_what_to_do(project: Path, environ: Mapping[str, str]) -> None:
    """A red check is to be mended, one that can't run is to be corrected."""
    (project / "taskyard.toml").write_text('[checks]\nred = "echo because; exit 3"\ngone = "no-such-tool --all"\n')
    found = await _found(project, environ)
    assert not found["check red"].ok
    assert "exit 3" in found["check red"].detail
    assert "because" in found["check red"].detail
    assert "--allow-red-base" in found["check red"].do
    assert not found["check gone"].ok
    assert "[checks]" in found["check gone"].do


async def test_commits_that_the_remote_lacks_are_named(project: Path, environ: Mapping[str, str]) -> None:
    """A run would refuse them: the work would start from an older state than the person sees."""
    _git(project, "commit", "--quiet", "--allow-empty", "--message", "Mine alone")
    found = await _found(project, environ)
    assert not found["local commits"].ok
    assert "Mine alone" in found["local commits"].detail
    assert found["local commits"].detail.startswith("1 commit is on main")
    assert "git push origin main" in found["local commits"].do


async def test_without_a_remote_or_its_branch_the_names_that_exist_are_said(
    project: Path, environ: Mapping[str, str]
) -> None:
    """A wrong name is the usual cause."""
    (project / "taskyard.toml").write_text('[run]\ntarget = "trunk"\n')
    target = (await _found(project, environ))["target"]
    assert not target.ok
    assert "main" in target.detail
    assert "[run] target" in target.do
    (project / "taskyard.toml").write_text('[run]\nremote = "upstream"\n')
    remote = (await _found(project, environ))["remote"]
    assert not remote.ok
    assert "origin" in remote.detail


async def test_a_remote_that_is_gone_can_not_be_pushed_to(
    project: Path, environ: Mapping[str, str], tmp_path: Path
) -> None:
    """Found out before anything is paid for."""
    shutil.rmtree(tmp_path / "remote.git")
    found = await _found(project, environ)
    assert not found["target"].ok
    assert not healthy(found.values())


@pytest.mark.needs_bwrap
async def test_no_checks_and_unknown_prices_are_said_and_stop_nothing(
    project: Path, environ: Mapping[str, str]
) -> None:
    """Tasks may bring their own checks; a model without a price shows as unpriced, unless there is a budget to keep."""
    (project / "taskyard.toml").write_text('[models]\njudge = "house-model"\n')
    found = await _found(project, environ)
    assert [name for name, finding in found.items() if not finding.ok] == ["prices", "checks"]
    assert healthy(found.values())
    (project / "taskyard.toml").write_text('[run]\nbudget_usd = 5\n[models]\njudge = "house-model"\n')
    assert not healthy((await _found(project, environ)).values())


async def test_a_model_without_a_price_is_told_with_the_nearest_name(project: Path, environ: Mapping[str, str]) -> None:
    """A name is mistyped more often than it is new; that the server was not asked about it is said either way."""
    assert "not asked" in (await _found(project, environ))["prices"].detail
    (project / "taskyard.toml").write_text('[models]\njudge = "claude-sonet-5"\nplanner = "zzz"\n')
    prices = (await _found(project, environ))["prices"]
    assert "claude-sonet-5 (did you mean claude-sonnet-5?)" in prices.detail
    assert "zzz," in prices.detail
    assert "not asked" in prices.detail


async def test_an_unknown_setting_is_a_finding(project: Path, environ: Mapping[str, str]) -> None:
    """Not a crash, and nothing that rests on settings is claimed to be well."""
    (project / "taskyard.toml").write_text("[run]\nconcurency = 3\n")
    found = await _found(project, environ)
    assert "concurrency" in found["settings"].detail
    assert not healthy(found.values())
