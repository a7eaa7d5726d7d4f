"""Runs checks on a tree, in a verification worktree that holds nothing but that tree."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import msgspec

from taskyard.services.activity import Slots
from taskyard.services.checks import CheckRunner, Results
from taskyard.services.events import CheckFinished, Event
from taskyard.services.records import Check, CheckPlace, CheckResult
from taskyard.services.repo import Worktree, WorktreePool


class Prepare(Protocol):
    """Gets a laid-out worktree ready for checks; gives the sub-paths that checks may only read."""

    async def __call__(self, worktree: Worktree) -> Sequence[str]: ...


class SetupFailed(Exception):
    """The `[setup]` command failed, so no check could run."""

    def __init__(self, result: CheckResult) -> None:
        super().__init__(result.output)
        self.result = result


class Verifier:
    """Checks on trees. A green result on record is reused; a red one never is.

    results = await verifier.run(tree, checks, task="T1", where="gate")
    """

    def __init__(
        self,
        *,
        pool: WorktreePool,
        slots: Slots,
        runner: CheckRunner,
        results: Results,
        environment: str,
        prepare: Prepare,
        emit: Callable[[Event], None],
    ) -> None:
        self._pool = pool
        self._slots = slots
        self._runner = runner
        self._results = results
        self._environment = environment
        self._prepare = prepare
        self._emit = emit

    async def run(
        self,
        tree: str,
        checks: Sequence[Check],
        *,
        task: str | None,
        holder: str,
        where: CheckPlace,
        fresh: bool = False,
    ) -> tuple[CheckResult, ...]:
        """Every check's result on a tree, in order.

        task: whom the events name; holder: whom `activity` shows in the slot; fresh: reuse nothing.
        """
        known = (
            {} if fresh else {check.name: await self._results.find(tree, check, self._environment) for check in checks}
        )
        missing = [check for check in checks if known.get(check.name) is None]
        made: dict[str, CheckResult] = {}
        if missing:
            async with self._slots.hold(holder), self._pool.lay_out(tree) as worktree:
                for check in missing:
                    made[check.name] = await self.on(worktree, check, task=task, where=where)
                    if check is not missing[-1]:
                        await worktree.reset()
        for check in checks:
            if found := known.get(check.name):
                self._tell(found, task, where)
        return tuple(known.get(check.name) or made[check.name] for check in checks)

    async def on(self, worktree: Worktree, check: Check, *, task: str | None, where: CheckPlace) -> CheckResult:
        """Run one check in a worktree that is laid out already; the caller holds a slot."""
        try:
            read_only = await self._prepare(worktree)
            result = await self._runner.run(check, tree=worktree.tree, folder=worktree.path, read_only=read_only)
        except SetupFailed as error:
            result = msgspec.structs.replace(error.result, check=check.name, command=check.command)
        await self._results.keep(result, check, self._environment)
        self._tell(result, task, where, "run")
        return result

    async def known(self, tree: str, check: Check) -> CheckResult | None:
        """The green result on record, if there is one."""
        return await self._results.find(tree, check, self._environment)

    def _tell(
        self, result: CheckResult, task: str | None, where: CheckPlace, source: Literal["run", "cache"] = "cache"
    ) -> None:
        self._emit(
            CheckFinished(
                task=task, check=result.check, tree=result.tree, exit=result.exit,
                seconds=result.seconds if source == "run" else 0.0, source=source, where=where,
            )
        )  # fmt: skip
