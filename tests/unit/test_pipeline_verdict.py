"""What planner and judge say: read strictly, nonsense is never an acceptance."""

from typing import Any, get_args

import pytest

from taskyard.services.llm import Answer
from taskyard.services.pipeline import task
from taskyard.services.pipeline.kit import AttemptFailed, Failure, NeedsPerson
from taskyard.services.pipeline.verdict import read_plan, read_verdict
from taskyard.services.prompts import Plan
from taskyard.services.records import Usage

ACCEPT = {"decision": "accept", "reasons": ["good"], "tests_weakened": False, "scope_ok": True}
PLAN = {"summary": "s", "steps": ["a"], "files": ["b"], "checks": ["c"], "risks": []}


def answer(*uses: Any, stop: str = "tool_use", text: str = "") -> Answer:
    content: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    content += [{"type": "tool_use", "id": "x", "name": name, "input": given} for name, given in uses]
    return Answer(name="n", model="m", content=tuple(content), stop_reason=stop, usage=Usage(), raw=b"")


def test_an_acceptance_is_read() -> None:
    """The one way to be accepted."""
    verdict = read_verdict(answer(("verdict", ACCEPT)))
    assert verdict.accepted
    assert verdict.words == "- good"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tests_weakened": True}, "- good\n- tests were weakened"),
        ({"scope_ok": False}, "- good\n- out of scope"),
        ({"decision": "revise"}, "- good"),
        ({"decision": "reject"}, "- good"),
    ],
)
def test_an_acceptance_with_a_reservation_is_none(change: dict[str, Any], words: str) -> None:
    """`accept` counts only when no test was weakened and the scope was kept; the reasons say what was wrong."""
    verdict = read_verdict(answer(("verdict", ACCEPT | change)))
    assert not verdict.accepted
    assert verdict.words == words


@pytest.mark.parametrize(
    "nonsense",
    [
        answer(text="I accept.", stop="end_turn"),
        answer(stop="end_turn"),
        answer(("verdict", ACCEPT), stop="refusal"),
        answer(("verdict", ACCEPT), stop="max_tokens"),
        answer(("verdict", ACCEPT), stop="pause_turn"),
        answer(("verdict", ACCEPT), ("verdict", ACCEPT)),
        answer(("verdict", ACCEPT), ("plan", PLAN)),
        answer(("plan", ACCEPT)),
        answer(("verdict", None)),
        answer(("verdict", [ACCEPT])),
        answer(("verdict", {})),
        answer(("verdict", ACCEPT | {"decision": "Accept"})),
        answer(("verdict", ACCEPT | {"decision": "accepted"})),
        answer(("verdict", ACCEPT | {"reasons": "good"})),
        answer(("verdict", ACCEPT | {"tests_weakened": "no"})),
        answer(("verdict", ACCEPT | {"tests_weakened": 0})),
        answer(("verdict", ACCEPT | {"scope_ok": None})),
        answer(("verdict", ACCEPT | {"more": 1})),
        *(answer(("verdict", {k: v for k, v in ACCEPT.items() if k != missing})) for missing in ACCEPT),
    ],
)
def test_a_nonsense_verdict_waits_for_a_person(nonsense: Answer) -> None:
    """A judge that is cut off, refuses, or answers anything but one whole verdict accepts nothing."""
    with pytest.raises(NeedsPerson):
        read_verdict(nonsense)


def test_a_plan_is_read() -> None:
    """Its fields word for word."""
    assert read_plan(answer(("plan", PLAN))) == Plan("s", ("a",), ("b",), ("c",), ())


@pytest.mark.parametrize(
    ("nonsense", "kind"),
    [
        (answer(text="Let me think.", stop="end_turn"), "plan_malformed"),
        (answer(stop="end_turn"), "plan_malformed"),
        (answer(("plan", PLAN), ("plan", PLAN)), "plan_malformed"),
        (answer(("verdict", ACCEPT)), "plan_malformed"),
        (answer(("plan", None)), "plan_malformed"),
        (answer(("plan", {"steps": []})), "plan_malformed"),
        (answer(("plan", PLAN | {"steps": "a"})), "plan_malformed"),
        (answer(text="No.", stop="refusal"), "refusal"),
        (answer(("plan", PLAN), stop="max_tokens"), "cut_off"),
    ],
)
def test_a_nonsense_plan_fails_the_attempt(nonsense: Answer, kind: str) -> None:
    """There is no implementing without a whole plan."""
    with pytest.raises(AttemptFailed) as failed:
        read_plan(nonsense)
    assert failed.value.kind == kind


def test_every_failure_has_its_words() -> None:
    """A new kind of failure can't be forgotten on the way to the screen."""
    assert set(task._WORDS) == set(get_args(Failure))
    assert set(get_args(Failure)) >= task._LESSON_WORTHY
