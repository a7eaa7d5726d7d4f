"""Text from outside reaches a terminal only as printable characters."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard.tui.clean import clean, clean_lines

_ANY = st.text(st.characters(exclude_categories=()), max_size=200)


def _hidden(text: str) -> list[str]:
    """Characters of a text that a terminal would obey or not show, but for the joiners that scripts need."""
    return [
        c for c in text if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in "\u202a\u202e\u2066\u200b\ufeff"
    ]


@given(_ANY)
def test_a_cleaned_text_is_one_line_without_control_characters(text: str) -> None:
    """No escape, control, bidi or line-breaking character survives, whatever the text."""
    assert _hidden(clean(text)) == []


@given(_ANY)
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    """Text may pass through `clean` on several ways to the screen."""
    assert clean(clean(text)) == clean(text)


@given(_ANY, st.integers(1, 50))
def test_a_limit_is_kept(text: str, limit: int) -> None:
    """A limit counts the characters that are shown, the ellipsis included."""
    assert len(clean(text, limit=limit)) <= limit


@given(_ANY)
def test_several_lines_keep_their_ends_and_nothing_else_that_controls(text: str) -> None:
    """An error message may have lines; they are the only control characters left."""
    assert set(_hidden(clean_lines(text))) <= {"\n"}


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[2Jboo", "␛[2Jboo"),
        ("\x1b]52;c;aGk=\x07", "␛]52;c;aGk=␇"),
        ("a\x00b\x7f", "a␀b␡"),
        ("\x9b31m", "⟨U+009B⟩31m"),
        ("safe\u202etxt.exe", "safe⟨U+202E⟩txt.exe"),
        ("lone \ud800", "lone ⟨U+D800⟩"),
        ("one\r\n\ttwo", "one two"),
        ("👩\u200d💻 क\u200cष", "👩\u200d💻 क\u200cष"),
    ],
)
def test_what_is_unsafe_is_made_visible(raw: str, shown: str) -> None:
    """A reader sees that something was there; emoji and scripts that need joiners stay whole."""
    assert clean(raw) == shown
