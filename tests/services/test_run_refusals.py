"""Bad input: exit 2, one message that says what, where and what to do, nothing spent, nothing half done."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest


def refused(yard: Any, *arguments: str, board: str = "board.md", **environ: str) -> str:
    """The message of a run that must not begin; everything else is as before."""
    before = {"branches": yard.branches(), "status": yard.git("status", "--porcelain", at=yard.repo)}
    ran = yard.invoke(["run", board, "--json", *arguments], **environ)
    assert (ran.code, ran.out) == (2, ""), ran.out + ran.err
    message = ran.err.removeprefix("taskyard: error: ")
    assert (ran.err.startswith("taskyard: error: "), ran.err.count("taskyard: error")) == (True, 1)
    assert "Traceback" not in ran.err
    assert before == {"branches": yard.branches(), "status": yard.git("status", "--porcelain", at=yard.repo)}
    assert (yard.paid, yard.pushes) == (0, 0)
    assert yard.invoke(["status", "--json"]).code == 2
    return message


HEAD = "| ID | Scope | Status |\n|---|---|---|\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["board.md", "table"]),
        (b"# Only prose\n\nNothing to do.\n", ["board.md", "table"]),
        (f"{HEAD}| A | one | [ ] |\n| A | two | [ ] |\n".encode(), ["board.md", "id A", "line 3", "line 4"]),
        (f"{HEAD}| A | one | two | [ ] |\n".encode(), ["board.md line 3", "|"]),
        (f"{HEAD}| A | one | someday |\n".encode(), ["board.md line 3", "someday"]),
        (HEAD.encode() + b"| A | caf\xe9 | [ ] |\n", ["board.md", "UTF-8"]),
        (
            b"| ID | Scope | Status | Depends on |\n|---|---|---|---|\n| A | a | [ ] | B |\n| B | b | [ ] | A |\n",
            ["board.md", "A", "B"],
        ),
        (
            b"| ID | Scope | Status | Depends on |\n|---|---|---|---|\n| A | a | [ ] | ZZ |\n",
            ["board.md", "A", "ZZ"],
        ),
        (
            b"| ID | Scope | Status | Verification |\n|---|---|---|---|\n| A | a | [ ] | `nosuchprogram --all` |\n",
            ["board.md", "nosuchprogram"],
        ),
    ],
)
def test_a_board_that_can_not_be_understood(make_yard: Any, content: bytes, words: list[str]) -> None:
    """The message names the file and, where there is one, the line."""
    yard = make_yard()
    (yard.repo / "board.md").write_bytes(content)
    message = refused(yard)
    assert all(word in message for word in words), message


def test_no_such_board_and_a_folder(make_yard: Any, creates: Any) -> None:
    """Both are named as they were given."""
    yard = make_yard(creates("A"))
    assert "missing.md" in refused(yard, board="missing.md")
    assert "folder" in refused(yard, board=".")


def test_only_names_a_task_that_is_not_there(make_yard: Any, creates: Any) -> None:
    """The message names it and what there is."""
    message = refused(make_yard(creates("A"), creates("B")), "--only", "A,ZZ")
    assert "'ZZ'" in message
    assert "A, B" in message


def test_no_repository_and_no_commits(make_yard: Any, creates: Any, tmp_path: Path) -> None:
    """A folder outside of any repository, and a repository without a commit."""
    yard = make_yard(creates("A"))
    for name, words in (("plain", "repository"), ("empty", "commit")):
        folder = tmp_path / name
        folder.mkdir()
        shutil.copy(yard.repo / "board.md", folder)
        if name == "empty":
            subprocess.run(["git", "init", "-q", folder], check=True)
        ran = yard.process(["run", "board.md", "--json"], cwd=folder)
        assert (ran.code, ran.out, words in ran.err) == (2, "", True), ran.err
    assert yard.paid == 0


def test_no_remote_and_no_such_target(make_yard: Any, creates: Any) -> None:
    """The message says what there is instead."""
    yard = make_yard(creates("A"))
    message = refused(yard, TASKYARD_RUN_REMOTE="upstream")
    assert "upstream" in message
    assert "origin" in message
    message = refused(yard, TASKYARD_RUN_TARGET="trunk")
    assert "trunk" in message
    assert "main" in message
    yard.git("remote", "remove", "origin", at=yard.repo)
    assert "remote" in refused(yard)


def test_local_commits_that_the_remote_lacks(make_yard: Any, creates: Any) -> None:
    """Each is named; with --base REV the run starts where one says, and those commits come along."""
    yard = make_yard(creates("A"))
    commit = yard.change({"more.txt": "more\n"}, "A change of mine", push=False)
    message = refused(yard)
    assert commit[:7] in message
    assert "A change of mine" in message
    assert "--base" in message
    assert "nosuch" in refused(yard, "--base", "nosuch")
    ran = yard.run("--base", "HEAD")
    assert (ran.code, ran.counts, ran.named("run_started")[0]["base"]) == (0, {"merged": 1}, commit)
    assert yard.git("merge-base", "--is-ancestor", commit, yard.tip(ran)) == ""


def test_no_key_and_a_refused_key(make_yard: Any, creates: Any) -> None:
    """Learnt from the server for free, before a run exists."""
    yard = make_yard(creates("A"))
    assert "ANTHROPIC_API_KEY" in refused(yard, ANTHROPIC_API_KEY="")
    message = refused(yard, ANTHROPIC_API_KEY="refused-1")
    assert "key" in message
    assert "refused-1" not in message


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("nosuchcheck --now", ["nosuchcheck", "not found"]),
        ("./board.md", ["board.md", "chmod"]),
        ("python3 -m unittest -q", ["no tests"]),
        ("python3 -m nosuchmodule", ["nosuchmodule"]),
    ],
)
def test_a_check_that_can_not_really_run(make_yard: Any, creates: Any, command: str, words: list[str]) -> None:
    """A green exit code of a check that tests nothing is no proof either."""
    yard = make_yard(creates("A"), files={"taskyard.toml": f'[checks]\nmine = "{command}"\n'})
    message = refused(yard)
    assert all(word in message for word in ["mine", *words]), message
    assert refused(yard, "--allow-red-base") == message


def test_a_red_base_is_refused_unless_allowed_and_then_not_held_against_a_task(make_yard: Any, creates: Any) -> None:
    """The check's output is shown; with --allow-red-base the task lands although the check stays red."""
    toml = '[checks]\nold = "echo it is broken since May; exit 3"\n'
    yard = make_yard(creates("A", "(the base is red)"), files={"taskyard.toml": toml})
    message = refused(yard)
    assert all(word in message for word in ["old", "exit 3", "it is broken since May", "--allow-red-base"])
    ran = yard.run("--allow-red-base")
    assert (ran.code, ran.counts) == (0, {"merged": 1})
    assert {event["exit"] for event in ran.named("check_finished", check="old")} == {3}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[run]\nconcurency = 3\n", ["concurency", "concurrency", "taskyard.toml"]),
        ("[rum]\nconcurrency = 3\n", ["rum", "run", "taskyard.toml"]),
        ("[run]\nconcurrency = 0\n", ["concurrency", "taskyard.toml"]),
        ('[run]\npush = "force"\n', ["push", "branch", "target", "none"]),
        ("[run\n", ["taskyard.toml"]),
    ],
)
def test_settings_that_are_wrong(make_yard: Any, creates: Any, text: str, words: list[str]) -> None:
    """An unknown key is told with the nearest name."""
    yard = make_yard(creates("A"), files={"taskyard.toml": text})
    message = refused_without_status(yard)
    assert all(word in message for word in words), message


def refused_without_status(yard: Any, **environ: str) -> str:
    """`refused`, where wrong settings would be in the way of `status` too."""
    ran = yard.invoke(["run", "board.md", "--json"], **environ)
    assert (ran.code, ran.out, yard.paid, set(yard.branches())) == (2, "", 0, {"main"})
    return str(ran.err)


def test_a_wrong_setting_in_the_environment_names_the_variable(make_yard: Any, creates: Any) -> None:
    """As a person can find it."""
    message = refused_without_status(make_yard(creates("A")), TASKYARD_RUN_CONCURRENCY="many")
    assert "TASKYARD_RUN_CONCURRENCY" in message


@pytest.mark.needs_bwrap
def test_without_a_sandbox_it_says_what_to_install_and_unsafe_local_goes_on(
    make_yard: Any, creates: Any, tmp_path: Path
) -> None:
    """Exit 2 without bwrap on PATH; --unsafe-local runs all the same."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("git", "sh", "grep", "test", "cat"):
        (tools / name).symlink_to(str(shutil.which(name)))
    yard = make_yard(creates("A"))
    message = refused(yard, PATH=os.fspath(tools))
    assert "bubblewrap" in message
    assert "--unsafe-local" in message
    yard.environ["PATH"] = os.fspath(tools)
    ran = yard.run("--unsafe-local")
    assert (ran.code, ran.counts) == (0, {"merged": 1})


def test_two_boards_at_once_are_refused(make_yard: Any, creates: Any) -> None:
    """The second is told who is at work; the first ends as if nothing had been."""
    yard = make_yard(creates("A"))
    second: list[Any] = []
    yard.at_first_request(lambda: second.append(yard.process(["run", "board.md", "--json"])))
    first = yard.run()
    assert (first.code, first.counts) == (0, {"merged": 1})
    assert (second[0].code, second[0].out) == (2, "")
    assert first.finished["run"] in second[0].err


def test_a_server_that_is_away_is_tried_again_before_a_run_exists(make_yard: Any, creates: Any) -> None:
    """The first try meets a dead connection; the run begins once the server answers."""
    from taskyard.services.practice import Fault

    yard = make_yard(creates("A"), faults=[Fault("drop_before", path="count_tokens")])
    ran = yard.run()
    assert (ran.code, ran.counts) == (0, {"merged": 1})
