"""The lessons of a repository: read from its file, found again, appended to."""

import asyncio
import hashlib
from collections.abc import Collection
from pathlib import Path
from threading import Lock

import msgspec

from taskyard.services.clock import Clock, rfc3339
from taskyard.services.errors import ConfigError, TaskyardError
from taskyard.services.lessons import file, ranking
from taskyard.services.lessons.pattern import pattern
from taskyard.services.lessons.records import Failure, Found, LessonStats, Recorded
from taskyard.services.records import Lesson

MESSAGE_CHARS = 4_000
RESOLUTION_CHARS = 2_000


class _Index(msgspec.Struct, frozen=True):
    """One reading of the file. Built aside, then put in place whole, so a lookup never sees half of it."""

    contents: file.Contents = file.Contents()
    words: dict[str, frozenset[str]] = {}
    built_at: str | None = None
    build_s: float = 0.0


class LessonStore:
    """Lessons in a file of the repository. Every call looks at the file first: it may have been changed by others.

        store = LessonStore(".taskyard/lessons.jsonl", clock, project=top)
        recorded = await store.record(Failure(role="implementer", failure_type="check", message=output, key="r1/T1/1"))
        lessons = await store.relevant("implementer", task.text, ["check"], 5, own=[recorded.lesson.id])

    path: absolute, or relative to `project`; the file need not exist yet. Raises ConfigError when it lies outside the
    project or is a folder. A file that can't be read raises EnvironmentFault, and what was read before stays.
    """

    def __init__(self, path: Path | str, clock: Clock, *, project: Path) -> None:
        self._path = project / path
        self._clock = clock
        self._lock = Lock()
        self._index = _Index()
        inside = self._path.resolve()
        if not inside.is_relative_to(project.resolve()) or ".git" in inside.relative_to(project.resolve()).parts:
            raise ConfigError(f"the lessons file {self._path} is not in the repository {project}; set lessons.file")
        if inside.is_dir():
            raise ConfigError(f"the lessons file {self._path} is a folder; set lessons.file to a file")

    async def load(self) -> LessonStats:
        """Read the file if it changed. Lines that are no lessons are in `skipped`."""
        index = await asyncio.to_thread(self._refreshed)
        lessons = index.contents.lessons.values()
        return LessonStats(
            lessons=len(lessons),
            skipped=index.contents.skipped,
            built_at=index.built_at,
            build_s=index.build_s,
            offered=sum(_number(lesson, "offered") for lesson in lessons),
            helped=sum(_number(lesson, "helped") for lesson in lessons),
            retired=sum(bool(lesson.metadata.get(ranking.RETIRED)) for lesson in lessons),
        )

    stats = load

    async def record(self, failure: Failure) -> Recorded:
        """Append the failure as a lesson, or as a known one seen again; on the disk when this returns.

        Recording a failure of the same attempt again changes nothing and gives the same action.
        """
        return await asyncio.to_thread(self._record, failure)

    async def resolve(self, id_: str, resolution: str) -> Recorded:
        """Say what helped. A resolution that is there already stays: a person may have written it.

        Raises TaskyardError when there is no such lesson.
        """
        return await asyncio.to_thread(self._resolve, id_, _storable(resolution, RESOLUTION_CHARS))

    async def get(self, id_: str) -> Lesson | None:
        """The lesson with this id."""
        return (await asyncio.to_thread(self._refreshed)).contents.lessons.get(id_)

    async def relevant(
        self, role: str, task_text: str, failure_types: Collection[str], limit: int, *, own: Collection[str] = ()
    ) -> tuple[Lesson, ...]:
        """At most `limit` lessons for a step of `role`.

        own: ids of lessons that this task's earlier attempts recorded; they come first. Then by kind of failure and
        words in common with the task, then last seen, then id. Lessons with nothing in common are left out.
        """
        index = await asyncio.to_thread(self._refreshed)
        found = ranking.relevant(
            index.contents.lessons, index.words, role=role, task_text=task_text, failure_types=failure_types, own=own
        )
        return tuple(found[: max(0, limit)])

    async def search(self, text: str, limit: int, *, offset: int = 0) -> tuple[Found, ...]:
        """A page of the lessons that match `text` in any field, best first; all lessons when `text` is blank."""
        index = await asyncio.to_thread(self._refreshed)
        found = ranking.search(index.contents.lessons, index.words, text)
        return tuple(found[max(0, offset) : max(0, offset) + max(0, limit)])

    def _refreshed(self) -> _Index:
        with self._lock:
            return self._read()

    def _read(self) -> _Index:
        started = self._clock.monotonic()
        contents = file.read(self._path, self._index.contents)
        if contents is not self._index.contents or self._index.built_at is None:
            words = {id_: ranking.vocabulary(lesson) for id_, lesson in contents.lessons.items()}
            built_at = rfc3339(self._clock.now())
            self._index = _Index(contents, words, built_at, self._clock.monotonic() - started)
        return self._index

    def _record(self, failure: Failure) -> Recorded:
        masked = pattern(_storable(failure.message, len(failure.message)))
        id_ = _id(failure.role, failure.failure_type, masked)
        with self._lock, file.appending(self._path) as descriptor:
            contents = self._read().contents
            before = contents.lessons.get(id_)
            attempts = contents.seen_by.get(id_, ())
            if before is not None and failure.key in attempts:
                return Recorded(before, "recorded" if attempts[0] == failure.key else "seen_again")
            now = rfc3339(self._clock.now())
            lesson = Lesson(
                id=id_,
                task_type=failure.task_type,
                role=failure.role,
                failure_type=failure.failure_type,
                failure_msg=_storable(failure.message, MESSAGE_CHARS),
                resolution=before.resolution if before else "",
                pattern=masked,
                times_seen=before.times_seen + 1 if before else 1,
                first_seen=before.first_seen if before else now,
                last_seen=now,
                metadata=(before.metadata if before else {}) | {file.SEEN_BY: failure.key},
            )
            file.append(descriptor, self._path.parent, lesson)
            self._read()
        return Recorded(lesson, "seen_again" if before else "recorded")

    def _resolve(self, id_: str, resolution: str) -> Recorded:
        with self._lock:
            self._known(id_)
            with file.appending(self._path) as descriptor:
                before = self._known(id_)
                if before.resolution or not resolution:
                    return Recorded(before, "unchanged")
                lesson = msgspec.structs.replace(before, resolution=resolution)
                file.append(descriptor, self._path.parent, lesson)
                self._read()
        return Recorded(lesson, "resolved")

    def _known(self, id_: str) -> Lesson:
        lesson = self._read().contents.lessons.get(id_)
        if lesson is None:
            raise TaskyardError(f"there is no lesson {id_} in {self._path}")
        return lesson


def _id(role: str, failure_type: str, masked: str) -> str:
    """Names a failure by what it is, so that it is the same lesson in every run and on every machine."""
    named = msgspec.json.encode([ranking.facet(role), ranking.facet(failure_type), masked])
    return hashlib.blake2b(named, digest_size=8).hexdigest()


def _storable(text: str, limit: int) -> str:
    """Valid UTF-8 of at most about `limit` characters: head and tail, more of the tail, where the failure is."""
    text = text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= limit:
        return text
    head = limit // 3
    tail = limit - head
    return f"{text[:head]}\n[{len(text) - limit} characters left out]\n{text[-tail:]}"


def _number(lesson: Lesson, name: str) -> int:
    value = lesson.metadata.get(name, "")
    return int(value) if value.isascii() and value.isdigit() else 0
