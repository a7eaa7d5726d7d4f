"""How git is started: environments, time-outs, cancelling, bounds."""

import asyncio
import os
from pathlib import Path

import pytest

from taskyard.services.errors import EnvironmentFault, GitError
from taskyard.services.repo.git import Git, clean_words
from taskyard.services.repo.names import ref_of

HANG = "!exec 9>fifo; sleep 600 & echo started >&9; wait"
STUBBORN = "!trap '' TERM; exec 9>fifo; echo started >&9; sleep 600"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}


async def started(fifo: Path) -> int:
    """Wait until the hanging command runs; the reading end, which ends when the last process of it is gone."""
    end = await asyncio.to_thread(os.open, fifo, os.O_RDONLY)
    assert await asyncio.to_thread(os.read, end, 100) == b"started\n"
    return end


async def test_a_cancelled_call_leaves_no_process_of_its_group(tmp_path: Path, environ: dict[str, str]) -> None:
    """Cancelling ends git and whatever git started, before the cancellation comes back."""
    os.mkfifo(tmp_path / "fifo")
    git = Git(environ)
    call = asyncio.create_task(git.run(["-c", f"alias.hang={HANG}", "hang"], cwd=tmp_path, env=git.own_environment()))
    end = await started(tmp_path / "fifo")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    async with asyncio.timeout(60):
        assert await asyncio.to_thread(os.read, end, 100) == b""
    os.close(end)


async def test_a_call_out_of_time_is_a_git_error_and_leaves_no_process(tmp_path: Path, environ: dict[str, str]) -> None:
    """A git that hangs, and heeds no SIGTERM, is ended with its group and told as an error."""
    os.mkfifo(tmp_path / "fifo")
    git = Git(environ, timeout_s=1.0)
    call = asyncio.create_task(
        git.run(["-c", f"alias.hang={STUBBORN}", "hang"], cwd=tmp_path, env=git.own_environment())
    )
    end = await started(tmp_path / "fifo")
    with pytest.raises(GitError, match="stopped after 1 s"):
        await call
    async with asyncio.timeout(60):
        assert await asyncio.to_thread(os.read, end, 100) == b""
    os.close(end)


async def test_at_most_limit_processes_run_at_once(tmp_path: Path, environ: dict[str, str]) -> None:
    """Hundreds of tasks may ask at once; only so many git processes run."""
    (tmp_path / "run").mkdir()
    git = Git(environ, limit=2)
    count = "!touch run/$$; ls run | wc -l >>counts; sleep 0.05; rm run/$$"
    env = git.own_environment()
    await asyncio.gather(*(git.run(["-c", f"alias.n={count}", "n"], cwd=tmp_path, env=env) for _ in range(8)))
    counts = [int(line) for line in (tmp_path / "counts").read_text().split()]
    assert len(counts) == 8
    assert max(counts) <= 2


async def test_no_git_is_an_environment_fault(tmp_path: Path) -> None:
    """A machine without git is told to install it."""
    git = Git({"PATH": str(tmp_path)})
    with pytest.raises(EnvironmentFault, match=r"Install git 2\.38"):
        await git.run(["version"], cwd=tmp_path, env=git.own_environment())


async def test_git_s_last_words_are_in_the_error(tmp_path: Path, environ: dict[str, str]) -> None:
    """An error says which command failed, where, and why."""
    git = Git(environ)
    with pytest.raises(GitError, match=r"git rev-parse failed in .*not a git repository"):
        await git.run(["rev-parse", "HEAD"], cwd=tmp_path, env=git.own_environment())


def test_the_user_s_environment_loses_what_leads_git_elsewhere() -> None:
    """GIT_DIR and the like are dropped; what tells git how to reach a remote stays."""
    git = Git(
        {"GIT_DIR": "/x", "GIT_INDEX_FILE": "/y", "GIT_WORK_TREE": "/z", "GIT_SSH_COMMAND": "ssh -v", "HOME": "/h"}
    )
    env = git.user_environment()
    assert not {"GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"} & env.keys()
    assert (env["GIT_SSH_COMMAND"], env["HOME"], env["GIT_TERMINAL_PROMPT"]) == ("ssh -v", "/h", "0")
    assert git.own_environment().keys() & {"HOME", "GIT_SSH_COMMAND"} == set()


def test_network_configuration_never_stands_on_a_command_line() -> None:
    """Secrets travel in the environment; entries the user had there are not numbered twice."""
    git = Git(
        {"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_VALUE_0": "1", "GIT_CONFIG_KEY_1": "c.d"}
    )
    env = git.network_environment([("http.extraheader", "secret")])
    named = {key: value for key, value in env.items() if key.startswith("GIT_CONFIG_")}
    assert named == {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "http.extraheader",
        "GIT_CONFIG_VALUE_0": "secret",
    }


def test_foreign_words_are_safe_to_print() -> None:
    """Control bytes and passwords go, and the length is bounded."""
    assert clean_words("\x1b[31mbad\x1b[0m\x07 https://me:secret@host/x\r\n") == "bad https://host/x"
    assert len(clean_words("x" * 9000, 100)) == 101


NAMES = [
    "a", "A", "a/b", "a/b/c", "a+", "a+/b", "a%2fb", "=a", "", "/", "//", "a/", "/a", ".", "..", "a.lock", "a..b",
    "@{x}", "T 1", "T\n1", "T\x001", "ü", "u\u0308", "-D", "HEAD", "x" * 300, "x" * 301, "x" * 300 + "/y",
    "/".join("y" * 40 for _ in range(90)), "/".join("y" * 40 for _ in range(91)), "a~1", "a^", "a:b", "a?b*[", "a\\b",
    "%", "%.", "runs/r1/tip", "RUNS/r1/tip",
]  # fmt: skip


async def test_every_name_is_a_legal_ref_and_no_two_meet(tmp_path: Path, environ: dict[str, str]) -> None:
    """C05: any task id may be part of a name: no path leads out, no two share a ref, none is a folder of another."""
    refs = [ref_of(name) for name in NAMES]
    assert len({ref.lower() for ref in refs}) == len(NAMES)
    git = Git(environ)
    for ref in refs:
        await git.run(["check-ref-format", ref], cwd=tmp_path, env=git.own_environment())
        assert ref.startswith("refs/taskyard/")
        assert all(len(part) < 250 for part in ref.split("/"))
        assert not any(other.startswith(ref + "/") for other in refs)
