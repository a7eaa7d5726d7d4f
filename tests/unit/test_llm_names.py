"""A request's one name: equal for equal content, different for any difference, legal as a `custom_id`."""

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard.services.errors import RequestRefused
from taskyard.services.llm import Request, name_of
from taskyard.services.llm.requests import canonical

LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
PARAMS: dict[str, Any] = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 1000,
    "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
    "messages": [{"role": "user", "content": "größe: 3 €"}],
    "tools": [{"name": "view", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "any"},
}
numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip
contents = st.dictionaries(st.text(), json_values, max_size=5)


def turned(value: Any) -> Any:
    """The same content with the keys of every object in the opposite order."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(item) for item in value] if isinstance(value, list) else value


@given(contents)
def test_the_order_of_keys_makes_no_difference(params: dict[str, Any]) -> None:
    """Equal content has an equal name, also after a round trip through JSON."""
    assert name_of(turned(params)) == name_of(params) == name_of(json.loads(json.dumps(params)))


@given(contents, contents)
def test_different_content_has_different_names(left: dict[str, Any], right: dict[str, Any]) -> None:
    """C10, C17: two requests share a name only when their JSON is the same."""
    same = json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
    assert (name_of(left) == name_of(right)) == same


@given(contents, st.integers(0, 10**9), st.sampled_from(["/v1/messages", "/v1/other"]))
def test_a_name_is_a_legal_custom_id(params: dict[str, Any], sample: int, path: str) -> None:
    """At most 64 characters of letters, digits, `_` and `-`, whatever the content."""
    assert LEGAL.fullmatch(name_of(params, path=path, sample=sample))


@pytest.mark.parametrize("key", [*PARAMS, "stop_sequences"])
def test_every_parameter_is_part_of_the_name(key: str) -> None:
    """Any parameter that changes, goes or comes gives another name."""
    changed = PARAMS | {key: ["something else"]}
    without = {other: value for other, value in PARAMS.items() if other != key}
    assert name_of(changed) != name_of(PARAMS)
    assert (name_of(without) != name_of(PARAMS)) == (key in PARAMS)


def test_path_and_sample_are_part_of_the_name() -> None:
    """Another endpoint or a deliberate further sample is another request; sample 0 is the plain one."""
    names = {
        name_of(PARAMS, path=path, sample=sample)
        for path in ("/v1/messages", "/v1/complete")
        for sample in (0, 1, 2, 11)
    }
    assert len(names) == 8
    assert name_of(PARAMS, sample=0) == name_of(PARAMS)
    assert name_of(PARAMS, sample=3) == name_of(PARAMS) + "-s3"


def test_who_asks_is_no_part_of_the_content() -> None:
    """Task, role, attempt and turn are beside the parameters, so that equal requests of two tasks are one."""
    request = Request(params=PARAMS, role="judge", task="T1", attempt=2, turn=3)
    assert (request.model, request.max_tokens, request.path) == ("claude-sonnet-5-5", 1000, "/v1/messages")
    assert name_of(request.params, path=request.path, sample=request.sample) == name_of(PARAMS)


@pytest.mark.parametrize("seed", ["0", "1", "12345"])
def test_a_name_is_the_same_in_every_process(seed: str) -> None:
    """The cache of last week is found: neither the hash seed nor the process has a say."""
    code = "import json, sys; from taskyard.services.llm import name_of; print(name_of(json.load(sys.stdin)))"
    process = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(PARAMS), capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONHASHSEED": seed},
    )  # fmt: skip
    assert process.stdout.strip() == name_of(PARAMS)


def test_the_names_of_this_version_are_known() -> None:
    """A change of the name's making would ask and pay for everything anew: it has to be meant (raise SCHEMA)."""
    assert name_of({"b": [1, 2.5, None, True], "a": "é"}) == "cYDTFV-1iBlZ8P8CGzB8bvcxr53w7zkT"


@pytest.mark.parametrize(
    "bad",
    [
        float("nan"), float("inf"), float("-inf"), "\ud800", "a\udfffb", b"bytes", {1: "odd key"}, {"\ud800": 1},
        2**64, -(2**63) - 1, {1, 2}, object(),
    ],
)  # fmt: skip
def test_what_has_no_exact_json_is_refused(bad: object) -> None:
    """C17: neither silently replaced nor sent: NaN, infinities, lone surrogates, bytes, huge integers, odd keys."""
    for params in ({"x": bad}, {"messages": [{"content": [bad]}]}, {"x": ({"y": bad},)}):
        with pytest.raises(RequestRefused, match="it was not sent"):
            name_of(params)


def test_large_integers_are_kept_exactly() -> None:
    """C15: 2^53 + 1 stays what it is, and has another name than its neighbour."""
    assert canonical({"n": 9007199254740993}) == b'{"n":9007199254740993}'
    assert name_of({"n": 9007199254740993}) != name_of({"n": 9007199254740992})
