"""The error switch: which requests the practice server answers wrongly, and how.

    Fault("529", nth=2, times=3)                          # the second, third and fourth paid POST
    Fault("drop_after", path="/v1/messages/batches$")     # the first batch is taken, then the connection is reset
    Fault("expired", key="^T3-", times=0)                 # every row of a batch whose custom_id begins with T3-

At run time: `POST /practice/faults` with the same fields as JSON; on the command line `--fault 529:2:3`.
"""

import re
from collections.abc import Sequence
from threading import Lock
from typing import Literal, get_args

import msgspec

from taskyard.services.errors import PracticeError
from taskyard.services.practice.wire import Json

StatusKind = Literal["400", "401", "402", "403", "404", "413", "429", "500", "504", "529"]
WireKind = Literal["drop_before", "drop_after", "slow", "stall", "truncated_body", "not_json", "sse_error"]
JsonlKind = Literal["truncated_jsonl", "reordered_jsonl", "missing_row", "duplicate_row"]
RowKind = Literal["expired", "canceled", "errored_invalid", "errored_overloaded"]
AnswerKind = Literal["refusal", "max_tokens", "bad_tool_input", "empty_content", "wrong_tool"]
Kind = StatusKind | WireKind | JsonlKind | RowKind | AnswerKind | Literal["clock_skew"]

STATUS_KINDS: tuple[str, ...] = get_args(StatusKind)
WIRE_KINDS: tuple[str, ...] = get_args(WireKind)
JSONL_KINDS: tuple[str, ...] = get_args(JsonlKind)
ROW_KINDS: tuple[str, ...] = get_args(RowKind)
ANSWER_KINDS: tuple[str, ...] = get_args(AnswerKind)
KINDS = (*STATUS_KINDS, *WIRE_KINDS, *JSONL_KINDS, *ROW_KINDS, *ANSWER_KINDS, "clock_skew")

_PAID_POSTS = r"^POST /v1/messages(/batches)?$"
_DEFAULT_PATHS = {"404": r" /v1/messages/batches", "sse_error": r"^POST /v1/messages$"} | dict.fromkeys(
    JSONL_KINDS, r"^GET /v1/messages/batches/[^/]+/results$"
)
_AFTER_ACCEPT = ("drop_after", "stall", "truncated_body", "not_json", "sse_error")


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One wrong answer and when it is given. Which requests match is said by `path`, `key` and `text` together."""

    kind: str
    """One of `KINDS`."""
    path: str = ""
    """A regular expression searched in `METHOD /path`. Empty: paid POSTs for whole requests, results for JSONL kinds,
    the batch endpoints for `404`. Kinds that spoil an answer or a row are asked for each answer, whatever its path."""
    nth: int = 1
    """The first of the matching requests that is hit, from 1."""
    times: int = 1
    """How many of them in a row; 0 = all from then on."""
    key: str = ""
    """A regular expression searched in the request's payment key and its `custom_id` (for a POST of a batch: those of
    any of its rows)."""
    text: str = ""
    """A regular expression searched in the canonical JSON of the request's parameters."""
    seconds: float = 1.0
    """How long `slow` waits, what `retry-after` says, by how much `clock_skew` is ahead (negative: behind)."""
    accepted: bool | None = None
    """Whether the request is carried out (and paid) before it goes wrong. None: as the kind says; a status is not."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise PracticeError(f"there is no fault {self.kind!r}; there are {', '.join(KINDS)}")
        if self.nth < 1 or self.times < 0:
            raise PracticeError(f"fault {self.kind}: nth counts from 1 and times from 0")
        for pattern in (self.path, self.key, self.text):
            try:
                re.compile(pattern)
            except re.error as error:
                raise PracticeError(f"fault {self.kind}: {pattern!r} is not a regular expression: {error}") from error

    @property
    def after_accept(self) -> bool:
        """Whether the request is carried out before it goes wrong."""
        return self.kind in _AFTER_ACCEPT if self.accepted is None else self.accepted

    @property
    def where(self) -> str:
        """The pattern for `METHOD /path`."""
        return self.path or _DEFAULT_PATHS.get(self.kind, _PAID_POSTS)


def parse_fault(text: str) -> Fault:
    """A fault from `kind`, `kind:nth` or `kind:nth:times`. Raises PracticeError."""
    kind, *numbers = text.split(":")
    if len(numbers) > 2 or not all(number.isdecimal() for number in numbers):
        raise PracticeError(f"{text!r} is not a fault; write kind:nth or kind:nth:times, for example 529:2:3")
    counts = [int(number) for number in numbers] + [1, 1][len(numbers) :]
    return Fault(kind, nth=counts[0], times=counts[1])


class Subject(msgspec.Struct, frozen=True):
    """What a fault is matched against."""

    where: str = ""
    """`METHOD /path`."""
    names: tuple[str, ...] | None = None
    """Payment keys and custom_ids; None while the body is not read yet."""
    text: str = ""
    """Canonical JSON of the parameters."""


class _Armed:
    """A fault and how many matching requests it has seen."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.seen = 0
        self.hits = 0

    def strikes(self) -> bool:
        """Count one matching request; is it one of those to be hit?"""
        self.seen += 1
        past = self.seen - self.fault.nth
        hit = past >= 0 and (self.fault.times == 0 or past < self.fault.times)
        self.hits += hit
        return hit


class Faults:
    """The armed faults. Each counts the requests that match it on its own; of those that strike, the first counts."""

    def __init__(self, faults: Sequence[Fault] = ()) -> None:
        self._lock = Lock()
        self._armed = [_Armed(fault) for fault in faults]

    def arm(self, faults: Sequence[Fault]) -> None:
        """Add faults; they count from now on."""
        with self._lock:
            self._armed += [_Armed(fault) for fault in faults]

    def clear(self) -> None:
        """Remove all faults."""
        with self._lock:
            self._armed = []

    def snapshot(self) -> list[Json]:
        """The armed faults with the number of requests `seen` and `hits`, for `GET /practice/faults`."""
        with self._lock:
            return [
                msgspec.to_builtins(armed.fault) | {"seen": armed.seen, "hits": armed.hits} for armed in self._armed
            ]

    @property
    def look_into_bodies(self) -> bool:
        """Whether a fault for whole requests asks for what stands in their bodies."""
        with self._lock:
            return any(armed.fault.key or armed.fault.text for armed in self._armed)

    @property
    def skew_s(self) -> float:
        """By how many seconds the times that are sent are wrong."""
        with self._lock:
            return sum(armed.fault.seconds for armed in self._armed if armed.fault.kind == "clock_skew")

    def on_request(self, subject: Subject) -> list[Fault]:
        """The faults that hit a whole request. Asked twice: before the body is read (`names` is None) for faults that
        need not know it, and after for those with a `key` or `text`."""
        read = subject.names is not None
        return self._striking((*STATUS_KINDS, *WIRE_KINDS), subject, reading_body=read)

    def on_results(self, subject: Subject) -> list[Fault]:
        """The faults that hit the results of a batch."""
        return self._striking(JSONL_KINDS, subject)

    def on_row(self, subject: Subject) -> list[Fault]:
        """The faults that end a row of a batch without an answer."""
        return self._striking(ROW_KINDS, subject)

    def on_answer(self, subject: Subject) -> list[Fault]:
        """The faults that spoil one answer."""
        return self._striking(ANSWER_KINDS, subject)

    def _striking(self, kinds: Sequence[str], subject: Subject, *, reading_body: bool | None = None) -> list[Fault]:
        with self._lock:
            return [
                armed.fault
                for armed in self._armed
                if armed.fault.kind in kinds
                and (reading_body is None or reading_body == bool(armed.fault.key or armed.fault.text))
                and _matches(armed.fault, subject)
                and armed.strikes()
            ]


def _matches(fault: Fault, subject: Subject) -> bool:
    per_answer = fault.kind in ROW_KINDS or fault.kind in ANSWER_KINDS
    if not (per_answer and not fault.path) and not re.search(fault.where, subject.where):
        return False
    if fault.key and not any(re.search(fault.key, name) for name in subject.names or ()):
        return False
    return not fault.text or re.search(fault.text, subject.text) is not None
