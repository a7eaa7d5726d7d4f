"""The run's figures over all of its lives, each held against what they are counted from."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from taskyard.services import journal, llm
from taskyard.services.activity import Activity
from taskyard.services.database import Database
from taskyard.services.events import TaskStateChanged, Warned, decode
from taskyard.services.journal import Journal
from taskyard.services.llm import Ledger, Request, Served
from taskyard.services.llm.answers import Answer
from taskyard.services.llm.ledger import Stored
from taskyard.services.records import Source, Usage
from taskyard.services.run import record
from taskyard.services.run.record import Record, TaskRow, find_run, task_rows


class HandClock:
    def __init__(self) -> None:
        self.time = 1_000_000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    migrations = [*journal.MIGRATIONS, *llm.MIGRATIONS, *record.MIGRATIONS]
    database = await Database.open(tmp_path / "taskyard.db", migrations)
    yield database
    await database.close()


def asking(task: str) -> Request:
    return Request(params={"model": "m", "max_tokens": 1}, role="planner", task=task, attempt=1, turn=1)


async def pay(
    db: Database, run: str, task: str, cost: float | None, saved: float | None, *, at: float, took: float
) -> None:
    """A paid answer on the ledger."""
    id_ = await Ledger(db).open(f"name of {task}", run, asking(task), "live", 1.0, at)
    answer = Answer(name=f"name of {task}", model="m", content=(), stop_reason="end_turn", usage=Usage(), raw=b"{}")
    await Ledger(db).done(Stored(id_, answer, True, (run, task, 1, 1), cost, None), "planner", "m", saved, at + took)


async def serve(db: Database, run: str, task: str, source: Source, saved: float | None) -> None:
    """A step on the journal that got an answer."""
    steps = (await Journal(db, run, lambda *_: None).task(task)).attempt(1)
    await db.write(steps.writer("answer", task, msgspec.json.encode(Served(source, 0.0, saved, 1))))


async def test_time_is_that_of_all_lives_and_of_nothing_between_them(db: Database, clock: HandClock) -> None:
    """D06, D12: 10 s and, an hour later, 30 s are 40 s; work and model time add up over both; speed-up is a ratio."""
    run = "r1"
    for life_s, work_s in ((10.0, 4.0), (30.0, 26.0)):
        activity = Activity(clock)
        kept = Record(db, run, clock, activity)
        if life_s == 10.0:
            await kept.begin("board.md", b"", "base", "{}", 1)
        else:
            await kept.live_again(2)
        activity.begin("T1")
        with activity.at("T1", "local-running"):
            clock.time += work_s
        await pay(db, run, f"T{life_s}", 0.0, 0.0, at=clock.time, took=2.0)
        clock.time += life_s - work_s
        kept.keep(Warned(code="c", message="m"))
        await kept.touch()
        clock.time += 3600.0
    totals = await kept.totals()
    assert (totals.wall_s, totals.work_s) == (40.0, 30.0)
    assert totals.speedup == pytest.approx((30.0 + 4.0) / 40.0, abs=0.01)


async def test_waiting_for_a_turn_is_no_work(db: Database, clock: HandClock) -> None:
    """D12: nine tasks that take turns at one live call are not nine times as fast: only answers' own time counts."""
    activity = Activity(clock)
    kept = Record(db, "r1", clock, activity)
    await kept.begin("board.md", b"", "base", "{}", 1)
    for number in range(9):
        activity.begin(str(number))
        activity.at(str(number), "in-flight").__enter__()
    for number in range(9):
        await pay(db, "r1", str(number), 0.0, 0.0, at=clock.time, took=1.0)
        clock.time += 1.0
    await kept.touch()
    assert (await kept.totals()).speedup == 1.0


async def test_money_and_requests_are_counted_from_ledger_and_journal(db: Database, clock: HandClock) -> None:
    """Paid from the ledger; cache and shared from the journal; another run's figures never mix in (D06)."""
    kept = Record(db, "r1", clock, Activity(clock))
    for run, times in (("r1", 1), ("r2", 5)):
        for number in range(times):
            await pay(db, run, f"T1{number}", 0.25, 0.03, at=0, took=1)
            await pay(db, run, f"T2{number}", 0.50, -0.01, at=0, took=1)
            await serve(db, run, f"T3{number}", "cache", 0.7)
            await serve(db, run, f"T4{number}", "cache", None)
            await serve(db, run, f"T5{number}", "shared", 0.2)
            await serve(db, run, f"T1{number}", "paid", 0.0)
            doubt = await Ledger(db).open("lost", run, asking("T6"), "live", 1.5, 0)
            await Ledger(db).end(doubt, "possibly_paid", 0, "lost")
            refused = await Ledger(db).open("refused", run, asking("T6"), "live", 9.0, 0)
            await Ledger(db).end(refused, "refused", 0, "429")
    totals = await kept.totals()
    assert totals.cost_usd == pytest.approx(0.75)
    assert totals.possibly_paid_usd == pytest.approx(1.5)
    assert msgspec.structs.astuple(totals.saved_usd) == pytest.approx((0.7, 0.2, 0.0, 0.02))
    assert msgspec.structs.asdict(totals.requests) == {
        "paid": 2, "cache": 2, "shared": 1, "live": 2, "batched": 0, "batches": 0,
    }  # fmt: skip


async def test_one_unpriced_answer_makes_the_bill_unknown(db: Database, clock: HandClock) -> None:
    """Unpriced is null in the total, never 0 and never the sum of the others; likewise for what was possibly paid."""
    kept = Record(db, "r1", clock, Activity(clock))
    assert ((await kept.totals()).cost_usd, (await kept.totals()).possibly_paid_usd) == (0.0, 0.0)
    await pay(db, "r1", "T1", 0.25, 0.0, at=0, took=1)
    await pay(db, "r1", "T2", None, None, at=0, took=1)
    doubt = await Ledger(db).open("lost", "r1", asking("T3"), "live", None, 0)
    await Ledger(db).end(doubt, "possibly_paid", 0, "lost")
    totals = await kept.totals()
    assert (totals.cost_usd, totals.possibly_paid_usd, totals.requests.paid) == (None, None, 2)


async def test_pushes_are_those_that_reached_the_remote(db: Database, clock: HandClock) -> None:
    """A refused push was a receive-pack too; one that was lost on the way, or whose fate is open, was none."""
    kept = Record(db, "r1", clock, Activity(clock))
    rows = [await kept.push_begins("refs/heads/x", None, f"c{n}") for n in range(4)]
    for row, state in zip(rows, ("pushed", "refused", "lost"), strict=False):
        await kept.push_ended(row, state)  # type: ignore[arg-type]
    assert (await kept.totals()).pushes == 2
    assert await kept.open_pushes() == ((rows[3], "refs/heads/x", "c3"),)
    assert await kept.last_pushed("refs/heads/x") == "c0"
    assert await kept.last_pushed("refs/heads/y") is None


async def test_events_are_kept_in_order_and_states_follow_them(db: Database, clock: HandClock) -> None:
    """Every event of the run is on disk; where each task stands is the last that was told of it, in the first order."""
    kept = Record(db, "r1", clock, Activity(clock))
    await kept.begin("board.md", b"| a |", "base", "{}", 1)
    told = [
        TaskStateChanged(task="b", state="queued", attempt=1), TaskStateChanged(task="a", state="queued", attempt=1),
        Warned(code="c", message="m"), TaskStateChanged(task="b", state="failed", attempt=2, detail="why"),
    ]  # fmt: skip
    for event in told:
        kept.keep(event)
    await kept.touch()
    lines = await db.read(lambda c: c.execute("select line from event where run = 'r1' order by id").fetchall())
    assert [decode(line) for (line,) in lines] == told
    assert await task_rows(db, "r1") == (TaskRow("b", "failed", 2, "why"), TaskRow("a", "queued", 1, None))


async def test_the_latest_run_is_found_and_the_latest_that_can_go_on(db: Database, clock: HandClock) -> None:
    """`resume` without a name takes the latest run that is not finished; `status` the latest of all."""
    for run, state in (("r1", "interrupted"), ("r2", "finished")):
        kept = Record(db, run, clock, Activity(clock))
        await kept.begin(f"{run}.md", run.encode(), "base", "{}", 1)
        await kept.over(state, 130)  # type: ignore[arg-type]
        clock.time += 60
    latest, unfinished = await find_run(db, None), await find_run(db, None, unfinished=True)
    assert latest is not None
    assert unfinished is not None
    assert (latest.id, unfinished.id, unfinished.content, unfinished.exit) == ("r2", "r1", b"r1", 130)
    assert await find_run(db, "r9") is None
