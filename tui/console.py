"""What every command does with the two standard streams.

    show(stats, as_json, pairs)      # a result, as text or as JSON
    say("stopping in good order")    # taskyard: stopping in good order

Results go to standard output, messages to standard error.
"""

import os
import sys
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from taskyard.tui.clean import clean_lines

if TYPE_CHECKING:
    from taskyard.services.config import Settings

Result = TypeVar("Result")


def prepare_streams() -> None:
    """Make both streams usable whatever the caller handed over."""
    for name in ("stdout", "stderr"):
        # A closed standard stream leaves its number to the next file that is opened: our database, say.
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - open as long as the process
    for stream in (sys.stdout, sys.stderr):
        # Repository paths may hold bytes that no encoding takes; they are shown, not fatal.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def note(message: str) -> None:
    """A line on standard error, as it is."""
    click.echo(clean_lines(message), err=True)


def say(message: str) -> None:
    """One message for the person, on standard error."""
    note(f"taskyard: {message}")


def complain(message: str) -> None:
    """Why the command could not do what it was asked, on standard error."""
    say(f"error: {message}")


def print_lines(lines: Iterable[str]) -> None:
    """Results on standard output. A reader that has seen enough (`| head`) is no fault."""
    for line in lines:
        try:
            click.echo(line)
        except BrokenPipeError:
            # What the buffer still holds would fail once more at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return


def show(value: Any, as_json: bool, lines: Callable[[Any], Iterable[str]]) -> None:
    """Print one object as one line of JSON, a list as a line per element, or either as text."""
    if not as_json:
        print_lines(lines(value))
        return
    from taskyard.tui.reports import json_line

    print_lines(map(json_line, value if isinstance(value, list) else [value]))


def wait_for(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """What a coroutine gives, in an event loop of its own."""
    import asyncio

    return asyncio.run(coroutine)


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--json, for a command that looks something up."""
    return click.option("--json", "as_json", is_flag=True, help="The same as JSON.")(command)


def settings_here(flags: dict[str, object]) -> "Settings":
    """The settings of the repository that the current folder lies in."""
    from taskyard.services.config import load

    return load(checkout_top(), os.environ, flags)


def checkout_top() -> Path:
    """The top folder of the repository that the current folder lies in."""
    from taskyard.services.repo import Checkout

    return wait_for(Checkout.find(Path.cwd())).top
