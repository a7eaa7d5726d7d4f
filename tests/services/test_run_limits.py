"""What a run may hold at once, in which order it goes, and what its tools and checks can do to a tree."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from taskyard.services.run import RunOptions, run_board


def names_of_calls(asked: list[Any]) -> set[str]:
    """The tools that the conversations in these requests have used."""
    return {
        block["name"]
        for body in asked
        for message in body["messages"]
        if message["role"] == "assistant"
        for block in message["content"]
        if block["type"] == "tool_use"
    }


def test_many_tasks_in_flight_hold_few_worktrees(make_yard: Any, creates: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty at once: all are begun before one has ended, and never more folders than slots, for work and for checks."""
    yard = make_yard(*(creates(f"T{number}") for number in range(40)), settings="\n[run]\nconcurrency = 3\n")
    peaks = {"work": 0, "verification": 0}
    begun: set[str] = set()
    begun_before_the_first_end = 0
    told: list[Any] = []

    def look(event: Any) -> None:
        nonlocal begun_before_the_first_end
        if getattr(event, "state", "") == "planning":
            begun.add(event.task)
        if getattr(event, "state", "") == "judging" and not begun_before_the_first_end:
            begun_before_the_first_end = len(begun)
        told.append(event)
        for pool in peaks:
            with suppress(FileNotFoundError):  # a folder went while it was looked into
                folders = list(yard.state.glob(f"cache/*/trees/{pool}/pool-*/w*/tree/board.md"))
                peaks[pool] = max(peaks[pool], len(folders))

    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.setenv(name, yard.environ[name])
    options = RunOptions(board="board.md", unsafe_local=yard.unsafe_local)
    code = asyncio.run(run_board(yard.repo, options, yard.environ, look))
    assert code == 0, [event for event in told if getattr(event, "state", "") == "failed" or hasattr(event, "code")]
    assert begun_before_the_first_end == 40
    assert 1 <= peaks["work"] <= 3
    assert 1 <= peaks["verification"] <= 3


def test_board_order_is_kept_where_nothing_else_decides(make_yard: Any, creates: Any) -> None:
    """One at a time: by the board, but a higher priority first."""
    rows = [(*creates(name), priority) for name, priority in (("C", ""), ("A", ""), ("D", "P0"), ("B", "low"))]
    yard = make_yard(*rows, columns="ID | Scope | Verification | Priority", settings="\n[run]\nmax_in_flight = 1\n")
    ran = yard.run()
    assert ran.code == 0
    assert [event["task"] for event in ran.named("task_state", state="planning")] == ["D", "C", "A", "B"]
    assert list(yard.landed(yard.tip(ran))) == ["D", "C", "A", "B"]


def test_a_task_begins_on_the_tip_that_holds_what_it_depends_on(make_yard: Any) -> None:
    """It sees and can change what the other one made."""
    yard = make_yard(
        ("B", "Append `two` to `list.txt`.", "`grep -q one list.txt && grep -q two list.txt`", "A"),
        ("A", "Create `list.txt` with `one`.", "`grep -q one list.txt`", ""),
        columns="ID | Scope | Verification | Depends on",
    )
    ran = yard.run()
    assert (ran.code, list(yard.landed(yard.tip(ran)))) == (0, ["A", "B"])
    assert yard.read(yard.tip(ran), "list.txt") == "one\ntwo\n"


def test_every_tool_goes_through_a_real_run(make_yard: Any) -> None:
    """view, edit, create, delete, run_check and finish, with what they did on the pushed tip."""
    text = "Replace `one` with `1` in `a.txt`. Delete `b.txt`. Create `c.txt` with `three`. Append `4` to `d.txt`."
    yard = make_yard(
        ("T", text, "`test ! -e b.txt`"), files={"a.txt": "one\none\n", "b.txt": "two\n", "d.txt": "no end of line"}
    )
    ran = yard.run()
    tip = yard.tip(ran)
    assert ran.code == 0
    assert {"view", "edit", "create", "delete", "run_check"} <= names_of_calls(yard.asked)
    assert yard.files(tip) == {"board.md", "taskyard.toml", "a.txt", "c.txt", "d.txt"}
    assert (yard.read(tip, "a.txt"), yard.read(tip, "c.txt")) == ("1\n1\n", "three\n")
    assert yard.read(tip, "d.txt") == "no end of line\n4\n"
    assert ran.named("check_finished", where="task", check="verify-1", exit=0)
    offered = {tool["name"] for body in yard.asked for tool in body["tools"]}
    assert offered == {"plan", "verdict", "view", "search", "edit", "create", "delete", "run_check", "finish"}


def test_protected_files_stay_as_they_are(make_yard: Any) -> None:
    """A task that tries to weaken a test is told so; with `Tests: change` it may."""
    rows = [
        ("A", "Replace `strict` with `lax` in `tests/rules.txt`. Create `a.txt` with `a`.", "`test -f a.txt`", ""),
        ("B", "Delete `tests/old.txt`. Create `b.txt` with `b`.", "`test -f b.txt`", "change"),
        ("C", "Create `tests/new.txt` with `new`.", "`test -f tests/new.txt`", ""),
    ]
    files = {"tests/rules.txt": "strict\n", "tests/old.txt": "old\n"}
    yard = make_yard(*rows, columns="ID | Scope | Verification | Tests", files=files)
    ran = yard.run()
    tip = yard.tip(ran)
    assert yard.read(tip, "tests/rules.txt") == "strict\n"
    assert "tests/old.txt" not in yard.files(tip)
    assert "tests/new.txt" in yard.files(tip)
    told = [body for body in yard.asked if "# Task A" in str(body) and "is protected" in str(body["messages"])]
    assert told


def test_what_a_check_leaves_behind_never_gets_into_a_commit(make_yard: Any, creates: Any) -> None:
    """Generated files, changed files, ignored ones, a repository inside: only what the tools touched is committed."""
    litter = (
        "mkdir -p __pycache__ out inner/.git && echo x > __pycache__/m.pyc && echo y > out/made.txt "
        "&& echo z >> keep.txt && echo ref: refs/heads/main > inner/.git/HEAD"
    )
    toml = f'[checks]\nlitter = "{litter}"\n'
    yard = make_yard(creates("A", "(runs litter)"), creates("B"), files={"taskyard.toml": toml, "keep.txt": "kept\n"})
    ran = yard.run()
    tip = yard.tip(ran)
    assert (ran.code, ran.counts) == (0, {"merged": 2})
    assert ran.named("check_finished", where="task", check="litter")
    assert yard.files(tip) == {"board.md", "taskyard.toml", "keep.txt", "notes/A.txt", "notes/B.txt"}
    assert yard.read(tip, "keep.txt") == "kept\n"
    assert yard.git("status", "--porcelain", at=yard.repo) == ""


def test_a_green_check_is_run_once_for_a_tree(make_yard: Any, creates: Any) -> None:
    """Again with the same tree, command and environment the result is taken from the record."""
    yard = make_yard(creates("A"))
    first = yard.run()
    again = yard.run("--again", "--push", "none")
    ran = [(e["tree"], e["check"]) for e in first.named("check_finished", source="run") if e["exit"] == 0]
    assert len(ran) == len(set(ran))
    assert again.named("check_finished", source="run") == []


def test_the_checks_of_the_tip_are_run_on_the_tip(make_yard: Any) -> None:
    """Two changes that are green alone and red together: the second is sent back, and the pushed tip is green."""
    check = "`test $(cat count/*.txt | wc -l) -le 1`"
    yard = make_yard(
        ("A", "Create `count/a.txt` with `a`.", check), ("B", "Create `count/b.txt` with `b`.", check),
        settings="\n[landing]\nmax_age_s = 60\n",
    )  # fmt: skip
    ran = yard.run()
    landed = set(yard.landed(yard.tip(ran)))
    assert len(landed) == 1
    assert ran.code in {1, 4}
    assert ran.counts["merged"] == 1
    assert len({path for path in yard.files(yard.tip(ran)) if path.startswith("count/")}) == 1
    (other,) = {"A", "B"} - landed
    assert ran.named("landing", step="refused", detail="red", tasks=[other])
