"""Nine tasks whose model and checks take a fixed time: side by side against one after the other, without the landing.

    python benchmarks/parallel.py [--smoke]

A real run each time: the practice server answers after a fixed latency, each task's own check sleeps. A task's way is
measured from its first `planning` to its first `landing` event. Asked: at most 1/6 of the serial time.
"""

import asyncio
import os
import statistics
import sys
import tempfile
from pathlib import Path

from taskyard.services.clock import SystemClock, seconds_of
from taskyard.services.events import Event, RunFinished, TaskStateChanged
from taskyard.services.llm import Endpoint
from taskyard.services.practice import PracticeServer
from taskyard.services.repo import Identity, scaffold
from taskyard.services.run import RunOptions
from taskyard.services.run.execute import Outside, start

TASKS = 9
ASKED = 1 / 6


def board() -> bytes:
    """Nine independent tasks, each with a check that takes a fixed time."""
    rows = [
        f"| T{n} | Create `out/{n}.txt` with `{n}`. | [ ] | `sleep {{check}} && test -f out/{n}.txt` |"
        for n in range(1, TASKS + 1)
    ]
    return "\n".join(["| ID | Scope | Status | Verification |", "|---|---|---|---|", *rows, ""]).encode()


async def way(in_flight: int, latency_s: float, check_s: float) -> float:
    """Seconds from the first `planning` to the last task's `landing`, in one run."""
    events: list[Event] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = board().replace(b"{check}", str(check_s).encode())
        files = {"board.md": (text, False)}
        await scaffold(
            folder / "repo", folder / "remote.git", files, Identity("Bench", "bench@taskyard.invalid"), "start"
        )
        flags = {f"models.{role}": "practice" for role in ("planner", "implementer", "judge")}
        options = RunOptions(board="board.md", flags={**flags, "run.max_in_flight": in_flight, "run.push": "none"})
        environ = {**os.environ, "TASKYARD_STATE": str(folder / "state")}
        with PracticeServer(latency_s=latency_s) as server:
            outside = Outside(
                folder=folder / "repo",
                environ=environ,
                clock=SystemClock(),
                listen=events.append,
                endpoint=Endpoint(server.url, "practice"),
                new_id=lambda: "rbench",
            )
            await start(outside, options)
    finished = events[-1]
    assert isinstance(finished, RunFinished) and finished.tasks == {"merged": TASKS}, finished
    return _without_landing(events, serial=in_flight == 1)


def _without_landing(events: list[Event], *, serial: bool) -> float:
    """Side by side: from the first start to the last arrival at the landing. One by one: the sum of the tasks' ways."""
    began: dict[str, float] = {}
    arrived: dict[str, float] = {}
    for event in events:
        if isinstance(event, TaskStateChanged) and event.state == "planning":
            began.setdefault(event.task, seconds_of(event.at))
        if isinstance(event, TaskStateChanged) and event.state == "landing":
            arrived.setdefault(event.task, seconds_of(event.at))
    if serial:
        return sum(arrived[task] - began[task] for task in began)
    return max(arrived.values()) - min(began.values())


def main() -> None:
    smoke = "--smoke" in sys.argv[1:]
    rounds, latency_s, check_s = (1, 0.1, 0.2) if smoke else (5, 0.5, 1.0)
    ratios = []
    for _ in range(rounds):
        together = asyncio.run(way(TASKS, latency_s, check_s))
        serial = asyncio.run(way(1, latency_s, check_s))
        ratios.append(together / serial)
        print(f"side by side {together:6.2f} s   one by one {serial:6.2f} s   ratio {together / serial:.3f}")
    ratio = statistics.median(ratios)
    print(f"median of {rounds}: {ratio:.3f} = 1/{1 / ratio:.1f} (asked: at most 1/6 = {ASKED:.3f})")


if __name__ == "__main__":
    main()
