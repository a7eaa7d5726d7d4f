"""The push at the end of a run: whole, partial, refused, late, and onto a target that moves."""

from collections.abc import Mapping
from typing import Any

WHEN_IDLE = """
[landing]
max_age_s = 60
"""


def test_the_remote_refuses_and_the_run_goes_on_once_it_does_not(make_yard: Any, creates: Any) -> None:
    """`landing` counts what is verified but not at the remote; exit 1, resumable; then one push and nothing paid."""
    yard = make_yard(creates("A"), creates("B"))
    yard.refuse_pushes()
    ran = yard.run()
    assert (ran.code, ran.counts) == (1, {"landing": 2})
    assert "not today" in ran.warnings()["not_pushed"]
    assert (ran.finished["pushes"], yard.pushes, set(yard.branches())) == (1, 1, {"main"})
    assert yard.resume().counts == {"landing": 2}
    yard.accept_pushes()
    paid = yard.paid
    done = yard.resume()
    assert (done.code, done.counts, yard.paid) == (0, {"merged": 2}, paid)
    assert set(yard.landed(yard.tip(done))) == {"A", "B"}
    assert done.finished["pushes"] == yard.pushes == 3
    assert done.finished["run"] == ran.finished["run"]


def test_a_partial_push_is_exit_1_and_resume_pushes_the_rest(make_yard: Any) -> None:
    """The first push by the clock arrives, the second is refused: `merged` counts what arrived, `landing` the rest."""
    rows = [
        ("A", "Create `a.txt` with `a`.", "`test -f a.txt`", ""),
        ("B", "Create `b.txt` with `b`.", "`test -f b.txt`", "A"),
    ]
    yard = make_yard(
        *rows, columns="ID | Scope | Verification | Depends on", settings="\n[landing]\npush_every_s = 0.05\n"
    )
    yard.refuse_pushes(when="[ $(wc -l <../pushes) -gt 1 ]")

    def second_waits_for_the_first_push(body: Mapping[str, Any]) -> None:
        if "# Task B" in str(body):
            yard.wait_for(lambda: yard.pushes == 1)

    yard.on_request = second_waits_for_the_first_push
    ran = yard.run()
    assert (ran.code, ran.finished["reason"], ran.counts) == (1, "failed", {"merged": 1, "landing": 1})
    assert set(yard.landed(yard.tip(ran))) == {"A"}
    assert ran.finished["pushes"] == yard.pushes
    assert "not today" in ran.detail("B")
    yard.accept_pushes()
    done = yard.resume()
    assert (done.code, done.counts, yard.paid_twice) == (0, {"merged": 2}, [])
    assert list(yard.landed(yard.tip(done))) == ["A", "B"]
    assert done.finished["pushes"] == yard.pushes
    assert yard.read(yard.tip(done), "board.md").count("[x]") == 2


def test_a_push_to_the_target(make_yard: Any, creates: Any) -> None:
    """--push target puts the commits and the ticks on main, in one receive-pack, and makes no branch."""
    yard = make_yard(creates("A"), creates("B"))
    base = yard.branches()["main"]
    ran = yard.run("--push", "target")
    assert (ran.code, ran.counts, yard.pushes) == (0, {"merged": 2}, 1)
    assert set(yard.branches()) == {"main"}
    assert set(yard.landed("main", base)) == {"A", "B"}
    assert yard.read("main", "board.md").count("[x]") == 2
    assert ran.named("landed", pushed=True)[0]["ref"] == "refs/heads/main"


def test_no_push_leaves_the_remote_as_it_is(make_yard: Any, creates: Any) -> None:
    """--push none: `merged` is what is on the tip; the commits are kept in our own repository."""
    yard = make_yard(creates("A"))
    ran = yard.run("--push", "none")
    assert (ran.code, ran.counts, ran.finished["pushes"], yard.pushes) == (0, {"merged": 1}, 0, 0)
    assert set(yard.branches()) == {"main"}


def test_the_target_moves_and_the_commits_follow(make_yard: Any, creates: Any) -> None:
    """They are put on the new tip, verified there, and pushed; nobody's commit is lost and nothing is paid again."""
    yard = make_yard(creates("A"), creates("B"), settings=WHEN_IDLE)
    moved: list[str] = []
    yard.at_first_request(lambda: moved.append(yard.move_main({"eve.txt": "eve\n"})))
    ran = yard.run("--push", "target")
    assert (ran.code, ran.counts) == (0, {"merged": 2})
    assert set(yard.landed("main", moved[0])) == {"A", "B"}
    assert {"eve.txt", "notes/A.txt", "notes/B.txt"} <= yard.files("main")
    assert yard.read("main", "board.md").count("[x]") == 2
    tree = yard.git("rev-parse", f"{list(yard.landed('main', moved[0]).values())[-1]}^{{tree}}")
    assert ran.named("check_finished", where="landing", check="sound", tree=tree)
    assert yard.paid_twice == []


def test_the_target_moves_and_one_commit_can_not_follow(make_yard: Any, creates: Any) -> None:
    """That task is ▲ with its commit kept under refs/taskyard; the others are pushed, and only they are ticked."""
    row = ("W", "Append `new` to `word.txt`.", "`grep -q new word.txt`")
    yard = make_yard(row, creates("A"), files={"word.txt": "old\n"}, settings=WHEN_IDLE)
    moved: list[str] = []
    yard.at_first_request(lambda: moved.append(yard.move_main({"word.txt": "eve\n"})))
    ran = yard.run("--push", "target")
    assert (ran.code, ran.counts) == (4, {"merged": 1, "needs_you": 1})
    assert "conflict" in ran.detail("W")
    assert set(yard.landed("main", moved[0])) == {"A"}
    assert yard.read("main", "word.txt") == "eve\n"
    ticked = [line for line in yard.read("main", "board.md").splitlines() if "[x]" in line]
    assert [line.split("|")[1].strip() for line in ticked] == ["A"]
    (own,) = yard.state.glob("repo*/repository.git")
    kept = yard.git("log", "--all", "--format=%(trailers:key=Task-Id,valueonly,separator=%x2C)", at=own).splitlines()
    assert "W" in kept
    again = yard.resume()
    assert (again.code, again.counts) == (4, {"merged": 1, "needs_you": 1})
    assert "could not follow" in again.detail("W")
    assert yard.invoke(["decide", "W", "accept"]).code == 0
    assert yard.resume().counts == {"merged": 1, "needs_you": 1}
    assert yard.invoke(["decide", "W", "send-back", "--comment", "start from what is there"]).code == 0
    done = yard.resume()
    assert "journal_divergence" not in done.warnings()
    assert (done.code, done.counts) == (0, {"merged": 2})
    assert yard.read("main", "word.txt") == "eve\nnew\n"
    assert yard.resume().code == 2


def test_the_target_moves_and_turns_red_with_us(make_yard: Any) -> None:
    """What would be pushed is verified first: a red new tip is not pushed, and the commits are kept."""
    yard = make_yard(("A", "Create `a.txt` with `a`.", "`test ! -e eve.txt -a -f a.txt`"), settings=WHEN_IDLE)
    moved: list[str] = []
    yard.at_first_request(lambda: moved.append(yard.move_main({"eve.txt": "eve\n"})))
    ran = yard.run("--push", "target")
    assert (ran.code, ran.counts) == (1, {"landing": 1})
    assert yard.branches() == {"main": moved[0]}
    assert "verify-1" in ran.warnings()["not_pushed"]
    again = yard.resume()
    assert (again.code, again.counts, yard.branches()) == (1, {"landing": 1}, {"main": moved[0]})


def test_a_remote_that_is_gone_at_the_end_loses_nothing(make_yard: Any, creates: Any) -> None:
    """Exit 1 with `landing`; when it is back, `resume` pushes without paying."""
    yard = make_yard(creates("A"))
    away = yard.folder / "away.git"

    def unplug(_: Mapping[str, Any]) -> None:
        if not away.exists():
            yard.remote.rename(away)

    yard.on_request = unplug
    ran = yard.run()
    assert (ran.code, ran.counts, ran.finished["pushes"]) == (1, {"landing": 1}, 0)
    away.rename(yard.remote)
    paid = yard.paid
    done = yard.resume()
    assert (done.code, done.counts, yard.paid, yard.pushes) == (0, {"merged": 1}, paid, 1)


def test_the_target_moves_between_two_pushes(make_yard: Any) -> None:
    """What was pushed before stays merged, somebody else's commit on top of it stays, and the rest follows."""
    rows = [
        ("A", "Create `a.txt` with `a`.", "`test -f a.txt`", ""),
        ("B", "Create `b.txt` with `b`.", "`test -f b.txt`", "A"),
    ]
    yard = make_yard(
        *rows, columns="ID | Scope | Verification | Depends on", settings="\n[landing]\npush_every_s = 0.05\n"
    )
    base = yard.branches()["main"]
    moved = []

    def after_the_first_push(body: Mapping[str, Any]) -> None:
        if "# Task B" in str(body) and not moved:
            yard.wait_for(lambda: yard.branches()["main"] != base)
            moved.append(yard.move_main({"eve.txt": "eve\n"}))

    yard.on_request = after_the_first_push
    ran = yard.run("--push", "target")
    assert (ran.code, ran.counts) == (0, {"merged": 2})
    assert list(yard.landed("main", base)) == ["A", "B"]
    assert list(yard.landed("main", moved[0])) == ["B"]
    assert {"a.txt", "b.txt", "eve.txt"} <= yard.files("main")
    assert yard.read("main", "board.md").count("[x]") == 2


def test_a_push_whose_fate_nobody_can_tell_is_asked_for_before_the_next_one(make_yard: Any, creates: Any) -> None:
    """The remote takes the push and is gone before it says so: `landing`; later it is found there, and not repeated."""
    yard = make_yard(creates("A"))
    away = yard.folder / "away.git"
    hook = yard.remote / "hooks" / "post-receive"
    hook.write_text(f"#!/bin/sh\nmv '{yard.remote}' '{away}'\nkill -9 $PPID\n")
    hook.chmod(0o755)
    ran = yard.run()
    assert (ran.code, ran.counts) == (1, {"landing": 1})
    (away / "hooks" / "post-receive").unlink()
    away.rename(yard.remote)
    done = yard.resume()
    assert (done.code, done.counts, yard.paid_twice) == (0, {"merged": 1}, [])
    assert (done.finished["pushes"], yard.pushes) == (1, 1)
    assert yard.read(yard.tip(done), "board.md").count("[x]") == 1
