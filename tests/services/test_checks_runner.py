"""Checks run, end, and leave nothing behind: with bubblewrap and, where that is possible, without."""

import asyncio
import os
import resource
import secrets
import select
import subprocess
import sys
from pathlib import Path

import pytest

from taskyard.services.checks import LocalRunner, Sandbox, choose_sandbox
from taskyard.services.clock import SystemClock
from taskyard.services.config import SandboxSettings
from taskyard.services.records import Check, CheckResult

PYTHON = Path(sys.executable).parent
SOON_S = 30.0

HOSTILE = """
import os, signal, subprocess, sys, time
token, pipe = sys.argv[1], os.open("pipe", os.O_WRONLY)
os.set_inheritable(pipe, True)
def stay():
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", token])
for kind in ("plain", "session", "double fork", "closed"):
    if os.fork() == 0:
        if kind != "plain":
            os.setsid()
        if kind == "double fork" and os.fork():
            os._exit(0)
        if kind == "closed":
            os.closerange(0, 3)
        stay()
os.write(pipe, b"ready")
if sys.argv[2] == "end":
    sys.exit(3)
time.sleep(600)
"""


def environ(home: Path) -> dict[str, str]:
    home.mkdir(exist_ok=True)
    return {**os.environ, "HOME": str(home), "PATH": f"{PYTHON}:{os.environ['PATH']}"}


@pytest.fixture(params=[pytest.param("bwrap", marks=pytest.mark.needs_bwrap), "none"])
def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> Sandbox:
    """Each kind. Where bubblewrap does not work this fails with what to do: `.ci/run` installs it."""
    chosen = choose_sandbox(SandboxSettings(), unsafe_local=request.param == "none", environ=environ(tmp_path / "home"))
    assert chosen.kind == request.param
    return chosen


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "tree"
    folder.mkdir()
    return folder


async def run(sandbox: Sandbox, tree: Path, command: str, timeout_s: float = 60.0) -> CheckResult:
    check = Check("check", command, timeout_s=timeout_s)
    return await LocalRunner(sandbox, SystemClock()).run(check, tree="0" * 40, folder=tree)


def survivors(token: str) -> list[str]:
    """Processes of this machine with `token` among their arguments."""
    listed = subprocess.run(["ps", "-Ao", "pid=,args="], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if token in line]


class Trap:
    """A named pipe in the tree that every hostile process holds open: its end says that all of them are gone."""

    def __init__(self, tree: Path) -> None:
        (tree / "hostile.py").write_text(HOSTILE)
        os.mkfifo(tree / "pipe")
        self._pipe = os.open(tree / "pipe", os.O_RDONLY | os.O_NONBLOCK)

    def next(self) -> bytes:
        """Wait for the next bytes; empty once nobody holds the pipe."""
        assert select.select([self._pipe], [], [], SOON_S)[0], "a process still holds the pipe"
        return os.read(self._pipe, 100)

    def close(self) -> None:
        os.close(self._pipe)


@pytest.mark.parametrize(
    ("command", "code"), [("true", 0), ("exit 7", 7), ("kill -9 $$", 137), ("echo out; echo err >&2", 0)]
)
async def test_a_check_gives_its_exit_code(sandbox: Sandbox, tree: Path, command: str, code: int):
    """A signal counts as 128 + n, as in a shell; green is 0 alone."""
    result = await run(sandbox, tree, command)
    assert result.exit == code
    assert result.green is (code == 0)
    assert (result.check, result.command, result.tree, result.broken) == ("check", command, "0" * 40, "")


async def test_output_and_errors_come_as_one_in_their_order(sandbox: Sandbox, tree: Path):
    """As a person would see them; standard input is empty."""
    result = await run(sandbox, tree, "echo one; echo two >&2; cat; echo three; pwd")
    assert result.output == "one\ntwo\nthree\n.\n"


async def test_output_is_made_safe(sandbox: Sandbox, tree: Path):
    """Invalid UTF-8, escape sequences and control bytes reach nobody."""
    result = await run(sandbox, tree, r"printf 'a\377b\033[31mred\033]0;t\007\000'")
    assert result.output == "a\ufffdbred␀"


async def test_much_output_costs_little_memory(sandbox: Sandbox, tree: Path):
    """200 MB come in; head and tail are kept, and less than 50 MB are used for it."""
    scale = 1 if sys.platform == "darwin" else 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
    result = await run(sandbox, tree, "echo first; head -c 200000000 /dev/zero | tr '\\0' x; echo; echo last", 300)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale - before
    assert result.exit == 0
    assert result.output.startswith("first\n")
    assert result.output.endswith("last\n")
    assert len(result.output) < 200_000
    assert used < 50_000_000


async def test_a_child_that_keeps_the_output_open_is_not_waited_for(sandbox: Sandbox, tree: Path):
    """The check ends with its main process; what it left running is killed."""
    token = secrets.token_hex(8)
    command = f"{sys.executable} -c 'import time; time.sleep(600)' {token} & echo done"
    async with asyncio.timeout(SOON_S):
        result = await run(sandbox, tree, command, timeout_s=600)
    assert (result.exit, result.output) == (0, "done\n")
    assert survivors(token) == []


async def test_a_check_that_takes_too_long_is_killed(sandbox: Sandbox, tree: Path):
    """A time-out has no exit code, is not green, and keeps what was printed."""
    result = await run(sandbox, tree, "echo begun; sleep 600", timeout_s=0.5)
    assert (result.exit, result.timed_out, result.green, result.broken) == (None, True, False, "")
    assert result.output == "begun\n"
    assert result.seconds >= 0.5


@pytest.mark.parametrize("end", ["end", "stay"])
async def test_a_hostile_tree_leaves_no_survivors(sandbox: Sandbox, tree: Path, end: str):
    """Double fork, own session, ignored signals, closed output: all gone when the check has ended, or is cancelled."""
    trap, token = Trap(tree), secrets.token_hex(8)
    task = asyncio.create_task(run(sandbox, tree, f"python3 hostile.py {token} {end}", timeout_s=600))
    if end == "end":
        assert (await task).exit == 3
    else:
        assert await asyncio.to_thread(trap.next) == b"ready"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert survivors(token) == []
    while trap.next():
        pass
    trap.close()


OWNER = """
import asyncio, os, sys
from pathlib import Path
from taskyard.services.checks import LocalRunner, choose_sandbox
from taskyard.services.clock import SystemClock
from taskyard.services.config import SandboxSettings
from taskyard.services.records import Check
sandbox = choose_sandbox(SandboxSettings(), unsafe_local=False, environ=os.environ)
check = Check("c", f"python3 hostile.py {sys.argv[2]} stay", timeout_s=600)
asyncio.run(LocalRunner(sandbox, SystemClock()).run(check, tree="0", folder=Path(sys.argv[1])))
"""


def started(argv: list[str], folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(argv, env=environ(folder / "home"), cwd=folder)


@pytest.mark.needs_bwrap
async def test_killing_the_owner_kills_the_check(tree: Path, tmp_path: Path):
    """`kill -9` of taskyard: with bubblewrap no process of a check survives."""
    trap, token = Trap(tree), secrets.token_hex(8)
    argv = [sys.executable, "-c", OWNER, str(tree), token]
    owner = started(argv, tmp_path)
    try:
        first = await asyncio.to_thread(trap.next)
        alive = survivors(token)
    finally:
        owner.kill()
        owner.wait()
    assert first == b"ready"
    assert alive, "the check was not running"
    while trap.next():
        pass
    trap.close()
    assert survivors(token) == []


async def test_cancelling_at_any_moment_leaves_nothing(sandbox: Sandbox, tree: Path):
    """Also in the middle of starting the process."""
    token = secrets.token_hex(8)
    for turns in range(12):
        command = f"{sys.executable} -c 'import time; time.sleep(600)' {token}; true"
        task = asyncio.create_task(run(sandbox, tree, command, timeout_s=600))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert survivors(token) == []


def files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


async def test_many_checks_at_once_do_not_mix(sandbox: Sandbox, tree: Path):
    """Each has its own output, home and temporary folder, empty at its start and gone at its end."""
    command = (
        'ls -A "$HOME" "$TMPDIR" | grep -c own; echo {0} > "$HOME/own-{0}"; echo {0} > "$TMPDIR/own-{0}"; echo {0}'
    )
    results = await asyncio.gather(*(run(sandbox, tree, command.format(n)) for n in range(8)))
    assert [result.output for result in results] == [f"0\n{n}\n" for n in range(8)]
    assert files_in(tree) == []


async def test_setup_writes_into_the_folder(sandbox: Sandbox, tree: Path):
    """`[setup]` runs in the same sandbox, and what it makes stays."""
    runner = LocalRunner(sandbox, SystemClock())
    result = await runner.set_up("mkdir deps && echo 1 > deps/a", tree="0", folder=tree, network=False, timeout_s=60)
    assert (result.check, result.exit) == ("setup", 0)
    assert (tree / "deps" / "a").read_text() == "1\n"


async def test_a_missing_command_is_broken(sandbox: Sandbox, tree: Path):
    """Exit 127 with the shell's word for it is a configuration error that says what to do."""
    result = await run(sandbox, tree, "no-such-tool --flag")
    assert result.exit == 127
    assert "`no-such-tool` was not found" in result.broken
    assert not result.green


@pytest.mark.parametrize("command", ["python3 -m unittest discover", "python3 -m pytest -q -p no:cacheprovider"])
async def test_a_run_without_tests_is_broken_and_one_with_tests_is_not(sandbox: Sandbox, tree: Path, command: str):
    """The real unittest, which may say OK, and the real pytest."""
    empty = await run(sandbox, tree, command)
    assert "no tests were found" in empty.broken
    assert not empty.green
    (tree / "test_one.py").write_text("import unittest\nclass T(unittest.TestCase):\n    def test_it(self): pass\n")
    full = await run(sandbox, tree, command)
    assert full.green, full.output


async def test_two_equal_runs_print_the_same(sandbox: Sandbox, tmp_path: Path):
    """Durations, addresses, the worktree's and temporary paths are taken out."""
    program = (
        "import tempfile, os, unittest\nprint(object(), tempfile.mkdtemp(), os.getcwd())\n"
        "class T(unittest.TestCase):\n    def test_it(self): self.fail(__file__)\n"
    )
    outputs = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "test_it.py").write_text(program)
        outputs.append((await run(sandbox, folder, "python3 -m unittest")).output)
    assert outputs[0] == outputs[1]
    assert "./test_it.py" in outputs[0]


async def test_a_folder_that_is_not_there_is_broken(sandbox: Sandbox, tree: Path):
    """Nothing is raised for it."""
    result = await run(sandbox, tree / "gone", "true")
    assert result.exit is None
    assert result.broken
