"""The pattern of a failure: its telling line, with everything masked that differs from one time to the next.

    pattern("Traceback …\nKeyError: 'T7' at /home/x/app.py:31")   # "KeyError: <name> at <path>"

Two failures with the same pattern are one lesson, seen twice.
"""

import re

PATTERN_CHARS = 300
_LOOKED_AT = 200_000
_LINE_CHARS = 500
"""Longer lines are cut before they are looked at: matching takes time that grows with the square of a line."""

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_QUOTED = (("'", "'"), ('"', '"'), ("`", "`"), ("\u2018", "\u2019"), ("\u201c", "\u201d"))
_FORMS = (
    (r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b", "<hex>"),
    *((rf"(?<!\w){start}[^{start}{end}]{{1,200}}{end}(?!\w)", "<name>") for start, end in _QUOTED),
    (r"(?:\b[A-Za-z]:)?(?:[\w.@~+-]*[\\/])+[\w.@~+-]+(?::\d+)*", "<path>"),
    (r"\b[\w-]+\.[A-Za-z]{1,4}:\d+(?::\d+)*", "<path>"),
    (r"\b0[xX][0-9a-fA-F]+\b|\b(?=[a-fA-F]*\d)(?=\d*[a-fA-F])[0-9a-fA-F]{7,}\b", "<hex>"),
    (r"(?<![\w<])[-+]?\d+(?:[.,:]\d+)*(?:[eE][-+]?\d+)?", "<n>"),
    (r"\d+", "<n>"),
)
_MASKS = tuple((re.compile(form), mask) for form, mask in _FORMS)
_RAISED = re.compile(r"^(?:E\s+)?(?:[\w.]+\.)?\w*(?:Error|Exception|Panic|Warning)\b(?::.*)?$")
_COMPILER = re.compile(r"\berror(?:\[\w+\]| \w+)?: |\bpanicked at\b|^panic: ", re.IGNORECASE)
_FAILING = re.compile(r"^(?:-+ )?(?:FAIL|FAILED|ERROR)\b:?\s+(?!\()(\S+)")
_VAGUE = re.compile(r"^Assertion(?:Error)?\b")


def pattern(message: str) -> str:
    """The pattern of `message`, one line, at most `PATTERN_CHARS` characters. A pure function."""
    lines = [line.strip()[:_LINE_CHARS] for line in _ESCAPES.sub("", message[:_LOOKED_AT]).splitlines()]
    lines = [line for line in lines if line]
    line = _telling(lines)
    test = next((match[1] for match in map(_FAILING.match, lines) if match), "")
    # "1 != 2" says little without the test that says it.
    named = f"{test}: {_masked(line)}" if test and _VAGUE.match(line) and test not in line else _masked(line)
    return named[:PATTERN_CHARS]


def _telling(lines: list[str]) -> str:
    """The first line that names an exception, else the first of a compiler, else of a failed test, else the last."""
    for form in (_RAISED, _COMPILER, _FAILING):
        for line in lines:
            if form.search(line):
                return line.removeprefix("E ").strip()
    return lines[-1] if lines else ""


def _masked(line: str) -> str:
    for form, mask in _MASKS:
        line = form.sub(mask, line)
    return " ".join(line.split())
