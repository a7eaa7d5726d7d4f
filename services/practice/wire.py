"""The shapes of the Messages API that the practice server sends, and the types its model is written against.

def answer(body: Mapping[str, Any]) -> Reply:
    return Reply([{"type": "text", "text": "hello"}], "end_turn")
"""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec
import orjson

from taskyard.services.errors import PracticeError
from taskyard.services.records import Lane, Usage

Json = dict[str, Any]
Ids = Callable[[str], str]
"""A new id from a prefix such as `msg`, for example `msg_9f03…`."""

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""HTTP status → `error.type`."""

STOP_REASONS = ("end_turn", "tool_use", "max_tokens", "stop_sequence", "refusal", "pause_turn")

_STREAM_PIECE = 48


class Reply(msgspec.Struct, frozen=True):
    """What a practice model says to one request.

    The server adds the rest (ids, usage, stop sequences, the cut at `max_tokens`).
    """

    content: list[Json]
    """Blocks `{"type":"text","text":…}` and `{"type":"tool_use","name":…,"input":{…}}`; the `id`
    of a call is the server's: random, as in life, whatever the model says."""
    stop_reason: str
    """One of `STOP_REASONS`."""
    stop_sequence: str | None = None
    """The stop sequence that was met; set by the server."""


Answer = Callable[[Mapping[str, Any]], Reply]
"""A practice model: a pure function of the request's body. It must not change the body."""


class ApiError(PracticeError):
    """A refusal as the Messages API words it: an HTTP status and `error.message`, with further headers."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = ERROR_TYPES[status]
        self.headers = dict(headers or {})


def random_id(prefix: str) -> str:
    """`prefix_` and 24 random hexadecimal digits."""
    return f"{prefix}_{secrets.token_hex(12)}"


def error_object(kind: str, message: str) -> Json:
    """The error body without its `request_id`, as it stands in result lines and in streams."""
    return {"type": "error", "error": {"type": kind, "message": message}}


def canonical(value: object) -> bytes:
    """JSON with sorted keys and no spaces: the same bytes for the same value."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def request_key(params: Mapping[str, Any]) -> str:
    """The name by which payments are counted: blake2b-192 (hex) of the canonical JSON of all parameters but `stream`.

    `stream` changes how an answer travels, not what is paid for.
    """
    content = {name: value for name, value in params.items() if name != "stream"}
    return blake2b(canonical(content), digest_size=24).hexdigest()


def usage_object(usage: Usage, lane: Lane, *, cache_fields: bool = True) -> Json:
    """The `usage` of a message; without `cache_fields` as servers that know no prompt cache send it."""
    plain = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    if not cache_fields:
        return plain
    return plain | {
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write_5m_tokens,
            "ephemeral_1h_input_tokens": usage.cache_write_1h_tokens,
        },
        "service_tier": "batch" if lane == "batch" else "standard",
    }


def message_object(message_id: str, model: str, reply: Reply, usage: Json) -> Json:
    """A whole message, as `POST /v1/messages` answers it and as a batch's result line holds it."""
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": reply.content,
        "stop_reason": reply.stop_reason,
        "stop_sequence": reply.stop_sequence,
        "usage": usage,
    }


def with_ids(content: Sequence[Json], ids: Ids) -> list[Json]:
    """The content with a new id in each `tool_use` block, in the API's order of fields."""
    named: list[Json] = []
    for block in content:
        if block["type"] == "tool_use":
            head = {"type": "tool_use", "id": ids("toolu")}
            named.append(head | {"name": block["name"], "input": block["input"]})
        else:
            named.append(dict(block))
    return named


def stream_events(message: Json) -> Iterator[Json]:
    """The server-sent events that carry a message, in order."""
    usage: Json = message["usage"]
    opening = message | {
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage | {"output_tokens": 1},
    }
    yield {"type": "message_start", "message": opening}
    yield {"type": "ping"}
    for index, block in enumerate(message["content"]):
        yield from _block_events(index, block)
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": message["stop_sequence"]}
    counts = {name: value for name, value in usage.items() if name not in ("cache_creation", "service_tier")}
    yield {"type": "message_delta", "delta": ending, "usage": counts}
    yield {"type": "message_stop"}


def _block_events(index: int, block: Json) -> Iterator[Json]:
    if block["type"] == "tool_use":
        start = block | {"input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(_text(block["input"]))]
    else:
        start = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
    yield {"type": "content_block_start", "index": index, "content_block": start}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def sse(event: Json) -> bytes:
    """One server-sent event."""
    name: str = event["type"]
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(event) + b"\n\n"


def _text(value: object) -> str:
    return orjson.dumps(value).decode()


def _pieces(text: str) -> list[str]:
    return [text[start : start + _STREAM_PIECE] for start in range(0, len(text), _STREAM_PIECE)] or [""]
