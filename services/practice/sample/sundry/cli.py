"""The command line: `python3 -m sundry COMMAND ARGUMENT...`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from sundry.durations import format_duration, parse_duration
from sundry.report import summarise
from sundry.sizes import format_size, parse_size
from sundry.tables import render_table


def _duration(arguments: Sequence[str]) -> int:
    """Each argument in seconds, or a number of seconds as a duration."""
    for text in arguments:
        if text.isdigit():
            print(format_duration(int(text)))
            continue
        seconds = parse_duration(text)
        if seconds is None:
            print(f"not a duration: {text!r}", file=sys.stderr)
            return 2
        print(f"{seconds:g}")
    return 0


def _size(arguments: Sequence[str]) -> int:
    """Each argument in bytes, or a number of bytes as a size."""
    for text in arguments:
        print(format_size(int(text)) if text.isdigit() else parse_size(text))
    return 0


def _summary(arguments: Sequence[str]) -> int:
    """The summary of each CSV file."""
    for name in arguments:
        with Path(name).open(encoding="utf-8", newline="") as lines:
            found = summarise(lines)
        rows = [[each.column, str(each.count), f"{each.total:g}", f"{each.mean:g}"] for each in found]
        print(render_table(["column", "count", "sum", "mean"], rows))
    return 0


COMMANDS = {
    "duration": _duration,
    "size": _size,
    "summary": _summary,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it went well, 2 when it was asked for wrongly."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] not in COMMANDS:
        print(f"usage: python3 -m sundry {{{','.join(COMMANDS)}}} ARGUMENT...", file=sys.stderr)
        return 2
    return COMMANDS[given[0]](given[1:])
