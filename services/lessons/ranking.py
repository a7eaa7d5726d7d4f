"""Which lessons come first.

Pure functions with one order (score, then last seen, then id), so equal questions get equal answers.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from taskyard.services.lessons.records import Found
from taskyard.services.records import Lesson

RETIRED = "retired"
_WORD = re.compile(r"[^\W\d_]{3,}")
_COMMON = frozenset(
    """the and for are was were not but with from that this these those has have had into its can could should would
    will may must when where which while than then there their they them one all any each every out use used using does
    did name hex path""".split()  # noqa: SIM905
)
_SAME_KIND = 2.0
_WORDS_IN_COMMON = 2


def words(text: str) -> frozenset[str]:
    """The words that carry meaning: letters only (line numbers make no difference), any case, parts of names apart."""
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return frozenset(word for word in map(str.casefold, _WORD.findall(f"{text} {parted}")) if word not in _COMMON)


def facet(value: str) -> str:
    """A facet as it is compared: case and outer spaces make no difference."""
    return value.strip().casefold()


def weights(documents: Iterable[frozenset[str]]) -> dict[str, float]:
    """The worth of each word: the rarer, the more (inverse document frequency)."""
    counted: Counter[str] = Counter()
    total = 0
    for document in documents:
        counted.update(document)
        total += 1
    return {word: math.log1p(total / count) for word, count in counted.items()}


def relevant(
    lessons: Mapping[str, Lesson],
    vocabularies: Mapping[str, frozenset[str]],
    *,
    role: str,
    task_text: str,
    failure_types: Collection[str],
    own: Collection[str],
) -> list[Lesson]:
    """Lessons for a step: those of the task's own failures first, then by kind of failure and words in common.

    A lesson of another role, a retired one, and one with nothing in common is left out (but for the task's own).
    """
    asked = words(task_text)
    worth = weights(vocabularies.values())
    kinds = {facet(kind) for kind in failure_types}
    found: list[tuple[float, Lesson]] = []
    for id_, lesson in lessons.items():
        common = asked & vocabularies[id_]
        same_kind = facet(lesson.failure_type) in kinds
        score = _sum(worth, common) + _SAME_KIND * same_kind
        if id_ in own:
            found.append((math.inf, lesson))
        elif (
            facet(lesson.role) in {facet(role), ""}
            and not lesson.metadata.get(RETIRED)
            and (same_kind or len(common) >= _WORDS_IN_COMMON)
        ):
            found.append((score, lesson))
    return [lesson for _, lesson in _ordered(found)]


def search(lessons: Mapping[str, Lesson], vocabularies: Mapping[str, frozenset[str]], text: str) -> list[Found]:
    """Lessons that share words with `text` or hold it as it is, in any field; all of them when it is blank."""
    wanted = text.strip().casefold()
    asked = words(text)
    worth = weights(vocabularies.values())
    found = []
    for id_, lesson in lessons.items():
        holds = any(wanted in field.casefold() for field in (*_told(lesson), *_named(lesson)))
        score = _sum(worth, asked & vocabularies[id_]) + (1.0 if holds and wanted else 0.0)
        if score or not wanted:
            found.append((score, lesson))
    return [Found(lesson, score) for score, lesson in _ordered(found)]


def vocabulary(lesson: Lesson) -> frozenset[str]:
    """The words of what a lesson tells."""
    return words(" ".join(_told(lesson)))


def _told(lesson: Lesson) -> tuple[str, ...]:
    return lesson.failure_msg, lesson.resolution, lesson.pattern


def _named(lesson: Lesson) -> tuple[str, ...]:
    return lesson.id, lesson.task_type, lesson.role, lesson.failure_type


def _sum(worth: Mapping[str, float], common: Iterable[str]) -> float:
    """Added in a fixed order and rounded: the order of a set must not show in the last digit."""
    return round(math.fsum(worth[word] for word in common), 6)


def _ordered(found: list[tuple[float, Lesson]]) -> list[tuple[float, Lesson]]:
    found.sort(key=lambda one: one[1].id)
    found.sort(key=lambda one: one[1].last_seen, reverse=True)
    found.sort(key=lambda one: one[0], reverse=True)
    return found
