"""What one run remembers of another, and what a person decided, changed or forgot in between."""

from typing import Any

import pytest

from taskyard.services.run import ready

NONSENSE = "(the judge answers nonsense)"


def test_the_last_word_of_a_person_counts(make_yard: Any, creates: Any) -> None:
    """Accept, then reject: rejected, and said so at once."""
    yard = make_yard(creates("A", NONSENSE))
    assert yard.run().code == 4
    assert yard.invoke(["decide", "A", "accept"]).code == 0
    assert "replaces accept" in yard.invoke(["decide", "A", "reject"]).out
    done = yard.resume()
    assert (done.code, done.counts, yard.pushes) == (1, {"failed": 1}, 0)


def test_a_decision_is_about_the_attempt_that_was_looked_at(make_yard: Any, creates: Any) -> None:
    """An accept that was replaced by send-back does not land the attempt that follows."""
    yard = make_yard(creates("A", NONSENSE))
    yard.run()
    for decision in ("accept", "send-back"):
        yard.invoke(["decide", "A", decision])
    again = yard.resume()
    assert (again.code, again.counts) == (4, {"needs_you": 1})
    assert ("needs_you", 2) in again.states("A")
    assert yard.resume().counts == {"needs_you": 1}


def test_a_commit_says_that_a_person_accepted_it(make_yard: Any, creates: Any) -> None:
    """With the comment, as one more trailer."""
    yard = make_yard(creates("A", NONSENSE))
    yard.run()
    yard.invoke(["decide", "A", "accept", "--comment", "looks\ngood"])
    done = yard.resume()
    (commit,) = yard.landed(yard.tip(done)).values()
    assert "Accepted-By: a person: looks good" in yard.git("log", "-1", "--format=%B", commit)


def test_a_box_that_is_ticked_for_an_unmerged_branch_is_not_taken_as_done(make_yard: Any) -> None:
    """The board is not committed, so it was ticked in place; what depends on the task waits for its branch."""
    yard = make_yard(("X", "Create `x.txt` with `x`.", "`test -f x.txt`"))
    board = yard.repo / "own.md"
    head = "| ID | Scope | Status | Verification | Depends on |\n|---|---|---|---|---|\n"
    one = "| A | Create `a.txt` with `a`. | [ ] | `test -f a.txt` | |\n"
    board.write_text(head + one)
    first = yard.run(board="own.md")
    assert (first.code, board.read_text().count("[x]")) == (0, 1)
    board.write_text(board.read_text() + "| B | Create `b.txt` with `b`. | [ ] | `test -f b.txt` | A |\n")
    second = yard.run(board="own.md")
    assert (second.code, second.counts) == (0, {"skipped": 1})
    assert f"taskyard/{first.finished['run']}" in second.detail("B")
    yard.git("update-ref", "refs/heads/main", yard.branches()[f"taskyard/{first.finished['run']}"])
    third = yard.run(board="own.md")
    assert (third.code, third.counts) == (0, {"merged": 1})
    assert {"a.txt", "b.txt"} <= yard.files(yard.tip(third))


def test_resume_leaves_out_what_another_run_has_landed(make_yard: Any, creates: Any) -> None:
    """One task, one commit: the second run's work is not pushed again by the first."""
    yard = make_yard(creates("A"), creates("B", NONSENSE))
    first = yard.run("--only", "B")
    assert first.code == 4
    yard.invoke(["decide", "B", "reject"])
    second = yard.run("--only", "A")
    third = yard.run("--only", "B", "--again")
    assert "interrupted_run" in third.warnings()
    yard.invoke(["decide", "B", "accept"])
    landed = yard.resume(third.finished["run"])
    assert landed.counts == {"merged": 1}
    old = yard.resume(first.finished["run"])
    assert (old.code, old.counts) == (0, {"skipped": 1})
    assert set(yard.branches()) == {"main", *(f"taskyard/{run.finished['run']}" for run in (second, third))}


def test_resume_goes_on_with_the_last_run_only(make_yard: Any, creates: Any) -> None:
    """When that is finished it names the older ones instead of digging one up."""
    yard = make_yard(creates("A", NONSENSE), creates("B"))
    old = yard.run("--only", "A")
    yard.run("--only", "B")
    refused = yard.resume()
    assert (refused.code, refused.out) == (2, "")
    assert old.finished["run"] in refused.err
    assert yard.resume(old.finished["run"]).code == 4


def test_an_edited_board_is_not_read_by_resume_and_that_is_said(make_yard: Any, creates: Any) -> None:
    """The run goes on with what it read when it began."""
    yard = make_yard(creates("A", NONSENSE))
    first = yard.run()
    assert "board_edited" not in yard.resume().warnings()
    board = yard.repo / "board.md"
    board.write_text(board.read_text().replace("notes/A.txt", "other.txt"))
    again = yard.resume()
    assert again.finished["run"] == first.finished["run"]
    assert "board.md was edited" in again.warnings()["board_edited"]


def test_commits_of_the_checkout_that_the_base_lacks_are_told_of(make_yard: Any, creates: Any) -> None:
    """Somebody on a feature branch sees files that the run does not."""
    yard = make_yard(creates("A"))
    yard.git("switch", "-qc", "feature", at=yard.repo)
    yard.change({"z.txt": "z\n"}, push=False)
    ran = yard.run()
    assert (ran.code, "1 commit(s)" in ran.warnings()["other_branch"]) == (0, True)


def test_lessons_of_our_own_are_not_called_uncommitted_changes(make_yard: Any, creates: Any) -> None:
    """Taskyard appends them itself."""
    yard = make_yard(creates("A"), files={".taskyard/lessons.jsonl": ""})
    (yard.repo / ".taskyard" / "lessons.jsonl").write_text("\n")
    assert "dirty_checkout" not in yard.run().warnings()


def test_a_server_that_is_away_is_told_of_and_the_run_stops_resumable(
    make_yard: Any, creates: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """130 after the patience has run out, `run_finished` last; with a server it goes on."""
    monkeypatch.setattr(ready, "_UNREACHABLE_S", 0.3)
    monkeypatch.setattr(ready, "_RETRY_S", 0.1)
    yard = make_yard(creates("A"))
    url = yard.environ["ANTHROPIC_BASE_URL"]
    yard.environ["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:9"
    ran = yard.run()
    assert (ran.code, ran.finished["reason"]) == (130, "interrupted")
    assert "trying again" in ran.warnings()["server_unreachable"]
    yard.environ["ANTHROPIC_BASE_URL"] = url
    done = yard.resume()
    assert (done.code, done.counts) == (0, {"merged": 1})


def test_what_has_landed_is_not_asked_about_again_when_settings_change(make_yard: Any, creates: Any) -> None:
    """All is on the tip when the process dies; a resume with another check pays nothing and pushes what is green."""
    yard = make_yard(creates("A"), creates("B"))
    killed = yard.process(["run", "board.md", "--json"], TASKYARD_FAULT="publish.push.before")
    assert killed.code == -9
    paid = yard.paid
    settings = yard.repo / "taskyard.toml"
    settings.write_text(settings.read_text() + 'more = "true"\n')
    done = yard.resume()
    assert (done.code, done.counts, yard.paid) == (0, {"merged": 2}, paid)


def test_a_tip_that_is_red_by_the_checks_of_now_is_not_pushed(make_yard: Any, creates: Any) -> None:
    """The check was added after the landing: nothing is pushed, nothing is called merged, and nothing is lost."""
    yard = make_yard(creates("A"))
    yard.process(["run", "board.md", "--json"], TASKYARD_FAULT="publish.push.before")
    settings = yard.repo / "taskyard.toml"
    old = settings.read_text()
    settings.write_text(old + 'more = "test ! -e notes/A.txt"\n')
    refused = yard.resume()
    assert (refused.code, refused.counts, yard.pushes) == (1, {"landing": 1}, 0)
    assert "more is red" in refused.warnings()["not_pushed"]
    settings.write_text(old)
    done = yard.resume()
    assert (done.code, done.counts, yard.pushes) == (0, {"merged": 1}, 1)


def test_a_branch_that_bars_the_way_is_told_of_before_anything_is_paid(make_yard: Any, creates: Any) -> None:
    """`taskyard` and `taskyard/<run>` can't stand side by side."""
    yard = make_yard(creates("A"))
    yard.git("branch", "taskyard", "main")
    refused = yard.run()
    assert (refused.code, refused.out, yard.paid) == (2, "", 0)
    assert "--push target" in refused.err
    assert yard.run("--push", "target").code == 0
