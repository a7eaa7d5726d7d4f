"""One run from its first event to its last."""

import asyncio
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import msgspec

from taskyard.services.clock import Clock
from taskyard.services.database import Database
from taskyard.services.dispatch import Dispatcher
from taskyard.services.errors import BudgetReached, EnvironmentFault, KeyRefused, StorageFull, TaskyardError
from taskyard.services.events import Event, EventLog, Reason, RunFinished, RunStarted, TaskStateChanged, Totals, Warned
from taskyard.services.llm import Endpoint, Gateway, Ledger, LiveLane, PriceTable
from taskyard.services.locks import hold
from taskyard.services.pipeline import Base, Kit, TaskEnd, TaskRun, when_only_people_are_left
from taskyard.services.records import Board, CheckResult, Task, TaskState
from taskyard.services.repo import Repository
from taskyard.services.run import ready
from taskyard.services.run.compose import MIGRATIONS, Ground, lay_ground, make_gateway, make_kit
from taskyard.services.run.options import RunOptions
from taskyard.services.run.publish import BoardFile, Published, Publisher
from taskyard.services.run.record import Record, RunRow
from taskyard.services.status import Status

DRAIN_S = 20.0
"""How long an interrupted run waits for answers that are being paid for."""


class Outside(msgspec.Struct, frozen=True):
    """What a run is given from outside: where it is, and who listens."""

    folder: Path
    environ: Mapping[str, str]
    clock: Clock
    listen: Callable[[Event], None]
    endpoint: Endpoint
    new_id: Callable[[], str]


class _Held:
    """A sink that keeps events back until the run exists: an error before then leaves no event at all."""

    def __init__(self, listen: Callable[[Event], None]) -> None:
        self._listen = listen
        self._kept: list[Event] | None = []

    def __call__(self, event: Event) -> None:
        if self._kept is None:
            self._listen(event)
        else:
            self._kept.append(event)

    def open(self, first: Event, log: EventLog) -> None:
        """The run exists: `first` goes out, then what was kept."""
        kept, self._kept = self._kept or [], None
        log.emit(first)
        for event in kept:
            self._listen(event)


async def start(outside: Outside, options: RunOptions) -> int:
    """Run a board; the exit code. Raises UsageError before a run exists."""
    place = await ready.find_place(outside.folder, outside.environ, options.flags)
    board = ready.open_board(outside.folder, options.board, place.settings, outside.environ)
    run = _Run(outside, options, place, board, outside.new_id(), None)
    return await run.carry_out()


async def go_on(outside: Outside, row: RunRow, options: RunOptions) -> int:
    """Resume a run; the exit code."""
    place = await ready.find_place(outside.folder, outside.environ, options.flags)
    board = ready.reread_board(row.content, row.board, place.settings, outside.environ)
    run = _Run(outside, options, place, board, row.id, row)
    return await run.carry_out()


class _Run:
    """One life of one run."""

    def __init__(
        self, outside: Outside, options: RunOptions, place: ready.Place, board: Board, id_: str, row: RunRow | None
    ) -> None:
        self._outside = outside
        self._clock = outside.clock
        self._options = options
        self._place = place
        self._settings = place.settings
        self._board = board
        self._path = ready.board_path(place, outside.folder, options.board)
        self._id = id_
        self._row = row
        self._status = Status()
        self._waiting: frozenset[str] = frozenset()
        self._held = _Held(self._heard)
        self._record: Record | None = None
        self._log = EventLog(id_, outside.clock, [self._held])

    def _heard(self, event: Event) -> None:
        self._status.hear(event)
        if self._record is not None:
            self._record.keep(event)
        self._outside.listen(event)

    async def carry_out(self) -> int:
        """From the lock to the exit code."""
        state = self._place.folders.state
        async with AsyncExitStack() as stack:
            stack.enter_context(hold(state / "run.lock", f"run {self._id} of {self._board.path}"))
            db = await Database.open(state / "taskyard.db", MIGRATIONS)
            stack.push_async_callback(_closed, db)
            remote = self._settings.run.remote
            repository = await Repository.open(state / "repository.git", self._place.checkout, remote)
            base = self._row.base if self._row else await ready.find_base(self._place, repository, self._options.base)
            if self._row:
                await repository.fetch(self._settings.run.target)
            chosen = await ready.select(self._board, self._path, self._options, repository, base)
            tasks = tuple(task for task in chosen.tasks if task.id not in chosen.waiting)
            self._waiting = frozenset(chosen.waiting)
            if not tasks:
                return self._nothing_to_do(base, chosen)
            await self._place.checkout.identity()
            prices = PriceTable.load(self._price_file())
            ready.refuse_unready_lanes(self._settings, prices, self._clock.now())
            sandbox = ready.find_sandbox(self._place, self._options, self._outside.environ)
            ground = lay_ground(self._place, self._clock, db, repository, sandbox, self._log.emit)
            stack.push_async_callback(ground.work.close)
            stack.push_async_callback(ground.verification.close)
            tree = await repository.tree_of(base)
            results = await self._check_base(ground, tree)
            red = ready.red_checks(results, allowed=self._options.allow_red_base)
            if self._options.dry_run:
                return self._rehearse(base, tasks, chosen)
            gateway, lane = await self._gateway(ground, prices)
            stack.push_async_callback(gateway.close)
            await ready.greet_server(lane, self._settings.models.implementer, self._clock, self._note)
            await self._exist(ground, base, chosen)
            kit = await make_kit(
                ground, run=self._id, board=self._path, base=Base(base, tree, red), tasks=tasks, gateway=gateway,
                landings_before=await self._landings_before(), emit=self._log.emit,
            )  # fmt: skip
            return await self._live(kit, gateway, tasks, chosen)

    async def _landings_before(self) -> int:
        return await self._record.landings() if self._record and self._row else 0

    def _price_file(self) -> Path | None:
        return self._place.checkout.top / self._settings.models.prices if self._settings.models.prices else None

    async def _note(self, message: str) -> None:
        self._log.emit(Warned(code="server_unreachable", message=message))

    async def _check_base(self, ground: Ground, tree: str) -> tuple[CheckResult, ...]:
        ground.activity.begin(_BASE)
        try:
            return await ground.verifier.run(tree, self._settings.checks, task=None, holder=_BASE, where="base")
        finally:
            ground.activity.end(_BASE)

    async def _gateway(self, ground: Ground, prices: PriceTable) -> tuple[Gateway, LiveLane]:
        spent = await Ledger(ground.db).spent(self._id)
        lane = LiveLane(self._outside.endpoint)
        gateway = make_gateway(
            ground, run=self._id, lane=lane, prices=prices, cache=self._options.cache, emit=self._log.emit,
            spent_usd=(spent.cost_usd or 0.0) + (spent.possibly_paid_usd or 0.0),
        )  # fmt: skip
        return gateway, lane

    async def _exist(self, ground: Ground, base: str, chosen: ready.Selection) -> None:
        """Put the run on record and tell of it."""
        self._record = record = Record(ground.db, self._id, self._clock, ground.activity)
        kept = msgspec.structs.replace(self._options, only=tuple(task.id for task in chosen.tasks), again=True)
        if self._row is None:
            options = msgspec.json.encode(kept).decode()
            await record.begin(self._board.path, self._board.content, base, options, os.getpid())
        else:
            await record.live_again(os.getpid())
        self._held.open(self._started(base, len(chosen.tasks)), self._log)
        self._tell_of_waiting(chosen)
        if dirty := await self._place.checkout.dirty():
            self._log.emit(
                Warned(code="dirty_checkout", message=f"uncommitted changes are ignored: {', '.join(dirty[:5])}")
            )

    def _started(self, base: str, tasks: int) -> RunStarted:
        run = self._settings.run
        return RunStarted(
            board=self._board.path, base=base, tasks=tasks, lane=run.lane, concurrency=run.concurrency,
            budget_usd=run.budget_usd, resumed=self._row is not None,
        )  # fmt: skip

    def _tell_of_waiting(self, chosen: ready.Selection) -> None:
        for task, branch in chosen.waiting.items():
            why = f"waits on the unmerged branch {branch}; merge it, or run with --again"
            self._log.emit(TaskStateChanged(task=task, state="skipped", attempt=1, detail=why))

    def _nothing_to_do(self, base: str, chosen: ready.Selection) -> int:
        """No task is left: say so, exit 0."""
        self._held.open(self._started(base, len(chosen.waiting)), self._log)
        self._tell_of_waiting(chosen)
        self._log.emit(Warned(code="nothing_to_do", message=f"{self._board.path}: nothing left to do"))
        self._log.emit(_finished(self._status.counts(), 0, "done", Totals()))
        return 0

    def _rehearse(self, base: str, tasks: Sequence[Task], chosen: ready.Selection) -> int:
        """--dry-run: what would run."""
        self._held.open(self._started(base, len(tasks)), self._log)
        self._tell_of_waiting(chosen)
        for task in tasks:
            self._log.emit(TaskStateChanged(task=task.id, state="queued", attempt=1, detail=task.title))
        self._log.emit(Warned(code="dry_run", message=f"{len(tasks)} task(s) would run; nothing was spent"))
        self._log.emit(_finished(self._status.counts(), 0, "done", Totals()))
        return 0

    async def _live(self, kit: Kit, gateway: Gateway, tasks: Sequence[Task], chosen: ready.Selection) -> int:
        """The run itself, and its last event."""
        stopped: BaseException | None = None
        published: Published | None = None
        try:
            publisher = self._publisher(kit)
            await gateway.recover()
            await kit.landing.open(kit.base.commit)
            await publisher.recover()
            stopped = await self._work(kit, publisher, tasks, chosen)
            if stopped is None or isinstance(stopped, BudgetReached):
                published = await publisher.publish()
        except asyncio.CancelledError as error:
            stopped = error
            await self._drain(gateway)
        except TaskyardError as error:
            stopped = error
        except Exception as error:
            stopped = _first(error)
        return await self._finish(stopped, published)

    async def _work(
        self, kit: Kit, publisher: Publisher, tasks: Sequence[Task], chosen: ready.Selection
    ) -> TaskyardError | None:
        """All tasks, to their ends or to what stopped the run."""

        async def run_task(task: Task, parents: Sequence[TaskEnd]) -> TaskEnd:
            return await TaskRun(kit, task, chosen.keys[task.id], [parent.change for parent in parents]).run()

        dispatcher = Dispatcher(
            tasks, run_task, done=chosen.done, activity=kit.activity, max_in_flight=kit.settings.run.max_in_flight,
            emit=kit.emit, ended=kit.meeting.ended,
        )  # fmt: skip
        kit.activity.listen(when_only_people_are_left(lambda: kit.activity.only_at("person"), kit.decisions))
        async with asyncio.TaskGroup() as group:
            background = [group.create_task(kit.landing.serve(), name="landing")]
            if (every := kit.settings.landing.push_every_s) is not None:
                background.append(group.create_task(_push_every(every, publisher), name="pushes"))
            await dispatcher.run()
            for work in background:
                work.cancel()
        return dispatcher.stopped_by

    def _publisher(self, kit: Kit) -> Publisher:
        assert self._record is not None
        run = self._settings.run
        path = self._outside.folder / self._options.board
        inside = self._path != self._options.board or path.resolve().is_relative_to(self._place.checkout.top)
        file = BoardFile(
            path=path,
            inside=self._path if inside else "",
            content=self._board.content,
            lock=self._place.folders.state / "board.lock",
        )  # fmt: skip
        return Publisher(
            run=self._id,
            mode=run.push,
            target=run.target,
            remote=run.remote,
            board=file,
            repository=kit.repository,
            landing=kit.landing,
            record=self._record,
            verify=kit.landing.verify,
            identity=kit.identity,
            clock=self._clock,
            emit=kit.emit,
            base=kit.base.commit,
        )

    async def _drain(self, gateway: Gateway) -> None:
        """An interrupted run waits a little for answers that are being paid for; another interruption ends that."""
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
        if gateway.in_flight:
            message = f"waiting up to {DRAIN_S:g} s for {gateway.in_flight} answer(s) that are being paid for"
            self._log.emit(Warned(code="draining", message=message))
            with suppress(asyncio.CancelledError):
                await gateway.drain(DRAIN_S)
            while task.cancelling():
                task.uncancel()

    async def _finish(self, stopped: BaseException | None, published: Published | None) -> int:
        assert self._record is not None
        if published is not None:
            self._tell_of_pushes(published)
        code, reason = self._verdict(stopped)
        self._told_why(stopped)
        over = reason in {"done", "failed"} and "landing" not in self._status.counts()
        try:
            await self._record.touch()
            totals = await self._record.totals()
            await self._record.over("finished" if over else "interrupted", code)
        except StorageFull:
            totals = Totals()
        self._log.emit(_finished(self._status.counts(), code, reason, totals))
        return code

    def _tell_of_pushes(self, published: Published) -> None:
        """`merged` stays with those whose commit was read back from where it was pushed to."""
        for line in self._status.tasks()[1]:
            if line.state != "merged" or line.task in published.proved:
                continue
            lost = published.lost.get(line.task)
            detail = lost or published.trouble or "its commit is not at the remote"
            state: TaskState = "needs_you" if lost else "landing"
            self._log.emit(TaskStateChanged(task=line.task, state=state, attempt=line.attempt, detail=detail))
        if published.trouble:
            self._log.emit(Warned(code="not_pushed", message=published.trouble))

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
        rest = {line.task for line in self._status.tasks()[1] if line.state != "merged"} - self._waiting
        return (1, "failed") if rest else (0, "done")

    def _told_why(self, stopped: BaseException | None) -> None:
        if isinstance(stopped, TaskyardError):
            self._log.emit(Warned(code=_CODES.get(type(stopped), "stopped"), message=str(stopped)))
        elif isinstance(stopped, Exception):
            where = "".join(traceback.format_exception(stopped))
            self._log.emit(Warned(code="internal_error", message=f"a fault of taskyard itself:\n{where}"))


_BASE = "(base)"
_CODES: dict[type[TaskyardError], str] = {
    BudgetReached: "budget_reached",
    KeyRefused: "key_refused",
    StorageFull: "disk_full",
    EnvironmentFault: "environment",
}


def _finished(counts: dict[str, int], code: int, reason: Reason, totals: Totals) -> RunFinished:
    return RunFinished(tasks=counts, exit=code, reason=reason, **msgspec.structs.asdict(totals))


def _first(error: Exception) -> BaseException:
    """The first error of a task group; any other error as it is."""
    found: BaseException = error
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


async def _push_every(seconds: float, publisher: Publisher) -> None:
    while True:
        await asyncio.sleep(seconds)
        await publisher.publish()


async def _closed(db: Database) -> None:
    """Close the database; a full disk has been told of by the run's end already."""
    with suppress(StorageFull):
        await db.close()
