"""The template engine: strict, compiled at start-up, overridable, counted."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from taskyard.services.clock import SystemClock
from taskyard.services.errors import ConfigError
from taskyard.services.prompts import PromptBuilder, PromptEngine
from taskyard.services.prompts.text import clip, fence, one_line, tail


class SteppingClock(SystemClock):
    """Each look at it is a quarter of a second later."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        self.seconds += 0.25
        return self.seconds


@pytest.fixture
def overrides(tmp_path: Path) -> Path:
    folder = tmp_path / "prompts"
    folder.mkdir()
    return folder


def engine(overrides: Path | None) -> PromptEngine:
    return PromptEngine(overrides, SystemClock())


def test_an_override_takes_the_place_of_the_packaged_template(overrides: Path) -> None:
    """T01: a new text under a known name is what the next start renders."""
    (overrides / "planner_system.j2").write_text("Version 1")
    assert engine(overrides).render("planner_system.j2", {}) == "Version 1"
    (overrides / "planner_system.j2").write_text("Version 2\n")
    assert engine(overrides).render("planner_system.j2", {}) == "Version 2\n"


def test_a_broken_override_is_told_at_start_up_with_file_and_line(overrides: Path) -> None:
    """T02: compiled first; the message says where."""
    (overrides / "judge.j2").write_text("fine\n{% if %}\n")
    with pytest.raises(ConfigError, match=r"judge\.j2, line 2: "):
        engine(overrides)


@pytest.mark.parametrize(
    ("text", "line", "named"),
    [
        ("Goal: {{ goal }}", 1, "'goal'"),
        ("\n{{ task.goal }}", 2, "'goal'"),
        ("{% if not goal %}x{% endif %}", 1, "'goal'"),
        ("{% for x in goal %}x{% endfor %}", 1, "'goal'"),
        ("\n\n{{ goal|length }}", 3, "'goal'"),
        ("{% macro m(a) %}\n{{ a }}{% endmacro %}{{ m() }}", 2, "'a'"),
    ],
)
def test_a_missing_variable_is_an_error_that_names_it(overrides: Path, text: str, line: int, named: str) -> None:
    """T03: never "no value" in a prompt; template, line and variable are named."""
    (overrides / "planner.j2").write_text(text)
    with pytest.raises(ConfigError, match=rf"planner\.j2, line {line}: .*{named}"):
        engine(overrides).render("planner.j2", {"task": {}})


def test_a_missing_variable_of_an_override_stops_the_start_not_the_run(overrides: Path) -> None:
    """T03: before any call."""
    (overrides / "parts").mkdir()
    (overrides / "parts" / "gate.j2").write_text("{% for r in gate %}{{ r.colour }}{% endfor %}")
    with pytest.raises(ConfigError, match=r"gate\.j2, line 1: .*'colour'"):
        PromptBuilder(engine(overrides))


def test_no_template_is_ever_evicted_or_compiled_again(overrides: Path) -> None:
    """T04: all of them are compiled at start-up; later changes on disk don't reach a run under way."""
    (overrides / "planner_system.j2").write_text("first")
    started = engine(overrides)
    (overrides / "planner_system.j2").write_text("{% broken")
    assert started.render("planner_system.j2", {}) == "first"


def test_statistics_count_renders_errors_and_seconds_per_template(overrides: Path) -> None:
    """T05, T08: failed renders are counted, totals never go back."""
    (overrides / "planner.j2").write_text("{{ goal }}")
    counted = PromptEngine(overrides, SteppingClock())
    for data in ({"goal": "a"}, {"goal": "b"}, {}):
        try:
            counted.render("planner.j2", data)
        except ConfigError:
            continue
    by_name = {one.name: one for one in counted.statistics()}
    assert (by_name["planner.j2"].renders, by_name["planner.j2"].errors) == (2, 1)
    assert by_name["planner.j2"].seconds == 0.75
    assert by_name["planner.j2"].origin == str(overrides / "planner.j2")
    assert (by_name["judge.j2"].renders, by_name["judge.j2"].errors, by_name["judge.j2"].seconds) == (0, 0, 0.0)


def test_many_threads_render_the_same_and_every_render_is_counted(overrides: Path) -> None:
    """T06: no moment at which a template is not there."""
    (overrides / "planner.j2").write_text("{% for n in range(20) %}{{ goal }}{% endfor %}")
    shared = engine(overrides)
    with ThreadPoolExecutor(8) as pool:
        rendered = set(pool.map(lambda _: shared.render("planner.j2", {"goal": "g"}), range(2_000)))
    assert rendered == {"g" * 20}
    assert {one.name: one.renders for one in shared.statistics()}["planner.j2"] == 2_000


def test_statistics_are_frozen_snapshots() -> None:
    """T09: a reader can't change them, and they don't change under it."""
    counted = engine(None)
    before = counted.statistics()
    counted.render("judge_system.j2", {})
    assert all(one.renders == 0 for one in before)
    with pytest.raises(AttributeError):
        before[0].renders = 99  # type: ignore[misc]


def test_checking_a_template_does_not_count_as_a_render() -> None:
    """The start-up check leaves the statistics at zero."""
    fresh = engine(None)
    PromptBuilder(fresh)
    assert sum(one.renders + one.errors for one in fresh.statistics()) == 0


def test_templates_include_extend_import_and_use_macros(overrides: Path) -> None:
    """T07: shared parts, and the packaged template under its full name."""
    (overrides / "mine.j2").write_text("{% macro shout(x) %}{{ x|upper }}!{% endmacro %}")
    (overrides / "task.j2").write_text("<{% block sections %}{% endblock %}>")
    (overrides / "planner.j2").write_text(
        '{% extends "task.j2" %}{% import "mine.j2" as mine %}'
        '{% block sections %}{{ mine.shout("go") }}{% include "parts/lessons.j2" %}{% endblock %}'
    )
    assert engine(overrides).render("planner.j2", {"lessons": ()}) == "<GO!>"
    (overrides / "planner_system.j2").write_text('{% include "taskyard/planner_system.j2" %}\nSay please.')
    rendered = engine(overrides).render("planner_system.j2", {})
    assert rendered == engine(None).render("planner_system.j2", {}) + "Say please."


def test_a_reference_to_no_template_is_found_at_start_up(overrides: Path) -> None:
    """T07: not at the first render."""
    (overrides / "planner.j2").write_text('\n{% include "header.j2" %}')
    with pytest.raises(ConfigError, match=r"planner\.j2, line 2: there is no template header\.j2"):
        engine(overrides)
    (overrides / "planner.j2").write_text('{% include "header.j2" ignore missing %}x')
    assert engine(overrides).render("planner.j2", {}) == "x"


def test_a_template_that_includes_itself_is_an_error(overrides: Path) -> None:
    """Not a crash of the interpreter."""
    (overrides / "planner.j2").write_text('{% include "planner.j2" %}')
    with pytest.raises(ConfigError, match=r"planner\.j2.*includes itself"):
        engine(overrides).render("planner.j2", {})


def test_an_override_that_nothing_uses_is_an_error_with_the_nearest_name(overrides: Path) -> None:
    """A typing mistake in a file's name is not passed over."""
    (overrides / "implementor.j2").write_text("x")
    with pytest.raises(ConfigError, match=r"implementor\.j2 is used by nothing; did you mean implementer\.j2"):
        engine(overrides)


@pytest.mark.parametrize("text", ["{{ [1]|random }}", "{{ lipsum() }}", "{{ now() }}"])
def test_there_is_no_chance_and_no_clock_in_templates(overrides: Path, text: str) -> None:
    """Same inputs, same bytes."""
    (overrides / "planner.j2").write_text(text)
    with pytest.raises(ConfigError, match=r"planner\.j2, line 1"):
        engine(overrides).render("planner.j2", {})


@pytest.mark.parametrize("value", [object(), {1, 2}, None, print])
def test_only_text_and_numbers_are_shown(overrides: Path, value: object) -> None:
    """An address in memory or the order of a set would give other bytes in another process."""
    (overrides / "planner.j2").write_text("a\n{{ value }}")
    with pytest.raises(ConfigError, match=r"planner\.j2, line 2: a value of type"):
        engine(overrides).render("planner.j2", {"value": value})


def test_data_is_never_a_template(overrides: Path) -> None:
    """Text of boards and models that looks like a template stays as it is, unescaped."""
    (overrides / "planner.j2").write_text("{{ text }}")
    text = "{{ goal }} {% raw %} <b> & 'x'\r\n{# c #}\n\n"
    assert engine(overrides).render("planner.j2", {"text": text}) == text


def test_overrides_must_be_a_folder_of_utf8_files(tmp_path: Path, overrides: Path) -> None:
    """Each mistake has its message."""
    assert engine(tmp_path / "absent").statistics()
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="not a folder"):
        engine(tmp_path / "file")
    (overrides / "judge.j2").write_bytes(b"ab\xff")
    with pytest.raises(ConfigError, match=r"judge\.j2 is not UTF-8 at byte 2"):
        engine(overrides)


def test_an_unknown_template_is_an_error_that_names_those_there_are() -> None:
    """Also the name of a packaged original is no template to render."""
    with pytest.raises(ConfigError, match=r"no prompt template nope\.j2.*judge\.j2"):
        engine(None).render("nope.j2", {})


@pytest.mark.parametrize("inside", ["", "x", "x\n", "```\ncode\n```", "a ````` b", "`"])
def test_a_fence_is_longer_than_any_run_of_backticks_inside(inside: str) -> None:
    """So that repository text can't close it."""
    opening, *body, closing = fence(inside, "diff").split("\n")
    assert opening == closing + "diff"
    assert set(closing) == {"`"} and len(closing) >= 3
    assert closing not in inside
    assert "\n".join(body) == inside.removesuffix("\n")


@pytest.mark.parametrize("limit", [10, 11, 25, 90])
def test_a_tail_holds_the_last_whole_lines_and_says_what_is_missing(limit: int) -> None:
    """Nothing is cut when it fits; the count is exact."""
    text = "".join(f"line {n}\n" for n in range(20))
    first, _, kept = tail(text, limit).partition("\n")
    assert len(kept) <= limit and text.endswith(kept) and kept.startswith("line ")
    assert first == f"[{len(text) - len(kept)} characters left out]"
    assert tail(text, len(text)) == text
    assert tail("x" * 50, limit).endswith("\n" + "x" * min(limit, 50)) or limit >= 50


@pytest.mark.parametrize("limit", [30, 60, 100])
def test_a_clip_keeps_head_and_tail(limit: int) -> None:
    """The line between says how much is missing."""
    text = "".join(f"line {n}\n" for n in range(40))
    head, rest = clip(text, limit).split("[", 1)
    said, end = rest.split(" characters left out]\n")
    assert text.startswith(head) and text.endswith(end) and head.endswith("\n") and end
    assert len(head) + len(end) + int(said) == len(text)
    assert len(head) + len(end) <= limit
    assert clip(text, len(text)) == text


def test_one_line_collapses_white_space() -> None:
    """A value that must not begin a line of its own."""
    assert one_line(" a\n\n## b\t c ") == "a ## b c"
