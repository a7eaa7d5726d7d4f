"""One life of a run that exists: from its first task to its last event."""

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from taskyard.services.dispatch import Dispatcher, stops_the_run
from taskyard.services.errors import BudgetReached, EnvironmentFault, KeyRefused, StorageFull, TaskyardError
from taskyard.services.events import Reason, RunFinished, TaskStateChanged, Totals, Warned
from taskyard.services.llm import Gateway
from taskyard.services.pipeline import Kit, TaskEnd, TaskRun, when_only_people_are_left
from taskyard.services.records import Task, TaskState
from taskyard.services.run.publish import Published, Publisher
from taskyard.services.run.ready import Selection
from taskyard.services.run.record import Record
from taskyard.services.status import Status

DRAIN_S = 20.0
"""How long an interrupted run waits for answers that are being paid for."""

_CODES: dict[type[TaskyardError], str] = {
    BudgetReached: "budget_reached",
    KeyRefused: "key_refused",
    StorageFull: "disk_full",
    EnvironmentFault: "environment",
}


class Life:
    """Carries the tasks of a run; `run` gives the exit code and always emits `run_finished` last."""

    def __init__(
        self,
        *,
        kit: Kit,
        gateway: Gateway,
        publisher: Publisher,
        record: Record,
        status: Status,
        tasks: Sequence[Task],
        chosen: Selection,
    ) -> None:
        """tasks: those of `chosen` that don't wait on an unmerged branch."""
        self._kit = kit
        self._gateway = gateway
        self._publisher = publisher
        self._record = record
        self._status = status
        self._tasks = tasks
        self._chosen = chosen

    async def run(self, first: Callable[[], Awaitable[None]] | None = None) -> int:
        """To the end, whatever that is. Being cancelled is one of the ends (130).

        first: what has to come to pass before any task begins (a server that can't be reached yet).
        """
        stopped: BaseException | None = None
        published: Published | None = None
        try:
            await self._tell_of_checkout()
            if first is not None:
                await first()
            await self._gateway.recover()
            await self._kit.landing.open(self._kit.base.commit)
            await self._publisher.recover()
            stopped = await self._work()
            if stopped is None or isinstance(stopped, BudgetReached):
                published = await self._publisher.publish()
        except asyncio.CancelledError as error:
            stopped = error
            _forget_cancellation()
        except Exception as error:
            stopped = stops_the_run(error) or _first(error)
        await self._drain()
        return await _through(self._finish(stopped, published))

    async def _tell_of_checkout(self) -> None:
        """What the person sees in the checkout and the run does not."""
        kit, checkout = self._kit, self._kit.repository.checkout
        if dirty := [path for path in await checkout.dirty() if path != kit.settings.lessons.file]:
            names = ", ".join(dirty[:5])
            kit.emit(Warned(code="dirty_checkout", message=f"uncommitted changes are ignored: {names}"))
        head = await checkout.commit_id("HEAD")
        if head is None or await kit.repository.resolve(head) is None:
            return
        if unseen := await kit.repository.log(head, kit.base.commit):
            words = f"the checkout has {len(unseen)} commit(s) that the run's base {kit.base.commit[:7]} lacks"
            kit.emit(Warned(code="other_branch", message=f"{words}; the run starts without them"))

    async def _work(self) -> TaskyardError | None:
        """All tasks, to their ends or to what stopped the run."""
        kit = self._kit

        async def run_task(task: Task, parents: Sequence[TaskEnd]) -> TaskEnd:
            return await TaskRun(kit, task, self._chosen.keys[task.id], [parent.change for parent in parents]).run()

        dispatcher = Dispatcher(
            self._tasks,
            run_task,
            done=self._chosen.done,
            activity=kit.activity,
            max_in_flight=kit.settings.run.max_in_flight,
            emit=kit.emit,
            ended=kit.meeting.ended,
        )
        kit.activity.listen(when_only_people_are_left(lambda: kit.activity.only_at("person"), kit.decisions))
        async with asyncio.TaskGroup() as group:
            background = [group.create_task(kit.landing.serve(), name="landing")]
            if (every := kit.settings.landing.push_every_s) is not None:
                background.append(group.create_task(_push_every(every, self._publisher), name="pushes"))
            await dispatcher.run()
            for work in background:
                work.cancel()
        return dispatcher.stopped_by

    async def _drain(self) -> None:
        """A run that ends waits a little for answers that are being paid for; another interruption ends that."""
        if self._gateway.in_flight:
            waiting = f"waiting up to {DRAIN_S:g} s for {self._gateway.in_flight} answer(s) that are being paid for"
            self._kit.emit(Warned(code="draining", message=waiting))
            with suppress(asyncio.CancelledError):
                await self._gateway.drain(DRAIN_S)
            _forget_cancellation()

    async def _finish(self, stopped: BaseException | None, published: Published | None) -> int:
        try:
            await self._gateway.close()  # what is given up now is told of before the last event
            self._tell_of_pushes(published or Published(await self._publisher.known()))
            self._tell_why(stopped)
            code, reason = self._verdict(stopped)
            over = reason in {"done", "failed"} and "landing" not in self._status.counts()
            await self._record.touch()
            totals = await self._record.totals()
            await self._record.over("finished" if over else "interrupted", code)
        except StorageFull as error:
            if not isinstance(stopped, StorageFull):
                self._tell_why(error)
            code, reason, totals = 130, "interrupted", Totals()
        self._kit.emit(finished(self._status.counts(), code, reason, totals))
        return code

    def _tell_of_pushes(self, published: Published) -> None:
        """`merged` stays with those whose commit was read back from where it was pushed to."""
        for line in self._status.tasks()[1]:
            if line.state != "merged" or line.task in published.proved:
                continue
            lost = published.lost.get(line.task)
            detail = lost or published.trouble or "verified, and not pushed yet"
            state: TaskState = "needs_you" if lost else "landing"
            self._kit.emit(TaskStateChanged(task=line.task, state=state, attempt=line.attempt, detail=detail))
        if published.trouble:
            self._kit.emit(Warned(code="not_pushed", message=published.trouble))

    def _tell_why(self, stopped: BaseException | None) -> None:
        if isinstance(stopped, TaskyardError):
            self._kit.emit(Warned(code=_CODES.get(type(stopped), "stopped"), message=str(stopped)))
        elif isinstance(stopped, Exception):
            where = "".join(traceback.format_exception(stopped))
            self._kit.emit(Warned(code="internal_error", message=f"a fault of taskyard itself:\n{where}"))

    def _verdict(self, stopped: BaseException | None) -> tuple[int, Reason]:
        """Exit code and reason; of several that apply, 130 goes before 3, 4 and 1."""
        if isinstance(stopped, Exception) and not isinstance(stopped, TaskyardError):
            return 1, "error"
        if stopped is not None and not isinstance(stopped, BudgetReached):
            return 130, "interrupted"
        if stopped is not None:
            return 3, "budget"
        if "needs_you" in self._status.counts():
            return 4, "needs_you"
        rest = {line.task for line in self._status.tasks()[1] if line.state != "merged"} - set(self._chosen.waiting)
        return (1, "failed") if rest else (0, "done")


def finished(counts: dict[str, int], code: int, reason: Reason, totals: Totals) -> RunFinished:
    """The last event."""
    return RunFinished(tasks=counts, exit=code, reason=reason, **msgspec.structs.asdict(totals))


def _first(error: Exception) -> BaseException:
    """The first error of a task group; any other error as it is."""
    found: BaseException = error
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def _forget_cancellation() -> None:
    """The interruption has been taken up; from here on the task is an ordinary one again."""
    task = asyncio.current_task()
    while task is not None and task.cancelling():
        task.uncancel()


async def _through(work: Coroutine[Any, Any, int]) -> int:
    """Carry out the last steps whatever interrupts them: they take moments, and the last event depends on them."""
    task = asyncio.ensure_future(work)
    while True:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.done():
                raise
            _forget_cancellation()


async def _push_every(seconds: float, publisher: Publisher) -> None:
    while True:
        await asyncio.sleep(seconds)
        await publisher.publish()
