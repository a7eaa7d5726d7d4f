"""The journal: a step is carried out once, whatever dies in between; choices stick across runs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskyard.services.database import Database
from taskyard.services.journal import MIGRATIONS, Journal, Steps, Sticky, digest


class Verdict(msgspec.Struct, frozen=True):
    text: str
    score: int


@pytest.fixture
async def db(tmp_path: Path) -> AsyncIterator[Database]:
    database = await Database.open(tmp_path / "x.db", MIGRATIONS)
    yield database
    await database.close()


class Work:
    """Counts how often each kind of step was really done."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def __call__(self, text: str) -> Callable[[], Awaitable[Verdict]]:
        async def make() -> Verdict:
            self.done.append(text)
            return Verdict(text, len(self.done))

        return make


class Life:
    """One life of a process: it reads its journal from the file, as a new start would."""

    def __init__(self, db: Database, run: str = "r1") -> None:
        self.told: list[tuple[str, int, str]] = []
        self.journal = Journal(db, run, lambda task, attempt, what: self.told.append((task, attempt, what)))

    async def steps(self, task: str = "T1", attempt: int = 1) -> Steps:
        return (await self.journal.task(task)).attempt(attempt)


async def aside(db: Database) -> list[tuple[int, int, str]]:
    sql = "select attempt, seq, kind from journal_aside order by id"
    return await db.read(lambda c: c.execute(sql).fetchall())


async def test_a_step_is_carried_out_once_over_two_lives(db: Database) -> None:
    """After a crash the task runs again: what it did comes from the record, equal, and only new steps are done."""
    work = Work()
    steps = await Life(db).steps()
    first = [await steps.step(kind, "h", Verdict, work(kind)) for kind in ("plan", "check")]
    life = Life(db)
    steps = await life.steps()
    again = [await steps.step(kind, "h", Verdict, work(kind)) for kind in ("plan", "check", "judge")]
    assert again[:2] == first
    assert work.done == ["plan", "check", "judge"]
    assert life.told == []
    assert steps.seq == 3


async def test_a_step_is_on_disk_before_the_task_goes_on(db: Database) -> None:
    """When `step` returns, another life already finds it."""
    work = Work()
    steps = await Life(db).steps()
    for number in range(10):
        await steps.step("check", str(number), Verdict, work(str(number)))
        replay = await Life(db).steps()
        for known in range(number + 1):
            assert await replay.peek("check", str(known)) is not None
    assert len(work.done) == 10


@pytest.mark.parametrize(("kind", "inputs"), [("judge", "h1"), ("check", "other")])
async def test_a_divergence_sets_the_rest_aside_and_tells(db: Database, kind: str, inputs: str) -> None:
    """A replay that asks for something else never gets the stale output: the rest is kept aside, and an event tells."""
    work = Work()
    steps = await Life(db).steps()
    for number in range(4):
        await steps.step("check", f"h{number}", Verdict, work(f"old {number}"))
    life = Life(db)
    steps = await life.steps()
    assert (await steps.step("check", "h0", Verdict, work("new 0"))).text == "old 0"
    assert (await steps.step(kind, inputs, Verdict, work("new 1"))).text == "new 1"
    assert (await steps.step("check", "h2", Verdict, work("new 2"))).text == "new 2"
    assert [(task, attempt) for task, attempt, _ in life.told] == [("T1", 1)]
    assert await aside(db) == [(1, 1, "check"), (1, 2, "check"), (1, 3, "check")]
    replay = await Life(db).steps()
    texts = [(await replay.step(k, h, Verdict, work("never"))).text for k, h in (("check", "h0"), (kind, inputs))]
    assert texts == ["old 0", "new 1"]
    assert "never" not in work.done


async def test_a_divergence_touches_no_other_attempt_task_or_run(db: Database) -> None:
    """Only the attempt that diverged loses its record."""
    work = Work()
    places = [("r1", "T1", 1), ("r1", "T1", 2), ("r1", "T2", 1), ("r2", "T1", 1)]
    for run, task, attempt in places:
        await (await Life(db, run).steps(task, attempt)).step("check", "h", Verdict, work(f"{run} {task} {attempt}"))
    await (await Life(db).steps()).step("judge", "h", Verdict, work("diverged"))
    for run, task, attempt in places[1:]:
        found = await (await Life(db, run).steps(task, attempt)).step("check", "h", Verdict, work("never"))
        assert found.text == f"{run} {task} {attempt}"
    assert len(await aside(db)) == 1


async def test_a_step_that_failed_is_not_on_record(db: Database) -> None:
    """An error of a step is no output: the next life tries again."""

    async def fail() -> Verdict:
        raise ValueError("no")

    steps = await Life(db).steps()
    with pytest.raises(ValueError, match="no"):
        await steps.step("check", "h", Verdict, fail)
    work = Work()
    assert (await (await Life(db).steps()).step("check", "h", Verdict, work("yes"))).text == "yes"


async def test_a_writer_is_part_of_its_callers_transaction(db: Database) -> None:
    """A step that is written along with something else is there together with it or not at all."""
    write = (await Life(db).steps()).writer("answer", "h", b"{}")

    def both(connection: object) -> None:
        write(connection)  # type: ignore[arg-type]
        raise ValueError("the other half failed")

    with pytest.raises(ValueError, match="other half"):
        await db.write(both)
    assert await (await Life(db).steps()).peek("answer", "h") is None


async def test_a_choice_of_one_run_holds_in_the_next(db: Database) -> None:
    """The first choice of a key stays, so that an unchanged board asks the same again."""
    work = Work()
    first = await Sticky(db).choose("lessons of T1", Verdict, work("first"))
    second = await Sticky(db).choose("lessons of T1", Verdict, work("second"))
    other = await Sticky(db).choose("lessons of T2", Verdict, work("other"))
    assert (first.text, second, other.text) == ("first", first, "other")
    assert work.done == ["first", "other"]


async def test_choosers_at_the_same_time_agree(db: Database) -> None:
    """All who choose at once get the choice that was kept, which is the first to be written."""
    everybody_thinks = asyncio.Barrier(8)

    def think(number: int) -> Callable[[], Awaitable[int]]:
        async def make() -> int:
            await everybody_thinks.wait()
            return number

        return make

    chosen = await asyncio.gather(*(Sticky(db).choose("base", int, think(n)) for n in range(8)))
    assert len(set(chosen)) == 1
    assert await Sticky(db).choose("base", int, think(99)) == chosen[0]


async def test_the_order_at_the_tip_is_that_of_the_first_meeting(db: Database) -> None:
    """Order sticks: later records of the same place change nothing, and scopes don't mix."""
    sticky = Sticky(db)
    for task, attempt in (("b", 1), ("a", 1), ("b", 1), ("a", 2), ("a", 1)):
        await sticky.met("scope", task, attempt)
    await sticky.met("elsewhere", "z", 1)
    assert await Sticky(db).order("scope") == (("b", 1), ("a", 1), ("a", 2))


@given(st.lists(st.text() | st.binary(), max_size=4), st.lists(st.text() | st.binary(), max_size=4))
def test_digests_of_different_parts_differ(left: list[str | bytes], right: list[str | bytes]) -> None:
    """C10: parts can't be confused, wherever one ends and the next begins."""
    as_bytes = [[part.encode() if isinstance(part, str) else part for part in parts] for parts in (left, right)]
    assert (digest(*left) == digest(*right)) == (as_bytes[0] == as_bytes[1])


def test_a_digest_does_not_join_its_parts() -> None:
    """C10: `T1:x` + `y` is not `T1` + `x:y`."""
    assert len({digest("T1:x", "y"), digest("T1", "x:y"), digest("T1", "x", "y"), digest("T1xy"), digest()}) == 5
    assert len(digest("a")) == 32
