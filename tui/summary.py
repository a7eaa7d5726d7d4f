"""What a run came to, in a few lines.

    summary = Summary(look, remote="origin")
    summary.take(event)                # every event but the last
    print(*summary.lines(finished), sep="\\n")

Counts, dollars and pushes; for each task that was not merged, why, and what to do.
"""

from collections.abc import Iterator

from taskyard.services.events import (
    AnswerGiven,
    Event,
    Landed,
    RunFinished,
    RunStarted,
    SavedUsd,
    TaskStateChanged,
    Warned,
)
from taskyard.services.records import TaskState
from taskyard.tui.advice import decide_on, look_at
from taskyard.tui.clean import clean
from taskyard.tui.look import GLYPHS, Look, counted, span, usd

_REASON = 300
_SHORT_ID = 7
_BRANCH = "refs/heads/"
_NOT_MERGED = tuple(state for state in GLYPHS if state != "merged")
_FAILED = "change the task on the board and run it again; for other answers to the same task, with --cache off"
_WORTH_TELLING = 1.2
"""A speed-up below it is no news."""
_ENDS = {
    "done": "Done.",
    "failed": "Ended: not every task was merged.",
    "budget": "Stopped: the budget is reached. Go on with: taskyard resume {run} --budget USD",
    "interrupted": "Interrupted; nothing is lost. Go on with: taskyard resume {run}",
    "error": "Stopped by an error; nothing is lost. Put it right, then: taskyard resume {run}",
    "needs_you": "Ended: a person is needed.",
}


class Summary:
    """Gathers from the events of a run what its last lines say."""

    def __init__(self, look: Look, remote: str | None, *, practice: bool = False) -> None:
        self._look = look
        self._remote = remote
        self._spent = "of practice money" if practice else "paid"
        self._resumed = False
        self._rehearsed = False
        self._nothing = False
        self._new = 0
        self._new_usd = 0.0
        self._last: dict[str, TaskStateChanged] = {}
        self._pushed: dict[str, Landed] = {}
        self._waiting: Landed | None = None

    def take(self, event: Event) -> None:
        """Remember what the end will need of this event."""
        match event:
            case RunStarted():
                self._resumed = event.resumed
            case AnswerGiven(source="paid"):
                self._new += 1
                self._new_usd += event.cost_usd or 0.0
            case Warned(code="dry_run"):
                self._rehearsed = True
            case Warned(code="nothing_to_do"):
                self._nothing = True
            case TaskStateChanged():
                self._last[event.task] = event
            case Landed() if event.pushed:
                self._pushed[event.ref] = event
                self._waiting = None
            case Landed():
                self._waiting = event

    def lines(self, end: RunFinished) -> Iterator[str]:
        """The lines, without their ends."""
        if self._rehearsed:
            yield from self._rehearsal()
            return
        if self._nothing:
            yield "Nothing left to do."
            yield from self._why("skipped", end.run)
            return
        yield _ENDS[end.reason].format(run=end.run)
        yield "  " + self._counts(end.tasks)
        yield "  " + self._money(end)
        yield "  " + self._pace(end)
        yield from self._landings()
        for state in ("failed", "needs_you", "cancelled", "skipped"):
            yield from self._why(state, end.run)

    def _rehearsal(self) -> Iterator[str]:
        tasks = [event for event in self._last.values() if event.state == "queued"]
        yield f"Dry run: {counted(len(tasks), 'task')} would run, nothing was spent."
        for event in tasks:
            yield f"  {clean(event.task, limit=40)}  {clean(event.detail or '', limit=_REASON)}".rstrip()
        yield from self._why("skipped", "")

    def _counts(self, tasks: dict[str, int]) -> str:
        total = sum(tasks.values())
        others = [f"{tasks[state]} {self._look.state(state)}" for state in _NOT_MERGED if tasks.get(state)]
        return " · ".join([f"{tasks.get('merged', 0)} of {counted(total, 'task')} merged", *others])

    def _money(self, end: RunFinished) -> str:
        parts = [self._paid(end)]
        if end.possibly_paid_usd is None:
            parts.append("possibly more, price unknown")
        elif end.possibly_paid_usd:
            parts.append(f"possibly {usd(end.possibly_paid_usd)} more")
        parts.append(_saved(end.saved_usd))
        return " · ".join(filter(None, parts))

    def _paid(self, end: RunFinished) -> str:
        """What the run paid in all of its lives; of one that went on, what is new."""
        answers = counted(end.requests.paid, "answer")
        if end.cost_usd is None:
            paid = f"{answers} paid, price unknown: add it to [models] prices"
            return paid if not self._resumed else f"{paid}; {self._new or 'none'} of them now"
        if not self._resumed:
            return f"{usd(end.cost_usd)} {self._spent} for {answers}"
        new = f"{usd(self._new_usd)} of it now" if self._new else "nothing new"
        return f"{usd(end.cost_usd)} in all lives of the run, {new}"

    def _pace(self, end: RunFinished) -> str:
        pace = f"{counted(end.pushes, 'push')} · {span(end.wall_s)}"
        if end.tasks.get("merged") and end.speedup >= _WORTH_TELLING:
            pace += f", {end.speedup:.1f} times as fast as one task at a time"
        return pace

    def _landings(self) -> Iterator[str]:
        for landed in self._pushed.values():
            name = clean(landed.ref.removeprefix(_BRANCH))
            yield f"  pushed {name} ({landed.commit[:_SHORT_ID]})"
            if self._remote and name.startswith("taskyard/"):
                remote = clean(self._remote)
                yield f"  to merge it: git fetch {remote} && git merge {remote}/{name} && git push"
            elif self._remote:
                yield f"  to have it here too: git pull {clean(self._remote)} {name}"
        if self._waiting:
            yield f"  verified, not pushed: {self._waiting.commit[:_SHORT_ID]}, kept as {clean(self._waiting.ref)}"

    def _why(self, state: TaskState, run: str) -> Iterator[str]:
        tasks = [event for event in self._last.values() if event.state == state]
        if not tasks:
            return
        yield f"{self._look.state(state)}: {len(tasks)}"
        for event in tasks:
            yield f"  {clean(event.task, limit=40)}  {clean(event.detail or 'no reason was given', limit=_REASON)}"
            if state == "needs_you":
                yield f"    {look_at(event.task)}"
                yield f"    {decide_on(event.task)}"
        if state == "needs_you":
            yield f"  Then go on with: taskyard resume {run}"
        elif state == "failed":
            yield f"  What to do: see {look_at(tasks[0].task)}; {_FAILED}"


def _saved(saved: SavedUsd) -> str:
    kinds = {
        "cache": saved.cache,
        "shared answers": saved.shared,
        "batches": saved.batch,
        "prompt cache": saved.prompt_cache,
    }
    detail = ", ".join(f"{name} {usd(amount)}" for name, amount in kinds.items() if amount)
    return f"saved {usd(sum(kinds.values()))} ({detail})" if detail else ""
