"""What a prompt is made from: frozen records, so that the same inputs always give the same bytes."""

import msgspec

from taskyard.services.records import Check, CheckResult, Lesson, Task


class RepositoryView(msgspec.Struct, frozen=True):
    """What a model is told about the repository before it opens a file. Part of the stable prefix."""

    map: str = ""
    """The tree of files and the main definitions, at most 8 KB."""
    conventions: str = ""
    """The heads of AGENTS.md, CLAUDE.md and CONTRIBUTING.md."""


class Plan(msgspec.Struct, frozen=True):
    """The input of the planner's `plan` tool."""

    summary: str
    steps: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    risks: tuple[str, ...] = ()


class EarlierAttempt(msgspec.Struct, frozen=True):
    """An attempt of the same task that did not land."""

    number: int
    """1 for the first."""
    ended: str
    """How it ended, in one short line: `check verify-1 failed`, `judge: revise`, `conflict on landing`."""
    detail: str = ""
    """The failed check's output, the judge's reasons, the text of the conflict or a person's comment."""


class TaskInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What every role is given."""

    task: Task
    checks: tuple[Check, ...]
    """In the order in which they are shown: the task's own first."""
    repository: RepositoryView = RepositoryView()
    lessons: tuple[Lesson, ...] = ()
    earlier: tuple[EarlierAttempt, ...] = ()
    """Oldest first."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What the judge judges."""

    diff: str
    """Unified, from the attempt's base to its tree."""
    gate: tuple[CheckResult, ...] = ()
    flags: tuple[str, ...] = ()
    """What the gate noticed, one line each: a protected file was changed, half of a file was deleted."""


class Prompt(msgspec.Struct, frozen=True):
    """The rendered part of a request."""

    system: tuple[dict[str, object], ...]
    """Two text blocks of the Messages API: role and rules; then the repository, marked for the provider's cache."""
    first: str
    """The text of the first user message."""
