"""What the practice model reads: the task's prompt and the conversation so far.

    prompt = read(body)            # body: a Messages API request, as a dictionary
    prompt.task, prompt.text       # "SD-2", the task word for word
    prompt.lessons                 # the text of each lesson block
    [step.name for step in prompt.steps]

Everything here is a pure function of the request's body. A body that is not a taskyard prompt reads as
role "other" or with an empty text; nothing raises.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

Role = Literal["planner", "implementer", "judge", "other"]

OWN_CHECK = "verify-"
"""How the names of a task's own checks begin."""

_ROLE_TOOLS: tuple[tuple[str, Role], ...] = (
    ("plan", "planner"),
    ("verdict", "judge"),
    ("finish", "implementer"),
)
_SECTIONS = (
    "Acceptance",
    "Checks",
    "Plan",
    "Lessons from earlier failures",
    "What was tried before",
    "Diff",
    "Gate",
)
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_CHECK = re.compile(r"^- `([^`\n]+)`:", re.MULTILINE)
_LESSON = re.compile(r"^<lesson id=\"[^\"\n]*\">$(.*?)^</lesson>$", re.MULTILINE | re.DOTALL)


class Step(msgspec.Struct, frozen=True):
    """One tool call of the conversation with its result."""

    turn: int
    """0-based number of the assistant message that holds the call."""
    name: str
    input: dict[str, Any]
    result: str
    failed: bool
    """The result came back with `is_error`."""


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A request as the practice model understands it."""

    role: Role
    task: str
    """The id behind "# Task "."""
    text: str
    """The task's title and body, word for word."""
    checks: tuple[str, ...]
    """The names in the section on checks, the task's own first."""
    lessons: tuple[str, ...]
    """The inside of each lesson block."""
    tried: str
    """The section on earlier attempts; empty on the first."""
    diff: str
    gate: str
    offered_checks: tuple[str, ...]
    """Names that the `run_check` tool takes."""
    steps: tuple[Step, ...]
    turns: int
    """Assistant messages so far."""


def read(body: Mapping[str, Any]) -> Prompt:
    """The prompt in a request's body."""
    messages = body.get("messages") or []
    head, sections = _split(_plain(messages[0].get("content")) if messages else "")
    first, _, text = head.partition("\n")
    return Prompt(
        role=_role(body),
        task=first.removeprefix("# Task ").strip() if first.startswith("# Task ") else "",
        text=text.strip("\n") if first.startswith("# Task ") else head,
        checks=tuple(_CHECK.findall(sections["Checks"])),
        lessons=tuple(match[1].strip("\n") for match in _LESSON.finditer(sections["Lessons from earlier failures"])),
        tried=sections["What was tried before"].strip(),
        diff=_unfenced(sections["Diff"]),
        gate=sections["Gate"].strip(),
        offered_checks=_offered_checks(body),
        steps=tuple(_steps(messages)),
        turns=sum(message.get("role") == "assistant" for message in messages),
    )


def outside_fences(text: str) -> Iterator[str]:
    """The lines of `text` that stand in no fenced block (CommonMark 4.5: a fence ends at a run as long as its own)."""
    for line, fenced in _marked(text):
        if not fenced:
            yield line


def _marked(text: str) -> Iterator[tuple[str, bool]]:
    fence = ""
    for line in text.split("\n"):
        run = _FENCE.match(line)
        if fence:
            yield line, True
            if run and run[1].startswith(fence) and not line[run.end() :].strip():
                fence = ""
        else:
            fence = run[1] if run else ""
            yield line, bool(run)


def _split(text: str) -> tuple[str, dict[str, str]]:
    """What stands before the first section, and each known section's text; headings inside fences are text."""
    head: list[str] = []
    parts: dict[str, list[str]] = {name: [] for name in _SECTIONS}
    current, left = head, list(_SECTIONS)
    for line, fenced in _marked(text):
        name = line.removeprefix("## ") if line.startswith("## ") and not fenced else ""
        if name in left:
            del left[: left.index(name) + 1]
            current = parts[name]
        else:
            current.append(line)
    return "\n".join(head), {name: "\n".join(lines) for name, lines in parts.items()}


def _unfenced(text: str) -> str:
    """The inside of the fenced blocks of `text`, or `text` itself when there is none."""
    lines = [line for line, fenced in _marked(text) if fenced and not _FENCE.match(line)]
    return "\n".join(lines) if lines else "\n".join(line for line in outside_fences(text) if line.strip())


def _role(body: Mapping[str, Any]) -> Role:
    names = {tool.get("name") for tool in body.get("tools") or []}
    return next((role for name, role in _ROLE_TOOLS if name in names), "other")


def _offered_checks(body: Mapping[str, Any]) -> tuple[str, ...]:
    for tool in body.get("tools") or []:
        if tool.get("name") == "run_check":
            name = tool.get("input_schema", {}).get("properties", {}).get("name", {})
            return tuple(name.get("enum") or ())
    return ()


def _steps(messages: Sequence[Mapping[str, Any]]) -> Iterator[Step]:
    results = {block["tool_use_id"]: block for block in _blocks(messages, "user", "tool_result")}
    turn = 0
    for message in messages:
        if message.get("role") != "assistant":
            continue
        for block in _blocks([message], "assistant", "tool_use"):
            result = results.get(block["id"], {})
            failed = bool(result.get("is_error"))
            yield Step(turn, block["name"], block.get("input") or {}, _plain(result.get("content")), failed)
        turn += 1


def _blocks(messages: Sequence[Mapping[str, Any]], role: str, kind: str) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        content = message.get("content")
        if message.get("role") == role and isinstance(content, list):
            yield from (block for block in content if block.get("type") == kind)


def _plain(content: Any) -> str:
    """The text of a message's or a tool result's content: a string, or blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content or [] if block.get("type") == "text")
