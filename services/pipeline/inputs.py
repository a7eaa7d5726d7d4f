"""What an attempt is given: base, lessons, feedback. Chosen once, kept across runs, journalled before it is used."""

from collections.abc import Sequence

import msgspec

from taskyard.services.events import LessonChanged
from taskyard.services.journal import Steps, digest
from taskyard.services.pipeline.kit import Kit
from taskyard.services.prompts import EarlierAttempt
from taskyard.services.records import Lesson, Task


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides what an attempt will ask."""

    base_commit: str
    base_tree: str
    lessons: tuple[Lesson, ...]
    earlier: tuple[EarlierAttempt, ...]
    sample: int
    """The number of the deliberate sample, 0 unless a person asked for a retry."""


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """What earlier attempts left for the next one."""

    earlier: tuple[EarlierAttempt, ...] = ()
    lessons: tuple[str, ...] = ()
    """Ids of the lessons that this task's own attempts recorded."""
    failures: tuple[str, ...] = ()
    """Their failure types."""
    sample: int = 0


def text_digest(task: Task) -> str:
    """What a task asks for, whatever board or run it stands in."""
    return digest("task", task.id, task.text, task.acceptance, msgspec.json.encode(task.checks))


async def choose(kit: Kit, task: Task, steps: Steps, before: Before, parents: Sequence[str]) -> Inputs:
    """The attempt's inputs.

    parents: digests of the landed changes of the tasks that this one depends on. The same task in the same situation
    gets the same base and lessons in every run, so that what it asks has been paid already.
    """
    situation = digest(
        "inputs",
        kit.scope,
        text_digest(task),
        str(steps.number),
        *parents,
        msgspec.json.encode((before.earlier, before.sample)),
    )

    async def make() -> Inputs:
        return await kit.sticky.choose(situation, Inputs, lambda: _choose_now(kit, task, steps, before, bool(parents)))

    chosen = await steps.step("inputs", situation, Inputs, make)
    await kit.repository.keep(f"bases/{chosen.base_commit}", chosen.base_commit)
    for lesson in chosen.lessons:
        kit.emit(
            LessonChanged(
                lesson=lesson.id,
                task=task.id,
                failure_type=lesson.failure_type,
                times_seen=lesson.times_seen,
                action="offered",
            )
        )
    return chosen


async def _choose_now(kit: Kit, task: Task, steps: Steps, before: Before, has_parents: bool) -> Inputs:
    """A first attempt without dependencies starts from the run's base; any other from the tip as it is now."""
    commit = kit.landing.tip if has_parents or steps.number > 1 else kit.base.commit
    lessons = await kit.lessons.relevant(
        "implementer", task.text, before.failures, kit.settings.lessons.offered, own=before.lessons
    )
    return Inputs(
        base_commit=commit,
        base_tree=await kit.repository.tree_of(commit),
        lessons=tuple(_undated(lesson) for lesson in lessons),
        earlier=before.earlier,
        sample=before.sample,
    )


def _undated(lesson: Lesson) -> Lesson:
    """A lesson without what no prompt shows and each run would change."""
    return msgspec.structs.replace(lesson, first_seen="", last_seen="", metadata={})
