"""`taskyard history show`: all that is on record of a task in one run, for a person who has to understand or decide.

The journal says what was planned, checked and judged, the events when and how each attempt went, the history the whole
text of a failure, the ledger what it cost, and the bare repository holds what it changed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from taskyard.services.clock import SystemClock, seconds_of
from taskyard.services.database import Database
from taskyard.services.errors import UsageError
from taskyard.services.events import TaskStateChanged
from taskyard.services.history import AttemptKey, History
from taskyard.services.journal import Row
from taskyard.services.llm import Answer, Ledger, Served
from taskyard.services.pipeline.attempt import Gate
from taskyard.services.pipeline.decisions import Decision
from taskyard.services.repo import OnTip, Outcome, Repository, ref_of
from taskyard.services.run.looks import opened
from taskyard.services.run.record import RunRow, TaskRow, find_run, task_rows

_STEPS = "select attempt, kind, input_hash, output from journal where run = ? and task = ? order by attempt, seq"
_EVENTS = """select line from event where run = ?1 and json_extract(cast(line as text), '$.event') = 'task_state'
    and json_extract(cast(line as text), '$.task') = ?2 order by id"""
_UNPRICED = """select count(*) from submission
    where run = ? and task = ? and attempt = ? and state = 'done' and cost_usd is null"""
_ENDS = frozenset({"merged", "failed", "cancelled", "skipped"})


class _Met(msgspec.Struct, frozen=True):
    """The journal's record of a landing."""

    outcome: Outcome


async def history_show(folder: Path, task: str, run: str | None, environ: Mapping[str, str]) -> dict[str, Any]:
    """The JSON object of `history show`: a task's attempts in a run, or (None) in the last one.

    Raises UsageError when there is no such run, or no such task in it.
    """
    async with opened(folder, environ) as (place, db):
        row = await find_run(db, run)
        if row is None:
            raise UsageError(f"there is no run {run}" if run else "no run in this repository yet")
        known = {known.task: known for known in await task_rows(db, row.id)}
        if task not in known:
            names = ", ".join(list(known)[:20]) or "no task that has begun"
            raise UsageError(f"run {row.id} of {row.board} has no task {task}; it has {names}")
        repository = await Repository.open(
            place.folders.state / "repository.git", place.checkout, place.settings.run.remote
        )
        return {
            "run": row.id,
            "board": row.board,
            "task": task,
            "state": known[task].state,
            "detail": known[task].detail,
            "decide": await _decide(db, row, known[task]),
            "repository": str(repository.bare.git_dir),
            "attempts": await _attempts(db, repository, row.id, task),
        }


async def _decide(db: Database, row: RunRow, task: TaskRow) -> list[str]:
    """What a person may decide now: the actions of `taskyard decide`, none when the task waits for nobody."""
    latest = await find_run(db, None, unfinished=True)
    if task.state != "needs_you" or latest is None or latest.id != row.id:
        return []
    return ["accept", "send-back", "reject", "retry"]


async def _attempts(db: Database, repository: Repository, run: str, task: str) -> list[dict[str, Any]]:
    lines = await db.read(lambda c: c.execute(_EVENTS, (run, task)).fetchall())
    events = [msgspec.json.decode(line, type=TaskStateChanged) for (line,) in lines]
    steps: dict[int, list[Row]] = {}
    for attempt, *row in await db.read(lambda c: c.execute(_STEPS, (run, task)).fetchall()):
        steps.setdefault(attempt, []).append(Row(*row))
    return [
        {
            "attempt": number,
            **_course([event for event in events if event.attempt == number]),
            "cost_usd": await _cost(db, run, task, number),
            **await _found(Ledger(db), steps.get(number, [])),
            "output": await _output(db, AttemptKey(run, task, number)),
            **await _kept(repository, f"attempts/{run}/{task}/{number}"),
        }
        for number in sorted({event.attempt for event in events} | set(steps))
    ]


def _course(events: Sequence[TaskStateChanged]) -> dict[str, Any]:
    """How an attempt went. A life that resumes tells its events again: what was told first has the time."""
    first: dict[tuple[str, str | None], TaskStateChanged] = {}
    for event in events:
        first.setdefault((event.state, event.detail), event)
    begun = next((event for event in events if event.state != "queued"), None)
    last = events[-1] if events else None
    # Queued again, with a reason, it waits for the next attempt: this one failed.
    again = last is not None and begun is not None and last.state == "queued" and bool(last.detail)
    status: str | None = "failed" if again else last.state if last else None
    end = first[last.state, last.detail].at if last and status in _ENDS else None
    return {
        "status": status,
        "start": begun.at if begun else None,
        "end": end,
        "duration_s": round(seconds_of(end) - seconds_of(begun.at), 3) if begun and end else None,
        "reasons": [event.detail for event in first.values() if event.detail],
    }


async def _cost(db: Database, run: str, task: str, attempt: int) -> float | None:
    (unpriced,) = await db.read(lambda c: c.execute(_UNPRICED, (run, task, attempt)).fetchone())
    return None if unpriced else await Ledger(db).cost(run, task, attempt)


async def _output(db: Database, key: AttemptKey) -> str:
    """The whole text of what ended an attempt, where the history has it."""
    record = await History(db, SystemClock()).get(key)
    return record.output if record else ""


async def _found(ledger: Ledger, steps: Sequence[Row]) -> dict[str, Any]:
    """What planner, gate, judge, tip and person said, from an attempt's journal."""
    planner: Answer | None = None
    gate: Gate | None = None
    judge: Answer | None = None
    landing: Outcome | None = None
    decisions: list[Decision] = []
    for step in steps:
        if step.kind == "answer" and (planner is None or gate is not None):
            stored = await ledger.get(msgspec.json.decode(step.output, type=Served).answer)
            answer = stored.answer if stored else None
            planner, judge = (planner or answer, judge) if gate is None else (planner, answer)
        elif step.kind == "gate":
            gate = msgspec.json.decode(step.output, type=Gate)
        elif step.kind == "land":
            landing = msgspec.json.decode(step.output, type=_Met).outcome
        elif step.kind == "decision":
            decisions.append(msgspec.json.decode(step.output, type=Decision))
    return {
        "plan": _input(planner, "plan"),
        "checks": msgspec.to_builtins(gate.results) if gate else [],
        "verdict": _input(judge, "verdict"),
        "judge_text": judge.text if judge else "",
        "landing": _landing(landing),
        "decisions": [{"action": decision.action, "comment": decision.comment} for decision in decisions],
    }


def _input(answer: Answer | None, tool: str) -> dict[str, Any] | None:
    """What was put into a tool call, as it came."""
    inputs = (use.get("input") for use in (answer.tool_uses if answer else ()) if use.get("name") == tool)
    return next((value for value in inputs if isinstance(value, dict)), None)


def _landing(outcome: Outcome | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    if isinstance(outcome, OnTip):
        return {"outcome": "landed", "detail": outcome.commit}
    return {"outcome": outcome.kind, "detail": outcome.detail}


async def _kept(repository: Repository, name: str) -> dict[str, Any]:
    """The commit that the gate looked at, and what it changes."""
    commit = await repository.ref(name)
    base = await repository.resolve(f"{commit}^") if commit else None
    if commit is None or base is None:
        return {"commit": None, "ref": None, "base": None, "diff": ""}
    diff = await repository.diff(base, commit)
    return {"commit": commit, "ref": ref_of(name), "base": base, "diff": diff.decode("utf-8", "replace")}
