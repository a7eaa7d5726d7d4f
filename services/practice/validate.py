"""The rules of `POST /v1/messages` that do not concern tools: every refusal is a 400 that names the field.

check_message(params, served=("practice", "claude-*"))      # raises ApiError, else nothing
"""

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from taskyard.services.practice.fields import (
    at_least_one,
    bad,
    choice,
    integer,
    known,
    listed,
    record,
    required,
    string,
    switch,
)
from taskyard.services.practice.validate_content import check_messages, check_system
from taskyard.services.practice.validate_tools import check_marks, check_tool_choice, check_tools
from taskyard.services.practice.wire import ApiError

Params = Mapping[str, Any]

MESSAGE_FIELDS = (
    "model", "max_tokens", "messages", "system", "tools", "tool_choice", "stream", "metadata", "stop_sequences",
    "thinking", "cache_control", "output_config", "service_tier", "container", "diagnostics", "speed",
)  # fmt: skip
COUNT_FIELDS = tuple(name for name in MESSAGE_FIELDS if name not in ("max_tokens", "stream"))

_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_MANUAL_THINKING_REFUSED = re.compile(r"claude-sonnet-([5-9]|\d\d)")
_LEAST_THINKING = 1024


def check_message(params: object, *, served: Sequence[str], strict_tools: bool = True, marks: bool = True) -> Params:
    """Check the body of `POST /v1/messages` and return it, typed.

    served: names or `fnmatch` patterns of the models there are. strict_tools: whether tools may be `strict`.
    marks: whether `cache_control` is looked at. Raises ApiError: 404 for another model, 400 for all else.
    """
    body = record(params, "")
    known(body, "", MESSAGE_FIELDS)
    required(body, "", ("model", "max_tokens", "messages"))
    integer(body["max_tokens"], "max_tokens", least=1)
    _check_common(body, served, strict_tools, marks)
    return body


def check_count(params: object, *, served: Sequence[str], strict_tools: bool = True, marks: bool = True) -> Params:
    """Check the body of `POST /v1/messages/count_tokens`: the same without `max_tokens` and `stream`."""
    body = record(params, "")
    known(body, "", COUNT_FIELDS)
    required(body, "", ("model", "messages"))
    _check_common(body, served, strict_tools, marks)
    return body


def _check_common(body: Params, served: Sequence[str], strict_tools: bool, marks: bool) -> None:
    string(body["model"], "model")
    for name, check in _PLAIN.items():
        if name in body:
            check(body[name], name)
    if "thinking" in body:
        _check_thinking(body)
    if "system" in body:
        check_system(body["system"])
    check_messages(body["messages"])
    if "tools" in body:
        check_tools(body["tools"], strict_allowed=strict_tools)
    if "tool_choice" in body:
        check_tool_choice(body["tool_choice"], body.get("tools", []))
    if marks:
        check_marks(body)
    if not any(fnmatchcase(body["model"], pattern) for pattern in served):
        raise ApiError(404, f"model: {body['model']}")


def _check_metadata(value: object, path: str) -> None:
    fields = record(value, path)
    known(fields, path, ("user_id",))
    if fields.get("user_id") is not None:
        string(fields["user_id"], f"{path}.user_id")


def _check_stop_sequences(value: object, path: str) -> None:
    for index, text in enumerate(listed(value, path)):
        string(text, f"{path}.{index}")
        if not text.strip():
            raise bad(f"{path}.{index}", "each stop sequence must contain non-whitespace")


def _check_output_config(value: object, path: str) -> None:
    fields = record(value, path)
    known(fields, path, ("effort", "format"))
    if fields.get("effort") is not None:
        choice(fields["effort"], f"{path}.effort", _EFFORTS)
    if fields.get("format") is not None:
        shape = record(fields["format"], f"{path}.format")
        known(shape, f"{path}.format", ("type", "schema"))
        required(shape, f"{path}.format", ("type", "schema"))
        choice(shape["type"], f"{path}.format.type", ("json_schema",))
        record(shape["schema"], f"{path}.format.schema")


def _check_container(value: object, path: str) -> None:
    if value is not None and not isinstance(value, str):
        record(value, path)


def _check_diagnostics(value: object, path: str) -> None:
    if value is None:
        return
    fields = record(value, path)
    known(fields, path, ("previous_message_id",))
    if fields.get("previous_message_id") is not None:
        string(fields["previous_message_id"], f"{path}.previous_message_id")


def _check_speed(value: object, path: str) -> None:
    if value is not None:
        choice(value, path, ("standard", "fast"))


def _check_service_tier(value: object, path: str) -> None:
    choice(value, path, ("auto", "standard_only"))


_PLAIN: dict[str, Callable[[object, str], None]] = {
    "stream": switch,
    "metadata": _check_metadata,
    "stop_sequences": _check_stop_sequences,
    "output_config": _check_output_config,
    "service_tier": _check_service_tier,
    "container": _check_container,
    "diagnostics": _check_diagnostics,
    "speed": _check_speed,
}


def _check_thinking(body: Params) -> None:
    fields = record(body["thinking"], "thinking")
    required(fields, "thinking", ("type",))
    choice(fields["type"], "thinking.type", ("enabled", "disabled", "adaptive", "between_tools"))
    if fields["type"] != "enabled":
        return
    if _MANUAL_THINKING_REFUSED.match(body["model"]):
        raise bad("thinking.type", "'enabled' is not supported by this model; use 'adaptive' with output_config.effort")
    required(fields, "thinking", ("budget_tokens",))
    integer(fields["budget_tokens"], "thinking.budget_tokens", least=_LEAST_THINKING)
    if fields["budget_tokens"] >= body.get("max_tokens", fields["budget_tokens"] + 1):
        raise bad("max_tokens", "must be greater than thinking.budget_tokens")


_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def check_batch(body: object, *, most: int) -> list[Params]:
    """Check the body of `POST /v1/messages/batches` and return its requests; `params` are not looked into.

    most: how many requests a batch may hold. Raises ApiError (400).
    """
    fields = record(body, "")
    known(fields, "", ("requests",))
    required(fields, "", ("requests",))
    requests = listed(fields["requests"], "requests")
    at_least_one(requests, "requests")
    if len(requests) > most:
        raise bad("requests", f"List should have at most {most} items after validation, not {len(requests)}")
    seen: set[str] = set()
    for index, request in enumerate(requests):
        _check_batch_request(request, f"requests.{index}", seen)
    return requests


def _check_batch_request(request: object, path: str, seen: set[str]) -> None:
    fields = record(request, path)
    known(fields, path, ("custom_id", "params"))
    required(fields, path, ("custom_id", "params"))
    custom_id = string(fields["custom_id"], f"{path}.custom_id")
    if not _CUSTOM_ID.fullmatch(custom_id):
        raise bad(f"{path}.custom_id", "String should match pattern '^[a-zA-Z0-9_-]{1,64}$'")
    if custom_id in seen:
        raise bad(f"{path}.custom_id", f"custom_id must be unique in a batch, {custom_id!r} is there twice")
    seen.add(custom_id)
    record(fields["params"], f"{path}.params")
