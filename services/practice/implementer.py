"""The implementer's turns, told from the conversation so far and never from a counter:

1. look at every file that the order changes (all in one turn, with a search where the order has one), and at the
   parts that a view left out;
2. make the changes, each from text that a view showed;
3. where a change was refused, look at that file again and make what is still missing, three rounds at most;
4. run the task's own checks (the first of all checks when it has none), one turn each;
5. finish, whatever the checks said: the gate judges.
"""

from collections.abc import Iterable, Sequence

import msgspec

from taskyard.services.practice.changes import Call, Target, calls_for
from taskyard.services.practice.desk import WRITES, Desk
from taskyard.services.practice.orders import Order
from taskyard.services.practice.reading import OWN_CHECK, Prompt, Step
from taskyard.services.practice.sentences import Directives

_WRITE_ROUNDS = 3


class Move(msgspec.Struct, frozen=True):
    """One answer of the implementer: a sentence and the calls that follow it."""

    said: str
    calls: tuple[Call, ...]


def next_move(prompt: Prompt, order: Order, directives: Directives) -> Move:
    """What to do now."""
    desk = Desk.of(prompt.steps)
    if directives.never_finishes:
        return Move("I'd like to look at this once more.", (_view(_somewhere(order)),))
    if directives.changes_nothing:
        return _finish("Nothing needs to change here.")
    if unseen := _unseen(prompt.steps, order, desk):
        return Move(_looking(prompt, order, desk), tuple(unseen))
    rounds = len({step.turn for step in prompt.steps if step.name in WRITES})
    missing = _missing(order.targets, desk)
    if missing and rounds < _WRITE_ROUNDS:
        return Move(_writing(rounds, missing), tuple(missing))
    if check := _next_check(prompt, order, directives):
        return Move(f"Now `{check}`.", (Call("run_check", {"name": check}),))
    return _finish(_report(prompt.steps, order, missing))


def _unseen(steps: Sequence[Step], order: Order, desk: Desk) -> list[Call]:
    """What there is to look at before anything (more) can be changed."""
    calls: list[Call] = []
    if order.search and not any(step.name == "search" for step in steps):
        pattern, glob = order.search
        calls.append(Call("search", {"pattern": pattern, "glob": glob}))
    for target in order.targets:
        unknown = target.path not in desk.first and not target.new
        if target.path in desk.gaps:
            calls.append(_view(target.path, *desk.gaps[target.path]))
        elif unknown or target.path in desk.stale:
            calls.append(_view(target.path))
    return calls


def _missing(targets: Iterable[Target], desk: Desk) -> list[Call]:
    """The changes that stand between the files as they are and as they should be."""
    calls: list[Call] = []
    for target in targets:
        wanted = target.change(desk.first.get(target.path))
        calls += calls_for(target.path, desk.now.get(target.path), wanted)
    return calls


def _next_check(prompt: Prompt, order: Order, directives: Directives) -> str | None:
    own = [name for name in prompt.offered_checks if name.startswith(OWN_CHECK)]
    wanted = [name for name in directives.runs if name in prompt.offered_checks] or own or prompt.offered_checks[:1]
    if order.check_all:
        wanted = [*wanted, *(name for name in prompt.offered_checks if name not in wanted)]
    ran = {step.input.get("name") for step in prompt.steps if step.name == "run_check"}
    return next((name for name in wanted if name not in ran), None)


def _looking(prompt: Prompt, order: Order, desk: Desk) -> str:
    if desk.gaps:
        return "A part was left out; I need that too."
    if prompt.turns:
        return "That did not apply; I'll look at the file as it is now."
    if prompt.tried:
        return "There was an earlier attempt, so I'll start from what stands there now."
    return order.remark


def _writing(rounds: int, missing: Sequence[Call]) -> str:
    if rounds:
        return "Now the part that is still missing."
    paths = dict.fromkeys(str(call.input["path"]) for call in missing)
    return f"I'll change {' and '.join(f'`{path}`' for path in paths)}."


def _report(steps: Sequence[Step], order: Order, missing: Sequence[Call]) -> str:
    if missing:
        return f"{order.summary} Not everything could be applied: {len(missing)} change(s) were refused."
    last = next((step for step in reversed(steps) if step.name == "run_check"), None)
    if last is not None and (last.failed or not last.result.startswith("exit 0")):
        return f"{order.summary} The check `{last.input.get('name')}` is not green yet."
    return order.summary


def _finish(summary: str) -> Move:
    return Move("That is all.", (Call("finish", {"summary": summary}),))


def _view(path: str, start: int | None = None, end: int | None = None) -> Call:
    return Call("view", {"path": path, "start": start, "end": end})


def _somewhere(order: Order) -> str:
    return order.paths[0] if order.paths else "README.md"
