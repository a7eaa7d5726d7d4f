"""The events of a run, one frozen record each, as `contract/events.md` has them: seen by every screen and stored.

    log = EventLog("r7k2", clock, sinks=[screen.show])
    log.emit(Warning(code="dirty", message="uncommitted changes are ignored"))

`at` and `run` are filled in by the log. Money in US dollars, times in seconds, sizes in bytes.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from taskyard.services.clock import Clock, rfc3339
from taskyard.services.records import CheckPlace, Lane, Role, Source, TaskState

LandingStep = Literal["merging", "verifying", "bisecting", "confirming", "pushing", "refused"]
LessonAction = Literal["recorded", "seen_again", "resolved", "offered", "helped", "retired"]
Reason = Literal["done", "failed", "budget", "interrupted", "error", "needs_you"]


def _name(type_name: str) -> str:
    """RunStarted → run_started."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in type_name).lstrip("_")


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=_name):
    """What every event has."""

    at: str = ""
    run: str = ""


class RunStarted(Event, frozen=True, kw_only=True):
    board: str
    base: str
    tasks: int
    lane: str
    concurrency: int
    budget_usd: float | None
    resumed: bool


class TaskStateChanged(Event, frozen=True, kw_only=True, tag="task_state"):
    task: str
    state: TaskState
    attempt: int
    detail: str | None = None


class AnswerGiven(Event, frozen=True, kw_only=True, tag="answer"):
    task: str
    role: Role
    attempt: int
    turn: int
    model: str
    lane: Lane
    source: Source
    key: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: float | None
    saved_usd: float | None


class BatchSubmitted(Event, frozen=True, kw_only=True):
    batch: str
    requests: int


class BatchEnded(Event, frozen=True, kw_only=True):
    batch: str
    requests: int
    succeeded: int
    errored: int
    expired: int
    canceled: int
    wait_s: float


class PossiblyPaid(Event, frozen=True, kw_only=True):
    key: str
    model: str
    worst_case_usd: float | None
    reason: str


class CheckFinished(Event, frozen=True, kw_only=True):
    task: str | None
    check: str
    tree: str
    exit: int | None
    seconds: float
    source: Literal["run", "cache"]
    where: CheckPlace


class LessonChanged(Event, frozen=True, kw_only=True, tag="lesson"):
    lesson: str
    task: str
    failure_type: str
    times_seen: int
    action: LessonAction


class LandingStepped(Event, frozen=True, kw_only=True, tag="landing"):
    landing: str
    step: LandingStep
    tasks: tuple[str, ...]
    detail: str | None = None


class Landed(Event, frozen=True, kw_only=True):
    landing: str
    tasks: tuple[str, ...]
    commit: str
    ref: str
    pushed: bool


class Warned(Event, frozen=True, kw_only=True, tag="warning"):
    code: str
    message: str


class SavedUsd(msgspec.Struct, frozen=True, kw_only=True):
    """Dollars not paid, by what avoided them."""

    cache: float = 0.0
    shared: float = 0.0
    batch: float = 0.0
    prompt_cache: float = 0.0


class RequestCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Answers by where they came from, paid ones by lane too."""

    paid: int = 0
    cache: int = 0
    shared: int = 0
    live: int = 0
    batched: int = 0
    batches: int = 0


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a whole run, from its first start."""

    cost_usd: float | None = 0.0
    possibly_paid_usd: float | None = 0.0
    saved_usd: SavedUsd = SavedUsd()
    requests: RequestCounts = RequestCounts()
    pushes: int = 0
    wall_s: float = 0.0
    work_s: float = 0.0
    speedup: float = 0.0


class RunFinished(Event, frozen=True, kw_only=True):
    tasks: dict[str, int]
    exit: int
    reason: Reason
    cost_usd: float | None
    possibly_paid_usd: float | None
    saved_usd: SavedUsd
    requests: RequestCounts
    pushes: int
    wall_s: float
    work_s: float
    speedup: float


AnyEvent = (
    RunStarted | TaskStateChanged | AnswerGiven | BatchSubmitted | BatchEnded | PossiblyPaid | CheckFinished
    | LessonChanged | LandingStepped | Landed | Warned | RunFinished
)  # fmt: skip

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyEvent)


def encode(event: Event) -> bytes:
    """The event as one line of JSON, without the line's end."""
    return _encoder.encode(event)


def decode(line: bytes) -> AnyEvent:
    """The inverse of `encode`. Raises msgspec.ValidationError."""
    return _decoder.decode(line)


class EventLog:
    """Stamps events and hands them, in order, to everyone who listens."""

    def __init__(self, run: str, clock: Clock, sinks: Sequence[Callable[[Event], None]]) -> None:
        self._run = run
        self._clock = clock
        self._sinks = tuple(sinks)

    def emit(self, event: Event) -> None:
        """Send one event; returns when every listener has had it."""
        stamped = msgspec.structs.replace(event, at=rfc3339(self._clock.now()), run=self._run)
        for sink in self._sinks:
            sink(stamped)
