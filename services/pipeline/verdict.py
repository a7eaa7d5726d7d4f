"""What planner and judge say, read from their forced tool calls."""

from typing import Literal

import msgspec

from taskyard.services.llm import Answer
from taskyard.services.pipeline.kit import AttemptFailed, NeedsPerson
from taskyard.services.prompts import Plan


class Verdict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The input of the judge's `verdict` tool."""

    decision: Literal["accept", "revise", "reject"]
    reasons: tuple[str, ...]
    tests_weakened: bool
    scope_ok: bool

    @property
    def accepted(self) -> bool:
        """`accept` counts only when no test was weakened and the scope was kept."""
        return self.decision == "accept" and not self.tests_weakened and self.scope_ok

    @property
    def words(self) -> str:
        """The reasons, with what turned an acceptance into a revision."""
        extra = (["tests were weakened"] if self.tests_weakened else []) + ([] if self.scope_ok else ["out of scope"])
        return "\n".join(f"- {reason}" for reason in [*self.reasons, *extra])


def read_plan(answer: Answer) -> Plan:
    """The plan. Raises AttemptFailed when there is none."""
    uses = answer.tool_uses
    if answer.stop_reason == "refusal":
        raise AttemptFailed("refusal", f"the planner refused: {answer.text or 'without a reason'}")
    if answer.stop_reason == "max_tokens":
        raise AttemptFailed("cut_off", "the plan was cut off at its token limit")
    if len(uses) != 1 or uses[0].get("name") != "plan":
        raise AttemptFailed("plan_malformed", f"the planner gave no plan (it stopped with {answer.stop_reason})")
    try:
        return msgspec.convert(uses[0].get("input"), type=Plan)
    except msgspec.ValidationError as error:
        raise AttemptFailed("plan_malformed", f"the planner's plan can't be read: {error}") from error


def read_verdict(answer: Answer) -> Verdict:
    """The verdict. Raises NeedsPerson for anything else: nonsense is never an acceptance."""
    uses = answer.tool_uses
    if len(uses) != 1 or uses[0].get("name") != "verdict" or not answer.good:
        raise NeedsPerson(f"the judge gave no verdict (it stopped with {answer.stop_reason})")
    try:
        return msgspec.convert(uses[0].get("input"), type=Verdict)
    except msgspec.ValidationError as error:
        raise NeedsPerson(f"the judge's verdict can't be read: {error}") from error
