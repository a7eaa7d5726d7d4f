"""What happens to one request once it is read: check, answer, count tokens, take payment. Knows nothing of HTTP."""

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any

import msgspec

from taskyard.services.practice.faults import Faults, Subject
from taskyard.services.practice.ledger import Ledger, Payment
from taskyard.services.practice.spoil import cut, one_tool_call, spoil, stop_at
from taskyard.services.practice.tokens import PromptCache, Writes, input_tokens, output_tokens
from taskyard.services.practice.validate import check_count, check_message
from taskyard.services.practice.wire import (
    STOP_REASONS,
    Answer,
    ApiError,
    Ids,
    Json,
    Reply,
    canonical,
    error_object,
    message_object,
    request_key,
    usage_object,
    with_ids,
)
from taskyard.services.records import Lane

SERVED = ("practice", "claude-*")
"""The models that are served unless others are named: names or `fnmatch` patterns."""

_ROW_ERRORS = {
    "errored_invalid": ("invalid_request_error", "the practice server was told to find this request invalid"),
    "errored_overloaded": ("overloaded_error", "Overloaded"),
}


class Switches(msgspec.Struct, frozen=True):
    """What other servers of the Messages API lack; all True is the provider's own."""

    batches: bool = True
    """False: the batch endpoints answer 404."""
    count_tokens: bool = True
    """False: `count_tokens` answers 404."""
    strict_tools: bool = True
    """False: a tool with `strict` is refused (400)."""
    cache_control: bool = True
    """False: marks are neither checked nor honoured."""
    cache_usage: bool = True
    """False: `usage` has no cache fields and no service tier."""
    parallel_tools: bool = True
    """False: an answer ends after its first tool call."""


class Row(msgspec.Struct, frozen=True):
    """One request of a batch and how it is going to end."""

    custom_id: str
    result: Json
    """The `result` of its line."""
    payment: Payment | None
    """None when it does not succeed."""


class Engine:
    """Answers requests with a practice model and counts what they cost.

    model: the practice model. served: the models there are. now: seconds since 1970, as the server sees them.
    """

    def __init__(
        self,
        model: Answer,
        *,
        served: Sequence[str],
        switches: Switches,
        faults: Faults,
        ledger: Ledger,
        ids: Ids,
        now: Callable[[], float],
    ) -> None:
        self.switches = switches
        self._model = model
        self._served = served
        self._faults = faults
        self._ledger = ledger
        self._ids = ids
        self._now = now
        self._cache = PromptCache()
        self._cache_lock = Lock()

    def message(self, params: object, where: str) -> Json:
        """Carry out `POST /v1/messages`, paid and on the ledger when this returns. Raises ApiError."""
        body = self._checked(params)
        reply = self._reply(body, Subject(where, (request_key(body),), canonical(body).decode()))
        with self._cache_lock:
            message, payment, writes = self._priced(body, reply, "live")
            self._cache.keep(writes)
        self._ledger.pay([payment])
        return message

    def count(self, params: object) -> Json:
        """Carry out `POST /v1/messages/count_tokens`. Raises ApiError."""
        switches = self.switches
        body = check_count(
            params, served=self._served, strict_tools=switches.strict_tools, marks=switches.cache_control
        )
        return {"input_tokens": input_tokens(body)}

    def rows(self, requests: Sequence[Mapping[str, Any]], where: str) -> list[Row]:
        """Carry out the requests of a batch; nothing is paid yet.

        They run side by side, so none reads from the prompt cache what another one of them wrote.
        """
        answered = [self._answered(request["custom_id"], request["params"], where) for request in requests]
        rows: list[Row] = []
        kept: list[Writes] = []
        with self._cache_lock:
            for request, outcome in zip(requests, answered, strict=True):
                if isinstance(outcome, Reply):
                    message, payment, writes = self._priced(request["params"], outcome, "batch")
                    rows.append(Row(request["custom_id"], {"type": "succeeded", "message": message}, payment))
                    kept.append(writes)
                else:
                    rows.append(Row(request["custom_id"], outcome, None))
            for writes in kept:
                self._cache.keep(writes)
        return rows

    def _answered(self, custom_id: str, params: Json, where: str) -> Reply | Json:
        """The model's reply to one row, or the `result` of a row that does not succeed."""
        subject = Subject(where, (custom_id, request_key(params)), canonical(params).decode())
        for fault in self._faults.on_row(subject):
            return _ended(fault.kind)
        try:
            if params.get("stream"):
                raise ApiError(400, "stream: Streaming is not supported in a batch")
            return self._reply(self._checked(params), subject)
        except ApiError as error:
            return _errored(error.kind, str(error))

    def _checked(self, params: object) -> Mapping[str, Any]:
        switches = self.switches
        return check_message(
            params, served=self._served, strict_tools=switches.strict_tools, marks=switches.cache_control
        )

    def _reply(self, body: Mapping[str, Any], subject: Subject) -> Reply:
        try:
            reply = self._model(body)
        except Exception as error:  # whatever a model raises becomes the API's 500, as in life
            raise ApiError(500, f"the practice model failed: {type(error).__name__}: {error}") from error
        if reply.stop_reason not in STOP_REASONS:
            raise ApiError(500, f"the practice model gave the unknown stop reason {reply.stop_reason!r}")
        for fault in self._faults.on_answer(subject):
            reply = spoil(reply, fault.kind, body)
        if not self.switches.parallel_tools or body.get("tool_choice", {}).get("disable_parallel_tool_use"):
            reply = one_tool_call(reply)
        return cut(stop_at(reply, body.get("stop_sequences", [])), body["max_tokens"])

    def _priced(self, body: Mapping[str, Any], reply: Reply, lane: Lane) -> tuple[Json, Payment, Writes]:
        """The message, its payment and what it leaves in the prompt cache. Call with the cache's lock held."""
        usage, writes = self._cache.measure(body, lane, self._now(), marks=self.switches.cache_control)
        usage = msgspec.structs.replace(usage, output_tokens=output_tokens(reply.content))
        reply = msgspec.structs.replace(reply, content=with_ids(reply.content, self._ids))
        shown = usage_object(usage, lane, cache_fields=self.switches.cache_usage)
        message = message_object(self._ids("msg"), body["model"], reply, shown)
        return message, Payment(request_key(body), lane, body["model"], usage), writes


def _errored(kind: str, message: str) -> Json:
    return {"type": "errored", "error": error_object(kind, message)}


def _ended(kind: str) -> Json:
    return _errored(*_ROW_ERRORS[kind]) if kind in _ROW_ERRORS else {"type": kind}
