"""Frozen records that cross the borders between rooms. Units: seconds, bytes and US dollars throughout."""

from typing import Literal

import msgspec

Role = Literal["planner", "implementer", "judge"]
Lane = Literal["live", "batch"]
Source = Literal["paid", "cache", "shared"]
TaskState = Literal[
    "queued", "planning", "implementing", "verifying", "judging", "batched", "landing", "merged", "failed", "needs_you",
    "cancelled", "skipped",
]  # fmt: skip
TaskStatus = Literal["open", "done", "not_to_be_run"]
CheckPlace = Literal["task", "gate", "base", "landing"]


class Check(msgspec.Struct, frozen=True):
    """A named command that must pass."""

    name: str
    command: str
    """A line for `sh -c`."""
    timeout_s: float = 600.0
    network: bool = False


class CheckResult(msgspec.Struct, frozen=True):
    """What one run of a check gave. Green is `exit == 0`."""

    check: str
    command: str
    tree: str
    """The git tree it ran on (hex id)."""
    exit: int | None
    """The exit code; None when it was killed (time-out) or could not be started."""
    seconds: float
    output: str
    """Standard output and error together, bounded, safe to print, with paths and durations normalised."""
    timed_out: bool = False
    broken: str = ""
    """Why the command could not really run (not found, no tests, sandbox failure); empty when it ran."""

    @property
    def green(self) -> bool:
        return self.exit == 0 and not self.broken


class Task(msgspec.Struct, frozen=True):
    """One entry of a board."""

    id: str
    title: str
    """The first sentence or line of the text, for the screen."""
    text: str
    """Title and body in one, word for word as the board has it."""
    status: TaskStatus
    line: int
    """1-based line of the board."""
    branch: str = ""
    depends_on: tuple[str, ...] = ()
    priority: int = 2
    """0 (P0, first) to 3 (P3); 2 is medium."""
    checks: tuple[Check, ...] = ()
    """The task's own checks, `verify-1`, `verify-2`, …"""
    acceptance: str = ""
    """What the verification cell says that is not a command, for the judge."""
    tests_may_change: bool = False
    """The board allows this task to change existing protected files."""


class Ignored(msgspec.Struct, frozen=True):
    """A piece of a board that was not understood as a task."""

    line: int
    text: str
    why: str


class Board(msgspec.Struct, frozen=True):
    """A board as it was read."""

    path: str
    """As the person gave it."""
    format: str
    """`markdown-table`."""
    tasks: tuple[Task, ...]
    ignored: tuple[Ignored, ...]
    content: bytes
    """The file's bytes, as read."""


class Lesson(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded failure with its resolution. One JSON line each; the last line of an id wins."""

    id: str
    task_type: str = ""
    role: str = ""
    failure_type: str = ""
    failure_msg: str = ""
    resolution: str = ""
    pattern: str = ""
    times_seen: int = 1
    first_seen: str = ""
    """RFC 3339."""
    last_seen: str = ""
    metadata: dict[str, str] = {}


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one answer. The whole input is the sum of the three input fields."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0

    @property
    def cache_write_tokens(self) -> int:
        return self.cache_write_5m_tokens + self.cache_write_1h_tokens
