"""The practice model: answers like a model, without being one.

    reply = answer(body)            # body: a Messages API request, as a dictionary
    reply.stop_reason               # "tool_use"
    reply.content                   # [{"type": "text", …}, {"type": "tool_use", "id": "toolu_…", …}]

The answer is a pure function of the request's body: of no counter, no clock, no hash seed and not of who asks.
The role is told by the tools on offer: `plan`, `verdict`, or the implementer's. What it can do:

- the tasks of the sample project's board, told by their text (`recipes`);
- the further tasks that `project.files(n)` makes beyond nine (`variations`);
- any task that says what to do in the sentences of `sentences`, which also lists the directives that make trouble.

Any other task it plans, leaves as it is, and says so. The ids of tool calls are made from the body too; a server is
free to give others.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from taskyard.services.practice import recipes, sentences, variations
from taskyard.services.practice.changes import Call
from taskyard.services.practice.implementer import next_move
from taskyard.services.practice.judge import verdict
from taskyard.services.practice.orders import Order
from taskyard.services.practice.reading import Prompt, read
from taskyard.services.practice.wire import Reply

_NONSENSE = "The colour of the sea at noon is a question of where you stand."
_GREETING = "This is the practice model. It plans, implements and judges taskyard's tasks; it knows nothing else."


def answer(body: Mapping[str, Any]) -> Reply:
    """The answer to a request that the server found valid. Never raises for one."""
    prompt = read(body)
    asked = sentences.directives(prompt.text)
    match prompt.role:
        case "planner" if asked.plan_refused:
            return Reply(_text("I can't help with this."), "refusal")
        case "planner" if not asked.planner_nonsense:
            return _calls(body, "", [Call("plan", _plan(prompt, _order(prompt, asked)))])
        case "judge" if not asked.judge_nonsense:
            return _calls(body, "", [Call("verdict", verdict(prompt, _order(prompt, asked), asked).as_input())])
        case "implementer" if asked.implementer_cut_off:
            return Reply(_text("I'll look at the code first and then"), "max_tokens")
        case "implementer" if not asked.implementer_nonsense:
            move = next_move(prompt, _order(prompt, asked), asked)
            return _calls(body, move.said, move.calls)
        case "other":
            return Reply(_text(_GREETING), "end_turn")
    return Reply(_text(_NONSENSE), "end_turn")


def _order(prompt: Prompt, asked: sentences.Directives) -> Order:
    return recipes.order(prompt) or variations.order(prompt) or sentences.order(prompt, asked)


def _plan(prompt: Prompt, order: Order) -> dict[str, Any]:
    return {
        "summary": order.plan.summary,
        "steps": list(order.plan.steps),
        "files": list(order.paths),
        "checks": list(prompt.checks),
        "risks": list(order.plan.risks),
    }


def _text(said: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": said}]


def _calls(body: Mapping[str, Any], said: str, calls: Sequence[Call]) -> Reply:
    digest = hashlib.blake2b(orjson.dumps(body, option=orjson.OPT_SORT_KEYS), digest_size=9).hexdigest()
    uses = [
        {"type": "tool_use", "id": f"toolu_{digest}{number:04d}", "name": call.name, "input": call.input}
        for number, call in enumerate(calls)
    ]
    return Reply([*(_text(said) if said else []), *uses], "tool_use")
