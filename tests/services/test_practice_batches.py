"""Message Batches of the practice server, by a clock that the test moves."""

import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from taskyard.services.practice import PracticeServer, Reply, Switches, request_key

HEADERS = {"x-api-key": "any", "anthropic-version": "2026-10-21", "content-type": "application/json"}
BATCHES = "/v1/messages/batches"
DAY = 24 * 3600.0
Json = dict[str, Any]


class StillClock:
    """A clock that only moves when a test moves it."""

    def now(self) -> float:
        return 1_800_000_000.0

    def monotonic(self) -> float:
        return 0.0


def echo(body: Mapping[str, Any]) -> Reply:
    return Reply([{"type": "text", "text": str(body["messages"][-1]["content"])[:40]}], "end_turn")


@pytest.fixture
def server() -> Iterator[PracticeServer]:
    with PracticeServer(model=echo, clock=StillClock(), batch_s=100.0, cancel_s=10.0) as running:
        yield running
        assert running.crashes == ()


def raw(server: PracticeServer, method: str, path: str, body: object = None, key: str = "any") -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]), timeout=30)
    try:
        connection.request(method, path, None if body is None else json.dumps(body), HEADERS | {"x-api-key": key})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def call(server: PracticeServer, method: str, path: str, body: object = None, key: str = "any") -> Json:
    status, content = raw(server, method, path, body, key)
    assert status == 200, content
    parsed: Json = json.loads(content)
    return parsed


def refusal(server: PracticeServer, method: str, path: str) -> tuple[int, str]:
    status, content = raw(server, method, path)
    return status, json.loads(content)["error"]["message"]


def params(prompt: str, **changes: object) -> Json:
    return {"model": "practice", "max_tokens": 100, "messages": [{"role": "user", "content": prompt}]} | changes


def create(server: PracticeServer, *names: str, **rows: Json) -> Json:
    """A batch with a plain request for each name, and the given parameters for others."""
    given = {name: params(name) for name in names} | rows
    requests = [{"custom_id": name, "params": row} for name, row in given.items()]
    return call(server, "POST", BATCHES, {"requests": requests})


def results(server: PracticeServer, batch: Json) -> list[Json]:
    status, content = raw(server, "GET", f"{BATCHES}/{batch['id']}/results")
    assert status == 200, content
    return [json.loads(line) for line in content.splitlines()]


def get(server: PracticeServer, batch: Json) -> Json:
    return call(server, "GET", f"{BATCHES}/{batch['id']}")


def counts(batch: Json) -> list[int]:
    """The counts that are not 0, in the API's order."""
    order = ("processing", "succeeded", "errored", "canceled", "expired")
    assert list(batch["request_counts"]) == list(order)
    return [batch["request_counts"][name] for name in order]


def test_a_batch_shows_no_progress_until_it_has_ended(server: PracticeServer) -> None:
    """All counts but `processing` stay 0, no results URL; at the end they add up and the URL is there."""
    made = create(server, "a", "b", "c")
    assert made["type"] == "message_batch" and made["id"].startswith("msgbatch_")
    server.advance(99)
    running = get(server, made)
    for batch in (made, running):
        assert batch["processing_status"] == "in_progress" and counts(batch) == [3, 0, 0, 0, 0]
        assert batch["results_url"] is batch["ended_at"] is batch["cancel_initiated_at"] is batch["archived_at"] is None
    assert refusal(server, "GET", f"{BATCHES}/{made['id']}/results")[0] == 400
    assert refusal(server, "DELETE", f"{BATCHES}/{made['id']}")[0] == 400
    server.advance(1)
    ended = get(server, made)
    assert ended["processing_status"] == "ended" and counts(ended) == [0, 3, 0, 0, 0]
    assert ended["results_url"] == f"{server.url}{BATCHES}/{made['id']}/results"
    assert ended["created_at"] == "2027-01-15T08:00:00.000Z" and ended["ended_at"] == "2027-01-15T08:01:40.000Z"
    assert ended["expires_at"] == "2027-01-16T08:00:00.000Z"


def test_results_come_in_another_order_and_name_their_requests(server: PracticeServer) -> None:
    """A line for each request, shuffled, each with its own answer and the batch's service tier."""
    names = [f"row-{number}" for number in range(20)]
    made = create(server, *names)
    server.advance(100)
    lines = results(server, made)
    order = [line["custom_id"] for line in lines]
    assert sorted(order) == sorted(names) and order != names
    for line in lines:
        message = line["result"]["message"]
        assert line["result"]["type"] == "succeeded" and message["content"][0]["text"] == line["custom_id"]
        assert message["usage"]["service_tier"] == "batch"
    assert results(server, made) == lines


def test_a_bad_request_ends_errored_and_spoils_no_other(server: PracticeServer) -> None:
    """`params` are checked one by one, after the batch was accepted; only what succeeds is paid."""
    bad = {
        "top": params("x", temperature=1),
        "zero": params("x", max_tokens=0),
        "stream": params("x", stream=True),
        "other": params("x", model="gpt-9"),
    }
    made = create(server, "good", **bad)
    server.advance(100)
    assert counts(get(server, made)) == [0, 1, 4, 0, 0]
    errors = {line["custom_id"]: line["result"]["error"] for line in results(server, made) if "error" in line["result"]}
    assert {name: error["error"]["type"] for name, error in errors.items()} == {
        "top": "invalid_request_error", "zero": "invalid_request_error", "stream": "invalid_request_error",
        "other": "not_found_error",
    }  # fmt: skip
    assert errors["top"]["type"] == "error"
    assert errors["top"]["error"]["message"] == "temperature: Extra inputs are not permitted"
    assert server.ledger.paid() == {request_key(params("good")): 1}


def test_a_cancelled_batch_keeps_what_was_finished(server: PracticeServer) -> None:
    """`canceling`, then `ended`: rows that were finished succeeded and are paid, the rest is canceled and is not."""
    made = create(server, *"abcd")
    assert sum(server.ledger.paid().values()) == 4
    server.advance(50)
    cancelling = call(server, "POST", f"{BATCHES}/{made['id']}/cancel")
    assert cancelling["processing_status"] == "canceling" and counts(cancelling) == [4, 0, 0, 0, 0]
    assert cancelling["cancel_initiated_at"] == "2027-01-15T08:00:50.000Z"
    server.advance(5)
    again = call(server, "POST", f"{BATCHES}/{made['id']}/cancel")
    assert again["cancel_initiated_at"] == cancelling["cancel_initiated_at"]
    server.advance(5)
    assert counts(get(server, made)) == [0, 2, 0, 2, 0]
    kinds = {line["custom_id"]: line["result"]["type"] for line in results(server, made)}
    assert kinds == {"a": "succeeded", "b": "succeeded", "c": "canceled", "d": "canceled"}
    assert sum(server.ledger.paid().values()) == 2
    assert refusal(server, "POST", f"{BATCHES}/{made['id']}/cancel")[0] == 400


def test_what_is_not_done_in_a_day_expires() -> None:
    """At 24 hours the batch ends; what was finished counts, the rest is `expired` and was never paid."""
    with PracticeServer(model=echo, clock=StillClock(), batch_s=lambda _: 2 * DAY) as server:
        made = create(server, *"abcd")
        server.advance(DAY)
        ended = get(server, made)
        assert ended["processing_status"] == "ended" and counts(ended) == [0, 2, 0, 0, 2]
        assert ended["ended_at"] == ended["expires_at"]
        assert sorted(line["result"]["type"] for line in results(server, made)) == ["expired"] * 2 + ["succeeded"] * 2
        assert sum(server.ledger.paid().values()) == 2


def test_results_are_kept_for_29_days(server: PracticeServer) -> None:
    """Then the batch is archived: still listed, its results gone."""
    made = create(server, "a")
    server.advance(29 * DAY - 1)
    assert len(results(server, made)) == 1
    server.advance(1)
    archived = get(server, made)
    assert archived["archived_at"] == "2027-02-13T08:00:00.000Z" and archived["results_url"] is None
    assert refusal(server, "GET", f"{BATCHES}/{made['id']}/results")[0] == 404


def test_an_ended_batch_can_be_deleted(server: PracticeServer) -> None:
    """Deleted is gone from the list, from retrieve and from results; what it cost stays counted."""
    made, kept = create(server, "a"), create(server, "b")
    server.advance(100)
    gone = call(server, "DELETE", f"{BATCHES}/{made['id']}")
    assert gone == {"id": made["id"], "type": "message_batch_deleted"}
    assert [batch["id"] for batch in call(server, "GET", BATCHES)["data"]] == [kept["id"]]
    for method, tail in (("GET", ""), ("GET", "/results"), ("POST", "/cancel"), ("DELETE", "")):
        assert refusal(server, method, f"{BATCHES}/{made['id']}{tail}") == (404, f"Batch {made['id']} not found.")
    assert sum(server.ledger.paid().values()) == 2


def test_the_list_is_newest_first_and_pages_both_ways(server: PracticeServer) -> None:
    """`limit`, `after_id`, `before_id`, `has_more`, `first_id`, `last_id`."""
    oldest_first = [create(server, "a")["id"] for _ in range(25)]
    newest = oldest_first[::-1]

    def page(query: str) -> tuple[list[str], bool]:
        found = call(server, "GET", f"{BATCHES}?{query}")
        ids = [batch["id"] for batch in found["data"]]
        assert (found["first_id"], found["last_id"]) == ((ids[0], ids[-1]) if ids else (None, None))
        return ids, found["has_more"]

    assert page("") == (newest[:20], True)
    assert page("limit=1000") == (newest, False)
    assert page("limit=10") == (newest[:10], True)
    assert page(f"limit=10&after_id={newest[9]}") == (newest[10:20], True)
    assert page(f"limit=10&after_id={newest[19]}") == (newest[20:], False)
    assert page(f"limit=5&before_id={newest[10]}") == (newest[5:10], True)
    assert page(f"limit=10&before_id={newest[10]}") == (newest[:10], False)
    assert page(f"after_id={newest[-1]}") == ([], False)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("limit=0", "limit: Input should be between 1 and 1000"),
        ("limit=1001", "limit: Input should be between 1 and 1000"),
        ("limit=ten", "limit: Input should be a valid integer"),
        ("after_id=msgbatch_none", "after_id: there is no batch msgbatch_none"),
        ("before_id=msgbatch_none", "before_id: there is no batch msgbatch_none"),
        ("before_id=a&after_id=b", "before_id: only one of before_id and after_id may be given"),
    ],
)
def test_a_bad_page_is_refused(server: PracticeServer, query: str, message: str) -> None:
    """400 with the query parameter that is wrong."""
    status, got = refusal(server, "GET", f"{BATCHES}?{query}")
    assert status == 400 and got.startswith(message)


def test_batches_belong_to_the_workspace_not_to_a_key(server: PracticeServer) -> None:
    """Another key lists, reads and cancels them: another program's batches are in everyone's list."""
    made = call(server, "POST", BATCHES, {"requests": [{"custom_id": "a", "params": params("a")}]}, key="one")
    assert call(server, "GET", BATCHES, key="two")["data"] == [made]
    server.advance(1)
    assert call(server, "POST", f"{BATCHES}/{made['id']}/cancel", key="two")["processing_status"] == "canceling"


def test_the_same_batch_twice_is_paid_twice(server: PracticeServer) -> None:
    """There is no idempotency key: whoever sends a batch again pays again, at once and not only when it ends."""
    for _ in range(2):
        create(server, "a", "b")
    assert sorted(server.ledger.paid().values()) == [2, 2]
    ledger = call(server, "GET", "/practice/ledger")
    assert ledger["batches"] == 2 and {row["lane"] for row in ledger["paid"]} == {"batch"}


def test_a_batch_warms_later_batches_but_not_itself_nor_the_live_lane(server: PracticeServer) -> None:
    """Prompt cache: rows of one batch run side by side; a second batch reads; the live lane has its own."""
    system = [{"type": "text", "text": "w" * 8000, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]

    def reads(*names: str) -> list[int]:
        made = create(server, **{name: params(name, system=system) for name in names})
        server.advance(100)
        return [line["result"]["message"]["usage"]["cache_read_input_tokens"] for line in results(server, made)]

    assert reads("a", "b") == [0, 0]
    assert all(tokens >= 1024 for tokens in reads("c", "d"))
    live = call(server, "POST", "/v1/messages", params("e", system=system))["usage"]
    assert live["cache_read_input_tokens"] == 0 and live["service_tier"] == "standard"


def test_a_server_without_batches_answers_404() -> None:
    """Local servers have no batches: every one of the endpoints is absent."""
    with PracticeServer(model=echo, switches=Switches(batches=False)) as server:
        for method, tail in (("POST", ""), ("GET", ""), ("GET", "/msgbatch_1"), ("GET", "/msgbatch_1/results")):
            assert refusal(server, method, f"{BATCHES}{tail}") == (404, "Not Found")


def test_the_clock_of_a_running_server_can_be_moved(server: PracticeServer) -> None:
    """`POST /practice/clock` does for another process what `advance` does in this one."""
    made = create(server, "a")
    assert call(server, "POST", "/practice/clock", {"advance_s": 100}) == {"now": "2027-01-15T08:01:40.000Z"}
    assert get(server, made)["processing_status"] == "ended"
    assert raw(server, "POST", "/practice/clock", {"forward": 1})[0] == 400
