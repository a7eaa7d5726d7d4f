"""The merge queue on a real bare repository: chains, bisects, refusals, and nothing landed twice."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from taskyard.services.clock import SystemClock
from taskyard.services.errors import LandingStopped
from taskyard.services.events import Event, Landed, LandingStepped
from taskyard.services.records import CheckResult
from taskyard.services.repo import Candidate, Checkout, Identity, Landing, OnTip, Outcome, Refused, Repository, scaffold

ME = Identity("Ada L", "ada@example.org")
FILES = {f"f{n}.txt": (b"".join(b"line %d\n" % i for i in range(20)), False) for n in range(12)}
Judge = Callable[[Mapping[str, bytes], int], bool]


class HandClock:
    """A clock that a test moves; stamps come from the machine."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def now(self) -> float:
        return SystemClock().now()

    def monotonic(self) -> float:
        return self.ahead_s


class Bench:
    """A repository with its base, a landing on it, and what was verified."""

    def __init__(self, repository: Repository, base: str, base_tree: str) -> None:
        self.repository = repository
        self.base = base
        self.base_tree = base_tree
        self.clock = HandClock()
        self.events: list[Event] = []
        self.verified: list[tuple[str, tuple[str, ...], bool]] = []
        """(tree, tasks, fresh) of each verification."""
        self.green: Judge = lambda _files, _number: True
        """Is a tree green? Given its files and the number of the verification."""
        self.busy: set[str] = set()
        """A non-empty set means that more candidates may come, so that the landing is not idle."""

    def landing(self, *, batch: int = 10, max_age_s: float = 5.0) -> Landing:
        return Landing(
            self.repository,
            run="r1",
            identity=ME,
            verify=self._verify,
            emit=self.events.append,
            clock=self.clock,
            batch=batch,
            max_age_s=max_age_s,
            idle=lambda: not self.busy,
            landings_before=0,
        )

    async def _verify(self, tree: str, tasks: Sequence[str], *, fresh: bool) -> tuple[CheckResult, ...]:
        self.verified.append((tree, tuple(tasks), fresh))
        paths = [file.path for file in await self.repository.files(tree)]
        files = await self.repository.read_many(tree, paths)
        if self.green(files, len(self.verified)):
            return ()
        return (CheckResult("test", "make test", tree, 1, 0.1, "it is red"),)

    async def candidate(
        self, task: str, changes: Mapping[str, bytes | None], *, base_tree: str = "", subject: str = "", body: str = ""
    ) -> Candidate:
        base_tree = base_tree or self.base_tree
        return Candidate(
            task=task,
            key=f"key-of-{task}"[:60],
            attempt=1,
            tree=await self.repository.replace(base_tree, changes),
            base_tree=base_tree,
            subject=subject or f"Do {task[:40]}",
            body=body,
        )

    async def disjoint(self, count: int) -> list[Candidate]:
        return [await self.candidate(f"T{n}", {f"f{n}.txt": b"changed by T%d\n" % n}) for n in range(count)]

    async def land_all(self, landing: Landing, candidates: Sequence[Candidate]) -> list[Outcome]:
        """All at once, in their order, as one batch as far as it may be."""
        self.busy.add("until all are there")
        waiting = [asyncio.create_task(landing.land(candidate)) for candidate in candidates]
        await until(lambda: landing.ready == len(candidates))
        self.busy.clear()
        landing.poke()
        return list(await asyncio.gather(*waiting))

    async def subjects(self, tip: str) -> list[str]:
        return [commit.subject for commit in await self.repository.log(tip, self.base)]

    def steps(self) -> list[str]:
        return [event.step for event in self.events if isinstance(event, LandingStepped)]


async def until(true: Callable[[], bool]) -> None:
    """Let others go on until something holds."""
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0)


@asynccontextmanager
async def served(landing: Landing) -> AsyncIterator[Landing]:
    """The landing at work while the block runs."""
    service = asyncio.create_task(landing.serve())
    try:
        yield landing
    finally:
        service.cancel()
        with suppress(asyncio.CancelledError, LandingStopped):
            await service


@pytest.fixture
async def bench(tmp_path: Path) -> Bench:
    await scaffold(tmp_path / "work", tmp_path / "remote.git", FILES, ME, "First\n")
    (tmp_path / "home").mkdir()
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "GIT_CONFIG_NOSYSTEM": "1"}
    checkout = await Checkout.find(tmp_path / "work", environ)
    repository = await Repository.open(tmp_path / "state" / "repo.git", checkout, "origin")
    base = await repository.fetch("main")
    return Bench(repository, base, await repository.tree_of(base))


@pytest.fixture
async def landing(bench: Bench) -> AsyncIterator[Landing]:
    made = bench.landing()
    await made.open(bench.base)
    async with served(made):
        yield made


# Chains


async def test_what_is_ready_together_is_verified_once(bench: Bench, landing: Landing) -> None:
    """Disjoint candidates: one commit each, in order, one verification of the whole, with all of their tasks."""
    outcomes = await bench.land_all(landing, await bench.disjoint(5))
    commits = await bench.repository.log(landing.tip, bench.base)
    assert [outcome.commit for outcome in outcomes if isinstance(outcome, OnTip)] == [commit.id for commit in commits]
    assert [commit.trailers["Task-Id"] for commit in commits] == ["T0", "T1", "T2", "T3", "T4"]
    assert [commit.trailers["Task-Key"] for commit in commits] == [f"key-of-T{n}" for n in range(5)]
    assert {commit.trailers["Run-Id"] for commit in commits} == {"r1"}
    assert all(len(commit.parents) == 1 for commit in commits)
    assert bench.verified == [(commits[-1].tree, ("T0", "T1", "T2", "T3", "T4"), False)]
    assert await bench.repository.ref(landing.ref) == landing.tip == commits[-1].id
    assert [event.tasks for event in bench.events if isinstance(event, Landed)] == [("T0", "T1", "T2", "T3", "T4")]


async def test_overlapping_changes_of_one_file_are_merged(bench: Bench, landing: Landing) -> None:
    """Each commit is the three-way merge over its attempt's base, not the attempt's tree."""
    text = FILES["f0.txt"][0]
    one = await bench.candidate("T1", {"f0.txt": text.replace(b"line 2\n", b"two\n")})
    two = await bench.candidate("T2", {"f0.txt": text.replace(b"line 15\n", b"fifteen\n")})
    assert all(isinstance(outcome, OnTip) for outcome in await bench.land_all(landing, [one, two]))
    merged = await bench.repository.read(await bench.repository.tree_of(landing.tip), "f0.txt")
    assert merged == text.replace(b"line 2\n", b"two\n").replace(b"line 15\n", b"fifteen\n")


async def test_a_conflict_is_told_after_the_tip_has_moved(bench: Bench, landing: Landing) -> None:
    """The next attempt starts from a tip that holds what this one conflicted with."""
    one = await bench.candidate("T1", {"f0.txt": b"one\n"})
    two = await bench.candidate("T2", {"f0.txt": b"two\n"})
    bench.busy.add("x")
    first, second = asyncio.create_task(landing.land(one)), asyncio.create_task(landing.land(two))
    tips: list[str] = []
    second.add_done_callback(lambda _: tips.append(landing.tip))
    await until(lambda: landing.ready == 2)
    bench.busy.clear()
    landing.poke()
    refused = await second
    landed = await first
    assert isinstance(landed, OnTip)
    assert isinstance(refused, Refused)
    assert refused.kind == "conflict"
    assert tips == [landed.commit]
    assert "f0.txt" in refused.detail
    assert "<<<<<<<" in refused.detail


async def test_a_change_that_adds_nothing_is_refused(bench: Bench, landing: Landing) -> None:
    """One commit never ticks two tasks: who brings what is there already gets no commit."""
    one = await bench.candidate("T1", {"f0.txt": b"same\n"})
    two = await bench.candidate("T2", {"f0.txt": b"same\n"})
    first, second = await bench.land_all(landing, [one, two])
    assert isinstance(first, OnTip)
    assert isinstance(second, Refused)
    assert second.kind == "empty"
    assert await bench.subjects(landing.tip) == ["Do T1"]
    third = await landing.land(await bench.candidate("T3", {"f0.txt": b"same\n"}))
    assert isinstance(third, Refused)


# Red


@pytest.mark.parametrize("bad", [0, 3, 7])
async def test_a_culprit_is_found_by_prefix_bisect_and_confirmed(bench: Bench, landing: Landing, bad: int) -> None:
    """Few verifications find it, a second fresh run confirms it, and the rest lands in order."""
    bench.green = lambda files, _: files[f"f{bad}.txt"] == FILES[f"f{bad}.txt"][0]
    outcomes = await bench.land_all(landing, await bench.disjoint(8))
    refused = outcomes.pop(bad)
    assert isinstance(refused, Refused)
    assert refused.kind == "red"
    assert "it is red" in refused.detail
    assert all(isinstance(outcome, OnTip) for outcome in outcomes)
    assert await bench.subjects(landing.tip) == [f"Do T{n}" for n in range(8) if n != bad]
    assert len(bench.verified) <= 1 + 3 + 1 + 1
    assert [fresh for _, _, fresh in bench.verified].count(True) == 1
    confirmed = next(tasks for _, tasks, fresh in bench.verified if fresh)
    assert confirmed == tuple(f"T{n}" for n in range(bad + 1))
    assert {"bisecting", "confirming", "refused"} <= set(bench.steps())


async def test_only_states_that_may_become_the_tip_are_tried(bench: Bench, landing: Landing) -> None:
    """Every verified tree is a prefix of a chain on the tip, and the tip was verified green before it moved."""
    bench.green = lambda files, _: files["f2.txt"] == FILES["f2.txt"][0]
    await bench.land_all(landing, await bench.disjoint(5))
    for _, tasks, _ in bench.verified:
        assert list(tasks) in (["T0", "T1", "T2", "T3", "T4"][: len(tasks)], ["T0", "T1", "T3", "T4"])
    assert (await bench.repository.tree_of(landing.tip)) == bench.verified[-1][0]


async def test_two_culprits_are_both_found(bench: Bench, landing: Landing) -> None:
    """The rest of a chain is verified anew behind a culprit."""
    bench.green = lambda files, _: all(files[f"f{n}.txt"] == FILES[f"f{n}.txt"][0] for n in (1, 4))
    outcomes = await bench.land_all(landing, await bench.disjoint(6))
    assert [isinstance(outcome, OnTip) for outcome in outcomes] == [True, False, True, True, False, True]
    assert await bench.subjects(landing.tip) == ["Do T0", "Do T2", "Do T3", "Do T5"]


@pytest.mark.parametrize("flaky", [{1}, {1, 2}, {1, 3}])
async def test_a_flaky_check_evicts_nobody(bench: Bench, landing: Landing, flaky: set[int]) -> None:
    """Red once and green when run again is no reason to refuse a change."""
    bench.green = lambda _, number: number not in flaky
    outcomes = await bench.land_all(landing, await bench.disjoint(4))
    assert all(isinstance(outcome, OnTip) for outcome in outcomes)
    assert await bench.subjects(landing.tip) == ["Do T0", "Do T1", "Do T2", "Do T3"]


async def test_a_conflict_with_a_culprit_does_not_count(bench: Bench, landing: Landing) -> None:
    """Who conflicts with a change that is then refused lands: it conflicts with nothing that is there."""
    bench.green = lambda files, _: files["f0.txt"] != b"bad\n"
    bad = await bench.candidate("T1", {"f0.txt": b"bad\n"})
    good = await bench.candidate("T2", {"f0.txt": b"good\n"})
    other = await bench.candidate("T3", {"f3.txt": b"other\n"})
    outcomes = await bench.land_all(landing, [bad, good, other])
    assert [isinstance(outcome, OnTip) for outcome in outcomes] == [False, True, True]
    assert await bench.subjects(landing.tip) == ["Do T2", "Do T3"]


# Crashes, others, cancellation


async def test_asking_again_after_a_crash_gives_the_same_commit(bench: Bench) -> None:
    """The tip's own trailers say what has landed; nothing lands twice, under whatever base the new life is opened."""
    candidates = await bench.disjoint(2)
    first = bench.landing()
    await first.open(bench.base)
    async with served(first):
        before = await bench.land_all(first, candidates)
    second = bench.landing()
    await second.open(bench.base)
    assert second.landed == first.landed
    async with served(second):
        after = [await second.land(candidate) for candidate in candidates]
        more = await second.land(await bench.candidate("T5", {"f5.txt": b"five\n"}))
    assert after == before
    assert isinstance(more, OnTip)
    assert await bench.subjects(second.tip) == ["Do T0", "Do T1", "Do T5"]


async def test_another_runs_commits_are_not_taken_for_ones_own(bench: Bench) -> None:
    """The same task id of another run on the base does not count as landed."""
    message = "Do T1\n\nTask-Id: T1\nRun-Id: r0\nTask-Key: k\n"
    tree = await bench.repository.replace(bench.base_tree, {"f9.txt": b"old\n"})
    foreign = await bench.repository.commit(tree, [bench.base], message, identity=ME, when=1.0)
    landing = bench.landing()
    await landing.open(bench.base)
    await landing.adopt(foreign)
    again = bench.landing()
    await again.open(bench.base)
    assert again.landed == {}


async def test_a_tip_that_another_process_moved_is_a_clear_error(bench: Bench, landing: Landing) -> None:
    """Compare and swap: nothing of the other process is overwritten, and the message says what happened."""
    tree = await bench.repository.replace(bench.base_tree, {"f9.txt": b"theirs\n"})
    theirs = await bench.repository.commit(tree, [bench.base], "Theirs\n", identity=ME, when=1.0)
    await bench.repository.keep(landing.ref, theirs)
    with pytest.raises(LandingStopped, match="moved under this run"):
        await landing.land(await bench.candidate("T1", {"f1.txt": b"x\n"}))
    assert await bench.repository.ref(landing.ref) == theirs
    assert landing.landed == {}


async def test_a_cancelled_candidate_leaves_the_queue(bench: Bench, landing: Landing) -> None:
    """Before it is due, and also when its chain is being bisected."""
    bench.busy.add("x")
    waiting = asyncio.create_task(landing.land(await bench.candidate("T1", {"f1.txt": b"x\n"})))
    await until(lambda: landing.ready == 1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert landing.ready == 0

    tasks: list[asyncio.Task[Outcome]] = []

    def red_and_cancel(files: Mapping[str, bytes], number: int) -> bool:
        if number == 1:
            tasks[2].cancel()
        return files["f0.txt"] == FILES["f0.txt"][0]

    bench.green = red_and_cancel
    tasks += [asyncio.create_task(landing.land(candidate)) for candidate in await bench.disjoint(3)]
    await until(lambda: landing.ready == 3)
    bench.busy.clear()
    landing.poke()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Refused, OnTip, asyncio.CancelledError]
    assert landing.ready == 0
    assert await bench.subjects(landing.tip) == ["Do T1"]


async def test_an_ended_service_tells_those_who_wait(bench: Bench) -> None:
    """Nobody waits for ever for a landing that was interrupted in the middle."""
    landing = bench.landing()
    await landing.open(bench.base)
    begun = asyncio.Event()

    async def endless(*_: object, fresh: bool) -> tuple[CheckResult, ...]:
        assert not fresh
        begun.set()
        await asyncio.Event().wait()
        return ()

    landing.verify = endless
    async with served(landing):
        waiting = asyncio.create_task(landing.land(await bench.candidate("T1", {"f1.txt": b"x\n"})))
        await begun.wait()
    with pytest.raises(LandingStopped, match="interrupted"):
        await waiting
    assert landing.tip == bench.base


async def test_an_error_of_git_about_one_candidate_refuses_that_one(bench: Bench, landing: Landing) -> None:
    """A candidate whose tree is missing fails alone; the next one lands."""
    good = await bench.candidate("T1", {"f1.txt": b"x\n"})
    broken = Candidate(
        task="T2", key="k", attempt=1, tree="0" * 39 + "1", base_tree=bench.base_tree, subject="s", body=""
    )
    refused = await landing.land(broken)
    assert isinstance(refused, Refused)
    assert "could not merge" in refused.detail
    assert isinstance(await landing.land(good), OnTip)


# When a batch is due


async def test_a_full_batch_does_not_wait(bench: Bench) -> None:
    """As many as a batch holds are landed though more may come; the others stay."""
    landing = bench.landing(batch=2)
    await landing.open(bench.base)
    bench.busy.add("x")
    async with served(landing):
        tasks = [asyncio.create_task(landing.land(candidate)) for candidate in await bench.disjoint(5)]
        await asyncio.gather(*tasks[:4])
        assert [task.done() for task in tasks] == [True] * 4 + [False]
        assert [len(verified[1]) for verified in bench.verified] == [2, 4]
        bench.busy.clear()
        landing.poke()
        await tasks[4]


async def test_the_oldest_ready_commit_waits_no_longer_than_max_age(bench: Bench) -> None:
    """Not due before, due then; measured by the clock that was handed in."""
    landing = bench.landing(max_age_s=60.0)
    await landing.open(bench.base)
    bench.busy.add("x")
    async with served(landing):
        waiting = asyncio.create_task(landing.land(await bench.candidate("T1", {"f1.txt": b"x\n"})))
        await until(lambda: landing.ready == 1)
        bench.clock.ahead_s = 59.0
        landing.poke()
        for _ in range(50):
            await asyncio.sleep(0)
        assert landing.ready == 1
        bench.clock.ahead_s = 60.0
        landing.poke()
        assert isinstance(await waiting, OnTip)


async def test_an_idle_run_does_not_wait_for_more(bench: Bench) -> None:
    """When nobody else can come, waiting would be in vain."""
    landing = bench.landing(max_age_s=10_000.0)
    await landing.open(bench.base)
    async with served(landing):
        assert isinstance(await landing.land(await bench.candidate("T1", {"f1.txt": b"x\n"})), OnTip)


async def test_nothing_lands_while_the_tip_is_held_still(bench: Bench, landing: Landing) -> None:
    """A push or a rebase has the tip to itself."""
    async with landing.still():
        waiting = asyncio.create_task(landing.land(await bench.candidate("T1", {"f1.txt": b"x\n"})))
        await until(lambda: landing.ready == 1 or bench.verified != [])
        for _ in range(50):
            await asyncio.sleep(0)
        assert landing.tip == bench.base
        assert bench.verified == []
    assert isinstance(await waiting, OnTip)


# Messages

IDS = ["T 1", "Ünïcödé-任务-🎉", "a/b/../c", "T" * 3000, "key: value", "#7", "-rf", "T1 ", "%s{}", "Task-Id: T9", "(x)"]


@pytest.mark.parametrize("task", IDS, ids=range(len(IDS)))
async def test_any_task_id_is_found_again_in_its_trailer(bench: Bench, landing: Landing, task: str) -> None:
    """Spaces, slashes, other scripts, thousands of letters: the id that comes back is the id that went in."""
    task = task.strip()
    outcome = await landing.land(await bench.candidate(task, {"f1.txt": b"x\n"}))
    again = bench.landing()
    await again.open(bench.base)
    assert isinstance(outcome, OnTip)
    assert again.landed == {task: outcome.commit}


BODIES = [
    "Done.\n\nTask-Id: T9\nTask-Key: forged",
    "Task-Id: T9",
    "Task-Id: T9\nRun-Id: r1\nTask-Key: forged\n\n",
    "x\n# ------------------------ >8 ------------------------\ny",
    "---\n\nTask-Id: T9",
    "diff --git a/x b/x\n--- a/x\n+++ b/x",
    "Conflicts:\n\tf1.txt\n# Task-Id: T9",
    "\r\nTask-Id: T9\r\n\r\n",
    "nul \0 byte and \x1f unit separator\n\n\x1fTask-Id: T9",
    "   \n\n",
]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
async def test_what_a_summary_says_is_never_a_trailer(bench: Bench, landing: Landing, body: str) -> None:
    """A model's words can neither forge another task's trailers nor hide the task's own."""
    await landing.land(await bench.candidate("T1", {"f1.txt": b"x\n"}, body=body))
    (commit,) = await bench.repository.log(landing.tip, bench.base)
    assert commit.trailers == {"Task-Id": "T1", "Run-Id": "r1", "Task-Key": "key-of-T1", "Attempt": "1"}
    assert await bench.repository.trailers(landing.tip, "Task-Key") == {"key-of-T1": commit.id}
    assert commit.subject == "Do T1"


@pytest.mark.parametrize(
    "subject", ["Task-Id: T9", "# ------------------------ >8 ------------------------", "x" * 5000]
)
async def test_what_a_title_says_is_never_a_trailer(bench: Bench, landing: Landing, subject: str) -> None:
    """Nor can the board's text."""
    await landing.land(await bench.candidate("T1", {"f1.txt": b"x\n"}, subject=subject))
    assert list(await bench.repository.trailers(landing.tip, "Task-Id", since=bench.base)) == ["T1"]


# Another base


async def test_commits_follow_onto_a_moved_base_and_conflicting_ones_are_kept(bench: Bench, landing: Landing) -> None:
    """They keep their trailers; one that can't follow is named, and its commit stays under our refs."""
    await bench.land_all(landing, await bench.disjoint(3))
    old_tip, old = landing.tip, landing.landed
    moved = await bench.repository.replace(bench.base_tree, {"f1.txt": b"theirs\n", "new.txt": b"new\n"})
    base = await bench.repository.commit(moved, [bench.base], "Theirs\n", identity=ME, when=1.0)
    async with landing.still():
        lost, red = await landing.rebase(base)
    assert list(lost) == ["T1"]
    assert red == ()
    commits = await bench.repository.log(landing.tip, base)
    assert [commit.trailers["Task-Id"] for commit in commits] == ["T0", "T2"]
    assert landing.landed == {commit.trailers["Task-Id"]: commit.id for commit in commits}
    assert await bench.repository.read(commits[-1].tree, "f1.txt") == b"theirs\n"
    assert await bench.repository.ref(f"runs/r1/before/{old_tip}") == old_tip
    assert await bench.repository.resolve(old["T1"]) == old["T1"]
    again = bench.landing()
    await again.open(bench.base)
    assert (again.base, again.tip, again.landed) == (base, landing.tip, landing.landed)


async def test_ticks_on_the_tip_are_nobodys_commit(bench: Bench, landing: Landing) -> None:
    """The board's ticks, which no task owns, neither land nor get lost as a task when the base moves."""
    await bench.land_all(landing, await bench.disjoint(1))
    tree = await bench.repository.replace(await bench.repository.tree_of(landing.tip), {"f5.txt": b"ticks\n"})
    ticks = await bench.repository.commit(tree, [landing.tip], "Tick T0\n\nRun-Id: r1\n", identity=ME, when=1.0)
    moved = await bench.repository.replace(bench.base_tree, {"f5.txt": b"theirs\n"})
    base = await bench.repository.commit(moved, [bench.base], "Theirs\n", identity=ME, when=1.0)
    async with landing.still():
        await landing.adopt(ticks)
        lost, _ = await landing.rebase(base)
    assert dict(lost) == {}
    assert list(landing.landed) == ["T0"]


async def test_a_rebase_that_turns_red_moves_nothing(bench: Bench, landing: Landing) -> None:
    """The tip only ever moves to what is verified."""
    await bench.land_all(landing, await bench.disjoint(2))
    tip, landed = landing.tip, landing.landed
    moved = await bench.repository.replace(bench.base_tree, {"new.txt": b"new\n"})
    base = await bench.repository.commit(moved, [bench.base], "Theirs\n", identity=ME, when=1.0)
    bench.green = lambda files, _: "new.txt" not in files
    async with landing.still():
        _, red = await landing.rebase(base)
    assert [result.output for result in red] == ["it is red"]
    assert (landing.tip, landing.landed, landing.base) == (tip, landed, bench.base)
    assert await bench.repository.ref(landing.ref) == tip


async def test_a_cancellation_that_comes_with_a_poke_is_not_lost(bench: Bench) -> None:
    """Else a run that is interrupted in just the moment in which a task moves never ends."""
    landing = bench.landing(max_age_s=600)
    await landing.open(bench.base)
    bench.busy.add("more may come")
    waiting = asyncio.create_task(landing.land(await bench.candidate("T1", {"a.txt": b"a\n"})))
    await until(lambda: landing.ready == 1)
    service = asyncio.create_task(landing.serve())
    for _ in range(5):  # it waits for company now
        await asyncio.sleep(0)
    landing.poke()
    service.cancel()
    await asyncio.wait([service], timeout=60)
    waiting.cancel()
    assert service.cancelled()
