"""Reads the boards people have, and writes status back without touching anything else.

    board = read_board(Path("board.md"), "board.md", which=on_path(None))   # BoardError names the line
    for task in open_tasks(board):
        print(task.id, task.title, [check.command for check in task.checks])
    ticked = tick(board.content, ["T1"])                                # only T1's status cell differs

A board is any Markdown file with tables such as `| ID | Scope | Status | Branch | Verification |`. A task's text is the
cell's source word for word, with one exception: `\\|` has become `|`, for that is how a table writes a pipe.
"""

import posixpath
from hashlib import blake2b
from pathlib import PurePath

from taskyard.services.board.read import parse_board, read_board
from taskyard.services.board.tick import tick, tick_file
from taskyard.services.board.verification import on_path
from taskyard.services.records import Board, Task

__all__ = ["board_json", "on_path", "open_tasks", "parse_board", "read_board", "task_key", "tick", "tick_file"]


def open_tasks(board: Board) -> tuple[Task, ...]:
    """The tasks that are to be run, in the board's order."""
    return tuple(task for task in board.tasks if task.status == "open")


def task_key(board: str, task: Task) -> str:
    """What names a task across runs: 32 hex digits over the board's path, the id and the text, as they are.

    board: the path relative to the repository's top; `./a//b.md` and `a/b.md` are the same board.
    """
    path = posixpath.normpath(PurePath(board).as_posix())
    digest = blake2b(digest_size=16)
    for part in (path, task.id, task.text):
        # A path of the file system may hold bytes that are no UTF-8.
        data = part.encode("utf-8", "surrogateescape")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


def board_json(board: Board) -> dict[str, object]:
    """The object of `board show --json`."""
    return {
        "board": board.path,
        "format": board.format,
        "tasks": [
            {
                "id": task.id,
                "title": task.title,
                "status": task.status,
                "branch": task.branch,
                "depends_on": list(task.depends_on),
                "priority": task.priority,
                "checks": [{"name": check.name, "command": check.command} for check in task.checks],
                "acceptance": task.acceptance,
                "line": task.line,
            }
            for task in board.tasks
        ],
        "ignored": [{"line": item.line, "text": item.text, "why": item.why} for item in board.ignored],
    }
