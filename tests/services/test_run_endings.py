"""How runs end: the exit code, the reason, and what each task's last state is."""

from typing import Any

import pytest

LONG = "And so on. " * 6000
"""Makes a request so large that its worst case does not fit into half a dollar."""


def test_every_task_merged_is_exit_0(make_yard: Any, creates: Any) -> None:
    """`merged` equals the tasks whose own commit is on the pushed tip, read from the remote itself."""
    yard = make_yard(creates("A"), creates("B"))
    ran = yard.run()
    assert (ran.code, ran.finished["reason"], ran.counts) == (0, "done", {"merged": 2})
    assert set(yard.landed(yard.tip(ran))) == {"A", "B"}
    assert (ran.finished["pushes"], yard.pushes) == (1, 1)
    assert yard.branches()["main"] == ran.named("run_started")[0]["base"]


def test_some_failed_is_exit_1_and_the_others_are_pushed(make_yard: Any, creates: Any) -> None:
    """A failure of one task never touches another."""
    yard = make_yard(creates("A"), creates("B", "(the judge rejects)"), creates("C", "(changes nothing)"))
    ran = yard.run()
    assert (ran.code, ran.finished["reason"], ran.counts) == (1, "failed", {"merged": 1, "failed": 2})
    assert set(yard.landed(yard.tip(ran))) == {"A"}
    assert "rejected" in ran.detail("B")
    assert ran.states("C")[-1] == ("failed", 3)


@pytest.mark.parametrize(
    ("trouble", "words", "attempts"),
    [
        ("(never finishes)", "ran out of turns", 2),
        ("(the implementer is cut off)", "cut off", 2),
        ("(the implementer answers nonsense)", "malformed", 2),
        ("(the plan is refused)", "refused", 2),
        ("(the planner answers nonsense)", "no plan", 2),
        ("(fails without the lesson UNHEARD)", "check verify-1 failed", 2),
    ],
)
def test_none_done_is_exit_1_and_nothing_is_pushed(
    make_yard: Any, creates: Any, trouble: str, words: str, attempts: int
) -> None:
    """Every way in which a model can fail ends in `failed` with its reason after so many attempts, as set."""
    settings = f"\n[run]\nattempts = {attempts}\n[implementer]\nturns = 5\n"
    yard = make_yard(creates("A", trouble), settings=settings, files={"notes/A.txt": "old\n"})
    ran = yard.run()
    assert (ran.code, ran.finished["reason"], ran.counts) == (1, "failed", {"failed": 1})
    assert words in ran.detail("A")
    assert ran.states("A")[-1] == ("failed", attempts)
    assert (set(yard.branches()), yard.pushes, ran.finished["pushes"]) == ({"main"}, 0, 0)


def test_a_dependent_of_a_failed_task_is_skipped_and_says_why(make_yard: Any) -> None:
    """Exit 1: it is not merged, and not for want of a branch being merged."""
    yard = make_yard(
        ("A", "Create `a.txt` with `a`. (the judge rejects)", "`test -f a.txt`", ""),
        ("B", "Create `b.txt` with `b`.", "`test -f b.txt`", "A"),
        ("C", "Create `c.txt` with `c`.", "`test -f c.txt`", "B"),
        columns="ID | Scope | Verification | Depends on",
    )
    ran = yard.run()
    assert (ran.code, ran.counts) == (1, {"failed": 1, "skipped": 2})
    assert "A" in ran.detail("B")
    assert "B" in ran.detail("C")


def test_no_open_task_is_exit_0_and_says_so(make_yard: Any, creates: Any) -> None:
    """Nothing is spent, no run is put on record, and `run_finished` is still the last line."""
    yard = make_yard(creates("A"))
    board = (yard.repo / "board.md").read_text().replace("[ ]", "[x]")
    yard.change({"board.md": board})
    ran = yard.run()
    assert (ran.code, ran.counts, ran.finished["reason"]) == (0, {}, "done")
    assert "nothing left to do" in ran.warnings()["nothing_to_do"]
    plain = yard.invoke(["run", "board.md"])
    assert (plain.code, "nothing left to do" in (plain.out + plain.err).lower()) == (0, True)
    assert yard.paid == 0
    assert yard.invoke(["status", "--json"]).code == 2


def test_a_task_that_waits_on_an_unmerged_branch_counts_as_nothing_left_to_do(make_yard: Any, creates: Any) -> None:
    """Exit 0, naming the branch; with --again it runs; once the branch is merged it is done."""
    yard = make_yard(creates("A"))
    branch = f"taskyard/{yard.run().finished['run']}"
    waiting = yard.run()
    assert (waiting.code, waiting.counts) == (0, {"skipped": 1})
    assert branch in waiting.detail("A")
    again = yard.run("--again")
    assert (again.code, again.counts, again.finished["requests"]["paid"]) == (0, {"merged": 1}, 0)
    yard.git("update-ref", "refs/heads/main", yard.branches()[branch])
    done = yard.run()
    assert (done.code, done.counts, "nothing_to_do" in done.warnings()) == (0, {}, True)


def test_what_depends_on_a_waiting_task_waits_too(make_yard: Any) -> None:
    """B failed while A got onto a branch: nothing can be done until that is merged, and that is what is said."""
    yard = make_yard(
        ("A", "Create `a.txt` with `a`.", "`test -f a.txt`", ""),
        ("B", "Create `b.txt` with `b`. (the judge rejects)", "`test -f b.txt`", "A"),
        columns="ID | Scope | Verification | Depends on",
    )
    ran = yard.run()
    assert (ran.code, ran.counts) == (1, {"merged": 1, "failed": 1})
    branch = f"taskyard/{ran.finished['run']}"
    waiting = yard.run()
    assert (waiting.code, waiting.counts) == (0, {"skipped": 2})
    assert branch in waiting.detail("B")
    yard.git("update-ref", "refs/heads/main", yard.branches()[branch])
    third = yard.run()
    assert (third.code, third.counts) == (1, {"failed": 1})


def test_a_task_on_the_target_is_done_whatever_its_status_cell_says(make_yard: Any, creates: Any) -> None:
    """A task counts as done when a commit with its `Task-Key` is reachable from the target."""
    yard = make_yard(creates("A"), creates("B"))
    first = yard.run("--only", "A", "--push", "target")
    assert (first.code, yard.branches()["main"] != first.named("run_started")[0]["base"]) == (0, True)
    second = yard.run()
    assert (second.code, second.counts) == (0, {"merged": 1})
    assert second.states("A") == []


def test_only_runs_what_it_names(make_yard: Any, creates: Any) -> None:
    """The rest of the board is not touched and not counted."""
    yard = make_yard(creates("A"), creates("B"), creates("C"))
    ran = yard.run("--only", "A,C")
    assert (ran.code, ran.counts) == (0, {"merged": 2})
    assert set(yard.landed(yard.tip(ran))) == {"A", "C"}
    assert yard.read(yard.tip(ran), "board.md").count("[x]") == 2


def test_dry_run_spends_nothing_and_leaves_no_run(make_yard: Any, creates: Any) -> None:
    """It says what would run, and the checks have run on the base."""
    yard = make_yard(creates("A"))
    ran = yard.run("--dry-run")
    assert (ran.code, ran.states("A")) == (0, [("queued", 1)])
    assert (yard.paid, yard.pushes, yard.invoke(["status"]).code) == (0, 0, 2)


def test_the_budget_is_a_hard_stop_and_a_higher_one_goes_on(make_yard: Any, creates: Any) -> None:
    """Exit 3 with less than the budget spent; `resume` pays only for what is missing."""
    yard = make_yard(creates("A"), creates("B", LONG), settings="\n[run]\nmax_in_flight = 1\n")
    ran = yard.run("--budget", "0.5")
    assert (ran.code, ran.finished["reason"]) == (3, "budget")
    assert 0 < ran.finished["cost_usd"] <= 0.5
    assert "--budget" in ran.warnings()["budget_reached"]
    still = yard.resume()
    assert (still.code, still.finished["run"]) == (3, ran.finished["run"])
    done = yard.resume("--budget", "10")
    assert (done.code, done.counts, done.finished["run"]) == (0, {"merged": 2}, ran.finished["run"])
    assert yard.paid_twice == []
    assert done.finished["requests"]["paid"] == yard.paid
    assert yard.invoke(["resume"]).code == 2


def test_a_person_goes_before_a_failure_and_the_budget_before_both(make_yard: Any, creates: Any) -> None:
    """When several apply: 130, then 2, 3, 4, 1."""
    rows = [creates("A", "(the judge rejects)"), creates("B", "(the judge answers nonsense)"), creates("C", LONG)]
    yard = make_yard(*rows, settings="\n[run]\nmax_in_flight = 1\n")
    ran = yard.run()
    assert (ran.code, ran.counts) == (4, {"failed": 1, "needs_you": 1, "merged": 1})
    poor = make_yard(*rows, settings="\n[run]\nmax_in_flight = 1\n").run("--budget", "0.5")
    assert (poor.code, poor.finished["reason"]) == (3, "budget")
    assert poor.counts["failed"] == poor.counts["needs_you"] == 1
