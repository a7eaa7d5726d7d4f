"""What two runs do to each other, what Ctrl-C leaves, and what a push does that outlives its process."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import Stage, Undisturbed

_SLOW_HOOK = """\
#!/bin/sh
cat >/dev/null
echo push >>../pushes
[ -e ../first ] && exit
touch ../first
echo arrived >../arrived
read -r word <../go
"""


def until(out: "IO[str] | None", wanted: "Callable[[dict[str, Any]], bool]") -> list[dict[str, Any]]:
    """Read events up to the first that is wanted."""
    assert out is not None
    events = []
    for line in out:
        events.append(json.loads(line))
        if wanted(events[-1]):
            return events
    raise AssertionError(f"it never came: {events[-3:]}")


def interrupted(process: "subprocess.Popen[str]", times: int) -> tuple[list[dict[str, Any]], str]:
    """Send SIGINT that often, each once the one before it was taken up; the events from then on, and the messages."""
    assert process.stderr is not None
    said = []
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        said.append(process.stderr.readline())
    out, err = process.communicate(timeout=300)
    return [json.loads(line) for line in out.splitlines()], "".join(said) + err


def planning(event: dict[str, Any]) -> bool:
    return event["event"] == "task_state" and event["state"] == "planning"


def test_a_second_run_is_refused_and_the_next_starts_at_once_after_kill_9(
    stage: "Callable[..., Stage]", undisturbed: "Callable[[str], Undisturbed]"
) -> None:
    """Exit 2, naming the holder, nothing spent; a lock dies with its process."""
    scene = stage("plain", latency_s=1.0)
    with scene.start("run", "board.md") as first:
        (started, *_) = until(first.stdout, planning)
        before = scene.rows("select count(*) from run")
        for command in (("run", "board.md"), ("resume",)):
            second = scene.life(*command)
            assert (second.code, second.events) == (2, [])
            assert all(word in second.err for word in (started["run"], "board.md", str(first.pid))), second.err
        assert scene.rows("select count(*) from run") == before
        os.killpg(first.pid, signal.SIGKILL)
    scene.hurry()
    scene.assert_same_end([scene.life("resume")], undisturbed("plain").pushed)


def test_sigint_during_live_calls_keeps_what_arrives_and_resume_ends_well(
    stage: "Callable[..., Stage]", undisturbed: "Callable[[str], Undisturbed]"
) -> None:
    """Exit 130, `run_finished` last; the answers under way are waited for, and none of them is paid again."""
    scene = stage("plain", latency_s=1.0)
    with scene.start("run", "board.md") as process:
        until(process.stdout, planning)
        until(process.stdout, lambda event: event["event"] == "answer")
        events, err = interrupted(process, 1)
    assert (process.returncode, events[-1]["event"], events[-1]["exit"]) == (130, "run_finished", 130), err
    assert events[-1]["possibly_paid_usd"] == 0
    arrived = scene.server.paid()
    assert events[-1]["requests"]["paid"] == arrived.total()
    scene.hurry()
    scene.assert_same_end([scene.life("resume")], undisturbed("plain").pushed)
    assert set(scene.server.paid().values()) == {1}
    assert scene.rows("select count(*) from submission where state = 'possibly_paid'") == [(0,)]


@pytest.mark.slow
def test_a_second_sigint_does_not_lose_the_answers_and_resume_ends_well(
    stage: "Callable[..., Stage]", undisturbed: "Callable[[str], Undisturbed]"
) -> None:
    """Pressed twice in a hurry, the end is orderly all the same: exit 130, `run_finished` last, every payment known."""
    scene = stage("plain", latency_s=1.0)
    with scene.start("run", "board.md") as process:
        until(process.stdout, planning)
        until(process.stdout, lambda event: event["event"] == "answer")
        events, err = interrupted(process, 2)
    assert (process.returncode, events[-1]["event"], events[-1]["exit"]) == (130, "run_finished", 130), err
    scene.hurry()
    scene.assert_same_end([scene.life("resume")], undisturbed("plain").pushed)


def test_a_push_that_outlives_its_process_is_not_made_twice(
    stage: "Callable[..., Stage]", undisturbed: "Callable[[str], Undisturbed]"
) -> None:
    """git goes on when taskyard is killed: `resume` learns how that push ended before it thinks of another."""
    scene = stage("plain")
    (scene.remote / "hooks" / "pre-receive").write_text(_SLOW_HOOK)
    for fifo in ("arrived", "go"):
        os.mkfifo(scene.folder / fifo)
    with scene.start("run", "board.md") as first:
        until(first.stdout, lambda event: event.get("step") == "pushing")
        assert (scene.folder / "arrived").read_text() == "arrived\n"
        os.killpg(first.pid, signal.SIGKILL)
    with scene.start("resume") as second:
        until(second.stdout, lambda event: event.get("code") == "push_under_way")
        (scene.folder / "go").write_text("on\n")
        out, err = second.communicate(timeout=300)
    finished = json.loads(out.splitlines()[-1])
    assert (finished["event"], finished["exit"], finished["pushes"]) == ("run_finished", 0, 1), err
    scene.assert_same_end([scene.life("resume")], undisturbed("plain").pushed)
