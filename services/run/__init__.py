"""The composition root: settings in, a run out. The one room that knows all the others.

    code = await run_board(Path.cwd(), RunOptions(board="board.md"), os.environ, print)

Errors before a run exists are UsageError (exit 2, nothing spent, no event). From `run_started` on, `run_finished` is
the last event, also when the run is cancelled (130).
"""

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from taskyard.services.clock import SystemClock
from taskyard.services.database import Database
from taskyard.services.errors import UsageError
from taskyard.services.events import Event
from taskyard.services.llm import Endpoint
from taskyard.services.run import demo, execute, ready
from taskyard.services.run.compose import MIGRATIONS
from taskyard.services.run.looks import (
    cache_stats,
    decide,
    history_list,
    history_stats,
    lessons_search,
    lessons_stats,
    run_status,
    show_board,
)
from taskyard.services.run.options import RunOptions
from taskyard.services.run.record import RunRow, find_run, unfinished_runs
from taskyard.services.run.show import history_show

__all__ = [
    "RunOptions",
    "cache_stats",
    "decide",
    "history_list",
    "history_show",
    "history_stats",
    "lessons_search",
    "lessons_stats",
    "resume_run",
    "run_board",
    "run_demo",
    "run_status",
    "show_board",
]

_ID_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"


def new_run_id() -> str:
    """A short id that nobody mixes up: `r` and six letters or digits, about 30 bits."""
    return "r" + "".join(secrets.choice(_ID_LETTERS) for _ in range(6))


async def run_board(
    folder: Path, options: RunOptions, environ: Mapping[str, str], on_event: Callable[[Event], None]
) -> int:
    """Run a board in the repository around `folder`; the exit code. Raises UsageError before a run exists."""
    return await execute.start(_outside(folder, environ, on_event), options)


async def resume_run(
    folder: Path,
    run: str | None,
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    on_event: Callable[[Event], None],
) -> int:
    """Go on with a run, or (None) with the last one; the exit code.

    flags: settings by dotted name, and fields of RunOptions, that are given anew. Raises UsageError when there is none.
    """
    row = await _resumable(folder, run, environ)
    options = msgspec.json.decode(row.options, type=RunOptions)
    settings = {name: value for name, value in flags.items() if "." in name}
    fields = {name: value for name, value in flags.items() if "." not in name}
    options = msgspec.structs.replace(options, flags={**options.flags, **settings}, **fields)
    return await execute.go_on(_outside(folder, environ, on_event), row, options)


async def run_demo(
    *, tasks: int, keep: bool, environ: Mapping[str, str], on_event: Callable[[Event], None], say: Callable[[str], None]
) -> int:  # fmt: skip
    """Run the sample project; the exit code."""
    return await demo.run_demo(tasks=tasks, keep=keep, environ=environ, on_event=on_event, say=say, new_id=new_run_id)


async def _resumable(folder: Path, run: str | None, environ: Mapping[str, str]) -> RunRow:
    place = await ready.find_place(folder, environ, {})
    db = await Database.open(place.folders.state / "taskyard.db", MIGRATIONS)
    try:
        row, last = await find_run(db, run), await find_run(db, None)
        others = await unfinished_runs(db)
    finally:
        await db.close()
    listed = ", ".join(f"{other.id} ({other.board})" for other in others[:5])
    if last is None:
        raise UsageError("nothing has run here yet; start with `taskyard run BOARD`")
    if row is None:
        known = f"to be resumed: {listed}" if listed else f"the last one is {last.id}"
        raise UsageError(f"there is no run {run}; {known}")
    if row.state == "finished" and run:
        raise UsageError(f"run {row.id} is finished; start a new one with `taskyard run {row.board}`")
    if row.state == "finished":
        older = f"; name an older one to go on with it: {listed}" if listed else ""
        raise UsageError(f"there is no interrupted run; the last one, {row.id}, is finished{older}")
    return row


def _outside(folder: Path, environ: Mapping[str, str], on_event: Callable[[Event], None]) -> execute.Outside:
    return execute.Outside(
        folder=folder, environ=environ, clock=SystemClock(), listen=on_event, endpoint=Endpoint(), new_id=new_run_id
    )
