"""A response body is read for what it is worth: it was paid, and asking again would be paid again."""

import orjson
import pytest

from taskyard.services.llm.answers import Answer, MalformedAnswer, read_answer
from taskyard.services.llm.requests import canonical
from taskyard.services.records import Usage


def body(content: str, usage: str = "{}") -> bytes:
    head = '{"type": "message", "model": "m", "stop_reason": "tool_use"'
    return f'{head}, "content": {content}, "usage": {usage}}}'.encode()


def read(content: str, usage: str = "{}") -> Answer:
    return read_answer("n", body(content, usage))


@pytest.mark.parametrize("text", ["null", "7", "[]", '{"a": 1}'])
def test_a_text_that_is_no_text_counts_as_none(text: str) -> None:
    """The block is kept, and says nothing."""
    answer = read(f'[{{"type": "text", "text": {text}}}, {{"type": "text", "text": "so"}}, {{"type": "text"}}]')
    assert answer.text == "so"
    assert len(answer.content) == 3


@pytest.mark.parametrize(
    ("given", "mended"),
    [
        (r'"\ud800"', "\ufffd"),
        (r'"\udc00\ud83d\ude00"', "\ufffd\U0001f600"),
        ("NaN", None),
        ("[-Infinity, 1e999]", [None, None]),
        (r'{"\ud800": NaN}', {"\ufffd": None}),
        (f"[NaN, {10**30}, {10**400}, {2**64 - 1}]", [None, 1e30, None, 2**64 - 1]),
    ],
)
def test_json_out_of_form_is_mended_and_the_raw_bytes_stay(given: str, mended: object) -> None:
    """What comes out can go back to the server in the next request."""
    raw = body(f'[{{"type": "tool_use", "name": "view", "input": {{"path": {given}}}}}]')
    answer = read_answer("n", raw)
    assert answer.tool_uses[0]["input"] == {"path": mended}
    assert answer.raw == raw
    assert orjson.loads(canonical({"content": answer.content}))


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    """One bad byte in a text costs that character, not the answer."""
    raw = body('[{"type": "text", "text": "a?b"}]').replace(b"?", b"\xff")
    assert read_answer("n", raw).text == "a\ufffdb"


def test_blocks_that_are_no_objects_are_left_out() -> None:
    """The others count."""
    answer = read('[null, "text", ["type", "text"], [], {"type": "text", "text": "so"}]')
    assert answer.content == ({"type": "text", "text": "so"},)


@pytest.mark.parametrize("usage", ["null", "7", "[1]", '"many"', '{"cache_creation": [1], "input_tokens": "x"}'])
def test_a_usage_out_of_form_counts_as_empty(usage: str) -> None:
    """A bill that can't be read is no reason to pay twice."""
    assert read("[]", usage).usage == Usage()


def test_token_counts_are_bounded() -> None:
    """Neither a negative bill nor one that no sum can hold."""
    usage = read("[]", f'{{"input_tokens": -5, "output_tokens": {10**30}, "cache_read_input_tokens": 1e300}}').usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (0, 10**9, 10**9)
    writes = '{"cache_creation_input_tokens": 10, "cache_creation": {"ephemeral_1h_input_tokens": 30}}'
    assert read("[]", writes).usage.cache_write_5m_tokens == 0


@pytest.mark.parametrize(
    "raw", [b"", b"\xff", b"{", b"NaN", b"[]", b'{"type": "message"}', body("{}"), b"[" * 100_000, b'{"a":' * 100_000]
)
def test_what_is_no_message_is_told(raw: bytes) -> None:
    """However deep or broken."""
    with pytest.raises(MalformedAnswer):
        read_answer("n", raw)
