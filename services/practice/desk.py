"""What a conversation shows of the worktree: each file as it was before the task, and as it must be now.

    desk = Desk.of(prompt.steps)
    desk.first["a.py"], desk.now["a.py"]
    desk.stale                                # files to look at again, because a change of them was refused
    desk.gaps                                 # {"b.py": (81, 240)}: lines that a view left out, to be asked for

A file's text has no final line break; None is a file that is not there.
"""

import re
from collections.abc import Iterable

import msgspec

from taskyard.services.practice.changes import Text
from taskyard.services.practice.reading import Step

WRITES = ("edit", "create", "delete")
_NUMBERED = re.compile(r" *(\d+)\t(.*)")


class Desk(msgspec.Struct):
    """The files of one conversation, replayed from its tool calls and their results."""

    first: dict[str, Text]
    """As last seen before the conversation changed it."""
    now: dict[str, Text]
    stale: set[str]
    gaps: dict[str, tuple[int, int]]
    """First and last line that is still unknown, of files that were seen in part."""
    written: set[str]
    lines: dict[str, dict[int, str]]

    @classmethod
    def of(cls, steps: Iterable[Step]) -> "Desk":
        desk = cls({}, {}, set(), {}, set(), {})
        for step in steps:
            path = step.input.get("path")
            if isinstance(path, str):
                desk._take(step, path)
        return desk

    def _take(self, step: Step, path: str) -> None:
        if step.name == "view":
            self._look(step, path)
        elif step.name in WRITES and step.failed:
            self.stale.add(path)
        elif step.name in WRITES:
            self.written.add(path)
            self.first.setdefault(path, None)
            self.now[path] = self._after(step, path)

    def _look(self, step: Step, path: str) -> None:
        known = self.lines.get(path, {}) if step.input.get("start") else {}
        lines = self.lines[path] = known | ({} if step.failed else numbered(step.result))
        missing = [number for number in range(1, max(lines, default=0)) if number not in lines]
        if missing:
            self.gaps[path] = (missing[0], missing[-1])
            return
        self.gaps.pop(path, None)
        self.stale.discard(path)
        self.now[path] = None if step.failed else "\n".join(lines[number] for number in sorted(lines))
        if path not in self.written:
            self.first[path] = self.now[path]

    def _after(self, step: Step, path: str) -> Text:
        if step.name == "edit":
            return (self.now.get(path) or "").replace(str(step.input["old"]), str(step.input["new"]))
        return str(step.input["text"]).removesuffix("\n") if step.name == "create" else None


def numbered(result: str) -> dict[int, str]:
    """line number → line of a `view` result. A line beside an unnumbered one may be cut, so it is left out too."""
    found = [_NUMBERED.fullmatch(line) for line in result.split("\n")]
    whole = [
        match
        for index, match in enumerate(found)
        if match and None not in (*found[max(0, index - 1) : index], *found[index + 1 : index + 2])
    ]
    return {int(match[1]): match[2] for match in whole}
