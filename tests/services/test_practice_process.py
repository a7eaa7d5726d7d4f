"""The practice server as a process, and the official SDK as its client."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from taskyard.services.practice import Fault, PracticeServer, Reply

Json = dict[str, Any]
COMMAND = [sys.executable, "-m", "taskyard.services.practice"]
PROMPT: list[Any] = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def anthropic() -> ModuleType:
    """The SDK; its import takes seconds, so once for all."""
    import anthropic as sdk

    return sdk


def echo(body: Mapping[str, Any]) -> Reply:
    last = body["messages"][-1]["content"]
    if body.get("tools"):
        use = {"type": "tool_use", "name": body["tools"][0]["name"], "input": {"path": last}}
        return Reply([{"type": "text", "text": "looking"}, use], "tool_use")
    return Reply([{"type": "text", "text": f"you said {last}"}], "end_turn")


@pytest.fixture(scope="module")
def server() -> Iterator[PracticeServer]:
    with PracticeServer(model=echo) as running:
        yield running
        assert running.crashes == ()


@pytest.fixture
def client(anthropic: ModuleType, server: PracticeServer) -> Iterator[Any]:
    with anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0) as made:
        yield made


def test_the_sdk_creates_a_message(client: Any) -> None:
    """A tool call comes through the official client as it went in."""
    tools = [{"name": "view", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}]
    message = client.messages.create(model="practice", max_tokens=100, messages=PROMPT, tools=tools)
    assert message.content[1].input == {"path": "hi"} and message.content[1].name == "view"
    assert message.stop_reason == "tool_use" and message.usage.service_tier == "standard"
    assert message._request_id.startswith("req_")


def test_the_sdk_streams_a_message(client: Any) -> None:
    """The client puts the events together to the same message."""
    with client.messages.stream(model="practice", max_tokens=100, messages=PROMPT) as stream:
        assert "".join(stream.text_stream) == "you said hi"
        message = stream.get_final_message()
    assert message.stop_reason == "end_turn" and message.usage.output_tokens == 3


def test_the_sdk_counts_tokens(client: Any) -> None:
    """The count is the input that a message is charged for."""
    counted = client.messages.count_tokens(model="practice", messages=PROMPT)
    charged = client.messages.create(model="practice", max_tokens=100, messages=PROMPT).usage
    assert counted.input_tokens == charged.input_tokens > 0


def test_the_sdk_runs_a_batch_from_end_to_end(client: Any) -> None:
    """Create, list, retrieve, results, delete by the official client."""
    rows = [
        {"custom_id": f"row-{n}", "params": {"model": "practice", "max_tokens": 100, "messages": PROMPT}}
        for n in range(5)
    ]
    rows.append({"custom_id": "bad", "params": {"model": "practice", "max_tokens": 0, "messages": PROMPT}})
    made = client.messages.batches.create(requests=rows)
    assert made.processing_status == "in_progress" and made.request_counts.processing == 6
    assert next(iter(client.messages.batches.list(limit=1))).id == made.id
    ended = client.messages.batches.retrieve(made.id)
    assert (ended.request_counts.succeeded, ended.request_counts.errored) == (5, 1)
    lines = {line.custom_id: line.result for line in client.messages.batches.results(made.id)}
    assert len(lines) == 6 and lines["bad"].error.error.type == "invalid_request_error"
    assert lines["row-0"].message.content[0].text == "you said hi"
    assert client.messages.batches.delete(made.id).type == "message_batch_deleted"


def test_the_sdk_cancels_a_batch(anthropic: ModuleType) -> None:
    """A batch that would run for an hour ends canceled."""
    with (
        PracticeServer(model=echo, batch_s=3600.0) as server,
        anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0) as client,
    ):
        row = {"custom_id": "a", "params": {"model": "practice", "max_tokens": 9, "messages": PROMPT}}
        made = client.messages.batches.create(requests=[row])
        assert client.messages.batches.cancel(made.id).processing_status == "canceling"
        assert client.messages.batches.retrieve(made.id).request_counts.canceled == 1


def test_the_sdk_raises_its_own_error_for_each_status(anthropic: ModuleType) -> None:
    """Error bodies are read as the provider's: class, type, request id."""
    expected = {
        "400": "BadRequestError", "401": "AuthenticationError", "402": "PaymentRequiredError",
        "403": "PermissionDeniedError", "404": "NotFoundError", "413": "RequestTooLargeError", "429": "RateLimitError",
        "500": "InternalServerError", "504": "DeadlineExceededError", "529": "OverloadedError",
    }  # fmt: skip
    faults = [Fault(kind, nth=n, path="POST /v1/messages$") for n, kind in enumerate(expected, 1)]
    with (
        PracticeServer(model=echo, faults=faults) as server,
        anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0) as client,
    ):
        for kind in expected:
            with pytest.raises(anthropic.APIStatusError) as caught:
                client.messages.create(model="practice", max_tokens=9, messages=PROMPT)
            assert caught.value.status_code == int(kind)
            assert caught.value.request_id.startswith("req_")


def test_the_sdk_pays_three_times_for_one_lost_answer(anthropic: ModuleType) -> None:
    """Why `max_retries=0`: with the default, a dropped connection is paid again and again, and the ledger sees it."""
    with (
        PracticeServer(model=echo, faults=[Fault("drop_after", times=2)]) as server,
        anthropic.Anthropic(base_url=server.url, api_key="any") as client,
    ):
        client.messages.create(model="practice", max_tokens=9, messages=PROMPT)
        assert list(server.ledger.paid().values()) == [3]


def start(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    """A server process, and the URL that is its first line."""
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def fetch(url: str, body: object = None) -> tuple[int, Json]:
    headers = {"x-api-key": "any", "anthropic-version": "2026-10-21", "content-type": "application/json"}
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def test_the_process_ends_when_its_input_closes(tmp_path: Path) -> None:
    """Its first line is its URL; switches, faults, ledger are flags; closing standard input ends it, exit 0."""
    ledger = tmp_path / "paid.jsonl"
    process, url = start("--without", "batches", "--fault", "529:2", "--ledger", str(ledger), "--served", "practice")
    with process:
        assert url.startswith("http://127.0.0.1:")
        assert fetch(f"{url}/")[1]["model"] == "practice"
        bad = {"model": "claude-opus-5-5", "max_tokens": 9, "messages": PROMPT}
        assert [fetch(f"{url}/v1/messages", bad)[0] for _ in range(2)] == [404, 529]
        assert fetch(f"{url}/v1/messages/batches")[0] == 404
        assert fetch(f"{url}/practice/ledger")[1]["paid"] == []
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "", "")
    assert ledger.read_bytes() == b""


def test_the_process_ends_by_sigterm() -> None:
    """SIGTERM is an orderly end, exit 0, nothing on standard error."""
    process, _ = start("--latency", "0.01", "--batch", "1", "--cancel", "1", "--key", "k", "--fault", '{"kind":"slow"}')
    with process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
        assert process.stderr is not None and process.stderr.read() == ""


@pytest.mark.parametrize("arguments", [["--fault", "earthquake"], ["--without", "water"], ["--ledger", "/"]])
def test_a_process_that_can_not_start_says_why(arguments: list[str]) -> None:
    """Exit 2 and one clear message, no traceback."""
    done = subprocess.run([*COMMAND, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr and "Traceback" not in done.stderr
