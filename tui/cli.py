"""The command line: `taskyard run board.md`, `taskyard resume`, and the rest of `taskyard --help`.

Results go to standard output, all else to standard error; a command returns its exit code. Whatever takes time to
import is imported by the command that needs it.
"""

import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from taskyard.services.errors import TaskyardError
from taskyard.tui.console import (
    checkout_top,
    complain,
    note,
    prepare_streams,
    print_lines,
    say,
    settings_here,
    wait_for,
)
from taskyard.tui.lookups import COMMANDS, show_status
from taskyard.tui.options import options_of, output_options, run_options, settings_of

if TYPE_CHECKING:
    from taskyard.services.events import Event

_INTERRUPTED = 130
_USAGE = 2
_EXIT_CODES = """Exit codes: 0 every task is merged, or there was nothing left to do; 1 some are not; 2 usage,
configuration, board or environment error, nothing was spent; 3 the budget is reached; 4 a person is needed;
130 interrupted, go on with `taskyard resume`."""


def main() -> None:
    """The installed command."""
    prepare_streams()
    sys.exit(invoke(sys.argv[1:]))


def invoke(arguments: list[str]) -> int:
    """Carry out one command line; the exit code."""
    try:
        return int(cli.main(args=arguments, prog_name="taskyard", standalone_mode=False) or 0)
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "taskyard"
        bare = isinstance(error, click.exceptions.NoArgsIsHelpError)
        complain(f"{'Missing command.' if bare else error.format_message()} (see: {where} --help)")
    except click.ClickException as error:
        complain(error.format_message())
    except TaskyardError as error:
        complain(str(error))
    except (click.Abort, KeyboardInterrupt):
        return _INTERRUPTED
    return _USAGE


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    epilog=_EXIT_CODES,
)
@click.version_option(package_name="taskyard", message="taskyard %(version)s")
@click.pass_context
def cli(context: click.Context) -> int:
    """Run a board of coding tasks through Claude, in parallel, and land them in one verified push.

    Without a command: the state of the last run in this repository.
    """
    return show_status(as_json=False) if context.invoked_subcommand is None else 0


def _follow(
    start: Callable[[Callable[["Event"], None]], Coroutine[Any, Any, int]],
    *,
    as_json: bool,
    remote: str | None,
    practice: bool = False,
    dry_run: bool = False,
) -> int:
    """Run to the end and show the events on the way; the exit code."""
    from taskyard.services.events import encode
    from taskyard.tui.interrupt import run_to_end
    from taskyard.tui.look import look_of
    from taskyard.tui.output import Output
    from taskyard.tui.plain import PlainLines

    encoding = sys.stdout.encoding
    with Output(sys.stdout.fileno()) as out:
        plain = PlainLines(
            lambda text: out.line(text.encode(encoding, "backslashreplace")),
            look_of(sys.stdout, os.environ),
            remote=remote,
            practice=practice,
            dry_run=dry_run,
        )
        code = run_to_end(lambda: start((lambda event: out.line(encode(event))) if as_json else plain), say)
    if out.failure:
        say(f"warning: standard output could not be written to the end ({out.failure}); the run itself went on")
    return code


@cli.command()
@click.argument("board", required=False)
@run_options
def run(board: str | None, headless: bool, as_json: bool, **given: Any) -> int:  # noqa: ARG001
    """Run the open tasks of a board.

    BOARD may be left out when [run] board of taskyard.toml names one.
    """
    from taskyard.services.run import RunOptions, run_board

    flags = settings_of(given)
    settings = settings_here(flags)
    options = RunOptions(board=board or settings.run.board, flags=flags, **options_of(given))
    return _follow(
        lambda show: run_board(Path.cwd(), options, os.environ, show),
        as_json=as_json,
        remote=settings.run.remote,
        dry_run=options.dry_run,
    )


@cli.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@run_options
def resume(run_id: str | None, headless: bool, as_json: bool, **given: Any) -> int:  # noqa: ARG001
    """Go on with an interrupted run.

    That is the last one, unless RUN is named. Its options hold unless they are given anew.
    """
    from taskyard.services.run import resume_run

    flags = settings_of(given)
    remote = settings_here(flags).run.remote
    return _follow(
        lambda show: resume_run(Path.cwd(), run_id, flags | options_of(given), os.environ, show),
        as_json=as_json,
        remote=remote,
        dry_run=bool(given["dry_run"]),
    )


@cli.command()
@output_options
@click.option("--tasks", type=click.IntRange(min=1), default=9, show_default=True, metavar="N", help="How many tasks.")
@click.option("--keep", is_flag=True, help="Keep the folder with the repositories, and say where it is.")
def demo(headless: bool, as_json: bool, tasks: int, keep: bool) -> int:  # noqa: ARG001
    """Run a sample project, without a key.

    All is real but for the model's answers: they come from a practice model on this machine.
    """
    from taskyard.services.run import run_demo

    return _follow(
        lambda show: run_demo(tasks=tasks, keep=keep, environ=os.environ, on_event=show, say=note),
        as_json=as_json,
        remote="origin" if keep else None,
        practice=True,
    )


@cli.command()
def init() -> int:
    """Write a commented taskyard.toml.

    And the folder for lessons. Nothing is overwritten.
    """
    import shutil

    from taskyard.tui.init import initialise

    print_lines(initialise(checkout_top(), shutil.which))
    return 0


@cli.command()
@click.argument("task")
@click.argument("decision", type=click.Choice(["accept", "send-back", "reject", "retry"]))
@click.option("--comment", default="", metavar="TEXT", help="Goes to the model with a task that is sent back.")
def decide(task: str, decision: Literal["accept", "send-back", "reject", "retry"], comment: str) -> int:
    """Decide about a task that needs you.

    accept lands it, send-back has it revised with your comment, reject ends it, retry asks for a new sample.
    """
    from taskyard.services.run import decide as record_decision

    print_lines([wait_for(record_decision(Path.cwd(), task, decision, comment, os.environ))])
    return 0


for _command in COMMANDS:
    cli.add_command(_command)
