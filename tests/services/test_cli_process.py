"""The command line as a process: start-up, streams, signals, exit codes before a run exists."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

_TASKYARD = [sys.executable, "-c", "from taskyard.tui.cli import main; main()"]


def _taskyard(*arguments: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([*_TASKYARD, *arguments], cwd=cwd, capture_output=True, text=True, timeout=60)


def _python(script: str, **options: object) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(tmp_path: Path, arguments: list[str]) -> None:
    """`taskyard --help` answers at once: what takes time to import is imported by the command that needs it."""
    script = (
        "import sys, json\nfrom taskyard.tui.cli import invoke\n"
        f"code = invoke({arguments!r})\n"
        "print(json.dumps([code, sorted({name.partition('.')[0] for name in sys.modules})]))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    code, modules = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    heavy = {
        "anthropic",
        "asyncio",
        "textual",
        "jinja2",
        "git",
        "rich",
        "msgspec",
        "orjson",
        "sqlite3",
        "pydantic",
        "httpx",
        "watchfiles",
    }
    assert heavy.isdisjoint(modules)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["rum"], ["No such command 'rum'", "taskyard --help"]),
        (["run", "--lame", "live"], ["No such option", "taskyard run --help"]),
        (["run", "--budget", "nan"], ["nan is not a sum of money", "taskyard run --help"]),
        (["cache"], ["Missing command", "taskyard cache --help"]),
        (["decide", "T1", "perhaps"], ["'perhaps' is not one of", "taskyard decide --help"]),
    ],
)
def test_a_usage_error_is_one_message_on_standard_error_and_exit_2(
    tmp_path: Path, arguments: list[str], words: list[str]
) -> None:
    """Standard output carries results only."""
    done = _taskyard(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("taskyard: error: ")
    assert len(done.stderr.splitlines()) == 1
    assert all(word in done.stderr for word in words)


@pytest.mark.parametrize(
    "arguments", [["run", "board.md"], ["resume"], ["status"], ["init"], ["decide", "T1", "retry"]]
)
def test_outside_a_repository_every_command_says_so_and_does_nothing(tmp_path: Path, arguments: list[str]) -> None:
    """Exit 2, one message, and not one file more than before."""
    done = _taskyard(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("taskyard: error: ")
    assert "repository" in done.stderr
    assert list(tmp_path.iterdir()) == []


_WORKS_UNTIL_CANCELLED = """
import asyncio, sys
from taskyard.tui.interrupt import run_to_end

async def job():
    print("ready", flush=True)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        print("tidied", flush=True)
        {then}

sys.exit(run_to_end(job, lambda message: print(message, file=sys.stderr, flush=True)))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(("then", "code"), [("return 130", 130), ("raise", 130), ("return 1", 1)])
def test_a_signal_cancels_the_run_and_its_exit_code_passes_through(number: int, then: str, code: int) -> None:
    """The run tidies up first; a run that had ended by then keeps its own exit code."""
    with _python(_WORKS_UNTIL_CANCELLED.format(then=then)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, b"tidied\n")
    assert b"Traceback" not in err


def test_a_second_signal_ends_the_tidying_up() -> None:
    """Someone who presses Ctrl-C again does not want to wait."""
    with _python(_WORKS_UNTIL_CANCELLED.format(then="await asyncio.Event().wait()")) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == b"tidied\n"
        assert b"stopping" in process.stderr.readline()
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert b"leaving now" in process.stderr.readline()
        assert process.wait(timeout=60) == 130


def test_under_nohup_a_hang_up_does_not_end_the_run() -> None:
    """A signal that was set to be ignored for us stays ignored."""
    script = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    with _python(script + _WORKS_UNTIL_CANCELLED.format(then="return 130")) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err.count(b"stopping")) == (130, 1)


_WRITES_A_LOT = """
import sys
from taskyard.tui.output import Output

with Output(1) as out:
    for number in range(20000):
        out.line(b"line %d" % number)
sys.stderr.write(f"went on, {out.failure}")
sys.exit(7)
"""


def test_a_reader_that_leaves_does_not_end_the_run() -> None:
    """`taskyard run board.md --json | head -1`: the run goes on and keeps its exit code."""
    with _python(_WRITES_A_LOT) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"line 0\n"
        process.stdout.close()
        assert process.stderr.read() == b"went on, None"
        assert process.wait(timeout=60) == 7


def test_every_line_arrives_whole_and_in_order() -> None:
    """Also through a pipe that someone made non-blocking, and that is full most of the time."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with subprocess.Popen([sys.executable, "-c", _WRITES_A_LOT], stdout=writing, stderr=subprocess.DEVNULL) as process:
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            assert pipe.read() == b"".join(b"line %d\n" % number for number in range(20000))
        assert process.wait(timeout=60) == 7


def test_an_output_that_can_not_grow_does_not_end_the_run(tmp_path: Path) -> None:
    """A full disk under the log (here: a limit on its size): the run goes on, and can say why the log is cut short."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))"
    with (tmp_path / "log").open("wb") as log:
        done = subprocess.run([sys.executable, "-c", limit + _WRITES_A_LOT], stdout=log, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (7, b"went on, File too large")
    assert (tmp_path / "log").stat().st_size == 1000


def test_a_closed_standard_output_is_never_taken_for_a_file_of_ours(tmp_path: Path) -> None:
    """The number of a closed stream goes to the next file that is opened; results must not end up in it."""
    script = (
        "from taskyard.tui.console import prepare_streams, print_lines\nimport os, pathlib\n"
        "prepare_streams()\nfile = open('ours', 'w')\nprint_lines(['a result'])\nfile.close()\n"
        "assert pathlib.Path('ours').read_text() == ''"
    )
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -c "$1" >&-', sys.executable, script], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
