"""Changes to files, as the practice model thinks of them: from the text that stands there to the text that should.

    target = Target("sundry/sizes.py", swap(("value < 1024", "round(value, 1) < 1024")))
    target.change("if value < 1024:")                    # "if round(value, 1) < 1024:"
    calls_for("sundry/sizes.py", before, after)          # the edit calls that lead from one to the other

A file's text has no final line break here, because a view does not show one; None is a file that is not there.
"""

import re
from collections.abc import Callable
from difflib import SequenceMatcher
from typing import Any

import msgspec

Text = str | None
Change = Callable[[Text], Text]


class Call(msgspec.Struct, frozen=True):
    """A tool call to be made."""

    name: str
    input: dict[str, Any]


class Target(msgspec.Struct, frozen=True):
    """A file that a task changes."""

    path: str
    change: Change
    """From the text before the task to the text after it."""
    new: bool = False
    """The file should not be there yet, so that there is nothing to look at first."""


def swap(*pairs: tuple[str, str]) -> Change:
    """Replaces each old text by its new one, everywhere; an old text that is not there is passed over."""

    def change(text: Text) -> Text:
        if text is None:
            return None
        for old, new in pairs:
            text = text.replace(old, new)
        return text

    return change


def write(text: str) -> Change:
    """The file holds exactly `text`, whatever stood there."""
    return lambda _: text.rstrip("\n")


def append(text: str) -> Change:
    """`text` on lines of its own at the end; a file that is not there is made."""

    def change(before: Text) -> Text:
        addition = text.rstrip("\n")
        return f"{before}\n{addition}" if before else addition

    return change


def remove() -> Change:
    """The file goes away."""
    return lambda _: None


def insert_before(line: str, block: str) -> Change:
    """`block` in front of the first line that begins with `line`; nothing happens without such a line."""

    def change(text: Text) -> Text:
        found = re.search(rf"^{re.escape(line)}", text or "", re.MULTILINE)
        return text if text is None or not found else text[: found.start()] + block + text[found.start() :]

    return change


def cut_function(name: str) -> Change:
    """Takes the top-level function `name` out, with the empty lines before it."""
    pattern = re.compile(rf"\n*^def {name}\(.*\n(?:(?:[ \t].*)?(?:\n|\Z))*", re.MULTILINE)

    def change(text: Text) -> Text:
        if text is None:
            return None
        before, *after = pattern.split(text, maxsplit=1)
        rest = "".join(after)
        return f"{before}\n\n\n{rest}" if rest.strip() else before

    return change


def one_after_another(*changes: Change) -> Change:
    """All of `changes`, in order."""

    def change(text: Text) -> Text:
        for each in changes:
            text = each(text)
        return text

    return change


def calls_for(path: str, before: Text, after: Text) -> list[Call]:
    """The calls that turn `before` into `after`: create, delete, or one edit for each place that differs."""
    if before == after:
        return []
    if after is None:
        return [Call("delete", {"path": path})]
    create = Call("create", {"path": path, "text": after + "\n" if after else ""})
    if before is None:
        return [create]
    if not before:
        return [Call("delete", {"path": path}), create]
    return _edits(path, before.split("\n"), after.split("\n"))


def _edits(path: str, before: list[str], after: list[str]) -> list[Call]:
    """From the last place to the first, so that what stands above a place is still as it was seen."""
    lines = list(before)
    calls = []
    for tag, i1, i2, j1, j2 in reversed(SequenceMatcher(None, before, after, autojunk=False).get_opcodes()):
        if tag == "equal":
            continue
        above, below = _context(lines, i1, i2, bare=i1 == i2 or j1 == j2)
        old = "\n".join(lines[above:below])
        new = "\n".join([*lines[above:i1], *after[j1:j2], *lines[i2:below]])
        calls.append(Call("edit", {"path": path, "old": old, "new": new, "count": None}))
        lines[i1:i2] = after[j1:j2]
    return calls


def _context(lines: list[str], start: int, end: int, *, bare: bool) -> tuple[int, int]:
    """A range around [start, end) whose text stands only once; one line more when the bare range is no text."""
    whole = "\n".join(lines)
    above, below = start, end
    if bare:
        above, below = (above - 1, below) if above else (above, below + 1)
    while True:
        old = "\n".join(lines[above:below])
        if old and _times(whole, old) == 1:
            return above, below
        if above == 0 and below >= len(lines):
            return 0, len(lines)
        above, below = max(0, above - 1), min(len(lines), below + 1)


def _times(text: str, part: str) -> int:
    """How often `part` stands in `text`, overlapping places included, so that no way of counting finds more."""
    times, position = 0, text.find(part)
    while position >= 0:
        times, position = times + 1, text.find(part, position + 1)
    return times
