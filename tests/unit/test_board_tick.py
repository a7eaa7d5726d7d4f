"""Ticks: the status cells change and not one other byte."""

import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskyard.services.board import open_tasks, parse_board, tick
from taskyard.services.errors import BoardError

PROSE = st.text(alphabet=string.ascii_letters + " éß✅`|\\\u2028", max_size=20).filter(lambda text: "|" not in text)
CELL = st.lists(
    st.sampled_from(["word", "é", "✅", "[ ]", "todo", r"\|", "`a | b`", "``c`|``", " ", "<br>", "**b**"]),
    min_size=1,
    max_size=5,
).map(" ".join)
OPEN = ["[ ]", " [ ] ", "", " ", "  ", "   ", "    ", "          ", "todo", "TODO", " Open ", "`[ ]`", "**todo**"]
STATUS = st.sampled_from([*OPEN, "[x]", " done ", "✅", "[-]", "blocked"])
END = st.sampled_from(["\n", "\r\n", "\r"])


def marked(cell: str) -> str:
    """What the cell must become, said in another way than the code says it."""
    for old, new in (("[ ]", "[x]"), ("todo", "done"), ("TODO", "DONE"), ("Open", "Done")):
        if old in cell:
            return cell.replace(old, new)
    if not cell.strip():
        return {0: "[x]", 1: " [x] ", 2: " [x] ", 3: "[x]", 4: " [x]", 10: " [x]      "}[len(cell)]
    return cell


@st.composite
def boards(draw: st.DrawFn) -> tuple[str, str, list[str]]:
    """(board, the board it must become, ids to tick)."""
    before = after = draw(st.sampled_from(["", "\ufeff"]))
    chosen = []
    number = 0
    for _ in range(draw(st.integers(1, 3))):
        end = draw(END)
        outer = draw(st.booleans())
        head = ["# x", "", draw(PROSE).strip(" \t>`~#-") or "p", "", "ID|Scope|Status|Own", "--|:-:|--:|---"]
        lines = [(line, line) for line in head]
        for _ in range(draw(st.integers(1, 4))):
            number += 1
            status = draw(STATUS)
            done = status
            if draw(st.booleans()):
                chosen.append(f"T{number}")
                done = marked(status) if status in OPEN else status
            left, right = f" T{number} | w {draw(CELL)} ", f" w {draw(CELL)} "
            edge = "|" if outer else ""
            lines.append((f"{edge}{left}|{status}|{right}{edge}", f"{edge}{left}|{done}|{right}{edge}"))
        lines.append(("", ""))
        before += "".join(old + end for old, _ in lines)
        after += "".join(new + end for _, new in lines)
    return before, after, chosen


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(boards())
def test_exactly_the_status_cells_of_the_chosen_rows_change(case: tuple[str, str, list[str]]) -> None:
    """Any mix of line ends, byte order mark, pipes, several tables; ticked tasks are done when read again."""
    before, after, chosen = case
    ticked = tick(before.encode(), chosen)
    assert ticked.decode() == after
    assert tick(ticked, chosen) == ticked
    left = {task.id for task in open_tasks(parse_board(ticked, "board.md", which=str.isalpha))}
    assert not left & set(chosen)


def test_a_tick_keeps_the_width_of_an_empty_cell() -> None:
    """Tables stay aligned."""
    board = b"| ID | Scope | Status   |\n|----|-------|----------|\n| T1 | x     |          |\n"
    assert tick(board, ["T1"]).splitlines()[2] == b"| T1 | x     | [x]      |"


def test_one_tick_does_not_tick_another_task() -> None:
    """The same text elsewhere, in code, in prose or in another row, is left alone."""
    head = b"|ID|Scope|Status|\n|-|-|-|\n"
    board = b"T1 [ ]\n\n```\n" + head + b"|T1|x|[ ]|\n```\n\n" + head + b"|T2|T1 [ ]|[ ]|\n|T1|[ ]|[ ]|\n"
    assert tick(board, ["T1"]) == board[:-5] + b"[x]|\n"


def test_a_row_that_is_gone_is_refused() -> None:
    """Nothing is ticked in its place."""
    with pytest.raises(BoardError, match="no row any more for T9"):
        tick(b"|ID|Scope|Status|\n|-|-|-|\n|T1|x|[ ]|\n", ["T1", "T9"])
