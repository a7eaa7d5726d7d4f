"""What a task's way needs, handed in by `run`, and the ways in which an attempt can end early."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import msgspec

from taskyard.services.activity import Activity, Slots
from taskyard.services.clock import Clock
from taskyard.services.config import Settings
from taskyard.services.events import Event
from taskyard.services.history import History
from taskyard.services.journal import Journal, Steps, Sticky
from taskyard.services.lessons import LessonStore
from taskyard.services.llm import Answer, Request
from taskyard.services.pipeline.decisions import Decisions
from taskyard.services.pipeline.meeting import Meeting
from taskyard.services.pipeline.verify import Verifier
from taskyard.services.prompts import PromptBuilder, RepositoryView
from taskyard.services.records import Check, Role
from taskyard.services.repo import Identity, Landing, Repository, WorktreePool

Failure = Literal[
    "plan_malformed",
    "refusal",
    "cut_off",
    "malformed",
    "stuck",
    "turns",
    "no_change",
    "check_failed",
    "revise",
    "rejected",
    "conflict",
    "red_on_tip",
    "already_there",
    "request_refused",
    "task_budget",
    "sent_back",
    "retried",
]


class AttemptFailed(Exception):
    """An attempt ended without a landing; a further one may follow."""

    def __init__(self, kind: Failure, detail: str, check: str = "") -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.detail = detail
        self.check = check
        """The red check's name, when one was red."""


class NeedsPerson(Exception):
    """The attempt can't go on without a person's decision."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Ask(Protocol):
    """`Gateway.ask`."""

    def __call__(self, request: Request, steps: Steps) -> Awaitable[Answer]: ...


class Base(msgspec.Struct, frozen=True):
    """The run's base."""

    commit: str
    tree: str
    red: frozenset[str] = frozenset()
    """Names of `[checks]` that are red on it and allowed to be (`--allow-red-base`)."""


@dataclass(frozen=True, kw_only=True)
class Kit:
    """The services of one run. Built by `run`, used by every task."""

    run: str
    board_files: tuple[str, ...]
    """The board's paths inside the repository, a link and what it leads to: out of the tools' reach."""
    base: Base
    settings: Settings
    clock: Clock
    emit: Callable[[Event], None]
    activity: Activity
    slots: Slots
    journal: Journal
    sticky: Sticky
    ask: Ask
    cost: Callable[[str, int | None], Awaitable[float]]
    """US dollars paid for a task so far, or for one attempt of it."""
    prompts: PromptBuilder
    view: Callable[[str], Awaitable[RepositoryView]]
    """The outline of a tree."""
    tools: Mapping[Role, Sequence[dict[str, Any]]]
    lessons: LessonStore
    history: History
    repository: Repository
    identity: Identity
    work: WorktreePool
    verifier: Verifier
    landing: Landing
    meeting: Meeting
    decisions: Decisions
    scope: str
    """Digest of the base's tree and the settings that reach prompts: what sticks across runs sticks within it."""

    def checks_of(self, own: Sequence[Check]) -> tuple[Check, ...]:
        """A task's own checks, then the board's."""
        return (*own, *self.settings.checks)
