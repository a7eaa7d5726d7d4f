"""What goes in and out of the lessons room. Frozen."""

from typing import Literal

import msgspec

from taskyard.services.records import Lesson


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Something that went wrong in an attempt, and from which a later one can learn."""

    role: str
    """Whose step it was: `planner`, `implementer`, `judge`."""
    failure_type: str
    """The kind: `check`, `verdict`, `conflict`, `refused`, `stuck`, …"""
    message: str
    """The failed check's output, the judge's reasons, the conflict. Its middle is left out beyond 4,000 characters."""
    key: str
    """Names the attempt (run, task, number). A failure counts once per attempt, however often it is recorded."""
    task_type: str = ""


class Recorded(msgspec.Struct, frozen=True):
    """A lesson as it stands now, and what was done to it."""

    lesson: Lesson
    action: Literal["recorded", "seen_again", "resolved", "unchanged"]


class Found(msgspec.Struct, frozen=True):
    """A lesson that a search found."""

    lesson: Lesson
    score: float
    """Higher is nearer; 0 for a search without words. Comparable within one search only."""

    def json(self) -> dict[str, object]:
        """The line that `lessons search --json` prints."""
        shown = msgspec.structs.asdict(self.lesson)
        del shown["metadata"]
        return shown | {"score": self.score}


class Skipped(msgspec.Struct, frozen=True):
    """A line of the file that is no lesson."""

    line: int
    """1-based."""
    why: str


class LessonStats(msgspec.Struct, frozen=True, kw_only=True):
    """The object that `lessons stats --json` prints."""

    lessons: int
    skipped: tuple[Skipped, ...]
    built_at: str | None
    """When the file was last read anew, RFC 3339; None before the first time."""
    build_s: float
    """How long that took."""
    offered: int
    """How often lessons were put into prompts, as their metadata says; likewise `helped`."""
    helped: int
    retired: int
    """Lessons that are kept in the file and no longer offered."""
