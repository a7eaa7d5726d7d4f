"""`history show` as text, from made-up records."""

from typing import Any

from taskyard.tui.attempts import attempt_lines
from taskyard.tui.look import Look

CHECK = {
    "check": "test",
    "command": "make test",
    "exit": 0,
    "seconds": 1.0,
    "timed_out": False,
    "broken": "",
    "output": "",
}
ATTEMPT: dict[str, Any] = {
    "attempt": 1, "status": "failed", "start": "2026-12-01T16:00:00.000Z", "end": None, "duration_s": None,
    "reasons": [], "cost_usd": 0.25, "plan": None, "checks": [], "verdict": None, "judge_text": "", "landing": None,
    "decisions": [], "output": "", "commit": None, "ref": None, "base": None, "diff": "",
}  # fmt: skip


def _told(*attempts: dict[str, Any], **given: Any) -> list[str]:
    shown = {
        "run": "r7k2", "board": "board.md", "task": "T1", "state": "failed", "detail": None, "decide": [],
        "repository": "/state/repository.git", "attempts": [ATTEMPT | attempt for attempt in attempts],
    }  # fmt: skip
    return list(attempt_lines(shown | given, Look()))


def test_a_red_check_shows_its_whole_output_and_a_green_one_a_line() -> None:
    """That is what a person needs to understand a failure."""
    red = CHECK | {"exit": 1, "output": "one\n  two\n", "check": "unit"}
    slow = CHECK | {"exit": None, "timed_out": True, "check": "slow"}
    lines = _told({"checks": [CHECK, red, slow]})
    start = lines.index("  check test: green, 1.0 s: make test")
    assert lines[start + 1 : start + 5] == [
        "  check unit: red, exit 1, 1.0 s: make test",
        "    one",
        "      two",
        "  check slow: ran out of time, 1.0 s: make test",
    ]


def test_of_several_diffs_the_last_is_printed_and_each_can_be_seen() -> None:
    """Three long diffs would bury what they are about."""
    first, second = ({"attempt": n, "commit": f"{n}" * 40, "ref": f"refs/taskyard/{n}"} for n in (1, 2))
    lines = _told(
        {**first, "diff": "diff --git a/x b/x\n+first\n"}, {**second, "diff": "diff --git a/x b/x\n+second\n"}
    )
    assert "    +second" in lines
    assert "    +first" not in lines
    assert "  changes 1 file" in lines
    for number in (1, 2):
        assert f"    git --git-dir /state/repository.git show refs/taskyard/{number}" in lines


def test_what_ended_an_attempt_is_told_whole_when_nothing_else_tells_it() -> None:
    """A failure that is neither a check's, nor the judge's, nor the tip's."""
    assert "    the answers were malformed" in _told({"output": "the answers were malformed"})
    assert "  in full" not in _told({"output": "- no", "verdict": {"decision": "revise", "reasons": ["no"]}})


def test_a_verdict_of_any_shape_can_be_shown() -> None:
    """A model wrote it; what turned an acceptance into a revision stands with its reasons."""
    verdict = {"decision": "accept", "reasons": ["good"], "tests_weakened": True, "scope_ok": False}
    lines = _told({"verdict": verdict})
    start = lines.index("  judge: accept")
    assert lines[start + 1 :] == ["    - good", "    - tests were weakened", "    - out of scope"]
    assert _told({"verdict": {"reasons": "one text"}, "plan": {"steps": 3}})[-2:] == [
        "  judge: no decision",
        "    - one text",
    ]


def test_nothing_from_outside_can_steer_the_terminal() -> None:
    """Models, checks, boards and people wrote all of this."""
    evil = "\x1b[2Jboo\x07"
    lines = _told(
        {
            "reasons": [evil], "plan": {"summary": evil, "steps": [evil]}, "judge_text": evil, "output": evil,
            "checks": [CHECK | {"check": evil, "command": evil, "exit": 1, "output": evil, "broken": evil}],
            "verdict": {"decision": evil, "reasons": [evil, {evil: evil}]}, "diff": evil, "commit": "c" * 40,
            "ref": "refs/taskyard/1", "landing": {"outcome": evil, "detail": evil},
            "decisions": [{"action": "reject", "comment": evil}],
        },
        run=evil, board=evil, task=evil, detail=evil, decide=["accept"], repository=f"/{evil}",
    )  # fmt: skip
    assert not any(character in line for line in lines for character in "\x1b\x07\n")
    assert sum("boo" in line for line in lines) > 15
