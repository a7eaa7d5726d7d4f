"""From a request to a response: headers, routes, and the faults that hit whole requests. Knows no sockets."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any

import msgspec
import orjson

from taskyard.services.clock import rfc3339
from taskyard.services.errors import PracticeError
from taskyard.services.practice.batches import DEFAULT_LISTED, Batches
from taskyard.services.practice.engine import Engine
from taskyard.services.practice.faults import Fault, Faults, Subject
from taskyard.services.practice.fields import bad
from taskyard.services.practice.ledger import Ledger
from taskyard.services.practice.responses import (
    WITHOUT_A_WORD,
    Response,
    error_response,
    json_response,
    results_response,
    spoilt,
    stream_response,
)
from taskyard.services.practice.validate import check_batch
from taskyard.services.practice.wire import ApiError, Json, canonical, request_key

_VERSION = re.compile(r"\d{4}-\d\d-\d\d")
_BATCH = re.compile(r"/v1/messages/batches/(?P<id>[^/]+)(?P<action>|/cancel|/results)")
_MESSAGES = "POST /v1/messages"
_BATCHES = "POST /v1/messages/batches"

_ABOUT: Json = {
    "service": "taskyard practice server",
    "practice": True,
    "model": "practice",
    "note": "This server speaks the Messages API for practice and tests. Its answers come from a script, not from a "
    "model, and cost nothing; latency is scaled down.",
}


class Limits(msgspec.Struct, frozen=True):
    """Sizes beyond which a request is refused; the provider's own unless a test makes them small."""

    message_bytes: int = 32 * 2**20
    batch_bytes: int = 256 * 2**20
    batch_requests: int = 100_000


class Incoming(msgspec.Struct, frozen=True):
    """A request whose body is not read yet."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Names in lower case."""
    read: Callable[[int], bytes]
    """Reads the body; raises ApiError (413) when it is longer than so many bytes."""


class App:
    """The routes of the practice server.

    accepts: whether a key is good. latency: seconds that an answer to these parameters takes. wait: sleeps, but wakes
    when the server closes. now: the server's time, in seconds since 1970. advance: moves it forward by seconds.
    """

    def __init__(
        self,
        engine: Engine,
        batches: Batches,
        faults: Faults,
        ledger: Ledger,
        *,
        limits: Limits,
        accepts: Callable[[str], bool],
        latency: Callable[[Mapping[str, Any]], float],
        wait: Callable[[float], object],
        now: Callable[[], float],
        advance: Callable[[float], None],
    ) -> None:
        self._engine = engine
        self._batches = batches
        self._faults = faults
        self._ledger = ledger
        self._limits = limits
        self._accepts = accepts
        self._latency = latency
        self._wait = wait
        self._now = now
        self._advance = advance
        self._lock = Lock()
        self._live = 0
        self._peak_live = 0

    @property
    def peak_live(self) -> int:
        """The most `POST /v1/messages` that were under way at one time."""
        return self._peak_live

    def respond(self, incoming: Incoming, request_id: str) -> Response:
        """The response to any request; never raises ApiError."""
        try:
            if incoming.path == "/" or incoming.path.startswith("/practice/"):
                return self._own(incoming)
            where = f"{incoming.method} {incoming.path}"
            self._ledger.tally("requests")
            with self._counted(where):
                return self._api(incoming, where)
        except ApiError as error:
            return error_response(error, request_id)

    @contextmanager
    def _counted(self, where: str) -> Iterator[None]:
        live = where == _MESSAGES
        with self._lock:
            self._live += live
            self._peak_live = max(self._peak_live, self._live)
        try:
            yield
        finally:
            with self._lock:
                self._live -= live

    def _api(self, incoming: Incoming, where: str) -> Response:
        hits = self._faults.on_request(Subject(where))
        if any(fault.kind == "drop_before" for fault in hits):
            return WITHOUT_A_WORD
        raw = incoming.read(self._limits.batch_bytes if where == _BATCHES else self._limits.message_bytes)
        if self._faults.look_into_bodies:
            hits += self._faults.on_request(_subject(where, raw))
        slow_s = sum(fault.seconds for fault in hits if fault.kind == "slow")
        early = next((fault for fault in hits if not fault.after_accept and fault.kind != "slow"), None)
        late = next((fault for fault in hits if fault.after_accept and fault.kind != "slow"), None)
        shown_now = self._now() + self._faults.skew_s
        if early is not None:
            self._wait(slow_s)
            return spoilt(early, None, shown_now)
        response = self._route(incoming, where, raw, slow_s)
        return response if late is None else spoilt(late, response, shown_now)

    def _route(self, incoming: Incoming, where: str, raw: bytes, slow_s: float) -> Response:
        self._check_headers(incoming.headers)
        if where == _MESSAGES:
            body = _parsed(incoming, raw)
            message = self._engine.message(body, where)
            self._wait(slow_s + self._latency(body))
            return stream_response(message) if body.get("stream") else json_response(message)
        response = self._other_route(incoming, where, raw)
        self._wait(slow_s)
        return response

    def _other_route(self, incoming: Incoming, where: str, raw: bytes) -> Response:
        switches = self._engine.switches
        if where == "POST /v1/messages/count_tokens" and switches.count_tokens:
            return json_response(self._engine.count(_parsed(incoming, raw)))
        if not switches.batches:
            raise ApiError(404, "Not Found")
        if where == _BATCHES:
            requests = check_batch(_parsed(incoming, raw), most=self._limits.batch_requests)
            return json_response(self._batches.create(self._engine.rows(requests, where)))
        if where == "GET /v1/messages/batches":
            return json_response(self._page(incoming.query))
        return self._batch_route(incoming, where)

    def _batch_route(self, incoming: Incoming, where: str) -> Response:
        match = _BATCH.fullmatch(incoming.path)
        route = (incoming.method, match["action"]) if match else None
        if match and route == ("GET", "/results"):
            lines = self._batches.results(match["id"])
            names = tuple(line["custom_id"] for line in lines)
            return results_response(lines, self._faults.on_results(Subject(where, names)))
        if match and route == ("GET", ""):
            return json_response(self._batches.retrieve(match["id"]))
        if match and route == ("POST", "/cancel"):
            return json_response(self._batches.cancel(match["id"]))
        if match and route == ("DELETE", ""):
            return json_response(self._batches.delete(match["id"]))
        raise ApiError(404, "Not Found")

    def _page(self, query: Mapping[str, str]) -> Json:
        limit = query.get("limit", str(DEFAULT_LISTED))
        if not re.fullmatch(r"-?[0-9]{1,9}", limit):
            raise bad("limit", "Input should be a valid integer, unable to parse string as an integer")
        return self._batches.page(limit=int(limit), after_id=query.get("after_id"), before_id=query.get("before_id"))

    def _check_headers(self, headers: Mapping[str, str]) -> None:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        key = headers.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else "")
        if not key:
            raise ApiError(401, "x-api-key header is required")
        if not self._accepts(key):
            raise ApiError(401, "invalid x-api-key")
        version = headers.get("anthropic-version")
        if version is None:
            raise bad("anthropic-version", "header is required")
        if not _VERSION.fullmatch(version):
            raise bad("anthropic-version", f'"{version}" is not a valid version')

    def _own(self, incoming: Incoming) -> Response:
        """The server's own pages: what it is, what was paid, which faults are armed, and its clock."""
        where = f"{incoming.method} {incoming.path}"
        if where == "GET /":
            return json_response(_ABOUT)
        if where == "GET /practice/ledger":
            return json_response(self._ledger.snapshot() | {"peak_live": self._peak_live})
        if where == "POST /practice/clock":
            self._advance(_seconds(incoming.read(self._limits.message_bytes)))
            return json_response({"now": rfc3339(self._now())})
        if where == "POST /practice/faults":
            self._faults.arm(_faults(incoming.read(self._limits.message_bytes)))
        elif where == "DELETE /practice/faults":
            self._faults.clear()
        elif where != "GET /practice/faults":
            raise ApiError(404, "Not Found")
        return json_response({"faults": self._faults.snapshot()})


class _Advance(msgspec.Struct, forbid_unknown_fields=True):
    advance_s: float


def _seconds(raw: bytes) -> float:
    try:
        return msgspec.json.decode(raw, type=_Advance).advance_s
    except msgspec.DecodeError as error:
        raise ApiError(400, f'write {{"advance_s": seconds}}: {error}') from error


def _faults(raw: bytes) -> list[Fault]:
    try:
        if raw.lstrip().startswith(b"["):
            return msgspec.json.decode(raw, type=list[Fault])
        return [msgspec.json.decode(raw, type=Fault)]
    except (msgspec.DecodeError, PracticeError) as error:
        raise ApiError(400, str(error)) from error


def _subject(where: str, raw: bytes) -> Subject:
    """What the faults with a `key` or `text` look at; a body that is no request has no names."""
    try:
        body = orjson.loads(raw)
        if where == _BATCHES:
            rows = [(row["custom_id"], request_key(row["params"])) for row in body["requests"]]
            names = tuple(name for row in rows for name in row)
        else:
            names = (request_key(body),)
        return Subject(where, names, canonical(body).decode())
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError):
        return Subject(where, ())


def _parsed(incoming: Incoming, raw: bytes) -> Json:
    kind = incoming.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise bad("content-type", "must be application/json")
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ApiError(400, f"The request body is not valid JSON: {error}") from error
    if not isinstance(body, dict):
        raise ApiError(400, "Input should be a valid dictionary")
    return body
