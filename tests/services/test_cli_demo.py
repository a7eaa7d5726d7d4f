"""The command line around a real run: the demo as a process, its streams, its signals."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_DEMO = [sys.executable, "-c", "from taskyard.tui.cli import main; main()", "demo", "--tasks", "2"]


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Starts the demo with more arguments; its temporary folder lies in the test's own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    processes: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [*_DEMO, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        with process:
            process.kill()


def test_plain_lines_end_with_a_summary_and_nothing_is_left_behind(demo: Any, tmp_path: Path) -> None:
    """No escape sequence in a pipe; without --keep the folder is gone; it says that the model is a practice model."""
    out, err = (process := demo("--headless")).communicate(timeout=120)
    assert process.returncode == 0
    assert "practice model" in err
    assert "\x1b" not in out
    summary = out[out.index("\n\n") :]
    assert "Done.\n  2 of 2 tasks merged\n" in summary
    assert "of practice money for" in summary
    assert [path for path in tmp_path.iterdir() if "demo" in path.name] == []


def test_a_reader_that_leaves_after_one_line_does_not_lose_the_run(demo: Any) -> None:
    """`taskyard demo --json | head -1`: all is merged and pushed once, and what was kept is said."""
    process = demo("--json", "--keep")
    assert json.loads(process.stdout.readline())["event"] == "run_started"
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait(timeout=120) == 0
    kept = Path(next(line for line in err.splitlines() if line.startswith("kept: ")).removeprefix("kept: "))
    assert (kept / "pushes").read_text().count("\n") == 1
    assert "Traceback" not in err


def test_after_a_signal_the_last_line_is_run_finished_with_130(demo: Any) -> None:
    """Every line is whole JSON, and the exit code is the one it says."""
    process = demo("--json")
    assert json.loads(process.stdout.readline())["event"] == "run_started"
    process.send_signal(signal.SIGTERM)
    last = [json.loads(line) for line in process.stdout][-1]
    err = process.stderr.read()
    assert (process.wait(timeout=120), last["event"], last["exit"], last["reason"]) == (
        130,
        "run_finished",
        130,
        "interrupted",
    )
    assert "Traceback" not in err
