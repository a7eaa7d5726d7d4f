"""Standard output, written by a thread of its own.

    with Output(1) as out:
        out.line(b"text")      # returns at once; written, whole and in order, as soon as the reader takes it

A reader that is slow or gone never holds up or ends a run.
"""

import errno
import os
import select
from queue import SimpleQueue
from threading import Thread
from types import TracebackType


class Output:
    """Lines to a file descriptor. After a failed write nothing more is written, and `failure` says why."""

    def __init__(self, descriptor: int) -> None:
        self.failure: str | None = None
        """Why writing stopped (a full disk, say); None while all is well or when the reader simply left."""
        self._descriptor = descriptor
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._thread = Thread(target=self._write_all, name="output", daemon=True)

    def __enter__(self) -> "Output":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.put(None)
        self._thread.join()

    def line(self, text: bytes) -> None:
        """Add one line; the line's end is added here."""
        self._lines.put(text + b"\n")

    def _write_all(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._write(line)
            except OSError as error:
                if error.errno != errno.EPIPE:
                    self.failure = error.strerror or str(error)
                return

    def _write(self, line: bytes) -> None:
        # Past Python's buffer: what a buffer still holds after a broken pipe would fail once more at exit.
        left = memoryview(line)
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:  # whoever shares the pipe made it non-blocking
                select.select([], [self._descriptor], [])
