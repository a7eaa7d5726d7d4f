"""The lessons file: read tolerantly, appended to safely, found again in one order."""
# ruff: noqa: ASYNC240  (the tests themselves may block)

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from taskyard.services.clock import SystemClock
from taskyard.services.errors import ConfigError, EnvironmentFault, TaskyardError
from taskyard.services.lessons import Failure, LessonStore
from taskyard.services.records import Lesson


class HandClock(SystemClock):
    """Moved by hand."""

    def __init__(self) -> None:
        self.seconds = 1_800_000_000.0

    def now(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def store(tmp_path: Path, clock: HandClock) -> LessonStore:
    return LessonStore(".taskyard/lessons.jsonl", clock, project=tmp_path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / ".taskyard" / "lessons.jsonl"


def failure(message: str = "KeyError: 'a'", key: str = "r1/T1/1", **changes: str) -> Failure:
    given = {"role": "implementer", "failure_type": "check", "task_type": "fix", **changes}
    return Failure(message=message, key=key, **given)


def put(path: Path, *lines: bytes | Lesson, end: bytes = b"\n") -> None:
    path.parent.mkdir(exist_ok=True)
    raw = [line if isinstance(line, bytes) else msgspec.json.encode(line) for line in lines]
    path.write_bytes(b"\n".join(raw) + end)


async def ids(store: LessonStore, text: str = "", limit: int = 100) -> list[str]:
    return [found.lesson.id for found in await store.search(text, limit)]


async def test_a_recorded_lesson_is_in_the_file_for_the_next_program(
    store: LessonStore, path: Path, tmp_path: Path
) -> None:
    """L10: appended and synced, then indexed."""
    recorded = await store.record(failure())
    assert recorded.action == "recorded"
    assert recorded.lesson.pattern == "KeyError: <name>"
    assert recorded.lesson.first_seen == recorded.lesson.last_seen == "2027-01-15T08:00:00.000Z"
    assert msgspec.json.decode(path.read_bytes(), type=Lesson) == recorded.lesson
    other = LessonStore(path, SystemClock(), project=tmp_path)
    assert await other.get(recorded.lesson.id) == recorded.lesson == await store.get(recorded.lesson.id)


async def test_the_same_failure_is_seen_again_not_doubled(store: LessonStore, path: Path, clock: HandClock) -> None:
    """L01, L03: a newer line of the same id, and one lesson."""
    first = await store.record(failure("KeyError: 'a'", "r1/T1/1"))
    clock.seconds += 60
    again = await store.record(failure("KeyError: 'b'", "r1/T2/1"))
    assert again.action == "seen_again"
    assert again.lesson.id == first.lesson.id
    assert again.lesson.times_seen == 2
    assert (again.lesson.first_seen, again.lesson.last_seen) == ("2027-01-15T08:00:00.000Z", "2027-01-15T08:01:00.000Z")
    assert again.lesson.failure_msg == "KeyError: 'b'"
    assert path.read_bytes().count(b"\n") == 2
    assert (await store.stats()).lessons == 1


async def test_one_attempt_counts_once_however_often_it_is_recorded(store: LessonStore, tmp_path: Path) -> None:
    """A crash before the journal has the record, then the same again, also after others saw the failure."""
    await store.record(failure(key="r1/T1/1"))
    await store.record(failure(key="r1/T2/1"))
    after = LessonStore(".taskyard/lessons.jsonl", SystemClock(), project=tmp_path)
    assert (await after.record(failure(key="r1/T1/1"))).action == "recorded"
    replayed = await after.record(failure(key="r1/T2/1"))
    assert (replayed.action, replayed.lesson.times_seen) == ("seen_again", 2)


async def test_counts_of_two_branches_are_merged(store: LessonStore, path: Path) -> None:
    """L02: `merge=union` puts both branches' lines into one file; nobody's sighting is lost or counted twice."""
    for key in ("a", "b"):
        await store.record(failure(key=key))
    common = path.read_bytes()
    await store.record(failure(key="ours"))
    ours = path.read_bytes()[len(common) :]
    path.write_bytes(common)
    await store.record(failure(key="theirs"))
    path.write_bytes(path.read_bytes() + ours)
    assert (await store.search("", 1))[0].lesson.times_seen == 4


async def test_the_last_line_of_an_id_wins_in_every_question(store: LessonStore, path: Path) -> None:
    """L02, L03: re-filed under its new facets, its earliest time and highest count kept."""
    put(
        path,
        Lesson(id="x", role="planner", failure_msg="the parser broke", times_seen=3, first_seen="2026-01-01T00:00:00Z"),
        Lesson(id="x", role="judge", failure_msg="the parser broke", times_seen=1, first_seen="2026-02-01T00:00:00Z"),
    )
    assert await store.relevant("planner", "the parser broke", [], 5) == ()
    (lesson,) = await store.relevant("judge", "the parser broke", [], 5)
    assert (lesson.times_seen, lesson.first_seen) == (3, "2026-01-01T00:00:00.000Z")


async def test_bad_lines_are_skipped_and_told(store: LessonStore, path: Path) -> None:
    """L04, L05: by number and reason; the good ones around them are there."""
    bad: dict[bytes, str] = {
        b'\xef\xbb\xbf{"id":"bom"}': "byte order mark",
        b'{"id":"u","failure_msg":"\xff"}': "not UTF-8 at byte 25",
        b"<<<<<<< HEAD": "merge conflict",
        b"=======": "merge conflict",
        b">>>>>>> theirs": "merge conflict",
        b"||||||| base": "merge conflict",
        b'{"failure_msg":"no id"}': "id",
        b'{"id":" "}': "no id",
        b'{"id":7}': "Expected `str`",
        b'["list"]': "Expected `object`",
        b'{"id":"t","times_seen":0}': "times_seen",
        b'{"id":"d","last_seen":"yesterday"}': "yesterday",
        b'{"id":"deep","more":' + b"[" * 100_000: "nested",
        b'{"id":"s","failure_msg":"\\ud800"}': "",
        b'{"id":"torn","failure': "",
        b'{"id":"big","failure_msg":"' + b"x" * 10_000_000 + b'"}': "longer than 10 MB",
    }
    put(path, b'{"id":"first"}', *bad, b"", b'{"id":"crlf"}\r', b'{"id":"last"}')
    stats = await store.load()
    assert [skipped.line for skipped in stats.skipped] == list(range(2, 2 + len(bad)))
    for skipped, why in zip(stats.skipped, bad.values(), strict=True):
        assert why in skipped.why and skipped.why
    assert set(await ids(store)) == {"first", "crlf", "last"}


async def test_a_line_of_a_megabyte_is_a_lesson(store: LessonStore, path: Path) -> None:
    """L04: one stack trace does not disable learning."""
    put(path, Lesson(id="long", failure_msg="frame\n" * 200_000), Lesson(id="next"))
    assert set(await ids(store)) == {"long", "next"}


async def test_a_torn_last_line_waits_for_its_end(store: LessonStore, path: Path) -> None:
    """Somebody is still writing it: neither a lesson nor an error yet."""
    put(path, b'{"id":"a"}', b'{"id":"b"', end=b"")
    stats = await store.load()
    assert (stats.lessons, stats.skipped) == (1, ())
    with path.open("ab") as file:
        file.write(b"}\n")
    assert set(await ids(store)) == {"a", "b"}


@pytest.mark.parametrize(("tail", "lessons"), [(b'{"id":"b"}', 3), (b'{"id":"b', 2)])
async def test_recording_after_a_torn_line_loses_nothing(
    store: LessonStore, path: Path, tail: bytes, lessons: int
) -> None:
    """The torn line is ended first: whole, it becomes a lesson; broken, it is told."""
    put(path, b'{"id":"a"}', tail, end=b"")
    await store.record(failure())
    stats = await store.stats()
    assert (stats.lessons, len(stats.skipped)) == (lessons, 3 - lessons)


@pytest.mark.parametrize("how", ["edit", "rename", "truncate", "delete"])
async def test_the_file_may_be_rewritten_at_any_time(store: LessonStore, path: Path, how: str) -> None:
    """By git, an editor or a rename; also with the same size and times."""
    put(path, b'{"id":"a"}', b'{"id":"b"}', b'{"id":"c"}')
    before = path.stat()
    assert set(await ids(store)) == {"a", "b", "c"}
    if how == "delete":
        path.unlink()
        assert await ids(store) == []
        await store.record(failure())
        assert len(await ids(store)) == 1
        return
    target = path if how != "rename" else path.with_suffix(".new")
    put(target, b'{"id":"a"}', *([] if how == "truncate" else [b'{"id":"x"}', b'{"id":"c"}']))
    os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
    target.rename(path)
    assert set(await ids(store)) == ({"a"} if how == "truncate" else {"a", "x", "c"})


async def test_a_file_that_does_not_exist_yet_is_no_lessons(store: LessonStore, path: Path) -> None:
    """L16: looking makes nothing."""
    stats = await store.load()
    assert (stats.lessons, stats.skipped) == (0, ())
    assert stats.built_at == "2027-01-15T08:00:00.000Z"
    assert not path.parent.exists()


async def test_a_wrong_place_is_an_error(tmp_path: Path, clock: HandClock) -> None:
    """L15, L16: outside the project, inside .git, or a folder: told at once, not "no lessons yet"."""
    project = tmp_path / "project"
    (project / "folder").mkdir(parents=True)
    (project / "link").symlink_to(tmp_path)
    for wrong in ("../lessons.jsonl", "/lessons.jsonl", "link/lessons.jsonl", ".git/lessons.jsonl", "folder"):
        with pytest.raises(ConfigError, match=r"lessons\.file"):
            LessonStore(wrong, clock, project=project)


async def test_a_failed_read_keeps_nothing_half_done(store: LessonStore, path: Path) -> None:
    """L15: the error is told, and the next good reading is whole again."""
    put(path, b'{"id":"a"}')
    assert await ids(store) == ["a"]
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigError, match="is a folder"):
        await store.load()
    with pytest.raises(ConfigError, match="is a folder"):
        await store.record(failure())
    path.rmdir()
    put(path, b'{"id":"a"}', b'{"id":"b"}')
    assert set(await ids(store)) == {"a", "b"}


async def test_a_file_that_can_not_be_opened_is_an_environment_fault(store: LessonStore, path: Path) -> None:
    """With what to do; here a link that points to itself."""
    path.parent.mkdir()
    path.symlink_to(path)
    with pytest.raises(EnvironmentFault, match="Check its rights"):
        await store.load()
    with pytest.raises(EnvironmentFault, match="Check its rights"):
        await store.record(failure())


async def test_a_resolution_is_filled_once_and_stays_when_seen_again(store: LessonStore, path: Path) -> None:
    """A person's text is not written over; a replay appends nothing."""
    recorded = await store.record(failure())
    assert (await store.resolve(recorded.lesson.id, "Use get.")).action == "resolved"
    size = path.stat().st_size
    assert (await store.resolve(recorded.lesson.id, "Other.")).action == "unchanged"
    assert path.stat().st_size == size
    again = await store.record(failure(key="r2/T1/1"))
    assert (again.lesson.resolution, again.lesson.times_seen) == ("Use get.", 2)
    with pytest.raises(TaskyardError, match="no lesson nope"):
        await store.resolve("nope", "x")


async def test_relevant_lessons_have_one_order(store: LessonStore, path: Path) -> None:
    """L07: own first, then kind and words, then last seen, then id; the same after lines were shuffled."""
    same = {"role": "implementer", "failure_msg": "duration parser rounds hours wrong"}
    lessons = [
        Lesson(id="b", last_seen="2026-01-01T00:00:00Z", **same),
        Lesson(id="a", last_seen="2026-01-01T00:00:00Z", **same),
        Lesson(id="later", last_seen="2026-01-02T00:00:00Z", **same),
        Lesson(id="kind", role="implementer", failure_type=" Conflict ", failure_msg="something else"),
        Lesson(id="own", role="judge", failure_msg="nothing in common"),
        Lesson(id="far", role="implementer", failure_msg="nothing in common"),
        Lesson(id="one-word", role="implementer", failure_msg="hours"),
        Lesson(id="gone", metadata={"retired": "2026"}, **same),
        Lesson(id="planning", role="planner", failure_msg=same["failure_msg"]),
    ]
    expected = ["own", "later", "a", "b", "kind"]
    for number, order in enumerate((lessons, lessons[::-1], lessons[4:] + lessons[:4])):
        put(path, *order)
        found = await store.relevant("Implementer", "Mend the duration parser: hours", ["conflict"], 9, own=["own"])
        assert [lesson.id for lesson in found] == expected, number
    assert len(await store.relevant("implementer", "duration parser", [], 2)) == 2


@pytest.mark.parametrize("limit", [0, -1, -1000])
async def test_a_limit_below_one_gives_nothing(store: LessonStore, path: Path, limit: int) -> None:
    """L06: no crash, no wrap round."""
    put(path, Lesson(id="a", failure_msg="duration parser"))
    assert await store.relevant("", "duration parser", [], limit) == ()
    assert await store.search("parser", limit) == ()


async def test_search_looks_into_all_fields_and_ranks(store: LessonStore, path: Path) -> None:
    """L08, L12: other case, word order and line numbers; the nearest first."""
    put(
        path,
        Lesson(id="msg", failure_msg="IndexError: list index out of range at line 12"),
        Lesson(id="res", failure_msg="x", resolution="Check the index before use"),
        Lesson(id="kind", failure_type="conflict"),
        Lesson(id="none", failure_msg="unrelated"),
    )
    assert await ids(store, "out of RANGE index line 99") == ["msg", "res"]
    assert await ids(store, "Conflict") == ["kind"]
    assert await ids(store, "gE aT lIne 1") == ["msg"]
    assert await ids(store, "nothing like it") == []


async def test_a_blank_search_gives_all_in_pages(store: LessonStore, path: Path) -> None:
    """L11: no filter is all; latest first."""
    put(path, *(Lesson(id=f"l{n}", last_seen=f"2026-01-0{n}T00:00:00Z") for n in range(1, 8)))
    assert await ids(store, " ") == [f"l{n}" for n in range(7, 0, -1)]
    pages = [[found.lesson.id for found in await store.search("", 3, offset=start)] for start in (0, 3, 6, 9)]
    assert pages == [["l7", "l6", "l5"], ["l4", "l3", "l2"], ["l1"], []]


async def test_lessons_are_frozen(store: LessonStore, path: Path) -> None:
    """L14: a caller can't change what the next one gets."""
    put(path, Lesson(id="a"))
    (found,) = await store.search("", 1)
    with pytest.raises(AttributeError):
        found.lesson.id = "b"  # type: ignore[misc]
    assert await ids(store) == ["a"]


async def test_json_has_the_fields_of_the_contract(store: LessonStore) -> None:
    """`lessons search --json` and `lessons stats --json`."""
    await store.record(failure())
    (found,) = await store.search("KeyError", 1)
    assert list(found.json()) == [
        "id", "task_type", "role", "failure_type", "failure_msg", "resolution", "pattern", "times_seen", "first_seen",
        "last_seen", "score",
    ]  # fmt: skip
    stats = msgspec.to_builtins(await store.stats())
    assert list(stats) == ["lessons", "skipped", "built_at", "build_s", "offered", "helped", "retired"]


async def test_metadata_of_others_is_kept_and_counted(store: LessonStore, path: Path) -> None:
    """What a later version or a person noted there survives being seen again."""
    recorded = await store.record(failure())
    noted = msgspec.structs.replace(recorded.lesson, metadata={"offered": "3", "helped": "2", "note": "x"})
    put(path, noted, Lesson(id="r", metadata={"retired": "yes", "offered": "many"}))
    again = await store.record(failure(key="r9/T1/1"))
    assert again.lesson.metadata == {"offered": "3", "helped": "2", "note": "x", "seen_by": "r9/T1/1"}
    stats = await store.stats()
    assert (stats.offered, stats.helped, stats.retired) == (3, 2, 1)


async def test_a_long_or_odd_message_is_kept_in_bounds(store: LessonStore) -> None:
    """Head and tail; a lone surrogate does not stop the record."""
    recorded = await store.record(failure("start \udcff\n" + "x" * 50_000 + "\nend"))
    assert len(recorded.lesson.failure_msg) < 4_100
    assert recorded.lesson.failure_msg.startswith("start \\udcff\n") and recorded.lesson.failure_msg.endswith("\nend")


async def test_many_at_once_in_one_process_are_all_there(store: LessonStore) -> None:
    """Each counted once."""
    await asyncio.gather(*(store.record(failure(key=f"r1/T{n}/1")) for n in range(25)))
    (found,) = await store.search("", 5)
    assert found.lesson.times_seen == 25


PROGRAM = """
import asyncio, sys
from pathlib import Path
from taskyard.services.clock import SystemClock
from taskyard.services.lessons import Failure, LessonStore

async def main():
    store = LessonStore(".taskyard/lessons.jsonl", SystemClock(), project=Path(sys.argv[1]))
    for number in range(int(sys.argv[3])):
        await store.record(
            Failure(role="implementer", failure_type="check", message="KeyError: 'a'", key=f"{sys.argv[2]}/{number}")
        )

asyncio.run(main())
"""


def recorder(project: Path, name: str, count: int, **environ: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(project), name, str(count)], env=os.environ | environ, cwd=project
    )


async def test_recording_waits_for_the_lock_and_goes_to_the_file_that_is_there_then(
    store: LessonStore, path: Path
) -> None:
    """Another program holds the file, and git puts a new one in its place meanwhile."""
    recorded = await store.record(failure(key="a"))
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        again = asyncio.create_task(store.record(failure(key="b")))
        await asyncio.wait({again}, timeout=0.2)
        assert not again.done()
        new = path.with_suffix(".new")
        put(new, msgspec.structs.replace(recorded.lesson, resolution="Use get."))
        new.rename(path)
    lesson = (await again).lesson
    assert (lesson.resolution, lesson.times_seen) == ("Use get.", 2)
    assert await store.get(lesson.id) == lesson


async def test_two_processes_append_without_losing_a_count(store: LessonStore, tmp_path: Path) -> None:
    """The file is locked while one reads, adds and writes."""
    both = [recorder(tmp_path, name, 20) for name in ("a", "b")]
    assert [process.wait(timeout=60) for process in both] == [0, 0]
    (found,) = await store.search("", 5)
    assert found.lesson.times_seen == 40
    assert (await store.stats()).skipped == ()


@pytest.mark.parametrize("point", ["lessons.append.before", "lessons.sync.before", "lessons.append.after"])
async def test_a_kill_while_recording_neither_loses_nor_doubles(store: LessonStore, tmp_path: Path, point: str) -> None:
    """Killed at the third record, then all of it again."""
    killed = recorder(tmp_path, "a", 5, TASKYARD_FAULT=f"{point}:3")
    assert killed.wait(timeout=60) == -signal.SIGKILL
    assert recorder(tmp_path, "a", 5).wait(timeout=60) == 0
    (found,) = await store.search("", 5)
    assert found.lesson.times_seen == 5
    assert (await store.stats()).skipped == ()
