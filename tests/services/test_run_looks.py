"""The JSON of the commands that look at what runs have left, against the contract and against the run itself."""

import json
import re
from typing import Any

import pytest

LEARNS = "Create `a.txt` with `right`. (fails without the lesson grep)"
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


@pytest.fixture
def yard(make_yard: Any, creates: Any) -> Any:
    """A repository in which one run merged A at its second attempt, and failed B."""
    made = make_yard(
        ("A", LEARNS, "`grep -x right a.txt || { echo no grep hit; exit 1; }`"),
        creates("B", "(the judge rejects)"),
    )  # fmt: skip
    made.ran = made.run()
    assert (made.ran.code, made.ran.counts) == (1, {"merged": 1, "failed": 1})
    return made


def shown(yard: Any, *arguments: str) -> list[dict[str, Any]]:
    """The objects that a command prints, one a line."""
    ran = yard.invoke([*arguments, "--json"])
    assert (ran.code, ran.err) == (0, "")
    return [json.loads(line) for line in ran.out.splitlines()]


def test_status(yard: Any) -> None:
    """The run, where each task stands with what it cost, and totals equal to those of `run_finished`."""
    (status,) = shown(yard, "status")
    last = yard.ran.finished
    assert set(status) == {"run", "board", "state", "pid", "tasks", "totals"}
    assert (status["run"], status["board"], status["state"], status["pid"]) == (
        last["run"],
        "board.md",
        "finished",
        None,
    )
    assert all(set(task) == {"id", "state", "attempt", "cost_usd"} for task in status["tasks"])
    assert [(t["id"], t["state"], t["attempt"]) for t in status["tasks"]] == [("A", "merged", 2), ("B", "failed", 1)]
    costs = {"A": 0.0, "B": 0.0}
    for event in yard.ran.named("answer"):
        costs[event["task"]] += event["cost_usd"]
    assert {t["id"]: t["cost_usd"] for t in status["tasks"]} == pytest.approx(costs)
    totals = ["cost_usd", "possibly_paid_usd", "saved_usd", "requests", "pushes", "wall_s", "work_s", "speedup"]
    assert {name: status["totals"][name] for name in totals} == {name: last[name] for name in totals}


def test_a_plain_status_says_why_and_what_to_type(make_yard: Any, creates: Any) -> None:
    """The reason of the run's last lines once more, and the commands that look at it and decide."""
    yard = make_yard(creates("A", "(the judge answers nonsense)"), creates("B", "(the judge rejects)"))
    yard.run()
    told = yard.invoke(["status"]).out
    assert "no verdict" in told
    assert "the judge rejected it" in told
    assert "taskyard history show A" in told
    assert "taskyard decide A accept|send-back|reject|retry" in told
    assert "then go on with: taskyard resume" in told


def test_cache_stats(yard: Any) -> None:
    """C08: the hit rate is hits / (hits + misses): none at first, half after the same run once more."""
    (stats,) = shown(yard, "cache", "stats")
    paid = yard.ran.finished["requests"]["paid"]
    fields = "entries bytes max_entries max_bytes hits misses hit_rate saved_usd by_role by_model"
    assert set(stats) == set(fields.split())
    assert (stats["entries"], stats["misses"], stats["hits"], stats["hit_rate"]) == (paid, paid, 0, 0)
    assert set(stats["by_role"]) == {"planner", "implementer", "judge"}
    yard.run("--again", "--push", "none")
    (stats,) = shown(yard, "cache", "stats")
    assert (stats["entries"], stats["misses"], stats["hits"], stats["hit_rate"]) == (paid, paid, paid, 0.5)
    assert stats["saved_usd"] > 0
    assert sum(role["hits"] for role in stats["by_role"].values()) == paid


def test_history(yard: Any) -> None:
    """A line for each attempt, with its status and cost; the newest first."""
    lines = shown(yard, "history", "list")
    fields = "task attempt run status start end duration_s cost_usd bytes archived"
    assert all(set(line) == set(fields.split()) for line in lines)
    assert {(line["task"], line["attempt"], line["status"]) for line in lines} == {
        ("A", 1, "failed"), ("A", 2, "merged"), ("B", 1, "failed"),
    }  # fmt: skip
    assert sum(line["cost_usd"] for line in lines) == pytest.approx(yard.ran.finished["cost_usd"])
    assert all(STAMP.fullmatch(line["start"]) for line in lines)
    assert [line["start"] for line in lines] == sorted((line["start"] for line in lines), reverse=True)
    (stats,) = shown(yard, "history", "stats")
    fields = "entries bytes max_entries max_bytes max_age_s usage_ratio growth_bytes_per_s pruned archived last_prune"
    assert set(stats) == set(fields.split())
    assert stats["entries"] == 3
    assert stats["bytes"] == sum(line["bytes"] for line in lines)


def test_lessons(yard: Any) -> None:
    """What was learnt can be found by its words, with what resolved it."""
    found = shown(yard, "lessons", "search", "grep hit")
    fields = "id task_type role failure_type failure_msg resolution pattern times_seen first_seen last_seen score"
    assert all(set(lesson) == set(fields.split()) for lesson in found)
    assert "no grep hit" in found[0]["failure_msg"]
    assert (found[0]["failure_type"], found[0]["role"], found[0]["times_seen"]) == ("check_failed", "implementer", 1)
    assert found[0]["resolution"]
    (stats,) = shown(yard, "lessons", "stats")
    assert {"lessons", "skipped", "built_at", "build_s", "offered", "helped", "retired"} <= set(stats)
    recorded = yard.ran.named("lesson", action="recorded")
    assert (stats["lessons"], stats["skipped"]) == (len(recorded), [])
    lines = (yard.repo / ".taskyard" / "lessons.jsonl").read_text().splitlines()
    assert {json.loads(line)["id"] for line in lines} == {event["lesson"] for event in recorded}


def test_board_show(yard: Any) -> None:
    """What is a check and what is acceptance text, before anything is spent."""
    (board,) = shown(yard, "board", "show", "board.md")
    assert set(board) == {"board", "format", "tasks", "ignored"}
    fields = "id title status branch depends_on priority checks acceptance line"
    assert all(set(task) == set(fields.split()) for task in board["tasks"])
    assert [check["name"] for check in board["tasks"][1]["checks"]] == ["verify-1"]


def test_plain_lines_tell_the_same(yard: Any) -> None:
    """The summary of the same run without --json: counts, cost and where the work is."""
    ran = yard.invoke(["run", "board.md", "--again", "--headless"])
    assert ran.code == 1
    assert "1 of 2 tasks merged" in ran.out
    assert "\x1b" not in ran.out
