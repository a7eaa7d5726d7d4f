"""The answers of the commands that look things up."""

from taskyard.services.doctor import Finding
from taskyard.services.records import Board, Check, Ignored, Task
from taskyard.tui.look import Look
from taskyard.tui.reports import (
    board_lines,
    doctor_lines,
    history_lines,
    lesson_lines,
    pairs,
    status_lines,
    table,
)

BOARD = Board(
    path="board.md",
    format="markdown-table",
    tasks=(
        Task(
            id="T1", title="Trim", text="Trim input", status="open", line=5, priority=0,
            checks=(Check("verify-1", "python -m unittest"),), acceptance="no blanks are left",
        ),
        Task(id="T2", title="Sort", text="Sort output", status="done", line=6, depends_on=("T1",), branch="task/T2"),
        Task(id="T3", title="Split", text="Split it", status="open", line=7),
    ),
    ignored=(Ignored(9, "| Name | Age |", "a table without a status column"),),
    content=b"",
)  # fmt: skip


def test_a_board_shows_which_text_is_a_command_and_which_goes_to_the_judge() -> None:
    """That is what `board show` is for: nothing runs that a person took for prose."""
    lines = list(board_lines(BOARD))
    assert "  T1  command verify-1: python -m unittest" in lines
    assert "  T1  for the judge: no blanks are left" in lines
    assert "  T3  nothing of its own" in lines
    assert not any(line.startswith("  T2  ") for line in lines)
    assert "  line 9: | Name | Age | (a table without a status column)" in lines


def test_columns_line_up_and_cells_are_cleaned() -> None:
    """A board's cell can't break the table."""
    assert list(table(("A", "B"), [("日本", "x"), ("\x1b[2J\n", "y")])) == ["A     B", "日本  x", "␛[2J  y"]


def test_statistics_show_money_as_money_and_nothing_as_a_dash() -> None:
    """Nested groups are indented, lists are counted and told."""
    values = {"hit_rate": 0.5, "max_age_s": 86400.0, "saved_usd": 1.5, "ttl": None, "by_role": {"judge": 2}}
    assert list(pairs({**values, "skipped": [{"line": 3, "why": "no id"}]})) == [
        "hit rate   0.5",
        "max age s  86400",
        "saved usd  $1.50",
        "ttl        -",
        "by role",
        "  judge  2",
        "skipped: 1",
        "  3, no id",
    ]


def test_a_status_shows_tasks_totals_and_how_to_go_on() -> None:
    """An interrupted run offers the command that resumes it."""
    lines = list(
        status_lines(
            {
                "run": "r7k2", "board": "board.md", "state": "interrupted", "pid": None,
                "tasks": [{"id": "T1", "state": "needs_you", "attempt": 2, "cost_usd": 0.25}],
                "totals": {"cost_usd": 0.25, "pushes": 1, "wall_s": 60.0},
            },
            Look(),
        )
    )  # fmt: skip
    assert lines == [
        "run r7k2 of board.md: interrupted",
        "ID  STATE        ATTEMPT  COST",
        "T1  ▲ needs you  2        $0.2500",
        "$0.2500 paid · 1 push · 1:00",
        "go on with: taskyard resume r7k2",
    ]


def test_a_finding_that_is_not_ok_says_what_to_do_and_whether_it_stops_a_run() -> None:
    """What is in order takes one line."""
    findings = [
        Finding("git", ok=True, detail="2.39.5"),
        Finding("key", ok=False, detail="not set", do="export ANTHROPIC_API_KEY"),
        Finding("checks", ok=False, detail="there are none", do="name one", needed=False),
    ]
    assert list(doctor_lines(findings, Look())) == [
        "✔ ok      git: 2.39.5",
        "✘ not ok  key: not set",
        "          do: export ANTHROPIC_API_KEY",
        "▲ note    checks: there are none",
        "          do: name one",
    ]


def test_lessons_and_attempts_read_as_text() -> None:
    """An attempt that goes on has no duration yet."""
    lesson = {"id": "l1", "failure_type": "assertion", "failure_msg": "1 != 2", "resolution": "round", "times_seen": 2}
    assert list(lesson_lines([lesson])) == ["l1  assertion, seen 2 times: 1 != 2", "    resolved by: round"]
    attempt = {
        "task": "T1", "attempt": 1, "run": "r7k2", "status": "running", "start": "2026-12-01T16:00:00.000Z",
        "duration_s": None, "cost_usd": None,
    }  # fmt: skip
    assert list(history_lines([attempt]))[1].split() == [
        "T1", "1", "r7k2", "running", "2026-12-01T16:00:00.000Z", "-", "unpriced",
    ]  # fmt: skip
