"""The events of a run as calm lines of text, for CI logs and screen readers; a summary ends them.

    show = PlainLines(write, look, remote="origin")
    await run_board(folder, options, environ, show)

One line per meaningful event: time since the start, task, state, detail, cost. Lines are only ever added.
"""

from collections import defaultdict
from collections.abc import Callable

from rich.cells import cell_len

from taskyard.services.clock import seconds_of
from taskyard.services.events import (
    AnswerGiven,
    CheckFinished,
    Event,
    Landed,
    LandingStepped,
    LessonChanged,
    PossiblyPaid,
    RunFinished,
    RunStarted,
    TaskStateChanged,
    Warned,
)
from taskyard.services.records import TaskState
from taskyard.tui.clean import clean
from taskyard.tui.look import Look, counted, pad, span, usd
from taskyard.tui.summary import Summary

_ENDED: frozenset[TaskState] = frozenset({"merged", "failed", "needs_you", "cancelled", "skipped"})
_QUIET_STEPS = frozenset({"merging", "verifying"})
_QUIET_LESSONS = frozenset({"offered"})
_IN_THE_SUMMARY = frozenset({"dry_run", "nothing_to_do"})
_DETAIL = 300
_SHORT_ID = 7
_LONGEST_ID = 40
_TIME_WIDTH = 7
_STATE_WIDTH = 14


class PlainLines:
    """Takes every event of one run and writes lines.

    remote: the name of the remote, for the hint how to merge what was pushed; None leaves the hint out.
    practice: the model is a practice model, and nobody paid.
    dry_run: nothing runs; only what would.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        look: Look,
        *,
        remote: str | None = None,
        practice: bool = False,
        dry_run: bool = False,
    ) -> None:
        self._write = write
        self._look = look
        self._summary = Summary(look, remote, practice=practice)
        self._dry_run = dry_run
        self._start: float | None = None
        self._costs: defaultdict[str, float] = defaultdict(float)
        self._unpriced: set[str] = set()
        self._shown: set[tuple[str, int, str, str | None]] = set()
        self._id_width = 4

    def __call__(self, event: Event) -> None:
        """Show one event, or keep quiet about it."""
        self._summary.take(event)
        match event:
            case AnswerGiven():
                self._add_cost(event)
            case TaskStateChanged():
                self._show_state(event)
            case RunFinished():
                self._write("")
                for line in self._summary.lines(event):
                    self._write(line)
            case _:
                text = self._text(event)
                if text:
                    self._line(event, text)

    def _line(self, event: Event, text: str) -> None:
        at = seconds_of(event.at)
        if self._start is None:
            self._start = at
        self._write(f"{self._look.faint(span(at - self._start).rjust(_TIME_WIDTH))}  {text}".rstrip())

    def _add_cost(self, event: AnswerGiven) -> None:
        if event.cost_usd is None:
            self._unpriced.add(event.task)
        else:
            self._costs[event.task] += event.cost_usd

    def _cost(self, task: str) -> str:
        if task in self._unpriced:
            return "unpriced"
        return usd(self._costs[task]) if self._costs[task] else ""

    def _show_state(self, event: TaskStateChanged) -> None:
        if event.state == "queued" and (self._dry_run or not event.detail):
            return
        # A task goes back and forth between implementing and batched at each turn: once per attempt is enough.
        mark = (event.task, event.attempt, event.state, event.detail)
        if mark in self._shown:
            return
        self._shown.add(mark)
        attempt = f"attempt {event.attempt}" if event.attempt > 1 else ""
        cost = self._cost(event.task) if event.state in _ENDED else ""
        notes = [attempt, clean(event.detail or "", limit=_DETAIL), cost]
        state = self._look.state(event.state, width=_STATE_WIDTH)
        self._line(event, f"{self._name(event.task)}  {state}  {' · '.join(filter(None, notes))}")

    def _name(self, task: str) -> str:
        name = clean(task, limit=_LONGEST_ID)
        self._id_width = max(self._id_width, cell_len(name))
        return pad(name, self._id_width)

    def _text(self, event: Event) -> str:
        """What there is to say about an event that is about no task's state; empty for nothing."""
        match event:
            case RunStarted():
                return _started(event, dry_run=self._dry_run)
            # A green check is news on the base only; a task's shows in its next state.
            case CheckFinished() if event.exit != 0 or event.where == "base":
                return f"{self._name(event.task or event.where)}  {_check(event)}"
            case LessonChanged() if event.action not in _QUIET_LESSONS:
                action = event.action.replace("_", " ")
                return f"{self._name(event.task)}  lesson {action}: {clean(event.failure_type)}"
            case LandingStepped() if event.step not in _QUIET_STEPS:
                detail = f": {clean(event.detail, limit=_DETAIL)}" if event.detail else ""
                return f"landing: {event.step} {counted(len(event.tasks), 'task')}{detail}"
            case Landed() if event.pushed:
                return f"pushed {counted(len(event.tasks), 'task')} to {clean(event.ref)} ({event.commit[:_SHORT_ID]})"
            case PossiblyPaid():
                return f"possibly paid, at most {usd(event.worst_case_usd)}: {clean(event.reason, limit=_DETAIL)}"
            case Warned() if event.code not in _IN_THE_SUMMARY:
                return f"warning: {clean(event.message, limit=2 * _DETAIL)}"
            case _:
                return ""


def _started(event: RunStarted, *, dry_run: bool) -> str:
    budget = f"budget {usd(event.budget_usd)}" if event.budget_usd is not None else "no budget"
    verb = "goes on" if event.resumed else "started"
    what = "dry run" if dry_run else f"run {event.run} {verb}"
    return (
        f"{what}: {clean(event.board)}, {counted(event.tasks, 'task')}, base {event.base[:_SHORT_ID]}, "
        f"lane {event.lane}, {counted(event.concurrency, 'slot')}, {budget}"
    )


def _check(event: CheckFinished) -> str:
    end = "green" if event.exit == 0 else "did not end by itself" if event.exit is None else f"red, exit {event.exit}"
    took = "from the cache" if event.source == "cache" else f"{event.seconds:.1f} s"
    return f"check {clean(event.check)}: {end}, {took}"
