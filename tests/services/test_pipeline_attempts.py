"""Attempts of one task in whole runs: models of our own over real HTTP, real git, real checks."""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from taskyard.services.clock import SystemClock
from taskyard.services.events import AnswerGiven, CheckFinished, Event, LessonChanged, RunFinished, TaskStateChanged
from taskyard.services.llm import Endpoint
from taskyard.services.practice import PracticeServer, Reply
from taskyard.services.practice.reading import Prompt, read
from taskyard.services.repo import Identity, scaffold
from taskyard.services.run import RunOptions, life
from taskyard.services.run.execute import Outside, start

ME = Identity("Ada L", "ada@example.org")
BOARD = """| ID | Scope | Status | Verification |
| --- | --- | --- | --- |
| T1 | Say done. | [ ] | `grep -qx done notes.txt` |
"""
ACCEPT = {"decision": "accept", "reasons": ["as asked"], "tests_weakened": False, "scope_ok": True}
PLAN = {"summary": "Say it.", "steps": ["Say it."], "files": ["notes.txt"], "checks": [], "risks": []}
EDIT = ("edit", {"path": "notes.txt", "old": "open", "new": "done", "count": None})
FINISH = ("finish", {"summary": "Said it."})
MISS = ("view", {"path": "nowhere.txt", "start": None, "end": None})
LOOK = ("view", {"path": "notes.txt", "start": None, "end": None})


def calls(*uses: tuple[str, Any]) -> Reply:
    """An answer of tool calls."""
    return Reply([{"type": "tool_use", "name": name, "input": given} for name, given in uses], "tool_use")


def says(text: str, stop: str = "end_turn") -> Reply:
    """An answer without a tool call."""
    return Reply([{"type": "text", "text": text}], stop)


NOTHING_SAID = says("Let me think about it.")


class Bench:
    """A repository with one task, and a model made of one function a role."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[Event] = []
        self.prompts: list[Prompt] = []
        """The implementer's, in order."""
        self.implement: Callable[[Prompt], Reply] = lambda _: calls(EDIT, FINISH)
        self.judge: Callable[[Prompt], Reply] = lambda _: calls(("verdict", ACCEPT))
        self.plan: Callable[[Prompt], Reply] = lambda _: calls(("plan", PLAN))
        self.latency: Callable[[Mapping[str, Any]], float] = lambda _: 0.0
        self.prepare: Callable[[Path], object] = lambda _: None
        """Called with the repository before the run."""
        self.server = PracticeServer(self._answer, latency_s=lambda body: self.latency(body))

    def _answer(self, body: Mapping[str, Any]) -> Reply:
        prompt = read(body)
        if prompt.role == "implementer":
            self.prompts.append(prompt)
            return self.implement(prompt)
        return self.judge(prompt) if prompt.role == "judge" else self.plan(prompt)

    async def run(self, **flags: Any) -> int:
        """The exit code."""
        files = {"board.md": (BOARD.encode(), False), "notes.txt": (b"open\n", False)}
        repo = self.folder / "repo"
        await scaffold(repo, self.folder / "remote.git", files, ME, "First")
        self.prepare(repo)
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "TASKYARD_STATE": str(self.folder / "state")}
        models = {f"models.{role}": "practice" for role in ("planner", "implementer", "judge")}
        given = {name.replace("__", "."): value for name, value in flags.items()}
        outside = Outside(
            folder=repo,
            environ=environ,
            clock=SystemClock(),
            listen=self.events.append,
            endpoint=Endpoint(self.server.url, "any"),
            new_id=lambda: "r1",
        )
        return await start(outside, RunOptions(board="board.md", unsafe_local=True, flags={**models, **given}))

    @property
    def ends(self) -> list[str]:
        """What was said about each attempt's end, the last one's included."""
        return [e.detail for e in self.events if isinstance(e, TaskStateChanged) and e.detail]

    @property
    def answers(self) -> list[tuple[str, int]]:
        """(role, attempt) of each answer."""
        return [(e.role, e.attempt) for e in self.events if isinstance(e, AnswerGiven)]

    @property
    def lessons(self) -> list[str]:
        """Failure types of the lessons that were recorded or seen again."""
        return [e.failure_type for e in self.events if isinstance(e, LessonChanged) and e.action != "offered"]

    @property
    def merged(self) -> int:
        (finished,) = [e for e in self.events if isinstance(e, RunFinished)]
        return finished.tasks.get("merged", 0)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    with made.server:
        yield made
    assert made.server.crashes == ()


async def test_a_change_in_one_answer_is_merged(bench: Bench) -> None:
    """Parallel calls of one answer are carried out in their order, on one tree."""
    bench.implement = lambda _: calls(LOOK, EDIT, ("run_check", {"name": "verify-1"}), FINISH)
    assert await bench.run() == 0
    assert bench.merged == 1
    assert bench.answers == [("planner", 1), ("implementer", 1), ("judge", 1)]
    (check, *_) = [e for e in bench.events if isinstance(e, CheckFinished) and e.where == "task"]
    assert (check.check, check.exit) == ("verify-1", 0)


@pytest.mark.parametrize(
    ("answer", "kind", "turns", "words"),
    [
        (NOTHING_SAID, "malformed", 3, "held no tool call"),
        (calls(MISS), "stuck", 3, "the same failing call 3 times"),
        (calls(LOOK), "turns", 5, "not finished after 5 turns"),
        (calls(FINISH), "no_change", 1, "finished without a change"),
        (says("No.", "refusal"), "refusal", 1, "the model refused"),
        (says("I will", "max_tokens"), "cut_off", 1, "cut off"),
        (calls(("shell", {"command": "true"})), "stuck", 3, "there is no tool"),
        (calls(("edit", ["notes.txt"])), "stuck", 3, "stuck"),
    ],
    ids=["malformed", "stuck", "turns", "no-change", "refusal", "cut-off", "no-such-tool", "no-object"],
)
async def test_an_implementer_that_gets_nowhere_fails_the_task(
    bench: Bench, answer: Reply, kind: str, turns: int, words: str
) -> None:
    """Never "done": each attempt ends after so many turns with its reason and a lesson, and there are two of them."""
    bench.implement = lambda _: answer
    assert await bench.run(run__attempts=2, implementer__turns=5) == 1
    assert bench.merged == 0
    assert words in bench.ends[-1]
    assert len(bench.prompts) == 2 * turns
    assert bench.lessons == [kind, kind]
    assert "judge" not in {role for role, _ in bench.answers}


async def test_an_answer_without_a_call_is_asked_for_one(bench: Bench) -> None:
    """Two in a row are borne, and a call in between starts the count anew."""
    script = [NOTHING_SAID, says(""), calls(LOOK), NOTHING_SAID, NOTHING_SAID, calls(EDIT, FINISH)]
    bench.implement = lambda prompt: script[prompt.turns]
    assert await bench.run() == 0
    assert bench.merged == 1
    assert len(bench.prompts) == 6


async def test_a_failing_call_that_is_followed_by_another_is_not_stuck(bench: Bench) -> None:
    """Only the same failing calls in a row count."""
    other = ("delete", {"path": "nowhere.txt"})
    script = [
        *(calls(MISS), calls(MISS), calls(LOOK), calls(MISS), calls(MISS)),
        *(calls(other), calls(MISS), calls(MISS, LOOK), calls(MISS, LOOK), calls(MISS, LOOK)),
        calls(EDIT, FINISH),
    ]
    bench.implement = lambda prompt: script[prompt.turns]
    assert await bench.run() == 0
    assert bench.merged == 1


async def test_finish_behind_a_failed_call_does_not_count(bench: Bench) -> None:
    """A model that did not see its edit fail must not hand over half of a change."""
    miss = ("edit", {"path": "notes.txt", "old": "not there", "new": "x", "count": None})
    more = ("create", {"path": "more.txt", "text": "more\n"})
    script = [calls(more, miss, FINISH), calls(EDIT, FINISH)]
    bench.implement = lambda prompt: script[prompt.turns]
    assert await bench.run() == 0
    assert [(step.name, step.failed) for step in bench.prompts[1].steps] == [
        ("create", False),
        ("edit", True),
        ("finish", True),
    ]
    assert bench.merged == 1


async def test_what_is_wrong_with_a_call_is_told_to_the_model(bench: Bench) -> None:
    """Every malformed or impossible call comes back as an error, and the work goes on."""
    wrong: list[tuple[str, Any]] = [
        ("view", {"path": ".git/config", "start": None, "end": None}),
        ("view", {"path": "x" * 5000, "start": None, "end": None}),
        ("run_check", {"name": "rm -rf"}),
        ("run_check", {}),
        ("finish", {}),
        ("finish", {"summary": None}),
        ("edit", {"path": "notes.txt"}),
        ("search", {"pattern": "(", "glob": None}),
    ]
    bench.implement = lambda prompt: calls(EDIT, FINISH) if prompt.turns else calls(*wrong)
    assert await bench.run() == 0
    assert [step.failed for step in bench.prompts[1].steps] == [True] * len(wrong)
    assert not any(str(bench.folder) in step.result for step in bench.prompts[1].steps)


@pytest.mark.parametrize("last", [LOOK, ("run_check", {"name": "verify-1"}), FINISH], ids=["end", "check", "finish"])
async def test_files_that_git_can_t_take_go_back_to_the_model(bench: Bench, last: tuple[str, Any]) -> None:
    """Nothing of such a turn is kept, each of its results says why, and the work goes on from the tree before it."""
    bad = ("create", {"path": ".gitattributes", "text": "*.txt working-tree-encoding=bogus\n"})
    looks = ("view", {"path": "more.txt", "start": None, "end": None})
    more = ("create", {"path": "more.txt", "text": "more\n"})
    script = [calls(more, EDIT, bad, last), calls(looks, LOOK), calls(EDIT, FINISH)]
    bench.implement = lambda prompt: script[prompt.turns]
    assert await bench.run() == 0
    assert bench.merged == 1
    steps = bench.prompts[2].steps
    assert [step.failed for step in steps] == [True] * 4 + [True, False]
    assert all("nothing of this turn was kept" in step.result and "bogus" in step.result for step in steps[:4])
    assert "there is no file" in steps[4].result
    assert steps[5].result == "1\topen"
    assert not any(str(bench.folder) in step.result for step in steps)


async def test_the_file_behind_a_linked_board_is_out_of_reach(bench: Bench) -> None:
    """The link and what it leads to: neither is shown to a task, nor changed by one."""

    def link(repo: Path) -> None:
        (repo / "plans").mkdir()
        (repo / "board.md").rename(repo / "plans" / "real.md")
        (repo / "board.md").symlink_to("plans/real.md")
        for command in (["add", "-A"], ["commit", "-qm", "Link"], ["push", "-q", "origin", "HEAD:main"]):
            subprocess.run(["git", "-C", repo, "-c", "user.name=A", "-c", "user.email=a@b", *command], check=True)

    bench.prepare = link
    reaches = [("view", {"path": path, "start": None, "end": None}) for path in ("board.md", "plans/real.md")]
    tick = ("edit", {"path": "plans/real.md", "old": "[ ]", "new": "[x]", "count": None})
    script = [calls(*reaches, tick), calls(EDIT, FINISH)]
    bench.implement = lambda prompt: script[prompt.turns]
    await bench.run()
    assert ["out of reach" in step.result for step in bench.prompts[1].steps] == [True] * 3


async def test_check_runs_are_limited_over_all_turns(bench: Bench) -> None:
    """The limit holds for the attempt; the model is told to finish."""
    check = ("run_check", {"name": "verify-1"})
    script = [calls(check, check), calls(EDIT, check), calls(FINISH)]
    bench.implement = lambda prompt: script[prompt.turns]
    assert await bench.run(implementer__check_runs=2) == 0
    steps = bench.prompts[2].steps
    assert [step.result.splitlines()[0] for step in steps[:2]] == ["exit 1", "exit 1"]
    assert steps[3].failed
    assert "no check runs are left" in steps[3].result


async def test_a_second_attempt_is_told_how_the_first_one_ended(bench: Bench) -> None:
    """The failed check's own output stands in the next prompt, and the lesson too."""
    wrong = ("edit", {"path": "notes.txt", "old": "open", "new": "almost", "count": None})
    bench.implement = lambda prompt: calls(EDIT if prompt.tried else wrong, FINISH)
    assert await bench.run() == 0
    assert "check verify-1 failed" in bench.prompts[1].tried
    assert len(bench.prompts[1].lessons) == 1
    assert bench.lessons == ["check_failed", "check_failed"]
    assert bench.answers[-1] == ("judge", 2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"decision": "revise", "reasons": ["say it louder"]}, "say it louder"),
        ({"tests_weakened": True}, "tests were weakened"),
        ({"scope_ok": False}, "out of scope"),
    ],
)
async def test_a_reservation_of_the_judge_is_a_revision(bench: Bench, change: dict[str, Any], words: str) -> None:
    """`accept` with weakened tests or out of scope is none; the reasons go to the next attempt, which lands."""
    bench.judge = lambda prompt: calls(("verdict", ACCEPT if prompt.tried else ACCEPT | change))
    assert await bench.run() == 0
    assert words in bench.prompts[1].tried
    assert bench.merged == 1


async def test_a_judge_that_is_never_content_goes_to_a_person(bench: Bench) -> None:
    """After `judge_rounds` revisions nothing more is spent."""
    bench.judge = lambda _: calls(("verdict", ACCEPT | {"decision": "revise"}))
    assert await bench.run(implementer__judge_rounds=2, run__attempts=5) == 4
    assert [role for role, _ in bench.answers].count("judge") == 2
    assert "again" in bench.ends[-1]


async def test_a_rejection_ends_the_task_at_once(bench: Bench) -> None:
    """No further attempt is paid for."""
    bench.judge = lambda _: calls(("verdict", ACCEPT | {"decision": "reject", "reasons": ["not wanted"]}))
    assert await bench.run() == 1
    assert "not wanted" in bench.ends[-1]
    assert {attempt for _, attempt in bench.answers} == {1}


@pytest.mark.parametrize(
    ("answer", "words"),
    [(says("A plan? No."), "gave no plan"), (calls(("plan", {"steps": []})), "can't be read")],
)
async def test_without_a_plan_nothing_is_implemented(bench: Bench, answer: Reply, words: str) -> None:
    """Each attempt asks for a plan once."""
    bench.plan = lambda _: answer
    assert await bench.run(run__attempts=2) == 1
    assert words in bench.ends[-1]
    assert bench.answers == [("planner", 1), ("planner", 2)]


async def test_a_task_that_takes_too_long_fails(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit ends the task wherever it is, and the run ends well."""
    monkeypatch.setattr(life, "DRAIN_S", 0.1)
    bench.latency = lambda body: 60.0 if body.get("tool_choice") == {"type": "any"} else 0.0
    assert await bench.run(run__task_timeout=1.0) == 1
    assert bench.ends[-1] == "not done after 1 s ([run] task_timeout)"
    assert bench.merged == 0


async def test_a_tasks_own_budget_ends_it(bench: Bench) -> None:
    """It is looked at before each request; the task fails and names the setting."""
    assert await bench.run(implementer__task_budget_usd=0.000001) == 1
    assert bench.answers == [("planner", 1)]
    assert "task_budget_usd" in bench.ends[-1]


def test_a_tasks_budget_is_not_held_against_a_replay(make_yard: Any, creates: Any) -> None:
    """A task that was accepted within its budget lands after a crash, though its record has cost all of it."""
    first = make_yard(creates("A"))
    costs = [event["cost_usd"] for event in first.run("--unsafe-local").named("answer")]
    budget = str(sum(costs) - costs[-1] / 2)
    yard = make_yard(creates("A"))
    killed = yard.process(
        ["run", "board.md", "--json", "--unsafe-local"],
        TASKYARD_FAULT="landing.tip.before",
        TASKYARD_IMPLEMENTER_TASK_BUDGET_USD=budget,
    )
    assert killed.code == -9
    paid = yard.paid
    ran = yard.process(["resume", "--json", "--unsafe-local"], TASKYARD_IMPLEMENTER_TASK_BUDGET_USD=budget)
    assert (ran.code, ran.counts) == (0, {"merged": 1})
    assert yard.paid == paid == len(costs)
