"""The error switch of the practice server: every fault, what of it is paid, and when it strikes."""

import http.client
import json
import socket
from collections.abc import Mapping
from typing import Any

import pytest

from taskyard.services.errors import PracticeError
from taskyard.services.practice import Fault, PracticeServer, Reply, parse_fault, request_key
from taskyard.services.practice.faults import ANSWER_KINDS, JSONL_KINDS, KINDS, ROW_KINDS, STATUS_KINDS, WIRE_KINDS

HEADERS = {"x-api-key": "any", "anthropic-version": "2026-10-21", "content-type": "application/json"}
MESSAGES = "/v1/messages"
BATCHES = "/v1/messages/batches"
Json = dict[str, Any]
Answered = tuple[int, dict[str, str], bytes]


class StillClock:
    """A clock that does not move."""

    def now(self) -> float:
        return 1_800_000_000.0

    def monotonic(self) -> float:
        return 0.0


def model(_: Mapping[str, Any]) -> Reply:
    use = {"type": "tool_use", "name": "view", "input": {"path": "a.py"}}
    return Reply([{"type": "text", "text": "let me look at the file first"}, use], "tool_use")


def practice(*faults: Fault) -> PracticeServer:
    return PracticeServer(model=model, faults=faults, clock=StillClock())


def call(server: PracticeServer, method: str, path: str, body: object = None) -> Answered:
    connection = http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]), timeout=30)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), HEADERS)
        response = connection.getresponse()
        return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
    finally:
        connection.close()


def params(prompt: str = "hi", **changes: object) -> Json:
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in ("view", "edit")]
    messages = [{"role": "user", "content": prompt}]
    return {"model": "practice", "max_tokens": 1000, "messages": messages, "tools": tools} | changes


def ask(server: PracticeServer, prompt: str = "hi", **changes: object) -> Answered:
    return call(server, "POST", MESSAGES, params(prompt, **changes))


def message(server: PracticeServer, prompt: str = "hi") -> Json:
    status, _, content = ask(server, prompt)
    assert status == 200
    parsed: Json = json.loads(content)
    return parsed


def create(server: PracticeServer, *names: str) -> Answered:
    rows = [{"custom_id": name, "params": params(name)} for name in names]
    return call(server, "POST", BATCHES, {"requests": rows})


def results(server: PracticeServer, created: Answered) -> list[Json]:
    batch = json.loads(created[2])["id"]
    status, _, content = call(server, "GET", f"{BATCHES}/{batch}/results")
    assert status == 200
    return [json.loads(line) for line in content.splitlines()]


def paid(server: PracticeServer) -> int:
    return sum(server.ledger.paid().values())


TYPES = {
    "400": "invalid_request_error", "401": "authentication_error", "402": "billing_error", "403": "permission_error",
    "404": "not_found_error", "413": "request_too_large", "429": "rate_limit_error", "500": "api_error",
    "504": "timeout_error", "529": "overloaded_error",
}  # fmt: skip


@pytest.mark.parametrize("kind", STATUS_KINDS)
def test_a_status_comes_with_its_type_and_is_not_paid(kind: str) -> None:
    """Every error status of the API in the API's form; the next request is answered."""
    with practice(Fault(kind, path="POST /v1/messages$")) as server:
        status, headers, content = ask(server)
        error = json.loads(content)
        assert (status, error["type"], error["error"]["type"]) == (int(kind), "error", TYPES[kind])
        assert error["request_id"] == headers["request-id"]
        assert paid(server) == 0
        assert ask(server)[0] == 200 and paid(server) == 1


@pytest.mark.parametrize("kind", ["500", "504", "529"])
def test_a_server_error_may_come_after_the_payment(kind: str) -> None:
    """`accepted`: carried out and charged, but the client sees an error. For batches too: they are in the list."""
    with practice(Fault(kind, times=2, accepted=True)) as server:
        assert ask(server)[0] == int(kind) and paid(server) == 1
        assert create(server, "a", "b")[0] == int(kind) and paid(server) == 3
        assert len(json.loads(call(server, "GET", BATCHES)[2])["data"]) == 1


def test_rate_limits_say_how_long_to_wait() -> None:
    """429 with `retry-after` and the rate-limit headers for requests, input and output tokens."""
    with practice(Fault("429", seconds=7)) as server:
        headers = ask(server)[1]
    assert headers["retry-after"] == "7"
    for name in ("requests", "input-tokens", "output-tokens"):
        assert int(headers[f"anthropic-ratelimit-{name}-limit"]) > 0
        assert headers[f"anthropic-ratelimit-{name}-remaining"] == "0"
        assert headers[f"anthropic-ratelimit-{name}-reset"] == "2027-01-15T08:00:07.000Z"


def test_batches_can_be_absent_for_a_while() -> None:
    """404 strikes the batch endpoints only, unless it is told otherwise."""
    with practice(Fault("404", times=0)) as server:
        assert ask(server)[0] == 200
        assert [create(server, "a")[0], call(server, "GET", BATCHES)[0]] == [404, 404]


@pytest.mark.parametrize(("kind", "payments"), [("drop_before", 0), ("drop_after", 1)])
def test_a_dropped_connection_was_paid_or_not(kind: str, payments: int) -> None:
    """The client sees the same reset (no orderly end) both times; only the ledger knows."""
    with practice(Fault(kind)) as server:
        with pytest.raises(ConnectionError) as caught:
            ask(server)
        assert not isinstance(caught.value, http.client.RemoteDisconnected)
        assert paid(server) == payments
        assert ask(server)[0] == 200


def test_a_batch_that_was_taken_and_dropped_is_in_the_list() -> None:
    """The orphan that reconciliation has to find: accepted, paid, its id never told."""
    with practice(Fault("drop_after")) as server:
        with pytest.raises(ConnectionError):
            create(server, "a", "b")
        listed = json.loads(call(server, "GET", BATCHES)[2])["data"]
        assert [sum(batch["request_counts"].values()) for batch in listed] == [2]
        assert paid(server) == 2


def test_a_stalled_request_is_paid_and_never_answered() -> None:
    """Nothing comes until the client gives up or the server closes; closing does not wait for it."""
    connections = []
    with practice(Fault("stall", times=2)) as server:
        for payments in (1, 2):
            connection = http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]), timeout=30)
            connection.request("POST", MESSAGES, json.dumps(params()), HEADERS)
            while paid(server) < payments:
                call(server, "GET", "/practice/ledger")
            connection.sock.settimeout(0.05)
            with pytest.raises(TimeoutError):
                connection.sock.recv(1)
            connection.sock.settimeout(30)
            connections.append(connection)
        connections[0].close()
        assert ask(server)[0] == 200
    with pytest.raises(ConnectionError):
        connections[1].getresponse()
    connections[1].close()


def test_a_slow_answer_still_comes() -> None:
    """`slow` waits for `seconds`, then answers as usual."""
    with practice(Fault("slow", seconds=0.01)) as server:
        assert ask(server)[0] == 200
        assert server.faults.snapshot()[0]["hits"] == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_truncated_body_breaks_off(stream: bool) -> None:
    """More was promised than comes, in a body and in a stream; it was paid."""
    with practice(Fault("truncated_body")) as server:
        with pytest.raises(http.client.IncompleteRead):
            ask(server, stream=stream)
        assert paid(server) == 1


def test_a_body_that_is_not_json() -> None:
    """A proxy's HTML page with status 200; it was paid."""
    with practice(Fault("not_json")) as server:
        status, headers, content = ask(server)
        assert status == 200 and headers["content-type"] == "text/html" and content.startswith(b"<html>")
        assert paid(server) == 1


def test_an_error_inside_a_stream() -> None:
    """A 200 whose stream ends in an `error` event, without `message_stop`; it was paid."""
    with practice(Fault("sse_error", times=2)) as server:
        status, _, content = ask(server, stream=True)
        kinds = [line.split(b": ")[1] for line in content.splitlines() if line.startswith(b"event")]
        assert status == 200 and kinds[0] == b"message_start" and kinds[-1] == b"error"
        assert b"message_stop" not in kinds and b"overloaded_error" in content
        status, _, content = ask(server)
        assert status == 200 and json.loads(content)["error"]["type"] == "overloaded_error"
        assert paid(server) == 2


def test_result_lines_can_be_spoilt() -> None:
    """A clean early end, another order, a missing row, a doubled row: the batch says the same counts all the while."""
    names = [f"row-{number}" for number in range(6)]
    with practice() as server:
        created = create(server, *names)
        whole = results(server, created)
        server.faults.arm([Fault("truncated_jsonl")])
        assert results(server, created) == whole[:3]
        server.faults.arm([Fault("reordered_jsonl")])
        reordered = results(server, created)
        assert reordered != whole and sorted(map(str, reordered)) == sorted(map(str, whole))
        server.faults.arm([Fault("missing_row", key="row-3$")])
        assert results(server, created) == [line for line in whole if line["custom_id"] != "row-3"]
        server.faults.arm([Fault("duplicate_row", key="row-3$")])
        twice = [line["custom_id"] for line in results(server, created)]
        assert twice.count("row-3") == 2 and len(twice) == 7
        assert results(server, created) == whole


@pytest.mark.parametrize(
    ("kind", "result", "error"),
    [
        ("expired", "expired", None),
        ("canceled", "canceled", None),
        ("errored_invalid", "errored", "invalid_request_error"),
        ("errored_overloaded", "errored", "overloaded_error"),
    ],
)
def test_a_row_can_end_otherwise(kind: str, result: str, error: str | None) -> None:
    """One row by its custom_id; it is not paid, and the counts at the end say so."""
    with practice(Fault(kind, key="^b$")) as server:
        created = create(server, *"abc")
        found = {line["custom_id"]: line["result"] for line in results(server, created)}
        assert [found[name]["type"] for name in "abc"] == ["succeeded", result, "succeeded"]
        assert error is None or found["b"]["error"]["error"]["type"] == error
        batch = json.loads(call(server, "GET", f"{BATCHES}/{json.loads(created[2])['id']}")[2])
        assert batch["request_counts"][result] == 1 and batch["request_counts"]["succeeded"] == 2
        assert server.ledger.paid() == {request_key(params(name)): 1 for name in "ac"}


def test_answers_can_be_spoilt() -> None:
    """Refusal, cut-off, nonsense tool input, empty content, another tool: each a 200 that is paid."""
    with practice(*[Fault(kind, nth=number) for number, kind in enumerate(ANSWER_KINDS, 1)]) as server:
        answers = {kind: message(server, kind) for kind in ANSWER_KINDS}
        good = message(server, "at last")
        assert paid(server) == len(ANSWER_KINDS) + 1
    assert (answers["refusal"]["stop_reason"], answers["refusal"]["content"]) == ("refusal", [])
    assert answers["max_tokens"]["stop_reason"] == "max_tokens"
    assert answers["max_tokens"]["usage"]["output_tokens"] < good["usage"]["output_tokens"]
    assert answers["bad_tool_input"]["content"][1]["input"] == {"nonsense": [1, None]}
    assert (answers["empty_content"]["stop_reason"], answers["empty_content"]["content"]) == ("end_turn", [])
    assert answers["wrong_tool"]["content"][1]["name"] == "edit"
    assert good["stop_reason"] == "tool_use" and good["content"][1]["name"] == "view"


def test_rows_of_batches_can_be_spoilt_by_what_they_say() -> None:
    """`text` looks into the request itself, in both lanes."""
    with practice(Fault("refusal", text="T3", times=0)) as server:
        found = {line["custom_id"]: line["result"] for line in results(server, create(server, "T2", "T3"))}
        assert found["T3"]["message"]["stop_reason"] == "refusal"
        assert found["T2"]["message"]["stop_reason"] == "tool_use"
        assert message(server, "do T3")["stop_reason"] == "refusal"


def test_the_server_s_clock_can_be_wrong() -> None:
    """`Date` and every stamp of a batch are off by as much; nothing ends earlier for it."""
    with practice(Fault("clock_skew", seconds=-3600)) as server:
        _, headers, content = create(server, "a")
        assert json.loads(content)["created_at"] == "2027-01-15T07:00:00.000Z"
        assert headers["date"] == "Fri, 15 Jan 2027 07:00:00 GMT"
        server.faults.arm([Fault("429")])
        assert ask(server)[1]["anthropic-ratelimit-requests-reset"] == "2027-01-15T07:00:01.000Z"
        server.faults.clear()
        assert call(server, "GET", BATCHES)[1]["date"] == "Fri, 15 Jan 2027 08:00:00 GMT"


def test_a_fault_strikes_the_nth_matching_request_and_some_more() -> None:
    """`nth` counts from 1 the requests that match; `times` says how many from there on; 0 = all of them."""
    with practice(Fault("529", nth=2, times=2), Fault("500", nth=5, times=0, path="POST /v1/messages$")) as server:
        assert [ask(server)[0] for _ in range(7)] == [200, 529, 529, 200, 500, 500, 500]


def test_a_fault_strikes_by_path_and_method() -> None:
    """A poll can fail while requests are answered."""
    with practice(Fault("500", path="^GET /v1/messages/batches/[^/]+$")) as server:
        batch = json.loads(create(server, "a")[2])["id"]
        assert [call(server, "GET", f"{BATCHES}/{batch}")[0] for _ in range(2)] == [500, 200]


def test_a_fault_strikes_by_key() -> None:
    """One request by its payment key, or a batch by one of its rows' custom_ids."""
    key = request_key(params("second"))
    with practice(Fault("529", key=f"^{key}$"), Fault("drop_before", key="^late$")) as server:
        assert [ask(server, prompt)[0] for prompt in ("first", "second", "second")] == [200, 529, 200]
        assert create(server, "early")[0] == 200
        with pytest.raises(ConnectionError):
            create(server, "early", "late")
        assert paid(server) == 3


def test_faults_are_armed_and_cleared_at_run_time() -> None:
    """`POST`, `GET` and `DELETE /practice/faults`, one fault or a list."""
    with practice() as server:
        assert call(server, "POST", "/practice/faults", {"kind": "529"})[0] == 200
        assert ask(server)[0] == 529
        call(server, "POST", "/practice/faults", [{"kind": "500", "times": 0}, {"kind": "refusal"}])
        assert ask(server)[0] == 500
        shown = json.loads(call(server, "GET", "/practice/faults")[2])["faults"]
        assert [(fault["kind"], fault["seen"], fault["hits"]) for fault in shown] == [
            ("529", 2, 1), ("500", 1, 1), ("refusal", 0, 0),
        ]  # fmt: skip
        assert json.loads(call(server, "DELETE", "/practice/faults")[2]) == {"faults": []}
        assert ask(server)[0] == 200


@pytest.mark.parametrize(
    "fault",
    [{"kind": "earthquake"}, {"kind": "529", "nth": 0}, {"kind": "529", "key": "("}, {"kind": "529", "when": 1}, {}],
)
def test_a_fault_that_makes_no_sense_is_refused(fault: Json) -> None:
    """A typo must not make a fault test pass for nothing."""
    with practice() as server:
        assert call(server, "POST", "/practice/faults", fault)[0] == 400
        assert server.faults.snapshot() == []


def test_faults_on_the_command_line() -> None:
    """`kind`, `kind:nth`, `kind:nth:times`; anything else is refused with an example."""
    assert parse_fault("529") == Fault("529")
    assert parse_fault("drop_after:3") == Fault("drop_after", nth=3)
    assert parse_fault("slow:2:0") == Fault("slow", nth=2, times=0)
    for text in ("529:x", "529:1:2:3", "nonsense:1", "529:0"):
        with pytest.raises(PracticeError):
            parse_fault(text)


def test_there_are_at_least_25_faults() -> None:
    """The kinds, each with its own behaviour."""
    assert len(set(KINDS)) == len(KINDS) == 31
    assert set(KINDS) == {*STATUS_KINDS, *WIRE_KINDS, *JSONL_KINDS, *ROW_KINDS, *ANSWER_KINDS, "clock_skew"}


def test_clients_that_vanish_leave_no_trace(capfd: pytest.CaptureFixture[str]) -> None:
    """A reset in the middle of a request, a torn request line, a half body: quiet, unpaid, and the server goes on."""
    with practice() as server:
        port = int(server.url.rpartition(":")[2])
        for sent in (b"", b"POST /v1/mess", b"POST /v1/messages HTTP/1.1\r\ncontent-length: 999\r\n\r\n{"):
            client = socket.create_connection(("127.0.0.1", port))
            client.sendall(sent)
            client.close()
        assert ask(server)[0] == 200
        assert paid(server) == 1 and server.crashes == ()
    assert capfd.readouterr() == ("", "")
