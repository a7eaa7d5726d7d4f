"""Answers made wrong on purpose, and answers cut where the request asked for it."""

from collections.abc import Mapping
from typing import Any

from taskyard.services.practice.tokens import BYTES_PER_TOKEN, block_tokens, output_tokens
from taskyard.services.practice.wire import Json, Reply


def spoil(reply: Reply, kind: str, params: Mapping[str, Any]) -> Reply:
    """The reply with one of the answer faults: `refusal max_tokens bad_tool_input empty_content wrong_tool`."""
    if kind == "refusal":
        return Reply([], "refusal")
    if kind == "empty_content":
        return Reply([], "end_turn")
    if kind == "max_tokens":
        return cut(reply, max(1, output_tokens(reply.content) // 2))
    change: Json = {"input": {"nonsense": [1, None]}} if kind == "bad_tool_input" else {}
    content: list[Json] = []
    for block in reply.content:
        if block["type"] == "tool_use":
            wrong = change or {"name": _another(block["name"], params)}
            content.append(block | wrong)
        else:
            content.append(block)
    return Reply(content, reply.stop_reason)


def _another(name: str, params: Mapping[str, Any]) -> str:
    others = [tool["name"] for tool in params.get("tools", []) if tool["name"] != name]
    return others[0] if others else "no_such_tool"


def cut(reply: Reply, most: int) -> Reply:
    """The reply's first `most` tokens with stop reason `max_tokens`; unchanged when it is not longer.

    A tool call that is cut keeps its name and loses its input.
    """
    left = most
    content: list[Json] = []
    for block in reply.content:
        size = block_tokens(block)
        if size > left:
            return Reply([*content, *_part(block, left)], "max_tokens")
        left -= size
        content.append(block)
    return reply


def _part(block: Json, tokens: int) -> list[Json]:
    if block["type"] == "tool_use":
        return [block | {"input": {}}] if tokens else []
    text = block["text"].encode()[: tokens * BYTES_PER_TOKEN].decode(errors="ignore")
    return [block | {"text": text}] if text else []


def stop_at(reply: Reply, sequences: list[str]) -> Reply:
    """The reply up to the first stop sequence in its text, which is left out."""
    content: list[Json] = []
    for block in reply.content:
        found = [(block["text"].find(stop), stop) for stop in sequences] if block["type"] == "text" else []
        first = min((place for place in found if place[0] >= 0), default=None)
        if first is None:
            content.append(block)
            continue
        kept = block["text"][: first[0]]
        return Reply([*content, *([block | {"text": kept}] if kept else [])], "stop_sequence", first[1])
    return reply


def one_tool_call(reply: Reply) -> Reply:
    """The reply up to its first tool call."""
    for index, block in enumerate(reply.content):
        if block["type"] == "tool_use":
            return Reply(reply.content[: index + 1], reply.stop_reason, reply.stop_sequence)
    return reply
