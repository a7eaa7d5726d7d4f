"""Replace text in a file's bytes: exact, then end-of-line-normalised, then tolerant of trailing spaces; never fuzzy.

Bytes that were not named by the edit stay as they are: encoding marks, line ends, a missing last newline.
"""

import codecs
import difflib
import heapq
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from taskyard.services.errors import ToolError

_NEAR = 3
_SHOWN = 200
_COMPARED = 2_000
"""The most lines that are compared for the nearest ones: comparing takes time with the product of their lengths."""

_BLANK = b" \t\r"
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_WORD = re.compile(r"\w+")

Span = tuple[int, int]


def replace(data: bytes, old: str, new: str, count: int) -> bytes:
    """`data` with `old`, which must stand in it exactly `count` times, replaced by `new`.

    Lines that the edit brings end like the line they stand on. Raises ToolError, with the nearest lines when `old` is
    not found.
    """
    if not old:
        raise ToolError("`old` is empty; to add text, name the line beside it, or use create for a new file")
    if old == new:
        raise ToolError("`old` and `new` are the same; nothing would change")
    if count < 1:
        raise ToolError(f"`count` is {count}; it must be 1 or more")
    wanted, becomes = encoded(old, "old"), encoded(new, "new")
    if b"\0" in data:
        raise ToolError("this is a binary file; only text can be edited")
    for find in (_exact, _by_line_ends, _by_trailing):
        spans = find(data, wanted)
        if len(spans) == count:
            given = find is _exact
            return _changed(data, _spliced(data, [(span, _fitted(data, span, becomes, given)) for span in spans]))
        if spans:
            raise ToolError(
                f"`old` stands in the file {len(spans)} times, not {count}: "
                f"give more surrounding lines, or count = {len(spans)}"
            )
    raise ToolError(f"`old` is not in the file. {_nearest(data, old)}")


def encoded(text: str, what: str) -> bytes:
    """The bytes of a text that goes into a file. Raises ToolError when it is none."""
    if "\0" in text:
        raise ToolError(f"`{what}` holds a NUL; only text can be written")
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"`{what}` holds a lone surrogate, which no file can hold") from error


def lines_of(text: str) -> list[str]:
    """The lines of a text as compilers count them: a form feed or a Unicode separator ends none."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _changed(before: bytes, after: bytes) -> bytes:
    if after == before:
        raise ToolError("`old` and `new` differ in line ends or trailing spaces alone; nothing would change")
    return after


def _exact(data: bytes, old: bytes) -> list[Span]:
    """Where `old` stands, byte for byte; a place that would tear a CRLF apart is none."""
    spans, at = [], data.find(old)
    while at >= 0:
        end = at + len(old)
        torn = (old[:1] == b"\n" and data[at - 1 : at] == b"\r") or (old[-1:] == b"\r" and data[end : end + 1] == b"\n")
        if not torn:
            spans.append((at, end))
        at = data.find(old, at + 1 if torn else end)
    return spans


def _by_line_ends(data: bytes, old: bytes) -> list[Span]:
    """Where `old` stands when LF and CRLF count as the same."""
    wanted = b"\n".join(line.removesuffix(b"\r") for line in old.split(b"\n"))
    # Where CRLFs are in the text that has LFs in their place: each one before a place shifts it by one.
    folds = [found.start() - number for number, found in enumerate(re.finditer(rb"\r\n", data))]
    spans = _found(data.replace(b"\r\n", b"\n"), wanted)
    return [(start + bisect_left(folds, start), stop + bisect_left(folds, stop)) for start, stop in spans]


def _by_trailing(data: bytes, old: bytes) -> list[Span]:
    """Whole-line matches that disregard spaces and tabs at the ends of lines."""
    wanted = [line.rstrip(_BLANK) for line in old.split(b"\n")]
    if wanted[-1] == b"":
        wanted.pop()
    if not any(wanted):
        return []
    mark = len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    lines = _LINE.findall(data, mark)
    starts = list(accumulate(map(len, lines), initial=mark))
    stripped = [line.rstrip(_BLANK + b"\n") for line in lines]
    places = list(accumulate((len(line) + 1 for line in stripped), initial=0))
    text = b"\n" + b"".join(line + b"\n" for line in stripped)
    spans = []
    # The line end before and behind makes it whole lines; two matches may share one.
    for place, _ in _found(text, b"\n" + b"\n".join(wanted) + b"\n", shared=1):
        index = bisect_left(places, place)
        end = index + len(wanted)
        stop = starts[end - 1] + len(lines[end - 1].rstrip(b"\r\n"))
        spans.append((starts[index], starts[end] if old.endswith(b"\n") else stop))
    return spans


def _found(text: bytes, wanted: bytes, *, shared: int = 0) -> list[Span]:
    """Where `wanted` stands, in time linear in the text; two places have at most `shared` bytes in common."""
    spans, at = [], text.find(wanted) if wanted else -1
    while at >= 0:
        spans.append((at, at + len(wanted)))
        at = text.find(wanted, at + len(wanted) - shared)
    return spans


def _fitted(data: bytes, span: Span, new: bytes, given: bool) -> bytes:
    """`new` with the line ends of the place where it goes.

    given: `old` matched byte for byte, so line ends that it named are kept as the edit gives them.
    """
    start, stop = span
    inside = data[start:stop]
    if given and b"\n" in inside and b"\r\n" not in inside:
        return new
    end = data.find(b"\n", start)
    if end < 0:
        end = data.rfind(b"\n", 0, start)
    if end > 0 and data[end - 1 : end] == b"\r":
        return new.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    return new if given else new.replace(b"\r\n", b"\n")


def _spliced(data: bytes, changes: Iterable[tuple[Span, bytes]]) -> bytes:
    pieces, at = [], 0
    for (start, stop), new in changes:
        pieces += [data[at:start], new]
        at = stop
    return b"".join([*pieces, data[at:]])


def _nearest(data: bytes, old: str) -> str:
    """The lines of the file that are most like the first line of `old` that says something."""
    text = data.decode(errors="replace")
    if unicodedata.normalize("NFC", old) in unicodedata.normalize("NFC", text):
        return "It is there with accented letters in another Unicode form; name lines beside it that have none."
    lines = lines_of(text)
    first = next((line for line in lines_of(old) if line.strip()), "")[:_SHOWN]
    near = difflib.get_close_matches(first, _comparable(lines, first), n=_NEAR, cutoff=0.5)
    if not near:
        return "No line is like it; view the file first."
    numbers: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        numbers.setdefault(line[:_SHOWN], number)
    return "The nearest lines:\n" + "\n".join(f"{numbers[line]}\t{line}" for line in near)


def _comparable(lines: Sequence[str], wanted: str) -> list[str]:
    """The different lines that share most words with `wanted`, shortened; none that shares no word."""
    words = set(_WORD.findall(wanted))
    shared = {line: len(words.intersection(_WORD.findall(line))) for line in {line[:_SHOWN]: None for line in lines}}
    return heapq.nlargest(_COMPARED, (line for line, count in shared.items() if count), key=shared.__getitem__)
