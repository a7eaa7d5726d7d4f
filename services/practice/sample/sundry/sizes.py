"""Sizes in bytes as people read and write them: `3.2 MiB`, `10 kB`."""

import re

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
"""Binary units; each is 1024 of the one before."""

_FACTORS = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "t": 1000**4}
_BINARY = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)


def format_size(size: int) -> str:
    """`size` bytes in the largest unit that gives at least 1.

    >>> format_size(1536)
    '1.5 KiB'
    """
    value = float(size)
    for unit in UNITS:
        if value < 1024 or unit == UNITS[-1]:
            break
        value /= 1024
    return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"


def parse_size(text: str) -> int:
    """The bytes that `text` stands for; raises ValueError when it is not a size.

    >>> parse_size("10 kB"), parse_size("1 KiB")
    (10000, 1024)
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"not a size: {text!r}")
    factors = _BINARY if match[3] else _FACTORS
    return round(float(match[1]) * factors[match[2].lower()])
