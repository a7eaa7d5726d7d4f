"""Finds the tables of a Markdown document, as in GitHub's specification (4.10), with their places in the source."""

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from taskyard.services.board.cells import Cell, split_row
from taskyard.services.records import Ignored

_LINE = re.compile(r"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)")
_COMMENT = re.compile(r" {0,3}<!--")
_INDENTED = re.compile(r"(?: {4}| {0,3}\t)\s*\S")
_QUOTED = re.compile(r" {0,3}> ?")
_ALIGNMENT = re.compile(r":?-+:?")
_OTHER_BLOCK = re.compile(
    r" {0,3}(?:#{1,6}(?:\s|$)|>|`{3}|~{3}|<!--|[-+*]\s|\d{1,9}[.)]\s|(?:-\s*){3,}$|(?:\*\s*){3,}$|(?:_\s*){3,}$)"
)


class Line(Struct, frozen=True):
    """One line of the document."""

    number: int
    """1-based."""
    text: str
    """Without its line end."""
    start: int
    """Offset of its first character in the document."""
    hidden: str = ""
    """Why Markdown shows no table here; empty where it would."""


class Table(Struct, frozen=True):
    """A table; its rows may still have any number of cells."""

    header: Line
    columns: tuple[Cell, ...]
    alignment: Line
    rows: tuple[Line, ...]


def find_tables(text: str) -> tuple[list[Table], list[Ignored]]:
    """The document's tables, and what looks like one but is none, each in the order of the document."""
    lines = list(_lines(text))
    tables: list[Table] = []
    ignored: list[Ignored] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if _heads_table(lines, at):
            end = _table_end(lines, at + 2)
            if line.hidden:
                ignored.append(Ignored(line.number, line.text.strip(), line.hidden))
            else:
                tables.append(Table(line, split_row(line.text), lines[at + 1], tuple(lines[at + 2 : end])))
                ignored += _cut_off(lines, end)
            at = end
        elif not line.hidden and line.text.lstrip().startswith("|"):
            why = "belongs to no table: a header needs an alignment row such as | --- | --- | right below it"
            ignored.append(Ignored(line.number, line.text.strip(), why))
            at = _stray_end(lines, at + 1)
        else:
            at += 1
    return tables, ignored


def _lines(text: str) -> Iterator[Line]:
    """The lines with what hides them: fences, comments, indentation, quotes."""
    hidden, blank = "", True
    ends: Callable[[str], bool] = _ends_comment
    for number, found in enumerate(_LINE.finditer(text, 1 if text.startswith("\ufeff") else 0), start=1):
        line = found[1]
        if hidden:
            yield Line(number, line, found.start(), hidden)
            hidden = "" if ends(line) else hidden
        elif opening := _FENCE.fullmatch(line):
            hidden, ends = f"inside the fenced code block that begins at line {number}", _closes(opening[1])
            yield Line(number, line, found.start(), hidden)
        elif _COMMENT.match(line):
            hidden, ends = f"inside the HTML comment that begins at line {number}", _ends_comment
            yield Line(number, line, found.start(), hidden)
            hidden = "" if ends(line) else hidden
        else:
            yield Line(number, line, found.start(), _why_hidden(line, after_blank=blank))
        # Indented code can't interrupt a paragraph or a table, but goes on after indented code.
        blank = not line.strip() or bool(blank and _INDENTED.match(line))


def _ends_comment(line: str) -> bool:
    return "-->" in line


def _closes(fence: str) -> Callable[[str], bool]:
    """Whether a line closes the fence: the same character, as many or more, and nothing else."""
    pattern = re.compile(rf" {{0,3}}{fence}{fence[0]}*[ \t]*")
    return lambda line: pattern.fullmatch(line) is not None


def _why_hidden(line: str, *, after_blank: bool) -> str:
    if after_blank and _INDENTED.match(line):
        return "indented by four spaces or more, which makes it code"
    return "inside a block quote" if _QUOTED.match(line) else ""


def _heads_table(lines: list[Line], at: int) -> bool:
    if at + 1 >= len(lines) or lines[at].hidden != lines[at + 1].hidden or "|" not in lines[at].text:
        return False
    header, below = (_QUOTED.sub("", line.text, count=1) for line in lines[at : at + 2])
    marks = split_row(below)
    return "|" in below and bool(marks) and all(_ALIGNMENT.fullmatch(cell.text) for cell in marks) and "|" in header


def _table_end(lines: list[Line], at: int) -> int:
    """The index of the first line at or after `at` that is no row: empty, or the start of another block."""
    hidden = lines[at - 1].hidden
    while at < len(lines) and lines[at].hidden == hidden and lines[at].text.strip():
        if not hidden and _OTHER_BLOCK.match(lines[at].text):
            break
        at += 1
    return at


def _cut_off(lines: list[Line], at: int) -> Iterator[Ignored]:
    """What looks like a further row of the table that ends before `at`, but begins like a list or a heading."""
    if at < len(lines) and not lines[at].hidden and len(split_row(lines[at].text)) > 1:
        why = "begins another block (a list, a heading) and ends the table above; begin each row with a |"
        yield Ignored(lines[at].number, lines[at].text.strip(), why)


def _stray_end(lines: list[Line], at: int) -> int:
    """The end of lines that look like rows without a table; one of them may head a table after all."""
    while at < len(lines) and lines[at].text.lstrip().startswith("|") and not _heads_table(lines, at):
        at += 1
    return at
