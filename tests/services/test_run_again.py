"""Pay once: the same board on the same base asks for nothing that was paid, and an edited one for what was edited.

The tests of this module share one repository, and build on the first run of it.
"""

import random
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from taskyard.services.clock import SystemClock
from taskyard.services.llm import PriceTable
from taskyard.services.records import Usage

AGAIN = ("--again", "--push", "none")
LESSON = (
    "A",
    "Create `a.txt` with `right`. (fails without the lesson grep)",
    "`grep -x right a.txt || { echo no grep hit; exit 1; }`",
)


class Before:
    """What the checkout looked like."""

    def __init__(self, yard: Any) -> None:
        git = yard.repo / ".git"
        self.files = {
            path.relative_to(git).as_posix(): path.read_bytes()
            for path in git.rglob("*")
            if path.is_file() and "objects" not in path.parts
        }
        self.tree = {
            path: path.read_bytes() for path in yard.repo.rglob("*") if path.is_file() and git not in path.parents
        }


@pytest.fixture(scope="module")
def first(sample: Any) -> Any:
    """The first run: all is paid; the checkout as it was before."""
    before = Before(sample)
    return sample.run(), before


def test_the_first_run_pays_what_the_server_counts(sample: Any, first: Any) -> None:
    """Requests, cost and what the prompt cache saved are those of the server's own ledger, at the table's prices."""
    ran, _ = first
    assert (ran.code, ran.counts, ran.finished["pushes"], sample.pushes) == (0, {"merged": 9}, 1, 1)
    ledger = sample.server.ledger.snapshot()
    last = ran.finished
    assert (
        last["requests"]["paid"] == last["requests"]["live"] == sample.paid == sum(r["count"] for r in ledger["paid"])
    )
    assert sample.paid_twice == []
    prices, now = PriceTable.load(None), SystemClock().now()
    cost = saved = 0.0
    for row in ledger["paid"]:
        usage = Usage(**{name: row[name] for name in Usage.__struct_fields__})
        price = prices.find(row["model"], now)
        assert price is not None
        cost += price.cost(usage, "live")
        saved += price.prompt_cache_saved(usage, "live")
    assert last["cost_usd"] == pytest.approx(cost)
    assert last["saved_usd"]["prompt_cache"] == pytest.approx(saved)
    assert last["saved_usd"]["batch"] == last["possibly_paid_usd"] == 0


def test_not_one_file_of_the_checkout_changed(sample: Any, first: Any) -> None:
    """HEAD, index bytes, configuration, refs, hooks, and every file but the appended lessons."""
    _, before = first
    after = Before(sample)
    assert after.files == before.files
    added = {path.relative_to(sample.repo).as_posix() for path in after.tree.keys() - before.tree.keys()}
    assert added == {".taskyard/lessons.jsonl"}
    assert {path: after.tree[path] for path in before.tree} == before.tree


def test_every_tool_is_used(sample: Any, first: Any) -> None:
    """Search and view among them: the model finds its way about by tool calls alone."""
    assert first[0].code == 0
    calls = {
        block["name"]
        for body in sample.asked
        for message in body["messages"][1:]
        for block in message["content"]
        if block["type"] == "tool_use"
    }
    assert calls == {"view", "search", "edit", "create", "delete", "run_check"} - {"delete"}


def _latency(seed: int) -> Any:
    def seconds(body: Mapping[str, Any]) -> float:
        text = str(body["messages"][0]["content"][0]["text"])[:40] + str(len(body["messages"]))
        return random.Random(zlib.crc32(f"{seed}{text}".encode())).uniform(0, 0.03)

    return seconds


@pytest.mark.parametrize(
    ("flags", "seed", "hashes"), [((), 1, "0"), (("--concurrency", "1"), 2, "1"), (("--concurrency", "3"), 3, "77")]
)
def test_the_same_board_again_pays_nothing(
    sample: Any, first: Any, flags: tuple[str, ...], seed: int, hashes: str
) -> None:
    """0 paid requests, $0, as often as one likes: whatever the concurrency, the server's pace and the hash seed."""
    ran, _ = first
    paid, commits = sample.paid, sample.branches()
    sample.latency = _latency(seed)
    again = sample.process(["run", "board.md", "--json", *AGAIN, *flags], PYTHONHASHSEED=hashes)
    last = again.finished
    assert (again.code, again.counts) == (0, {"merged": 9})
    assert (last["requests"]["paid"], last["cost_usd"], sample.paid) == (0, 0, paid)
    assert last["requests"]["cache"] == ran.finished["requests"]["paid"] + ran.finished["requests"]["cache"]
    assert {event["source"] for event in again.named("answer")} == {"cache"}
    assert "journal_divergence" not in again.warnings()
    assert sample.branches() == commits
    assert {t: again.states(t)[-1] for t in _tasks(again)} == {t: ran.states(t)[-1] for t in _tasks(ran)}


def _tasks(ran: Any) -> set[str]:
    return {event["task"] for event in ran.named("task_state")}


def test_an_edited_task_alone_pays(sample: Any, first: Any) -> None:
    """Its text is changed; all others are served from what was paid."""
    assert first[0].code == 0
    board = Path(sample.repo / "board.md")
    text = board.read_text()
    board.write_text(text.replace("on a line of its own.", "on a line of its own, in order."))
    paid = sample.paid
    edited = sample.run(*AGAIN)
    board.write_text(text)
    assert (edited.code, edited.counts) == (0, {"merged": 9})
    assert {event["task"] for event in edited.named("answer", source="paid")} == {"SD-6"}
    assert edited.finished["requests"]["paid"] == sample.paid - paid > 0


def test_a_board_on_which_much_goes_wrong_pays_nothing_again_either(make_yard: Any, creates: Any) -> None:
    """Revisions, conflicts, lessons, rejections: what was chosen for each prompt sticks, and so does the order."""
    appends = [(name, f"Append `{name}` to `word.txt`.", f"`grep -q {name} word.txt`") for name in ("X", "Y", "Z")]
    yard = make_yard(
        LESSON, *appends, creates("B", "(the judge says revise once)"), creates("C", "(the judge rejects)"),
        creates("D", "(the judge finds it out of scope)"), creates("E", "(changes nothing)"),
        files={"word.txt": "old\n"},
    )  # fmt: skip
    yard.latency = _latency(4)
    ran = yard.run("--push", "none")
    assert ran.counts["merged"] >= 4
    for seed, flags in ((5, ()), (6, ("--concurrency", "1")), (7, ("--concurrency", "2"))):
        paid = yard.paid
        yard.latency = _latency(seed)
        again = yard.run(*AGAIN, *flags)
        assert (again.code, again.counts) == (ran.code, ran.counts)
        assert (again.finished["requests"]["paid"], yard.paid, again.finished["cost_usd"]) == (0, paid, 0)


def test_without_the_cache_everything_is_paid_again(make_yard: Any, creates: Any) -> None:
    """--cache off asks anew; --cache read serves what is there."""
    yard = make_yard(creates("A"))
    ran = yard.run()
    read = yard.run(*AGAIN, "--cache", "read")
    off = yard.run(*AGAIN, "--cache", "off")
    n = ran.finished["requests"]["paid"]
    assert (read.finished["requests"]["paid"], off.finished["requests"]["paid"], yard.paid) == (0, n, 2 * n)


def test_the_second_attempt_succeeds_because_of_the_lesson(make_yard: Any) -> None:
    """With lessons it lands at attempt 2; with none offered the check's output alone does not help, and it fails."""
    yard = make_yard(LESSON)
    ran = yard.run()
    assert (ran.code, ran.states("A")[-1]) == (0, ("merged", 2))
    assert [event["action"] for event in ran.named("lesson")] == ["recorded", "offered", "resolved"]
    without = make_yard(LESSON, settings="\n[lessons]\noffered = 0\n")
    ran = without.run()
    assert (ran.code, ran.counts) == (1, {"failed": 1})
    assert any("no grep hit" in str(body) and "## What was tried before" in str(body) for body in without.asked)
    assert not any("<lesson" in str(body["messages"]) for body in without.asked)


def test_a_lesson_of_an_earlier_run_helps_another_task(make_yard: Any) -> None:
    """What one task learnt stands in the first prompt of a like one, in a later run."""
    yard = make_yard(LESSON)
    assert yard.run("--push", "target").code == 0
    other = LESSON[1].replace("a.txt", "b.txt"), LESSON[2].replace("a.txt", "b.txt")
    (yard.repo / "next.md").write_text(
        f"| ID | Scope | Verification | Status |\n|---|---|---|---|\n| B | {other[0]} | {other[1]} | |\n"
    )
    ran = yard.run(board="next.md")
    assert (ran.code, ran.states("B")[-1]) == (0, ("merged", 1))
    assert ran.named("lesson", action="offered", task="B")
