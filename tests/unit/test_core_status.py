"""What a screen shows: snapshots that don't change, and versions that rise when they are out of date."""

import itertools

import pytest

from taskyard.services.events import AnswerGiven, PossiblyPaid, TaskStateChanged, Warned
from taskyard.services.records import TaskState
from taskyard.services.status import Spend, Status, TaskLine


def state(task: str, to: TaskState, attempt: int = 1, detail: str | None = None) -> TaskStateChanged:
    return TaskStateChanged(task=task, state=to, attempt=attempt, detail=detail)


def answer(task: str = "T1", cost: float | None = 0.5, saved: float | None = 0.0) -> AnswerGiven:
    return AnswerGiven(
        task=task, role="planner", attempt=1, turn=1, model="m", lane="live", source="paid", key="k", input_tokens=1,
        output_tokens=1, cache_read_tokens=0, cache_write_tokens=0, cost_usd=cost, saved_usd=saved,
    )  # fmt: skip


def test_tasks_stand_in_the_order_in_which_they_were_first_heard_of() -> None:
    """A task keeps its line and its cost while its state changes."""
    status = Status()
    for event in (
        state("B", "queued"),
        state("A", "queued"),
        state("B", "planning"),
        answer("B"),
        state("B", "failed", 2, "why"),
    ):
        status.hear(event)
    assert status.tasks()[1] == (TaskLine("B", "failed", 2, "why", 0.5), TaskLine("A", "queued", 1, None, 0.0))


def test_every_state_is_counted() -> None:
    """D14: queued, running and failed tasks are told apart; only states with a count are listed."""
    status = Status()
    for task, to in (("A", "queued"), ("B", "failed"), ("C", "failed"), ("D", "merged"), ("A", "planning")):
        status.hear(state(task, to))  # type: ignore[arg-type]
    assert status.counts() == {"planning": 1, "failed": 2, "merged": 1}


def test_money_adds_up_and_the_unpriced_is_counted_apart() -> None:
    """An answer without a price is one more unpriced answer, never 0 dollars said as a fact."""
    status = Status()
    for event in (
        answer(cost=0.5), answer(cost=None), answer(cost=0.0, saved=0.25),
        PossiblyPaid(key="k", model="m", worst_case_usd=1.0, reason="lost"),
    ):  # fmt: skip
        status.hear(event)
    assert status.spend()[1] == Spend(paid_usd=0.5, saved_usd=0.25, possibly_paid=1, unpriced=1)


def test_a_version_rises_when_its_panel_changes_and_only_then() -> None:
    """A screen redraws what has a new version and nothing else."""
    status = Status()
    versions = [(status.tasks()[0], status.spend()[0])]
    for event in (state("T1", "queued"), answer("T1"), answer("unknown"), Warned(code="c", message="m")):
        status.hear(event)
        versions.append((status.tasks()[0], status.spend()[0]))
    rose = [(after[0] > before[0], after[1] > before[1]) for before, after in itertools.pairwise(versions)]
    assert rose == [(True, False), (True, True), (False, True), (False, False)]


def test_a_snapshot_stays_as_it_was() -> None:
    """D13: what a screen holds is neither changed by the run nor able to change it."""
    status = Status()
    status.hear(state("T1", "queued"))
    _, before = status.tasks()
    status.hear(state("T1", "planning"))
    assert before[0].state == "queued"
    with pytest.raises(AttributeError):
        before[0].state = "merged"  # type: ignore[misc]
