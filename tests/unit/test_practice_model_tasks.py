"""The practice model on any repository: sentences and directives, with an executor in memory."""

from collections.abc import Mapping
from typing import Any

import pytest

from taskyard.services.practice.model import answer

IMPLEMENTER = ["view", "search", "edit", "create", "delete", "run_check", "finish"]
SHOWN = 1_000
"""Characters of a view; what is longer is cut in the middle."""
BEFORE = {"a.txt": "one\ntwo\n"}


def body(role: str, text: str, sections: str = "", checks: tuple[str, ...] = ("verify-1", "test")) -> dict[str, Any]:
    names = {"planner": ["plan"], "judge": ["verdict"], "implementer": IMPLEMENTER}[role]
    enum = {"properties": {"name": {"type": "string", "enum": list(checks)}}}
    listed = "\n".join(f"- `{name}`: `true`" for name in checks)
    prompt = f"# Task T1\n\n{text}\n\n## Acceptance\n\n(none given)\n\n## Checks\n\n{listed}\n{sections}"
    return {
        "tools": [{"name": name, "input_schema": enum if name == "run_check" else {}} for name in names],
        "messages": [{"role": "user", "content": prompt}],
    }


def use(files: dict[str, str], name: str, given: Mapping[str, Any]) -> str:
    """One tool call on files in memory; raises ValueError when it is refused."""
    path = str(given.get("path"))
    if name in ("view", "edit", "delete") and path not in files:
        raise ValueError(f"no file {path}")
    if name == "view":
        lines = [f"{n}\t{line}" for n, line in enumerate(files[path].splitlines(), 1)]
        shown = "\n".join(lines[(given["start"] or 1) - 1 : given["end"]])
        cut = f"{shown[: SHOWN // 2]}\n… ({len(shown) - SHOWN} bytes left out) …\n{shown[-SHOWN // 2 :]}"
        return (cut if len(shown) > SHOWN else shown) or "(the file is empty)"
    if name == "edit":
        if files[path].count(given["old"]) != 1:
            raise ValueError(f"stands {files[path].count(given['old'])} times")
        files[path] = files[path].replace(given["old"], given["new"])
    elif name == "create":
        if path in files:
            raise ValueError(f"{path} is there")
        files[path] = given["text"]
    elif name == "delete":
        del files[path]
    return "exit 0" if name == "run_check" else "ok: done"


def implement(
    files: dict[str, str], text: str, sections: str = "", refuse_first: str = "", turns: int = 12
) -> list[tuple[str, Any]]:
    """The calls the model makes until it finishes; the first call named `refuse_first` is refused."""
    request, calls = body("implementer", text, sections), []
    for _ in range(turns):
        reply = answer(request)
        results = []
        for block in reply.content[1:]:
            name, given = block["name"], block["input"]
            failed = name == refuse_first and not any(each == name for each, _ in calls)
            calls.append((name, given))
            try:
                result = "refused" if failed else use(files, name, given)
            except ValueError as error:
                result, failed = str(error), True
            results.append({"type": "tool_result", "tool_use_id": block["id"], "content": result, "is_error": failed})
        if calls[-1][0] == "finish":
            break
        request["messages"] += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": results}]
    return calls


@pytest.mark.parametrize(
    ("text", "after"),
    [
        (r"Create `b.txt` with `one\ntwo`.", BEFORE | {"b.txt": "one\ntwo\n"}),
        ("Create `a.txt` with `new`.", {"a.txt": "new\n"}),
        (r"Append `three\nfour` to `a.txt`.", {"a.txt": "one\ntwo\nthree\nfour\n"}),
        ("Append `first` to `b.txt`.", BEFORE | {"b.txt": "first\n"}),
        ("Replace `o` with `0` in `a.txt`.", {"a.txt": "0ne\ntw0\n"}),
        ("Delete `a.txt`.", {}),
        (
            "First, create `b` with `x`; then replace `x` with `y` in `b` and append `z` to `b`.",
            BEFORE | {"b": "y\nz\n"},
        ),
        ("Delete `a.txt`. Create `b` with `1`. Create `c/d` with `2`.", {"b": "1\n", "c/d": "2\n"}),
        ("Create `b` with ``a `span` in it``.", BEFORE | {"b": "a `span` in it\n"}),
        (r"Create `b` with `\\n\tx`.", BEFORE | {"b": "\\n\tx\n"}),
        ("Please do something about the weather.", BEFORE),
    ],
)
def test_sentences_are_carried_out_with_the_tools(text: str, after: dict[str, str]) -> None:
    """Each sentence of the grammar does what it says, in order, and the model ends with a check and finish."""
    files = dict(BEFORE)
    calls = implement(files, text)
    assert files == after
    assert [name for name, _ in calls[-2:]] == ["run_check", "finish"]


@pytest.mark.parametrize("tool", ["edit", "create", "delete", "view"])
def test_a_refused_call_is_tried_again_after_another_look(tool: str) -> None:
    """An error leads to a view of the file and the part that is still missing, not to a loop or a false end."""
    files = {"a": "one\n", "c": "gone\n"}
    calls = implement(files, "Append `two` to `a`. Create `b` with `x`. Delete `c`.", refuse_first=tool)
    assert calls[-1][0] == "finish"
    assert files == {"a": "one\ntwo\n", "b": "x\n"}


def test_a_change_that_is_always_refused_ends_in_finish_and_says_so() -> None:
    """The model gives up after three rounds."""
    request = body("implementer", "Create `a` with `x`.")
    names: list[str] = []
    for _ in range(12):
        reply = answer(request)
        uses = [block for block in reply.content if block["type"] == "tool_use"]
        names += [use["name"] for use in uses]
        if "finish" in names:
            break
        results = [
            {"type": "tool_result", "tool_use_id": use["id"], "content": "disk is full", "is_error": True}
            for use in uses
        ]
        request["messages"] += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": results}]
    assert names.count("create") == 3
    assert "were refused" in reply.content[-1]["input"]["summary"]


def test_edits_are_unique_even_in_a_file_of_equal_lines() -> None:
    """Lines that repeat get as much context as makes the place the only one."""
    files = {"a": "x\nx\nx\n\nx\nx\nkey\nx\nx\n"}
    implement(files, "Replace `key` with `lock` in `a`. Append `x` to `a`.")
    assert files == {"a": "x\nx\nx\n\nx\nx\nlock\nx\nx\nx\n"}


def test_a_file_that_is_too_long_for_one_view_is_seen_in_parts() -> None:
    """What a view leaves out is asked for, so that nothing of the file is lost and every edit fits."""
    lines = [f"line {number % 50}" for number in range(1, 300)]
    files = {"a": "\n".join([*lines, "key", *lines]) + "\n"}
    calls = implement(files, "Replace `key` with `lock` in `a`.")
    assert files == {"a": "\n".join([*lines, "lock", *lines]) + "\n"}
    assert [name for name, _ in calls].count("edit") == 1


def test_an_empty_file_can_be_filled() -> None:
    """There is no text to edit in it, so it is made anew."""
    files = {"a": ""}
    implement(files, "Append `x` to `a`.")
    assert files == {"a": "x\n"}


def test_without_the_lesson_the_first_change_is_wrong() -> None:
    """A lesson block that holds the text makes it right; the same text elsewhere does not."""
    text = "Create `a` with `x` (fails without the lesson `never x alone`). Create `b` with `y`."
    block = '<lesson id="1">\nFailure (check_failed): never x alone\n</lesson>'
    wrong, fenced, right = {}, {}, {}
    implement(wrong, text)
    implement(fenced, text, f"\n## What was tried before\n\n```\n## Lessons from earlier failures\n{block}\n```\n")
    implement(right, text, f"\n## Lessons from earlier failures\n\n{block}\n")
    assert wrong == fenced == {"a": "x wrong\n", "b": "y\n"}
    assert right == {"a": "x\n", "b": "y\n"}


@pytest.mark.parametrize(
    ("text", "role", "kinds", "stop_reason"),
    [
        ("Do it (the plan is refused).", "planner", ["text"], "refusal"),
        ("Do it (the planner answers nonsense).", "planner", ["text"], "end_turn"),
        ("Do it (the judge answers nonsense).", "judge", ["text"], "end_turn"),
        ("Do it (the implementer answers nonsense).", "implementer", ["text"], "end_turn"),
        ("Do it (the implementer is cut off).", "implementer", ["text"], "max_tokens"),
        ("Do it (the judge answers nonsense).", "planner", ["tool_use"], "tool_use"),
        ("Do it.", "judge", ["tool_use"], "tool_use"),
        ("Do it.", "implementer", ["text", "tool_use"], "tool_use"),
    ],
)
def test_directives_make_trouble_for_their_role_alone(text: str, role: str, kinds: list[str], stop_reason: str) -> None:
    """A directive spoils the answer of the role it names and no other."""
    reply = answer(body(role, text))
    assert [block["type"] for block in reply.content] == kinds
    assert reply.stop_reason == stop_reason


def test_never_finishing_means_looking_for_ever() -> None:
    """(never finishes): turn after turn a view."""
    calls = implement({"a": "x\n"}, "Append `y` to `a` (never finishes).", turns=20)
    assert [name for name, _ in calls] == ["view"] * 20


def test_changing_nothing_means_finishing_at_once() -> None:
    """(changes nothing): finish is the first call."""
    assert [name for name, _ in implement({"a": "x\n"}, "Delete `a` (changes nothing).")] == ["finish"]


def test_named_checks_are_run_before_the_end() -> None:
    """(runs NAME): these checks when they are offered; without it the task's own."""
    calls = implement({}, "Create `a` with `x` (runs test) (runs verify-1) (runs lint).")
    assert [given["name"] for name, given in calls if name == "run_check"] == ["test", "verify-1"]
    calls = implement({}, "Create `a` with `x`.")
    assert [given["name"] for name, given in calls if name == "run_check"] == ["verify-1"]


def test_the_plan_names_files_and_checks_of_the_task() -> None:
    """A planner's answer fits the tool's schema and the task."""
    (block,) = answer(body("planner", "Create `a` with `x`. Delete `b`.")).content
    assert block["name"] == "plan"
    assert sorted(block["input"]) == ["checks", "files", "risks", "steps", "summary"]
    assert (block["input"]["files"], block["input"]["checks"]) == (["a", "b"], ["verify-1", "test"])


def test_a_request_of_no_role_gets_a_word_and_no_tool() -> None:
    """Requests that are not taskyard's are answered in text."""
    reply = answer({"messages": [{"role": "user", "content": "Hello"}]})
    assert ([block["type"] for block in reply.content], reply.stop_reason) == (["text"], "end_turn")


def test_ids_of_tool_calls_come_from_the_body() -> None:
    """The same body gives the same reply, another body other ids; the body is not changed."""
    request = body("implementer", "Append `x` to `a`. Append `y` to `b`.")
    before = repr(request)
    assert answer(request) == answer(request)
    assert repr(request) == before
    ids = {block["id"] for block in answer(request).content[1:]}
    others = {block["id"] for block in answer(body("implementer", "Append `x` to `a`.")).content[1:]}
    assert len(ids) == 2
    assert not ids & others
    assert all(len(each) <= 64 and each.startswith("toolu_") for each in ids)
