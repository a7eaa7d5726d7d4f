"""What the practice server sends for a request, whole or spoilt by a fault."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
import orjson

from taskyard.services.clock import rfc3339
from taskyard.services.practice.faults import Fault
from taskyard.services.practice.wire import ApiError, Json, error_object, sse, stream_events

Ending = Literal["whole", "cut", "drop", "stall"]

_JSON = {"content-type": "application/json"}
_STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
_MESSAGES = {
    "400": "the practice server was told to refuse this request",
    "401": "invalid x-api-key",
    "402": "Your credit balance is too low to access the API.",
    "403": "Your API key does not have permission to use the specified resource.",
    "404": "Not Found",
    "413": "Request exceeds the maximum size",
    "429": "This request would exceed your rate limit.",
    "500": "Internal server error",
    "504": "Request timed out",
    "529": "Overloaded",
}
_RATE_LIMITS = {"requests": 1000, "input-tokens": 400_000, "output-tokens": 80_000}


class Response(msgspec.Struct, frozen=True):
    """A response, and how it ends on the wire."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    events: tuple[bytes, ...] = ()
    """Server-sent events in place of a body."""
    ending: Ending = "whole"
    """`cut`: the body breaks off half-way; `drop`: the connection is reset; `stall`: nothing is ever sent."""


WITHOUT_A_WORD = Response(200, {}, ending="drop")
"""The connection is reset before anything was sent."""


def json_response(body: object) -> Response:
    """A 200 with a JSON body."""
    return Response(200, _JSON, orjson.dumps(body))


def error_response(error: ApiError, request_id: str) -> Response:
    """A refusal in the API's form."""
    body = error_object(error.kind, str(error)) | {"request_id": request_id}
    return Response(error.status, _JSON | error.headers, orjson.dumps(body))


def stream_response(message: Json) -> Response:
    """A message as server-sent events."""
    return Response(200, _STREAM, events=tuple(sse(event) for event in stream_events(message)))


def results_response(lines: Sequence[Json], faults: Sequence[Fault]) -> Response:
    """The result lines of a batch, with the JSONL faults that struck."""
    for fault in faults:
        lines = _spoilt_lines(lines, fault)
    body = b"".join(orjson.dumps(line) + b"\n" for line in lines)
    return Response(200, {"content-type": "application/x-jsonl"}, body)


def spoilt(fault: Fault, response: Response | None, now: float) -> Response:
    """What a fault makes of a response. Raises ApiError for the faults that are a status.

    response: None when the request was not carried out. now: seconds since 1970, as the server says.
    """
    if fault.kind in ("drop_before", "drop_after"):
        return WITHOUT_A_WORD
    if fault.kind == "stall":
        return Response(200, {}, ending="stall")
    if fault.kind == "not_json":
        return Response(200, {"content-type": "text/html"}, b"<html><body>Bad gateway</body></html>")
    response = response or json_response(error_object("api_error", _MESSAGES["500"]))
    if fault.kind == "truncated_body":
        return msgspec.structs.replace(response, ending="cut")
    if fault.kind == "sse_error":
        return _error_inside(response)
    headers = _rate_headers(fault.seconds, now) if fault.kind == "429" else {}
    raise ApiError(int(fault.kind), _MESSAGES[fault.kind], headers)


def _error_inside(response: Response) -> Response:
    """A 200 that turns out to be an error: half of a stream and then an `error` event, or an error as the body."""
    error = error_object("overloaded_error", "Overloaded")
    if not response.events:
        return msgspec.structs.replace(response, body=orjson.dumps(error))
    half = response.events[: max(2, len(response.events) // 2)]
    return msgspec.structs.replace(response, events=(*half, sse(error)))


def _rate_headers(wait_s: float, now: float) -> dict[str, str]:
    headers = {"retry-after": f"{wait_s:g}"}
    for name, limit in _RATE_LIMITS.items():
        headers[f"anthropic-ratelimit-{name}-limit"] = str(limit)
        headers[f"anthropic-ratelimit-{name}-remaining"] = "0"
        headers[f"anthropic-ratelimit-{name}-reset"] = rfc3339(now + wait_s)
    return headers


def _spoilt_lines(lines: Sequence[Json], fault: Fault) -> list[Json]:
    """The row that is missing or doubled is the first whose custom_id matches the fault's key."""
    if fault.kind == "truncated_jsonl":
        return list(lines[: len(lines) // 2])
    if fault.kind == "reordered_jsonl":
        return list(reversed(lines))
    matching = (number for number, line in enumerate(lines) if re.search(fault.key, line["custom_id"]))
    row = next(matching, 0)
    if fault.kind == "missing_row":
        return [*lines[:row], *lines[row + 1 :]]
    return [*lines, lines[row]]
