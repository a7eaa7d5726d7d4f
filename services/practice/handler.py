"""One connection of the practice server: reads requests, sends responses, and breaks them off where it was told to."""

import socket
import struct
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from threading import Event
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from taskyard.services.errors import PracticeError
from taskyard.services.practice.app import App, Incoming
from taskyard.services.practice.responses import Response, error_response
from taskyard.services.practice.wire import ERROR_TYPES, ApiError, Ids

_RESET = struct.pack("ii", 1, 0)
_LINGER_S = 1.0
_POLL_S = 0.05
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class _Server(Protocol):
    """What a connection needs of its server."""

    app: App
    closing: Event
    ids: Ids
    date: Callable[[], float]
    crashes: list[str]
    reset: set[socket.socket]


class _Gone(PracticeError):
    """The other side left in the middle of its request."""


class Handler(BaseHTTPRequestHandler):
    """Serves the requests of one connection, one after the other."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    practice: _Server
    _unread = 0
    """Bytes of the body not read yet; -1 when the request does not say how long it is."""

    def setup(self) -> None:
        super().setup()
        self.practice = self.server  # type: ignore[assignment]

    def handle(self) -> None:
        try:
            super().handle()
        except (OSError, _Gone):
            self.close_connection = True

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What http.server itself refuses (a bad request line, an unknown method), in the API's form."""
        self.close_connection = True
        request_id = self.practice.ids("req")
        error = ApiError(code if code in ERROR_TYPES else 400, message or explain or "Bad request")
        self._send(error_response(error, request_id), request_id)

    def _serve(self) -> None:
        request_id = self.practice.ids("req")
        response = self._respond(request_id)
        if response.ending == "stall":
            self._stall()
        if response.ending in ("stall", "drop"):
            self._abort()
        else:
            self._send(response, request_id)

    def _respond(self, request_id: str) -> Response:
        self._unread = int(self.headers.get("content-length") or 0) if self._sized() else -1
        url = urlsplit(self.path)
        incoming = Incoming(
            method=self.command,
            path=unquote(url.path),
            query=dict(parse_qsl(url.query, keep_blank_values=True)),
            headers={name.lower(): value for name, value in self.headers.items()},
            read=self._read,
        )
        try:
            response = self.practice.app.respond(incoming, request_id)
        except (ConnectionError, TimeoutError, _Gone):
            raise
        except Exception as error:  # a bug of ours must reach the client as a 500, and the test that looks for it
            self.practice.crashes.append(f"{self.command} {self.path}: {type(error).__name__}: {error}")
            response = error_response(ApiError(500, "Internal server error"), request_id)
        if self._unread != 0:
            self.close_connection = True  # a body that nobody read would be taken for the next request
        return response

    def _sized(self) -> bool:
        length = self.headers.get("content-length")
        return "transfer-encoding" not in self.headers and (length is None or length.isdecimal())

    def _read(self, most: int) -> bytes:
        if self._unread < 0:
            self.close_connection = True
            raise ApiError(400, "content-length: header is required and must be a number of bytes")
        if self._unread > most:
            raise ApiError(413, f"Request exceeds the maximum size of {most} bytes")
        body = self.rfile.read(self._unread)
        if len(body) < self._unread:
            raise _Gone
        self._unread = 0
        return body

    def _send(self, response: Response, request_id: str) -> None:
        body = response.body
        cut = response.ending == "cut"
        if response.events:
            chunks = [b"%x\r\n%s\r\n" % (len(event), event) for event in response.events]
            wire = b"".join(chunks[: len(chunks) // 2]) if cut else b"".join([*chunks, b"0\r\n\r\n"])
            framing = {"transfer-encoding": "chunked"}
        else:
            wire = body[: len(body) // 2] if cut else body
            framing = {"content-length": str(len(body))}
        self.close_connection = self.close_connection or cut
        closing = {"connection": "close"} if self.close_connection else {}
        head = self._head(response.status, dict(response.headers) | framing | closing, request_id)
        self.wfile.write(head + wire)
        if self._unread > 0:
            self._linger()

    def _head(self, status: int, headers: dict[str, str], request_id: str) -> bytes:
        phrase = _PHRASES.get(status, "Overloaded")
        always = {"date": self.date_time_string(self.practice.date()), "request-id": request_id}
        lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in (always | headers).items())]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def _linger(self) -> None:
        """Take what the client still sends, or it would be reset before it read the refusal."""
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(_LINGER_S)
        while self.connection.recv(65536):
            continue

    def _stall(self) -> None:
        """Say nothing until this server closes or the client hangs up."""
        self.connection.settimeout(_POLL_S)
        while not self.practice.closing.is_set():
            try:
                if not self.connection.recv(1, socket.MSG_PEEK):
                    return
            except TimeoutError:
                continue
            self.practice.closing.wait(_POLL_S)

    def _abort(self) -> None:
        """Close with a reset, so that the client sees a lost connection and not an early end."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.practice.reset.add(self.connection)
