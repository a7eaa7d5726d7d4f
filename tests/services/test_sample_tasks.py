"""The practice model at work on the sample project: real files, real unittest processes, tools written here."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from taskyard.services.practice import project
from taskyard.services.practice.model import answer

ROW = re.compile(r"^\| (SD-\d+) \| (.+?) \| \[ \] \| .*$", re.MULTILINE)
OWN_CHECK = re.compile(r"`(python3 -m [^`]+)`")
SUITE = "python3 -m unittest -q"
TASKS = [f"SD-{number}" for number in range(1, 10)]
LESSON = """\
<lesson id="a1">
Failure (check_failed): AssertionError: '1.0 MiB' != '1010.0 KiB' : the units are binary: 1010 KiB is not yet a MiB
</lesson>"""

Board = dict[str, tuple[str, dict[str, str]]]


def read_rows(board: bytes) -> Board:
    """id → (text, checks by name, the task's own first)"""
    tasks: Board = {}
    for match in ROW.finditer(board.decode()):
        own = OWN_CHECK.search(match[0].rpartition("[ ]")[2])
        tasks[match[1]] = (match[2], ({"verify-1": own[1]} if own else {}) | {"test": SUITE})
    return tasks


def lay_out(folder: Path, files: Mapping[str, tuple[bytes, bool]]) -> Path:
    for path, (content, _) in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def run(command: str, folder: Path) -> tuple[int, str]:
    """(exit code, output) of a check"""
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PATH": f"{folder.parent / 'bin'}:{os.environ['PATH']}"}
    environ.pop("PYTHONPATH", None)
    ended = subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return ended.returncode, ended.stdout


def prompt(task: str, text: str, checks: Mapping[str, str], sections: str = "") -> str:
    listed = "\n".join(f"- `{name}`: `{command}`" for name, command in checks.items())
    return f"# Task {task}\n\n{text}\n\n## Acceptance\n\n(none given)\n\n## Checks\n\n{listed}\n{sections}"


def request(role: str, text: str, checks: Mapping[str, str]) -> dict[str, Any]:
    tools = {"planner": ["plan"], "judge": ["verdict"]}.get(
        role, ["view", "search", "edit", "create", "delete", "run_check", "finish"]
    )
    schema = {"type": "object", "properties": {"name": {"type": "string", "enum": list(checks)}}}
    return {
        "model": "practice",
        "max_tokens": 4096,
        "tools": [{"name": name, "input_schema": schema if name == "run_check" else {}} for name in tools],
        "messages": [{"role": "user", "content": [{"type": "text", "text": text}]}],
    }


class Tools:
    """The implementer's tools on a folder; `calls` keeps what was asked."""

    def __init__(self, folder: Path, checks: Mapping[str, str]) -> None:
        self.folder, self.checks = folder, checks
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.refused: list[str] = []

    def use(self, name: str, given: dict[str, Any]) -> tuple[str, bool]:
        """(result, is it an error)"""
        self.calls.append((name, given))
        try:
            return getattr(self, f"_{name}")(**given), False
        except (OSError, ValueError) as error:
            self.refused.append(str(error))
            return str(error), True

    def _view(self, path: str, **_: None) -> str:
        lines = (self.folder / path).read_text(encoding="utf-8").splitlines()
        return "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, 1))

    def _search(self, pattern: str, glob: str | None) -> str:
        found = []
        for path in sorted(self.folder.rglob(glob or "*")):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if re.search(pattern, line):
                    found.append(f"{path.relative_to(self.folder)}:{number}:{line}")
        return "\n".join(found)

    def _edit(self, path: str, old: str, new: str, count: int | None) -> str:
        text = (self.folder / path).read_text(encoding="utf-8")
        if text.count(old) != (count or 1):
            raise ValueError(f"the text stands {text.count(old)} times in {path}")
        (self.folder / path).write_text(text.replace(old, new), encoding="utf-8")
        return "ok: changed"

    def _create(self, path: str, text: str) -> str:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        with (self.folder / path).open("x", encoding="utf-8") as file:
            file.write(text)
        return "ok: created"

    def _delete(self, path: str) -> str:
        (self.folder / path).unlink()
        return "ok: deleted"

    def _run_check(self, name: str) -> str:
        exit_code, output = run(self.checks[name], self.folder)
        return f"exit {exit_code}\n{output}"

    def _finish(self, **_: str) -> str:
        return "ok"


def implement(folder: Path, text: str, checks: Mapping[str, str], turns: int = 12) -> Tools:
    """Let the model work in `folder` until it finishes."""
    tools = Tools(folder, checks)
    body = request("implementer", text, checks)
    for _ in range(turns):
        reply = answer(body)
        uses = [block for block in reply.content if block["type"] == "tool_use"]
        assert reply.stop_reason == "tool_use"
        assert len({use["id"] for use in uses}) == len(uses)
        results = []
        for use in uses:
            result, failed = tools.use(use["name"], use["input"])
            results.append({"type": "tool_result", "tool_use_id": use["id"], "content": result, "is_error": failed})
        if uses[-1]["name"] == "finish":
            return tools
        body["messages"] += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": results}]
    raise AssertionError(f"not finished after {turns} turns: {tools.calls}")


@pytest.fixture
def sample(tmp_path: Path) -> Callable[..., Path]:
    """Lays the sample project out in a new folder."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)

    def make(name: str = "project", tasks: int = 9) -> Path:
        return lay_out(tmp_path / name, project.files(tasks))

    return make


def work(folder: Path, task: str, sections: str = "") -> Tools:
    text, checks = read_rows((folder / "board.md").read_bytes())[task]
    return implement(folder, prompt(task, text, checks, sections), checks)


def reds(folder: Path, *tasks: str) -> list[str]:
    """The checks of these tasks that are not green."""
    board = read_rows((folder / "board.md").read_bytes())
    commands = {command for task in tasks for command in board[task][1].values()}
    return [output for command in sorted(commands) for exit_code, output in [run(command, folder)] if exit_code]


def test_the_samples_own_suite_is_green_on_the_base(sample: Callable[..., Path]) -> None:
    """Nothing is red before the first task, and the README's examples run."""
    folder = sample()
    code, output = run(f"{SUITE} && python3 -m doctest README.md", folder)
    assert (code, "OK" in output) == (0, True)


@pytest.mark.parametrize("task", [task for task in TASKS if task != "SD-2"])
def test_a_task_ends_with_green_checks_at_the_first_attempt(sample: Callable[..., Path], task: str) -> None:
    """Every task but the lesson task is done in one attempt, each call of it taken by the tools."""
    folder = sample()
    before = {path: path.read_bytes() for path in (folder / "tests").rglob("*.py")}
    if task == "SD-4":
        work(folder, "SD-3")
    tools = work(folder, task)
    assert reds(folder, task) == []
    assert tools.refused == []
    if task != "SD-5":
        assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize("task", TASKS)
def test_a_tasks_own_tests_fail_without_its_change(sample: Callable[..., Path], task: str) -> None:
    """What the model writes as tests tests something: with the base's sources the new tests are red."""
    folder = sample()
    work(folder, task, f"\n## Lessons from earlier failures\n\n{LESSON}\n")
    tests = [path for path in (folder / "tests").iterdir() if f"tests/{path.name}" not in project.files(9)]
    assert tests or task in ("SD-5", "SD-8")
    for path, (content, _) in project.files(9).items():
        if path.startswith("sundry/"):
            (folder / path).write_bytes(content)
    for path in tests:
        assert run(f"python3 -m unittest -q tests.{path.stem}", folder)[0] != 0


def test_the_lesson_task_is_red_without_the_lesson_and_green_with_it(sample: Callable[..., Path]) -> None:
    """The failed check's output alone does not do; the lesson itself does."""
    first = sample("first")
    assert [name for name, _ in work(first, "SD-2").calls][-2:] == ["run_check", "finish"]
    (output,) = reds(first, "SD-2")
    assert "1010.0 KiB" in output

    tried = f"\n## What was tried before\n\nAttempt 1: a check was red.\n\n```\n{LESSON}\n{output}```\n"
    second = sample("second")
    work(second, "SD-2", tried)
    (again,) = reds(second, "SD-2")
    assert "1010.0 KiB" in again
    assert (second / "sundry/sizes.py").read_bytes() != (first / "sundry/sizes.py").read_bytes()

    taught = sample("taught")
    tools = work(taught, "SD-2", f"\n## Lessons from earlier failures\n\n{LESSON}\n{tried}")
    assert reds(taught, "SD-2") == []
    assert [given["name"] for name, given in tools.calls if name == "run_check"] == ["verify-1", "test"]


def test_a_lesson_about_something_else_does_not_help(sample: Callable[..., Path]) -> None:
    """Only a lesson that states this failure brings the better answer."""
    folder = sample()
    other = '<lesson id="b2">\nFailure (check_failed): tests.test_slugs failed\n</lesson>'
    work(folder, "SD-2", f"\n## Lessons from earlier failures\n\n{other}\n")
    assert len(reds(folder, "SD-2")) == 1


@pytest.mark.parametrize("order", [("SD-6", "SD-7"), ("SD-7", "SD-6")])
def test_the_two_commands_conflict_and_the_second_lands_from_the_tip(
    sample: Callable[..., Path], order: tuple[str, str]
) -> None:
    """In both orders: merged over the base they conflict; a further attempt from the tip holds both."""
    base, tip, other = sample("base"), sample("tip"), sample("other")
    first, second = order
    work(tip, first)
    work(other, second)
    merge = f"git merge-file -p {tip}/sundry/cli.py {base}/sundry/cli.py {other}/sundry/cli.py"
    conflicts, merged = run(merge, base)
    assert conflicts > 0

    tools = work(tip, second, f"\n## What was tried before\n\nAttempt 1: conflict.\n\n```\n{merged}```\n")
    assert tools.refused == []
    assert reds(tip, first, second) == []


@pytest.mark.parametrize("backwards", [False, True])
def test_all_nine_fit_on_one_another(sample: Callable[..., Path], backwards: bool) -> None:
    """In any order that keeps the dependency, each task done on the others' work, everything ends green."""
    folder = sample()
    order = sorted(TASKS, reverse=backwards)
    if backwards:
        order.remove("SD-4")
        order.append("SD-4")
    for task in order:
        assert work(folder, task, f"\n## Lessons from earlier failures\n\n{LESSON}\n").refused == []
    assert reds(folder, *TASKS) == []


def test_no_two_other_tasks_conflict(sample: Callable[..., Path]) -> None:
    """Only the pair that is meant to touches the same lines: all else merges over the base, file by file."""
    base = sample("base")
    changed = {}
    for task in TASKS:
        folder = sample(task)
        if task == "SD-4":
            continue  # starts from the tip that holds SD-3
        work(folder, task)
        names = [str(path.relative_to(folder)) for path in folder.rglob("*.*") if path.is_file()]
        changed[task] = {
            name: folder / name
            for name in names
            if (base / name).exists() and (base / name).read_bytes() != (folder / name).read_bytes()
        }
    clashes = set()
    for one, files in changed.items():
        for two in [task for task in changed if task > one]:
            for name in files.keys() & changed[two].keys():
                if run(f"git merge-file -p {files[name]} {base / name} {changed[two][name]}", base)[0]:
                    clashes.add((one, two))
    assert clashes == {("SD-6", "SD-7")}


def test_sixty_tasks_are_sixty_different_tasks(sample: Callable[..., Path]) -> None:
    """Beyond nine there are real variations; a sample of them, done on one another, ends green."""
    folder = sample("project", 60)
    board = read_rows((folder / "board.md").read_bytes())
    assert list(board) == [f"SD-{number}" for number in range(1, 61)]
    assert len({text for text, _ in board.values()}) == 60
    assert len({checks["verify-1"] for _, checks in list(board.values())[9:]}) == 51
    assert run(SUITE, folder)[0] == 0
    chosen = [f"SD-{number}" for number in range(10, 61, 4)]
    for task in chosen:
        assert reds(folder, task) != []
        assert work(folder, task).refused == []
    assert reds(folder, *chosen) == []


def test_answers_do_not_depend_on_the_hash_seed() -> None:
    """The same body gives the same reply in processes with other hash seeds."""
    text, checks = read_rows(project.files(9)["board.md"][0])["SD-9"]
    bodies = [request(role, prompt("SD-9", text, checks), checks) for role in ("planner", "implementer", "judge")]
    code = (
        "import json, sys; from taskyard.services.practice.model import answer\n"
        "for body in json.load(sys.stdin):\n"
        "    reply = answer(body); print(json.dumps([reply.content, reply.stop_reason]))"
    )
    replies = {
        subprocess.run(
            [sys.executable, "-c", code],
            input=json.dumps(bodies),
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "77")
    }
    assert len(replies) == 1
    here = [[answer(body).content, answer(body).stop_reason] for body in bodies]
    assert [json.loads(line) for line in replies.pop().splitlines()] == here
