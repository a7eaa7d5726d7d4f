"""A model's answer: the raw response bytes, kept and replayed identical, and what is read from them."""

from typing import Any

import msgspec
import orjson

from taskyard.services.records import Usage


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer as the pipeline sees it."""

    name: str
    """The content name of its request."""
    model: str
    content: tuple[dict[str, Any], ...]
    """The content blocks, as received."""
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
        return "\n\n".join(str(block.get("text", "")) for block in self.content if block.get("type") == "text")

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
        body = orjson.loads(raw)
        usage = body.get("usage") or {}
        content = body["content"]
        if body.get("type") != "message" or not isinstance(content, list):
            raise ValueError("not a message")
        return Answer(
            name=name,
            model=str(body["model"]),
            content=tuple(dict(block) for block in content),
            stop_reason=str(body["stop_reason"]),
            usage=_usage(usage),
            raw=raw,
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise MalformedAnswer(f"the server's answer is no message: {error}") from error


def _usage(usage: dict[str, Any]) -> Usage:
    writes = usage.get("cache_creation") or {}
    one_hour = int(writes.get("ephemeral_1h_input_tokens") or 0)
    all_writes = int(usage.get("cache_creation_input_tokens") or 0)
    return Usage(
        input_tokens=int(usage.get("input_tokens") or 0),
        output_tokens=int(usage.get("output_tokens") or 0),
        cache_read_tokens=int(usage.get("cache_read_input_tokens") or 0),
        cache_write_5m_tokens=max(all_writes - one_hour, int(writes.get("ephemeral_5m_input_tokens") or 0)),
        cache_write_1h_tokens=one_hour,
    )
