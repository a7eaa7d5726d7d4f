"""A model request and its one name: cache key, single-flight key and (later) `custom_id` of a batch."""

import base64
import hashlib
from typing import Any

import msgspec
import orjson

from taskyard.services.errors import RequestRefused
from taskyard.services.records import Role

SCHEMA = 1
"""Raised when the meaning of a stored answer changes; old answers are then no longer found."""

MESSAGES = "/v1/messages"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One Messages API call's content, and who asks."""

    params: dict[str, Any]
    """The body of the POST, whole."""
    role: Role
    task: str
    attempt: int
    turn: int
    sample: int = 0
    """0, or the number of a deliberate further sample; never a retry."""
    path: str = MESSAGES

    @property
    def model(self) -> str:
        return str(self.params["model"])

    @property
    def max_tokens(self) -> int:
        return int(self.params["max_tokens"])


def canonical(params: dict[str, Any]) -> bytes:
    """The one byte form of a request's content: JSON with sorted keys and no spaces.

    Raises RequestRefused for what can't be encoded: NaN would become null, and lone surrogates have no bytes.
    """
    try:
        _refuse_non_finite(params)
        return orjson.dumps(params, option=orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError) as error:
        raise RequestRefused(f"a request can't be encoded as JSON ({error}); it was not sent") from error


def name_of(params: dict[str, Any], *, path: str = MESSAGES, sample: int = 0) -> str:
    """The content name: BLAKE2b (24 bytes) over schema, path and canonical content, base64url, `-sN` for sample N.

    At most 64 characters of `[A-Za-z0-9_-]`, as the batches endpoint asks. The host is no part of it.
    """
    state = hashlib.blake2b(digest_size=24)
    state.update(f"{SCHEMA} {path}\n".encode())
    state.update(canonical(params))
    name = base64.urlsafe_b64encode(state.digest()).decode()
    return f"{name}-s{sample}" if sample else name


def _refuse_non_finite(value: Any) -> None:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        raise ValueError(f"{value} is no JSON number")
    if isinstance(value, dict):
        for item in value.values():
            _refuse_non_finite(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_non_finite(item)
