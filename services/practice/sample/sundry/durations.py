"""Durations as people write them: `1h 30m`, `45s`, `1.5d`."""

import re

UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
"""Units from the longest to the shortest, in seconds."""

_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([dhms])", re.IGNORECASE)


def parse_duration(text: str) -> float | None:
    """The seconds that `text` stands for; None when it is not a duration.

    >>> parse_duration("2m 30s")
    150.0
    """
    sizes = dict(UNITS)
    seconds = 0.0
    position = 0
    while match := _PART.match(text, position):
        seconds += float(match[1]) * sizes[match[2].lower()]
        position = match.end()
    if position == 0 or text[position:].strip():
        return None
    return seconds


def format_duration(seconds: float) -> str:
    """`seconds` in whole units, at most two of them.

    >>> format_duration(3_750)
    '1h 2m'
    """
    if seconds < 0:
        return "-" + format_duration(-seconds)
    parts = []
    rest = seconds
    for unit, size in UNITS:
        count = round(rest) if unit == "s" else int(rest // size)
        rest -= count * size
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"
