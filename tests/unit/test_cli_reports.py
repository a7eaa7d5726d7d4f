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


def test_statistics_show_units_as_people_write_them_and_nothing_as_a_dash() -> None:
    """Nested groups are indented and left out when empty, lists are counted and told."""
    values = {
        "bytes": 1536, "max_bytes": 2_000_000_000, "hit_rate": 0.5, "max_age_s": 86400.0, "build_s": 0.0001,
        "growth_bytes_per_s": 2500.0, "saved_usd": 1.5, "last_prune": None, "by_role": {"judge": 2}, "by_model": {},
        "skipped": [{"line": 3, "why": "no id"}],
    }  # fmt: skip
    assert list(pairs(values)) == [
        "bytes       1.5 kB",
        "max bytes   2 GB",
        "hit rate    50 %",
        "max age     24 h",
        "build       0.1 ms",
        "growth      2.5 kB/s",
        "saved       $1.50",
        "last prune  -",
        "by role",
        "  judge  2",
        "skipped     1",
        "  3, no id",
    ]


def test_nothing_found_is_said() -> None:
    """An empty answer would look like a fault."""
    assert list(lesson_lines([])) == ["no lesson fits"]
    assert list(history_lines([])) == ["no attempt is on record yet"]


def test_a_status_shows_tasks_totals_reasons_and_what_to_type() -> None:
    """A task that waits for a person has its commands; an interrupted run the one that resumes it."""
    value = {
        "run": "r7k2", "board": "board.md", "state": "interrupted", "pid": None,
        "tasks": [
            {"id": "T1", "state": "needs_you", "attempt": 2, "cost_usd": 0.25, "detail": "no verdict\x1b[2J"},
            {"id": "T2", "state": "skipped", "attempt": 1, "cost_usd": 0.0, "detail": "T1 is not merged"},
            {"id": "T3", "state": "merged", "attempt": 1, "cost_usd": 0.0, "detail": None},
        ],
        "totals": {"cost_usd": 0.25, "pushes": 1, "wall_s": 60.0},
    }  # fmt: skip
    assert list(status_lines(value, Look())) == [
        "run r7k2 of board.md: interrupted",
        "ID  STATE        ATTEMPT  COST",
        "T1  ▲ needs you  2        $0.2500",
        "T2  ─ skipped    1        $0.00",
        "T3  ✔ merged     1        $0.00",
        "$0.2500 paid · 1 push · 1:00",
        "T1 ▲ needs you: no verdict␛[2J",
        "  taskyard history show T1",
        "  taskyard decide T1 accept|send-back|reject|retry",
        "T2 ─ skipped: T1 is not merged",
        "then go on with: taskyard resume r7k2",
    ]
    value["tasks"] = []
    assert list(status_lines(value, Look()))[-1] == "go on with: taskyard resume r7k2"


def test_a_word_that_looks_like_a_command_and_is_none_is_pointed_out() -> None:
    """A mistyped `pytest` would otherwise be prose for the judge without anyone knowing."""
    tasks = (
        Task(id="T1", title="a", text="a", status="open", line=5, acceptance="`pytst`"),
        Task(id="T2", title="b", text="b", status="open", line=6, acceptance="`README.md` has an example"),
        Task(id="T3", title="c", text="c", status="done", line=7, acceptance="`pytst`"),
    )
    lines = list(board_lines(Board(path="b.md", format="markdown-table", tasks=tasks, ignored=(), content=b"")))
    assert lines[-2:] == ["Look twice:", "  T1: `pytst` is no command here, so it goes to the judge as text"]


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
