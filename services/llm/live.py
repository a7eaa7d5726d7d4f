"""The live lane: one POST through the official SDK, and what its failure means for the bill.

The SDK takes 1 to 5 seconds to import, so that happens in a worker thread when a client is first needed; its own
retries are off, since it sends no idempotency key and a paid request may be accepted several times.
"""

import asyncio
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from taskyard.services import fault
from taskyard.services.errors import EnvironmentFault, KeyRefused, RequestRefused

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

TIMEOUT_S = 600.0
_NOT_SENT = {"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol"}
_STATUS_AMBIGUOUS = {408, 409}


class Endpoint(msgspec.Struct, frozen=True):
    """Where the API is. None: as the SDK finds it (ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL, profiles, …)."""

    base_url: str | None = None
    api_key: str | None = None


class NotAccepted(Exception):
    """The request surely was not accepted and may be sent again.

    retry_after_s: how long the server asked to wait, None when it did not say. unreachable: no server answered at all.
    """

    def __init__(self, message: str, *, retry_after_s: float | None = None, unreachable: bool = False) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.unreachable = unreachable


class Ambiguous(Exception):
    """The request may have been accepted and paid; the live lane has no way to ask."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class LiveLane:
    """Sends single requests. `await lane.send(params)` gives the response's bytes."""

    def __init__(self, endpoint: Endpoint, timeout_s: float = TIMEOUT_S) -> None:
        self._endpoint = endpoint
        self._timeout_s = timeout_s
        self._client: AsyncAnthropic | None = None
        self._making = asyncio.Lock()

    async def send(self, params: dict[str, Any]) -> bytes:
        """POST a paid request once.

        Raises NotAccepted, Ambiguous, KeyRefused, or RequestRefused.
        """
        client = await self._ready()
        fault.point("llm.post.before")
        try:
            response = await client.messages.with_raw_response.create(**params, timeout=self._timeout_s)
            raw = bytes(await response.read())
        except Exception as error:
            raise _meaning(error) from error
        fault.point("llm.post.after")
        return raw

    async def preflight(self, model: str) -> None:
        """Ask for something free, to learn whether the server is there and takes the key.

        Raises KeyRefused, EnvironmentFault (no key), NotAccepted (unreachable). A server that lacks it is fine.
        """
        client = await self._ready()
        try:
            await client.messages.count_tokens(
                model=model, messages=[{"role": "user", "content": "ping"}], timeout=30.0
            )
        except Exception as error:
            meaning = _meaning(error)
            if isinstance(meaning, KeyRefused | EnvironmentFault) or (
                isinstance(meaning, NotAccepted) and meaning.unreachable
            ):
                raise meaning from error

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _ready(self) -> "AsyncAnthropic":
        async with self._making:
            if self._client is None:
                self._client = await asyncio.to_thread(self._make)
        return self._client

    def _make(self) -> "AsyncAnthropic":
        from anthropic import AnthropicError, AsyncAnthropic

        given: Mapping[str, Any] = msgspec.structs.asdict(self._endpoint)
        try:
            return AsyncAnthropic(
                max_retries=0,
                timeout=self._timeout_s,
                **{key: value for key, value in given.items() if value is not None},
            )
        except AnthropicError as error:
            raise EnvironmentFault(_no_key(error)) from error


def _no_key(error: Exception) -> str:
    return f"no API key: {error}. Set ANTHROPIC_API_KEY, or try `taskyard demo`, which needs none."


def _meaning(error: Exception) -> Exception:
    """What an SDK error says about the bill."""
    import anthropic

    if isinstance(error, anthropic.APIStatusError):
        return _status_meaning(error)
    if isinstance(error, anthropic.APIConnectionError):
        cause = type(error.__cause__).__name__
        words = str(error.__cause__ or error)
        if cause in _NOT_SENT:
            return NotAccepted(f"no server: {words}", unreachable=True)
        return Ambiguous(f"the connection broke ({cause}: {words})")
    if isinstance(error, TypeError | anthropic.AnthropicError) and "auth" in str(error).lower():
        return EnvironmentFault(_no_key(error))
    if isinstance(error, TypeError | ValueError):  # the SDK refuses before anything is sent
        return RequestRefused(f"the SDK refused the request: {error}")
    return Ambiguous(f"{type(error).__name__}: {error}")


def _status_meaning(error: Any) -> Exception:
    status: int = error.status_code
    words = f"{status}: {_said(error)}"
    retry_after = _retry_after(error.response.headers)
    if status in {401, 403}:
        return KeyRefused(f"the server refused the API key ({words}). Check ANTHROPIC_API_KEY and its rights.")
    if status == 402:
        return KeyRefused(f"the account can't pay ({words}). Add credit, then run `taskyard resume`.")
    if status == 429:
        return NotAccepted(f"rate limit ({words})", retry_after_s=retry_after)
    if status >= 500 or status in _STATUS_AMBIGUOUS:
        return Ambiguous(words, retry_after_s=retry_after)
    return RequestRefused(words)


def _said(error: Any) -> str:
    """The server's own message, without the JSON around it."""
    body = error.body if isinstance(error.body, dict) else {}
    told = body.get("error")
    message = told.get("message") if isinstance(told, dict) else None
    return str(message or error.message)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait; capped at ten minutes, since a header is no promise."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers[name]) * scale
        except (KeyError, ValueError):
            continue
        if math.isfinite(seconds):
            return min(max(seconds, 0.0), 600.0)
    return None
