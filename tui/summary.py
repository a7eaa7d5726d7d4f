"""What a run came to, in a few lines.

    summary = Summary(look, remote="origin")
    summary.take(event)                # every event but the last
    print(*summary.lines(finished), sep="\\n")

Counts, dollars and pushes; for each task that was not merged, why, and what to do.
"""

from collections.abc import Iterator

from taskyard.services.events import Event, Landed, RunFinished, SavedUsd, TaskStateChanged
from taskyard.services.records import TaskState
from taskyard.tui.clean import clean
from taskyard.tui.look import GLYPHS, Look, counted, span, usd

_REASON = 300
_SHORT_ID = 7
_BRANCH = "refs/heads/"
_NOT_MERGED = tuple(state for state in GLYPHS if state != "merged")
_TO_DO: dict[TaskState, str] = {
    "failed": "change the task on the board and run it again; for other answers to the same task, with --cache off",
    "needs_you": "taskyard decide TASK accept|send-back|reject --comment TEXT, then taskyard resume",
}
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
        self._last: dict[str, TaskStateChanged] = {}
        self._pushed: dict[str, Landed] = {}
        self._waiting: Landed | None = None

    def take(self, event: Event) -> None:
        """Remember what the end will need of this event."""
        match event:
            case TaskStateChanged():
                self._last[event.task] = event
            case Landed() if event.pushed:
                self._pushed[event.ref] = event
                self._waiting = None
            case Landed():
                self._waiting = event

    def lines(self, end: RunFinished) -> Iterator[str]:
        """The lines, without their ends."""
        nothing = end.reason == "done" and not any(end.tasks.values())
        yield "Nothing left to do." if nothing else _ENDS[end.reason].format(run=end.run)
        yield "  " + self._counts(end.tasks)
        yield "  " + self._money(end)
        pace = f"{end.speedup:.1f} times as fast as one task at a time"
        yield f"  {counted(end.pushes, 'push')} · {span(end.wall_s)}, {pace}"
        yield from self._landings()
        for state in ("failed", "needs_you", "cancelled", "skipped"):
            yield from self._why(state)

    def _counts(self, tasks: dict[str, int]) -> str:
        total = sum(tasks.values())
        others = [f"{tasks[state]} {self._look.state(state)}" for state in _NOT_MERGED if tasks.get(state)]
        return " · ".join([f"{tasks.get('merged', 0)} of {counted(total, 'task')} merged", *others])

    def _money(self, end: RunFinished) -> str:
        parts = [f"{usd(end.cost_usd)} {self._spent} for {counted(end.requests.paid, 'answer')}"]
        if end.possibly_paid_usd:
            parts.append(f"possibly {usd(end.possibly_paid_usd)} more")
        parts.append(_saved(end.saved_usd))
        return " · ".join(filter(None, parts))

    def _landings(self) -> Iterator[str]:
        for landed in self._pushed.values():
            name = clean(landed.ref.removeprefix(_BRANCH))
            yield f"  pushed {name} ({landed.commit[:_SHORT_ID]})"
            if self._remote and name.startswith("taskyard/"):
                remote = clean(self._remote)
                yield f"  to merge it: git fetch {remote} && git merge {remote}/{name}"
        if self._waiting:
            yield f"  verified, not pushed: {self._waiting.commit[:_SHORT_ID]}, kept as {clean(self._waiting.ref)}"

    def _why(self, state: TaskState) -> Iterator[str]:
        tasks = [event for event in self._last.values() if event.state == state]
        if not tasks:
            return
        yield f"{self._look.state(state)}: {len(tasks)}"
        for event in tasks:
            yield f"  {clean(event.task, limit=40)}  {clean(event.detail or 'no reason was given', limit=_REASON)}"
        if state in _TO_DO:
            yield f"  What to do: {_TO_DO[state]}"


def _saved(saved: SavedUsd) -> str:
    kinds = {
        "cache": saved.cache,
        "shared answers": saved.shared,
        "batches": saved.batch,
        "prompt cache": saved.prompt_cache,
    }
    detail = ", ".join(f"{name} {usd(amount)}" for name, amount in kinds.items() if amount)
    return f"saved {usd(sum(kinds.values()))} ({detail})" if detail else ""
