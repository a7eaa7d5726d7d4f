"""The implementer's turns: ask, carry out its tool calls on the kept tree, ask again, until it says that it is done."""

from collections.abc import Sequence
from typing import Any

import msgspec

from taskyard.services.errors import GitError, ToolError
from taskyard.services.journal import Steps, digest
from taskyard.services.llm import Answer, Request
from taskyard.services.pipeline.asking import ask
from taskyard.services.pipeline.kit import AttemptFailed, Kit
from taskyard.services.pipeline.reach import Rules
from taskyard.services.pipeline.requests import implementer_tools, renumbered, turn
from taskyard.services.pipeline.tools import Finish, RunCheck, Toolbox, clip, read_arguments
from taskyard.services.prompts import Prompt
from taskyard.services.records import Check, Task
from taskyard.services.repo import Worktree

_MALFORMED = 3
_IDENTICAL = 3
_NUDGE = "Answer with at least one tool call; call finish when the change is complete."


class ToolResult(msgspec.Struct, frozen=True):
    """What one call gave."""

    text: str
    error: bool


class ToolTurn(msgspec.Struct, frozen=True):
    """What one turn's calls made of the tree. Journalled, so that a replay runs no tool again."""

    tree: str
    results: tuple[ToolResult, ...]
    check_runs: int
    finished: str | None
    """The summary given to `finish`; None while the work goes on."""


class _NotTaken(Exception):
    """Git can't take the files as the edits left them."""


class Change(msgspec.Struct, frozen=True):
    """What the implementer hands over."""

    tree: str
    summary: str


class Implementer:
    """One attempt's implementer."""

    def __init__(self, kit: Kit, task: Task, checks: Sequence[Check], steps: Steps, rules: Rules, sample: int) -> None:
        self._kit = kit
        self._task = task
        self._checks = {check.name: check for check in checks}
        self._steps = steps
        self._rules = rules
        self._sample = sample
        self._tools = implementer_tools(kit.tools["implementer"], list(self._checks))

    async def run(self, prompt: Prompt, base_tree: str) -> Change:
        """Work until `finish`. Raises AttemptFailed when it gets nowhere, and what the gateway raises."""
        settings = self._kit.settings.implementer
        tree, later, checks_left = base_tree, list[dict[str, Any]](), settings.check_runs
        malformed = identical = 0
        previous = ""
        for number in range(1, settings.turns + 1):
            answer = await self._ask(prompt, later, number)
            _refuse_unfinished(answer)
            uses = answer.tool_uses
            if not uses:
                malformed += 1
                if malformed == _MALFORMED:
                    raise AttemptFailed("malformed", f"{_MALFORMED} answers in a row held no tool call")
                later += [_assistant(answer, number), {"role": "user", "content": [{"type": "text", "text": _NUDGE}]}]
                continue
            malformed = 0
            done = await self._carry_out(answer, tree, uses, checks_left)
            tree, checks_left = done.tree, checks_left - done.check_runs
            if done.finished is not None:
                return self._hand_over(tree, base_tree, done.finished)
            same = msgspec.json.encode([[use.get("name"), use.get("input")] for use in uses]).decode()
            failed = all(result.error for result in done.results)
            identical = identical + 1 if failed and same == previous else int(failed)
            previous = same
            if identical == _IDENTICAL:
                raise AttemptFailed("stuck", f"the same failing call {_IDENTICAL} times: {done.results[-1].text}")
            later += [_assistant(answer, number), _results(done.results, number)]
        raise AttemptFailed("turns", f"not finished after {settings.turns} turns")

    def _hand_over(self, tree: str, base_tree: str, summary: str) -> Change:
        if tree == base_tree:
            raise AttemptFailed("no_change", f"finished without a change. It said: {summary}")
        return Change(tree, summary)

    async def _ask(self, prompt: Prompt, later: Sequence[dict[str, Any]], number: int) -> Answer:
        kit = self._kit
        params = turn(
            kit.settings.models.implementer, prompt, self._tools, later, kit.settings.implementer.context_tokens
        )
        request = Request(
            params=params,
            role="implementer",
            task=self._task.id,
            attempt=self._steps.number,
            turn=number,
            sample=self._sample,
        )
        return await ask(kit, request, self._steps)

    async def _carry_out(self, answer: Answer, tree: str, uses: Sequence[dict[str, Any]], checks_left: int) -> ToolTurn:
        """All calls of one answer, in order, in one local step; journalled as a whole."""

        async def work() -> ToolTurn:
            kit = self._kit
            async with kit.slots.hold(self._task.id), kit.work.lay_out(tree) as worktree:
                try:
                    done = await self._calls(worktree, uses, checks_left)
                except _NotTaken as error:
                    done = _nothing_kept(tree, uses, checks_left, str(error))
            await kit.repository.keep(f"trees/{self._steps.run}/{self._task.id}", done.tree)
            return done

        return await self._steps.step("tools", digest(answer.name, tree), ToolTurn, work)

    async def _calls(self, worktree: Worktree, uses: Sequence[dict[str, Any]], checks_left: int) -> ToolTurn:
        box = Toolbox(worktree.path, self._rules, self._kit.clock)
        results: list[ToolResult] = []
        runs, finished = 0, None
        for use in uses:
            name, arguments = str(use.get("name")), use.get("input")
            try:
                if name == "finish":
                    finished, text = _summary(arguments, results), "ok"
                elif name == "run_check":
                    if runs >= checks_left:
                        raise ToolError("no check runs are left; finish, and the checks will be run once more")
                    runs += 1
                    text = await self._run_check(worktree, box, read_arguments(name, RunCheck, arguments).name)
                else:
                    text = await box.carry_out(name, arguments)
                results.append(ToolResult(text, False))
            except ToolError as error:
                results.append(ToolResult(clip(str(error)), True))
        return ToolTurn(await _taken(worktree, box), tuple(results), runs, finished)

    async def _run_check(self, worktree: Worktree, box: Toolbox, name: str) -> str:
        """Run a check on what the edits made so far, then put the tree back as it was before the check touched it."""
        check = self._checks.get(name)
        if check is None:
            raise ToolError(f"there is no check {name!r}; there are {', '.join(self._checks)}")
        tree = await _taken(worktree, box)
        result = await self._kit.verifier.known(tree, check)
        if result is None:
            await worktree.reset(tree)
            result = await self._kit.verifier.on(worktree, check, task=self._task.id, where="task")
            await worktree.reset(tree)
            box.move(worktree.path)
        ended = "timed out" if result.timed_out else f"exit {result.exit}"
        return clip(f"{ended}\n{result.broken}{result.output}".rstrip())


async def _taken(worktree: Worktree, box: Toolbox) -> str:
    """The tree as the edits made it. Raises _NotTaken with git's words: what is in it is the model's to mend."""
    try:
        return await worktree.write_tree(sorted(box.touched))
    except GitError as error:
        raise _NotTaken(str(error)) from error


def _nothing_kept(tree: str, uses: Sequence[dict[str, Any]], checks_left: int, why: str) -> ToolTurn:
    """A turn as if none of its calls had been carried out: git's words don't tell which one is to blame."""
    told = clip(f"nothing of this turn was kept, since git can't take the files as it left them: {why}")
    runs = min(sum(use.get("name") == "run_check" for use in uses), checks_left)
    return ToolTurn(tree, (ToolResult(told, True),) * len(uses), runs, None)


def _refuse_unfinished(answer: Answer) -> None:
    if answer.stop_reason == "refusal":
        raise AttemptFailed("refusal", f"the model refused: {answer.text or 'without a reason'}")
    if answer.stop_reason in {"max_tokens", "model_context_window_exceeded"}:
        raise AttemptFailed("cut_off", "the answer was cut off at its token limit")


def _summary(arguments: object, before: Sequence[ToolResult]) -> str:
    """What `finish` says. It does not count behind a call of the same answer whose failure the model hasn't seen."""
    if any(result.error for result in before):
        raise ToolError("not finished: a call before this one failed; mend that, then call finish again")
    return read_arguments("finish", Finish, arguments).summary


def _assistant(answer: Answer, number: int) -> dict[str, Any]:
    content = renumbered(answer.content, number) or [{"type": "text", "text": "(empty)"}]
    return {"role": "assistant", "content": content}


def _results(results: Sequence[ToolResult], number: int) -> dict[str, Any]:
    blocks = []
    for index, result in enumerate(results, 1):
        block: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": f"toolu_{number}_{index}",
            "content": result.text or "(nothing)",
        }
        blocks.append({**block, "is_error": True} if result.error else block)
    return {"role": "user", "content": blocks}
