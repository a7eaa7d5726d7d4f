"""The rules for `tools`, `tool_choice` and `cache_control` marks."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from taskyard.services.practice.fields import bad, choice, known, listed, record, required, string, switch
from taskyard.services.practice.wire import ApiError

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_TOOL_FIELDS = (
    "name", "description", "input_schema", "strict", "cache_control", "type", "allowed_callers", "defer_loading",
    "eager_input_streaming", "input_examples",
)  # fmt: skip
_MOST_MARKS = 4


def check_tools(value: object, *, strict_allowed: bool) -> None:
    """`tools`: our own tools only, unique names, object schemas, closed schemas where `strict`."""
    seen: set[str] = set()
    for index, item in enumerate(listed(value, "tools")):
        path = f"tools.{index}"
        tool = record(item, path)
        known(tool, path, _TOOL_FIELDS if strict_allowed else [name for name in _TOOL_FIELDS if name != "strict"])
        required(tool, path, ("name", "input_schema"))
        if tool.get("type") is not None:
            choice(tool["type"], f"{path}.type", ("custom",))
        if not _TOOL_NAME.fullmatch(string(tool["name"], f"{path}.name")):
            raise bad(f"{path}.name", "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'")
        if tool["name"] in seen:
            raise bad(f"{path}.name", f"Tool names must be unique, {tool['name']!r} is there twice.")
        seen.add(tool["name"])
        if "description" in tool:
            string(tool["description"], f"{path}.description")
        _check_schema(tool, path)


def _check_schema(tool: Mapping[str, Any], path: str) -> None:
    path = f"{path}.input_schema"
    schema = record(tool["input_schema"], path)
    required(schema, path, ("type",))
    choice(schema["type"], f"{path}.type", ("object",))
    strict = tool.get("strict", False)
    switch(strict, f"{path.removesuffix('.input_schema')}.strict")
    if strict:
        _check_closed(schema, path)


def _check_closed(schema: Mapping[str, Any], path: str) -> None:
    """Every object of a strict schema lists all its properties as required and allows no others."""
    kinds = schema.get("type")
    if kinds == "object" or (isinstance(kinds, list) and "object" in kinds) or "properties" in schema:
        if schema.get("additionalProperties") is not False:
            raise bad(
                path, "For 'object' type, 'additionalProperties' must be explicitly set to false in a strict tool"
            )
        needed = listed(schema.get("required", []), f"{path}.required")
        missing = [name for name in record(schema.get("properties", {}), f"{path}.properties") if name not in needed]
        if missing:
            raise bad(
                f"{path}.required", f"a strict tool must require all its properties; missing: {', '.join(missing)}"
            )
    for inner_path, inner in _inner_schemas(schema, path):
        if isinstance(inner, dict):
            _check_closed(inner, inner_path)


def _inner_schemas(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, object]]:
    for group in ("properties", "$defs", "definitions"):
        for name, inner in record(schema.get(group, {}), f"{path}.{group}").items():
            yield f"{path}.{group}.{name}", inner
    for group in ("anyOf", "allOf", "oneOf"):
        for index, inner in enumerate(listed(schema.get(group, []), f"{path}.{group}")):
            yield f"{path}.{group}.{index}", inner
    yield f"{path}.items", schema.get("items")


def check_tool_choice(value: object, tools: Sequence[Mapping[str, Any]]) -> None:
    """`tool_choice`: `auto`, `any`, `none`, or `tool` with the name of a tool that is there."""
    fields = record(value, "tool_choice")
    required(fields, "tool_choice", ("type",))
    kind = choice(fields["type"], "tool_choice.type", ("auto", "any", "tool", "none"))
    names = {"type"} | ({"name"} if kind == "tool" else set())
    known(fields, "tool_choice", [*names, *(() if kind == "none" else ("disable_parallel_tool_use",))])
    if "disable_parallel_tool_use" in fields:
        switch(fields["disable_parallel_tool_use"], "tool_choice.disable_parallel_tool_use")
    if kind in ("any", "tool") and not tools:
        raise bad("tool_choice", "tool_choice may only be specified while providing tools")
    if kind == "tool":
        required(fields, "tool_choice", ("name",))
        name = string(fields["name"], "tool_choice.name")
        if name not in [tool["name"] for tool in tools]:
            raise bad("tool_choice.name", f"Tool '{name}' not found in provided tools")


def check_marks(body: Mapping[str, Any]) -> None:
    """`cache_control`: well formed, at most four, no longer ttl after a shorter one in the order the API reads."""
    marks = [(path, _checked_ttl(mark, path)) for path, mark in _marks(body) if mark is not None]
    if len(marks) > _MOST_MARKS:
        raise ApiError(
            400,
            f"{marks[_MOST_MARKS][0]}: A maximum of {_MOST_MARKS} blocks with cache_control may be provided. "
            f"Found {len(marks)}.",
        )
    short = False
    for path, ttl in marks:
        if ttl == "1h" and short:
            raise bad(
                f"{path}.ttl",
                "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that blocks "
                "are processed in the following order: `tools`, `system`, `messages`.",
            )
        short = short or ttl == "5m"


def _checked_ttl(mark: object, path: str) -> str:
    fields = record(mark, path)
    known(fields, path, ("type", "ttl"))
    required(fields, path, ("type",))
    choice(fields["type"], f"{path}.type", ("ephemeral",))
    return choice(fields.get("ttl", "5m"), f"{path}.ttl", ("5m", "1h"))


def _marks(body: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    yield from _marks_of(body.get("tools", []), "tools")
    yield from _marks_of(body.get("system", []), "system")
    for index, message in enumerate(body["messages"]):
        yield from _marks_of(message["content"], f"messages.{index}.content")
    if "cache_control" in body:
        yield "cache_control", body["cache_control"]


def _marks_of(blocks: object, path: str) -> Iterator[tuple[str, object]]:
    if not isinstance(blocks, list):
        return
    for index, block in enumerate(blocks):
        if block.get("type") == "tool_result":
            yield from _marks_of(block.get("content"), f"{path}.{index}.content")
        if "cache_control" in block:
            yield f"{path}.{index}.cache_control", block["cache_control"]
