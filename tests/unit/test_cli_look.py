"""Money, time and what a terminal can show."""

import io

import pytest

from taskyard.tui.look import age, counted, look_of, pad, share, size, span, usd


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def _terminal(encoding: str) -> _Terminal:
    return _Terminal(io.BytesIO(), encoding=encoding)


@pytest.mark.parametrize(
    ("environ", "colour"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_colour_needs_a_terminal_that_has_it_and_a_person_who_wants_it(environ: dict[str, str], colour: bool) -> None:
    """NO_COLOR counts when it is set and not empty."""
    assert look_of(_terminal("utf-8"), environ).colour is colour


def test_a_pipe_gets_no_colour() -> None:
    """Whatever TERM says."""
    assert look_of(io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), {"TERM": "xterm"}).colour is False


def test_glyphs_need_an_encoding_that_has_them() -> None:
    """Latin-1 has no ✔."""
    assert look_of(_terminal("utf-8"), {}).glyphs is True
    assert look_of(_terminal("latin-1"), {}).glyphs is False


def test_money_and_time_read_as_people_write_them() -> None:
    """Four places below a dollar, two above; an unknown price is no number."""
    assert [usd(None), usd(0), usd(0.00421), usd(1), usd(1234.5)] == [
        "unpriced",
        "$0.00",
        "$0.0042",
        "$1.00",
        "$1234.50",
    ]
    assert [span(0.9), span(75), span(3725)] == ["0:00", "1:15", "1:02:05"]
    assert [counted(1, "push"), counted(0, "push"), counted(2, "task")] == ["1 push", "0 pushes", "2 tasks"]


def test_wide_characters_count_as_two_columns() -> None:
    """Columns stay straight in every script."""
    assert pad("日本", 6) == "日本  "


def test_sizes_ages_and_shares_are_in_the_unit_that_fits() -> None:
    """Sizes count in thousands, as the settings do."""
    assert [size(n) for n in (0, 999, 1000, 2e9, 1.26e6)] == ["0 bytes", "999 bytes", "1 kB", "2 GB", "1.3 MB"]
    assert [age(n) for n in (0, 0.0001, 1, 90, 86400, 30 * 86400)] == [
        "0 ms",
        "0.1 ms",
        "1 s",
        "1.5 min",
        "24 h",
        "30 d",
    ]
    assert [share(n) for n in (0, 0.5, 0.123, 1)] == ["0 %", "50 %", "12.3 %", "100 %"]
