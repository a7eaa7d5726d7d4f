"""The answers of the commands that look things up, as text or as JSON.

    for line in board_lines(board):
        print(line)

JSON forms follow `contract/cli.md`: one object, or one a line for lists.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from taskyard.services.records import Board, Task
from taskyard.tui.advice import decide_on, look_at
from taskyard.tui.clean import clean
from taskyard.tui.look import Look, age, counted, pad, share, size, span, usd

if TYPE_CHECKING:
    from taskyard.services.doctor import Finding

_DOCTOR_WIDTH = 8
_LONGEST_CELL = 60
_ONE_WORD = re.compile(r"(`+)\s*[^\s`]+\s*\1")
"""A code span of one word, as a whole cell of a task: a command that was mistyped, or is not installed."""
_REASON = 300
_REASONS_SHOWN = frozenset({"needs_you", "failed", "cancelled", "skipped"})
_STATUS_WORDS = {"open": "open", "done": "done", "not_to_be_run": "not to be run"}


def json_line(value: object) -> str:
    """One line. Plain ASCII, so that it is safe on any terminal and in any encoding."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as their widest cell; cells are cleaned and cut at 60 characters."""
    cells = [list(headers), *([clean(cell, limit=_LONGEST_CELL) for cell in row] for row in rows)]
    widths = [max(cell_len(row[column]) for row in cells) for column in range(len(headers))]
    for row in cells:
        yield "  ".join(pad(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()


def pairs(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """`name  value` lines; a mapping inside becomes indented lines, or none when it is empty; None becomes a dash."""
    shown = {_label(name): (name, value) for name, value in values.items() if value != {}}
    width = max((len(label) for label in shown), default=0)
    for label, (name, value) in shown.items():
        start = prefix + label.ljust(width)
        if isinstance(value, Mapping):
            yield prefix + label
            yield from pairs(value, prefix + "  ")
        elif isinstance(value, list | tuple):
            yield f"{start}  {len(value)}"
            yield from (f"{prefix}  {clean(', '.join(map(str, item.values())))}" for item in value)
        else:
            yield f"{start}  {_value(name, value)}"


_UNITS: Mapping[str, Callable[[float], str]] = {
    "_bytes_per_s": lambda rate: f"{size(rate)}/s",
    "_usd": usd,
    "bytes": size,
    "_s": age,
    "_rate": share,
    "_ratio": share,
}
"""By the end of a field's name, which says its unit; the first that fits counts."""
_OF_THE_UNIT = ("_bytes_per_s", "_usd", "_s")


def _label(name: str) -> str:
    """A field's name without the unit, which its value shows."""
    unit = next((unit for unit in _OF_THE_UNIT if name.endswith(unit)), "")
    return clean(name.removesuffix(unit).replace("_", " "))


def _value(name: str, value: object) -> str:
    if value is None:
        return "-"
    unit = next((shown for end, shown in _UNITS.items() if name.endswith(end)), None)
    if unit and isinstance(value, int | float):
        return unit(value)
    return f"{value:.4g}" if isinstance(value, float) else clean(str(value))


def board_lines(board: Board) -> Iterator[str]:
    """What was understood of a board: a table, then which text is a command and which goes to the judge."""
    opened = sum(task.status == "open" for task in board.tasks)
    yield f"{clean(board.path)}: {counted(len(board.tasks), 'task')}, {opened} open ({board.format})"
    yield ""
    rows = (
        (task.id, _STATUS_WORDS[task.status], f"P{task.priority}", ", ".join(task.depends_on) or "-", task.title)
        for task in board.tasks
    )
    yield from table(("ID", "STATE", "PRIORITY", "DEPENDS ON", "TITLE"), rows)
    yield ""
    yield "How each open task is verified (besides the [checks] of taskyard.toml, which hold for all):"
    for task in board.tasks:
        if task.status == "open":
            yield from _verification(task)
    if board.ignored:
        yield ""
        yield f"Ignored: {counted(len(board.ignored), 'piece')}"
        yield from (
            f"  line {piece.line}: {clean(piece.text, limit=80)} ({clean(piece.why)})" for piece in board.ignored
        )
    if looks_like := [task for task in board.tasks if task.status == "open" and _ONE_WORD.fullmatch(task.acceptance)]:
        yield ""
        yield "Look twice:"
        yield from (
            f"  {clean(task.id)}: {clean(task.acceptance)} is no command here, so it goes to the judge as text"
            for task in looks_like
        )


def _verification(task: Task) -> Iterator[str]:
    name = clean(task.id)
    for check in task.checks:
        yield f"  {name}  command {check.name}: {clean(check.command)}"
    if task.acceptance:
        yield f"  {name}  for the judge: {clean(task.acceptance)}"
    if not task.checks and not task.acceptance:
        yield f"  {name}  nothing of its own"


def status_lines(status: Mapping[str, Any], look: Look) -> Iterator[str]:
    """The last run: its state, its tasks, its totals."""
    by = f", process {status['pid']}" if status.get("pid") else ""
    yield f"run {clean(status['run'])} of {clean(status['board'])}: {status['state']}{by}"
    rows = (
        (task["id"], look.word(task["state"]), str(task["attempt"]), usd(task["cost_usd"])) for task in status["tasks"]
    )
    yield from table(("ID", "STATE", "ATTEMPT", "COST"), rows)
    totals = status.get("totals") or {}
    if totals:
        pushes = counted(totals.get("pushes", 0), "push")
        cost = totals.get("cost_usd")
        paid = "paid, price unknown" if cost is None else f"{usd(cost)} paid"
        yield f"{paid} · {pushes} · {span(totals.get('wall_s', 0.0))}"
    waiting = [task for task in status["tasks"] if task["state"] == "needs_you"]
    for task in status["tasks"]:
        if task["state"] in _REASONS_SHOWN:
            why = clean(task.get("detail") or "no reason was given", limit=_REASON)
            yield f"{clean(task['id'])} {look.state(task['state'])}: {why}"
        if task["state"] == "needs_you":
            yield f"  {look_at(task['id'])}"
            yield f"  {decide_on(task['id'])}"
    if status["state"] == "interrupted":
        yield f"{'then ' if waiting else ''}go on with: taskyard resume {clean(status['run'])}"


def doctor_lines(findings: Iterable["Finding"], look: Look) -> Iterator[str]:
    """A line per finding, and under each that is not ok what to do."""
    for finding in findings:
        if finding.ok:
            state = look.state("merged", "ok", width=_DOCTOR_WIDTH)
        elif finding.needed:
            state = look.state("failed", "not ok", width=_DOCTOR_WIDTH)
        else:
            state = look.state("needs_you", "note", width=_DOCTOR_WIDTH)
        yield f"{state}  {finding.check}: {clean(finding.detail)}"
        if not finding.ok:
            yield f"{' ' * _DOCTOR_WIDTH}  do: {clean(finding.do)}"


def lesson_lines(lessons: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Two lines per lesson: what failed, and what resolved it."""
    if not lessons:
        yield "no lesson fits"
    for lesson in lessons:
        seen = counted(lesson["times_seen"], "time")
        what = clean(lesson["failure_msg"], limit=200)
        yield f"{clean(lesson['id'])}  {clean(lesson['failure_type'])}, seen {seen}: {what}"
        if lesson["resolution"]:
            yield f"    resolved by: {clean(lesson['resolution'], limit=200)}"


def history_lines(entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A table of attempts."""
    if not entries:
        yield "no attempt is on record yet"
        return
    rows = (
        (
            entry["task"],
            str(entry["attempt"]),
            entry["run"],
            entry["status"],
            entry["start"],
            "-" if entry["duration_s"] is None else span(entry["duration_s"]),
            usd(entry["cost_usd"]),
        )
        for entry in entries
    )
    yield from table(("TASK", "ATTEMPT", "RUN", "STATUS", "START", "TOOK", "COST"), rows)
