"""What a verification cell gives: commands, or acceptance text."""

import pytest

from taskyard.services.board import parse_board
from taskyard.services.errors import BoardError
from taskyard.services.records import Check, Task

PROGRAMS = frozenset({"make", "python", "test", "cd", "echo", "/usr/bin/env"})


def task(cell: str, status: str = "[ ]") -> Task:
    text = f"| ID | Scope | Status | Verification |\n|--|--|--|--|\n| T1 | x | {status} | {cell} |\n"
    (found,) = parse_board(text.encode(), "board.md", which=PROGRAMS.__contains__).tasks
    return found


def commands(cell: str) -> list[str]:
    found = task(cell)
    assert [check.name for check in found.checks] == [f"verify-{n + 1}" for n in range(len(found.checks))]
    return [check.command for check in found.checks]


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("`make test`", ["make test"]),
        ("`make`", ["make"]),
        ("`make a` `make b`", ["make a", "make b"]),
        ("`make a`, `make b`; `make c`<br>`make d`", ["make a", "make b", "make c", "make d"]),
        ("`` echo `date` ``", ["echo `date`"]),
        ("`echo a | grep a`", ["echo a | grep a"]),
        (r"`echo a \| grep a`", ["echo a | grep a"]),
        ("`$ make test`", ["make test"]),
        ("$ make test", ["make test"]),
        ("$ make a<br>$ `make b`<br/>$ echo `date`", ["make a", "make b", "echo `date`"]),
        ("$ echo `a <br> b`", ["echo `a <br> b`"]),
        ("`PYTHONPATH=. A='x y' python -m unittest`", ["PYTHONPATH=. A='x y' python -m unittest"]),
        ("`A=#1 make x`", ["A=#1 make x"]),
        ("`./run.sh --all`", ["./run.sh --all"]),
        ("`./run.sh`", ["./run.sh"]),
        ("`scripts/check all`", ["scripts/check all"]),
        ("`/usr/bin/env true`", ["/usr/bin/env true"]),
        ("`cd x && make`", ["cd x && make"]),
        ("`(cd x; make)`", ["(cd x; make)"]),
        ("`! test -e x`", ["! test -e x"]),
        ("`$RUNNER all`", ["$RUNNER all"]),
        ("`make;echo done`", ["make;echo done"]),
    ],
)
def test_spans_alone_and_prompt_lines_are_commands(cell: str, found: list[str]) -> None:
    """The rules of the contract; what only the shell can judge is taken as it is."""
    assert commands(cell) == found
    assert task(cell).acceptance == ""


@pytest.mark.parametrize(
    "cell",
    [
        "the page loads in 2 s",
        "run `make test` and look",
        "`make test` passes",
        "`src/app.py`",
        "`compute_total`",
        "costs 5 $ at most",
        "`make test",
        "` `",
    ],
)
def test_all_other_text_is_acceptance_text_word_for_word(cell: str) -> None:
    """Prose with spans in it is for the judge, and no part of it is run."""
    found = task(cell)
    assert (found.checks, found.acceptance) == ((), cell)


@pytest.mark.parametrize("cell", ["", "-", "—"])
def test_an_empty_cell_says_nothing(cell: str) -> None:
    """Neither command nor text."""
    assert (task(cell).checks, task(cell).acceptance) == ((), "")


def test_commands_and_text_may_stand_in_one_cell() -> None:
    """Lines without a prompt, and single words that are no program, are text beside the commands."""
    found = task("Fast.<br>$ make test<br>Also `nice`.")
    assert [check.command for check in found.checks] == ["make test"]
    assert found.acceptance == "Fast.\nAlso `nice`."
    found = task("`make test` `total` `make`")
    assert [check.command for check in found.checks] == ["make test", "make"]
    assert found.acceptance == "`total`"


@pytest.mark.parametrize(
    ("cell", "named"),
    [
        ("`gradle test`", "gradle"),
        ("`make test` `gradle test`", "gradle"),
        ("`A=1 gradle test`", "gradle"),
        ("`/opt/none/tool x`", "/opt/none/tool"),
        ("$ gradle", "gradle"),
        ("`the total is 3`", "the"),
        ("`gradle 'it`", "gradle"),
        ("`A=1 B=2`", "names no command"),
    ],
)
def test_a_command_whose_program_is_missing_is_refused_by_name(cell: str, named: str) -> None:
    """Before anything is spent; the message has the line, the command and its program."""
    with pytest.raises(BoardError) as caught:
        task(cell)
    assert "board.md line 3: the verification `" in str(caught.value)
    assert named in str(caught.value)


@pytest.mark.parametrize("status", ["[x]", "deferred"])
def test_a_task_that_is_not_open_needs_no_programs(status: str) -> None:
    """An old row may name tools that are gone."""
    assert [check.command for check in task("`gradle test`", status).checks] == ["gradle test"]


def test_own_checks_get_the_given_limits() -> None:
    """[check_defaults] holds for them too."""
    text = b"| ID | Scope | Status | Checks |\n|--|--|--|--|\n| T1 | x | | `make` |\n"
    board = parse_board(text, "board.md", which=PROGRAMS.__contains__, timeout_s=5.0, network=True)
    assert board.tasks[0].checks == (Check("verify-1", "make", 5.0, True),)
