"""The options that `run` and `resume` share, declared once.

    @click.command()
    @run_options
    def run(json: bool, **given: Any) -> int:
        settings_of(given)       # {"run.lane": "live", …}: what stands for a setting
        options_of(given)        # {"again": True, …}: what holds for this run only

Only what was given on the command line appears in either.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

_SETTINGS = {
    "lane": "run.lane",
    "concurrency": "run.concurrency",
    "budget": "run.budget_usd",
    "push": "run.push",
}
_OPTIONS = ("only", "base", "allow_red_base", "again", "cache", "unsafe_local", "dry_run")


def _dollars(_context: click.Context, _parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and not (math.isfinite(value) and value > 0):
        raise click.BadParameter(f"{value} is not a sum of money above 0")
    return value


def _ids(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    if value is None:
        return ()
    ids = tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
    if not ids:
        raise click.BadParameter("it names no task; give ids separated by commas")
    return ids


def output_options(command: Command) -> Command:
    """--headless and --json, for every command that shows a run."""
    command = click.option("--json", "as_json", is_flag=True, help="The events, one JSON object a line.")(command)
    headless = "Plain lines; the only form until the dashboard comes."
    return click.option("--headless", is_flag=True, help=headless)(command)


_LANE = "Live is at once, and what auto chooses for now; batch, at half price, is refused until it comes."
_RUN_OPTIONS = (
    click.option("--lane", type=click.Choice(["auto", "live", "batch"]), help=_LANE),
    click.option("--concurrency", type=click.IntRange(min=1), metavar="N", help="Local steps at once."),
    click.option("--budget", type=float, callback=_dollars, metavar="USD", help="Never spend more than this."),
    click.option("--only", callback=_ids, metavar="ID,ID", help="Only these tasks."),
    click.option("--push", type=click.Choice(["branch", "target", "none"]), help="Where the verified work goes."),
    click.option("--base", metavar="REV", help="Start from this commit instead of the remote's target."),
    click.option("--allow-red-base", is_flag=True, help="Run although a check fails on the base already."),
    click.option("--again", is_flag=True, help="Run tasks too that wait on a branch of an earlier run."),
    click.option(
        "--cache", type=click.Choice(["on", "read", "off"]), help="Use, only read, or leave the answer cache."
    ),
    click.option("--unsafe-local", is_flag=True, help="Run checks without a sandbox."),
    click.option("--dry-run", is_flag=True, help="Say what would run; spend nothing."),
)


def run_options(command: Command) -> Command:
    """All of run's flags."""
    for option in reversed(_RUN_OPTIONS):
        command = option(command)
    return output_options(command)


def settings_of(given: Mapping[str, Any]) -> dict[str, object]:
    """The flags that stand for a setting, by the setting's dotted name."""
    return {setting: given[name] for name, setting in _SETTINGS.items() if given[name] is not None}


def options_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The flags that hold for one run only, by their field in `RunOptions`."""
    return {name: given[name] for name in _OPTIONS if given[name] not in (None, False, ())}
