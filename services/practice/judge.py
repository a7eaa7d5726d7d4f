"""The judge: what the diff touches, whether the gate is green, and whether tests got weaker."""

import re
from collections import Counter
from typing import Any

import msgspec

from taskyard.services.practice.orders import Order
from taskyard.services.practice.reading import OWN_CHECK, Prompt, outside_fences
from taskyard.services.practice.sentences import Directives

_FILE = re.compile(r"^(?:\+\+\+|---) (?:[ab]/(.+?)|/dev/null)\t?$", re.MULTILINE)
_TEST_FILE = re.compile(r"(?:^|/)(?:tests?/|test_[^/]*$|[^/]*_test\.[^/]*$|conftest\.py$)")
_ASSERT = re.compile(r"\bassert|\.assert\w+\(|\bfail\(|\bexpect\(")
_SKIP = re.compile(r"\bskip(?:Test|If|Unless)?\b|\bxfail\b|expectedFailure")
_RED = re.compile(r"[#*-]+ `([^`\n]+)`: red\b")


class Verdict(msgspec.Struct, frozen=True):
    """The input of the `verdict` tool."""

    decision: str
    reasons: tuple[str, ...]
    tests_weakened: bool = False
    scope_ok: bool = True

    def as_input(self) -> dict[str, Any]:
        return {**msgspec.structs.asdict(self), "reasons": list(self.reasons)}


def verdict(prompt: Prompt, order: Order, directives: Directives) -> Verdict:
    """The decision on the diff in the prompt. Directives go first."""
    if directives.judge_rejects:
        return Verdict("reject", ("The task says that this is to be rejected.",))
    if directives.judge_always_revises or (directives.judge_revises_once and not prompt.tried):
        return Verdict("revise", ("The task says that a first look sends it back.",))
    if directives.judge_out_of_scope:
        return Verdict("accept", ("The change does more than the task asks.",), scope_ok=False)
    return _on_merit(prompt, order, directives)


def _on_merit(prompt: Prompt, order: Order, directives: Directives) -> Verdict:
    touched = {match[1] for match in _FILE.finditer(prompt.diff) if match[1]}
    if not touched and "GIT binary patch" not in prompt.diff and "diff --git" not in prompt.diff:
        return Verdict("revise", ("The diff is empty: nothing was changed.",))
    if weaker := _weakened(prompt.diff):
        return Verdict("revise", (f"The tests are weaker than before: {weaker}.",), tests_weakened=True)
    if red := _red(prompt, directives):
        return Verdict("revise", (f"The gate is not green: {red}.",))
    if order.paths and touched.isdisjoint(order.paths):
        asked = ", ".join(f"`{path}`" for path in order.paths)
        return Verdict("revise", (f"The diff does not touch what the task is about: {asked}.",), scope_ok=False)
    return Verdict("accept", ("The change does what the task asks, and its checks are green.",))


def _weakened(diff: str) -> str:
    """Why the diff weakens tests: fewer asserts in a test file, or a new skip; empty when it does not."""
    asserts: Counter[str] = Counter()
    path = ""
    for line in diff.split("\n"):
        if file := _FILE.match(line):
            path = file[1] or path
        elif not _TEST_FILE.search(path):
            continue
        elif line.startswith("+"):
            if _SKIP.search(line):
                return f"`{path}` skips a test"
            asserts[path] += bool(_ASSERT.search(line))
        elif line.startswith("-"):
            asserts[path] -= bool(_ASSERT.search(line))
    return next((f"`{path}` has fewer asserts" for path, more in sorted(asserts.items()) if more < 0), "")


def _red(prompt: Prompt, directives: Directives) -> str:
    """The gate's red checks; fenced output does not count, nor the project's checks when the base is said to be red."""
    names = [match[1] for line in outside_fences(prompt.gate) if (match := _RED.match(line))]
    held = [name for name in names if name.startswith(OWN_CHECK) or not directives.base_is_red]
    return ", ".join(f"`{name}`" for name in held)
