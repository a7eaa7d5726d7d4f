"""The commands that look something up: status, doctor, board, cache, lessons, history.

    for command in COMMANDS:
        cli.add_command(command)

None of them changes anything.
"""

import os
import sys
from pathlib import Path

import click

from taskyard.tui.console import json_option, print_lines, say, settings_here, show, wait_for


def show_status(as_json: bool) -> int:
    """Print the last run of this repository."""
    from taskyard.services.run import run_status
    from taskyard.tui.look import look_of
    from taskyard.tui.reports import status_lines

    value = wait_for(run_status(Path.cwd(), os.environ, details=not as_json))
    show(value, as_json, lambda status: status_lines(status, look_of(sys.stdout, os.environ)))
    return 0


@click.command()
@json_option
def status(as_json: bool) -> int:
    """Show the last run in this repository."""
    return show_status(as_json)


@click.command()
@json_option
def doctor(as_json: bool) -> int:
    """Look for what a run would lack here.

    git, remote, identity, key, sandbox, checks on the base, folders; and what to do about each.
    """
    from taskyard.services.clock import SystemClock
    from taskyard.services.doctor import examine, healthy
    from taskyard.tui.interrupt import run_to_end
    from taskyard.tui.look import look_of
    from taskyard.tui.reports import doctor_lines, json_line

    async def examined() -> int:
        findings = await examine(Path.cwd(), os.environ, clock=SystemClock())
        if as_json:
            print_lines([json_line([finding.plain() for finding in findings])])
        else:
            print_lines(doctor_lines(findings, look_of(sys.stdout, os.environ)))
        return 0 if healthy(findings) else 2

    return run_to_end(examined, say)


@click.group()
def board() -> None:
    """Look at a board."""


@board.command("show")
@click.argument("board", required=False)
@json_option
def board_show(board: str | None, as_json: bool) -> int:
    """What is understood of BOARD, before anything is spent: tasks, checks, what is ignored and why."""
    from taskyard.services import run
    from taskyard.services.board import board_json
    from taskyard.tui.reports import board_lines

    chosen = board or settings_here({}).run.board
    understood = wait_for(run.show_board(Path.cwd(), chosen, os.environ))
    show(board_json(understood) if as_json else understood, as_json, board_lines)
    return 0


@click.group()
def cache() -> None:
    """Look at the answers that were paid for."""


@cache.command("stats")
@json_option
def cache_stats(as_json: bool) -> int:
    """How full the cache is, how often it answered, what that saved."""
    from taskyard.services import run
    from taskyard.tui.reports import pairs

    show(wait_for(run.cache_stats(Path.cwd(), os.environ)), as_json, pairs)
    return 0


@click.group()
def lessons() -> None:
    """Look at what failed attempts taught."""


@lessons.command("search")
@click.argument("text", nargs=-1)
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, metavar="N")
@json_option
def lessons_search(text: tuple[str, ...], limit: int, as_json: bool) -> int:
    """Lessons that match TEXT, the best first; all of them without TEXT."""
    from taskyard.services import run
    from taskyard.tui.reports import lesson_lines

    show(wait_for(run.lessons_search(Path.cwd(), " ".join(text), limit, os.environ)), as_json, lesson_lines)
    return 0


@lessons.command("stats")
@json_option
def lessons_stats(as_json: bool) -> int:
    """How many lessons there are, which lines could not be read, how often one helped."""
    from taskyard.services import run
    from taskyard.tui.reports import pairs

    show(wait_for(run.lessons_stats(Path.cwd(), os.environ)), as_json, pairs)
    return 0


@click.group()
def history() -> None:
    """Look at the attempts on record."""


@history.command("list")
@json_option
def history_list(as_json: bool) -> int:
    """Every attempt on record, the newest first."""
    from taskyard.services import run
    from taskyard.tui.reports import history_lines

    show(wait_for(run.history_list(Path.cwd(), os.environ)), as_json, history_lines)
    return 0


@history.command("show")
@click.argument("task")
@click.option("--run", "run_id", metavar="RUN", help="Another run than the last one.")
@json_option
def history_show(task: str, run_id: str | None, as_json: bool) -> int:
    """All about TASK in the last run: each attempt, what ended it, what it changed, and what is to be decided."""
    from taskyard.services import run
    from taskyard.tui.attempts import attempt_lines
    from taskyard.tui.look import look_of

    value = wait_for(run.history_show(Path.cwd(), task, run_id, os.environ))
    show(value, as_json, lambda shown: attempt_lines(shown, look_of(sys.stdout, os.environ)))
    return 0


@history.command("stats")
@json_option
def history_stats(as_json: bool) -> int:
    """How much the record holds, and what was pruned and archived."""
    from taskyard.services import run
    from taskyard.tui.reports import pairs

    show(wait_for(run.history_stats(Path.cwd(), os.environ)), as_json, pairs)
    return 0


COMMANDS: tuple[click.Command, ...] = (status, doctor, board, cache, lessons, history)
