"""Run a check on a laid-out tree and say what came of it."""

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from taskyard.services.checks.broken import sandbox_failed, why_broken
from taskyard.services.checks.normalise import normalise
from taskyard.services.checks.output import BoundedOutput, clean
from taskyard.services.checks.processes import Ending, run_to_end
from taskyard.services.checks.sandbox import Launch, Sandbox
from taskyard.services.clock import Clock
from taskyard.services.records import Check, CheckResult

SETUP = "setup"
"""The name under which the result of `[setup]` is reported."""


class CheckRunner(Protocol):
    """Runs checks, here or elsewhere."""

    async def run(self, check: Check, *, tree: str, folder: Path, read_only: Sequence[str] = ()) -> CheckResult:
        """Run `check` in `folder`, where `tree` is laid out; a red or broken check is a result, not an error.

        read_only: paths relative to `folder` that the command may not change.
        """
        ...


class LocalRunner:
    """Runs checks on this machine.

    runner = LocalRunner(sandbox, clock)
    result = await runner.run(Check("test", "make test"), tree=worktree.tree, folder=worktree.path)
    result.green, result.output
    """

    def __init__(self, sandbox: Sandbox, clock: Clock) -> None:
        self._sandbox = sandbox
        self._clock = clock

    async def run(self, check: Check, *, tree: str, folder: Path, read_only: Sequence[str] = ()) -> CheckResult:
        """As `CheckRunner.run`. Cancelling kills the command and all it started, then goes through."""
        output = BoundedOutput()
        started = self._clock.monotonic()
        private = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="taskyard-check-"))
        try:
            ending = await run_to_end(self._launch(check, folder, read_only, private), output, check.timeout_s)
        except OSError as error:
            ending = Ending(exit=None, timed_out=False, started=False)
            output.add(str(error).encode("utf-8", "replace"))
        finally:
            shutil.rmtree(private, onerror=_unlock)
        text = clean(output.text().replace(str(private), "<tmp>"))
        return CheckResult(
            check=check.name,
            command=check.command,
            tree=tree,
            exit=ending.exit if ending.started else None,
            seconds=self._clock.monotonic() - started,
            output=normalise(text, folder),
            timed_out=ending.timed_out,
            broken=_why(ending, text, check.command),
        )

    def _launch(self, check: Check, folder: Path, read_only: Sequence[str], private: Path) -> Launch:
        real = folder.resolve()
        return self._sandbox.launch(
            check.command, folder=real, network=check.network, read_only=read_only, private=private
        )

    async def set_up(self, command: str, *, tree: str, folder: Path, network: bool, timeout_s: float) -> CheckResult:
        """Run `[setup]` in a laid-out tree, in the same sandbox as checks; what it writes in `folder` stays there."""
        check = Check(name=SETUP, command=command, timeout_s=timeout_s, network=network)
        return await self.run(check, tree=tree, folder=folder)


def _why(ending: Ending, text: str, command: str) -> str:
    if not ending.started:
        return sandbox_failed(text)
    return "" if ending.exit is None else why_broken(ending.exit, text, command)


def _unlock(remove: object, path: str, _: object) -> None:
    """A command may leave a folder that can't be entered: open it and go on."""
    del remove
    folder = Path(path)
    try:
        folder.parent.chmod(0o700)
        if folder.is_dir() and not folder.is_symlink():
            folder.chmod(0o700)
            shutil.rmtree(folder, ignore_errors=True)
        else:
            folder.unlink(missing_ok=True)
    except OSError:
        return
