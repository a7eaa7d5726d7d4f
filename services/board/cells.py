"""Inside one line of Markdown: cells of a table row, code spans, marks."""

import re
import string

from msgspec import Struct

_PUNCTUATION = frozenset(string.punctuation)
_WRAPPED = re.compile(r"(\*\*|`+)\s*(\S(?:.*\S)?)\s*\1", re.DOTALL)
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)\s]*\)")
_STRONG = re.compile(r"(\*\*|__|~~)(?=\S)(.+?)(?<=\S)\1")
_EMPHASIS = re.compile(r"(?<![\w*])([*_])(?=\S)([^*_]+?)(?<=\S)\1(?![\w*])")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_BACKTICKS = re.compile("`+")
_LONGEST_TITLE = 2000
_SPAN = "\ue000"
_SENTENCE_END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bcf)(?<!\bvs)[.!?](?=\s+[^\sa-z])")


class Cell(Struct, frozen=True):
    """One cell of a table row."""

    text: str
    """The source between the borders without outer whitespace; an escaped pipe has become a pipe."""
    start: int
    """Offset in the line of the first character after the left border."""
    end: int
    """Offset in the line of the right border, or the line's length."""


class Piece(Struct, frozen=True):
    """A stretch of text: a code span or what lies between two."""

    source: str
    code: str | None
    """What the span says, None when this is no code span."""


def split_row(line: str) -> tuple[Cell, ...]:
    """The cells of a row, with or without outer pipes.

    A pipe is a border unless it is escaped or inside a code span (GitHub splits there as well; a board does not).
    """
    cells: list[Cell] = []
    taken: list[str] = []
    start = at = 0
    while at < len(line):
        step = 1
        if line[at] == "|":
            cells.append(Cell("".join(taken).strip(), start, at))
            taken, start = [], at + 1
        elif line[at] == "\\" and line[at + 1 : at + 2] in _PUNCTUATION:
            step = 2
            taken.append("|" if line[at + 1] == "|" else line[at : at + 2])
        elif line[at] == "`":
            step = _span_length(line, at)
            taken.append(line[at : at + step].replace("\\|", "|"))
        else:
            taken.append(line[at])
        at += step
    borders = len(cells)
    cells.append(Cell("".join(taken).strip(), start, len(line)))
    if borders and not line[cells[-1].start :].strip():
        cells.pop()
    if cells and borders and not line[: cells[0].end].strip():
        cells.pop(0)
    return tuple(cells)


def pieces(text: str) -> list[Piece]:
    """The text as code spans and what lies between them."""
    found: list[Piece] = []
    plain = at = 0
    while at < len(text):
        step = 2 if text[at] == "\\" else 1
        if text[at] == "`":
            step = _span_length(text, at)
            run = _run(text, at)
            if step > run:
                found.append(Piece(text[plain:at], None))
                found.append(Piece(text[at : at + step], _span_content(text[at + run : at + step - run])))
                plain = at + step
        at += step
    found.append(Piece(text[plain:], None))
    return [piece for piece in found if piece.source]


def lines_of(text: str) -> list[str]:
    """The lines of a cell: a cell's line break is `<br>` outside a code span."""
    lines = [""]
    for piece in pieces(text):
        first, *rest = [piece.source] if piece.code is not None else _BREAK.split(piece.source)
        lines[-1] += first
        lines += rest
    return [line.strip() for line in lines if line.strip()]


def unwrapped(text: str) -> str:
    """The text without surrounding whitespace, backticks and bold."""
    text = text.strip()
    while (found := _WRAPPED.fullmatch(text)) and found[1] not in found[2]:
        text = found[2]
    return text


def title_of(text: str) -> str:
    """The first sentence or line, without Markdown's marks, for the screen (so of a page of text, its beginning)."""
    lines = lines_of(text[:_LONGEST_TITLE].replace(_SPAN, ""))
    parts = pieces(lines[0]) if lines else []
    # A code span is one opaque letter to the patterns, and is put back at the end.
    shown = _plain("".join(part.source if part.code is None else _SPAN for part in parts))
    end = _SENTENCE_END.search(shown)
    spans = iter([part.code for part in parts if part.code is not None])
    return re.sub(_SPAN, lambda _: next(spans), shown[: end.end()] if end else shown).strip()


def _plain(text: str) -> str:
    text = _LINK.sub(r"\1", text)
    text = _EMPHASIS.sub(r"\2", _STRONG.sub(r"\2", text))
    return _ESCAPE.sub(r"\1", text)


def _run(text: str, at: int) -> int:
    """How many backticks stand at `at`."""
    found = _BACKTICKS.match(text, at)
    return found.end() - at if found else 0


def _span_length(text: str, at: int) -> int:
    """Length of the code span that begins at `at`; of the run of backticks alone when none closes it."""
    run = _run(text, at)
    closing = at + run
    while (closing := text.find("`" * run, closing)) >= 0:
        length = _run(text, closing)
        if length == run:
            return closing + run - at
        closing += length
    return run


def _span_content(inside: str) -> str:
    """CommonMark 6.1: one space on both sides goes, so that a span can begin or end with a backtick."""
    if inside.strip() and inside.startswith(" ") and inside.endswith(" "):
        return inside[1:-1]
    return inside
