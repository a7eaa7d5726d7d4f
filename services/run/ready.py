"""Everything that must be right before a run exists: nothing is spent here; what is wrong is told at once (exit 2)."""

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from taskyard.services.board import on_path, open_tasks, parse_board, read_board, task_key
from taskyard.services.checks import Sandbox, choose_sandbox
from taskyard.services.clock import Clock
from taskyard.services.config import Folders, Settings, folders, load
from taskyard.services.errors import BoardError, ConfigError, EnvironmentFault, KeyRefused, ServerUnreachable
from taskyard.services.llm import LiveLane, NotAccepted, PriceTable
from taskyard.services.records import Board, CheckResult, Task
from taskyard.services.repo import Checkout, Repository, is_dot_git
from taskyard.services.run.options import RunOptions

_UNREACHABLE_S = 300.0
_RETRY_S = 2.0
_RETRY_MAX_S = 30.0


class Place(msgspec.Struct, frozen=True):
    """A repository and what is set for it."""

    checkout: Checkout
    settings: Settings
    folders: Folders


class BoardPath(msgspec.Struct, frozen=True):
    """Where a board lies."""

    file: Path
    """Absolute."""
    inside: str
    """Relative to the repository's top, with `/`; of a board that lies elsewhere, the absolute path."""
    in_repository: bool
    files: tuple[str, ...] = ()
    """Its paths in the repository: its own and, of a link, what that leads to."""

    @property
    def kept(self) -> str:
        """What `resume` finds it by, from the repository's top."""
        return self.inside


class Selection(msgspec.Struct, frozen=True):
    """Which tasks a run is for."""

    tasks: tuple[Task, ...]
    keys: dict[str, str]
    """{task id: Task-Key}."""
    done: frozenset[str]
    """Ids that need not be run and that others may depend on."""
    waiting: dict[str, str]
    """{task id: branch} of tasks that wait on an unmerged branch of an earlier run."""


async def find_place(folder: Path, environ: Mapping[str, str], flags: Mapping[str, object]) -> Place:
    """The repository around `folder`, with its settings and state folders. Raises EnvironmentFault, ConfigError."""
    checkout = await Checkout.find(folder, environ)
    settings = load(checkout.top, environ, flags)
    return Place(checkout, settings, folders(checkout.top, environ))


def open_board(folder: Path, shown: str, settings: Settings, environ: Mapping[str, str]) -> Board:
    """Read the board that a person named. Raises BoardError."""
    try:
        shown.encode()
    except UnicodeEncodeError:
        raise BoardError(f"the board's name {os.fsencode(shown)!r} is not UTF-8; rename the file") from None
    if not shown:
        raise BoardError("no board was named: give a file, or set [run] board in taskyard.toml")
    defaults = settings.check_defaults
    return read_board(
        folder / shown,
        shown,
        which=on_path(environ.get("PATH")),
        timeout_s=defaults.timeout_s,
        network=defaults.network,
    )


def reread_board(content: bytes, shown: str, settings: Settings, environ: Mapping[str, str]) -> Board:
    """The board that a run read when it began."""
    defaults = settings.check_defaults
    return parse_board(
        content, shown, which=on_path(environ.get("PATH")), timeout_s=defaults.timeout_s, network=defaults.network
    )


def edited_since(board: Board, path: BoardPath, settings: Settings, environ: Mapping[str, str]) -> bool:
    """Whether the board's file asks for something else now than `board` does; ticks don't count."""
    try:
        now = open_board(path.file.parent, path.file.name, settings, environ)
    except BoardError:
        return True
    return [(task.id, task.text, task.checks) for task in now.tasks] != [
        (task.id, task.text, task.checks) for task in board.tasks
    ]


def board_path(place: Place, folder: Path, shown: str) -> BoardPath:
    """Where the board lies, seen from the repository."""
    path = Path(os.path.abspath(folder / shown))  # noqa: PTH100  a board may be a link, and its own place counts
    top = place.checkout.top
    inside = [each.relative_to(top) for each in (path, path.resolve()) if each.is_relative_to(top)]
    files = tuple(each.as_posix() for each in inside if not any(is_dot_git(part) for part in each.parts))
    if not files:
        return BoardPath(path, path.as_posix(), in_repository=False)
    return BoardPath(path, files[0], in_repository=True, files=files)


async def select(board: Board, path: str, options: RunOptions, repository: Repository, base: str) -> Selection:
    """The tasks to run. Raises BoardError when `--only` names none of them."""
    known = {task.id: task for task in board.tasks}
    if unknown := [id_ for id_ in options.only if id_ not in known]:
        raise BoardError(f"--only: {board.path} has no task {unknown[0]!r}; it has {', '.join(list(known)[:20])}")
    wanted = [task for task in open_tasks(board) if not options.only or task.id in options.only]
    keys = {task.id: task_key(path, task) for task in board.tasks}
    merged: dict[str, str] = {}
    branches: dict[str, str] = {}
    if wanted and not options.again:
        merged = await repository.trailers(base, "Task-Key")
        branches = await _unmerged(repository, base)
    left = tuple(task for task in wanted if keys[task.id] not in merged)
    # A box that is ticked in the working file says no more than a commit on a branch that nobody has merged.
    away = {task.id: branches[key] for task in board.tasks if (key := keys[task.id]) in branches and key not in merged}
    return Selection(
        tasks=left,
        keys=keys,
        done=frozenset(
            task.id
            for task in board.tasks
            if task.id not in away and (task.status == "done" or keys[task.id] in merged)
        ),
        waiting={id_: branch for id_, branch in _waiting(left, away).items() if id_ in {task.id for task in left}},
    )


async def landed_meanwhile(chosen: Selection, repository: Repository, run: str, base: str, target: str) -> Selection:
    """A resumed run leaves out what another run has landed since: on the target, or on a branch of its own."""
    elsewhere: dict[str, str] = {}
    mine: set[str] = set()
    own = await repository.ref(f"runs/{run}/tip")
    heads = {name: tip for name, tip in (await repository.remote_branches("")).items() if _ours(name, target)}
    for name, tip in [*heads.items(), *([("", own)] if own else [])]:
        for commit in await repository.log(tip, base):
            key = commit.trailers.get("Task-Key")
            if key is None:
                continue
            if commit.trailers.get("Run-Id") == run:
                mine.add(key)
            else:
                elsewhere[key] = name
    away = {
        task.id: elsewhere[key]
        for task in chosen.tasks
        if (key := chosen.keys[task.id]) in elsewhere and key not in mine
    }
    return msgspec.structs.replace(chosen, waiting=_waiting(chosen.tasks, away))


def _ours(branch: str, target: str) -> bool:
    return branch == target or branch.startswith("taskyard/")


def _waiting(tasks: tuple[Task, ...], waiting: dict[str, str]) -> dict[str, str]:
    """{task id: branch}: those that wait on a branch, and those that depend on one that does."""
    while more := {
        task.id: waiting[parent]
        for task in tasks
        for parent in task.depends_on
        if task.id not in waiting and parent in waiting
    }:
        waiting = waiting | more
    return waiting


async def _unmerged(repository: Repository, base: str) -> dict[str, str]:
    """{Task-Key: branch} of what stands on `taskyard/*` branches of the remote and not on the base."""
    found: dict[str, str] = {}
    for branch, commit in (await repository.remote_branches("taskyard/")).items():
        found |= dict.fromkeys(await repository.trailers(commit, "Task-Key", since=base), branch)
    return found


async def find_base(place: Place, repository: Repository, rev: str | None) -> str:
    """The commit a run starts from: the remote target's tip, or REV.

    Raises EnvironmentFault: no such target, a REV nobody knows, local commits that the remote lacks.
    """
    target = place.settings.run.target
    tip = await repository.fetch(target)
    if place.settings.run.push == "branch" and "taskyard" in await repository.remote_branches("taskyard"):
        raise EnvironmentFault(
            f"{place.settings.run.remote} has a branch called 'taskyard', beside which no branch taskyard/<run> can be "
            "made. Rename it, or run with --push target."
        )
    if rev is not None:
        commit = await repository.resolve(rev)
        if commit is None:
            raise EnvironmentFault(f"--base {rev}: there is no such commit")
        return commit
    if ahead := await repository.local_only(target):
        listed = "\n".join(f"  {line}" for line in ahead[:10])
        raise EnvironmentFault(
            f"the branch {target} has {len(ahead)} commit(s) that {place.settings.run.remote} lacks:\n{listed}\n"
            f"Push them first, or start from a commit of your choice with --base REV."
        )
    return tip


def find_sandbox(place: Place, options: RunOptions, environ: Mapping[str, str]) -> Sandbox:
    """The sandbox that checks run in. Raises EnvironmentFault with what to install."""
    return choose_sandbox(place.settings.sandbox, unsafe_local=options.unsafe_local, environ=environ)


def refuse_unready_lanes(settings: Settings, prices: PriceTable, now: float) -> None:
    """Raises ConfigError for a lane that is not there, and for a budget over models without a price."""
    if settings.run.lane == "batch":
        raise ConfigError("the batch lane is not there yet; use --lane live or auto")
    models = {settings.models.planner, settings.models.implementer, settings.models.judge}
    unpriced = sorted(model for model in models if prices.find(model, now) is None)
    if settings.run.budget_usd is not None and unpriced:
        raise ConfigError(
            f"a budget needs prices, and {unpriced[0]} has none; add it to a file and name that in [models] prices"
        )


def red_checks(results: tuple[CheckResult, ...], *, allowed: bool) -> frozenset[str]:
    """Names of the checks that are red on the base.

    Raises ConfigError for one that could not really run, EnvironmentFault for a red one that is not allowed.
    """
    for result in results:
        if result.broken:
            raise ConfigError(f"[checks] {result.check} = {result.command!r} can't be used: {result.broken}")
    red = [result for result in results if not result.green]
    if red and not allowed:
        first = red[0]
        how = "timed out" if first.timed_out else f"exit {first.exit}"
        said = f"):\n{first.output[-2000:].strip()}" if first.output.strip() else ", it printed nothing)."
        raise EnvironmentFault(
            f"[checks] {first.check} is red on the base already ({how}{said}\n"
            "Mend the base first, or pass --allow-red-base; it is then not held against a task."
        )
    return frozenset(result.check for result in red)


async def greet_server(lane: LiveLane, model: str) -> NotAccepted | None:
    """Make sure, for free, that the server takes the key; what it said when it can't be reached.

    Raises EnvironmentFault: no key, or a refused one.
    """
    try:
        await lane.preflight(model)
    except KeyRefused as error:
        raise EnvironmentFault(str(error)) from error
    except NotAccepted as error:
        return error
    return None


async def wait_for_server(
    lane: LiveLane, model: str, clock: Clock, first: NotAccepted, tell: Callable[[str], None]
) -> None:
    """Try an unreachable server again, for 5 minutes. Raises ServerUnreachable, EnvironmentFault."""
    started, delay, answer = clock.monotonic(), _RETRY_S, first
    while True:
        if clock.monotonic() - started >= _UNREACHABLE_S:
            raise ServerUnreachable(f"no answer from the server for 5 minutes ({answer})")
        tell(f"the server can't be reached ({answer}); trying again in {delay:g} s, for 5 minutes in all")
        await asyncio.sleep(delay)
        delay = min(2 * delay, _RETRY_MAX_S)
        again = await greet_server(lane, model)
        if again is None:
            return
        answer = again
