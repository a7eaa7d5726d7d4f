"""A model's answer: the raw response bytes, kept and replayed identical, and what is read from them."""

import json
import math
import re
from typing import Any

import msgspec
import orjson

from taskyard.services.records import Usage

_MOST_TOKENS = 10**9
_SURROGATES = re.compile("[\ud800-\udfff]")


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer as the pipeline sees it."""

    name: str
    """The content name of its request."""
    model: str
    content: tuple[dict[str, Any], ...]
    """The content blocks, as received; what is no block is left out."""
    stop_reason: str
    usage: Usage
    raw: bytes
    """The response body, byte for byte."""

    @property
    def tool_uses(self) -> tuple[dict[str, Any], ...]:
        """The `tool_use` blocks, in order."""
        return tuple(block for block in self.content if block.get("type") == "tool_use")

    @property
    def text(self) -> str:
        """All text blocks, joined by blank lines."""
        texts = [block.get("text") for block in self.content if block.get("type") == "text"]
        return "\n\n".join(text for text in texts if isinstance(text, str))

    @property
    def good(self) -> bool:
        """Whether it may serve other tasks: not refused, not cut off, not empty."""
        return self.stop_reason in {"end_turn", "tool_use", "stop_sequence"} and bool(self.content)


def useful(answer: Answer, params: dict[str, Any]) -> bool:
    """Whether an answer may serve everyone who asks the same: it is good, and has the tool call that was demanded."""
    wanted_tool = params.get("tool_choice", {}).get("type") in {"tool", "any"}
    return answer.good and (bool(answer.tool_uses) or not wanted_tool)


class MalformedAnswer(Exception):
    """A response that is no message. It may have been paid."""


def read_answer(name: str, raw: bytes) -> Answer:
    """What a response body says. Raises MalformedAnswer when it is not the JSON of a message."""
    try:
        body = _loaded(raw)
        content = body["content"]
        if body.get("type") != "message" or not isinstance(content, list):
            raise ValueError("not a message")
        return Answer(
            name=name,
            model=str(body["model"]),
            content=tuple(block for block in content if isinstance(block, dict)),
            stop_reason=str(body["stop_reason"]),
            usage=_usage(_object(body.get("usage"))),
            raw=raw,
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise MalformedAnswer(f"the server's answer is no message: {error}") from error


def _loaded(raw: bytes) -> Any:
    """The JSON of a body; what is out of form in it is mended, since it was paid and another one would be too."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return _mended(json.loads(raw.decode("utf-8", "replace")))


def _mended(value: Any) -> Any:
    """A value that can go back to the server: no lone surrogates, no NaN or infinity, no integer above 64 bits."""
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        value = float(value) if abs(value) < 10**300 else math.inf
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _usage(usage: dict[str, Any]) -> Usage:
    writes = _object(usage.get("cache_creation"))
    one_hour = _count(writes.get("ephemeral_1h_input_tokens"))
    all_writes = _count(usage.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=_count(usage.get("input_tokens")),
        output_tokens=_count(usage.get("output_tokens")),
        cache_read_tokens=_count(usage.get("cache_read_input_tokens")),
        cache_write_5m_tokens=max(all_writes - one_hour, _count(writes.get("ephemeral_5m_input_tokens"))),
        cache_write_1h_tokens=one_hour,
    )


def _count(value: Any) -> int:
    """Tokens, whatever the server says of them: a bill can't be negative, nor break a sum."""
    return int(min(max(value, 0), _MOST_TOKENS)) if isinstance(value, int | float) else 0
