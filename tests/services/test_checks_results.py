"""Green results are found again by what they are a function of; red ones never."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from taskyard.services.checks import MIGRATIONS, Results
from taskyard.services.database import Database
from taskyard.services.records import Check, CheckResult

CHECK = Check("test", "make test")
GREEN = CheckResult(check="test", command="make test", tree="a" * 40, exit=0, seconds=1.5, output="ok\n" * 1000)


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    opened = await Database.open(tmp_path / "t.db", MIGRATIONS)
    yield opened
    await opened.close()


async def test_a_green_result_is_found_again_whole(db: Database, tmp_path: Path):
    """Also by another check of the same command, under that check's name, and after a restart."""
    await Results(db).keep(GREEN, CHECK, "env")
    assert await Results(db).find(GREEN.tree, CHECK, "env") == GREEN
    again = await Database.open(tmp_path / "t.db", MIGRATIONS)
    found = await Results(again).find(GREEN.tree, Check("verify-1", "make test", timeout_s=5), "env")
    await again.close()
    assert found is not None
    assert (found.check, found.output) == ("verify-1", GREEN.output)


async def test_another_tree_command_network_or_environment_is_another_result(db: Database):
    """Each of the four is part of the name."""
    results = Results(db)
    await results.keep(GREEN, CHECK, "env")
    assert await results.find("b" * 40, CHECK, "env") is None
    assert await results.find(GREEN.tree, Check("test", "make tests"), "env") is None
    assert await results.find(GREEN.tree, Check("test", "make test", network=True), "env") is None
    assert await results.find(GREEN.tree, CHECK, "other") is None


@pytest.mark.parametrize(
    "result",
    [
        CheckResult(check="test", command="make test", tree="a" * 40, exit=1, seconds=1, output=""),
        CheckResult(check="test", command="make test", tree="a" * 40, exit=None, seconds=1, output="", timed_out=True),
        CheckResult(check="test", command="make test", tree="a" * 40, exit=0, seconds=1, output="", broken="no tests"),
    ],
)
async def test_a_red_or_broken_result_is_never_kept(db: Database, result: CheckResult):
    """It may have been an accident of its moment."""
    results = Results(db)
    await results.keep(result, CHECK, "env")
    assert await results.find(result.tree, CHECK, "env") is None


async def test_a_green_result_stays_what_it_was(db: Database):
    """A second one of the same name does not replace it: what a prompt quotes of it stays the same."""
    results = Results(db)
    await results.keep(GREEN, CHECK, "env")
    await results.keep(CheckResult("test", "make test", GREEN.tree, 0, 9.0, "other"), CHECK, "env")
    assert await results.find(GREEN.tree, CHECK, "env") == GREEN
