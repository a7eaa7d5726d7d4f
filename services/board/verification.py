"""What a verification cell says: the task's own checks, and acceptance text for the judge."""

import re
import shlex
import shutil
from collections.abc import Callable

from msgspec import Struct

from taskyard.services.board.cells import lines_of, pieces
from taskyard.services.errors import BoardError
from taskyard.services.records import Check

_PROMPT = "$ "
_SEPARATORS = re.compile(r"(?:[\s,;]|<br\s*/?>)*", re.IGNORECASE)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_SYNTAX = frozenset({"!", "{", "[[", "case", "for", "function", "if", "time", "until", "while"})
_NOT_A_PLAIN_WORD = re.compile(r"[$`~*?<>()&|;]")
_NOTHING = frozenset({"", "-", "–", "—"})  # noqa: RUF001

# POSIX.1-2024, 2.15 and 1.7, and what every sh has besides.
_BUILTINS = frozenset({
    ".", ":", "[", "alias", "bg", "break", "cd", "command", "continue", "echo", "eval", "exec", "exit", "export",
    "false", "fc", "fg", "getopts", "hash", "jobs", "kill", "local", "printf", "pwd", "read", "readonly", "return",
    "set", "shift", "test", "times", "trap", "true", "type", "ulimit", "umask", "unalias", "unset", "wait",
})  # fmt: skip


class Verification(Struct, frozen=True):
    """A verification cell, understood."""

    commands: tuple[str, ...]
    acceptance: str


def on_path(search: str | None) -> Callable[[str], bool]:
    """Whether a word is a program in the folders of `search` (a PATH; None: this process's), or a builtin of sh.

    A path relative to the current directory is never found: checks run elsewhere.
    """

    def found(word: str) -> bool:
        if "/" in word and not word.startswith("/"):
            return False
        return word in _BUILTINS or shutil.which(word, path=search) is not None

    return found


def read_verification(cell: str, where: str, which: Callable[[str], bool] | None) -> Verification:
    """Commands and acceptance text of a cell.

    which: whether a word is a program on PATH or a shell builtin; None when nothing is to be run (a task that is not
    open), then every command is taken as found. Raises BoardError for a command whose program is not found.
    """
    if cell in _NOTHING:
        return Verification((), "")
    lines = lines_of(cell)
    if any(line.startswith(_PROMPT) for line in lines):
        commands = [_after_prompt(line) for line in lines if line.startswith(_PROMPT)]
        for command in commands:
            _refuse_missing(command, where, which)
        return Verification(tuple(commands), "\n".join(line for line in lines if not line.startswith(_PROMPT)))
    parts = pieces(cell)
    if any(part.code is None and not _SEPARATORS.fullmatch(part.source) for part in parts):
        return Verification((), cell)
    return _spans([(part.source, part.code.strip()) for part in parts if part.code is not None], where, which)


def own_checks(verification: Verification, *, timeout_s: float, network: bool) -> tuple[Check, ...]:
    """The commands as checks, named `verify-1`, `verify-2`, …"""
    return tuple(
        Check(f"verify-{number}", command, timeout_s, network)
        for number, command in enumerate(verification.commands, start=1)
    )


def _spans(spans: list[tuple[str, str]], where: str, which: Callable[[str], bool] | None) -> Verification:
    """A cell of code spans alone; a single word that is no program is text (a file, a name)."""
    commands, texts = [], []
    for source, code in spans:
        command = code.removeprefix(_PROMPT).strip()
        if len(command.split()) > 1:
            _refuse_missing(command, where, which)
            commands.append(command)
        elif command and (which is None or command.startswith("./") or which(command)):
            commands.append(command)
        else:
            texts.append(source)
    return Verification(tuple(commands), " ".join(texts))


def _after_prompt(line: str) -> str:
    """The command of a `$ ` line; a code span around all of it is markup, not command substitution."""
    command = line.removeprefix(_PROMPT).strip()
    parts = pieces(command)
    return parts[0].code.strip() if len(parts) == 1 and parts[0].code is not None else command


def _refuse_missing(command: str, where: str, which: Callable[[str], bool] | None) -> None:
    if which is None:
        return
    program = _program(command)
    if not program:
        raise BoardError(f"{where}: the verification `{command}` names no command")
    relative = "/" in program and not program.startswith("/")
    if program in _SYNTAX or relative or _NOT_A_PLAIN_WORD.search(program) or which(program):
        return
    raise BoardError(
        f"{where}: the verification `{command}` begins with {program}, which is not on PATH and no shell builtin; "
        "install it, or write the cell as text if it is no command"
    )


def _program(command: str) -> str:
    """The first word that is no assignment, "" when there is none."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        # A quote is not closed: the shell will say so, the first word can still be judged.
        words = command.split()
    return next((word for word in words if not _ASSIGNMENT.fullmatch(word)), "")
