"""The practice server on a socket: loopback only, one thread a connection, HTTP/1.1 with keep-alive.

with PracticeServer(model=answer, latency_s=0.05) as server:
    client = anthropic.Anthropic(base_url=server.url, api_key="any", max_retries=0)
    ...
    assert max(server.ledger.paid().values()) == 1
"""

import socket
from collections.abc import Callable, Mapping, Sequence
from http.server import ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer
from threading import Condition, Event, Lock, Thread
from types import TracebackType
from typing import Any, Self

from taskyard.services.clock import Clock, SystemClock
from taskyard.services.practice.app import App, Limits
from taskyard.services.practice.batches import Batches, Duration
from taskyard.services.practice.engine import SERVED, Engine, Switches
from taskyard.services.practice.faults import Fault, Faults
from taskyard.services.practice.handler import Handler
from taskyard.services.practice.ledger import Ledger
from taskyard.services.practice.wire import Answer, Ids, random_id

Latency = float | Callable[[Mapping[str, Any]], float]
"""Seconds that every live answer takes, or a function of the request's parameters."""

_CLOSE_WITHIN_S = 5.0


def any_key_but_refused(key: str) -> bool:
    """The keys that are accepted unless others are named."""
    return not key.startswith("refused")


class PracticeServer:
    """A loopback server that speaks the Messages API with a practice model.

    model: answers requests; None = `taskyard.services.practice.model.answer`.
    latency_s: of each live answer; paid before, as in life. batch_s: until a batch has ended; cancel_s: from a batch's
    cancel to its end. faults: armed from the start; later by `server.faults.arm`. ledger: a file that the payments are
    appended to. served: models, as names or patterns. accepts: which keys are good.
    clock: for batches, the prompt cache and all stamps; it never paces a latency. ids: makes ids from a prefix.
    port: 0 = a free one. Raises OSError when the port can't be had, PracticeError for a bad ledger.
    """

    def __init__(
        self,
        model: Answer | None = None,
        *,
        latency_s: Latency = 0.0,
        batch_s: Duration = 0.0,
        cancel_s: float = 0.0,
        faults: Sequence[Fault] = (),
        switches: Switches | None = None,
        limits: Limits | None = None,
        ledger: Path | None = None,
        served: Sequence[str] = SERVED,
        accepts: Callable[[str], bool] = any_key_but_refused,
        clock: Clock | None = None,
        ids: Ids = random_id,
        port: int = 0,
    ) -> None:
        self.faults = Faults(faults)
        self.ledger = Ledger(ledger)
        self._clock = clock or SystemClock()
        self._ahead_s = 0.0
        self._clock_lock = Lock()
        self._closing = Event()
        self._engine = Engine(
            model or _default_model(),
            served=served,
            switches=switches or Switches(),
            faults=self.faults,
            ledger=self.ledger,
            ids=ids,
            now=self.now,
        )
        self._batches = Batches(
            self.ledger, duration=batch_s, cancel_s=cancel_s, ids=ids, now=self.now, skew=lambda: self.faults.skew_s
        )
        self._app = App(
            self._engine,
            self._batches,
            self.faults,
            self.ledger,
            limits=limits or Limits(),
            accepts=accepts,
            latency=latency_s if callable(latency_s) else lambda _: latency_s,
            wait=self._wait,
            now=self.now,
            advance=self.advance,
        )
        try:
            self._http = _HttpServer(port, self._app, self._closing, ids, lambda: self.now() + self.faults.skew_s)
        except OSError:
            self.ledger.close()
            raise
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._batches.url = self.url
        self._thread = Thread(target=self._http.serve_forever, args=(0.05,), name="practice-server", daemon=True)

    def now(self) -> float:
        """The server's time: its clock's, and how far `advance` moved it. Seconds since 1970."""
        with self._clock_lock:
            return self._clock.now() + self._ahead_s

    def advance(self, seconds: float) -> None:
        """Move the server's time forward: batches end and expire, cached prefixes lapse."""
        with self._clock_lock:
            self._ahead_s += seconds

    @property
    def peak_live(self) -> int:
        """The most live requests that were being answered at one time."""
        return self._app.peak_live

    @property
    def crashes(self) -> tuple[str, ...]:
        """What went wrong in the server itself; empty unless it has a bug."""
        return tuple(self._http.crashes)

    def start(self) -> Self:
        """Begin to answer; `with` does it too."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop answering, reset what is still open, and let go of port and ledger."""
        if self._closing.is_set():
            return
        self._closing.set()
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
        self._http.server_close()
        self._http.drop_connections()
        self.ledger.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _wait(self, seconds: float) -> None:
        if seconds > 0:
            self._closing.wait(seconds)


def _default_model() -> Answer:
    # Here and not above: tests with a model of their own need not load the sample project's.
    from taskyard.services.practice.model import answer

    return answer


class _HttpServer(ThreadingHTTPServer):
    """The listening socket and its open connections."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024

    def __init__(self, port: int, app: App, closing: Event, ids: Ids, date: Callable[[], float]) -> None:
        self.app = app
        self.closing = closing
        self.ids = ids
        self.date = date
        self.crashes: list[str] = []
        self.reset: set[socket.socket] = set()
        self._open: set[socket.socket] = set()
        self._changed = Condition()
        super().__init__(("127.0.0.1", port), Handler)

    def server_bind(self) -> None:
        # HTTPServer would look up this machine's name, which can take seconds.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        if request in self.reset:
            self.reset.discard(request)
            self.close_request(request)
        else:
            super().shutdown_request(request)
        with self._changed:
            self._open.discard(request)
            self._changed.notify_all()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Quiet: what is worth telling is in `crashes`."""

    def drop_connections(self) -> None:
        """End what is still open and wait for its threads."""
        with self._changed:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # the other side was faster
            self._changed.wait_for(lambda: not self._open, _CLOSE_WITHIN_S)
