"""`taskyard history show`: what a person sees before deciding about a task."""

import json
import subprocess
from typing import Any

import pytest

LEARNS = "Create `a.txt` with `right`. (fails without the lesson grep)"
CHECK = "`grep -x right a.txt || { echo no grep hit; exit 1; }`"


def shown(yard: Any, *arguments: str) -> dict[str, Any]:
    """The object that `history show` prints."""
    ran = yard.invoke(["history", "show", *arguments, "--json"])
    assert (ran.code, ran.err) == (0, "")
    (line,) = ran.out.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def test_each_attempt_says_what_it_did_how_it_ended_and_what_it_changed(make_yard: Any) -> None:
    """A red check's whole output, the plan, the verdict, times, cost, the kept commit and its diff."""
    yard = make_yard(("A", LEARNS, CHECK))
    ran = yard.run()
    assert ran.counts == {"merged": 1}
    task = shown(yard, "A")
    assert set(task) == {"run", "board", "task", "state", "detail", "decide", "repository", "attempts"}
    assert (task["run"], task["board"], task["task"], task["state"], task["decide"]) == (
        ran.finished["run"], "board.md", "A", "merged", [],
    )  # fmt: skip
    first, second = task["attempts"]
    fields = """attempt status start end duration_s reasons cost_usd plan checks verdict judge_text landing decisions
        output commit ref base diff"""
    assert set(first) == set(second) == set(fields.split())
    assert (first["attempt"], first["status"], second["attempt"], second["status"]) == (1, "failed", 2, "merged")
    assert first["plan"]["summary"]
    red = {check["check"]: check for check in first["checks"]}["verify-1"]
    assert (red["exit"], "no grep hit" in red["output"], first["verdict"], first["landing"]) == (1, True, None, None)
    assert any("verify-1 failed" in reason for reason in first["reasons"])
    assert "no grep hit" in first["output"]
    assert second["verdict"]["decision"] == "accept"
    assert second["landing"] == {"outcome": "landed", "detail": yard.landed(yard.tip(ran))["A"]}
    assert first["start"] < first["end"] <= second["end"]
    assert first["cost_usd"] + second["cost_usd"] == pytest.approx(ran.finished["cost_usd"])
    assert "+right\n" in second["diff"]
    assert "+right wrong\n" in first["diff"]


def test_the_kept_commit_can_be_looked_at_with_git(make_yard: Any, creates: Any) -> None:
    """The ref is the real one, whatever the task is called, and the command that is printed works."""
    yard = make_yard(creates("Ab 1", check="`false`"))
    yard.run()
    last = shown(yard, "Ab 1")["attempts"][-1]
    told = yard.invoke(["history", "show", "Ab 1"]).out
    command = [line.strip() for line in told.splitlines() if line.strip().startswith("git --git-dir")][-1]
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=yard.environ, cwd=yard.folder)
    assert done.returncode == 0, done.stderr
    assert f"commit {last['commit']}" in done.stdout
    assert "+Ab 1" in done.stdout
    assert "+Ab 1" in told


def test_what_waits_for_a_person_comes_with_reasons_and_commands(make_yard: Any, creates: Any) -> None:
    """The judge's whole reasons, and each decision as a command to type; after a decision both stay on record."""
    yard = make_yard(creates("A", "(the judge always says revise)"), creates("B"))
    yard.run()
    task = shown(yard, "A")
    last = task["attempts"][-1]
    assert (task["state"], task["decide"]) == ("needs_you", ["accept", "send-back", "reject", "retry"])
    assert (last["status"], last["end"], last["verdict"]["decision"]) == ("needs_you", None, "revise")
    told = yard.invoke(["history", "show", "A"]).out
    assert all(f"taskyard decide A {action}" in told for action in task["decide"])
    assert all(f"    - {reason}" in told for reason in last["verdict"]["reasons"])
    assert shown(yard, "B")["decide"] == []
    yard.invoke(["decide", "A", "reject", "--comment", "not like this"])
    yard.resume()
    after = shown(yard, "A")
    assert (after["state"], after["decide"]) == ("failed", [])
    assert after["attempts"][-1]["decisions"] == [{"action": "reject", "comment": "not like this"}]
    assert after["attempts"][-1]["start"] == last["start"]
    assert "a person decided: reject: not like this" in yard.invoke(["history", "show", "A"]).out


def test_a_judge_that_gave_no_verdict_is_quoted(make_yard: Any, creates: Any) -> None:
    """No verdict is made up, and what it said instead can be read."""
    yard = make_yard(creates("A", "(the judge answers nonsense)"))
    yard.run()
    (attempt,) = shown(yard, "A")["attempts"]
    assert attempt["verdict"] is None
    assert attempt["judge_text"]
    assert attempt["judge_text"].split()[0] in yard.invoke(["history", "show", "A"]).out


def test_a_task_that_was_never_asked_about_has_nothing_but_its_reason(make_yard: Any) -> None:
    """A task without checks: no plan, no check, no commit, no cost."""
    yard = make_yard(("A", "Create `a.txt`.", "It is there."), files={"taskyard.toml": ""})
    yard.run()
    task = shown(yard, "A")
    (attempt,) = task["attempts"]
    assert (attempt["plan"], attempt["checks"], attempt["commit"], attempt["cost_usd"]) == (None, [], None, 0)
    assert any("no check" in reason for reason in attempt["reasons"])
    assert yard.invoke(["history", "show", "A"]).code == 0


def test_an_earlier_run_can_be_named_and_an_unknown_one_or_task_is_said(make_yard: Any, creates: Any) -> None:
    """Exit 2; the message names the tasks that there are."""
    yard = make_yard(creates("A", check="`false`"))
    none = yard.invoke(["history", "show", "A"])
    assert (none.code, "no run in this repository yet" in none.err) == (2, True)
    first = yard.run("--push", "none").finished["run"]
    second = yard.run("--push", "none", "--again").finished["run"]
    assert (shown(yard, "A")["run"], shown(yard, "A", "--run", first)["run"]) == (second, first)
    for arguments, words in ((["A", "--run", "r-none"], "no run r-none"), (["Z"], "it has A")):
        refused = yard.invoke(["history", "show", *arguments])
        assert (refused.code, refused.out) == (2, "")
        assert words in refused.err
