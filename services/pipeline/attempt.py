"""One attempt: plan, implement, verify, judge. It ends with an accepted candidate, or raises why there is none."""

import msgspec

from taskyard.services.events import TaskStateChanged
from taskyard.services.journal import Steps, digest
from taskyard.services.llm import Answer, Request
from taskyard.services.pipeline.asking import ask
from taskyard.services.pipeline.flags import flags_of
from taskyard.services.pipeline.implement import Change, Implementer
from taskyard.services.pipeline.inputs import Inputs
from taskyard.services.pipeline.kit import AttemptFailed, Kit, NeedsPerson
from taskyard.services.pipeline.reach import Rules, matches
from taskyard.services.pipeline.requests import single
from taskyard.services.pipeline.verdict import Verdict, read_plan, read_verdict
from taskyard.services.prompts import Change as Judged
from taskyard.services.prompts import Plan, Prompt, TaskInputs
from taskyard.services.records import CheckResult, Role, Task, TaskState
from taskyard.services.repo import Candidate

_SUBMODULE = "160000"


class Gate(msgspec.Struct, frozen=True):
    """What the gate found on the tree that would land."""

    tree: str
    results: tuple[CheckResult, ...]


class Attempt:
    """The way of one attempt. `tree` is what the implementer left last, for a person to look at."""

    def __init__(self, kit: Kit, task: Task, key: str, steps: Steps, inputs: Inputs) -> None:
        self._kit = kit
        self._task = task
        self._key = key
        self._steps = steps
        self._inputs = inputs
        self.checks = kit.checks_of(task.checks)
        self.candidate: Candidate | None = None
        """What would land, once the gate is green; a person may accept it whatever the judge says."""
        self.verdict: Verdict | None = None

    async def run(self) -> Candidate:
        """The accepted candidate. Raises AttemptFailed, NeedsPerson, and what the gateway raises for the whole run."""
        shown = TaskInputs(
            task=self._task,
            checks=self.checks,
            repository=await self._kit.view(self._inputs.base_tree),
            lessons=self._inputs.lessons,
            earlier=self._inputs.earlier,
        )
        plan = await self._plan(shown)
        self._state("implementing")
        change = await self._implement(shown, plan)
        self._state("verifying")
        gate = await self._verify(change)
        self.candidate = self._candidate(change, gate)
        self._state("judging")
        await self._judge(shown, plan, gate)
        return self.candidate

    async def _plan(self, shown: TaskInputs) -> Plan:
        answer = await self._single("planner", self._kit.prompts.planner(shown), "plan")
        return read_plan(answer)

    async def _implement(self, shown: TaskInputs, plan: Plan) -> Change:
        settings = self._kit.settings
        files = await self._kit.repository.files(self._inputs.base_tree)
        submodules = (file.path for file in files if file.mode == _SUBMODULE)
        rules = Rules(
            protected=() if self._task.tests_may_change else settings.gate.protected,
            denied=(*self._kit.board_files, settings.lessons.file, *submodules),
            existing=frozenset(file.path for file in files),
        )
        implementer = Implementer(self._kit, self._task, self.checks, self._steps, rules, self._inputs.sample)
        return await implementer.run(self._kit.prompts.implementer(shown, plan), self._inputs.base_tree)

    async def _verify(self, change: Change) -> Gate:
        """Every check on the tree that would land, in which protected files are as on the attempt's base."""

        async def make() -> Gate:
            tree = await self._with_protected_restored(change.tree)
            results = await self._kit.verifier.run(
                tree, self.checks, task=self._task.id, holder=self._task.id, where="gate"
            )
            commit = await self._kit.repository.commit(
                tree, [self._inputs.base_commit], f"{self._task.title}\n\n{change.summary}",
                identity=self._kit.identity, when=self._kit.clock.now(),
            )  # fmt: skip
            await self._kit.repository.keep(f"attempts/{self._kit.run}/{self._task.id}/{self._steps.number}", commit)
            return Gate(tree, results)

        names = msgspec.json.encode(self.checks)
        gate = await self._steps.step("gate", digest(change.tree, names), Gate, make)
        if gate.tree == self._inputs.base_tree:
            raise AttemptFailed("no_change", "only protected files were changed, and these stay as they are")
        red = [result for result in gate.results if self._held_against(result)]
        if red:
            words = "\n\n".join(f"check `{r.check}`: {_ended(r)}\n{r.broken}{r.output}".rstrip() for r in red)
            raise AttemptFailed("check_failed", words, check=red[0].check)
        return gate

    async def _with_protected_restored(self, tree: str) -> str:
        if self._task.tests_may_change:
            return tree
        base = await self._kit.repository.files(self._inputs.base_tree)
        paths = [file.path for file in base if matches(file.path, self._kit.settings.gate.protected)]
        return await self._kit.repository.restore(tree, self._inputs.base_tree, paths) if paths else tree

    def _held_against(self, result: CheckResult) -> bool:
        own = {check.name for check in self._task.checks}
        return not result.green and (result.check in own or result.check not in self._kit.base.red)

    async def _judge(self, shown: TaskInputs, plan: Plan, gate: Gate) -> None:
        repository = self._kit.repository
        diff = await repository.diff(self._inputs.base_tree, gate.tree)
        noticed = await flags_of(repository, self._inputs.base_tree, gate.tree, self._kit.settings.gate.max_deleted)
        excused = tuple(
            f"check {result.check} was red before this change; that is allowed and not to be held against it"
            for result in gate.results
            if not result.green
        )
        flags = (*noticed, *excused)
        change = Judged(diff=diff.decode("utf-8", errors="replace"), gate=gate.results, flags=flags)
        try:
            answer = await self._single("judge", self._kit.prompts.judge(shown, plan, change), "verdict")
        except AttemptFailed as error:
            raise NeedsPerson(f"the judge could not be asked: {error.detail}") from error
        self.verdict = verdict = read_verdict(answer)
        if verdict.decision == "reject":
            raise AttemptFailed("rejected", verdict.words)
        if not verdict.accepted:
            raise AttemptFailed("revise", verdict.words)

    async def _single(self, role: Role, prompt: Prompt, tool: str) -> Answer:
        model = {"planner": self._kit.settings.models.planner, "judge": self._kit.settings.models.judge}[role]
        request = Request(
            params=single(role, model, prompt, self._kit.tools[role], tool), role=role, task=self._task.id,
            attempt=self._steps.number, turn=1, sample=self._inputs.sample,
        )  # fmt: skip
        return await ask(self._kit, request, self._steps)

    def _candidate(self, change: Change, gate: Gate) -> Candidate:
        return Candidate(
            task=self._task.id,
            key=self._key,
            attempt=self._steps.number,
            tree=gate.tree,
            base_tree=self._inputs.base_tree,
            subject=self._task.title,
            body=change.summary,
        )

    def _state(self, state: TaskState) -> None:
        self._kit.emit(TaskStateChanged(task=self._task.id, state=state, attempt=self._steps.number))


def _ended(result: CheckResult) -> str:
    return "timed out" if result.timed_out else f"exit {result.exit}"
