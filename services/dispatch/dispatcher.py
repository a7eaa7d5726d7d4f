"""Which task runs when: dependencies, priority, board order, and never more under way than allowed."""

import asyncio
import errno
import heapq
import traceback
from collections.abc import Awaitable, Callable, Sequence

from taskyard.services.activity import Activity
from taskyard.services.errors import (
    BudgetReached,
    EnvironmentFault,
    KeyRefused,
    LandingStopped,
    ServerUnreachable,
    StorageFull,
    TaskyardError,
)
from taskyard.services.events import Event, TaskStateChanged, Warned
from taskyard.services.pipeline import TaskEnd
from taskyard.services.records import Task

RUN_STOPPING = (BudgetReached, KeyRefused, ServerUnreachable, StorageFull, EnvironmentFault, LandingStopped)
"""Errors that concern the whole run, not the task that met them."""


class Dispatcher:
    """Runs every task of a board once its dependencies are merged.

        dispatcher = Dispatcher(tasks, run_task, activity=activity, max_in_flight=200, emit=emit)
        ends = await dispatcher.run()

    An error of one task never touches another. One that concerns the whole run (budget, key, server, disk) parks its
    task: what is under way goes on, nothing new begins, and `stopped_by` tells of it.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        run_task: Callable[[Task, Sequence[TaskEnd]], Awaitable[TaskEnd]],
        *,
        done: frozenset[str],
        activity: Activity,
        max_in_flight: int,
        emit: Callable[[Event], None],
        ended: Callable[[str], None],
    ) -> None:
        """tasks: in the board's order; done: ids of dependencies that need not be run; ended: told of each end."""
        self._tasks = {task.id: task for task in tasks}
        self._order = {task.id: place for place, task in enumerate(tasks)}
        self._run_task = run_task
        self._activity = activity
        self._max_in_flight = max_in_flight
        self._emit = emit
        self._told = ended
        self._waits = {task.id: {d for d in task.depends_on if d not in done} for task in tasks}
        self._dependents: dict[str, list[str]] = {}
        for task in tasks:
            for parent in self._waits[task.id]:
                self._dependents.setdefault(parent, []).append(task.id)
        self._ready: list[tuple[int, int, str]] = []
        self._freed: list[str] = []
        self._running = 0
        self._changed = asyncio.Event()
        self.ends: dict[str, TaskEnd] = {}
        self.stopped_by: TaskyardError | None = None

    async def run(self) -> dict[str, TaskEnd]:
        """All tasks, to their ends; returns {id: end}. Tasks that were parked or never begun are not in it."""
        for task in self._tasks.values():
            self._emit(TaskStateChanged(task=task.id, state="queued", attempt=1))
        for task in self._tasks.values():
            if task.id not in self.ends:
                self._offer(task.id)
        async with asyncio.TaskGroup() as group:
            while True:
                self._begin(group)
                if self._running == 0:
                    return self.ends
                self._changed.clear()
                await self._changed.wait()

    def _offer(self, id_: str) -> None:
        """Begin the task when its turn comes, skip it when a dependency has gone wrong, or leave it waiting."""
        task = self._tasks[id_]
        for parent in task.depends_on:
            end = self.ends.get(parent)
            if parent in self._waits[id_] and (parent not in self._tasks or (end and end.state != "merged")):
                self._skip(task, f"waits for {parent}, which {_fate(end)}")
                return
        if all(parent in self.ends for parent in self._waits[id_]):
            heapq.heappush(self._ready, (task.priority, self._order[id_], id_))

    def _begin(self, group: asyncio.TaskGroup) -> None:
        while self._ready and self._running < self._max_in_flight and self.stopped_by is None:
            _, _, id_ = heapq.heappop(self._ready)
            self._running += 1
            self._activity.begin(id_)
            group.create_task(self._carry(self._tasks[id_]), name=f"task {id_}")

    async def _carry(self, task: Task) -> None:
        try:
            parents = [self.ends[parent] for parent in task.depends_on if parent in self.ends]
            end = await self._run_task(task, parents)
        except Exception as error:
            if stopping := stops_the_run(error):
                self.stopped_by = self.stopped_by or stopping
                return
            end = self._crashed(task, error)
        finally:
            self._running -= 1
            self._activity.end(task.id)
            self._changed.set()
        self._end(task.id, end)

    def _crashed(self, task: Task, error: Exception) -> TaskEnd:
        where = "".join(traceback.format_exception(error))
        self._emit(Warned(code="internal_error", message=f"a fault of taskyard itself, in task {task.id}:\n{where}"))
        detail = f"internal error: {type(error).__name__}: {error}"
        self._emit(TaskStateChanged(task=task.id, state="failed", attempt=1, detail=detail))
        return TaskEnd(state="failed", attempt=1, detail=detail)

    def _skip(self, task: Task, why: str) -> None:
        self._emit(TaskStateChanged(task=task.id, state="skipped", attempt=1, detail=why))
        self._end(task.id, TaskEnd(state="skipped", attempt=1, detail=why))

    def _end(self, id_: str, end: TaskEnd) -> None:
        """Record an end and look again at what waited for it. A list, since a chain may be longer than the stack."""
        self.ends[id_] = end
        self._told(id_)
        self._freed.append(id_)
        if len(self._freed) > 1:  # the loop below is running further up
            return
        for freed in self._freed:
            for dependent in self._dependents.get(freed, ()):
                if dependent not in self.ends:
                    self._offer(dependent)
        self._freed.clear()


def stops_the_run(error: BaseException) -> TaskyardError | None:
    """What concerns the whole run; a task's steps that run side by side raise it in a group."""
    if isinstance(error, BaseExceptionGroup):
        return next((found for inner in error.exceptions if (found := stops_the_run(inner))), None)
    if isinstance(error, RUN_STOPPING):
        return error
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return StorageFull(f"the disk is full: {error}. Make room, then run `taskyard resume`.")
    return None


def _fate(end: TaskEnd | None) -> str:
    if end is None:
        return "is not part of this run"
    return {"failed": "failed", "needs_you": "needs you", "skipped": "was skipped"}.get(end.state, end.state)
