"""What other commands read, and the one thing they write: a decision."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from taskyard.services.activity import Activity
from taskyard.services.clock import SystemClock
from taskyard.services.database import Database
from taskyard.services.errors import UsageError
from taskyard.services.lessons import LessonStore
from taskyard.services.llm import Ledger
from taskyard.services.locks import holder
from taskyard.services.pipeline import Action, Decisions
from taskyard.services.records import Board
from taskyard.services.run import ready
from taskyard.services.run.compose import MIGRATIONS, make_history
from taskyard.services.run.record import Record, RunRow, find_run, task_rows


@asynccontextmanager
async def opened(folder: Path, environ: Mapping[str, str]) -> AsyncIterator[tuple[ready.Place, Database]]:
    """The repository around `folder` and its database, closed at the end. Raises EnvironmentFault, ConfigError."""
    place = await ready.find_place(folder, environ, {})
    db = await Database.open(place.folders.state / "taskyard.db", MIGRATIONS)
    try:
        yield place, db
    finally:
        await db.close()


async def run_status(folder: Path, environ: Mapping[str, str], *, details: bool = False) -> dict[str, Any]:
    """The JSON object of `status`. Raises UsageError when nothing has run here yet.

    details: with the `detail` of each task, what was last said about it, which a person reads and the JSON has not.
    """
    async with opened(folder, environ) as (place, db):
        row = await find_run(db, None)
        if row is None:
            raise UsageError("no run in this repository yet; start one with `taskyard run BOARD`")
        clock = SystemClock()
        costs = await Ledger(db).cost_by_task(row.id)
        totals = await Record(db, row.id, clock, Activity(clock)).totals()
        alive = await asyncio.to_thread(holder, place.folders.state / "run.lock")
        state = (
            row.state if row.state == "finished" else "running" if alive and row.state == "running" else "interrupted"
        )
        return {
            "run": row.id,
            "board": row.board,
            "state": state,
            "pid": row.pid if state == "running" else None,
            "tasks": [
                {"id": task.task, "state": task.state, "attempt": task.attempt, "cost_usd": costs.get(task.task, 0.0)}
                | ({"detail": task.detail} if details else {})
                for task in await task_rows(db, row.id)
            ],
            "totals": msgspec.to_builtins(totals),
        }


async def show_board(folder: Path, board: str, environ: Mapping[str, str]) -> Board:
    """The board as it is understood. Raises BoardError."""
    place = await ready.find_place(folder, environ, {})
    return ready.open_board(folder, board, place.settings, environ)


async def cache_stats(folder: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """The JSON object of `cache stats`."""
    async with opened(folder, environ) as (place, db):
        stats = await Ledger(db).cache_stats()

        def rates(table: dict[str, tuple[int, int]]) -> dict[str, Any]:
            return {
                name: {"hits": hits, "misses": misses, "hit_rate": hits / (hits + misses)}
                for name, (hits, misses) in table.items()
            }

        return {
            "entries": stats.entries,
            "bytes": stats.bytes,
            "max_entries": place.settings.cache.max_entries,
            "max_bytes": place.settings.cache.max_bytes,
            "hits": stats.hits,
            "misses": stats.misses,
            "hit_rate": stats.hit_rate,
            "saved_usd": stats.saved_usd,
            "by_role": rates(stats.by_role),
            "by_model": rates(stats.by_model),
        }


async def lessons_search(folder: Path, text: str, limit: int, environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """The objects of `lessons search`, best first."""
    store = await _lessons(folder, environ)
    return [found.json() for found in await store.search(text, limit)]


async def lessons_stats(folder: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """The JSON object of `lessons stats`."""
    stats: dict[str, Any] = msgspec.to_builtins(await (await _lessons(folder, environ)).load())
    return stats


async def _lessons(folder: Path, environ: Mapping[str, str]) -> LessonStore:
    place = await ready.find_place(folder, environ, {})
    return LessonStore(place.settings.lessons.file, SystemClock(), project=place.checkout.top)


async def history_list(folder: Path, environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """The objects of `history list`, newest first."""
    async with opened(folder, environ) as (place, db):
        lines = await make_history(place, db, SystemClock()).list()
        return [msgspec.to_builtins(line) for line in lines]


async def history_stats(folder: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """The JSON object of `history stats`."""
    async with opened(folder, environ) as (place, db):
        stats: dict[str, Any] = msgspec.to_builtins(await make_history(place, db, SystemClock()).stats())
        return stats


async def decide(folder: Path, task: str, action: Action, comment: str, environ: Mapping[str, str]) -> str:
    """Record a person's decision; what to do next. Raises UsageError when the task waits for nobody."""
    async with opened(folder, environ) as (place, db):
        row, attempt = await _undecided(db, task)
        before = await Decisions(db, row.id).add(task, attempt, action, comment, SystemClock().now())
        alive = await asyncio.to_thread(holder, place.folders.state / "run.lock")
        then = "the run takes it up now" if alive else f"go on with `taskyard resume {row.id}`"
        return f"{action} {task}: {then}" + (f" (this replaces {before.action})" if before else "")


async def _undecided(db: Database, task: str) -> tuple[RunRow, int]:
    """The run in which a task waits for a person, and the attempt that is to be decided about."""
    row = await find_run(db, None, unfinished=True)
    rows = await task_rows(db, row.id) if row else ()
    waiting = {known.task: known.attempt for known in rows if known.state == "needs_you"}
    if row is None or task not in waiting:
        names = f"; waiting: {', '.join(waiting)}" if waiting else ""
        raise UsageError(f"task {task} waits for no decision{names}")
    return row, waiting[task]
