"""From a command line to a run that exists, and on to its exit code."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import msgspec

from taskyard.services.clock import Clock
from taskyard.services.database import Database
from taskyard.services.errors import StorageFull
from taskyard.services.events import Event, EventLog, RunStarted, TaskStateChanged, Totals, Warned
from taskyard.services.llm import Endpoint, Gateway, Ledger, LiveLane, PriceTable
from taskyard.services.locks import hold
from taskyard.services.pipeline import Base
from taskyard.services.records import Board, CheckResult, Task
from taskyard.services.repo import Repository
from taskyard.services.run import ready
from taskyard.services.run.compose import MIGRATIONS, Ground, lay_ground, make_gateway, make_kit
from taskyard.services.run.life import Life, finished
from taskyard.services.run.options import RunOptions
from taskyard.services.run.publish import BoardFile, Publisher
from taskyard.services.run.record import Record, RunRow, unfinished_runs
from taskyard.services.status import Status

_BASE = "(base)"


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
    path = ready.board_path(place, outside.folder, options.board)
    return await _Run(outside, options, place, board, path, outside.new_id(), None).carry_out()


async def go_on(outside: Outside, row: RunRow, options: RunOptions) -> int:
    """Resume a run, from any folder of the repository; the exit code."""
    place = await ready.find_place(outside.folder, outside.environ, options.flags)
    board = ready.reread_board(row.content, row.board, place.settings, outside.environ)
    path = ready.board_path(place, place.checkout.top, options.board)
    return await _Run(outside, options, place, board, path, row.id, row).carry_out()


class _Run:
    """One life of one run, up to the moment at which it exists."""

    def __init__(
        self,
        outside: Outside,
        options: RunOptions,
        place: ready.Place,
        board: Board,
        path: ready.BoardPath,
        id_: str,
        row: RunRow | None,
    ) -> None:
        """row: what is on record of the run; None for a new one."""
        self._outside = outside
        self._clock = outside.clock
        self._options = options
        self._place = place
        self._settings = place.settings
        self._board = board
        self._path = path
        self._id = id_
        self._row = row
        self._status = Status()
        self._held = _Held(self._heard)
        self._record: Record | None = None
        """Set once the run is on record."""
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
            repository = await Repository.open(
                state / "repository.git", self._place.checkout, self._settings.run.remote, alone=True
            )
            base = await self._find_base(repository)
            chosen = await self._choose(repository, base)
            tasks = tuple(task for task in chosen.tasks if task.id not in chosen.waiting)
            if not tasks:
                return self._nothing_to_do(base, chosen)
            await self._place.checkout.identity()
            prices = PriceTable.load(self._price_file())
            ready.refuse_unready_lanes(self._settings, prices, self._clock.now())
            sandbox = ready.find_sandbox(self._place, self._options, self._outside.environ)
            ground = lay_ground(self._place, self._clock, db, repository, sandbox, self._log.emit)
            stack.push_async_callback(ground.work.close)
            stack.push_async_callback(ground.verification.close)
            stand = await self._check_base(ground, base)
            if self._options.dry_run:
                return self._rehearse(base, tasks, chosen)
            lane = LiveLane(self._outside.endpoint)
            gateway = await self._gateway(ground, lane, prices)
            stack.push_async_callback(gateway.close)
            model = self._settings.models.implementer
            away = await ready.greet_server(lane, model)
            record = Record(db, self._id, self._clock, ground.activity)
            life = await self._life(ground, record, gateway, stand, tasks, chosen)
            await self._tell_of_others(db)
            await self._exist(record, base, chosen)
            if away is None:
                return await life.run()
            return await life.run(lambda: ready.wait_for_server(lane, model, self._clock, away, self._note))

    async def _find_base(self, repository: Repository) -> str:
        if self._row is None:
            return await ready.find_base(self._place, repository, self._options.base)
        await repository.fetch(self._settings.run.target)
        return self._row.base

    def _price_file(self) -> Path | None:
        return self._place.checkout.top / self._settings.models.prices if self._settings.models.prices else None

    async def _choose(self, repository: Repository, base: str) -> ready.Selection:
        """The tasks of this run. A resumed one keeps those it began with, but for what another run has landed since."""
        if self._row is None:
            return await ready.select(self._board, self._path.inside, self._options, repository, base)
        options = msgspec.structs.replace(self._options, again=True)
        chosen = await ready.select(self._board, self._path.inside, options, repository, base)
        if self._options.again:
            return chosen
        return await ready.landed_meanwhile(chosen, repository, self._id, base, self._settings.run.target)

    async def _tell_of_others(self, db: Database) -> None:
        """Say what a person may have forgotten: an interrupted run of this board, or a board edited since it began."""
        if self._row is None:
            for row in await unfinished_runs(db):
                if row.board == self._board.path:
                    message = f"run {row.id} of this board is not finished; `taskyard resume {row.id}` goes on with it"
                    self._log.emit(Warned(code="interrupted_run", message=message))
        elif ready.edited_since(self._board, self._path, self._settings, self._outside.environ):
            message = f"{self._board.path} was edited since this run began; the run goes on with what it read then"
            self._log.emit(Warned(code="board_edited", message=message))

    def _note(self, message: str) -> None:
        self._log.emit(Warned(code="server_unreachable", message=message))

    async def _check_base(self, ground: Ground, base: str) -> Base:
        """Every `[checks]` command once on the base. Raises ConfigError, EnvironmentFault (see `ready.red_checks`)."""
        tree = await ground.repository.tree_of(base)
        ground.activity.begin(_BASE)
        try:
            results: tuple[CheckResult, ...] = await ground.verifier.run(
                tree, self._settings.checks, task=None, holder=_BASE, where="base"
            )
        finally:
            ground.activity.end(_BASE)
        return Base(base, tree, ready.red_checks(results, allowed=self._options.allow_red_base))

    async def _gateway(self, ground: Ground, lane: LiveLane, prices: PriceTable) -> Gateway:
        spent = await Ledger(ground.db).spent(self._id)
        return make_gateway(
            ground,
            run=self._id,
            lane=lane,
            prices=prices,
            cache=self._options.cache,
            emit=self._log.emit,
            spent_usd=(spent.cost_usd or 0.0) + (spent.possibly_paid_usd or 0.0),
        )

    async def _life(
        self,
        ground: Ground,
        record: Record,
        gateway: Gateway,
        base: Base,
        tasks: Sequence[Task],
        chosen: ready.Selection,
    ) -> Life:
        kit = await make_kit(
            ground,
            run=self._id,
            board_files=self._path.files,
            base=base,
            tasks=tasks,
            gateway=gateway,
            landings_before=await record.landings(),
            emit=self._log.emit,
        )
        run = self._settings.run
        publisher = Publisher(
            run=self._id,
            mode=run.push,
            target=run.target,
            remote=run.remote,
            board=BoardFile(self._path, self._board.content, self._place.folders.state / "board.lock"),
            repository=kit.repository,
            landing=kit.landing,
            record=record,
            verify=kit.landing.verify,
            identity=kit.identity,
            clock=self._clock,
            emit=kit.emit,
            base=base.commit,
        )
        return Life(
            kit=kit,
            gateway=gateway,
            publisher=publisher,
            record=record,
            status=self._status,
            tasks=tasks,
            chosen=chosen,
        )

    async def _exist(self, record: Record, base: str, chosen: ready.Selection) -> None:
        """Put the run on record and tell of it; nothing is awaited after the first event."""
        if self._row is None:
            kept = msgspec.structs.replace(
                self._options, board=self._path.kept, only=tuple(task.id for task in chosen.tasks)
            )
            options = msgspec.json.encode(kept).decode()
            await record.begin(self._board.path, self._board.content, base, options, os.getpid())
        else:
            await record.live_again(os.getpid())
        self._record = record
        self._open(base, len(chosen.tasks), chosen)

    def _open(self, base: str, tasks: int, chosen: ready.Selection) -> None:
        run = self._settings.run
        started = RunStarted(
            board=self._board.path,
            base=base,
            tasks=tasks,
            lane=run.lane,
            concurrency=run.concurrency,
            budget_usd=run.budget_usd,
            resumed=self._row is not None,
        )
        self._held.open(started, self._log)
        for task, branch in chosen.waiting.items():
            landed = branch == self._settings.run.target
            why = (
                f"has landed on {branch} meanwhile"
                if landed
                else f"waits on the unmerged branch {branch}; merge it, or run with --again"
            )
            self._log.emit(TaskStateChanged(task=task, state="skipped", attempt=1, detail=why))

    def _nothing_to_do(self, base: str, chosen: ready.Selection) -> int:
        """No task is left: say so, exit 0."""
        self._open(base, len(chosen.waiting), chosen)
        self._log.emit(Warned(code="nothing_to_do", message=f"{self._board.path}: nothing left to do"))
        self._log.emit(finished(self._status.counts(), 0, "done", Totals()))
        return 0

    def _rehearse(self, base: str, tasks: Sequence[Task], chosen: ready.Selection) -> int:
        """--dry-run: what would run."""
        self._open(base, len(tasks), chosen)
        for task in tasks:
            self._log.emit(TaskStateChanged(task=task.id, state="queued", attempt=1, detail=task.title))
        self._log.emit(Warned(code="dry_run", message=f"{len(tasks)} task(s) would run; nothing was spent"))
        self._log.emit(finished(self._status.counts(), 0, "done", Totals()))
        return 0


async def _closed(db: Database) -> None:
    """Close the database; a full disk has been told of by the run's end already."""
    with suppress(StorageFull):
        await db.close()
