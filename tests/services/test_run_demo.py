"""`taskyard demo --headless --json --keep`: one run of the sample project, looked at from all sides."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from taskyard.services.events import decode
from taskyard.services.practice import project

COMMAND = [sys.executable, "-c", "from taskyard.tui.cli import main; main()", "demo", "--headless", "--json", "--keep"]
TASKS = [f"SD-{number}" for number in range(1, 10)]
TERMINAL = {"merged", "failed", "needs_you", "cancelled", "skipped"}
FIELDS = {
    "run_started": "board base tasks lane concurrency budget_usd resumed",
    "task_state": "task state attempt detail",
    "answer": "task role attempt turn model lane source key input_tokens output_tokens cache_read_tokens "
    "cache_write_tokens cost_usd saved_usd",
    "check_finished": "task check tree exit seconds source where",
    "lesson": "lesson task failure_type times_seen action",
    "landing": "landing step tasks detail",
    "landed": "landing tasks commit ref pushed",
    "warning": "code message",
    "run_finished": "tasks exit reason cost_usd possibly_paid_usd saved_usd requests pushes wall_s work_s speedup",
}


class Demo(NamedTuple):
    """What one demo came to."""

    code: int
    lines: list[bytes]
    err: str
    kept: Path

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]

    def git(self, *arguments: str, at: str = "remote.git") -> str:
        command = ["git", "-C", str(self.kept / at), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    @property
    def branch(self) -> str:
        return f"taskyard/{self.events[-1]['run']}"


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """The demo as a process, in a temporary folder of its own."""
    folder = tmp_path_factory.mktemp("demo")
    environ = {**os.environ, "TMPDIR": str(folder), "HOME": str(folder), "ANTHROPIC_API_KEY": "never used"}
    done = subprocess.run(COMMAND, cwd=folder, env=environ, capture_output=True, timeout=300)
    err = done.stderr.decode()
    kept = re.search(r"^kept: (.+)$", err, re.MULTILINE)
    assert kept, err
    return Demo(done.returncode, done.stdout.splitlines(), err, Path(kept[1]))


def test_nine_merged_in_one_push(demo: Demo) -> None:
    """Exit 0; the remote's own counter says one receive-pack; it says that the model is a practice model."""
    last = demo.events[-1]
    assert (demo.code, last["exit"], last["reason"], last["tasks"], last["pushes"]) == (0, 0, "done", {"merged": 9}, 1)
    assert (demo.kept / "pushes").read_text() == "push\n"
    assert "practice model" in demo.err
    assert {path.name for path in demo.kept.iterdir()} == {"repo", "remote.git", "pushes", "state"}


def test_every_line_is_an_event_of_the_contract(demo: Demo) -> None:
    """Each decodes and has the fields of the table; `run_started` comes first, `run_finished` last, each once."""
    for line, event in zip(demo.lines, demo.events, strict=True):
        decode(line)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["at"])
        assert set(event) == {"event", "at", "run", *FIELDS[event["event"]].split()}
    names = [event["event"] for event in demo.events]
    assert (names[0], names[-1]) == ("run_started", "run_finished")
    assert names.count("run_started") == names.count("run_finished") == 1
    assert len({event["run"] for event in demo.events}) == 1
    assert demo.events[0]["tasks"] == 9
    assert demo.events[0]["base"] == demo.git("rev-parse", "main").strip()


@pytest.mark.parametrize("task", TASKS)
def test_the_events_of_a_task_are_in_causal_order(demo: Demo, task: str) -> None:
    """Queued first; the states of an attempt in the order of the pipeline; answers within the state that asks."""
    mine = [event for event in demo.events if event.get("task") == task]
    states = [event for event in mine if event["event"] == "task_state"]
    assert [states[0]["state"], states[-1]["state"]] == ["queued", "merged"]
    way = ["planning", "implementing", "verifying", "judging", "landing"]
    for attempt in range(1, states[-1]["attempt"] + 1):
        passed = [s["state"] for s in states if s["attempt"] == attempt and s["state"] in way]
        assert passed == way[: len(passed)]
    assert [s["attempt"] for s in states] == sorted(s["attempt"] for s in states)
    asks = {"planner": "planning", "implementer": "implementing", "judge": "judging"}
    state = ""
    turns: Counter[tuple[str, int]] = Counter()
    for event in mine:
        if event["event"] == "task_state":
            state = event["state"]
        elif event["event"] == "answer":
            assert state == asks[event["role"]]
            turns[event["role"], event["attempt"]] += 1
            assert event["turn"] == turns[event["role"], event["attempt"]]
        elif event["event"] == "check_finished":
            assert state == {"task": "implementing", "gate": "verifying"}[event["where"]]


def test_a_task_is_merged_once_its_commit_is_on_the_verified_tip(demo: Demo) -> None:
    """`landed` with `pushed` false comes before each `merged`; one with `pushed` true names all nine, at the end."""
    seen: set[str] = set()
    for event in demo.events:
        if event["event"] == "landed":
            seen |= set(event["tasks"])
        if event["event"] == "task_state" and event["state"] == "merged":
            assert event["task"] in seen
    pushed = [event for event in demo.events if event["event"] == "landed" and event["pushed"]]
    assert [sorted(event["tasks"]) for event in pushed] == [TASKS]
    assert pushed[0]["ref"] == f"refs/heads/{demo.branch}"
    assert pushed[0]["commit"] == demo.git("rev-parse", demo.branch).strip()


def test_one_commit_a_task_with_its_trailers(demo: Demo) -> None:
    """Linear; Task-Id, Run-Id, Task-Key and Attempt; the last attempt's number; and one commit of ticks on top."""
    form = "%H%x00%P%x00%(trailers:only,unfold)%x01"
    commits = [
        part.strip("\n")
        for part in demo.git("log", "--reverse", f"--format={form}", f"main..{demo.branch}").split("\x01")
    ][:-1]
    trailers = []
    for commit in commits:
        _, parents, text = commit.split("\0")
        assert len(parents.split()) == 1
        trailers.append(dict(line.split(": ", 1) for line in text.splitlines() if line))
    assert {t["Run-Id"] for t in trailers} == {demo.events[-1]["run"]}
    own = [t for t in trailers if "Task-Id" in t]
    assert sorted(t["Task-Id"] for t in own) == TASKS
    assert len({t["Task-Key"] for t in own}) == 9
    attempts = {e["task"]: str(e["attempt"]) for e in demo.events if e["event"] == "task_state"}
    assert {t["Task-Id"]: t["Attempt"] for t in own} == attempts
    assert ["Task-Id" in t for t in trailers] == [True] * 9 + [False]


def test_the_ticks_are_in_the_history_and_not_one_other_byte_of_the_board_changed(demo: Demo) -> None:
    """Nine cells `[ ]` become `[x]`."""
    before = project.files(9)["board.md"][0]
    after = demo.git("show", f"{demo.branch}:board.md").encode()
    assert after == before.replace(b"| [ ] |", b"| [x] |")
    assert before.count(b"| [ ] |") == 9


def test_the_pushed_tip_passes_the_projects_own_tests(demo: Demo, tmp_path: Path) -> None:
    """In a fresh clone, and with no file in it that a check has left behind."""
    subprocess.run(["git", "clone", "-q", "-b", demo.branch, demo.kept / "remote.git", tmp_path / "clone"], check=True)
    names = demo.git("ls-tree", "-r", "--name-only", demo.branch).splitlines()
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc") or ".taskyard" in name]
    run = subprocess.run([sys.executable, "-m", "unittest"], cwd=tmp_path / "clone", capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    ran = re.search(r"^Ran (\d+) tests", run.stderr, re.MULTILINE)
    old = re.findall(rb"def test_", b"".join(data for path, (data, _) in project.files(9).items() if "tests/" in path))
    assert ran
    assert int(ran[1]) > len(old)


def test_the_checkout_is_as_before(demo: Demo) -> None:
    """HEAD, index and configuration; its status shows nothing but the lessons; no worktree and no ref was added."""
    base = demo.events[0]["base"]
    assert demo.git("rev-parse", "HEAD", "main", "origin/main", at="repo").split() == [base] * 3
    assert demo.git("symbolic-ref", "HEAD", at="repo") == "refs/heads/main\n"
    assert demo.git("status", "--porcelain", "-uall", at="repo") == "?? .taskyard/lessons.jsonl\n"
    assert demo.git("diff", "--cached", "--name-only", at="repo") == ""
    assert len(demo.git("worktree", "list", at="repo").splitlines()) == 1
    refs = demo.git("for-each-ref", "--format=%(refname)", at="repo").split()
    assert set(refs) <= {"refs/heads/main", "refs/remotes/origin/main", "refs/remotes/origin/HEAD"}
    for path, (data, _) in project.files(9).items():
        assert (demo.kept / "repo" / path).read_bytes() == data


def test_one_task_learns_and_one_meets_a_conflict(demo: Demo) -> None:
    """The lesson is recorded, offered to the second attempt, and resolved when that lands."""
    lessons = [(e["task"], e["action"]) for e in demo.events if e["event"] == "lesson" and e["task"] == "SD-2"]
    assert lessons == [("SD-2", "recorded"), ("SD-2", "offered"), ("SD-2", "resolved")]
    refused = [e for e in demo.events if e["event"] == "landing" and e["step"] == "refused"]
    assert [(len(e["tasks"]), e["detail"]) for e in refused] == [(1, "conflict")]
    again = {e["task"] for e in demo.events if e["event"] == "task_state" and e["attempt"] == 2}
    assert again == {"SD-2", *refused[0]["tasks"]}


def test_the_counts_add_up(demo: Demo) -> None:
    """The totals are the sums of the events; the clock's figures are sane."""
    answers = [event for event in demo.events if event["event"] == "answer"]
    last = demo.events[-1]
    assert last["requests"]["paid"] == last["requests"]["live"] == sum(a["source"] == "paid" for a in answers)
    assert last["requests"]["cache"] == sum(a["source"] == "cache" for a in answers)
    assert last["requests"]["shared"] == sum(a["source"] == "shared" for a in answers)
    assert last["cost_usd"] == pytest.approx(sum(a["cost_usd"] for a in answers))
    assert last["saved_usd"]["cache"] == pytest.approx(sum(a["saved_usd"] for a in answers if a["source"] == "cache"))
    assert 0 < last["wall_s"] < 300
    assert last["speedup"] > 1
    assert last["work_s"] > 0


def test_no_process_and_no_worktree_is_left(demo: Demo) -> None:
    """Nothing that runs names the demo's folder, and the cache folder holds no tree."""
    listed = subprocess.run(["ps", "-axww", "-o", "command"], capture_output=True, text=True, check=True).stdout
    assert [line for line in listed.splitlines() if str(demo.kept) in line] == []
    trees = [path for path in (demo.kept / "state").glob("cache/*/trees/*/*") if path.name != "lock"]
    assert trees == []


def test_state_is_for_the_owner_alone(demo: Demo) -> None:
    """Folders 0700, files 0600: answers and code of somebody's project."""
    (own,) = (path for path in (demo.kept / "state").iterdir() if path.name != "cache")
    assert own.stat().st_mode & 0o077 == 0
    assert (own / "taskyard.db").stat().st_mode & 0o077 == 0
