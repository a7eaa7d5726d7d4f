"""One task's way: attempt after attempt, until it has landed, failed, or waits for a person."""

import asyncio
from collections.abc import Sequence

import msgspec

from taskyard.services import fault
from taskyard.services.events import LessonAction, LessonChanged, TaskStateChanged
from taskyard.services.history import AttemptRecord
from taskyard.services.journal import Steps, TaskJournal, digest
from taskyard.services.lessons import Failure as LessonFailure
from taskyard.services.pipeline.attempt import Attempt
from taskyard.services.pipeline.decisions import Decision, NobodyThere
from taskyard.services.pipeline.inputs import Before, choose
from taskyard.services.pipeline.kit import AttemptFailed, Failure, Kit, NeedsPerson
from taskyard.services.prompts import EarlierAttempt
from taskyard.services.records import Task, TaskState
from taskyard.services.repo import Candidate, OnTip, Outcome

_LESSON_WORTHY = {
    "check_failed",
    "revise",
    "rejected",
    "conflict",
    "red_on_tip",
    "stuck",
    "no_change",
    "cut_off",
    "refusal",
    "malformed",
    "plan_malformed",
    "turns",
}
_REFUSALS: dict[str, Failure] = {"conflict": "conflict", "red": "red_on_tip", "empty": "already_there"}
_WORDS: dict[Failure, str] = {
    "check_failed": "a check failed",
    "revise": "the judge asked for a revision",
    "rejected": "the judge rejected it",
    "conflict": "it conflicted with what had landed meanwhile",
    "red_on_tip": "it made the tip red",
    "already_there": "the tip already holds this change",
    "stuck": "it got stuck",
    "no_change": "nothing was changed",
    "turns": "it ran out of turns",
    "cut_off": "an answer was cut off",
    "refusal": "the model refused",
    "malformed": "the answers were malformed",
    "plan_malformed": "there was no plan",
    "sent_back": "a person sent it back",
    "request_refused": "the server refused the request",
    "task_budget": "the task's budget was reached",
    "retried": "a person asked for another try",
}
_NO_CHECK = "the task has no check: add commands to its verification cell, or [checks] to taskyard.toml"


class TaskEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a task ended."""

    state: TaskState
    """`merged` (its commit is on the verified tip), `failed`, `needs_you`."""
    attempt: int
    detail: str | None = None
    change: str = ""
    """Digest of the landed change, for the tasks that depend on it."""


class _Met(msgspec.Struct, frozen=True):
    """The journal's record of a landing."""

    outcome: Outcome


class TaskRun:
    """Carries one task through its attempts."""

    def __init__(self, kit: Kit, task: Task, key: str, parents: Sequence[str]) -> None:
        """key: the `Task-Key`; parents: `TaskEnd.change` of the tasks that it depends on, in the board's order."""
        self._kit = kit
        self._task = task
        self._key = key
        self._parents = tuple(parents)
        self._before = Before()
        self._counts = {"revise": 0, "conflict": 0}
        self._extra = 0
        self._deadline = 0.0

    async def run(self) -> TaskEnd:
        """All attempts. Raises what concerns the run: BudgetReached, KeyRefused, ServerUnreachable, StorageFull."""
        self._restart_clock()
        checked = bool(self._kit.checks_of(self._task.checks))
        journal, number = None, 0
        while True:
            number += 1
            self._kit.meeting.attempt(self._task.id, number)
            if checked:  # told before anything is awaited, so that tasks begin in the board's order on screen too
                self._state("planning", number)
            if journal is None:
                journal = await self._kit.journal.task(self._task.id)
                if (end := self._merged_before(journal)) is not None:
                    return end
            steps = journal.attempt(number)
            end = await (self._attempt(steps) if checked else self._person(steps, None, _NO_CHECK))
            if end is not None:
                self._kit.meeting.ended(self._task.id)
                return end

    async def _attempt(self, steps: Steps) -> TaskEnd | None:
        """One attempt; None when another one is to follow."""
        kit, started = self._kit, self._kit.clock.now()
        inputs = await choose(kit, self._task, steps, self._before, self._parents)
        attempt = Attempt(kit, self._task, self._key, steps, inputs)
        try:
            async with asyncio.timeout_at(self._deadline) as limit:
                candidate = await attempt.run()
            end: TaskEnd | None = await self._land(steps, candidate)
        except AttemptFailed as error:
            end = await self._failed(steps, attempt, error)
        except NeedsPerson as error:
            end = await self._person(steps, attempt.candidate, error.why)
        except TimeoutError:
            if not limit.expired():
                raise
            end = self._end(
                "failed", steps.number, f"not done after {kit.settings.run.task_timeout:g} s ([run] task_timeout)"
            )
        await self._record(steps, started, end)
        if end is not None and end.state == "merged":
            await self._close(steps, end)
        return end

    async def _close(self, steps: Steps, end: TaskEnd) -> None:
        """Journal that nothing is left to do for this task, after all the rest is on record."""

        async def merged() -> TaskEnd:
            return end

        await steps.step("merged", end.change, TaskEnd, merged)

    async def _land(self, steps: Steps, candidate: Candidate) -> TaskEnd:
        """Meet the tip. Raises AttemptFailed when the tip does not take it, NeedsPerson when it did not keep it."""
        kit = self._kit
        kit.emit(TaskStateChanged(task=self._task.id, state="landing", attempt=steps.number))

        async def meet() -> _Met:
            await kit.meeting.turn(self._task.id, steps.number)
            kit.meeting.submitted(self._task.id, steps.number)
            with kit.activity.at(self._task.id, "landing"):
                return _Met(await kit.landing.land(candidate))

        met = await steps.step("land", digest(candidate.base_tree, candidate.tree), _Met, meet)
        outcome = met.outcome
        if isinstance(outcome, OnTip):
            await self._resolve(steps, candidate)
            await self._still_there(steps, outcome.commit)
            change = digest("change", candidate.base_tree, candidate.tree)
            return self._end("merged", steps.number, None, change)
        raise AttemptFailed(_REFUSALS[outcome.kind], outcome.detail)

    def _merged_before(self, journal: TaskJournal) -> TaskEnd | None:
        """What is on the tip stays there, whatever a resumed run's settings would ask about it now."""
        end = journal.find("merged", TaskEnd)
        if end is None or self._task.id not in self._kit.landing.landed:
            return None
        self._kit.meeting.ended(self._task.id)
        return self._end("merged", end.attempt, None, end.change)

    async def _still_there(self, steps: Steps, commit: str) -> None:
        """A push that had to follow a target that moved leaves behind what conflicts with it."""
        if not steps.next_is("lost") and self._task.id in self._kit.landing.landed:
            return

        async def note() -> str:
            return commit

        await steps.step("lost", digest(commit), str, note)
        raise NeedsPerson(f"its commit {commit[:7]} could not follow when the target moved; it is kept")

    async def _failed(self, steps: Steps, attempt: Attempt, error: AttemptFailed) -> TaskEnd | None:
        """Learn from a failure; decide whether another attempt follows."""
        await self._learn(steps, error)
        words = _WORDS[error.kind]
        ended = f"check {error.check} failed" if error.check else words
        self._before = msgspec.structs.replace(
            self._before, earlier=(*self._before.earlier, EarlierAttempt(steps.number, ended, error.detail))
        )
        if error.kind in {"rejected", "task_budget", "request_refused"}:
            return self._end("failed", steps.number, _brief(f"{words}: {error.detail}"))
        group = "conflict" if error.kind in {"conflict", "red_on_tip"} else error.kind
        if group in self._counts:
            self._counts[group] += 1
        if self._counts["conflict"] == 2 and group == "conflict":
            return await self._person(steps, attempt.candidate, _brief(f"{words}, for the second time: {error.detail}"))
        if error.kind == "revise" and self._counts["revise"] >= self._kit.settings.implementer.judge_rounds:
            return await self._person(steps, attempt.candidate, _brief(f"{words} again: {error.detail}"))
        if steps.number >= self._kit.settings.run.attempts + self._extra:
            return self._end(
                "failed", steps.number, _brief(f"{ended} in the last of {steps.number} attempts: {error.detail}")
            )
        self._state("queued", steps.number, _brief(f"{ended}; trying again"))
        return None

    async def _person(self, steps: Steps, candidate: Candidate | None, why: str) -> TaskEnd | None:
        """Wait for a decision; None when it asks for another attempt."""
        self._state("needs_you", steps.number, why)
        try:
            with self._kit.activity.at(self._task.id, "person"):
                decision = await steps.step(
                    "decision", digest(why), Decision, lambda: self._kit.decisions.wait(self._task.id, steps.number)
                )
        except NobodyThere:
            return TaskEnd(state="needs_you", attempt=steps.number, detail=why)
        await self._kit.decisions.taken(self._task.id, steps.number, decision)
        return await self._decided(steps, candidate, decision)

    async def _decided(self, steps: Steps, candidate: Candidate | None, decision: Decision) -> TaskEnd | None:
        if decision.action == "reject":
            return self._end("failed", steps.number, _brief(f"a person rejected it. {decision.comment}"))
        if decision.action == "accept":
            if candidate is None:
                return await self._person(steps, None, "there is nothing to accept: no check was green yet")
            who = f"a person: {decision.comment}" if decision.comment else "a person"
            try:
                return await self._land(steps, msgspec.structs.replace(candidate, accepted_by=who))
            except NeedsPerson as error:
                return await self._person(steps, candidate, error.why)
            except AttemptFailed as error:
                return await self._person(steps, None, _brief(f"{_WORDS[error.kind]}: {error.detail}"))
        again = decision.action == "retry"
        note = EarlierAttempt(steps.number, _WORDS["retried" if again else "sent_back"], decision.comment)
        self._before = msgspec.structs.replace(
            self._before,
            earlier=self._before.earlier if again else (*self._before.earlier, note),
            sample=self._before.sample + int(again),
        )
        self._counts = dict.fromkeys(self._counts, 0)
        self._restart_clock()
        self._extra = max(self._extra, steps.number + 1 - self._kit.settings.run.attempts)
        self._state("queued", steps.number, note.ended)
        return None

    def _restart_clock(self) -> None:
        """All attempts share one time limit; it starts anew when a person has decided, whom nobody may hurry."""
        self._deadline = asyncio.get_running_loop().time() + self._kit.settings.run.task_timeout

    async def _learn(self, steps: Steps, error: AttemptFailed) -> None:
        """Record the failure as a lesson, once, and offer it to the next attempt."""
        if error.kind not in _LESSON_WORTHY:
            return
        role = "planner" if error.kind == "plan_malformed" else "implementer"
        message = error.detail
        key = f"{self._kit.run}/{self._task.id}/{steps.number}"
        failure = LessonFailure(role=role, failure_type=error.kind, message=message, key=key)

        async def record() -> str:
            fault.point("lesson.record.before")
            recorded = await self._kit.lessons.record(failure)
            fault.point("lesson.record.after")
            action: LessonAction = "recorded" if recorded.action == "recorded" else "seen_again"
            self._kit.emit(
                LessonChanged(
                    lesson=recorded.lesson.id, task=self._task.id, failure_type=error.kind,
                    times_seen=recorded.lesson.times_seen, action=action,
                )
            )  # fmt: skip
            return recorded.lesson.id

        id_ = await steps.step("lesson", digest(error.kind, message), str, record)
        self._before = msgspec.structs.replace(
            self._before, lessons=(*self._before.lessons, id_), failures=(*self._before.failures, error.kind)
        )

    async def _resolve(self, steps: Steps, candidate: Candidate) -> None:
        """The attempt that landed says what helped against what this task's earlier attempts ran into."""
        for id_ in self._before.lessons:

            async def resolve(id_: str = id_) -> str:
                recorded = await self._kit.lessons.resolve(id_, candidate.body)
                if recorded.action == "resolved":
                    self._kit.emit(
                        LessonChanged(
                            lesson=id_, task=self._task.id, failure_type=recorded.lesson.failure_type,
                            times_seen=recorded.lesson.times_seen, action="resolved",
                        )
                    )  # fmt: skip
                return recorded.action

            await steps.step("resolve", digest(id_), str, resolve)

    async def _record(self, steps: Steps, started: float, end: TaskEnd | None) -> None:
        """The attempt's row in the history, a view for people."""
        earlier = self._before.earlier[-1] if self._before.earlier else None
        status = end.state if end else "failed"
        error = (end.detail or "") if end else (earlier.ended if earlier else "")
        await self._kit.history.add(
            AttemptRecord(
                run=self._kit.run,
                task=self._task.id,
                attempt=steps.number,
                status=status,
                start=started,
                end=None if status == "needs_you" else self._kit.clock.now(),
                cost_usd=await self._kit.cost(self._task.id, steps.number),
                output=earlier.detail if earlier and end is None else "",
                error=error,
            )
        )

    def _state(self, state: TaskState, attempt: int, detail: str | None = None) -> None:
        self._kit.emit(TaskStateChanged(task=self._task.id, state=state, attempt=attempt, detail=detail))

    def _end(self, state: TaskState, attempt: int, detail: str | None, change: str = "") -> TaskEnd:
        self._state(state, attempt, detail)
        return TaskEnd(state=state, attempt=attempt, detail=detail, change=change)


def _brief(text: str) -> str:
    """The first lines of a reason, for an event."""
    one = " ".join(text.split())
    return one if len(one) <= 300 else f"{one[:299]}…"
