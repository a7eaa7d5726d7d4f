"""Every rule of the Messages API that the practice server holds requests to, over real HTTP."""

import http.client
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from taskyard.services.practice import Limits, PracticeServer, Reply

HEADERS = {"x-api-key": "any", "anthropic-version": "2026-10-21", "content-type": "application/json"}
Json = dict[str, Any]


def hello(body: Mapping[str, Any]) -> Reply:
    return Reply([{"type": "text", "text": f"hello {len(body['messages'])}"}], "end_turn")


@pytest.fixture(scope="module")
def server() -> Iterator[PracticeServer]:
    limits = Limits(message_bytes=200_000, batch_bytes=300_000, batch_requests=3)
    with PracticeServer(model=hello, limits=limits) as running:
        yield running
        assert running.crashes == ()


def call(
    server: PracticeServer,
    method: str,
    path: str,
    body: object = None,
    headers: Mapping[str, str] = HEADERS,
) -> tuple[int, dict[str, str], Any]:
    """One request on a connection of its own: status, headers (lower case), parsed body."""
    connection = http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]), timeout=30)
    try:
        raw = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        connection.request(method, path, raw, dict(headers))
        response = connection.getresponse()
        content = response.read()
        return response.status, {k.lower(): v for k, v in response.getheaders()}, json.loads(content)
    finally:
        connection.close()


def refused(server: PracticeServer, path: str, body: object, status: int = 400) -> str:
    """The message of a refusal, after a look at its form."""
    got, headers, error = call(server, "POST", path, body)
    assert got == status, error
    assert headers["request-id"] == error["request_id"]
    assert error["type"] == "error"
    return str(error["error"]["message"])


def params(**changes: object) -> Json:
    return {"model": "practice", "max_tokens": 100, "messages": [user("hi")]} | changes


def without(name: str) -> Json:
    body = params()
    del body[name]
    return body


def user(*content: object) -> Json:
    return {"role": "user", "content": content[0] if isinstance(content[0], str) else list(content)}


def assistant(*content: object) -> Json:
    return {"role": "assistant", "content": content[0] if isinstance(content[0], str) else list(content)}


def text(words: str = "hi", **more: object) -> Json:
    return {"type": "text", "text": words} | more


def use(tool_id: str = "toolu_1", **more: object) -> Json:
    return {"type": "tool_use", "id": tool_id, "name": "view", "input": {}} | more


def result(tool_id: str = "toolu_1", **more: object) -> Json:
    return {"type": "tool_result", "tool_use_id": tool_id, "content": "ok"} | more


def tool(name: str = "view", **more: object) -> Json:
    return {"name": name, "input_schema": {"type": "object", "properties": {}}} | more


def strict(schema: Json) -> Json:
    return tool(strict=True, input_schema=schema)


def mark(ttl: str | None = None) -> Json:
    return {"type": "ephemeral"} | ({"ttl": ttl} if ttl else {})


CLOSED = {"type": "object", "additionalProperties": False, "required": ["a"], "properties": {"a": {"type": "string"}}}

BAD: dict[str, tuple[Json, str]] = {
    "no model": (without("model"), "model: Field required"),
    "no max_tokens": (without("max_tokens"), "max_tokens: Field required"),
    "no messages": (without("messages"), "messages: Field required"),
    "model is a number": (params(model=3), "model: Input should be a valid string"),
    "max_tokens 0": (params(max_tokens=0), "max_tokens: Input should be greater than or equal to 1"),
    "max_tokens true": (params(max_tokens=True), "max_tokens: Input should be a valid integer"),
    "max_tokens a string": (params(max_tokens="9"), "max_tokens: Input should be a valid integer"),
    "messages empty": (params(messages=[]), "messages: List should have at least 1 item"),
    "messages an object": (params(messages={}), "messages: Input should be a valid list"),
    "temperature": (params(temperature=0.5), "temperature: Extra inputs are not permitted"),
    "top_p": (params(top_p=0.5), "top_p: Extra inputs are not permitted"),
    "top_k": (params(top_k=5), "top_k: Extra inputs are not permitted"),
    "inference_geo": (params(inference_geo="eu"), "inference_geo: Extra inputs are not permitted"),
    "unknown role": (
        params(messages=[{"role": "system", "content": "x"}]),
        "messages.0.role: Input should be 'user' or",
    ),
    "role missing": (params(messages=[{"content": "x"}]), "messages.0.role: Field required"),
    "first is assistant": (params(messages=[assistant("x")]), "messages.0.role: first message must use the"),
    "message with a name": (params(messages=[user("x") | {"name": "n"}]), "messages.0.name: Extra inputs"),
    "empty content": (params(messages=[user("")]), "messages.0.content: user messages must have non-empty content"),
    "no blocks": (params(messages=[{"role": "user", "content": []}]), "messages.0.content: user messages must have"),
    "empty text": (
        params(messages=[user(text(""))]),
        "messages.0.content.0.text: text content blocks must be non-empty",
    ),
    "blank text": (params(messages=[user(text(" \n"))]), "messages.0.content.0.text: text content blocks must be"),
    "text missing": (params(messages=[user({"type": "text"})]), "messages.0.content.0.text: Field required"),
    "unknown block": (params(messages=[user({"type": "video"})]), "messages.0.content.0: Input tag 'video' found"),
    "block without type": (params(messages=[user({"text": "x"})]), "messages.0.content.0.type: Field required"),
    "block with more": (params(messages=[user(text(x=1))]), "messages.0.content.0.x: Extra inputs are not permitted"),
    "block is a string": (
        params(messages=[user(text(), "x")]),
        "messages.0.content.1: Input should be a valid dictionary",
    ),
    "tool_use of a user": (params(messages=[user(use())]), "messages.0.content.0: Input tag 'tool_use' found"),
    "tool_result of an assistant": (
        params(messages=[user("x"), assistant(result())]),
        "messages.1.content.0: Input tag 'tool_result' found",
    ),
    "tool_use unanswered": (
        params(messages=[user("x"), assistant(use()), user("and?")]),
        "messages.1.content: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1.",
    ),
    "tool_use at the end": (
        params(messages=[user("x"), assistant(use())]),
        "messages.1.content: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1.",
    ),
    "tool_use answered too late": (
        params(messages=[user("x"), assistant(use()), user("wait"), user(result())]),
        "messages.1.content: `tool_use` ids were found without",
    ),
    "one of two answered": (
        params(messages=[user("x"), assistant(use("a"), use("b")), user(result("a"))]),
        "immediately after: b.",
    ),
    "tool_result out of nowhere": (
        params(messages=[user(result("toolu_9"))]),
        "messages.0.content: unexpected `tool_use_id` found in `tool_result` blocks: toolu_9.",
    ),
    "answered twice": (
        params(messages=[user("x"), assistant(use()), user(result(), result())]),
        "messages.2.content: each `tool_use` must have a single result",
    ),
    "same id twice": (
        params(messages=[user("x"), assistant(use(), use()), user(result())]),
        "messages.1.content: `tool_use` ids must be unique",
    ),
    "text before results": (
        params(messages=[user("x"), assistant(use()), user(text(), result())]),
        "messages.2.content: `tool_result` blocks must come first",
    ),
    "tool_use input": (
        params(messages=[user("x"), assistant(use(input="{}"))]),
        "messages.1.content.0.input: Input should",
    ),
    "tool_use id": (
        params(messages=[user("x"), assistant(use("a b"))]),
        "messages.1.content.0.id: String should match",
    ),
    "tool_use name": (
        params(messages=[user("x"), assistant(use(name="a b"))]),
        "messages.1.content.0.name: String should",
    ),
    "is_error": (
        params(messages=[user("x"), assistant(use()), user(result(is_error="no"))]),
        "messages.2.content.0.is_error: Input should be a valid boolean",
    ),
    "part of a result": (
        params(messages=[user("x"), assistant(use()), user(result(content=[use()]))]),
        "messages.2.content.0.content.0: Input tag 'tool_use' found",
    ),
    "system empty text": (params(system=[text("")]), "system.0.text: text content blocks must be non-empty"),
    "system a number": (params(system=3), "system: Input should be a valid list"),
    "system an image": (params(system=[{"type": "image", "source": {}}]), "system.0: Input tag 'image' found"),
    "tool name with a space": (params(tools=[tool("a b")]), "tools.0.name: String should match pattern"),
    "tool name too long": (params(tools=[tool("a" * 129)]), "tools.0.name: String should match pattern"),
    "tool name ends in a line break": (params(tools=[tool("a\n")]), "tools.0.name: String should match pattern"),
    "two tools of one name": (params(tools=[tool(), tool()]), "tools.1.name: Tool names must be unique"),
    "tool without schema": (params(tools=[{"name": "a"}]), "tools.0.input_schema: Field required"),
    "tool with more": (params(tools=[tool(x=1)]), "tools.0.x: Extra inputs are not permitted"),
    "schema of another type": (
        params(tools=[tool(input_schema={"type": "array"})]),
        "tools.0.input_schema.type: Input",
    ),
    "strict and open": (
        params(tools=[strict({"type": "object", "properties": {}})]),
        "tools.0.input_schema: For 'object' type, 'additionalProperties' must be explicitly set to false",
    ),
    "strict and optional": (
        params(tools=[strict(CLOSED | {"required": []})]),
        "tools.0.input_schema.required: a strict tool must require all its properties; missing: a",
    ),
    "strict and open inside": (
        params(tools=[strict(CLOSED | {"properties": {"a": {"type": "array", "items": {"type": "object"}}}})]),
        "tools.0.input_schema.properties.a.items: For 'object' type",
    ),
    "choice without tools": (params(tool_choice={"type": "any"}), "tool_choice: tool_choice may only be specified"),
    "choice of an unknown tool": (
        params(tools=[tool()], tool_choice={"type": "tool", "name": "edit"}),
        "tool_choice.name: Tool 'edit' not found in provided tools",
    ),
    "choice without a name": (params(tools=[tool()], tool_choice={"type": "tool"}), "tool_choice.name: Field required"),
    "unknown choice": (
        params(tools=[tool()], tool_choice={"type": "some"}),
        "tool_choice.type: Input should be 'auto'",
    ),
    "choice with more": (
        params(tools=[tool()], tool_choice={"type": "auto", "name": "view"}),
        "tool_choice.name: Extra inputs are not permitted",
    ),
    "five marks": (
        params(messages=[user(*[text(cache_control=mark()) for _ in range(5)])]),
        "messages.0.content.4.cache_control: A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "five marks with the one on top": (
        params(messages=[user(*[text(cache_control=mark()) for _ in range(4)])], cache_control=mark()),
        "cache_control: A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    "1h after 5m": (
        params(system=[text(cache_control=mark())], messages=[user(text(cache_control=mark("1h")))]),
        "messages.0.content.0.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m'",
    ),
    "1h in system after 5m in tools": (
        params(tools=[tool(cache_control=mark("5m"))], system=[text(cache_control=mark("1h"))]),
        "system.0.cache_control.ttl: a ttl='1h'",
    ),
    "mark of another type": (
        params(cache_control={"type": "eternal"}),
        "cache_control.type: Input should be 'ephemeral'",
    ),
    "mark of another ttl": (params(cache_control=mark("2h")), "cache_control.ttl: Input should be '5m' or '1h'"),
    "mark with more": (params(cache_control=mark() | {"x": 1}), "cache_control.x: Extra inputs are not permitted"),
    "stream a string": (params(stream="yes"), "stream: Input should be a valid boolean"),
    "metadata with more": (params(metadata={"task": "T1"}), "metadata.task: Extra inputs are not permitted"),
    "blank stop sequence": (params(stop_sequences=[" "]), "stop_sequences.0: each stop sequence must contain"),
    "unknown effort": (params(output_config={"effort": "huge"}), "output_config.effort: Input should be 'low'"),
    "format without schema": (
        params(output_config={"format": {"type": "json_schema"}}),
        "output_config.format.schema: Field required",
    ),
    "unknown tier": (params(service_tier="batch"), "service_tier: Input should be 'auto' or 'standard_only'"),
    "unknown speed": (params(speed="slow"), "speed: Input should be 'standard' or 'fast'"),
    "diagnostics": (params(diagnostics={"x": 1}), "diagnostics.x: Extra inputs are not permitted"),
    "container": (params(container=3), "container: Input should be a valid dictionary"),
    "thinking of another type": (params(thinking={"type": "deep"}), "thinking.type: Input should be"),
    "thinking without budget": (params(thinking={"type": "enabled"}), "thinking.budget_tokens: Field required"),
    "thinking too little": (
        params(thinking={"type": "enabled", "budget_tokens": 10}),
        "thinking.budget_tokens: Input should be greater than or equal to 1024",
    ),
    "thinking more than all": (
        params(thinking={"type": "enabled", "budget_tokens": 2000}),
        "max_tokens: must be greater than thinking.budget_tokens",
    ),
    "thinking budget on a model without one": (
        params(model="claude-sonnet-5-5", thinking={"type": "enabled", "budget_tokens": 2000}, max_tokens=4000),
        "thinking.type: 'enabled' is not supported by this model",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_request_that_breaks_a_rule_is_refused_naming_the_field(server: PracticeServer, case: str) -> None:
    """Each 400 of the specification, with the path of the field that is wrong; none of them is paid."""
    body, message = BAD[case]
    before = sum(server.ledger.paid().values())
    assert message in refused(server, "/v1/messages", body)
    assert sum(server.ledger.paid().values()) == before


GOOD: dict[str, Json] = {
    "the least": params(),
    "any claude model": params(model="claude-opus-5-5"),
    "all fields": params(
        system=[text(cache_control=mark("1h"))],
        tools=[strict(CLOSED), tool("edit", description="d", type="custom")],
        tool_choice={"type": "tool", "name": "view", "disable_parallel_tool_use": True},
        stream=False,
        metadata={"user_id": "u"},
        stop_sequences=["STOP"],
        thinking={"type": "adaptive"},
        cache_control=mark("5m"),
        output_config={"effort": "low", "format": {"type": "json_schema", "schema": {}}},
        service_tier="auto",
        container=None,
        diagnostics={"previous_message_id": None},
        speed="standard",
    ),
    "tool results and then text": params(
        messages=[user("x"), assistant(text(), use("a"), use("b")), user(result("b"), result("a"), text("go on"))]
    ),
    "a result in blocks": params(messages=[user("x"), assistant(use()), user(result(content=[text()], is_error=True))]),
    "a result without content": params(
        messages=[user("x"), assistant(use()), user({"type": "tool_result", "tool_use_id": "toolu_1"})]
    ),
    "1h before 5m": params(system=[text(cache_control=mark("1h"))], messages=[user(text(cache_control=mark()))]),
    "four marks": params(messages=[user(*[text(cache_control=mark()) for _ in range(4)])]),
    "a mark that is null": params(messages=[user(text(cache_control=None))]),
    "two user messages in a row": params(messages=[user("x"), user("y")]),
    "thinking blocks": params(
        messages=[user("x"), assistant({"type": "thinking", "thinking": "t", "signature": "s"}, text()), user("y")]
    ),
    "a nullable property": params(
        tools=[strict(CLOSED | {"properties": {"a": {"type": ["integer", "null"]}}})],
    ),
}


@pytest.mark.parametrize("case", GOOD)
def test_a_request_within_the_rules_is_answered(server: PracticeServer, case: str) -> None:
    """What the API allows is not refused, and the answer has the API's form."""
    status, headers, message = call(server, "POST", "/v1/messages", GOOD[case])
    assert status == 200, message
    assert headers["request-id"].startswith("req_")
    assert list(message) == ["id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"]
    assert message["id"].startswith("msg_") and message["model"] == GOOD[case]["model"]
    assert list(message["usage"]) == [
        "input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "cache_creation",
        "service_tier",
    ]  # fmt: skip


def test_a_model_that_is_not_served_is_not_found(server: PracticeServer) -> None:
    """404 `not_found_error` naming the model."""
    assert refused(server, "/v1/messages", params(model="gpt-9"), 404) == "model: gpt-9"


def test_a_body_that_is_no_json_object_is_refused(server: PracticeServer) -> None:
    """400 for a torn body, one that is not UTF-8, NaN, and one that is a list."""
    for raw in (b"", b'{"model":', b'{"model":"\xff"}', b'{"max_tokens":NaN}'):
        assert "not valid JSON" in refused(server, "/v1/messages", raw)
    assert refused(server, "/v1/messages", [1]) == "Input should be a valid dictionary"


def drop(*names: str, **more: str) -> dict[str, str]:
    return {name: value for name, value in HEADERS.items() if name not in names} | more


@pytest.mark.parametrize(
    ("headers", "status", "kind", "message"),
    [
        (drop("x-api-key"), 401, "authentication_error", "x-api-key header is required"),
        (drop("x-api-key", authorization="Basic abc"), 401, "authentication_error", "x-api-key header is required"),
        (HEADERS | {"x-api-key": "refused-1"}, 401, "authentication_error", "invalid x-api-key"),
        (drop("x-api-key", authorization="Bearer refused"), 401, "authentication_error", "invalid x-api-key"),
        (drop("anthropic-version"), 400, "invalid_request_error", "anthropic-version: header is required"),
        (
            HEADERS | {"anthropic-version": "new"},
            400,
            "invalid_request_error",
            'anthropic-version: "new" is not a valid',
        ),
        (drop("content-type"), 400, "invalid_request_error", "content-type: must be application/json"),
        (
            HEADERS | {"content-type": "text/plain"},
            400,
            "invalid_request_error",
            "content-type: must be application/json",
        ),
    ],
)
def test_a_missing_or_wrong_header_is_refused(
    server: PracticeServer, headers: dict[str, str], status: int, kind: str, message: str
) -> None:
    """A key, `anthropic-version` and a JSON content type are asked for, each with its own error."""
    got, _, error = call(server, "POST", "/v1/messages", params(), headers)
    assert (got, error["error"]["type"]) == (status, kind)
    assert error["error"]["message"].startswith(message)


def test_a_key_may_come_as_a_bearer_token(server: PracticeServer) -> None:
    """The SDK sends `Authorization: Bearer`; a charset after the content type does no harm."""
    headers = drop("x-api-key", authorization="Bearer k") | {"content-type": "application/json; charset=utf-8"}
    assert call(server, "POST", "/v1/messages", params(), headers)[0] == 200


def test_only_the_keys_that_are_named_are_accepted() -> None:
    """`accepts` decides which keys are good."""
    with PracticeServer(model=hello, accepts=["good"].__contains__) as server:
        assert call(server, "POST", "/v1/messages", params(), HEADERS | {"x-api-key": "good"})[0] == 200
        assert call(server, "POST", "/v1/messages", params(), HEADERS | {"x-api-key": "other"})[0] == 401


def test_a_body_over_the_limit_is_too_large(server: PracticeServer) -> None:
    """413 `request_too_large` before the body is taken, with the limit of the endpoint; then the connection ends."""
    big = params(messages=[user("x" * 250_000)])
    assert "maximum size of 200000 bytes" in refused(server, "/v1/messages", big, 413)
    batch = {"requests": [{"custom_id": "a", "params": big}]}
    assert call(server, "POST", "/v1/messages/batches", batch)[0] == 200
    huge = params(messages=[user("x" * 8_000_000)])  # more than the socket buffers hold: the client is still sending
    more = {"requests": [{"custom_id": "a", "params": huge}]}
    assert "maximum size of 300000 bytes" in refused(server, "/v1/messages/batches", more, 413)


def test_the_provider_s_own_limits_are_the_defaults() -> None:
    """32 MB a request, 256 MB and 100,000 requests a batch."""
    assert Limits() == Limits(message_bytes=32 * 2**20, batch_bytes=256 * 2**20, batch_requests=100_000)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/messages"),
        ("POST", "/v1/complete"),
        ("GET", "/practice/secrets"),
        ("DELETE", "/v1/messages/batches"),
    ],
)
def test_an_unknown_route_is_not_found(server: PracticeServer, method: str, path: str) -> None:
    """404 in the API's form, whatever the method."""
    status, headers, error = call(server, method, path)
    assert (status, error["error"]["type"]) == (404, "not_found_error")
    assert headers["request-id"] == error["request_id"]


def test_a_method_that_http_server_does_not_know_is_refused_in_the_api_s_form(server: PracticeServer) -> None:
    """No HTML page ever comes from this server."""
    status, headers, error = call(server, "PATCH", "/v1/messages")
    assert (status, error["error"]["type"]) == (400, "invalid_request_error")
    assert headers["content-type"] == "application/json"


def test_a_connection_serves_many_requests(server: PracticeServer) -> None:
    """HTTP/1.1 keep-alive, also after a refusal whose body was read."""
    connection = http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]), timeout=30)
    connection.connect()
    socket = connection.sock
    for body, status in ((params(), 200), (params(x=1), 400), (params(), 200)):
        connection.request("POST", "/v1/messages", json.dumps(body).encode(), HEADERS)
        response = connection.getresponse()
        response.read()
        assert response.status == status
        assert connection.sock is socket
    connection.close()


def test_a_closed_server_answers_nobody() -> None:
    """Closing ends the connections that are kept alive, too: a client must see that the server is gone."""
    with PracticeServer(model=hello) as server:
        connection = http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]), timeout=30)
        connection.request("POST", "/v1/messages", json.dumps(params()), HEADERS)
        assert connection.getresponse().read()
    with pytest.raises(ConnectionError):
        connection.request("POST", "/v1/messages", json.dumps(params()), HEADERS)
        connection.getresponse()
    connection.close()


def test_the_root_says_that_this_is_a_practice_server(server: PracticeServer) -> None:
    """`GET /` needs no key, names the model and says that nothing is real."""
    status, _, about = call(server, "GET", "/", headers={})
    assert (status, about["model"], about["practice"]) == (200, "practice", True)
    assert "practice server" in about["service"] and "not from a model" in about["note"]


COUNT_REFUSES = {
    "max_tokens": params(),
    "stream": without("max_tokens") | {"stream": False},
    "temperature": without("max_tokens") | {"temperature": 1},
}


@pytest.mark.parametrize("field", COUNT_REFUSES)
def test_count_tokens_takes_neither_max_tokens_nor_stream(server: PracticeServer, field: str) -> None:
    """The same body without these two; the other rules hold as well."""
    message = refused(server, "/v1/messages/count_tokens", COUNT_REFUSES[field])
    assert message == f"{field}: Extra inputs are not permitted"


def test_count_tokens_and_usage_agree(server: PracticeServer) -> None:
    """Tokens are one estimate, a function of the request: counted before, they are what is charged after."""
    body = GOOD["all fields"] | {"cache_control": None}
    counted = {name: value for name, value in body.items() if name not in ("max_tokens", "stream")}
    status, _, count = call(server, "POST", "/v1/messages/count_tokens", counted)
    assert status == 200 and list(count) == ["input_tokens"]
    usage = call(server, "POST", "/v1/messages", body)[2]["usage"]
    parts = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    assert sum(usage[name] for name in parts) == count["input_tokens"] > 0


BAD_BATCHES: dict[str, tuple[Json, str]] = {
    "nothing": ({}, "requests: Field required"),
    "no requests": ({"requests": []}, "requests: List should have at least 1 item"),
    "more fields": ({"requests": [], "name": "n"}, "name: Extra inputs are not permitted"),
    "four, where three are allowed": (
        {"requests": [{"custom_id": c, "params": {}} for c in "abcd"]},
        "requests: List should have at most 3 items",
    ),
    "no custom_id": ({"requests": [{"params": {}}]}, "requests.0.custom_id: Field required"),
    "no params": ({"requests": [{"custom_id": "a"}]}, "requests.0.params: Field required"),
    "params a string": (
        {"requests": [{"custom_id": "a", "params": ""}]},
        "requests.0.params: Input should be a valid dict",
    ),
    "custom_id with a slash": (
        {"requests": [{"custom_id": "a/b", "params": {}}]},
        "requests.0.custom_id: String should",
    ),
    "custom_id too long": (
        {"requests": [{"custom_id": "a" * 65, "params": {}}]},
        "requests.0.custom_id: String should",
    ),
    "custom_id empty": ({"requests": [{"custom_id": "", "params": {}}]}, "requests.0.custom_id: String should match"),
    "custom_id twice": (
        {"requests": [{"custom_id": "a", "params": {}}] * 2},
        "requests.1.custom_id: custom_id must be unique",
    ),
    "one more field in a request": (
        {"requests": [{"custom_id": "a", "params": {}, "priority": 1}]},
        "requests.0.priority: Extra inputs are not permitted",
    ),
}


@pytest.mark.parametrize("case", BAD_BATCHES)
def test_a_batch_that_breaks_a_rule_is_refused_whole(server: PracticeServer, case: str) -> None:
    """Each 400 on the frame of a batch; `params` are looked at later."""
    body, message = BAD_BATCHES[case]
    assert message in refused(server, "/v1/messages/batches", body)


def test_a_broken_model_is_a_500_and_no_payment() -> None:
    """An exception in the practice model reaches the client as `api_error`, says what it was, and costs nothing."""

    def broken(body: Mapping[str, Any]) -> Reply:
        raise KeyError(body["model"])

    def odd(_: Mapping[str, Any]) -> Reply:
        return Reply([], "tired")

    models: list[tuple[Callable[[Mapping[str, Any]], Reply], str]] = [
        (broken, "the practice model failed: KeyError: 'practice'"),
        (odd, "the practice model gave the unknown stop reason 'tired'"),
    ]
    for model, message in models:
        with PracticeServer(model=model) as server:
            assert refused(server, "/v1/messages", params(), 500) == message
            assert server.ledger.paid() == {}
