"""A process dies in mid-request: what the next one finds, pays and tells."""

import os
import signal
import subprocess
import sys
from typing import Any

import pytest

FIRST_LIFE = """
import asyncio, sys
from pathlib import Path
from taskyard.services import journal, llm
from taskyard.services.activity import Activity
from taskyard.services.clock import SystemClock
from taskyard.services.database import Database

PARAMS = {
    "model": "claude-sonnet-5-5", "max_tokens": 500, "messages": [{"role": "user", "content": "hello"}],
    "tools": [{"name": "note", "input_schema": {"type": "object"}}], "tool_choice": {"type": "any"},
}

async def main():
    clock = SystemClock()
    db = await Database.open(Path(sys.argv[1]), [*journal.MIGRATIONS, *llm.MIGRATIONS])
    gateway = llm.Gateway(
        db=db, run="r1", lane=llm.LiveLane(llm.Endpoint(base_url=sys.argv[2], api_key="any")), clock=clock,
        prices=llm.PriceTable.load(None), budget=llm.Budget(None, 0.0), activity=Activity(clock),
        emit=lambda event: None, live_requests=5, cache="on", ttl_s=None,
    )
    steps = (await journal.Journal(db, "r1", lambda *_: None).task("T1")).attempt(1)
    await gateway.ask(llm.Request(params=PARAMS, role="planner", task="T1", attempt=1, turn=1), steps)
    await gateway.close()
    await db.close()

asyncio.run(main())
"""


def live_and_die(desk: Any, point: str) -> None:
    command = [sys.executable, "-c", FIRST_LIFE, str(desk.path), desk.server.url]
    process = subprocess.run(command, env=os.environ | {"TASKYARD_FAULT": point}, capture_output=True, text=True)
    assert process.returncode == -signal.SIGKILL, process.stderr


@pytest.mark.parametrize(
    ("point", "paid_before", "doubts"),
    [
        ("llm.post.before", 0, 1),  # the intent is on disk, so nobody can tell that it was not sent
        ("llm.post.after", 1, 1),
        ("llm.answer.before", 1, 1),
        ("llm.answer.after", 1, 0),
        ("llm.serve.before", 1, 0),
        ("llm.serve.after", 1, 0),
    ],
)
async def test_a_death_costs_at_most_one_doubt_and_never_a_committed_answer(
    desk: Any, point: str, paid_before: int, doubts: int
) -> None:
    """Pay once: payments are at most 1 plus those recorded as possibly paid; an answer on disk is never paid again."""
    live_and_die(desk, point)
    assert desk.paid == paid_before
    async with desk.life() as life:
        await life.gateway.recover()
        assert len(life.doubts) == doubts
        assert all(doubt.worst_case_usd > 0 and "died" in doubt.reason for doubt in life.doubts)
        await life.ask()
        spent = await life.gateway.ledger.spent("r1")
        assert (spent.paid, spent.possibly_paid) == (1, doubts)
    assert desk.paid == paid_before + doubts <= 1 + doubts
    assert sorted(desk.states) == ["done", *["possibly_paid"] * doubts]
    async with desk.life() as life:
        await life.gateway.recover()
        assert life.doubts == []


async def test_recovery_leaves_other_runs_alone(desk: Any) -> None:
    """What another run has under way is not this run's to settle."""
    live_and_die(desk, "llm.post.after")
    async with desk.life("r2") as life:
        await life.gateway.recover()
        assert life.doubts == []
    assert desk.states == ["submitting"]


async def test_what_was_paid_before_a_death_is_counted_as_paid_after_it(desk: Any) -> None:
    """An answer that was stored but not yet served is this task's own: `paid`, at its cost, and one miss in all."""
    live_and_die(desk, "llm.answer.after")
    async with desk.life() as life:
        await life.ask()
        assert life.sources == ["paid"]
        assert life.answers[0].cost_usd > 0
        stats = await life.gateway.ledger.cache_stats()
        assert (stats.hits, stats.misses) == (0, 1)
    assert desk.posts == 1
