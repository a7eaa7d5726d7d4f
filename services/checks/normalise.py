"""What differs between two equal runs of a command, taken out of its output, so that a prompt made of it is the same.

What becomes what:

| in the output | after |
|---|---|
| the folder's own path, and what lies in it | `.`, `./…` |
| private and random temporary folders (`tmpab12cd34`, `tmp.Ab12Cd34Ef`) | `<tmp>` |
| pytest's temporary folder (`pytest-of-me/pytest-7`) | `pytest-of-<user>/pytest-<n>` |
| durations where a test runner reports them (`in 0.12s`, `0.00s call`, `(12 ms)`, `Time: 1.2 s`) | `<time>` |
| addresses (`at 0x7f3a…`, ten or more hexadecimal digits) | `0x…` |
| process and worker numbers (`pid 71`, `(node:71)`, `==71==`, `[gw3]`, `goroutine 8 [`) | `<n>` |
| a time stamp that begins a line, or follows `Start at`, `started at` | `<date>` |

A duration, number or date anywhere else stays: it may be what the check is about.
"""

import re
from pathlib import Path

_SECONDS = r"(?:\d+(?:\.\d+)?\s?(?:ns|µs|us|ms|secs?|seconds?|s|minutes?|mins?|m)\b)"
_MEASURED = r"(?:\d+\.\d+\s?(?:secs?|seconds?|s|ms|minutes?|m)\b|\d+(?:\.\d+)?\s?(?:ns|µs|us|ms)\b)"
"""A duration that was measured, not chosen: with a fraction, or in a small unit."""
_STAMP = (
    r"(?:\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|\s?[+-]\d\d:?\d\d)?"
    r"|(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\w*,? \w+ +\d+ \d\d:\d\d:\d\d(?: [A-Z]{3,4})? \d{4}"
    r"|\d\d:\d\d:\d\d(?:[.,]\d+)?)"
)
# On hostile output too, each rule takes time in proportion to its length: none looks from every place to the end.
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    # Temporary folders.
    (re.compile(r"pytest-of-[\w.-]+/pytest-\d+"), "pytest-of-<user>/pytest-<n>"),
    (re.compile(r"(?:/private)?/var/folders/\w\w/\w+/[TC]/"), "/tmp/"),
    (re.compile(r"(?<=/)tmp(?:[a-z0-9_]{8}|\.\w{6,10})(?![\w.])"), "<tmp>"),
    # Durations of test runners: pytest, unittest, cargo, jest, vitest, mocha, go, node, make and the shell's `time`.
    (re.compile(rf"\b(in|took) {_MEASURED}(?: \(\d+:\d\d:\d\d\))?", re.IGNORECASE), r"\1 <time>"),
    (re.compile(rf"(?m)^([ \t]*){_SECONDS}( +(?:call|setup|teardown)\b)"), r"\1<time>\2"),
    (re.compile(rf"\({_SECONDS}\)"), "(<time>)"),
    (re.compile(rf"(?m)^((?:ok +|FAIL)\t[^\s]+\t){_SECONDS}"), r"\1<time>"),
    (re.compile(rf"(?m)^([ \t]*(?:Time|Duration|Elapsed)(?: time)?:?\s+){_SECONDS}.*$", re.IGNORECASE), r"\1<time>"),
    (re.compile(rf"(?m)^([ \t]*[✓✔✕✖\u00d7√].*\s){_SECONDS}$"), r"\1<time>"),
    (re.compile(r"\b(duration_ms:?) \d+(?:\.\d+)?"), r"\1 <time>"),
    (re.compile(r"(?m)^((?:real|user|sys)\s+)(?:\d+m)?\d+[.,]\d+s?$"), r"\1<time>"),
    # Addresses.
    (re.compile(r"\bat 0x[0-9a-fA-F]{4,16}\b"), "at 0x…"),
    (re.compile(r"\b0x[0-9a-fA-F]{10,16}\b"), "0x…"),
    # Processes, workers, threads.
    (re.compile(r"==\d+==", re.ASCII), "==<n>=="),
    (re.compile(r"\((node|pid)[:= ]\d+\)", re.IGNORECASE), r"(\1:<n>)"),
    (re.compile(r"\b(pid|process id)([ =:]+)\d+\b", re.IGNORECASE), r"\1\2<n>"),
    (re.compile(r"\[gw\d+\]"), "[gw<n>]"),
    (re.compile(r"\bgoroutine \d+ \["), "goroutine <n> ["),
    # Time stamps.
    (re.compile(rf"(?m)^([ \t]*\[?){_STAMP}"), r"\1<date>"),
    (re.compile(rf"\b(start(?:ed)?(?: at)?:?\s+){_STAMP}", re.IGNORECASE), r"\1<date>"),
)


def normalise(output: str, folder: Path) -> str:
    """`output` without what would differ in another equal run in another folder. Deterministic and idempotent.

    folder: where the command ran; its path is replaced as given and with links resolved.
    """
    names = sorted({str(folder), str(folder.resolve())} - {"/"}, key=len, reverse=True)
    rules = [(re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)"), ".") for name in names]
    # One replacement may lay bare the next. Each leaves fewer digits or a shorter path, so this comes to an end.
    before = None
    while output != before:
        before = output
        for pattern, replacement in (*rules, *_RULES):
            output = pattern.sub(replacement, output)
    return output
