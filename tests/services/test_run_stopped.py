"""Runs that are stopped from outside: a signal, a full disk. Each goes on where it was, and pays nothing twice."""

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from taskyard.services.practice import Fault

SLOW = "\n[run]\nmax_in_flight = 2\n"


@pytest.mark.parametrize(("number", "role"), [(signal.SIGINT, "finish"), (signal.SIGTERM, "verdict")])
def test_a_signal_ends_the_run_in_good_order_and_resume_ends_it_well(
    make_yard: Any, creates: Any, number: int, role: str
) -> None:
    """Exit 130, `run_finished` last, what was being paid for is kept; then the same end, and no name paid twice."""
    yard = make_yard(creates("A"), creates("B"), creates("C"), settings=SLOW)
    process: Any = None

    def stop_it(body: Mapping[str, Any]) -> None:
        if body["tools"][-1]["name"] == role and "# Task B" in str(body) and process.poll() is None:
            process.send_signal(number)

    yard.on_request = stop_it
    process = yard.popen(["run", "board.md", "--json"])
    out, err = process.communicate(timeout=120)
    events = [json.loads(line) for line in out.splitlines()]
    assert (process.returncode, events[-1]["event"], events[-1]["exit"]) == (130, "run_finished", 130), err
    assert events[-1]["reason"] == "interrupted"
    assert "Traceback" not in err
    assert events[-1]["requests"]["paid"] == yard.paid
    assert events[-1]["possibly_paid_usd"] == 0
    (status,) = [json.loads(yard.invoke(["status", "--json"]).out)]
    assert (status["state"], status["pid"]) == ("interrupted", None)
    yard.on_request = lambda _: None
    done = yard.resume()
    assert (done.code, done.counts, done.finished["run"]) == (0, {"merged": 3}, events[-1]["run"])
    assert done.named("run_started")[0]["resumed"] is True
    assert yard.paid_twice == []
    assert done.finished["requests"]["paid"] == yard.paid
    assert set(yard.landed(yard.tip(done))) == {"A", "B", "C"}
    assert (yard.pushes, done.finished["pushes"]) == (1, 1)


def test_a_run_of_another_board_is_not_touched_by_resume(make_yard: Any, creates: Any) -> None:
    """`resume RUN` names which; without it the latest that is not finished goes on."""
    yard = make_yard(creates("A", "(the judge answers nonsense)"))
    first = yard.run()
    (yard.repo / "other.md").write_text((yard.repo / "board.md").read_text().replace("| A |", "| Z |"))
    second = yard.run(board="other.md")
    assert (first.code, second.code) == (4, 4)
    assert yard.resume().finished["run"] == second.finished["run"]
    assert yard.resume(first.finished["run"]).finished["run"] == first.finished["run"]
    unknown = yard.resume("rnosuch")
    assert (unknown.code, unknown.out, "rnosuch" in unknown.err) == (2, "", True)


def test_a_refused_key_in_the_middle_stops_the_run_resumable(make_yard: Any, creates: Any) -> None:
    """130 with the reason; with a good key it goes on."""
    yard = make_yard(creates("A"), creates("B"), faults=[Fault("401", nth=4, times=0)])
    ran = yard.run()
    assert (ran.code, ran.finished["reason"]) == (130, "interrupted")
    assert "key_refused" in ran.warnings()
    yard.server.faults.clear()
    done = yard.resume()
    assert (done.code, done.counts, yard.paid_twice) == (0, {"merged": 2}, [])


@pytest.mark.parametrize("kind", ["429", "500", "529"])
def test_a_server_that_refuses_for_a_while_is_asked_again(make_yard: Any, creates: Any, kind: str) -> None:
    """Nothing fails, nothing is paid twice."""
    yard = make_yard(creates("A"), faults=[Fault(kind, nth=2, times=2, seconds=0.01)])
    ran = yard.run()
    assert (ran.code, ran.counts, yard.paid_twice) == (0, {"merged": 1}, [])
    assert ran.finished["requests"]["paid"] == yard.paid


FILLS = """\
import json, os, pathlib, subprocess, sys
name, nth = sys.argv[1], int(sys.argv[2])
state = pathlib.Path(os.environ["TASKYARD_STATE"])
command = [sys.executable, "-c", "from taskyard.tui.cli import main; main()"]
ballast = state / "ballast"
run = subprocess.Popen([*command, "run", "board.md", "--json", "--unsafe-local"], stdout=subprocess.PIPE, text=True)
lines = []
for line in run.stdout:
    lines.append(line)
    nth -= f'"event":"{name}"' in line
    if nth <= 0 and not ballast.exists():
        with ballast.open("wb", buffering=0) as out:
            try:
                while True:
                    out.write(bytes(4096))
            except OSError:
                pass
code = run.wait()
status = subprocess.run([*command, "status", "--json"], capture_output=True, text=True)
ballast.unlink()
resumed = subprocess.run([*command, "resume", "--json"], stdout=subprocess.PIPE, text=True)
print(json.dumps([code, lines, resumed.returncode, resumed.stdout.splitlines(), status.returncode]))
"""


@pytest.mark.needs_bwrap
@pytest.mark.parametrize(("name", "nth"), [("answer", 2), ("landing", 1)])
def test_a_full_disk_stops_the_run_resumable_and_nothing_is_lost(
    make_yard: Any, creates: Any, name: str, nth: int
) -> None:
    """130 with a clear message; with room again `resume` merges everything, and no answer on disk is paid again."""
    yard = make_yard(*(creates(f"T{number}") for number in range(4)), settings=SLOW)
    yard.state.mkdir()
    sandbox = [
        shutil.which("bwrap"),
        "--dev-bind",
        "/",
        "/",
        "--size",
        str(12 * 2**20),
        "--tmpfs",
        str(yard.state),
        "--",
    ]
    done = subprocess.run(
        [*sandbox, sys.executable, "-c", FILLS, name, str(nth)],
        cwd=yard.repo,
        env=yard.environ,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    code, lines, resumed_code, resumed_lines, _ = json.loads(done.stdout)
    events, resumed = ([json.loads(line) for line in part] for part in (lines, resumed_lines))
    assert (code, events[-1]["event"], events[-1]["exit"], events[-1]["reason"]) == (
        130,
        "run_finished",
        130,
        "interrupted",
    )
    told = " ".join(
        event["message"] for event in events if event["event"] == "warning" and event["code"] == "disk_full"
    )
    assert "full" in told
    assert "Traceback" not in done.stderr + "".join(lines)
    assert (resumed_code, resumed[-1]["tasks"], resumed[-1]["run"]) == (0, {"merged": 4}, events[-1]["run"])
    kept = {event["key"] for event in events if event["event"] == "answer"}
    assert kept.isdisjoint(yard.paid_twice)
    assert set(yard.landed(f"taskyard/{resumed[-1]['run']}")) == {"T0", "T1", "T2", "T3"}
