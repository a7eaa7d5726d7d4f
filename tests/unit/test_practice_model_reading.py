"""How the practice model reads prompts, judges diffs and works out edits."""

from typing import Any

import pytest

from taskyard.services.practice.changes import append, calls_for, cut_function, insert_before
from taskyard.services.practice.desk import numbered
from taskyard.services.practice.model import answer
from taskyard.services.practice.reading import read

HEAD = "# Task A/1 b\n\n{text}\n\n## Acceptance\n\nLooks good.\n\n## Checks\n\n- `verify-1`: `true`\n- `test`: `make`\n"
DIFF = """\

## Diff

````diff
diff --git a/{path} b/{path}
index 1111111..2222222 100644
--- a/{path}
+++ b/{path}
@@ -1,2 +1,2 @@
{lines}
````

## Gate

{gate}
"""
GREEN = """\
### `verify-1`: green

### `is it: red`: green

```
### `test`: red
```

Flags:
- a red herring.txt was deleted
"""


def judged(text: str, path: str, lines: str, gate: str = GREEN) -> dict[str, Any]:
    prompt = HEAD.format(text=text) + DIFF.format(path=path, lines=lines, gate=gate)
    body = {"tools": [{"name": "verdict"}], "messages": [{"role": "user", "content": prompt}]}
    (block,) = answer(body).content
    assert sorted(block["input"]) == ["decision", "reasons", "scope_ok", "tests_weakened"]
    assert block["input"]["reasons"]
    verdict: dict[str, Any] = block["input"]
    return verdict


def test_a_prompt_is_read_whole() -> None:
    """Id, text and checks stand in the head; the rest in the sections, when it is there."""
    text = "Do `x`.\n\n```\n## Plan\n```\nand more"
    tried = "\n## What was tried before\n\nAttempt 1: red.\n"
    lessons = '\n## Lessons from earlier failures\n\n<lesson id="1">\nA\n</lesson>\n<lesson id="2">\nB\nC\n</lesson>\n'
    content = [{"type": "text", "text": HEAD.format(text=text) + lessons + tried}]
    prompt = read({"tools": [{"name": "finish"}], "messages": [{"role": "user", "content": content}]})
    assert (prompt.role, prompt.task, prompt.text) == ("implementer", "A/1 b", text)
    assert prompt.checks == ("verify-1", "test")
    assert prompt.lessons == ("A", "B\nC")
    assert prompt.tried == "Attempt 1: red."


def test_a_lesson_inside_a_fence_is_no_lesson() -> None:
    """Output that happens to hold a heading and a lesson block stays output."""
    output = '```\n## Lessons from earlier failures\n<lesson id="1">\nA\n</lesson>\n```\n'
    sections = f"\n## What was tried before\n\n`{output.replace('```', '````')[1:]}"
    prompt = read({"messages": [{"role": "user", "content": HEAD.format(text="x") + sections}]})
    assert prompt.lessons == ()
    assert "<lesson" in prompt.tried


def test_steps_pair_calls_with_their_results() -> None:
    """Each call has its turn, its result and whether it was refused."""
    use = {"type": "tool_use", "id": "t1", "name": "view", "input": {"path": "a"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": [{"type": "text", "text": "no"}]}
    messages = [
        {"role": "user", "content": "# Task T\n\nx"},
        {"role": "assistant", "content": [{"type": "text", "text": "Let me look."}, use]},
        {"role": "user", "content": [result]},
    ]
    (step,) = read({"messages": messages}).steps
    assert (step.turn, step.name, step.input, step.result, step.failed) == (0, "view", {"path": "a"}, "no", True)


def test_line_numbers_are_taken_off_and_nothing_else() -> None:
    """Tabs, empty lines and what looks like a number stay; what stands beside an unnumbered line may be cut."""
    assert numbered("1\ta\n2\t\n3\t\t7\tb\n4\t9\tx") == {1: "a", 2: "", 3: "\t7\tb", 4: "9\tx"}
    assert numbered("1\ta\n2\tb\n… (12 bytes left out) …\n31\tx\n132\ty") == {1: "a", 132: "y"}
    assert numbered("(the file is empty)") == {}


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        (None, "a", ["create"]),
        ("a", None, ["delete"]),
        ("", "a", ["delete", "create"]),
        ("a", "a", []),
        ("a\nb\nc", "a\nc", ["edit"]),
        ("a\nb\nc", "a\nb\nc\nd", ["edit"]),
        ("a\nb\nc", "0\na\nb\nc", ["edit"]),
        ("x\nx\nx", "x\nx\nx\nx", ["edit"]),
        ("a\n\n\nb\n\n\nc", "A\n\n\nb\n\n\n\nC", ["edit", "edit"]),
    ],
)
def test_calls_lead_from_one_text_to_the_other(before: str | None, after: str | None, names: list[str]) -> None:
    """Each edit's old text stands exactly once when its turn comes, and together they make the new text."""
    text = before
    calls = calls_for("f", before, after)
    for call in calls:
        if call.name == "edit":
            assert text is not None and text.count(call.input["old"]) == 1
            text = text.replace(call.input["old"], call.input["new"])
        else:
            text = call.input["text"].removesuffix("\n") if call.name == "create" else None
    assert (text, [call.name for call in calls]) == (after, names)


def test_changes_pass_over_what_is_not_there() -> None:
    """A change made for a text that has moved on leaves it alone; an addition keeps what is there."""
    assert insert_before("class B", "x\n")("class A:\n    pass") == "class A:\n    pass"
    assert cut_function("f")("def g():\n    pass") == "def g():\n    pass"
    assert cut_function("f")("a = 1\n\n\ndef f():\n    b\n\n    c\n\n\ndef g():\n    d") == "a = 1\n\n\ndef g():\n    d"
    assert append("b\n")(None) == "b"


def test_the_judge_accepts_a_green_change_of_what_was_asked() -> None:
    """Accept: the diff is not empty, the gate is green, the task's file is in it."""
    verdict = judged("Append `x` to `a.txt`.", "a.txt", " one\n+x")
    assert (verdict["decision"], verdict["scope_ok"], verdict["tests_weakened"]) == ("accept", True, False)


@pytest.mark.parametrize(
    ("path", "lines", "gate", "word"),
    [
        ("b.txt", "+x", GREEN, "what the task is about"),
        ("a.txt", "+x", GREEN + "\n### `test`: red (exit 1)\n", "not green"),
        ("tests/test_a.py", "-    assert a == 1\n+    print(a)", GREEN, "fewer asserts"),
        ("tests/test_a.py", "-        self.assertEqual(a, 1)", GREEN, "fewer asserts"),
        ("pkg/a_test.py", '+    @unittest.skip("later")', GREEN, "skips"),
    ],
)
def test_the_judge_sends_back_what_is_off(path: str, lines: str, gate: str, word: str) -> None:
    """Revise: another file than asked, a red gate, tests that got weaker."""
    verdict = judged("Append `x` to `a.txt`.", path, lines, gate)
    assert verdict["decision"] == "revise"
    assert word in verdict["reasons"][0]
    assert verdict["tests_weakened"] == ("asserts" in word or "skips" in word)


def test_a_red_base_is_not_held_against_a_task() -> None:
    """(the base is red): the project's red checks are overlooked, the task's own never."""
    text = "Append `x` to `a.txt` (the base is red)."
    assert judged(text, "a.txt", "+x", "### `test`: red (exit 1)")["decision"] == "accept"
    assert judged(text, "a.txt", "+x", "### `verify-1`: red (exit 1)")["decision"] == "revise"


def test_an_assert_that_was_replaced_is_not_a_weaker_test() -> None:
    """As many asserts as before: the test may have changed its mind."""
    lines = "-    self.assertIsNone(f())\n+    with self.assertRaises(ValueError):\n+        f()"
    assert judged("Do it.", "tests/test_a.py", lines)["decision"] == "accept"


def test_the_judge_sends_an_empty_diff_back() -> None:
    """Nothing was changed: revise."""
    body = {"tools": [{"name": "verdict"}], "messages": [{"role": "user", "content": HEAD.format(text="Do it.")}]}
    assert answer(body).content[0]["input"]["decision"] == "revise"


@pytest.mark.parametrize(
    ("directive", "first", "later", "scope_ok"),
    [
        ("(the judge says revise once)", "revise", "accept", True),
        ("(the judge always says revise)", "revise", "revise", True),
        ("(the judge rejects)", "reject", "reject", True),
        ("(the judge finds it out of scope)", "accept", "accept", False),
    ],
)
def test_directives_to_the_judge(directive: str, first: str, later: str, scope_ok: bool) -> None:
    """The task's text decides, and an earlier attempt in the prompt is what makes the difference for `once`."""
    text = f"Append `x` to `a.txt` {directive}."
    verdict = judged(text, "a.txt", "+x")
    assert (verdict["decision"], verdict["scope_ok"]) == (first, scope_ok)
    tried = HEAD.format(text=text) + "\n## What was tried before\n\nAttempt 1: revise.\n"
    prompt = tried + DIFF.format(path="a.txt", lines="+x", gate=GREEN)
    body = {"tools": [{"name": "verdict"}], "messages": [{"role": "user", "content": prompt}]}
    assert answer(body).content[0]["input"]["decision"] == later
