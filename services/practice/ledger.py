"""The server's own count of what it took payment for: the oracle of the fault tests."""

import os
from collections.abc import Iterable
from pathlib import Path
from threading import Lock

import msgspec

from taskyard.services.errors import PracticeError
from taskyard.services.practice.wire import Json
from taskyard.services.records import Lane, Usage


class Payment(msgspec.Struct, frozen=True):
    """One accepted request that is charged for."""

    key: str
    """`wire.request_key` of its parameters."""
    lane: Lane
    model: str
    usage: Usage


class _Entry(msgspec.Struct, frozen=True):
    """A line of the ledger's file."""

    event: str
    """`paid` or `refunded`."""
    payment: Payment


class Ledger:
    """Counts accepted payments by key, lane and model; optionally kept in a file that survives the server.

    A live request is paid when it is accepted. A row of a batch is paid when the batch is accepted, if it is going to
    succeed; when the batch is cancelled before the row was reached, its payment is taken back.

    file: appended to and synced to disk before an answer leaves; what it already holds is counted too. Raises
    PracticeError when it can't be read as a ledger.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._lock = Lock()
        self._counts: dict[tuple[str, Lane, str], list[Usage]] = {}
        self._tally: dict[str, int] = {}
        self._out = None
        if file is not None:
            if file.exists():
                self._load(file)
            self._out = file.open("ab")

    def pay(self, payments: Iterable[Payment]) -> None:
        """Count these as paid."""
        self._write("paid", payments)

    def refund(self, payments: Iterable[Payment]) -> None:
        """Count these as not paid after all."""
        self._write("refunded", payments)

    def tally(self, name: str) -> None:
        """Count something that costs nothing: a request, a batch."""
        with self._lock:
            self._tally[name] = self._tally.get(name, 0) + 1

    def paid(self) -> dict[str, int]:
        """Key → how often it was paid, over both lanes."""
        counts: dict[str, int] = {}
        with self._lock:
            for (key, _, _), usages in self._counts.items():
                counts[key] = counts.get(key, 0) + len(usages)
        return {key: count for key, count in counts.items() if count}

    def snapshot(self) -> Json:
        """The JSON of `GET /practice/ledger`; tokens are sums over `count` payments."""
        with self._lock:
            rows = [_row(key, lane, model, usages) for (key, lane, model), usages in self._counts.items() if usages]
            return {"paid": rows, "requests": 0, "batches": 0} | self._tally

    def close(self) -> None:
        """Close the file."""
        if self._out is not None:
            self._out.close()

    def _write(self, event: str, payments: Iterable[Payment]) -> None:
        entries = [_Entry(event, payment) for payment in payments]
        with self._lock:
            if self._out is not None and entries:
                self._out.write(b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries))
                self._out.flush()
                os.fsync(self._out.fileno())
            for entry in entries:
                self._count(entry)

    def _count(self, entry: _Entry) -> None:
        payment = entry.payment
        usages = self._counts.setdefault((payment.key, payment.lane, payment.model), [])
        if entry.event == "paid":
            usages.append(payment.usage)
        elif payment.usage in usages:
            usages.remove(payment.usage)

    def _load(self, file: Path) -> None:
        for number, line in enumerate(file.read_bytes().splitlines(), 1):
            try:
                self._count(msgspec.json.decode(line, type=_Entry))
            except msgspec.DecodeError as error:
                raise PracticeError(
                    f"{file}:{number}: this is not a practice ledger ({error}); name another file"
                ) from error


def _row(key: str, lane: Lane, model: str, usages: list[Usage]) -> Json:
    return {
        "key": key,
        "count": len(usages),
        "lane": lane,
        "model": model,
        "input_tokens": sum(usage.input_tokens for usage in usages),
        "output_tokens": sum(usage.output_tokens for usage in usages),
        "cache_read_tokens": sum(usage.cache_read_tokens for usage in usages),
        "cache_write_5m_tokens": sum(usage.cache_write_5m_tokens for usage in usages),
        "cache_write_1h_tokens": sum(usage.cache_write_1h_tokens for usage in usages),
    }
