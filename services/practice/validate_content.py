"""The rules for `system` and `messages`: roles, blocks, and the pairing of tool calls with their results."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from taskyard.services.practice.fields import at_least_one, bad, choice, known, listed, record, required, string, switch

Block = Mapping[str, Any]

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_TOOL_ID = re.compile(r"[a-zA-Z0-9_-]+")
_PARTS_OF_A_RESULT = ("text", "image", "document", "search_result")


def check_system(value: object) -> None:
    """`system`: a string, or text blocks."""
    if isinstance(value, str):
        return
    for index, item in enumerate(listed(value, "system")):
        path = f"system.{index}"
        _check_block(item, path, ("text",))


def check_messages(value: object) -> None:
    """`messages`: roles, non-empty content, known blocks, each tool call answered in the very next user message."""
    messages = listed(value, "messages")
    at_least_one(messages, "messages")
    for index, message in enumerate(messages):
        path = f"messages.{index}"
        fields = record(message, path)
        known(fields, path, ("role", "content"))
        required(fields, path, ("role", "content"))
        role = choice(fields["role"], f"{path}.role", ("user", "assistant"))
        if index == 0 and role != "user":
            raise bad(f"{path}.role", 'first message must use the "user" role')
        _check_content(fields["content"], path, role)
    _check_pairs(messages)


def _check_content(content: object, path: str, role: str) -> None:
    if isinstance(content, str):
        if not content.strip():
            raise bad(f"{path}.content", f"{role} messages must have non-empty content")
        return
    blocks = listed(content, f"{path}.content")
    if not blocks:
        raise bad(f"{path}.content", f"{role} messages must have non-empty content")
    for number, block in enumerate(blocks):
        _check_block(block, f"{path}.content.{number}", _BLOCKS_OF[role])


def _check_block(block: object, path: str, allowed: Sequence[str]) -> None:
    fields = record(block, path)
    required(fields, path, ("type",))
    kind = fields["type"]
    if kind not in allowed:
        tags = ", ".join(f"'{tag}'" for tag in allowed)
        raise bad(path, f"Input tag {kind!r} found using 'type' does not match any of the expected tags: {tags}")
    names, needed, check = _BLOCKS[kind]
    known(fields, path, ("type", *names))
    required(fields, path, needed)
    check(fields, path)


def _check_text(block: Block, path: str) -> None:
    if not string(block["text"], f"{path}.text").strip():
        raise bad(f"{path}.text", "text content blocks must be non-empty and contain non-whitespace text")


def _check_source(block: Block, path: str) -> None:
    required(record(block["source"], f"{path}.source"), f"{path}.source", ("type",))


def _check_search_result(block: Block, path: str) -> None:
    string(block["source"], f"{path}.source")
    string(block["title"], f"{path}.title")
    for index, part in enumerate(listed(block["content"], f"{path}.content")):
        _check_block(part, f"{path}.content.{index}", ("text",))


def _check_thinking(block: Block, path: str) -> None:
    string(block["thinking"], f"{path}.thinking")
    string(block["signature"], f"{path}.signature")


def _check_redacted(block: Block, path: str) -> None:
    string(block["data"], f"{path}.data")


def _check_tool_use(block: Block, path: str) -> None:
    if not _TOOL_ID.fullmatch(string(block["id"], f"{path}.id")):
        raise bad(f"{path}.id", "String should match pattern '^[a-zA-Z0-9_-]+$'")
    if not _TOOL_NAME.fullmatch(string(block["name"], f"{path}.name")):
        raise bad(f"{path}.name", "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'")
    record(block["input"], f"{path}.input")


def _check_tool_result(block: Block, path: str) -> None:
    string(block["tool_use_id"], f"{path}.tool_use_id")
    if "is_error" in block:
        switch(block["is_error"], f"{path}.is_error")
    content = block.get("content", "")
    if isinstance(content, str):
        return
    for index, part in enumerate(listed(content, f"{path}.content")):
        _check_block(part, f"{path}.content.{index}", _PARTS_OF_A_RESULT)


_Rule = tuple[tuple[str, ...], tuple[str, ...], Callable[[Block, str], None]]
_BLOCKS: dict[str, _Rule] = {
    "text": (("text", "cache_control", "citations"), ("text",), _check_text),
    "image": (("source", "cache_control", "transformations"), ("source",), _check_source),
    "document": (("source", "cache_control", "citations", "context", "title"), ("source",), _check_source),
    "search_result": (
        ("source", "title", "content", "citations", "cache_control"),
        ("source", "title", "content"),
        _check_search_result,
    ),
    "thinking": (("thinking", "signature"), ("thinking", "signature"), _check_thinking),
    "redacted_thinking": (("data",), ("data",), _check_redacted),
    "tool_use": (("id", "name", "input", "cache_control", "caller"), ("id", "name", "input"), _check_tool_use),
    "tool_result": (
        ("tool_use_id", "content", "is_error", "cache_control"),
        ("tool_use_id",),
        _check_tool_result,
    ),
}
"""Block type → its fields, those required, and the check of their values."""

_BLOCKS_OF = {
    "user": ("text", "image", "document", "search_result", "tool_result"),
    "assistant": ("text", "thinking", "redacted_thinking", "tool_use"),
}


def _blocks(message: Block, kind: str) -> list[Block]:
    content = message["content"]
    return [] if isinstance(content, str) else [block for block in content if block["type"] == kind]


def _check_pairs(messages: Sequence[Block]) -> None:
    """Each `tool_use` has its `tool_result` in the very next message, and each `tool_result` its `tool_use` before."""
    asked: list[str] = []
    for index, message in enumerate(messages):
        path = f"messages.{index}.content"
        answered = [block["tool_use_id"] for block in _blocks(message, "tool_result")]
        for tool_id in answered:
            if tool_id not in asked:
                raise bad(
                    path,
                    f"unexpected `tool_use_id` found in `tool_result` blocks: {tool_id}. Each `tool_result` block must "
                    "have a corresponding `tool_use` block in the previous message.",
                )
        if len(set(answered)) != len(answered):
            raise bad(path, "each `tool_use` must have a single result; a `tool_use_id` is answered twice")
        _check_answered(asked, answered, index - 1)
        _check_results_first(message, path)
        asked = [block["id"] for block in _blocks(message, "tool_use")]
        if len(set(asked)) != len(asked):
            raise bad(path, "`tool_use` ids must be unique")
    _check_answered(asked, [], len(messages) - 1)


def _check_answered(asked: Sequence[str], answered: Sequence[str], index: int) -> None:
    open_ids = [tool_id for tool_id in asked if tool_id not in answered]
    if open_ids:
        raise bad(
            f"messages.{index}.content",
            f"`tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(open_ids)}. Each "
            "`tool_use` block must have a corresponding `tool_result` block in the next message.",
        )


def _check_results_first(message: Block, path: str) -> None:
    if isinstance(message["content"], str):
        return
    others = False
    for block in message["content"]:
        if block["type"] == "tool_result" and others:
            raise bad(path, "`tool_result` blocks must come first in a message, before any other content")
        others = others or block["type"] != "tool_result"
