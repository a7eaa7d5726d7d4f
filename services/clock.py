"""The only room that reads the time, so that tests can hand in another clock.

clock = SystemClock()
started = clock.monotonic()      # seconds; differences only
stamp = rfc3339(clock.now())     # "2026-12-01T16:00:00.000Z"
"""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What everything that needs the time is given."""

    def now(self) -> float:
        """Seconds since 1970-01-01 UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


def rfc3339(seconds: float) -> str:
    """Seconds since 1970 as RFC 3339 in UTC with milliseconds."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def seconds_of(stamp: str) -> float:
    """The inverse of `rfc3339`; takes any ISO 8601 time with a zone. Raises ValueError."""
    moment = datetime.fromisoformat(stamp)
    if moment.tzinfo is None:
        raise ValueError(f"{stamp!r} has no time zone")
    return moment.timestamp()
