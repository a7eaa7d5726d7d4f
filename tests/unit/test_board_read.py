"""What a board says: tables, rows, statuses, dependencies, and what is refused."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskyard.services.board import board_json, open_tasks, parse_board, task_key
from taskyard.services.errors import BoardError
from taskyard.services.records import Board, Task

PROGRAMS = frozenset({"make", "python", "test", "cd", "echo", "pytest"})


def read(text: str) -> Board:
    return parse_board(text.encode(), "board.md", which=PROGRAMS.__contains__)


def refusal(text: str | bytes) -> str:
    with pytest.raises(BoardError) as caught:
        parse_board(text.encode() if isinstance(text, str) else text, "board.md", which=PROGRAMS.__contains__)
    return str(caught.value)


def rows(*lines: str, header: str = "| ID | Scope | Status |") -> str:
    alignment = "|" + " --- |" * (header.count("|") - 1)
    return "\n".join([header, alignment, *lines]) + "\n"


def only(text: str) -> Task:
    (task,) = read(text).tasks
    return task


def test_several_tables_with_prose_around_them_are_one_board() -> None:
    """Tables in any column order, with other columns, in one file; lines are those of the file."""
    board = read(
        """# Work

Some words | with a pipe.

| ID   | Scope           | Status | Branch      | Verification |
|:-----|:---------------:|-------:|-------------|--------------|
| T1   | Add a page. So. | [ ]    | `task/T1`   | `make test`  |
| `T2` | Fix it          | [x]    | task/T2     | it is fixed  |

## Later
 Owner | state | KEY | title
 --- | --- | --- | ---
 Ann | **Deferred** | **T/3** | *Dream* of `a | b`
"""
    )
    assert [(t.id, t.title, t.status, t.branch, t.line) for t in board.tasks] == [
        ("T1", "Add a page.", "open", "task/T1", 7),
        ("T2", "Fix it", "done", "task/T2", 8),
        ("T/3", "Dream of a | b", "not_to_be_run", "", 13),
    ]
    assert board.tasks[0].text == "Add a page. So."
    assert board.tasks[2].text == "*Dream* of `a | b`"
    assert board.ignored == ()
    assert [task.id for task in open_tasks(board)] == ["T1"]


@pytest.mark.parametrize("title", ["Scope", "task", "TITLE", " **Description** "])
@pytest.mark.parametrize("status", ["Status", "state", "`Done`"])
@pytest.mark.parametrize("key", ["ID", "#", "Task ID", "task  id", "key"])
def test_columns_are_found_by_any_of_their_headers(key: str, title: str, status: str) -> None:
    """Case, marks and spaces of a header don't matter."""
    task = only(rows("| [ ] | T1 | Do it |", header=f"|{status}|{key}|{title}|"))
    assert (task.id, task.text, task.status) == ("T1", "Do it", "open")


@pytest.mark.parametrize(
    ("cell", "status"),
    [
        *((word, "open") for word in ("[ ]", "", "   ", "todo", "TODO", "Open", "**todo**", "`[ ]`")),
        *((word, "done") for word in ("[x]", "[X]", "done", "Done", "✅", "✅\ufe0f", "**[x]**")),
        *((word, "not_to_be_run") for word in ("[-]", "[~]", "deferred", "Cancelled", "`blocked`")),
    ],
)
def test_a_status_is_one_of_the_known_words(cell: str, status: str) -> None:
    """The words of the contract, in any case, also bold or as code."""
    assert only(rows(f"| T1 | Do it |{cell}|")).status == status


@pytest.mark.parametrize("cell", ["wip", "[]", "[  ]", "[xx]", "to do", "- [ ]", "`done", "?"])
def test_another_status_is_refused_with_its_line(cell: str) -> None:
    """A status that is not understood is never taken for open."""
    message = refusal(rows("| T0 | x | [x] |", f"| T1 | Do it | {cell} |"))
    assert "board.md line 4" in message
    assert cell in message


def test_an_escaped_pipe_is_a_pipe_and_one_in_a_code_span_is_no_border() -> None:
    """Code spans of any number of backticks hold pipes; `\\|` has become a pipe in the text; nothing else changes."""
    task = only(rows(r"| T1 | a \| b, `c | d`, `` e ` | f ``, `g \| h`, \`, ` <b>&amp;</b> **x**  | [ ] |"))
    assert task.text == r"a | b, `c | d`, `` e ` | f ``, `g | h`, \`, ` <b>&amp;</b> **x**"


def test_a_code_span_ends_at_a_run_of_the_same_length() -> None:
    """CommonMark 6.1: neither a longer nor a shorter run closes it; the outer spaces are no part of what it says."""
    task = only(rows("| T1 | `a `` | b` and `` `c` `` | [ ] |"))
    assert (task.text, task.title) == ("`a `` | b` and `` `c` ``", "a `` | b and `c`")


def test_an_escaped_backslash_does_not_escape_the_border() -> None:
    """A double backslash is a backslash."""
    assert only(rows("| T1 | a \\\\| [ ] |")).text == "a \\\\"


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        ("| T1 | a | b | [ ] |", 4),
        ("| T1 | a b |", 2),
        ("| T1 | it`s | [ ] | it`s |", 2),
        ("prose right below the table", 1),
        ("|", 0),
    ],
)
def test_a_row_with_another_number_of_cells_is_refused_with_its_line(row: str, cells: int) -> None:
    """A stray border would move the cells, so that one task's text were another's command."""
    assert f"board.md line 4: {cells} cells where the header (line 1) has 3" in refusal(rows("| T0 | x | [ ] |", row))


def test_an_alignment_row_of_another_width_is_refused() -> None:
    """It is a row of the table as well."""
    assert "board.md line 2: 2 cells" in refusal("| ID | Scope | Status |\n| --- | --- |\n| T1 | x | [ ] |\n")


def test_what_is_no_table_of_tasks_is_named_with_the_reason() -> None:
    """Code, quotes, comments, stray rows and tables of other things are shown, not run."""
    board = read(
        """\
```
| ID | Scope | Status |
|----|-------|--------|
| A1 | code  | [ ]    |
`````
~~~~ md
~~~
| ID | Scope | Status |
|----|-------|--------|
~~~~
<!-- one line -->
<!--
| ID | Scope | Status |
|----|-------|--------|
| A2 | comment | [ ]  |
-->

    | ID | Scope | Status |
    |----|-------|--------|
    | A3 | indented | [ ] |

> | ID | Scope | Status |
> |----|-------|--------|
> | A4 | quote | [ ]    |

| ID | Scope | Status |
| A5 | no alignment row | [ ] |

| Name | Price |
|------|-------|
| tea  | 3     |

| stray | line |
| ID | Scope | Status |
|----|-------|--------|
| T1 | real  | [ ]    |
# Next
| | | |
"""
    )
    assert [task.id for task in board.tasks] == ["T1"]
    assert [(item.line, item.why.split(",")[0][:28]) for item in board.ignored] == [
        (2, "inside the fenced code block"),
        (8, "inside the fenced code block"),
        (13, "inside the HTML comment that"),
        (18, "indented by four spaces or m"),
        (22, "inside a block quote"),
        (26, "belongs to no table: a heade"),
        (29, "a table with no id column (I"),
        (33, "belongs to no table: a heade"),
        (38, "belongs to no table: a heade"),
    ]
    assert board.ignored[0].text == "| ID | Scope | Status |"
    assert board.ignored[2].why == "inside the HTML comment that begins at line 12"
    assert "no status column" in board.ignored[6].why


def test_a_row_that_markdown_reads_as_a_list_is_named() -> None:
    """GitHub ends the table there, so the row is no task, but it does not vanish."""
    board = read("ID | Scope | Status\n--|--|--\nT1 | x | [ ]\n1. | y | [ ]\n")
    assert [task.id for task in board.tasks] == ["T1"]
    assert [(item.line, item.text) for item in board.ignored] == [(4, "1. | y | [ ]")]
    assert [task.id for task in read(rows("| 1. | y | [ ] |")).tasks] == ["1."]


def test_an_empty_row_is_no_task() -> None:
    """A row that someone left for later is named, not run."""
    board = read(rows("| T1 | x | [ ] |", "|  |  |  |"))
    assert [(item.line, item.why) for item in board.ignored] == [(4, "an empty row")]


def test_a_table_without_an_id_column_gets_ids_that_other_rows_do_not_change() -> None:
    """The id is made from the title; equal ones are refused with both lines."""
    table = rows("| **Add** `sum()`. More. | |", "| Größer, bitte | todo |", header="| Task | Done |")
    assert [task.id for task in read(table).tasks] == ["add-sum", "größer-bitte".casefold().replace("ß", "ss")]
    assert [task.id for task in read(table.replace("| **Add** `sum()`. More. | |\n", "")).tasks] == ["grösser-bitte"]
    assert "line 3 and at line 4" in refusal(rows("| Add | |", "| add! | |", header="| Task | Done |"))
    assert "no id can be made" in refusal(rows("| !!! | |", header="| Task | Done |"))


def test_a_table_without_a_title_column_has_its_ids_as_text() -> None:
    """An id column and a status column are enough."""
    assert only(rows("| fix-typo | |", header="| ID | Done |")).text == "fix-typo"


@pytest.mark.parametrize("key", ["../../etc/passwd", "a:b", "T 1", "日本語/ü", "x" * 5000, "-rf", "$(id)", "org/model"])
def test_any_text_is_an_id(key: str) -> None:
    """C05, C06, C07, H05, H06: an id is never a path, so nothing printable is forbidden."""
    assert only(rows(f"| {key} | x | [ ] |")).id == key


@pytest.mark.parametrize("letter", ["\x07", "\x1b[31m", "a\tb", "\x7f", "\x85", "\u2028", "\u202e"])
def test_a_control_character_in_an_id_is_refused(letter: str) -> None:
    """Ids are shown on terminals and stand in commit trailers."""
    assert "line 3: the id" in refusal(rows(f"| T{letter}1 | x | [ ] |"))


def test_an_id_twice_is_refused_with_both_lines() -> None:
    """D05: also over two tables, also when one is marked as code."""
    text = rows("| T1 | x | [ ] |") + "\n" + rows("| `T1` | y | [x] |")
    assert "the id T1 stands at line 3 and at line 7" in refusal(text)


def test_a_row_without_an_id_or_an_open_task_without_text_is_refused() -> None:
    """A heading inside a table must not become a task that is paid for."""
    assert "line 3: the row has no id" in refusal(rows("|  | **Phase 2** |  |"))
    assert "line 3: the task T1 is open and says nothing" in refusal(rows("| T1 |  | [ ] |"))
    assert only(rows("| T1 |  | [x] |")).text == ""


def test_two_columns_for_one_thing_are_refused() -> None:
    """Neither is left out without a word."""
    message = refusal(rows("| T1 | a | b | |", header="| ID | Title | Description | Status |"))
    assert "line 1: the columns Title and Description both say the title" in message


DEPENDENT = "| ID | Scope | Status | Depends on |"


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("", ()),
        ("-", ()),
        ("—", ()),
        ("none", ()),
        ("A", ("A",)),
        ("A, B", ("A", "B")),
        ("`A`,**B** , A", ("A", "B")),
        ("A B", ("A", "B")),
        ("two words", ("two words",)),
        ("A, two words", ("A", "two words")),
        ("left, right", ("left, right",)),
    ],
)
def test_dependencies_are_ids_by_comma_or_space(cell: str, found: tuple[str, ...]) -> None:
    """Known ids may hold spaces themselves; a done task may be depended on."""
    others = [f"| {key} | x | [x] | |" for key in ("A", "B", "two words", "left, right")]
    board = read(rows(*others, f"| C | x | | {cell} |", header=DEPENDENT))
    assert board.tasks[4].depends_on == found


def test_a_dependency_that_is_not_on_the_board_is_refused() -> None:
    """The message names both tasks and the line."""
    message = refusal(rows("| A | x | | Z9 |", header=DEPENDENT))
    assert "board.md line 3: the task A depends on Z9, which is not on the board" in message


def test_tasks_that_wait_for_each_other_are_refused() -> None:
    """A cycle is named whole; a task that waits for itself is one; done tasks wait for nothing."""
    cycle = rows("| A | x | | B |", "| B | x | | C |", "| C | x | | A |", "| D | x | | A |", header=DEPENDENT)
    assert "A → B → C → A" in refusal(cycle)
    assert "A → A" in refusal(rows("| A | x | | A |", header=DEPENDENT))
    assert len(read(cycle.replace("| B | x | |", "| B | x | done |")).tasks) == 4


def test_a_chain_as_long_as_a_large_board_is_read() -> None:
    """No recursion limit, no quadratic search."""
    chain = [f"| T{n} | x | | T{n + 1} |" for n in range(3000)]
    assert len(read(rows(*chain, "| T3000 | x | | |", header=DEPENDENT)).tasks) == 3001


def test_many_ways_to_one_task_are_searched_once() -> None:
    """Two tasks a level, each waiting for both of the next: 2^60 ways, no cycle."""
    ladder = [f"| {side}{n} | x | | a{n + 1} b{n + 1} |" for n in range(60) for side in "ab"]
    assert len(read(rows(*ladder, "| a60 | x | | |", "| b60 | x | | |", header=DEPENDENT)).tasks) == 122


def test_a_branch_loses_the_marks_around_all_of_it_only() -> None:
    """Backticks around the name are markup; two spans are no name in one pair of backticks."""
    board = read(rows("| A | x | | `task/A` |", "| B | x | | `a` `b` |", header="| ID | Scope | Status | Branch |"))
    assert [task.branch for task in board.tasks] == ["task/A", "`a` `b`"]


def test_priorities_and_permission_to_change_tests_are_read() -> None:
    """P0 to P3 or words, medium by default; only `change` is a permission, and another word is named."""
    header = "| ID | Scope | Status | Priority | Tests |"
    cells = ("P0 | change", "p3 | `Change`", "high | -", "**Low** | ", " | chnage", "medium | none")
    board = read(rows(*(f"| T{n} | x | | {cell} |" for n, cell in enumerate(cells)), header=header))
    assert [(task.priority, task.tests_may_change) for task in board.tasks] == [
        (0, True), (3, True), (1, False), (3, False), (2, False), (2, False),
    ]  # fmt: skip
    assert [(item.line, item.text) for item in board.ignored] == [(7, "chnage")]
    assert 'line 3: the priority "urgent"' in refusal(rows("| A | x | | urgent | |", header=header))


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Add a button. It is red.", "Add a button."),
        ("Use `a.b`, e.g. Foo, in v1.2 now! Later more", "Use a.b, e.g. Foo, in v1.2 now!"),
        ("First line<br>Second line", "First line"),
        ("<br/> Second", "Second"),
        ("**Bold `x. Y` part** of _it_ with snake_case_name", "Bold x. Y part of it with snake_case_name"),
        ("See [the page](https://example.com/a_b) *now*", "See the page now"),
        (r"2 \* 3 * 4 * 5", "2 * 3 * 4 * 5"),
        ("Why? Because", "Why?"),
        ("<br>", "T1"),
    ],
)
def test_a_title_is_the_first_sentence_or_line_without_marks(text: str, title: str) -> None:
    """For the screen; the text itself stays word for word."""
    task = only(rows(f"| T1 | {text} | [ ] |"))
    assert (task.title, task.text) == (title, text)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_byte_order_mark_and_any_line_end_are_read(end: str) -> None:
    """A board from any editor; a Unicode line separator ends no line."""
    text = "\ufeff" + rows("| T1 | a\u2028b\x0bc | [ ] |", "| T2 | y | [x] |").replace("\n", end)
    assert [(task.id, task.line) for task in read(text).tasks] == [("T1", 3), ("T2", 4)]
    assert read(text).tasks[0].text == "a\u2028b\x0bc"


def test_a_board_that_is_no_utf_8_is_refused_with_line_and_byte() -> None:
    """L05: nothing is replaced without a word."""
    assert "board.md line 3: byte 49 (0xe9) is not UTF-8" in refusal(rows("| caf\xe9").encode("latin-1"))
    assert "line 1: byte 0 (0xff)" in refusal(rows("| T1 | x | |").encode("utf-16"))
    assert "line 3: a NUL byte" in refusal(rows("| T1 | x\0 | |"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "board.md is empty"),
        ("\ufeff \n\r\n", "board.md is empty"),
        ("Only prose.\n", "no task was understood"),
        ("| ID | Scope | Status |\n| --- | --- | --- |\n", "no task was understood"),
        ("| ID | Scope | Status |\n| T1 | x | [ ] |\n", "line 1: belongs to no table: a header needs an alignment row"),
        ("- [ ] a list is no table\n", "no task was understood"),
    ],
)
def test_a_board_without_a_task_is_refused_with_the_reason(text: str, words: str) -> None:
    """Nothing understood is an error, not an empty run."""
    assert words in refusal(text)


def test_the_json_of_a_board_has_the_fields_of_the_contract() -> None:
    """`board show --json`."""
    header = "| ID | Scope | Status | Branch | Verification | Depends on |"
    text = rows("| T1 | x | done | | | |", "| T2 | Do. More | | b | `make a` | T1 |", "| | | | | | |", header=header)
    shown = board_json(read(text))
    assert list(shown) == ["board", "format", "tasks", "ignored"]
    assert (shown["board"], shown["format"]) == ("board.md", "markdown-table")
    assert isinstance(shown["tasks"], list)
    assert shown["tasks"][1] == {
        "id": "T2", "title": "Do.", "status": "open", "branch": "b", "depends_on": ["T1"], "priority": 2,
        "checks": [{"name": "verify-1", "command": "make a"}], "acceptance": "", "line": 4,
    }  # fmt: skip
    assert shown["ignored"] == [{"line": 5, "text": "| | | | | | |", "why": "an empty row"}]


def test_a_task_key_tells_apart_what_joined_fields_would_mix_up() -> None:
    """C10: fields are length-prefixed; only path, id and text count, and spellings of one path are one."""
    task = only(rows("| T1 | x | |"))
    key = task_key("docs/board.md", task)
    assert len(key) == 32
    assert key == task_key("./docs//board.md", read(rows("| Z | z | |", "| `T1` |  x  | [x] |")).tasks[1])
    others = [only(rows(f"| {cells} | |")) for cells in ("T1:x | y", "T | 1x", "T1 | y", "T2 | x")]
    keys = {key, task_key("board.md", task), *(task_key("docs/board.md", other) for other in others)}
    assert len(keys) == 6


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.text(alphabet="| `\\-:[x]T1\n\r<br>$*_#>~é\ufeff\t", max_size=30), max_size=12))
def test_any_text_is_read_or_refused_in_words(lines: list[str]) -> None:
    """No board makes another error than BoardError."""
    try:
        assert read(rows("| T1 | x | |", *lines)).tasks
    except BoardError as error:
        assert "board.md" in str(error)
