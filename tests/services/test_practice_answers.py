"""What the practice server answers: the form of messages and streams, prompt cache accounting, the ledger."""

import http.client
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import orjson
import pytest

from taskyard.services.errors import PracticeError
from taskyard.services.practice import PracticeServer, Reply, Switches, request_key

HEADERS = {"x-api-key": "any", "anthropic-version": "2026-10-21", "content-type": "application/json"}
Json = dict[str, Any]
Call = Callable[..., Any]
LONG = "a stable prefix that many requests share, word for word. " * 100


class StillClock:
    """A clock that only moves when a test moves it."""

    def now(self) -> float:
        return 1_800_000_000.0

    def monotonic(self) -> float:
        return 0.0


def speaking(*content: Json, stop_reason: str = "end_turn") -> Callable[[Mapping[str, Any]], Reply]:
    """A practice model that always says the same."""
    return lambda _: Reply(list(content), stop_reason)


def text(words: str, **more: object) -> Json:
    return {"type": "text", "text": words} | more


def mark(ttl: str = "5m") -> Json:
    return {"cache_control": {"type": "ephemeral", "ttl": ttl}}


USE = {"type": "tool_use", "name": "view", "input": {"path": "a.py", "lines": list(range(60))}}


def params(prompt: str = "hi", **changes: object) -> Json:
    return {"model": "practice", "max_tokens": 1000, "messages": [{"role": "user", "content": prompt}]} | changes


def send(server: PracticeServer, method: str, path: str, body: object = None) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]), timeout=30)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), HEADERS)
        response = connection.getresponse()
        content = response.read()
        assert response.status == 200, content
        return content
    finally:
        connection.close()


def ask(server: PracticeServer, **body: object) -> Json:
    message: Json = json.loads(send(server, "POST", "/v1/messages", params() | body))
    return message


def events(server: PracticeServer, **body: object) -> list[Json]:
    stream = send(server, "POST", "/v1/messages", params(stream=True) | body).decode()
    parsed = []
    for block in stream.split("\n\n")[:-1]:
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        parsed.append(event)
    return parsed


@pytest.fixture
def caching() -> Iterator[PracticeServer]:
    with PracticeServer(model=speaking(text("hello")), clock=StillClock()) as server:
        yield server


def test_ids_are_random_and_tool_calls_get_one() -> None:
    """The same request twice gives the same content under other ids, as in life, also when the model names one."""
    named = USE | {"id": "toolu_of_the_model"}
    with PracticeServer(model=speaking(text("look"), named, stop_reason="tool_use")) as server:
        one, two = ask(server), ask(server)
    assert one["id"] != two["id"] and one["content"][1]["id"] != two["content"][1]["id"]
    assert one["content"][1]["id"].startswith("toolu_")
    assert [block["type"] for block in one["content"]] == ["text", "tool_use"]
    assert one["usage"] == two["usage"] and one["stop_reason"] == "tool_use"


def test_ids_can_be_given() -> None:
    """A test that must see the same bytes injects the ids."""
    numbers = itertools.count(1)
    with PracticeServer(model=speaking(USE), ids=lambda prefix: f"{prefix}_{next(numbers)}") as server:
        assert ask(server)["content"][0]["id"] == "toolu_2"


def test_a_stream_carries_the_same_message() -> None:
    """`message_start`, each block with its deltas, `message_delta` with stop reason and usage, `message_stop`."""
    words = "a longer text, so that it takes more than a single delta to be carried over the wire: ünïcödé"
    with PracticeServer(model=speaking(text(words), USE, stop_reason="tool_use")) as server:
        whole, stream = ask(server), events(server)
    kinds = [event["type"] for event in stream]
    assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"] and "ping" in kinds
    assert stream[0]["message"]["content"] == [] and stream[0]["message"]["stop_reason"] is None
    assert stream[0]["message"]["usage"]["input_tokens"] == whole["usage"]["input_tokens"]
    deltas = [(event["index"], event["delta"]) for event in stream if event["type"] == "content_block_delta"]
    assert "".join(delta["text"] for index, delta in deltas if index == 0) == words
    assert json.loads("".join(delta["partial_json"] for index, delta in deltas if index == 1)) == USE["input"]
    assert len(deltas) > 2
    starts = [event for event in stream if event["type"] == "content_block_start"]
    assert [start["content_block"]["type"] for start in starts] == ["text", "tool_use"]
    assert starts[1]["content_block"]["input"] == {} and kinds.count("content_block_stop") == 2
    assert stream[-2]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert stream[-2]["usage"]["output_tokens"] == whole["usage"]["output_tokens"]


def test_an_answer_is_cut_at_max_tokens() -> None:
    """No answer has more output tokens than were asked for; a tool call that is cut loses its input."""
    with PracticeServer(model=speaking(text("x" * 400), USE, stop_reason="tool_use")) as server:
        cut = ask(server, max_tokens=10)
        inside = ask(server, max_tokens=101)
    assert (cut["stop_reason"], cut["content"], cut["usage"]["output_tokens"]) == ("max_tokens", [text("x" * 40)], 10)
    assert inside["stop_reason"] == "max_tokens" and inside["content"][1]["input"] == {}
    with PracticeServer(model=speaking(text("x" * 400))) as server:
        assert [ask(server, max_tokens=most)["stop_reason"] for most in (99, 100)] == ["max_tokens", "end_turn"]


def test_an_answer_ends_before_a_stop_sequence() -> None:
    """The first of the stop sequences ends the text and is named."""
    with PracticeServer(model=speaking(text("one two three"), USE)) as server:
        stopped = ask(server, stop_sequences=["three", " two"])
        through = ask(server, stop_sequences=["four"])
    assert (stopped["stop_reason"], stopped["stop_sequence"]) == ("stop_sequence", " two")
    assert stopped["content"] == [text("one")]
    assert through["stop_reason"] == "end_turn" and through["stop_sequence"] is None


def test_one_tool_call_at_a_time_when_asked() -> None:
    """`disable_parallel_tool_use`, and a server without parallel calls, end an answer after its first call."""
    tools = [{"name": "view", "input_schema": {"type": "object"}}]
    choice = {"type": "any", "disable_parallel_tool_use": True}
    model = speaking(text("look"), USE, USE, stop_reason="tool_use")
    with PracticeServer(model=model) as server:
        assert len(ask(server)["content"]) == 3
        assert len(ask(server, tools=tools, tool_choice=choice)["content"]) == 2
    with PracticeServer(model=model, switches=Switches(parallel_tools=False)) as server:
        assert len(ask(server)["content"]) == 2


def usage(server: PracticeServer, **body: object) -> tuple[int, int, int, int]:
    """Tokens: uncached input, read, written for 5 minutes, written for an hour."""
    found = ask(server, **body)["usage"]
    written = found["cache_creation"]
    five, hour = written["ephemeral_5m_input_tokens"], written["ephemeral_1h_input_tokens"]
    assert found["cache_creation_input_tokens"] == five + hour
    return found["input_tokens"], found["cache_read_input_tokens"], five, hour


def test_a_marked_prefix_is_written_once_and_read_after(caching: PracticeServer) -> None:
    """The second request with the same bytes up to the mark reads what the first one wrote; what follows may differ."""
    system = [text(LONG, **mark())]
    rest, read, five, hour = usage(caching, system=system)
    assert (read, hour) == (0, 0) and five >= 1024 and rest > 0
    assert usage(caching, system=system) == (rest, five, 0, 0)
    other = [{"role": "user", "content": "another question"}]
    assert usage(caching, system=system, messages=other)[1:] == (five, 0, 0)


@pytest.mark.parametrize("change", ["system", "model", "tools"])
def test_a_prefix_with_other_bytes_is_not_read(caching: PracticeServer, change: str) -> None:
    """One byte before the mark, another model or other tools: nothing is read."""
    changes: Json = {
        "system": {"system": [text(LONG + "!", **mark())]},
        "model": {"model": "claude-opus-5-5"},
        "tools": {"tools": [{"name": "view", "input_schema": {"type": "object"}}]},
    }
    base = {"system": [text(LONG, **mark())]}
    usage(caching, **base)
    assert usage(caching, **(base | changes[change]))[1] == 0


def test_a_short_prefix_is_never_cached(caching: PracticeServer) -> None:
    """Below 1,024 tokens a mark does nothing."""
    for _ in range(2):
        assert usage(caching, system=[text("short", **mark())])[1:] == (0, 0, 0)


def test_no_mark_no_cache(caching: PracticeServer) -> None:
    """Long prompts without a mark are plain input, twice."""
    for _ in range(2):
        assert usage(caching, system=[text(LONG)])[1:] == (0, 0, 0)


@pytest.mark.parametrize(("ttl", "seconds"), [("5m", 300.0), ("1h", 3600.0)])
def test_a_prefix_lapses_after_its_ttl_and_a_read_renews_it(caching: PracticeServer, ttl: str, seconds: float) -> None:
    """Five minutes or an hour from the last use, by the server's clock."""
    body = {"system": [text(LONG, **mark(ttl))]}
    _, _, five, hour = usage(caching, **body)
    tokens = five + hour
    assert (five == 0) is (ttl == "1h")
    caching.advance(seconds - 1)
    assert usage(caching, **body)[1] == tokens
    caching.advance(seconds - 1)
    assert usage(caching, **body)[1] == tokens
    caching.advance(seconds)
    assert usage(caching, **body)[1] == 0


def test_two_marks_are_charged_by_their_own_ttl(caching: PracticeServer) -> None:
    """The first hour-long part and the five minutes' part behind it are written apart, and both read later."""
    system = [text(LONG, **mark("1h")), text(LONG, **mark("5m"))]
    rest, read, five, hour = usage(caching, system=system)
    assert read == 0 and five > 1024 and hour > 1024
    assert usage(caching, system=system) == (rest, five + hour, 0, 0)
    caching.advance(301)
    assert usage(caching, system=system) == (rest, hour, five, 0)


def test_a_growing_conversation_reads_what_the_turn_before_wrote(caching: PracticeServer) -> None:
    """A mark that moves on with each turn (here the one at the top) still finds the earlier prefix."""
    turns: list[Json] = [{"role": "user", "content": [text(LONG)]}]
    top = {"cache_control": {"type": "ephemeral"}}
    _, read, first, _ = usage(caching, messages=turns, **top)
    assert read == 0 and first >= 1024
    turns += [{"role": "assistant", "content": "hello"}, {"role": "user", "content": [text("and now?")]}]
    rest, read, written, _ = usage(caching, messages=turns, **top)
    assert (rest, read) == (0, first) and written > 0


def test_reading_an_earlier_turn_s_prefix_renews_it(caching: PracticeServer) -> None:
    """The shorter prefix lives on for its own ttl from when it was read, although the mark has moved on."""
    opening: list[Json] = [{"role": "user", "content": [text(LONG)]}]
    longer = [*opening, {"role": "assistant", "content": "hello"}, {"role": "user", "content": "and now?"}]
    top = {"cache_control": {"type": "ephemeral"}}
    first = usage(caching, messages=opening, **top)[2]
    caching.advance(200)
    assert usage(caching, messages=longer, **top)[1] == first
    caching.advance(200)
    assert usage(caching, messages=opening, **top)[1] == first


def test_servers_that_lack_something_lack_it() -> None:
    """The switches for other servers: no cache fields, marks ignored, strict refused, no batches, no count_tokens."""
    marked = {"system": [text(LONG, cache_control={"type": "whatever"})]}
    with PracticeServer(model=speaking(text("x")), switches=Switches(cache_usage=False)) as server:
        assert list(ask(server)["usage"]) == ["input_tokens", "output_tokens"]
    with PracticeServer(model=speaking(text("x")), switches=Switches(cache_control=False)) as server:
        assert [usage(server, **marked)[1:] for _ in range(2)] == [(0, 0, 0)] * 2
    strict = {"name": "a", "strict": True, "input_schema": {"type": "object", "additionalProperties": False}}
    lacking = Switches(strict_tools=False, batches=False, count_tokens=False)
    with PracticeServer(model=speaking(text("x")), switches=lacking) as server:
        with pytest.raises(AssertionError, match=r"tools\.0\.strict: Extra inputs are not permitted"):
            ask(server, tools=[strict])
        for method, path in (
            ("POST", "/count_tokens"),
            ("POST", "/batches"),
            ("GET", "/batches"),
            ("GET", "/batches/b"),
        ):
            with pytest.raises(AssertionError, match="not_found_error"):
                send(server, method, f"/v1/messages{path}", {} if method == "POST" else None)


def test_the_ledger_counts_what_was_paid_by_content(caching: PracticeServer) -> None:
    """One row a key: blake2b of the canonical parameters, not of who asked, in what order, or whether streamed."""
    body = params("pay me")
    expected = blake2b(orjson.dumps(body, option=orjson.OPT_SORT_KEYS), digest_size=24).hexdigest()
    assert request_key(body) == expected
    send(caching, "POST", "/v1/messages", body)
    send(caching, "POST", "/v1/messages", dict(reversed(body.items())) | {"stream": True})
    send(caching, "POST", "/v1/messages", params("pay me too", model="claude-opus-5-5"))
    ledger = json.loads(send(caching, "GET", "/practice/ledger"))
    first, second = ledger["paid"]
    assert (first["key"], first["count"], first["lane"], first["model"]) == (expected, 2, "live", "practice")
    assert (second["count"], second["model"]) == (1, "claude-opus-5-5")
    assert first["output_tokens"] == 2 * second["output_tokens"] > 0
    assert (ledger["requests"], ledger["batches"]) == (3, 0)
    assert caching.ledger.paid() == {expected: 2, second["key"]: 1}


def test_the_ledger_s_file_survives_its_server(tmp_path: Path) -> None:
    """Each payment is on disk before its answer; the next server counts on. A file that is no ledger is refused."""
    file = tmp_path / "paid.jsonl"
    for count in (1, 2):
        with PracticeServer(model=speaking(text("x")), ledger=file) as server:
            ask(server)
            assert len(file.read_bytes().splitlines()) == count
            assert list(server.ledger.paid().values()) == [count]
    (tmp_path / "other").write_text("not a ledger\n")
    with pytest.raises(PracticeError, match=r"other:1: this is not a practice ledger"):
        PracticeServer(model=speaking(text("x")), ledger=tmp_path / "other")


def test_equal_requests_at_once_are_each_counted() -> None:
    """Nine at once are nine payments here: deduplication is the client's work. `latency_s` may be a function."""
    arrived = Barrier(9)

    def latency(_: Mapping[str, Any]) -> float:
        arrived.wait(30)
        return 0.0

    with PracticeServer(model=speaking(text("x")), latency_s=latency) as server:
        threads = [Thread(target=ask, args=(server,)) for _ in range(9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert list(server.ledger.paid().values()) == [9]
        assert server.peak_live == 9
        assert json.loads(send(server, "GET", "/practice/ledger"))["peak_live"] == 9
