"""From tables to rows of tasks: which column is which, the id and the status of each row."""

import re
import unicodedata
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from taskyard.services.board.cells import Cell, split_row, title_of, unwrapped
from taskyard.services.board.tables import Line, Table, find_tables
from taskyard.services.errors import BoardError
from taskyard.services.records import Ignored, TaskStatus

Role = Literal["id", "title", "status", "branch", "checks", "depends_on", "priority", "tests"]

_HEADERS: dict[str, Role] = {
    "id": "id", "#": "id", "task id": "id", "key": "id",
    "scope": "title", "task": "title", "title": "title", "description": "title",
    "status": "status", "state": "status", "done": "status",
    "branch": "branch",
    "verification": "checks", "check": "checks", "checks": "checks", "verify": "checks",
    "depends on": "depends_on", "dependencies": "depends_on", "blocked by": "depends_on",
    "priority": "priority",
    "tests": "tests",
}  # fmt: skip
_STATUS: dict[str, TaskStatus] = {
    "[ ]": "open", "": "open", "todo": "open", "open": "open",
    "[x]": "done", "done": "done", "✅": "done",
    "[-]": "not_to_be_run", "[~]": "not_to_be_run", "deferred": "not_to_be_run", "cancelled": "not_to_be_run",
    "blocked": "not_to_be_run",
}  # fmt: skip
_STATUS_HELP = (
    "open is [ ], todo, open or empty; done is [x], done or ✅; "
    "not to be run is [-], [~], deferred, cancelled or blocked"
)
_EMOJI_STYLE = "\ufe0f"
_UNFIT_CATEGORIES = ("Cc", "Zl", "Zp")
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")
_LONGEST_SLUG = 60


class Row(Struct, frozen=True):
    """A row that is a task."""

    id: str
    status: TaskStatus
    line: Line
    cells: dict[Role, Cell]

    def text(self, role: Role) -> str:
        """The cell's text, "" when the table has no such column."""
        cell = self.cells.get(role)
        return cell.text if cell else ""


def read_rows(text: str, shown: str) -> tuple[list[Row], list[Ignored]]:
    """The tasks' rows of a document, and what was not understood as one.

    shown: the board's name for messages. Raises BoardError with the line for a row that contradicts its table.
    """
    tables, ignored = find_tables(text)
    rows: list[Row] = []
    for table in tables:
        roles = _roles(table, shown)
        lacks = _what_lacks(set(roles.values()))
        if lacks:
            ignored.append(Ignored(table.header.number, table.header.text.strip(), lacks))
            continue
        rows += _rows(table, roles, ignored, shown)
    _refuse_duplicates(rows, shown)
    return rows, sorted(ignored, key=lambda item: item.line)


def _roles(table: Table, shown: str) -> dict[int, Role]:
    """Column → what it holds. Two columns for one thing are only refused when the table is one of tasks."""
    roles: dict[int, Role] = {}
    for index, cell in enumerate(table.columns):
        role = _HEADERS.get(" ".join(unwrapped(cell.text).casefold().split()))
        if role:
            roles[index] = role
    if _what_lacks(set(roles.values())):
        return roles
    for role in set(roles.values()):
        names = [table.columns[index].text for index, other in roles.items() if other == role]
        if len(names) > 1:
            raise BoardError(
                f"{shown} line {table.header.number}: the columns {' and '.join(names)} both say the {role}; rename one"
            )
    return roles


def _what_lacks(found: set[Role]) -> str:
    missing = []
    if not found & {"id", "title"}:
        missing.append("no id column (ID, #, Task ID, Key) and no title column (Scope, Task, Title, Description)")
    if "status" not in found:
        missing.append("no status column (Status, State, Done)")
    return "a table with " + " and ".join(missing) if missing else ""


def _rows(table: Table, roles: dict[int, Role], ignored: list[Ignored], shown: str) -> Iterator[Row]:
    _refuse_width(table.alignment, table, shown)
    for line in table.rows:
        cells = _refuse_width(line, table, shown)
        if not any(cell.text for cell in cells):
            ignored.append(Ignored(line.number, line.text.strip(), "an empty row"))
            continue
        by_role = {role: cells[index] for index, role in roles.items()}
        where = f"{shown} line {line.number}"
        yield Row(_id(by_role, where), status_of(by_role["status"].text, where), line, by_role)


def _refuse_width(line: Line, table: Table, shown: str) -> tuple[Cell, ...]:
    cells = split_row(line.text)
    if len(cells) != len(table.columns):
        raise BoardError(
            f"{shown} line {line.number}: {len(cells)} cells where the header (line {table.header.number}) has "
            f"{len(table.columns)}; write a | that is no border as \\| or inside a code span, and leave an empty line "
            "after a table"
        )
    return cells


def status_of(cell: str, where: str) -> TaskStatus:
    """The status that a cell says. Raises BoardError for another word."""
    status = _STATUS.get(unwrapped(cell).casefold().removesuffix(_EMOJI_STYLE))
    if status is None:
        raise BoardError(f'{where}: the status "{cell}" is not known; {_STATUS_HELP}')
    return status


def _id(cells: dict[Role, Cell], where: str) -> str:
    """The id of a row; in a table without an id column it is made from the title, so that other rows don't matter."""
    if "id" not in cells:
        title = title_of(cells["title"].text)
        slug = re.sub(r"[\W_]+", "-", title.casefold())[:_LONGEST_SLUG].strip("-")
        if not slug:
            raise BoardError(f"{where}: no id can be made from the title; add an ID column")
        return slug
    found = unwrapped(cells["id"].text)
    if not found:
        raise BoardError(f"{where}: the row has no id; give it one, or remove the row")
    if _BIDI.search(found) or any(unicodedata.category(letter) in _UNFIT_CATEGORIES for letter in found):
        raise BoardError(f"{where}: the id {found!a} holds a control character; remove it")
    return found


def _refuse_duplicates(rows: list[Row], shown: str) -> None:
    first: dict[str, int] = {}
    for row in rows:
        if row.id in first:
            raise BoardError(
                f"{shown}: the id {row.id} stands at line {first[row.id]} and at line {row.line.number}; "
                "each task needs an id of its own"
            )
        first[row.id] = row.line.number
