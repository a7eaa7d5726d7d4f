"""What makes two failures the same one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard.services.lessons import pattern

GROUPS = {
    "key": [
        "Traceback (most recent call last):\n  File \"/tmp/w1/app.py\", line 3, in f\n    x['a']\nKeyError: 'T7'",
        "Traceback (most recent call last):\n  File \"/var/w2/app.py\", line 90, in g\n    x['b']\nKeyError: 'T12'",
    ],
    "gcc": [
        "src/a.c:12:5: error: expected ';' before '}' token\n  12 | }\n",
        "In file included from x.h:\nlib/deep/b.c:9:77: error: expected ')' before 'int' token\n",
    ],
    "number": ["timed out after 30.5 s (pid 4711)", "timed out after 7 s (pid 12)"],
    "hex": ["object a1b2c3d at 0x7f00ff is gone", "object 99ffee00aa at 0x1 is gone"],
    "path": ["cannot open ./data/x.csv for reading", "cannot open /home/me/y.csv for reading"],
    "pytest": [
        "E       assert 1 == 2\nx:3: AssertionError\nFAILED tests/test_x.py::test_y - assert 1 == 2\n1 failed in 3s",
        "E       assert 5 == 9\nx:8: AssertionError\nFAILED tests/test_x.py::test_y - assert 5 == 9\n1 failed in 9s",
    ],
    "not found": ["sh: 1: mkae: not found", "sh: 22: mkae: not found"],
}


@pytest.mark.parametrize("name", GROUPS)
def test_the_same_failure_in_another_place_has_the_same_pattern(name: str) -> None:
    """L08: numbers, paths, hex and quoted names make no difference."""
    assert len({pattern(message) for message in GROUPS[name]}) == 1


def test_different_failures_have_different_patterns() -> None:
    """One for each group."""
    assert len({pattern(messages[0]) for messages in GROUPS.values()}) == len(GROUPS)


def test_an_assertion_is_named_by_its_test() -> None:
    """`1 != 2` alone would put all of them together."""
    output = "FAIL: test_{0} (tests.test_x.T)\n----\nTraceback:\nAssertionError: 1 != 2\n\nFAILED (failures=1)"
    assert pattern(output.format("hours")) == "test_hours: AssertionError: <n> != <n>"
    assert pattern(output.format("hours")) != pattern(output.format("days"))


def test_colours_and_apostrophes_do_not_matter() -> None:
    """An apostrophe inside a word is no quote."""
    assert pattern("\x1b[31mdon't do 5 things, can't\x1b[0m") == "don't do <n> things, can't"


@pytest.mark.parametrize("piece", ["x", "a/", "'", "a.", "0", "-1:"])
def test_a_pattern_of_a_huge_line_is_bounded(piece: str) -> None:
    """A stack trace or minified file on one line."""
    assert len(pattern(piece * 300_000)) <= 300


@given(st.text())
def test_any_text_has_a_pattern_of_one_line(text: str) -> None:
    """The same one every time."""
    assert pattern(text) == pattern(text)
    assert len(pattern(text).splitlines()) <= 1
