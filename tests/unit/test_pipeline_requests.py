"""The bodies of the roles' requests: the same bytes every time, and never one that the API would refuse."""

import json
from importlib import resources
from typing import Any

import orjson
import pytest

from taskyard.services.pipeline.requests import (
    MAX_TOKENS,
    implementer_tools,
    load_tools,
    renumbered,
    single,
    trim,
    turn,
)
from taskyard.services.practice.validate import check_message
from taskyard.services.prompts import Prompt
from taskyard.services.records import Role

PROMPT = Prompt(
    system=(
        {"type": "text", "text": "Rules."},
        {"type": "text", "text": "Map.", "cache_control": {"type": "ephemeral"}},
    ),
    first="# Task T1\n\nDo it.",
)
TOOLS = load_tools()
NAMES: dict[Role, list[str]] = {
    "implementer": ["view", "search", "edit", "create", "delete", "run_check", "finish"],
    "planner": ["plan"],
    "judge": ["verdict"],
}


def valid(body: dict[str, Any]) -> None:
    """The practice server, which is as strict as the API, takes it."""
    check_message(json.loads(json.dumps(body)), served=("practice",))


def conversation(turns: int, size: int = 40, calls: int = 2) -> list[dict[str, Any]]:
    """A conversation of `turns` turns, each with `calls` calls and results of `size` characters."""
    later: list[dict[str, Any]] = []
    for number in range(1, turns + 1):
        content = [{"type": "text", "text": "Look."}]
        content += [
            {"type": "tool_use", "id": f"x{number}{n}", "name": "view", "input": {"path": "a"}} for n in range(calls)
        ]
        results = [
            {"type": "tool_result", "tool_use_id": f"toolu_{number}_{n}", "content": "ü" * size}
            for n in range(1, calls + 1)
        ]
        later += [{"role": "assistant", "content": renumbered(content, number)}, {"role": "user", "content": results}]
    return later


def marks(value: Any) -> int:
    """How many cache marks there are in a body."""
    if isinstance(value, dict):
        return int("cache_control" in value) + sum(marks(item) for item in value.values())
    return sum(marks(item) for item in value) if isinstance(value, list) else 0


def test_the_tools_are_the_contracts() -> None:
    """Names, required fields and nullable ones as in the contract; strict and closed."""
    text = resources.files("taskyard.services").joinpath("pipeline", "tools.json").read_text("utf-8")
    packaged = json.loads(text)
    assert {role: [tool["name"] for tool in tools] for role, tools in packaged.items()} == NAMES
    for role, tools in packaged.items():
        assert json.loads(json.dumps(TOOLS[role])) == tools
        for tool in tools:
            schema = tool["input_schema"]
            assert set(tool) == {"name", "strict", "description", "input_schema"}
            assert tool["strict"] is True
            assert schema["additionalProperties"] is False
            assert schema["required"] == list(schema["properties"])
    nullable = {
        (tool["name"], field)
        for tool in packaged["implementer"]
        for field, schema in tool["input_schema"]["properties"].items()
        if schema["type"] == ["integer", "null"] or schema["type"] == ["string", "null"]
    }
    assert nullable == {("view", "start"), ("view", "end"), ("search", "glob"), ("edit", "count")}


def test_run_check_offers_the_tasks_own_checks() -> None:
    """Names from the board only, and the other tools untouched."""
    tools = implementer_tools(TOOLS["implementer"], ["verify-1", "test"])
    by_name = {tool["name"]: tool for tool in tools}
    assert by_name["run_check"]["input_schema"]["properties"] == {
        "name": {"type": "string", "enum": ["verify-1", "test"]}
    }
    assert [tool for tool in tools if tool["name"] != "run_check"] == [
        tool for tool in TOOLS["implementer"] if tool["name"] != "run_check"
    ]
    assert "(the task's check names)" in json.dumps(TOOLS["implementer"])


@pytest.mark.parametrize(("role", "forced"), [("planner", "plan"), ("judge", "verdict")])
def test_planner_and_judge_are_forced_to_their_tool(role: Role, forced: str) -> None:
    """A single request is valid, forced, and marked for the provider's cache at most four times."""
    body = single(role, "practice", PROMPT, TOOLS[role], forced)
    valid(body)
    assert body["tool_choice"] == {"type": "tool", "name": forced}
    assert body["max_tokens"] == MAX_TOKENS[role]
    assert marks(body) <= 4


@pytest.mark.parametrize("turns", [0, 1, 12])
def test_a_turn_is_valid_and_marks_its_last_block(turns: int) -> None:
    """The cache mark walks along with the conversation and never adds up."""
    body = turn("practice", PROMPT, implementer_tools(TOOLS["implementer"], ["c"]), conversation(turns), 120_000)
    valid(body)
    assert body["tool_choice"] == {"type": "any"}
    assert body["messages"][-1]["content"][-1]["cache_control"] == {"type": "ephemeral"}
    assert marks(body) == 2


def test_the_same_conversation_gives_the_same_bytes_whatever_the_servers_ids() -> None:
    """A request's name must not depend on random ids, on what was built before, or on shared state."""
    tools = implementer_tools(TOOLS["implementer"], ["c"])
    bodies = set()
    for ids in ("a", "b"):
        content = [{"type": "tool_use", "id": f"toolu_{ids}", "name": "view", "input": {"path": "a", "start": None}}]
        results = [{"type": "tool_result", "tool_use_id": "toolu_1_1", "content": "1\ta"}]
        later = [{"role": "assistant", "content": renumbered(content, 1)}, {"role": "user", "content": results}]
        before = orjson.dumps(later)
        for _ in range(2):
            bodies.add(orjson.dumps(turn("practice", PROMPT, tools, later, 120_000)))
        assert orjson.dumps(later) == before
    assert len(bodies) == 1


def test_an_answer_goes_back_in_a_form_that_the_api_takes() -> None:
    """Blank text is left out; a name or an input out of form is mended."""
    content: list[dict[str, Any]] = [
        {"type": "text", "text": ""},
        {"type": "text", "text": " \n"},
        {"type": "text", "text": "Now.", "citations": None},
        {"type": "tool_use", "id": "x", "name": "view file!", "input": {"path": "a"}},
        {"type": "tool_use", "id": "x", "name": "", "input": ["a"]},
        {"type": "tool_use", "id": "y", "name": "n" * 200, "input": None},
        {"type": "tool_use", "id": "z"},
    ]
    blocks = renumbered(content, 3)
    assert [block.get("id") for block in blocks] == [None, "toolu_3_1", "toolu_3_2", "toolu_3_3", "toolu_3_4"]
    assert blocks[0] == {"type": "text", "text": "Now."}
    results = [{"type": "tool_result", "tool_use_id": f"toolu_3_{n}", "content": "x"} for n in range(1, 5)]
    later = [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]
    valid(turn("practice", PROMPT, implementer_tools(TOOLS["implementer"], ["c"]), later, 120_000))


@pytest.mark.parametrize("text", [None, 7, ["a"], {"a": 1}])
def test_a_text_that_is_no_text_does_not_go_back(text: object) -> None:
    """It is left out like a blank one."""
    assert renumbered([{"type": "text", "text": text}, {"type": "text"}], 1) == []


def test_a_conversation_that_is_too_long_loses_its_oldest_results_first() -> None:
    """First message and last results stay whole, calls keep their results, and the same bytes come out each time."""
    later = conversation(12, size=3000)
    first = {"role": "user", "content": [{"type": "text", "text": "x" * 5000}]}
    trimmed = trim([first, *later], 12_000)
    assert trimmed == trim([first, *later], 12_000)
    assert trimmed[0] == first
    assert trimmed[-1] == later[-1]
    assert sum(len(json.dumps(message, ensure_ascii=False).encode()) for message in trimmed) <= 36_000
    dropped = ["left out" in json.dumps(message) for message in trimmed if message["role"] == "user"]
    assert dropped == [False, *sorted(dropped[1:], reverse=True)]
    assert any(dropped)
    assert trim([first, *later], 1)[-1] == later[-1]
    valid(turn("practice", PROMPT, implementer_tools(TOOLS["implementer"], ["c"]), later, 12_000))


def test_a_conversation_that_fits_is_left_alone() -> None:
    """Nothing is dropped without need, and dropping never makes a result longer."""
    later = conversation(6)
    first = {"role": "user", "content": [{"type": "text", "text": "x"}]}
    assert trim([first, *later], 120_000) == [first, *later]
    short = conversation(6, size=3)
    assert trim([first, *short], 1) == [first, *short]


def test_an_error_stays_an_error_when_its_text_is_dropped() -> None:
    """The model still knows which of its calls failed."""
    later = conversation(3, size=3000)
    later[1]["content"][0]["is_error"] = True
    trimmed = trim([{"role": "user", "content": [{"type": "text", "text": "x"}]}, *later], 1_000)
    assert trimmed[2]["content"][0]["is_error"] is True
    assert "left out" in trimmed[2]["content"][0]["content"]
