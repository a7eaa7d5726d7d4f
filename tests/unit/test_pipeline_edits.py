"""Edits on bytes: exact, then line ends, then trailing spaces; never fuzzy; all other bytes as they were."""

import codecs
import difflib
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from taskyard.services.errors import ToolError
from taskyard.services.pipeline import edits
from taskyard.services.pipeline.edits import lines_of, replace

TEXT = st.text(st.sampled_from("ab \t\n\r\fé\u0301\u2028\ufeff"), max_size=24)


@pytest.mark.parametrize(
    ("data", "old", "new", "count", "after"),
    [
        (b"a = 1\nb = 2\n", "b = 2", "b = 3", 1, b"a = 1\nb = 3\n"),
        (b"one", "one", "two", 1, b"two"),
        (b"a\r\nb\r\nc", "b", "x\ny", 1, b"a\r\nx\r\ny\r\nc"),
        (b"a\r\nb\r\nc\r\n", "a\nb\n", "x\ny\nz\n", 1, b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\nb\nc\n", "a\r\nb\r\n", "x\r\n", 1, b"x\nc\n"),
        (b"a\nb\r\nc\r\n", "a\nb", "x\ny", 1, b"x\ny\r\nc\r\n"),
        (b"a\nb\r\nc\n", "b\nc", "x\ny", 1, b"a\nx\r\ny\n"),
        (b"a\r\nb\nc\n", "c", "c\nd", 1, b"a\r\nb\nc\nd\n"),
        (b"a\r\nb\r\n", "\nb", "", 1, b"a\r\n"),
        (b"a\r\nb\r\n", "a\r", "x", 1, b"x\r\nb\r\n"),
        (b"def f():  \n\treturn 1\t\n", "def f():\n\treturn 1", "def g():\n\treturn 2", 1, b"def g():\n\treturn 2\n"),
        (b"\xef\xbb\xbfa  \nb\n", "a\nb\n", "c\n", 1, b"\xef\xbb\xbfc\n"),
        (b"\xef\xbb\xbfa\r\nb", "a", "x", 1, b"\xef\xbb\xbfx\r\nb"),
        (b"caf\xe9 x\n", "x", "y", 1, b"caf\xe9 y\n"),
        (b"a a a\n", "a", "b", 3, b"b b b\n"),
        (b"aaaa", "aa", "b", 2, b"bb"),
        (b"\ta\n  b\n", "\ta", "\tc", 1, b"\tc\n  b\n"),
        ("e\u0301 é\n".encode(), "é", "x", 1, "e\u0301 x\n".encode()),
        (b"a\fb\nc\n", "a\fb\nc", "d", 1, b"d\n"),
        (b"x\na\n\nb\n", "a\n\nb", "c", 1, b"x\nc\n"),
    ],
)
def test_an_edit_changes_what_it_names(data: bytes, old: str, new: str, count: int, after: bytes) -> None:
    """Line ends, encoding mark, tabs and a missing last newline stay as the file has them."""
    assert replace(data, old, new, count) == after


@pytest.mark.parametrize(
    ("data", "old", "new", "count", "said"),
    [
        (b"a\n", "", "b", 1, "`old` is empty"),
        (b"a\n", "a", "a", 1, "the same"),
        (b"a  \n", "a  \n", "a  \n", 1, "the same"),
        (b"a\r\n", "a\r\n", "a\n", 1, "nothing would change"),
        (b"a\nb\n", "a  \nb", "a\nb", 1, "nothing would change"),
        (b"a\n", "a", "b", 0, "1 or more"),
        (b"a\n", "a", "b", -1, "1 or more"),
        (b"a\n", "a", "b", 2, "stands in the file 1 times, not 2"),
        (b"a a\n", "a", "b", 1, "stands in the file 2 times, not 1"),
        (b"a\0b\n", "a", "b", 1, "binary"),
        (b"a\n", "a", "b\0", 1, "NUL"),
        (b"a\n", "a", "b\ud800", 1, "lone surrogate"),
        (b"a\n", "\udfff", "b", 1, "lone surrogate"),
        ("e\u0301\n".encode(), "é", "x", 1, "another Unicode form"),
        (b"a\n", "b\n", "c\n", 1, "not in the file"),
        (b"a\n", "a\n\n", "b\n", 1, "not in the file"),
        (b"    a\n", "a\n    b", "b", 1, "not in the file"),
        (b"  a\n  b\n", "a\nb", "x", 1, "not in the file"),
        (b"", "a", "b", 1, "not in the file"),
        (b"\n\n\n", "  \n  \n", "b", 1, "not in the file"),
    ],
)
def test_an_edit_that_does_not_fit_is_refused(data: bytes, old: str, new: str, count: int, said: str) -> None:
    """Nothing is guessed: no indentation, no other Unicode form, no other count."""
    with pytest.raises(ToolError, match=said):
        replace(data, old, new, count)


def test_a_miss_tells_the_nearest_lines_with_their_numbers() -> None:
    """The model can mend its call without viewing the file again; a form feed starts no line."""
    data = b"import os\n\f\ndef total(items):\r\n    return sum(items)\n"
    with pytest.raises(ToolError) as told:
        replace(data, "def totals(items):\n    return 1", "x", 1)
    assert "3\tdef total(items):" in str(told.value)
    with pytest.raises(ToolError, match="view the file"):
        replace(data, "zzzzzz", "x", 1)


def test_a_miss_compares_a_bounded_number_of_short_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing two lines takes long, and nothing else runs meanwhile: 2,000 lines that share most words are enough."""
    compared: list[str] = []
    compare = difflib.get_close_matches

    def counted(word: str, lines: list[str], n: int, cutoff: float) -> list[str]:
        compared.extend(lines)
        return compare(word, lines, n, cutoff)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    strangers = [f"nothing in common {n}" for n in range(5_000)]
    near = [f"total {n} " + "x" * 300 for n in range(5_000)]
    data = "\n".join([*strangers, *near, "def total(items):"]).encode()
    with pytest.raises(ToolError, match=r"10001\tdef total\(items\):"):
        replace(data, "def total(item):", "x", 1)
    assert len(compared) == 2_000
    assert max(map(len, compared)) == 200
    assert not [line for line in compared if "total" not in line]


@given(
    lines=st.lists(st.sampled_from(["", "a", "a ", "b\t", "\ta"]), max_size=12),
    old=st.lists(st.sampled_from(["", "a", "a\t", "b", "\ta "]), min_size=1, max_size=4),
    mark=st.sampled_from([b"", codecs.BOM_UTF8]),
    crlf=st.booleans(),
)
@settings(max_examples=400, deadline=None)
def test_whole_lines_are_found_as_a_comparison_line_by_line_finds_them(
    lines: list[str], old: list[str], mark: bytes, crlf: bool
) -> None:
    """The first match counts, then the next one behind it, with and without the last line's end."""
    end = "\r\n" if crlf else "\n"
    data = mark + "".join(line + end for line in lines).encode()
    last = old[-1] == ""
    wanted = [line.rstrip() for line in (old[:-1] if last else old)]
    found, at = [], 0
    while any(wanted) and at + len(wanted) <= len(lines):
        if [line.rstrip() for line in lines[at : at + len(wanted)]] != wanted:
            at += 1
            continue
        start = len(mark) + sum(len(line + end) for line in lines[:at])
        at += len(wanted)
        stop = len(mark) + sum(len(line + end) for line in lines[:at])
        found.append((start, stop if last else stop - len(end)))
    assert edits._by_trailing(data, "\n".join(old).encode()) == found


@given(
    data=st.text("ab\r\n", max_size=30).map(str.encode),
    old=st.text("ab\n", min_size=1, max_size=4).map(str.encode),
)
@settings(max_examples=400, deadline=None)
def test_line_ends_are_found_as_a_pattern_finds_them(data: bytes, old: bytes) -> None:
    """LF and CRLF count as the same, wherever the match begins and ends."""
    pattern = old.replace(b"\n", rb"\r?\n")
    assert edits._by_line_ends(data, old) == [found.span() for found in re.finditer(pattern, data)]


def test_lines_that_repeat_are_searched_in_one_pass() -> None:
    """Line by line, at each line anew, these would be 400 million comparisons a search."""
    data = b"a \n" * 200_000
    with pytest.raises(ToolError, match="not in the file"):
        replace(data, "a\n" * 4_000 + "b\n", "x", 1)
    assert edits._by_line_ends(data, b"a \n" * 4_000 + b"b") == []


def test_lines_are_counted_as_compilers_count_them() -> None:
    """Only LF ends a line, with or without CR before it."""
    assert lines_of("") == []
    assert lines_of("\n") == [""]
    assert lines_of("a\r\nb\fc\u2028d\x85e\n\nf") == ["a", "b\fc\u2028d\x85e", "", "f"]


@given(before=TEXT, old=TEXT.filter(bool), after=TEXT, new=TEXT)
@example(before="a\r", old="\nb", after="\r\n", new="c")
@settings(max_examples=400, deadline=None)
def test_bytes_around_an_edit_stay_identical(before: str, old: str, after: str, new: str) -> None:
    """Whatever the file holds, what stands before and behind the one span that was named is not touched."""
    data = (before + old + after).encode()
    try:
        result = replace(data, old, new, 1)
    except ToolError:
        return
    plain = new.encode().replace(b"\r\n", b"\n")
    texts = {new.encode(), plain, plain.replace(b"\n", b"\r\n")}
    assert any(
        result == data[:at] + text + data[stop:]
        for at in range(len(data) + 1)
        for stop in range(at, len(data) + 1)
        for text in texts
        if _same(data[at:stop], old.encode())
    )


def _same(found: bytes, wanted: bytes) -> bool:
    """Equal but for line ends and for blanks at the ends of lines."""
    return [line.rstrip() for line in found.split(b"\n")] == [line.rstrip() for line in wanted.split(b"\n")]


@given(prefix=TEXT, suffix=TEXT, ending=st.sampled_from(["\n", "\r\n"]))
@settings(max_examples=200, deadline=None)
def test_a_marked_span_is_replaced_and_nothing_else(prefix: str, suffix: str, ending: str) -> None:
    """A span that stands once is found whatever line ends the call gave, and both sides are the same bytes."""
    marked = f"<<one{ending}two>>"
    result = replace((prefix + marked + suffix).encode(), "<<one\ntwo>>", "<<three>>", 1)
    assert result == (prefix + "<<three>>" + suffix).encode()
