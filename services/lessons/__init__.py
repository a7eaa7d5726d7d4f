"""Lessons: what failed, how it was mended, and which of it to tell the next attempt.

    store = LessonStore(settings.lessons.file, clock, project=top)
    recorded = await store.record(Failure(role="implementer", failure_type="check", message=output, key="r1/T1/1"))
    await store.resolve(recorded.lesson.id, "Round half up.")
    lessons = await store.relevant("implementer", task.text, ["check"], 5, own=[recorded.lesson.id])

The file in the repository is the only place where lessons are kept.
"""

from taskyard.services.lessons.pattern import pattern
from taskyard.services.lessons.records import Failure, Found, LessonStats, Recorded, Skipped
from taskyard.services.lessons.store import LessonStore

__all__ = ["Failure", "Found", "LessonStats", "LessonStore", "Recorded", "Skipped", "pattern"]
