"""The sample project's files, with a board of as many tasks as asked for.

    files(9)["board.md"]         # (bytes, executable)

Nine tasks are the board as it stands in `sample/`. Fewer are its first ones: a task comes after those that it depends
on, so the dependencies still stand. More are the nine and variations, each with what it needs in the base.
"""

from pathlib import Path

from taskyard.services.errors import UsageError
from taskyard.services.practice.variations import Variation, variation

STANDARD_TASKS = 9
MOST_TASKS = 1000

_SAMPLE = Path(__file__).parent / "sample"
_BOARD = "board.md"
_PREFIX = "SD-"
_PACKAGES = {
    "sundry/units/__init__.py": '"""Conversions between units of measure, a module for each pair."""\n',
    "sundry/bases/__init__.py": '"""Whole numbers in other bases."""\n',
    "sundry/stats/__init__.py": '"""Percentiles."""\n',
}
_TABLE_HEAD = """\
## Units, bases and percentiles

Asked for by readers of the last release, one by one.

| ID | Scope | Status | Branch | Verification |
|----|-------|--------|--------|--------------|
"""


def files(tasks: int = STANDARD_TASKS) -> dict[str, tuple[bytes, bool]]:
    """path → (content, executable) of a project whose board has `tasks` open tasks.

    The same for the same number. Raises UsageError when `tasks` is not from 1 to MOST_TASKS.
    """
    if not 1 <= tasks <= MOST_TASKS:
        raise UsageError(f"the sample project has 1 to {MOST_TASKS} tasks, not {tasks}; choose a number between them")
    made = {path: content.encode() for path, content in _variation_files(tasks).items()}
    contents = _sample() | made
    contents[_BOARD] = _board(contents[_BOARD].decode(), tasks).encode()
    return {path: (content, content.startswith(b"#!")) for path, content in sorted(contents.items())}


def _sample() -> dict[str, bytes]:
    """Every file of the folder `sample`, without what Python leaves there when the package is installed."""
    return {
        path.relative_to(_SAMPLE).as_posix(): path.read_bytes()
        for path in _SAMPLE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def _variation_files(tasks: int) -> dict[str, str]:
    further = [variation(number) for number in range(1, tasks - STANDARD_TASKS + 1)]
    if not further:
        return {}
    return _PACKAGES | {each.path: each.base for each in further if each.base}


def _board(text: str, tasks: int) -> str:
    """The board with its first `tasks` tasks, or with a table of variations before its last section."""
    if tasks > STANDARD_TASKS:
        before, done, after = text.partition("## Done")
        rows = [_row(number, variation(number - STANDARD_TASKS)) for number in range(STANDARD_TASKS + 1, tasks + 1)]
        return before + _TABLE_HEAD + "".join(rows) + "\n" + done + after
    gone = tuple(f"| {_PREFIX}{number} |" for number in range(tasks + 1, STANDARD_TASKS + 1))
    sections = text.split("\n## ")
    kept = ["\n".join(line for line in section.split("\n") if not line.startswith(gone)) for section in sections]
    return "\n## ".join(section for section in kept if "| ID |" not in section or f"| {_PREFIX}" in section)


def _row(number: int, task: Variation) -> str:
    return f"| {_PREFIX}{number} | {task.scope} | [ ] | units/{task.name.replace('_', '-')} | `{task.check}` |\n"
