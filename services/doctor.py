"""What a run would lack here, and what to do about it.

    findings = await examine(Path.cwd(), os.environ, clock=SystemClock())
    for finding in findings:
        print(finding.check, finding.ok, finding.detail, finding.do)
    healthy(findings)                # whether a run could start

Nothing is spent, and nothing changes but taskyard's own folders.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from taskyard.services.checks import LocalRunner, choose_sandbox
from taskyard.services.clock import Clock
from taskyard.services.config import Folders, Settings, folders, load
from taskyard.services.errors import EnvironmentFault, ServerUnreachable, TaskyardError
from taskyard.services.llm import Endpoint, LiveLane, NotAccepted, PriceTable
from taskyard.services.records import CheckResult
from taskyard.services.repo import Checkout, Repository, WorktreePool

Preflight = Callable[[Settings], Awaitable[None]]
"""Asks the model's server for something free. Raises TaskyardError when it refuses the key or does not answer."""

_FREE_BYTES = 1_000_000_000
_OUTPUT_LINES = 3
_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
_NOT_ASKED = "Whether the server has these models was not asked."


class Finding(msgspec.Struct, frozen=True):
    """What was found about one subject; the JSON of `doctor` is a list of these without `needed`."""

    check: str
    ok: bool
    detail: str
    do: str = ""
    """What to do when it is not ok."""
    needed: bool = True
    """No run can start while it is not ok."""

    def plain(self) -> dict[str, object]:
        """The object of `doctor --json`."""
        return {"check": self.check, "ok": self.ok, "detail": self.detail, "do": self.do}


def healthy(findings: Iterable[Finding]) -> bool:
    """Whether all that is needed is there."""
    return all(finding.ok for finding in findings if finding.needed)


async def examine(
    folder: Path, environ: Mapping[str, str], *, clock: Clock, preflight: Preflight | None = None
) -> tuple[Finding, ...]:
    """Look at everything that a run in `folder` needs, in the order in which to put it right.

    preflight: how to ask whether the key is accepted; None asks the server that the environment names. What rests on
    something that is missing is not looked at. Raises nothing that a person could put right.
    """
    return await _Examination(environ, clock, preflight or _ask_server(environ)).of(folder)


def _ask_server(environ: Mapping[str, str]) -> Preflight:
    async def ask(settings: Settings) -> None:
        lane = LiveLane(Endpoint(base_url=environ.get("ANTHROPIC_BASE_URL"), api_key=environ.get("ANTHROPIC_API_KEY")))
        try:
            await lane.preflight(settings.models.planner)
        except NotAccepted as error:
            raise ServerUnreachable(str(error)) from error
        finally:
            await lane.close()

    return ask


class _Examination:
    """One look at a repository; findings are added in order."""

    def __init__(self, environ: Mapping[str, str], clock: Clock, preflight: Preflight) -> None:
        self._environ = environ
        self._clock = clock
        self._preflight = preflight
        self._findings: list[Finding] = []

    async def of(self, folder: Path) -> tuple[Finding, ...]:
        checkout = await self._repository(folder)
        settings = self._settings(checkout) if checkout else Settings()
        if settings is not None:
            places = self._folders(checkout) if checkout else None
            repository = await self._remote(checkout, settings, places) if checkout and places else None
            base = await self._target(repository, settings) if repository else None
            await self._key(settings)
            self._prices(settings, checkout)
            runner = await self._sandbox(settings)
            if places and repository and base and runner:
                await self._checks(settings, repository, places, base, runner)
        return tuple(self._findings)

    def _ok(self, check: str, detail: str) -> None:
        self._findings.append(Finding(check, True, detail))

    def _bad(self, check: str, detail: object, do: str, *, needed: bool = True) -> None:
        self._findings.append(Finding(check, False, str(detail), do, needed))

    async def _repository(self, folder: Path) -> Checkout | None:
        try:
            checkout = await Checkout.find(folder, self._environ)
        except TaskyardError as error:
            self._bad("repository", error, "go to a git repository that has a commit, with git 2.38 or later installed")
            return None
        self._ok("git", (await checkout.read("version")).line.removeprefix("git version "))
        self._ok("repository", str(checkout.top))
        try:
            identity = await checkout.identity()
            self._ok("identity", f"{identity.name} <{identity.email}>")
        except TaskyardError as error:
            self._bad("identity", error, "git config --global user.name NAME; git config --global user.email ADDRESS")
        return checkout

    def _settings(self, checkout: Checkout) -> Settings | None:
        try:
            settings = load(checkout.top, self._environ, {})
        except TaskyardError as error:
            self._bad("settings", error, "correct the setting that the message names")
            return None
        self._ok("settings", "every setting is known and valid")
        return settings

    def _folders(self, checkout: Checkout) -> Folders | None:
        do = "set TASKYARD_STATE to a folder on a local disk with space, that you may write"
        try:
            places = folders(checkout.top, self._environ)
            free = min(shutil.disk_usage(place).free for place in (places.state, places.cache))
        except (TaskyardError, OSError) as error:
            self._bad("folders", error, do)
            return None
        detail = f"state {places.state}, cache {places.cache}, {free / 1e9:.1f} GB free"
        if free < _FREE_BYTES:
            self._bad("folders", f"{detail}; a run needs about 1 GB", do)
        else:
            self._ok("folders", detail)
        return places

    async def _remote(self, checkout: Checkout, settings: Settings, places: Folders) -> Repository | None:
        remote = settings.run.remote
        try:
            urls = await checkout.remote_url(remote)
            repository = await Repository.open(places.state / "repository.git", checkout, remote)
        except TaskyardError as error:
            self._bad("remote", error, f"git remote add {remote} URL, or set [run] remote in taskyard.toml")
            return None
        self._ok("remote", f"{remote}: {urls.fetch}")
        return repository

    async def _target(self, repository: Repository, settings: Settings) -> str | None:
        target, remote = settings.run.target, settings.run.remote
        try:
            base = await repository.fetch(target)
            ahead = await repository.local_only(target)
            refused = await repository.can_push()
        except TaskyardError as error:
            self._bad("target", error, await _about_target(repository, remote))
            return None
        self._ok("target", f"{target} of {remote} at {base[:7]}")
        if ahead:
            number = "1 commit is" if len(ahead) == 1 else f"{len(ahead)} commits are"
            detail = f"{number} on {target} and not on {remote}: {'; '.join(ahead[:5])}"
            self._bad("local commits", detail, f"git push {remote} {target}, or run with --base REV")
        else:
            self._ok("local commits", f"{remote} has all of {target}")
        if refused:
            do = "see that `git push --dry-run` works, or run with --push none"
            self._bad("push", refused, do, needed=settings.run.push != "none")
        else:
            self._ok("push", f"{remote} would take a push")
        return base

    async def _key(self, settings: Settings) -> None:
        name = next((name for name in _KEYS if self._environ.get(name)), None)
        if name is None:
            self._bad("key", "no API key is set", "export ANTHROPIC_API_KEY=…; `taskyard demo` needs none")
            return
        try:
            await self._preflight(settings)
        except TaskyardError as error:
            self._bad("key", error, f"see that {name} holds a valid key and that the server can be reached")
        else:
            self._ok("key", f"{name} is accepted")

    def _prices(self, settings: Settings, checkout: Checkout | None) -> None:
        models = dict.fromkeys((settings.models.planner, settings.models.implementer, settings.models.judge))
        own = settings.models.prices
        do = "correct the name under [models], or add its price to a TOML file and name that as [models] prices"
        try:
            table = PriceTable.load((checkout.top if checkout else Path()) / own if own else None)
        except TaskyardError as error:
            self._bad("prices", error, do)
            return
        unknown = [model for model in models if table.find(model, self._clock.now()) is None]
        if unknown:
            budget = settings.run.budget_usd is not None
            named = ", ".join(_with_nearest(model, table) for model in unknown)
            detail = f"no price is known for {named}: what it costs shows as unpriced. {_NOT_ASKED}"
            self._bad("prices", detail, do, needed=budget)
        else:
            self._ok("prices", f"known for {', '.join(models)}. {_NOT_ASKED}")

    async def _sandbox(self, settings: Settings) -> LocalRunner | None:
        try:
            sandbox = await asyncio.to_thread(
                choose_sandbox, settings.sandbox, unsafe_local=False, environ=self._environ
            )
        except EnvironmentFault as error:
            self._bad(
                "sandbox", error, "install bubblewrap (Debian: apt-get install bubblewrap), or run with --unsafe-local"
            )
            return None
        self._ok("sandbox", f"{sandbox.kind} works")
        return LocalRunner(sandbox, self._clock)

    async def _checks(
        self, settings: Settings, repository: Repository, places: Folders, base: str, runner: LocalRunner
    ) -> None:
        if not settings.checks:
            do = "name a test command under [checks] in taskyard.toml"
            self._bad("checks", "there are no [checks]: every task must bring its own", do, needed=False)
            return
        pool = WorktreePool(repository, places.cache / "doctor", size=1)
        try:
            async with pool.lay_out(await repository.tree_of(base)) as worktree:
                setup = settings.setup
                if setup.command:
                    done = await runner.set_up(
                        setup.command, tree=worktree.tree, folder=worktree.path, network=setup.network,
                        timeout_s=settings.check_defaults.timeout_s,
                    )  # fmt: skip
                    self._result("setup", done)
                for check in settings.checks:
                    result = await runner.run(check, tree=worktree.tree, folder=worktree.path)
                    self._result(f"check {check.name}", result)
        except TaskyardError as error:
            self._bad("checks", error, "see that the disk has space and the folders can be written")
        finally:
            await pool.close()

    def _result(self, name: str, result: CheckResult) -> None:
        if result.green:
            self._ok(name, f"green on the base in {result.seconds:.1f} s: {result.command}")
        elif result.broken:
            self._bad(name, f"{result.command}: {result.broken}", "correct the command under [checks] in taskyard.toml")
        else:
            how = "ran out of time" if result.timed_out else f"exit {result.exit}"
            last = " / ".join(result.output.strip().splitlines()[-_OUTPUT_LINES:])
            self._bad(name, f"red on the base ({how}): {last}", "mend it on the target, or run with --allow-red-base")


async def _about_target(repository: Repository, remote: str) -> str:
    """A remote that answers lacks the branch; of one that does not, no setting can be said to be wrong."""
    try:
        await repository.remote_ref("HEAD")
    except TaskyardError:
        return f"see that `git fetch {remote}` works: the address, the network, your access"
    return "set [run] target in taskyard.toml to a branch that is there, or push it first"


def _with_nearest(model: str, table: PriceTable) -> str:
    nearest = table.nearest(model)
    return f"{model} (did you mean {nearest}?)" if nearest else model
