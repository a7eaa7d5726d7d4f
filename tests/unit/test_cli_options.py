"""What the command line hands on of the flags of `run` and `resume`."""

from typing import Any

import click
import pytest
from click.testing import CliRunner

from taskyard.tui.cli import cli
from taskyard.tui.options import options_of, run_options, settings_of


def _given(*arguments: str) -> dict[str, Any]:
    seen: dict[str, Any] = {}

    @click.command()
    @run_options
    def command(**given: Any) -> None:
        seen.update(given)

    command.main(args=list(arguments), standalone_mode=False)
    return seen


def test_flags_that_were_not_given_are_not_handed_on() -> None:
    """Else a flag's default would override the environment and the settings file."""
    given = _given()
    assert settings_of(given) == {}
    assert options_of(given) == {}


def test_every_flag_reaches_the_setting_or_option_it_names() -> None:
    """Flags that stand for a setting go by its dotted name, the others by their field."""
    given = _given(
        "--lane", "batch", "--concurrency", "4", "--budget", "2.5", "--push", "none", "--only", "T1, T2,T1", "--base",
        "HEAD~1", "--allow-red-base", "--again", "--cache", "read", "--unsafe-local", "--dry-run",
    )  # fmt: skip
    assert settings_of(given) == {
        "run.lane": "batch",
        "run.concurrency": 4,
        "run.budget_usd": 2.5,
        "run.push": "none",
    }
    assert options_of(given) == {
        "only": ("T1", "T2"),
        "base": "HEAD~1",
        "allow_red_base": True,
        "again": True,
        "cache": "read",
        "unsafe_local": True,
        "dry_run": True,
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ["--budget", "nan"],
        ["--budget", "0"],
        ["--budget", "-1"],
        ["--budget", "inf"],
        ["--concurrency", "0"],
        ["--only", " , "],
        ["--lane", "fast"],
    ],
)
def test_a_value_that_makes_no_sense_is_a_usage_error(arguments: list[str]) -> None:
    """Nothing starts with a budget that is no sum of money."""
    with pytest.raises(click.UsageError):
        _given(*arguments)


def test_the_help_claims_nothing_that_is_not_there() -> None:
    """The dashboard and the batch lane are still to come."""
    told = " ".join(CliRunner().invoke(cli, ["run", "--help"]).output.split())
    assert "until the dashboard comes" in told
    assert "refused until it comes" in told
