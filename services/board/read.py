"""Reads a board: a file with Markdown tables becomes tasks."""

import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from taskyard.services.board.cells import title_of, unwrapped
from taskyard.services.board.rows import Row, read_rows
from taskyard.services.board.verification import own_checks, read_verification
from taskyard.services.errors import BoardError
from taskyard.services.records import Board, Ignored, Task

_FORMAT = "markdown-table"
_PRIORITIES = {"": 2, "p0": 0, "p1": 1, "high": 1, "p2": 2, "medium": 2, "p3": 3, "low": 3}
_NOTHING = frozenset({"", "-", "–", "—", "none", "n/a"})  # noqa: RUF001
_TESTS_MAY_CHANGE = "change"


def read_board(
    path: Path, shown: str, *, which: Callable[[str], bool], timeout_s: float = 600.0, network: bool = False
) -> Board:
    """The board at `path`.

    shown: the path as the person gave it. which: whether a word is a program on PATH or a shell builtin.
    timeout_s, network: what the tasks' own checks get. Raises BoardError, with the line where there is one.
    """
    return parse_board(_content(path, shown), shown, which=which, timeout_s=timeout_s, network=network)


def parse_board(
    content: bytes, shown: str, *, which: Callable[[str], bool], timeout_s: float = 600.0, network: bool = False
) -> Board:
    """The board that these bytes are; otherwise as `read_board`."""
    text = decode(content, shown)
    if not text.strip("\ufeff \t\r\n"):
        raise BoardError(f"{shown} is empty; a board is a Markdown table such as | ID | Scope | Status |")
    rows, ignored = read_rows(text, shown)
    if not rows:
        raise BoardError(f"{shown}: no task was understood; {_why(ignored)}")
    known = frozenset(row.id for row in rows)
    tasks = tuple(_task(row, known, shown, which, timeout_s, network) for row in rows)
    _refuse_cycles(tasks, shown)
    ignored += [
        Ignored(row.line.number, row.text("tests"), 'a Tests cell that is not "change": existing tests stay protected')
        for row in rows
        if unwrapped(row.text("tests")).casefold() not in {_TESTS_MAY_CHANGE, *_NOTHING}
    ]
    return Board(shown, _FORMAT, tasks, tuple(sorted(ignored, key=lambda item: item.line)), content)


def decode(content: bytes, shown: str) -> str:
    """The text of a board, its byte order mark and line ends kept. Raises BoardError when it is not UTF-8 text."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        byte = f"byte {error.start} (0x{content[error.start]:02x})"
        raise BoardError(f"{shown} line {line}: {byte} is not UTF-8; save the board as UTF-8") from error
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise BoardError(f"{shown} line {line}: a NUL byte; this is no text file")
    return text


def _content(path: Path, shown: str) -> bytes:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise BoardError(f"{shown} is a folder; give the file that holds the board's table")
        if not stat.S_ISREG(mode):
            raise BoardError(f"{shown} is no regular file; give the file that holds the board's table")
        return path.read_bytes()
    except FileNotFoundError:
        raise BoardError(f"there is no board {shown}; name a Markdown file that has a table of tasks") from None
    except (OSError, ValueError) as error:
        raise BoardError(f"can't read the board {shown}: {error}") from error


def _why(ignored: list[Ignored]) -> str:
    if not ignored:
        return "a board is a Markdown table with an ID or Scope column and a Status column"
    return "; ".join(f"line {item.line}: {item.why}" for item in ignored[:3])


def _task(
    row: Row, known: frozenset[str], shown: str, which: Callable[[str], bool], timeout_s: float, network: bool
) -> Task:
    where = f"{shown} line {row.line.number}"
    text = row.text("title") if "title" in row.cells else row.id
    if not text and row.status == "open":
        raise BoardError(f"{where}: the task {row.id} is open and says nothing of what to do")
    # What is not to be run needs no programs: an old row may use tools that are gone.
    verification = read_verification(row.text("checks"), where, which if row.status == "open" else None)
    return Task(
        id=row.id,
        title=title_of(text) or row.id,
        text=text,
        status=row.status,
        line=row.line.number,
        branch=unwrapped(row.text("branch")),
        depends_on=_dependencies(row, known, where),
        priority=_priority(row.text("priority"), where),
        checks=own_checks(verification, timeout_s=timeout_s, network=network),
        acceptance=verification.acceptance,
        tests_may_change=unwrapped(row.text("tests")).casefold() == _TESTS_MAY_CHANGE,
    )


def _priority(cell: str, where: str) -> int:
    word = unwrapped(cell).casefold()
    priority = 2 if word in _NOTHING else _PRIORITIES.get(word)
    if priority is None:
        raise BoardError(f'{where}: the priority "{cell}" is not known; use P0 (first) to P3, or high, medium, low')
    return priority


def _dependencies(row: Row, known: frozenset[str], where: str) -> tuple[str, ...]:
    """The ids of a Depends-on cell. An id may hold spaces or commas, so what is known goes before splitting."""
    cell = row.text("depends_on")
    found: dict[str, None] = {}
    for part in _parts(cell, known):
        if part not in known:
            raise BoardError(f"{where}: the task {row.id} depends on {part}, which is not on the board")
        found[part] = None
    return tuple(found)


def _parts(cell: str, known: frozenset[str]) -> Iterable[str]:
    whole = unwrapped(cell)
    if whole in known:
        return [whole]
    if whole.casefold() in _NOTHING:
        return []
    by_comma = [unwrapped(part) for part in cell.split(",") if part.strip()]
    return [word for part in by_comma for word in ([part] if part in known else map(unwrapped, part.split()))]


def _refuse_cycles(tasks: tuple[Task, ...], shown: str) -> None:
    """Done tasks wait for nothing, so they are no part of a cycle."""
    waits = {task.id: task.depends_on for task in tasks if task.status != "done"}
    clear: set[str] = set()
    for task in waits:
        cycle = _cycle(task, waits, clear)
        if cycle:
            raise BoardError(f"{shown}: these tasks wait for each other: {' → '.join(cycle)}; remove one dependency")


def _cycle(start: str, waits: Mapping[str, tuple[str, ...]], clear: set[str]) -> list[str]:
    """A cycle that is reached from `start`, closed, or []. Without recursion: a chain may be as long as the board."""
    path = [start]
    on_path = {start}
    left = [iter(waits.get(start, ()))]
    while path:
        following = next(left[-1], None)
        if following is None:
            left.pop()
            on_path.discard(path[-1])
            clear.add(path.pop())
        elif following in on_path:
            return [*path[path.index(following) :], following]
        elif following in waits and following not in clear:
            path.append(following)
            on_path.add(following)
            left.append(iter(waits[following]))
    return []
