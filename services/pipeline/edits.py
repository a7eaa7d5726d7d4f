"""Replace text in a file's bytes: exact, then end-of-line-normalised, then tolerant of trailing spaces; never fuzzy.

Bytes that were not named by the edit stay as they are: encoding marks, line ends, a missing last newline.
"""

import difflib

from taskyard.services.errors import ToolError

_NEAR = 3
_SHOWN = 200


def replace(data: bytes, old: str, new: str, count: int) -> bytes:
    """`data` with `old`, which must stand in it exactly `count` times, replaced by `new`.

    Raises ToolError, with the nearest lines when `old` is not found.
    """
    if not old:
        raise ToolError("`old` is empty; to add text, name the line beside it, or use create for a new file")
    if old == new:
        raise ToolError("`old` and `new` are the same; nothing would change")
    if count < 1:
        raise ToolError(f"`count` is {count}; it must be 1 or more")
    wanted, becomes = _encoded(old, "old"), _encoded(new, "new")
    if b"\0" in data:
        raise ToolError("this is a binary file; only text can be edited")
    for spans, text in _ways(data, wanted, becomes):
        if len(spans) == count:
            return _spliced(data, spans, text)
        if spans:
            raise ToolError(
                f"`old` stands in the file {len(spans)} times, not {count}: "
                f"give more surrounding lines, or count = {len(spans)}"
            )
    raise ToolError(f"`old` is not in the file. {_nearest(data, old)}")


def _encoded(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"`{what}` holds a lone surrogate, which no file can hold") from error


def _ways(data: bytes, old: bytes, new: bytes) -> "list[tuple[list[tuple[int, int]], bytes]]":
    """The spans that `old` fits, from the strictest way to the most tolerant, each with the text that goes there."""
    exact = _spans(data, old)
    if exact:
        return [(exact, new if b"\n" in old and b"\r\n" not in old else _with_line_ends(new, data))]
    ends = b"\r\n" if b"\r\n" in data else b"\n"
    plain_old, plain_new = old.replace(b"\r\n", b"\n"), new.replace(b"\r\n", b"\n")
    by_ends = _spans(data, plain_old.replace(b"\n", ends))
    return [(by_ends, plain_new.replace(b"\n", ends)), (_trailing(data, plain_old), plain_new.replace(b"\n", ends))]


def _with_line_ends(new: bytes, data: bytes) -> bytes:
    """A single-line match in a file that has only CRLF takes CRLF for the lines that it brings."""
    only_crlf = b"\r\n" in data and data.count(b"\n") == data.count(b"\r\n")
    return new.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n") if only_crlf else new


def _spans(data: bytes, wanted: bytes) -> list[tuple[int, int]]:
    found, at = [], data.find(wanted)
    while at >= 0:
        found.append((at, at + len(wanted)))
        at = data.find(wanted, at + len(wanted))
    return found


def _trailing(data: bytes, old: bytes) -> list[tuple[int, int]]:
    """Whole-line matches that disregard spaces and tabs at the ends of lines."""
    lines = data.splitlines(keepends=True)
    wanted = [line.rstrip() for line in old.split(b"\n")]
    if wanted and wanted[-1] == b"":
        wanted.pop()
    if not any(wanted):
        return []
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    stripped = [line.rstrip() for line in lines]
    found, index = [], 0
    while index + len(wanted) <= len(lines):
        if stripped[index : index + len(wanted)] == wanted:
            end = index + len(wanted)
            stop = starts[end] if old.endswith(b"\n") else starts[end - 1] + len(lines[end - 1].rstrip(b"\r\n"))
            found.append((starts[index], stop))
            index = end
        else:
            index += 1
    return found


def _spliced(data: bytes, spans: list[tuple[int, int]], new: bytes) -> bytes:
    pieces, at = [], 0
    for start, stop in spans:
        pieces += [data[at:start], new]
        at = stop
    return b"".join([*pieces, data[at:]])


def _nearest(data: bytes, old: str) -> str:
    """The lines of the file that are most like the first line of `old` that says something."""
    lines = data.decode(errors="replace").splitlines()
    first = next((line for line in old.splitlines() if line.strip()), "")
    near = difflib.get_close_matches(first, lines, n=_NEAR, cutoff=0.5)
    if not near:
        return "No line is like it; view the file first."
    shown = "\n".join(f"{lines.index(line) + 1}\t{line[:_SHOWN]}" for line in near)
    return f"The nearest lines:\n{shown}"
