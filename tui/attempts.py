"""A task's attempts as text, for a person who has to understand or decide.

    for line in attempt_lines(shown, look):
        print(line)

`shown` is the object of `history show --json` (docs/json.md). All attempts are told; of the diffs, which may be long,
the last one is printed, and for the others there is a command to see them with.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from taskyard.tui.advice import ACTIONS, decide_on
from taskyard.tui.clean import clean, clean_lines
from taskyard.tui.look import Look, counted, span, usd

_SHORT_ID = 7


def attempt_lines(shown: Mapping[str, Any], look: Look) -> Iterator[str]:
    """The task and what it waits for, then each attempt."""
    where = f"run {clean(shown['run'])}, {clean(shown['board'])}"
    yield f"task {clean(shown['task'])} ({where}): {look.state(shown['state'])}"
    if shown["detail"]:
        yield f"  {clean(shown['detail'])}"
    if shown["decide"]:
        yield ""
        yield from _decide(shown)
    kept = [attempt["attempt"] for attempt in shown["attempts"] if attempt["commit"]]
    for attempt in shown["attempts"]:
        yield ""
        yield from _attempt(attempt, shown["repository"], look, whole=kept[-1:] == [attempt["attempt"]])


def _decide(shown: Mapping[str, Any]) -> Iterator[str]:
    yield "decide, then go on with `taskyard resume` (a run that is under way takes it up by itself):"
    commands = {decide_on(shown["task"], action): ACTIONS[action] for action in shown["decide"]}
    width = max(map(len, commands))
    for command, what in commands.items():
        yield f"  {command.ljust(width)}   {what}"


def _attempt(attempt: Mapping[str, Any], repository: str, look: Look, *, whole: bool) -> Iterator[str]:
    """whole: print the diff, not only how to see it."""
    took = "" if attempt["duration_s"] is None else span(attempt["duration_s"])
    status = look.word(attempt["status"]) if attempt["status"] else ""
    facts = [status, attempt["start"] or "", took, usd(attempt["cost_usd"])]
    yield f"attempt {attempt['attempt']}: {' · '.join(filter(None, facts))}"
    yield from (f"  {clean(reason)}" for reason in attempt["reasons"])
    yield from _plan(attempt["plan"])
    for check in attempt["checks"]:
        yield from _check(check)
    yield from _verdict(attempt)
    yield from _landing(attempt["landing"])
    if attempt["output"] and not any((_red(attempt), attempt["verdict"], attempt["landing"])):
        yield "  in full"
        yield from _block(attempt["output"])
    for decision in attempt["decisions"]:
        comment = f": {clean(decision['comment'])}" if decision["comment"] else ""
        yield f"  a person decided: {decision['action']}{comment}"
    yield from _change(attempt, repository, whole=whole)


def _red(attempt: Mapping[str, Any]) -> bool:
    return any(check["exit"] != 0 for check in attempt["checks"])


def _plan(plan: Mapping[str, Any] | None) -> Iterator[str]:
    """A model wrote it, so any field may be missing or of another kind."""
    if not plan:
        return
    yield f"  plan: {clean(str(plan.get('summary', '')))}"
    yield from (f"    {number}. {clean(step)}" for number, step in enumerate(_texts(plan.get("steps")), 1))


def _check(check: Mapping[str, Any]) -> Iterator[str]:
    green = check["exit"] == 0 and not check["broken"]
    end = "green" if green else "ran out of time" if check["timed_out"] else f"red, exit {check['exit']}"
    yield f"  check {clean(check['check'])}: {end}, {check['seconds']:.1f} s: {clean(check['command'])}"
    if not green:
        yield from _block("\n".join(filter(None, (check["broken"], check["output"]))))


def _verdict(attempt: Mapping[str, Any]) -> Iterator[str]:
    verdict, text = attempt["verdict"], attempt["judge_text"]
    if verdict:
        yield f"  judge: {clean(str(verdict.get('decision', 'no decision')))}"
        yield from (f"    - {clean(reason)}" for reason in _texts(verdict.get("reasons")))
        if verdict.get("tests_weakened"):
            yield "    - tests were weakened"
        if verdict.get("scope_ok") is False:
            yield "    - out of scope"
    if text:
        yield "  the judge's words"
        yield from _block(text)


def _texts(value: object) -> Sequence[str]:
    return [str(one) for one in value] if isinstance(value, list | tuple) else [] if value is None else [str(value)]


def _landing(landing: Mapping[str, Any] | None) -> Iterator[str]:
    if landing is None:
        return
    if landing["outcome"] == "landed":
        yield f"  landed as {landing['detail'][:_SHORT_ID]}"
        return
    words = {"conflict": "a conflict with what had landed", "red": "the tip was red with it", "empty": "nothing new"}
    yield f"  not landed: {words.get(landing['outcome'], clean(landing['outcome']))}"
    yield from _block(landing["detail"])


def _change(attempt: Mapping[str, Any], repository: str, *, whole: bool) -> Iterator[str]:
    if not attempt["commit"]:
        return
    yield f"  kept as {attempt['commit'][:_SHORT_ID]}, {attempt['ref']}"
    yield f"    git --git-dir {shlex.quote(clean(repository))} show {shlex.quote(attempt['ref'])}"
    if whole:
        files = attempt["diff"].count("\ndiff --git ") + attempt["diff"].startswith("diff --git ")
        yield f"  changes {counted(files, 'file')}"
        yield from _block(attempt["diff"])


def _block(text: str) -> Iterator[str]:
    """Text of several lines, indented."""
    yield from (f"    {line}".rstrip() for line in clean_lines(text.strip("\n")).split("\n"))
