"""Message Batches: made, listed, cancelled and deleted as the API does it, in time that a clock gives.

How each row ends is settled when the batch is accepted; it shows when its time has come.
"""

from collections.abc import Callable, Sequence
from random import Random
from threading import Lock

from taskyard.services.clock import rfc3339
from taskyard.services.practice.engine import Row
from taskyard.services.practice.ledger import Ledger
from taskyard.services.practice.wire import ApiError, Ids, Json

EXPIRES_S = 24 * 3600.0
KEPT_S = 29 * 24 * 3600.0
MOST_LISTED = 1000
DEFAULT_LISTED = 20

Duration = float | Callable[[int], float]
"""Seconds until a batch has ended, or a function of its number of requests."""

_COUNTS = ("processing", "succeeded", "errored", "canceled", "expired")


class Batch:
    """One batch. Its rows finish one after the other, evenly over its duration."""

    def __init__(self, batch_id: str, rows: Sequence[Row], created: float, duration: float) -> None:
        self.id = batch_id
        self.created = created
        self.expires = created + EXPIRES_S
        self.cancelled: float | None = None
        self._ends = min(created + duration, self.expires)
        self._rows = [
            (_if(row, finished <= self.expires, "expired"), finished)
            for number, row in enumerate(rows, 1)
            for finished in [created + duration * number / len(rows)]
        ]

    @property
    def rows(self) -> list[Row]:
        return [row for row, _ in self._rows]

    def cancel(self, now: float, grace: float) -> list[Row]:
        """Stop at `now`: what is not finished ends `canceled`, `grace` seconds later at most. Returns those rows."""
        self.cancelled = now
        self._ends = min(self._ends, now + grace)
        stopped = [row for row, finished in self._rows if finished > now]
        self._rows = [(_if(row, finished <= now, "canceled"), finished) for row, finished in self._rows]
        return stopped

    def ended(self, now: float) -> bool:
        return now >= self._ends

    def archived(self, now: float) -> bool:
        """Whether the results are no longer kept."""
        return now >= self.created + KEPT_S

    def lines(self) -> list[Json]:
        """The result lines, in an order that has nothing to do with the requests'."""
        lines = [{"custom_id": row.custom_id, "result": row.result} for row in self.rows]
        Random(self.id).shuffle(lines)
        return lines

    def view(self, now: float, skew: float, url: str, *, ended: bool) -> Json:
        """The batch as the API shows it. skew: seconds by which the times sent are wrong. url: of the server."""
        counts = dict.fromkeys(_COUNTS, 0)
        if ended:
            for row in self.rows:
                counts[row.result["type"]] += 1
        else:
            counts["processing"] = len(self._rows)
        archived = self.archived(now)
        status = "ended" if ended else "canceling" if self.cancelled is not None else "in_progress"
        results = f"{url}/v1/messages/batches/{self.id}/results"
        return {
            "id": self.id,
            "type": "message_batch",
            "processing_status": status,
            "request_counts": counts,
            "created_at": rfc3339(self.created + skew),
            "expires_at": rfc3339(self.expires + skew),
            "ended_at": rfc3339(self._ends + skew) if ended else None,
            "archived_at": rfc3339(self.created + KEPT_S + skew) if archived else None,
            "cancel_initiated_at": None if self.cancelled is None else rfc3339(self.cancelled + skew),
            "results_url": results if ended and not archived else None,
        }


def _if(row: Row, kept: bool, otherwise: str) -> Row:
    """The row, or one that ended `otherwise` (unpaid) unless it had an end of its own."""
    if kept or row.result["type"] != "succeeded":
        return row
    return Row(row.custom_id, {"type": otherwise}, None)


class Batches:
    """All batches of the one workspace, whichever key made them.

    duration: of a batch. cancel_s: seconds from a cancel to the end. now: the server's time. skew: see `Batch.view`.
    Every method raises ApiError as the API would.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        duration: Duration,
        cancel_s: float,
        ids: Ids,
        now: Callable[[], float],
        skew: Callable[[], float],
    ) -> None:
        self._ledger = ledger
        self._duration = duration
        self._cancel_s = cancel_s
        self._ids = ids
        self._now = now
        self._skew = skew
        self._lock = Lock()
        self._batches: dict[str, Batch] = {}
        self.url = ""
        """Of the server, without a slash at the end."""

    def create(self, rows: Sequence[Row]) -> Json:
        """Accept a batch; the rows that are going to succeed are paid now."""
        seconds = self._duration(len(rows)) if callable(self._duration) else self._duration
        with self._lock:
            batch = Batch(self._ids("msgbatch"), rows, self._now(), seconds)
            self._ledger.pay(row.payment for row in batch.rows if row.payment)
            self._ledger.tally("batches")
            self._batches[batch.id] = batch
            return batch.view(self._now(), self._skew(), self.url, ended=False)

    def retrieve(self, batch_id: str) -> Json:
        with self._lock:
            return self._view(self._get(batch_id))

    def page(self, *, limit: int, after_id: str | None, before_id: str | None) -> Json:
        """Newest first: those after `after_id` in that order, or those just before `before_id`."""
        if not 1 <= limit <= MOST_LISTED:
            raise ApiError(400, f"limit: Input should be between 1 and {MOST_LISTED}")
        if after_id is not None and before_id is not None:
            raise ApiError(400, "before_id: only one of before_id and after_id may be given")
        with self._lock:
            newest = list(reversed(self._batches.values()))
            if before_id is not None:
                candidates = newest[: newest.index(self._cursor(before_id, "before_id"))]
                chosen, more = candidates[-limit:], len(candidates) > limit
            else:
                start = 0 if after_id is None else newest.index(self._cursor(after_id, "after_id")) + 1
                chosen, more = newest[start : start + limit], len(newest) > start + limit
            data = [self._view(batch) for batch in chosen]
        ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {"first_id": None, "last_id": None}
        return {"data": data, "has_more": more, **ends}

    def cancel(self, batch_id: str) -> Json:
        """Begin to cancel; a batch that is already being cancelled stays so."""
        with self._lock:
            batch = self._get(batch_id)
            if batch.ended(self._now()):
                raise ApiError(400, f"Batch {batch_id} cannot be canceled because it has ended.")
            if batch.cancelled is None:
                stopped = batch.cancel(self._now(), self._cancel_s)
                self._ledger.refund(row.payment for row in stopped if row.payment)
            return batch.view(self._now(), self._skew(), self.url, ended=False)

    def delete(self, batch_id: str) -> Json:
        with self._lock:
            if not self._get(batch_id).ended(self._now()):
                raise ApiError(400, f"Batch {batch_id} cannot be deleted while it is being processed; cancel it first.")
            del self._batches[batch_id]
        return {"id": batch_id, "type": "message_batch_deleted"}

    def results(self, batch_id: str) -> list[Json]:
        """The result lines of an ended batch."""
        with self._lock:
            batch = self._get(batch_id)
            if not batch.ended(self._now()):
                raise ApiError(400, f"Batch {batch_id} has not ended; its results are not available yet.")
            if batch.archived(self._now()):
                raise ApiError(404, f"The results of batch {batch_id} are no longer available.")
            return batch.lines()

    def _view(self, batch: Batch) -> Json:
        now = self._now()
        return batch.view(now, self._skew(), self.url, ended=batch.ended(now))

    def _get(self, batch_id: str) -> Batch:
        if batch_id not in self._batches:
            raise ApiError(404, f"Batch {batch_id} not found.")
        return self._batches[batch_id]

    def _cursor(self, batch_id: str, name: str) -> Batch:
        if batch_id not in self._batches:
            raise ApiError(400, f"{name}: there is no batch {batch_id}")
        return self._batches[batch_id]
