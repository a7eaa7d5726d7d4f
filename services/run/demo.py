"""`taskyard demo`: a sample project in a temporary folder, run for real but for the model's answers."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from taskyard.services.checks import choose_sandbox
from taskyard.services.clock import SystemClock
from taskyard.services.config import SandboxSettings
from taskyard.services.errors import EnvironmentFault
from taskyard.services.events import Event
from taskyard.services.llm import Endpoint
from taskyard.services.practice import PracticeServer, project
from taskyard.services.repo import Identity, scaffold
from taskyard.services.run.execute import Outside, start
from taskyard.services.run.options import RunOptions

_BOARD = "board.md"
_LATENCY_S = 0.05
_MODEL = "practice"
_YOU = Identity("Demo", "demo@taskyard.invalid")


async def run_demo(
    *,
    tasks: int,
    keep: bool,
    environ: Mapping[str, str],
    on_event: Callable[[Event], None],
    say: Callable[[str], None],
    new_id: Callable[[], str],
) -> int:
    """Make the sample project, run its board against the practice server, and clean up unless `keep`; the exit code."""
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="taskyard-demo-"))
    try:
        say("this is a practice model on your own machine: no key, no money; everything else is real")
        repo = folder / "repo"
        await scaffold(repo, folder / "remote.git", project.files(tasks), _YOU, "A small library with a board of work")
        options = RunOptions(board=_BOARD, flags=_flags(), unsafe_local=_must_go_without_sandbox(environ, say))
        with PracticeServer(latency_s=_LATENCY_S) as server:
            outside = Outside(
                folder=repo, environ=_environ(environ, folder), clock=SystemClock(), listen=on_event,
                endpoint=Endpoint(server.url, "practice"), new_id=new_id,
            )  # fmt: skip
            return await start(outside, options)
    finally:
        if keep:
            say(f"kept: {folder}")
        else:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def _flags() -> dict[str, object]:
    return {"models.planner": _MODEL, "models.implementer": _MODEL, "models.judge": _MODEL}


def _environ(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The person's environment without settings of their own, with a state folder inside the demo's."""
    kept = {
        name: value for name, value in environ.items() if not name.startswith("TASKYARD_") or name == "TASKYARD_FAULT"
    }
    return {**kept, "TASKYARD_STATE": str(folder / "state")}


def _must_go_without_sandbox(environ: Mapping[str, str], say: Callable[[str], None]) -> bool:
    try:
        choose_sandbox(SandboxSettings(), unsafe_local=False, environ=environ)
    except EnvironmentFault as error:
        say(f"warning: the demo's checks run without a sandbox: {error}")
        return True
    return False
