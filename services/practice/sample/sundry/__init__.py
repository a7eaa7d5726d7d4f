"""Small things that command-line reports need again and again.

    >>> from sundry import format_size
    >>> format_size(2048)
    '2.0 KiB'

Each module can be read and used on its own.
"""

from sundry.durations import format_duration, parse_duration
from sundry.numbers import ordinal, percent, thousands
from sundry.report import Summary, summarise
from sundry.sizes import format_size, parse_size
from sundry.slugs import slugify, unique_slug
from sundry.tables import render_table

__all__ = [
    "Summary",
    "format_duration",
    "format_size",
    "ordinal",
    "parse_duration",
    "parse_size",
    "percent",
    "render_table",
    "slugify",
    "summarise",
    "thousands",
    "unique_slug",
]
