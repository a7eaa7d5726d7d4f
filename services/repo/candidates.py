"""What goes into the merge queue and what comes out of it, and the commit message that tells of it."""

import re
from collections.abc import Awaitable, Sequence
from typing import Literal, Protocol

import msgspec

from taskyard.services.records import CheckResult

_SCISSORS = re.compile(r"^(?=. -+ >8 -+\s*$)", re.MULTILINE)
"""A line behind which git sees no trailers (wt-status.c); `.` is the comment sign."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """An accepted change."""

    task: str
    key: str
    """The task's `Task-Key`."""
    attempt: int
    tree: str
    """What the gate verified."""
    base_tree: str
    """The tree that the attempt started from."""
    subject: str
    body: str
    accepted_by: str = ""
    """Who accepted it in the judge's place; empty when the judge did."""


class OnTip(msgspec.Struct, frozen=True, tag="landed"):
    """The candidate is on the verified tip."""

    commit: str


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The candidate is not on the tip, and why."""

    kind: Literal["conflict", "red", "empty"]
    detail: str
    """For the next attempt's prompt."""


Outcome = OnTip | Refused


class Verify(Protocol):
    """Runs `[checks]` and the own checks of `tasks` on a tree; gives the red results, none when all are green.

    fresh: don't reuse a green result (a culprit is confirmed by running again).
    """

    def __call__(self, tree: str, tasks: Sequence[str], *, fresh: bool) -> Awaitable[tuple[CheckResult, ...]]: ...


def message_of(candidate: Candidate, run: str) -> str:
    """The message of a landed commit: subject, body, and the trailers that prove whose it is."""
    body = f"{candidate.body.strip()}\n\n" if candidate.body.strip() else ""
    trailers = {
        "Task-Id": candidate.task,
        "Run-Id": run,
        "Task-Key": candidate.key,
        "Attempt": str(candidate.attempt),
    }
    if candidate.accepted_by:
        trailers["Accepted-By"] = " ".join(candidate.accepted_by.split())
    text = _SCISSORS.sub(" ", f"{candidate.subject}\n\n{body}")
    return text + "".join(f"{key}: {value}\n" for key, value in trailers.items())
