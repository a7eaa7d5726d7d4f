"""What a command printed: bounded, safe to show, the same for two equal runs."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard.services.checks import BoundedOutput, clean, normalise
from taskyard.services.checks.broken import why_broken
from taskyard.services.checks.output import HEAD_BYTES, LEFT_OUT

FOLDER = Path("/cache/worktrees/3")


def test_short_output_is_kept_whole_however_it_arrives():
    """Nothing is left out up to the bound, byte for byte."""
    output = BoundedOutput(head=4, tail=6)
    for byte in b"0123456789":
        output.add(bytes([byte]))
    assert output.text() == "0123456789"


@given(st.lists(st.text("ab\n"), max_size=40), st.integers(0, 50), st.integers(1, 50))
def test_the_kept_part_is_the_beginning_and_the_end(chunks: list[str], head: int, tail: int):
    """Whatever the chunks, what is kept is a beginning and an end of the stream, each within its bound."""
    output = BoundedOutput(head=head, tail=tail)
    for chunk in chunks:
        output.add(chunk.encode())
    whole = "".join(chunks)
    assert output.total == len(whole)
    first, gap, last = output.text().partition(f"\n{LEFT_OUT}\n")
    assert bool(gap) is (len(whole) > head + tail)
    if gap:
        assert whole.startswith(first)
        assert whole.endswith(last)
        assert len(first) <= head
        assert 0 < len(last) <= tail


def test_long_output_is_cut_at_line_ends():
    """A reader never sees half a line next to the gap."""
    output = BoundedOutput(head=25, tail=25)
    for number in range(100):
        output.add(f"line {number}\n".encode())
    assert output.text() == f"line 0\nline 1\nline 2\n{LEFT_OUT}\nline 97\nline 98\nline 99\n"


def test_a_bound_without_a_tail_is_refused():
    """The end of an output says what failed: it can't be left out."""
    with pytest.raises(ValueError, match="tail 0"):
        BoundedOutput(tail=0)


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07after", "after"),
        ("\x1b]52;c;aGk=\x1b\\after", "after"),
        ("\x9b2Jcleared", "cleared"),
        ("\x1bPq#0\x1b\\after", "after"),
        ("\x1b[6n", ""),
        ("\x1b", "␛"),
        ("\x1b[\x1b[31m31m", "␛[31m"),
        ("null\x00bell\x07", "null␀bell␇"),
        ("10%\r20%\r\ndone", "10%\n20%\ndone"),
        ("abc\x08\x7f", "abc␈␡"),
        ("evil\u202etxt.exe", "evil<U+202E>txt.exe"),
        ("in\u200bvisible", "in<U+200B>visible"),
        ("tag\U000e0041", "tag<U+E0041>"),
        ("lone \ud800 surrogate", "lone \ufffd surrogate"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("grüße 日本 👍", "grüße 日本 👍"),
    ],
)
def test_what_could_steer_a_terminal_is_gone_or_shown(printed: str, shown: str):
    """Escape sequences go, other hidden characters are made visible, ordinary text stays."""
    assert clean(printed) == shown


@given(st.text(alphabet=st.one_of(st.characters(), st.sampled_from("\x1b\x9b[]P\\\x07m;0\r\n\u202e"))))
def test_clean_text_holds_no_control_and_stays_clean(text: str):
    """No C0 but tab and newline, no C1, no bidirectional mark survives; cleaning again changes nothing."""
    once = clean(text)
    assert not any(ord(c) < 0x20 and c not in "\t\n" for c in once)
    assert not any(0x7F <= ord(c) <= 0x9F or c in "\u061c\u200e\u200f\u202a\u202e\u2066\u2069" for c in once)
    once.encode("utf-8")
    assert clean(once) == once


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("5 passed in 0.12s", "5 passed in 1.34s"),
        ("5 passed in 61.20s (0:01:01)", "5 passed in 62.11s (0:01:02)"),
        ("0.50s call     tests/test_a.py::test_b", "0.51s call     tests/test_a.py::test_b"),
        ("Ran 5 tests in 0.001s", "Ran 5 tests in 0.002s"),
        ("ok  \texample.com/pkg\t0.004s", "ok  \texample.com/pkg\t1.2s"),
        ("--- FAIL: TestAdd (0.00s)", "--- FAIL: TestAdd (0.01s)"),
        ("  ✓ adds (12 ms)", "  ✓ adds (9 ms)"),
        ("Time:        1.234 s, estimated 2 s", "Time:        1.301 s"),
        ("test result: ok. 3 passed; finished in 0.00s", "test result: ok. 3 passed; finished in 0.03s"),
        ("real\t0m0.123s", "real\t0m1.456s"),
        ("<object at 0x7f12ab34cd56>", "<object at 0x7fffab34cd00>"),
        ("panic: goroutine 18 [running]", "panic: goroutine 7 [running]"),
        ("==4711== Invalid read", "==4712== Invalid read"),
        ("(node:81) Warning", "(node:99) Warning"),
        ("[gw0] FAILED", "[gw3] FAILED"),
        ("2026-12-01 17:26:54,123 INFO up", "2026-12-02 08:00:00,001 INFO up"),
        ("Tue Dec  1 17:26:54 UTC 2026 up", "Wed Dec  2 07:26:54 UTC 2026 up"),
        ("/tmp/tmpab12cd34/x", "/tmp/tmpzz99_x0a/x"),
        ("/tmp/pytest-of-me/pytest-7/test_a0/x", "/tmp/pytest-of-me/pytest-8/test_a0/x"),
    ],
)
def test_two_equal_runs_print_the_same(first: str, second: str):
    """What differs by chance alone is taken out, so that a prompt made of it is the same."""
    assert normalise(first, FOLDER) == normalise(second, FOLDER)


@pytest.mark.parametrize(
    "line",
    [
        "AssertionError: 2026-12-01 != 2026-12-02",
        "E   assert '2026-12-01T00:00:00Z' == '2026-12-01T00:00:01Z'",
        "expected timeout 30s, got 60s",
        "0xDEADBEEF != 0xCAFEBABE",
        "got 12 items, expected 13",
        "/cache/worktrees/31/other.py",
        "total 0.25 of 0.5",
    ],
)
def test_what_a_check_may_be_about_stays(line: str):
    """Dates, numbers, durations and other paths in the middle of a message are left as they are."""
    assert normalise(line, FOLDER) == line


def test_the_worktree_is_called_by_a_dot():
    """The folder's own path becomes `.`, wherever it stands."""
    text = f'rootdir: {FOLDER}\n  File "{FOLDER}/tests/test_a.py", line 3\n({FOLDER}) file://{FOLDER}/a'
    assert normalise(text, FOLDER) == 'rootdir: .\n  File "./tests/test_a.py", line 3\n(.) file://./a'


def test_a_linked_worktree_is_called_by_a_dot_too(tmp_path: Path):
    """Tools print the path as given or with links resolved."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    text = f"{tmp_path}/link/a {tmp_path}/real/a"
    assert normalise(text, tmp_path / "link") == "./a ./a"


_PIECES = """
/cache/worktrees/3~/~.~in ~0.12s~ call~(~)~0x7f12ab34cd56~at ~12 ms~
~[~]~2026-12-01T10:00:00Z~10:11:12~pid 7~==7==~tmpab12cd34~ok ~Time: ~real~5s~x~\t~<time>
~started at ~goroutine 1 [~duration_ms 3~✓ """


@given(st.lists(st.sampled_from(re.split("~", _PIECES)), max_size=12).map("".join))
def test_normalising_again_changes_nothing(text: str):
    """Idempotent: a text that went through once may go through again."""
    once = normalise(text, FOLDER)
    assert normalise(once, FOLDER) == once


@pytest.mark.parametrize(
    "piece",
    ["/", "a", "(", " ", "1", "0.1", "1.1 ", "\n", "\t", "ok 1s ", "Time: ", "\x1b]", "a: ", "python", "\x1b[1", "== "],
)
def test_hostile_output_takes_no_longer_than_other_output(piece: str):
    """No expression looks from every place to the end: a slow one would take minutes for these 128 KB."""
    text = clean(piece * (HEAD_BYTES * 2 // len(piece)))
    assert normalise(text, FOLDER) == normalise(normalise(text, FOLDER), FOLDER)
    assert isinstance(why_broken(1, text, "check"), str)
