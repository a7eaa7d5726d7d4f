"""Tasks that need a person: what makes them wait, and each way in which `taskyard decide` ends that."""

from collections.abc import Mapping
from typing import Any

import pytest

from taskyard.services.practice import Fault

WHEN_IDLE = """
[landing]
max_age_s = 60
"""
"""Landings begin only when no task can go on by itself."""


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ("(the judge answers nonsense)", "no verdict"),
        ("(the judge always says revise)", "revision"),
        ("(the judge finds it out of scope)", "out of scope"),
    ],
)
def test_a_judge_that_does_not_accept_is_never_an_acceptance(
    make_yard: Any, creates: Any, trouble: str, words: str
) -> None:
    """Exit 4, the task is ▲, its commit is not pushed, and the other one is."""
    yard = make_yard(creates("A", trouble), creates("B"))
    ran = yard.run()
    assert (ran.code, ran.finished["reason"], ran.counts) == (4, "needs_you", {"merged": 1, "needs_you": 1})
    assert words in ran.detail("A")
    assert set(yard.landed(yard.tip(ran))) == {"B"}
    assert "[x]" not in next(line for line in yard.read(yard.tip(ran), "board.md").splitlines() if "| A |" in line)


@pytest.mark.parametrize("kind", ["400", "max_tokens", "wrong_tool", "bad_tool_input", "empty_content", "refusal"])
def test_a_judge_call_that_fails_is_never_an_acceptance(make_yard: Any, creates: Any, kind: str) -> None:
    """Whatever is wrong with the answer: ▲, and nothing is at the remote."""
    yard = make_yard(creates("A"), faults=[Fault(kind, text='"name":"verdict"', times=0)])
    ran = yard.run()
    assert (ran.code, ran.counts) == (4, {"needs_you": 1})
    assert (set(yard.branches()), yard.pushes) == ({"main"}, 0)


def test_a_task_without_any_check_needs_a_person_before_anything_is_paid_for_it(make_yard: Any, creates: Any) -> None:
    """Exit 4; nothing was asked about it; the task beside it is merged."""
    yard = make_yard(("A", "Create `a.txt` with `a`.", "It is there."), creates("B"), files={"taskyard.toml": ""})
    ran = yard.run()
    assert (ran.code, ran.counts) == (4, {"needs_you": 1, "merged": 1})
    assert "[checks]" in ran.detail("A")
    assert ran.named("answer", task="A") == []
    assert not any("# Task A" in str(body) for body in yard.asked)


def test_accept_lands_what_the_judge_did_not(make_yard: Any, creates: Any) -> None:
    """The person's word goes before the judge's; nothing is paid for it again."""
    yard = make_yard(creates("A", "(the judge answers nonsense)"), creates("B"))
    first = yard.run()
    paid = yard.paid
    said = yard.invoke(["decide", "A", "accept"])
    assert (said.code, "taskyard resume" in said.out) == (0, True)
    done = yard.resume()
    assert (done.code, done.counts, done.finished["run"]) == (0, {"merged": 2}, first.finished["run"])
    assert set(yard.landed(yard.tip(done))) == {"A", "B"}
    assert yard.read(yard.tip(done), "board.md").count("[x]") == 2
    assert (yard.paid, done.finished["requests"]["paid"]) == (paid, paid)
    assert all(event["cost_usd"] == 0 for event in done.named("answer"))


def test_a_decision_is_taken_up_while_the_run_goes_on(make_yard: Any, creates: Any) -> None:
    """Somebody decides from another terminal before the other task is through: one run, both merged."""
    yard = make_yard(creates("A", "(the judge answers nonsense)"), creates("B"))
    said: list[Any] = []

    def decide(body: Mapping[str, Any]) -> None:
        if "# Task B" in str(body) and body["tools"][0]["name"] == "verdict":
            yard.wait_for(lambda: '"needs_you"' in yard.process(["status", "--json"]).out)
            said.append(yard.process(["decide", "A", "accept"]))

    yard.on_request = decide
    ran = yard.run()
    assert (said[0].code, "takes it up now" in said[0].out) == (0, True)
    assert (ran.code, ran.counts) == (0, {"merged": 2})


def test_reject_ends_it(make_yard: Any, creates: Any) -> None:
    """Failed, with the person's words; exit 1; the run is finished then."""
    yard = make_yard(creates("A", "(the judge answers nonsense)"))
    yard.run()
    assert yard.invoke(["decide", "A", "reject", "--comment", "not like this"]).code == 0
    done = yard.resume()
    assert (done.code, done.counts) == (1, {"failed": 1})
    assert "not like this" in done.detail("A")
    assert (yard.branches().keys(), yard.invoke(["resume"]).code) == ({"main"}, 2)


def test_send_back_goes_to_the_model_with_the_comment(make_yard: Any, creates: Any) -> None:
    """The comment stands in the next attempt's prompts; the tree starts from the tip."""
    yard = make_yard(creates("A", "(the judge answers nonsense)"))
    yard.run()
    before = len(yard.asked)
    assert yard.invoke(["decide", "A", "send-back", "--comment", "mind the gap"]).code == 0
    again = yard.resume()
    assert (again.code, again.states("A")[-1]) == (4, ("needs_you", 2))
    assert len(yard.asked) > before
    assert all("mind the gap" in str(body) for body in yard.asked[before:])
    assert yard.invoke(["decide", "A", "accept"]).code == 0
    done = yard.resume()
    assert (done.code, done.counts, yard.paid_twice) == (0, {"merged": 1}, [])
    assert "Attempt: 2" in yard.git("log", "-1", "--format=%B", yard.landed(yard.tip(done))["A"])


def test_retry_asks_for_a_new_sample_of_the_same(make_yard: Any, creates: Any) -> None:
    """What was asked is asked and paid once more, on purpose, and a better answer is taken."""
    yard = make_yard(creates("A"), faults=[Fault("wrong_tool", text='"name":"verdict"')])
    first = yard.run()
    assert (first.code, first.counts) == (4, {"needs_you": 1})
    paid = yard.paid
    assert yard.invoke(["decide", "A", "retry"]).code == 0
    done = yard.resume()
    assert (done.code, done.counts) == (0, {"merged": 1})
    assert yard.paid == 2 * paid
    assert done.finished["requests"]["paid"] == yard.paid
    assert set(yard.landed(yard.tip(done))) == {"A"}


def test_resume_without_a_decision_waits_again_and_pays_nothing(make_yard: Any, creates: Any) -> None:
    """The same end, exit 4, as often as one asks."""
    yard = make_yard(creates("A", "(the judge answers nonsense)"))
    yard.run()
    paid = yard.paid
    for _ in range(2):
        again = yard.resume()
        assert (again.code, again.counts, yard.paid) == (4, {"needs_you": 1}, paid)


def test_a_decision_about_a_task_that_waits_for_nobody_is_refused(make_yard: Any, creates: Any) -> None:
    """Exit 2, and who does wait is named."""
    yard = make_yard(creates("A", "(the judge answers nonsense)"), creates("B"))
    yard.run()
    for task in ("B", "Z"):
        refused = yard.invoke(["decide", task, "accept"])
        assert (refused.code, refused.out) == (2, "")
        assert task in refused.err
        assert "waiting: A" in refused.err


@pytest.mark.parametrize(("action", "code", "state"), [("accept", 4, "needs_you"), ("reject", 1, "failed")])
def test_a_decision_about_a_task_without_checks_is_taken_up(
    make_yard: Any, creates: Any, action: str, code: int, state: str
) -> None:
    """There is nothing to accept, and that is said; it can be rejected. Either way nothing of it lands or is paid."""
    yard = make_yard(("A", "Create `a.txt` with `a`.", "It is there."), creates("B"), files={"taskyard.toml": ""})
    yard.run()
    yard.invoke(["decide", "A", action])
    again = yard.resume()
    assert (again.code, again.counts) == (code, {state: 1, "merged": 1})
    assert set(yard.landed(yard.tip(again))) == {"B"}
    assert again.named("answer", task="A") == []


def test_a_second_conflict_needs_a_person_and_sent_back_it_lands(make_yard: Any) -> None:
    """The conflict's text stands in the next prompt; what landed is not lost or doubled."""
    rows = [(name, f"Append `{name}` to `word.txt`.", f"`grep -q {name} word.txt`") for name in "ABC"]
    yard = make_yard(*rows, files={"word.txt": "old\n"}, settings=WHEN_IDLE)
    ran = yard.run()
    assert (ran.code, ran.counts) == (4, {"merged": 2, "needs_you": 1})
    (last,) = {"A", "B", "C"} - set(yard.landed(yard.tip(ran)))
    assert "for the second time" in ran.detail(last)
    assert ran.named("landing", step="refused", detail="conflict", tasks=[last])
    assert any("<<<<<<<" in str(body) and f"# Task {last}" in str(body) for body in yard.asked)
    assert yard.invoke(["decide", last, "accept"]).code == 0
    assert yard.resume().code == 4
    assert yard.invoke(["decide", last, "send-back"]).code == 0
    done = yard.resume()
    assert (done.code, done.counts, yard.paid_twice) == (0, {"merged": 3}, [])
    assert sorted(yard.read(yard.tip(done), "word.txt").split()) == ["A", "B", "C", "old"]
    assert len(yard.landed(yard.tip(done))) == 3
