"""Wires the services of one run: the only place where rooms learn of each other."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from taskyard.services import checks, history, journal, lessons, llm, pipeline
from taskyard.services.activity import Activity, Slots
from taskyard.services.checks import LocalRunner, Results, Sandbox
from taskyard.services.clock import Clock
from taskyard.services.config import Settings
from taskyard.services.database import Database
from taskyard.services.events import Event, Warned
from taskyard.services.journal import Journal, Sticky, digest
from taskyard.services.llm import Budget, Gateway, LiveLane, PriceTable
from taskyard.services.pipeline import Base, Decisions, Kit, Meeting, Verifier, text_digest
from taskyard.services.pipeline.verify import SetupFailed
from taskyard.services.prompts import PromptBuilder, PromptEngine, RepositoryView, repository_view
from taskyard.services.records import Check, CheckResult, Task
from taskyard.services.repo import Landing, Repository, Verify, Worktree, WorktreePool
from taskyard.services.run import record
from taskyard.services.run.ready import Place

MIGRATIONS = (
    *journal.MIGRATIONS,
    *llm.MIGRATIONS,
    *checks.MIGRATIONS,
    *history.MIGRATIONS,
    *pipeline.MIGRATIONS,
    *record.MIGRATIONS,
)
"""Every room's tables."""

_OUTLINES = 50


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What stands before a run exists, and while it goes on."""

    place: Place
    clock: Clock
    db: Database
    repository: Repository
    sandbox: Sandbox
    activity: Activity
    slots: Slots
    work: WorktreePool
    verification: WorktreePool
    verifier: Verifier


def lay_ground(
    place: Place, clock: Clock, db: Database, repository: Repository, sandbox: Sandbox, emit: Callable[[Event], None]
) -> Ground:
    """The local services: slots, worktrees, checks."""
    settings = place.settings
    activity = Activity(clock)
    slots = Slots(settings.run.concurrency, activity)
    folder = place.folders.cache / "trees"
    verification = WorktreePool(repository, folder / "verification", settings.run.concurrency)
    runner = LocalRunner(sandbox, clock)
    verifier = Verifier(
        pool=verification,
        slots=slots,
        runner=runner,
        results=Results(db),
        environment=digest("environment", sandbox.key, settings.setup.command, str(settings.setup.network)),
        prepare=_Setup(runner, settings),
        emit=emit,
    )
    return Ground(
        place=place,
        clock=clock,
        db=db,
        repository=repository,
        sandbox=sandbox,
        activity=activity,
        slots=slots,
        work=WorktreePool(repository, folder / "work", settings.run.concurrency),
        verification=verification,
        verifier=verifier,
    )


class _Setup:
    """Runs the `[setup]` command in a laid-out tree; what it makes, checks may only read."""

    def __init__(self, runner: LocalRunner, settings: Settings) -> None:
        self._runner = runner
        self._setup = settings.setup
        self._timeout_s = settings.check_defaults.timeout_s

    async def __call__(self, worktree: Worktree) -> Sequence[str]:
        if not self._setup.command:
            return ()
        before = {entry.name for entry in worktree.path.iterdir()}
        result = await self._runner.set_up(
            self._setup.command,
            tree=worktree.tree,
            folder=worktree.path,
            network=self._setup.network,
            timeout_s=self._timeout_s,
        )
        if not result.green:
            why = f"the [setup] command {self._setup.command!r} failed. "
            raise SetupFailed(msgspec.structs.replace(result, broken=why + result.broken))
        return sorted({entry.name for entry in worktree.path.iterdir()} - before)


def make_gateway(
    ground: Ground, *, run: str, lane: LiveLane, prices: PriceTable, spent_usd: float, cache: llm.CacheMode,
    emit: Callable[[Event], None],
) -> Gateway:  # fmt: skip
    """The gateway with its live lane."""
    settings = ground.place.settings
    return Gateway(
        db=ground.db, run=run, lane=lane, prices=prices, budget=Budget(settings.run.budget_usd, spent_usd),
        activity=ground.activity, clock=ground.clock, emit=emit, live_requests=settings.run.live_requests, cache=cache,
        ttl_s=settings.cache.ttl,
    )  # fmt: skip


async def make_kit(
    ground: Ground,
    *,
    run: str,
    board_files: tuple[str, ...],
    base: Base,
    tasks: Sequence[Task],
    gateway: Gateway,
    landings_before: int,
    emit: Callable[[Event], None],
) -> Kit:
    """Everything a task's way needs."""
    place, settings, db, clock = ground.place, ground.place.settings, ground.db, ground.clock
    sticky = Sticky(db)
    scope = digest("scope", base.tree, msgspec.json.encode((settings.models, settings.checks, sorted(base.red))))
    identity = await place.checkout.identity()

    def diverged(task: str, attempt: int, what: str) -> None:
        emit(
            Warned(
                code="journal_divergence",
                message=f"settings or checks have changed: attempt {attempt} of {task} is made anew from {what}",
            )
        )

    landing = Landing(
        ground.repository,
        run=run,
        identity=identity,
        verify=_landing_checks(ground, base, tasks),
        emit=emit,
        clock=clock,
        batch=settings.landing.batch,
        max_age_s=settings.landing.max_age_s,
        idle=lambda: ground.activity.only_at("landing", "dependency", "person", "pooled"),
        landings_before=landings_before,
    )
    ground.activity.listen(landing.poke)
    store = lessons.LessonStore(settings.lessons.file, clock, project=place.checkout.top)
    return Kit(
        run=run,
        board_files=board_files,
        base=base,
        settings=settings,
        clock=clock,
        emit=emit,
        activity=ground.activity,
        slots=ground.slots,
        journal=Journal(db, run, diverged),
        sticky=sticky,
        ask=gateway.ask,
        cost=lambda task, attempt: gateway.ledger.cost(run, task, attempt),
        prompts=PromptBuilder(PromptEngine(place.checkout.top / ".taskyard" / "prompts", clock)),
        view=_Outlines(ground.repository).view,
        tools=pipeline.load_tools(),
        lessons=store,
        history=make_history(place, db, clock),
        repository=ground.repository,
        identity=identity,
        work=ground.work,
        verifier=ground.verifier,
        landing=landing,
        meeting=Meeting(
            sticky, ground.activity, scope, await sticky.order(scope), {t.id: text_digest(t) for t in tasks}
        ),
        decisions=Decisions(db, run),
        scope=scope,
    )


def make_history(place: Place, db: Database, clock: Clock) -> history.History:
    """The attempts on record, within the limits that are set."""
    chosen = place.settings.history
    limits = history.Limits(max_bytes=chosen.max_bytes, max_age_s=chosen.max_age, max_entries=chosen.max_entries)
    return history.History(db, clock, limits=limits, archive_folder=_archive_folder(place))


def _archive_folder(place: Place) -> Path | None:
    """Where pruned history goes; None for nowhere."""
    chosen = place.settings.history.archive
    if chosen is None:
        return None
    return place.folders.state / "archive" if chosen == "default" else place.checkout.top / chosen


def landing_checks(
    base: Base, board: Sequence[Check], tasks: Sequence[Task], landed: Sequence[str]
) -> tuple[Check, ...]:
    """`[checks]` less those that were red on the base, and the own checks of the landed tasks; equal commands once."""
    by_id = {task.id: task for task in tasks}
    chosen = {(check.command, check.network): check for check in board if check.name not in base.red}
    for id_ in landed:
        for check in by_id[id_].checks if id_ in by_id else ():
            named = msgspec.structs.replace(check, name=f"{id_}/{check.name}")
            chosen.setdefault((check.command, check.network), named)
    return tuple(chosen.values())


def _landing_checks(ground: Ground, base: Base, board: Sequence[Task]) -> Verify:
    """Every check in a slot of its own, all at once as far as there are slots."""

    async def one(number: int, tree: str, check: Check, *, fresh: bool) -> CheckResult:
        holder = f"(landing check {number})"
        ground.activity.begin(holder)
        try:
            return (await ground.verifier.run(tree, [check], task=None, holder=holder, where="landing", fresh=fresh))[0]
        finally:
            ground.activity.end(holder)

    async def verify(tree: str, tasks: Sequence[str], *, fresh: bool) -> tuple[CheckResult, ...]:
        chosen = landing_checks(base, ground.place.settings.checks, board, tasks)
        async with asyncio.TaskGroup() as group:
            running = [
                group.create_task(one(number, tree, check, fresh=fresh)) for number, check in enumerate(chosen, 1)
            ]
        return tuple(result for run in running if not (result := run.result()).green)

    return verify


class _Outlines:
    """The outlines of the trees that attempts start from, the latest ones kept."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._kept: dict[str, RepositoryView] = {}

    async def view(self, tree: str) -> RepositoryView:
        """The outline of a tree. A first pass learns which files it looks into, so that they are read in one go."""
        if tree not in self._kept:
            files = [(file.path, file.size) for file in await self._repository.files(tree)]
            wanted: list[str] = []

            def note(path: str) -> None:
                wanted.append(path)

            await asyncio.to_thread(repository_view, files, note)
            contents = await self._repository.read_many(tree, wanted)
            self._kept[tree] = await asyncio.to_thread(repository_view, files, contents.get)
            while len(self._kept) > _OUTLINES:
                del self._kept[next(iter(self._kept))]
        return self._kept[tree]
