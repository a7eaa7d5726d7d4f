"""Prompts of the three roles, from typed inputs.

builder = PromptBuilder(PromptEngine(None, SystemClock()))
prompt = builder.planner(TaskInputs(task=task, checks=task.checks, repository=view))
prompt.system, prompt.first      # what goes into the request
"""

from taskyard.services.prompts.engine import PromptEngine
from taskyard.services.prompts.inputs import Change, EarlierAttempt, Plan, Prompt, RepositoryView, TaskInputs
from taskyard.services.records import Check, CheckResult, Lesson, Role, Task

ROLES: tuple[Role, ...] = ("planner", "implementer", "judge")


class PromptBuilder:
    """Builds the stable prefix (`system`) and the first user message of each role.

    The constructor renders every role's templates with sample data, so that a faulty override raises ConfigError here,
    before anything is spent.
    """

    def __init__(self, engine: PromptEngine) -> None:
        self._engine = engine
        for inputs, plan, change in (_SPARSE, _FULL):
            for role in ROLES:
                engine.check(f"{role}_system.j2", {})
                engine.check(f"{role}.j2", _data(inputs, plan, change))
            engine.check("repository.j2", {"repository": inputs.repository})

    def planner(self, inputs: TaskInputs) -> Prompt:
        """The prompt that asks for a plan."""
        return self._prompt("planner", inputs, None, _NO_CHANGE)

    def implementer(self, inputs: TaskInputs, plan: Plan | None) -> Prompt:
        """The prompt that starts an implementer's tool turns."""
        return self._prompt("implementer", inputs, plan, _NO_CHANGE)

    def judge(self, inputs: TaskInputs, plan: Plan | None, change: Change) -> Prompt:
        """The prompt that asks for a verdict on `change`."""
        return self._prompt("judge", inputs, plan, change)

    def _prompt(self, role: Role, inputs: TaskInputs, plan: Plan | None, change: Change) -> Prompt:
        rules = self._engine.render(f"{role}_system.j2", {})
        repository = self._engine.render("repository.j2", {"repository": inputs.repository})
        first = self._engine.render(f"{role}.j2", _data(inputs, plan, change))
        prefix: tuple[dict[str, object], ...] = (
            {"type": "text", "text": rules},
            {"type": "text", "text": repository, "cache_control": {"type": "ephemeral"}},
        )
        return Prompt(prefix, first)


def _data(inputs: TaskInputs, plan: Plan | None, change: Change) -> dict[str, object]:
    """The variables that every role's template has."""
    return {
        "task": inputs.task,
        "checks": inputs.checks,
        "repository": inputs.repository,
        "lessons": inputs.lessons,
        "earlier": inputs.earlier,
        "plan": plan,
        "diff": change.diff,
        "gate": change.gate,
        "flags": change.flags,
    }


_NO_CHANGE = Change(diff="")
_TASK = Task("T1", "Title.", "Title. Text.", "open", 1)
_SPARSE = (TaskInputs(task=_TASK, checks=()), None, _NO_CHANGE)
_FULL = (
    TaskInputs(
        task=Task("T1", "Title.", "Title. Text.", "open", 1, acceptance="It works.", tests_may_change=True),
        checks=(Check("verify-1", "make test"),),
        repository=RepositoryView("README.md", "Be brief."),
        lessons=(Lesson(id="l1", failure_type="check", failure_msg="It failed.", resolution="Mend it."),),
        earlier=(EarlierAttempt(1, "check verify-1 failed", "It failed."), EarlierAttempt(2, "no change")),
    ),
    Plan("Summary.", ("Step.",), ("README.md",), ("verify-1",), ("Risk.",)),
    Change(
        diff="-a\n+b\n",
        gate=(
            CheckResult("verify-1", "make test", "0" * 40, 0, 1.0, "fine"),
            CheckResult("verify-2", "make more", "0" * 40, 1, 1.0, "bad"),
            CheckResult("verify-3", "make slow", "0" * 40, None, 1.0, "", timed_out=True),
            CheckResult("verify-4", "mkae", "0" * 40, 127, 1.0, "", broken="not found"),
        ),
        flags=("A protected file was changed.",),
    ),
)
