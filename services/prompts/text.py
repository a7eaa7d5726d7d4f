"""Filters of the templates: how text that is not ours is put into a prompt."""

import re

_TICKS = re.compile("`+")


def fence(text: str, language: str = "") -> str:
    """`text` between two runs of backticks, longer than any run inside it, so that it can't close its own fence."""
    longest = max((len(run) for run in _TICKS.findall(text)), default=0)
    ticks = "`" * max(3, longest + 1)
    end = "" if text.endswith("\n") or not text else "\n"
    return f"{ticks}{language}\n{text}{end}{ticks}"


def tail(text: str, limit: int) -> str:
    """The last whole lines of `text`, at most `limit` characters, with a first line that says what is missing.

    A single line longer than the limit is cut.
    """
    if len(text) <= limit:
        return text
    start = text.find("\n", len(text) - limit - 1) + 1
    if not 0 < start < len(text):
        start = len(text) - limit
    return f"[{start} characters left out]\n{text[start:]}"


def clip(text: str, limit: int) -> str:
    """Head and tail of `text`, at most `limit` characters together, with a line between that says what is missing."""
    if len(text) <= limit:
        return text
    head = text.rfind("\n", 0, limit - limit // 3) + 1 or limit - limit // 3
    rest = text[head:]
    start = rest.find("\n", len(rest) - limit // 3 - 1) + 1
    if not 0 < start < len(rest):
        start = len(rest) - limit // 3
    joint = "" if text[:head].endswith("\n") else "\n"
    return f"{text[:head]}{joint}[{start} characters left out]\n{rest[start:]}"


def one_line(text: str) -> str:
    """`text` with every run of white space as one space."""
    return " ".join(text.split())
