"""The bodies of the three roles' requests: pure functions of prompts, tools and the conversation so far."""

import json
import re
from collections.abc import Sequence
from importlib import resources
from typing import Any

from taskyard.services.prompts import Prompt
from taskyard.services.records import Role

MAX_TOKENS: dict[Role, int] = {"planner": 4_096, "implementer": 16_000, "judge": 4_096}
_DROPPED = "(left out to save space; call the tool again if you need it)"
_BYTES_PER_TOKEN = 3
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_MARK = {"type": "ephemeral"}


def load_tools() -> dict[Role, tuple[dict[str, Any], ...]]:
    """The tools of each role, to the letter of the contract."""
    text = resources.files("taskyard.services").joinpath("pipeline", "tools.json").read_text("utf-8")
    tools = json.loads(text)
    return {
        "planner": tuple(tools["planner"]),
        "implementer": tuple(tools["implementer"]),
        "judge": tuple(tools["judge"]),
    }


def implementer_tools(tools: Sequence[dict[str, Any]], checks: Sequence[str]) -> list[dict[str, Any]]:
    """The implementer's tools with the names of this task's checks filled in."""
    names = {"name": {"type": "string", "enum": list(checks)}}
    return [
        {**tool, "input_schema": {**tool["input_schema"], "properties": names}} if tool["name"] == "run_check" else tool
        for tool in tools
    ]


def single(role: Role, model: str, prompt: Prompt, tools: Sequence[dict[str, Any]], forced: str) -> dict[str, Any]:
    """A request that must be answered by one call of the tool `forced`."""
    return {
        "model": model,
        "max_tokens": MAX_TOKENS[role],
        "system": list(prompt.system),
        "messages": [{"role": "user", "content": [{"type": "text", "text": prompt.first}]}],
        "tools": list(tools),
        "tool_choice": {"type": "tool", "name": forced},
    }


def turn(
    model: str, prompt: Prompt, tools: Sequence[dict[str, Any]], later: Sequence[dict[str, Any]], context_tokens: int
) -> dict[str, Any]:
    """The implementer's next request: first message, then the conversation, its last block marked for the cache."""
    first = {"role": "user", "content": [{"type": "text", "text": prompt.first}]}
    messages = trim([first, *later], context_tokens)
    last = messages[-1]
    marked = {**last, "content": [*last["content"][:-1], {**last["content"][-1], "cache_control": _MARK}]}
    return {
        "model": model,
        "max_tokens": MAX_TOKENS["implementer"],
        "system": list(prompt.system),
        "messages": [*messages[:-1], marked],
        "tools": list(tools),
        "tool_choice": {"type": "any"},
    }


def trim(messages: list[dict[str, Any]], context_tokens: int) -> list[dict[str, Any]]:
    """Drop the oldest tool results until the conversation fits; the first message and the last one stay whole."""
    budget = context_tokens * _BYTES_PER_TOKEN
    size = sum(_size(message) for message in messages)
    kept = list(messages)
    for index in range(1, len(kept) - 1):
        if size <= budget:
            break
        if kept[index]["role"] != "user":
            continue
        short = {
            **kept[index],
            "content": [
                {**block, "content": _DROPPED} if _longer(block) else block for block in kept[index]["content"]
            ],
        }
        size -= _size(kept[index]) - _size(short)
        kept[index] = short
    return kept


def _size(message: dict[str, Any]) -> int:
    return len(json.dumps(message, ensure_ascii=False).encode(errors="replace"))


def _longer(block: dict[str, Any]) -> bool:
    """A tool result that dropping makes shorter."""
    return block["type"] == "tool_result" and len(block["content"]) > len(_DROPPED)


def renumbered(content: Sequence[dict[str, Any]], turn_number: int) -> list[dict[str, Any]]:
    """An answer's blocks as they go back, with tool ids that depend on their place alone.

    The server's ids are random, and a request's name must not be. What the API would refuse to see again (blank text,
    a tool name or an input out of form) is left out or put into form.
    """
    blocks: list[dict[str, Any]] = []
    calls = 0
    for block in content:
        if block.get("type") == "tool_use":
            calls += 1
            id_ = f"toolu_{turn_number}_{calls}"
            given = block.get("input")
            blocks.append(
                {
                    "type": "tool_use",
                    "id": id_,
                    "name": _NOT_IN_NAMES.sub("_", str(block.get("name")))[:128] or "_",
                    "input": given if isinstance(given, dict) else {},
                }
            )
        elif block.get("type") != "text":
            blocks.append(block)
        elif isinstance(text := block.get("text"), str) and text.strip():
            blocks.append({"type": "text", "text": text})
    return blocks
