r"""Tasks for any repository: the task's text says what to do, in sentences that the practice model carries out.

    Create `notes/a.txt` with `one\ntwo`.      a new file, ended by a line break; one that is there is overwritten
    Append `three` to `notes/a.txt`.           lines of their own at the end
    Replace `one` with `1` in `notes/a.txt`.   everywhere in the file
    Delete `notes/a.txt`.

Several sentences are carried out in their order, also on one file. What stands between backticks is taken literally,
but for `\n` (line break), `\t` (tab) and `\\` (backslash). A span that holds backticks is set in longer runs of them.

Directives, in parentheses anywhere in the text, make trouble on purpose:

    (the plan is refused)                 the planner's answer has the stop reason `refusal`
    (the planner answers nonsense)        text without a tool call; so too for `implementer` and `judge`
    (the implementer is cut off)          stop reason `max_tokens` in the middle of a sentence
    (the judge says revise once)          revise, unless the prompt tells of an earlier attempt
    (the judge always says revise)
    (the judge rejects)
    (the judge finds it out of scope)     accept, with `scope_ok` false
    (the base is red)                     the judge overlooks red checks that are not the task's own
    (never finishes)                      views a file for ever
    (changes nothing)                     finishes at once
    (runs NAME)                           runs this check before it finishes, when it is offered; once for each name
    (fails without the lesson TEXT)       unless a lesson block in the prompt holds TEXT, the first change is made
                                          wrong: its text (for Replace, the new text) has ` wrong` behind it, and a
                                          Delete is left out
"""

import re
from collections.abc import Callable, Iterator

import msgspec

from taskyard.services.practice.changes import Change, Target, append, one_after_another, remove, swap, write
from taskyard.services.practice.orders import Order, Plan
from taskyard.services.practice.reading import Prompt

_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_ESCAPE = re.compile(r"\\([nt\\])")
_MEANING = {"n": "\n", "t": "\t", "\\": "\\"}
_PLACE = "\0"
"""Stands for a span while the words around it are read."""


class Directives(msgspec.Struct, frozen=True, kw_only=True):
    """What a task's parentheses ask for; see the module's docstring."""

    plan_refused: bool = False
    planner_nonsense: bool = False
    implementer_nonsense: bool = False
    implementer_cut_off: bool = False
    judge_nonsense: bool = False
    judge_revises_once: bool = False
    judge_always_revises: bool = False
    judge_rejects: bool = False
    judge_out_of_scope: bool = False
    base_is_red: bool = False
    never_finishes: bool = False
    changes_nothing: bool = False
    runs: tuple[str, ...] = ()
    needed_lesson: str = ""


_FLAGS = {
    "the plan is refused": "plan_refused",
    "the planner answers nonsense": "planner_nonsense",
    "the implementer answers nonsense": "implementer_nonsense",
    "the implementer is cut off": "implementer_cut_off",
    "the judge answers nonsense": "judge_nonsense",
    "the judge says revise once": "judge_revises_once",
    "the judge always says revise": "judge_always_revises",
    "the judge rejects": "judge_rejects",
    "the judge finds it out of scope": "judge_out_of_scope",
    "the base is red": "base_is_red",
    "never finishes": "never_finishes",
    "changes nothing": "changes_nothing",
}
_RUNS = re.compile(r"\(runs `?([^()`]+)`?\)", re.IGNORECASE)
_LESSON = re.compile(r"\(fails without the lesson `?([^()`]+)`?\)", re.IGNORECASE)


def directives(text: str) -> Directives:
    """The directives in a task's text."""
    said = {flag for words, flag in _FLAGS.items() if f"({words})" in text.lower()}
    lesson = _LESSON.search(text)
    return Directives(
        runs=tuple(name.strip() for name in _RUNS.findall(text)),
        needed_lesson=lesson[1].strip() if lesson else "",
        **dict.fromkeys(said, True),
    )


class _Sentence(msgspec.Struct, frozen=True):
    """A sentence of the grammar: its words with `_` for a span, which span is the path, and the change it means."""

    words: str
    path: int
    change: Callable[[tuple[str, ...]], Change]
    wrong: Callable[[tuple[str, ...]], Change | None]


def _keep(_: tuple[str, ...]) -> Change | None:
    return None


_GRAMMAR = (
    _Sentence("create _ with _", 0, lambda s: write(s[1]), lambda s: write(_spoiled(s[1]))),
    _Sentence("append _ to _", 1, lambda s: append(s[0]), lambda s: append(_spoiled(s[0]))),
    _Sentence("replace _ with _ in _", 2, lambda s: swap((s[0], s[1])), lambda s: swap((s[0], _spoiled(s[1])))),
    _Sentence("delete _", 0, lambda _: remove(), _keep),
)


def _spoiled(text: str) -> str:
    body = text.rstrip("\n")
    return f"{body} wrong{text[len(body) :]}"


_WORDS = re.compile(
    "|".join(rf"\b({sentence.words.replace(' ', chr(92) + 's+').replace('_', _PLACE)})" for sentence in _GRAMMAR),
    re.IGNORECASE,
)


def order(prompt: Prompt, asked: Directives) -> Order:
    """The order that the sentences of a task's text make; without any sentence it changes nothing."""
    spoil = bool(asked.needed_lesson) and not any(asked.needed_lesson in lesson for lesson in prompt.lessons)
    first: dict[str, bool] = {}
    changes: dict[str, list[Change]] = {}
    for number, (sentence, spans) in enumerate(_sentences(prompt.text)):
        path = spans[sentence.path]
        first.setdefault(path, sentence is _GRAMMAR[0])
        change = sentence.wrong(spans) if spoil and number == 0 else sentence.change(spans)
        changes.setdefault(path, []).extend([change] if change else [])
    targets = tuple(Target(path, one_after_another(*made), new=first[path]) for path, made in changes.items())
    return Order(plan=_plan(targets), targets=targets, summary=_summary(targets))


def _sentences(text: str) -> Iterator[tuple[_Sentence, tuple[str, ...]]]:
    spans = [_meant(match) for match in _SPAN.finditer(text)]
    words = _SPAN.sub(_PLACE, text.replace(_PLACE, " "))
    for match in _WORDS.finditer(words):
        before = words.count(_PLACE, 0, match.start())
        sentence = _GRAMMAR[(match.lastindex or 1) - 1]
        yield sentence, tuple(spans[before : before + sentence.words.count("_")])


def _meant(span: re.Match[str]) -> str:
    inside = span[2]
    if len(span[1]) > 1 and inside.startswith(" ") and inside.endswith(" ") and inside.strip():
        inside = inside[1:-1]
    return _ESCAPE.sub(lambda escape: _MEANING[escape[1]], inside)


def _plan(targets: tuple[Target, ...]) -> Plan:
    if not targets:
        return Plan(
            "The practice model has no recipe for this task.", ("Leave the files as they are.",), ("Nothing is done.",)
        )
    names = ", ".join(f"`{target.path}`" for target in targets)
    return Plan(f"Change {names} as the task says.", tuple(f"Change `{target.path}`." for target in targets))


def _summary(targets: tuple[Target, ...]) -> str:
    if not targets:
        return "The practice model has no recipe for this task; nothing was changed."
    return f"Changed {', '.join(f'`{target.path}`' for target in targets)} as the task says."
