"""What a screen shows: frozen snapshots, each panel with a version that rises when it changes.

    status = Status()
    log = EventLog(run, clock, [status.hear])
    version, tasks = status.tasks()          # redraw when the version is not the one drawn last

A screen asks when it likes and gets a whole; it never holds anything that a worker changes (FAULTS: data races).
"""

import msgspec

from taskyard.services.events import AnswerGiven, Event, PossiblyPaid, TaskStateChanged
from taskyard.services.records import TaskState


class TaskLine(msgspec.Struct, frozen=True):
    """Where one task stands."""

    task: str
    state: TaskState
    attempt: int
    detail: str | None
    cost_usd: float
    """Paid for it in this life of the run; unpriced answers count 0."""


class Spend(msgspec.Struct, frozen=True):
    """Money in this life of the run, US dollars."""

    paid_usd: float = 0.0
    saved_usd: float = 0.0
    possibly_paid: int = 0
    """Answers that may have been paid and were lost."""
    unpriced: int = 0
    """Paid answers of models without a price."""


class Status:
    """Built from the events of a run; `hear` is one of the log's sinks."""

    def __init__(self) -> None:
        self._tasks: dict[str, TaskLine] = {}
        self._tasks_version = 0
        self._spend = Spend()
        self._spend_version = 0

    def hear(self, event: Event) -> None:
        """Take up one event."""
        if isinstance(event, TaskStateChanged):
            known = self._tasks.get(event.task)
            cost = known.cost_usd if known else 0.0
            self._tasks[event.task] = TaskLine(event.task, event.state, event.attempt, event.detail, cost)
            self._tasks_version += 1
        elif isinstance(event, AnswerGiven):
            self._answered(event)
        elif isinstance(event, PossiblyPaid):
            self._spend = msgspec.structs.replace(self._spend, possibly_paid=self._spend.possibly_paid + 1)
            self._spend_version += 1

    def tasks(self) -> tuple[int, tuple[TaskLine, ...]]:
        """Version and every task, in the order in which they were first heard of."""
        return self._tasks_version, tuple(self._tasks.values())

    def spend(self) -> tuple[int, Spend]:
        """Version and the money."""
        return self._spend_version, self._spend

    def counts(self) -> dict[str, int]:
        """{state: how many tasks}, only states with a count."""
        counts: dict[str, int] = {}
        for line in self._tasks.values():
            counts[line.state] = counts.get(line.state, 0) + 1
        return counts

    def _answered(self, event: AnswerGiven) -> None:
        spend = self._spend
        self._spend = msgspec.structs.replace(
            spend,
            paid_usd=spend.paid_usd + (event.cost_usd or 0.0),
            saved_usd=spend.saved_usd + (event.saved_usd or 0.0),
            unpriced=spend.unpriced + (event.cost_usd is None),
        )
        self._spend_version += 1
        if (line := self._tasks.get(event.task)) and event.cost_usd:
            self._tasks[event.task] = msgspec.structs.replace(line, cost_usd=line.cost_usd + event.cost_usd)
            self._tasks_version += 1
