"""A run as plain lines, from made-up events."""

from collections.abc import Iterable

import msgspec
import pytest

from taskyard.services.events import (
    AnswerGiven,
    CheckFinished,
    Event,
    Landed,
    RequestCounts,
    RunFinished,
    RunStarted,
    SavedUsd,
    TaskStateChanged,
    Warned,
)
from taskyard.tui.look import Look
from taskyard.tui.plain import PlainLines

START = RunStarted(
    board="board.md", base="4257f44aaaa", tasks=2, lane="auto", concurrency=10, budget_usd=None, resumed=False
)


def _shown(
    events: Iterable[Event], *, look: Look | None = None, remote: str | None = "origin", dry_run: bool = False
) -> list[str]:
    """The lines for a run whose events come a second apart."""
    lines: list[str] = []
    show = PlainLines(lines.append, look or Look(), remote=remote, dry_run=dry_run)
    for second, event in enumerate([START, *events]):
        show(msgspec.structs.replace(event, at=f"2026-12-01T16:00:{second:02d}.000Z", run="r7k2"))
    return lines


def _answer(task: str, cost: float | None) -> AnswerGiven:
    return AnswerGiven(
        task=task, role="planner", attempt=1, turn=1, model="m", lane="live", source="paid", key="k", input_tokens=1,
        output_tokens=1, cache_read_tokens=0, cache_write_tokens=0, cost_usd=cost, saved_usd=0.0,
    )  # fmt: skip


def _end(tasks: dict[str, int], **given: object) -> RunFinished:
    values: dict[str, object] = {
        "exit": 0, "reason": "done", "cost_usd": 0.42, "possibly_paid_usd": 0.0, "saved_usd": SavedUsd(),
        "requests": RequestCounts(paid=5, live=5), "pushes": 1, "wall_s": 75.0, "work_s": 150.0, "speedup": 2.0,
    }  # fmt: skip
    return RunFinished(tasks=tasks, **(values | given))  # type: ignore[arg-type]


def _landed(*, pushed: bool, ref: str = "refs/heads/taskyard/r7k2") -> Landed:
    return Landed(landing="l1", tasks=("T1",), commit="9c0ffeeaaaa", ref=ref, pushed=pushed)


def test_a_line_says_when_which_task_what_and_at_what_cost() -> None:
    """Answers are quiet; what they cost stands in the task's last line."""
    lines = _shown([_answer("T1", 0.01), _answer("T1", 0.0023), TaskStateChanged(task="T1", state="merged", attempt=2)])
    assert lines[1:] == ["   0:03  T1    ✔ merged        attempt 2 · $0.0123"]


def test_a_model_without_a_price_is_never_shown_as_free() -> None:
    """An unknown cost is "unpriced", also when other answers of the task have one."""
    lines = _shown([_answer("T1", 0.01), _answer("T1", None), TaskStateChanged(task="T1", state="failed", attempt=1)])
    assert lines[-1].endswith("unpriced")


def test_turns_that_go_back_and_forth_are_said_once_per_attempt() -> None:
    """Twelve turns of an attempt don't give twenty-four lines."""
    turns = [TaskStateChanged(task="T1", state=s, attempt=1) for s in ("implementing", "batched")] * 12  # type: ignore[arg-type]
    assert len(_shown([*turns, TaskStateChanged(task="T1", state="implementing", attempt=2)])) == 1 + 2 + 1


def test_green_checks_are_news_on_the_base_only() -> None:
    """A red check always shows, a green one where nothing else would tell."""
    kind = {"check": "test", "tree": "t", "seconds": 1.25, "source": "run"}
    lines = _shown(
        [
            CheckFinished(task=None, exit=0, where="base", **kind),  # type: ignore[arg-type]
            CheckFinished(task="T1", exit=0, where="gate", **kind),  # type: ignore[arg-type]
            CheckFinished(task="T1", exit=1, where="gate", **kind),  # type: ignore[arg-type]
        ]
    )
    assert [line.split("  ", 2)[-1] for line in lines[1:]] == [
        "base  check test: green, 1.2 s",
        "T1    check test: red, exit 1, 1.2 s",
    ]


def test_text_from_outside_can_not_steer_the_terminal() -> None:
    """Ids, details and messages come from boards, models and checks."""
    hostile = "\x1b[2J\x1b]0;title\x07\nnext\u202e"
    lines = _shown(
        [
            TaskStateChanged(task=hostile, state="failed", attempt=1, detail=hostile),
            Warned(code="x", message=hostile),
            _landed(pushed=True, ref="refs/heads/taskyard/" + hostile),
            _end({"failed": 1}, reason="failed", exit=1),
        ]
    )
    assert not any(c in line for line in lines for c in "\x1b\x07\n\u202e")


def test_colour_only_where_it_was_asked_for() -> None:
    """Logs and pipes get no escape sequence of ours."""
    events = [TaskStateChanged(task="T1", state="merged", attempt=1), _end({"merged": 1})]
    assert "\x1b" not in "".join(_shown(events))
    assert "\x1b[32m✔ merged" in "".join(_shown(events, look=Look(colour=True)))


def test_words_alone_where_glyphs_can_not_be_shown() -> None:
    """An ASCII terminal loses the glyph, never the word."""
    lines = _shown([TaskStateChanged(task="T1", state="needs_you", attempt=1)], look=Look(glyphs=False))
    assert "needs you" in lines[-1]
    assert lines[-1].isascii()


def test_the_summary_gives_counts_dollars_savings_and_how_to_merge() -> None:
    """What a person wants to know in the morning stands in the last lines."""
    end = _end({"merged": 2, "failed": 0}, saved_usd=SavedUsd(cache=0.25, prompt_cache=0.5))
    lines = _shown([_landed(pushed=False), _landed(pushed=True), end])
    assert lines[lines.index("") + 1 :] == [
        "Done.",
        "  2 of 2 tasks merged",
        "  $0.4200 paid for 5 answers · saved $0.7500 (cache $0.2500, prompt cache $0.5000)",
        "  1 push · 1:15, 2.0 times as fast as one task at a time",
        "  pushed taskyard/r7k2 (9c0ffee)",
        "  to merge it: git fetch origin && git merge origin/taskyard/r7k2 && git push",
    ]


def test_the_hint_how_to_merge_is_left_out_without_a_remote_to_merge_from() -> None:
    """The demo removes its remote; nobody could follow the hint."""
    assert not any("git merge" in line for line in _shown([_landed(pushed=True), _end({"merged": 1})], remote=None))


def test_what_has_not_begun_is_quiet_until_there_is_a_reason() -> None:
    """A board of two hundred tasks does not begin with two hundred lines."""
    waits = TaskStateChanged(task="T1", state="queued", attempt=2, detail="check test failed; trying again")
    lines = _shown([TaskStateChanged(task="T1", state="queued", attempt=1), waits])
    assert [line.split("queued")[1].strip() for line in lines[1:]] == ["attempt 2 · check test failed; trying again"]


def test_what_was_verified_and_not_pushed_is_said_with_its_commit() -> None:
    """With --push none, or after a refused push, the work can be found."""
    lines = _shown([_landed(pushed=False, ref="refs/taskyard/r7k2/tip"), _end({"merged": 1}, pushes=0)])
    assert "  verified, not pushed: 9c0ffee, kept as refs/taskyard/r7k2/tip" in lines


def test_each_task_that_was_not_merged_has_its_reason_and_each_kind_what_to_do() -> None:
    """A failed task and one that needs a person end the summary, with a command to type."""
    lines = _shown(
        [
            TaskStateChanged(task="T1", state="failed", attempt=3, detail="check test: exit 1"),
            TaskStateChanged(task="T2", state="needs_you", attempt=1, detail="the judge gave no verdict"),
            _end({"failed": 1, "needs_you": 1}, reason="needs_you", exit=4),
        ]
    )
    failed = lines.index("✘ failed: 1")
    assert lines[failed + 1] == "  T1  check test: exit 1"
    assert "run it again" in lines[failed + 2]
    assert "taskyard history show T1" in lines[failed + 2]
    assert lines[failed + 3 :] == [
        "▲ needs you: 1",
        "  T2  the judge gave no verdict",
        "    taskyard history show T2",
        "    taskyard decide T2 accept|send-back|reject|retry",
        "  Then go on with: taskyard resume r7k2",
    ]


def test_an_id_with_a_blank_is_one_word_of_the_command() -> None:
    """What is printed can be typed."""
    lines = _shown([TaskStateChanged(task="my task", state="needs_you", attempt=1), _end({"needs_you": 1})])
    assert "    taskyard history show 'my task'" in lines


@pytest.mark.parametrize(("merged", "speedup", "told"), [(2, 1.2, True), (2, 1.19, False), (0, 3.0, False)])
def test_a_speed_up_is_told_only_when_there_is_one(merged: int, speedup: float, *, told: bool) -> None:
    """A run of one task, or one that merged nothing, was not fast."""
    lines = _shown([_end({"merged": merged, "failed": 2 - merged}, speedup=speedup)])
    assert any("times as fast" in line for line in lines) is told


def test_what_was_pushed_to_the_target_is_to_be_pulled() -> None:
    """There is nothing left to merge."""
    lines = _shown([_landed(pushed=True, ref="refs/heads/main"), _end({"merged": 1})])
    assert lines[-2:] == ["  pushed main (9c0ffee)", "  to have it here too: git pull origin main"]


def test_a_dry_run_does_not_look_like_a_run() -> None:
    """It says what would run; nothing is "done", and nothing is counted as merged or paid."""
    lines = _shown(
        [
            *(TaskStateChanged(task=f"T{n}", state="queued", attempt=1, detail=f"Do {n}") for n in (1, 2)),
            TaskStateChanged(task="T3", state="skipped", attempt=1, detail="waits on a branch"),
            Warned(code="dry_run", message="2 task(s) would run; nothing was spent"),
            _end({"queued": 2, "skipped": 1}, cost_usd=0.0, pushes=0),
        ],
        dry_run=True,
    )
    assert "dry run: board.md, 2 tasks" in lines[0]
    assert lines[lines.index("") + 1 :] == [
        "Dry run: 2 tasks would run, nothing was spent.",
        "  T1  Do 1",
        "  T2  Do 2",
        "─ skipped: 1",
        "  T3  waits on a branch",
    ]
    assert not any(word in line for line in lines for word in ("Done", "merged", "paid", "queued", "task(s)"))


def test_answers_without_a_price_are_counted_and_the_setting_is_named() -> None:
    """An unknown sum is no sum of money."""
    lines = _shown([_end({"merged": 1}, cost_usd=None, possibly_paid_usd=None)])
    assert "  5 answers paid, price unknown: add it to [models] prices · possibly more, price unknown" in lines


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([], "$0.4200 in all lives of the run, nothing new"),
        ([0.25], "$0.4200 in all lives of the run, $0.2500 of it now"),
    ],
)
def test_a_run_that_went_on_says_what_is_new(answers: list[float], words: str) -> None:
    """Its totals are those of all lives; what was paid before is not paid now."""
    resumed = msgspec.structs.replace(START, resumed=True)
    lines = _shown([resumed, *(_answer("T1", cost) for cost in answers), _end({"merged": 1})])
    assert f"  {words}" in lines


def test_a_run_without_open_tasks_says_that_nothing_was_left() -> None:
    """ "Done." would claim work, also where tasks wait on a branch that nobody has merged."""
    nothing = Warned(code="nothing_to_do", message="board.md: nothing left to do")
    lines = _shown([nothing, _end({}, pushes=0)])
    assert lines[1:] == ["", "Nothing left to do."]
    waits = TaskStateChanged(task="T1", state="skipped", attempt=1, detail="waits on the branch taskyard/r1")
    lines = _shown([waits, nothing, _end({"skipped": 1}, pushes=0)])
    assert lines[lines.index("") + 1 :] == [
        "Nothing left to do.",
        "─ skipped: 1",
        "  T1  waits on the branch taskyard/r1",
    ]


def test_an_interrupted_run_says_how_to_go_on() -> None:
    """The command carries the run's id."""
    lines = _shown([_end({"queued": 2}, reason="interrupted", exit=130, pushes=0)])
    assert "Interrupted; nothing is lost. Go on with: taskyard resume r7k2" in lines
