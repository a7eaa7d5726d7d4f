"""What goes wrong on the wire, and what each failure means for the bill."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from taskyard.services.errors import EnvironmentFault, KeyRefused, RequestRefused, ServerUnreachable
from taskyard.services.llm import Endpoint, LiveLane, NotAccepted, Patience
from taskyard.services.practice import Fault, PracticeServer

PAID_AND_LOST = ("drop_after", "truncated_body", "not_json")


async def test_a_rate_limit_is_waited_for_and_costs_nothing(desk: Any) -> None:
    """429: surely not accepted; sent again after the time that the server named, and paid once."""
    desk.arm(Fault("429", seconds=0.3))
    accepted: list[float] = []
    desk.brain.before = lambda: accepted.append(time.monotonic())
    async with desk.life() as life:
        began = time.monotonic()
        await life.ask()
        assert life.doubts == []
        assert accepted[0] - began >= 0.3
    assert desk.states == ["refused", "done"]
    assert (desk.posts, desk.paid) == (2, 1)


async def test_after_a_rate_limit_nobody_sends_before_the_time_the_server_named(desk: Any) -> None:
    """One gate for the whole process: also those who waited for their turn when the refusal came hold back."""
    desk.arm(Fault("429", seconds=0.5))
    accepted: list[float] = []
    desk.brain.before = lambda: accepted.append(time.monotonic())
    async with desk.life(live_requests=1) as life:
        began = time.monotonic()
        await asyncio.gather(*(life.ask(f"T{n}", f"prompt {n}") for n in range(5)))
    assert min(accepted) - began >= 0.5
    assert (desk.posts, desk.paid) == (6, 5)


async def test_a_task_that_waits_for_the_gate_is_in_back_off(desk: Any) -> None:
    """While nothing may be sent the task is at `backoff`, not in flight: it holds up no flush."""
    desk.arm(Fault("429", seconds=0.2))
    async with desk.life() as life:
        asking = asyncio.create_task(life.ask())
        await life.until("backoff", 1)
        assert not asking.done()
        await asking
        assert life.activity.place("T1") is None


@pytest.mark.parametrize(
    "kind", ["500", "504", "529", "drop_before", "drop_after", "truncated_body", "not_json", "stall"]
)
async def test_an_answer_lost_on_the_way_is_possibly_paid_and_asked_for_again(desk: Any, kind: str) -> None:
    """Nobody can tell whether it was paid: a row, an event with the worst case, and exactly one more POST."""
    desk.arm(Fault(kind, seconds=0.01))
    async with desk.life(timeout_s=2.0 if kind == "stall" else 60.0) as life:
        answer = await life.ask()
        assert [(doubt.key, doubt.model) for doubt in life.doubts] == [(answer.name, "claude-sonnet-5-5")]
        assert life.doubts[0].worst_case_usd > life.answers[0].cost_usd > 0
        assert life.doubts[0].reason
        assert life.sources == ["paid"]
        spent = await life.gateway.ledger.spent("r1")
        assert (spent.paid, spent.possibly_paid) == (1, 1)
        assert spent.possibly_paid_usd == life.doubts[0].worst_case_usd
        assert life.budget.spent_usd == pytest.approx(spent.cost_usd + spent.possibly_paid_usd)
    assert desk.states == ["possibly_paid", "done"]
    assert desk.posts == 2
    assert desk.paid == (2 if kind in (*PAID_AND_LOST, "stall") else 1)


@pytest.mark.parametrize("kind", ["500", "drop_after"])
async def test_lost_answers_are_asked_for_until_patience_is_over(desk: Any, kind: str) -> None:
    """Each try may be paid and is on record; then the run stops, resumable, and a server that is well again is used."""
    desk.arm(Fault(kind, seconds=0.01, times=0))
    async with desk.life(patience=Patience(backoff_s=0.01, backoff_max_s=0.02, unreachable_s=0.2)) as life:
        with pytest.raises(ServerUnreachable, match="no proper answer"):
            await life.ask()
        tries = len(life.doubts)
        assert tries > 1
        assert life.answers == []
        desk.server.faults.clear()
        await life.ask("T2", "something else")
    assert desk.states == ["possibly_paid"] * tries + ["done"]
    assert desk.posts == tries + 1


async def test_a_server_in_trouble_is_probed_by_one_request_at_a_time(desk: Any) -> None:
    """Twenty tasks in an overload: after the first burst each wait is followed by one try, not by twenty."""
    desk.arm(Fault("529", seconds=0.01, times=0))
    async with desk.life(patience=Patience(backoff_s=0.05, backoff_max_s=0.05, unreachable_s=0.3)) as life:
        asked = [life.ask(f"T{n}", f"question {n}") for n in range(20)]
        ends = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(end) for end in ends} == {ServerUnreachable}
    # A burst of 20, some 6 probes until patience is over, one last probe for each of the others; else 20 times 6.
    assert desk.posts < 60


@pytest.mark.parametrize("kind", ["400", "404", "413"])
async def test_a_refused_request_is_sent_once_and_costs_nothing(desk: Any, kind: str) -> None:
    """The server refuses for good: one POST, RequestRefused with its words, nothing possibly paid."""
    path = "^POST /v1/messages$"
    desk.arm(Fault(kind, path=path, times=0))
    async with desk.life() as life:
        with pytest.raises(RequestRefused, match=kind):
            await life.ask()
        assert life.events == []
        assert life.budget.spent_usd == 0
    assert (desk.states, desk.posts, desk.paid) == (["refused"], 1, 0)


async def test_a_request_that_breaks_the_rules_of_the_api_is_refused(desk: Any) -> None:
    """The server's own words say which field."""
    async with desk.life() as life:
        with pytest.raises(RequestRefused, match="tool_choice"):
            await life.ask(tool_choice={"type": "tool", "name": "no_such_tool"})
    assert (desk.states, desk.paid) == (["refused"], 0)


async def test_a_parameter_that_the_sdk_does_not_know_is_refused_before_it_is_sent(desk: Any) -> None:
    """A fault of ours, told as such: nothing left this machine, and nothing stays open on the ledger."""
    async with desk.life() as life:
        with pytest.raises(RequestRefused, match="SDK refused"):
            await life.ask(temperatur=1)
    assert (desk.states, desk.posts) == (["refused"], 0)


@pytest.mark.parametrize(("kind", "says"), [("401", "API key"), ("403", "API key"), ("402", "can't pay")])
async def test_a_refused_key_or_account_is_told_as_such(desk: Any, kind: str, says: str) -> None:
    """Sent once, with what to do about it; a run can't go on with it."""
    desk.arm(Fault(kind, times=0))
    async with desk.life() as life:
        with pytest.raises(KeyRefused, match=says):
            await life.ask()
    assert (desk.states, desk.posts, desk.paid) == (["refused"], 1, 0)


async def test_the_preflight_tells_a_bad_key_and_costs_nothing(desk: Any) -> None:
    """Before a run spends anything the key is tried on a free request."""
    for key, good in (("any", True), ("refused-1", False)):
        lane = LiveLane(Endpoint(base_url=desk.server.url, api_key=key))
        try:
            if good:
                await lane.preflight("claude-sonnet-5-5")
            else:
                with pytest.raises(KeyRefused):
                    await lane.preflight("claude-sonnet-5-5")
        finally:
            await lane.close()
    assert desk.paid == 0


def nobody_at() -> Endpoint:
    """An address of this machine at which nobody listens any more."""
    with PracticeServer(model=lambda _: pytest.fail("nobody asks")) as server:
        return Endpoint(base_url=server.url, api_key="any")


async def test_an_unreachable_server_is_known_not_to_have_been_asked() -> None:
    """No connection, no payment: NotAccepted, marked as unreachable, from a request and from the preflight."""
    lane = LiveLane(nobody_at())
    message = {"model": "claude-sonnet-5-5", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]}
    try:
        for attempt in (lane.send(message), lane.preflight("claude-sonnet-5-5")):
            with pytest.raises(NotAccepted) as caught:
                await attempt
            assert caught.value.unreachable
    finally:
        await lane.close()


async def test_an_unreachable_server_ends_the_run_when_patience_is_over(desk: Any) -> None:
    """Retried with back-off for so long, then ServerUnreachable; nothing is possibly paid."""
    patience = Patience(backoff_s=0.01, backoff_max_s=0.02, unreachable_s=0.2)
    async with desk.life(endpoint=nobody_at(), patience=patience) as life:
        began = time.monotonic()
        with pytest.raises(ServerUnreachable, match="taskyard resume"):
            await life.ask()
        assert time.monotonic() - began >= 0.2
        assert life.doubts == []
    assert len(desk.states) >= 2
    assert set(desk.states) == {"refused"}


async def test_without_a_key_nothing_is_left_open(desk: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key at all: says what to set, and the ledger does not take it for a request that may have been paid."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    async with desk.life(endpoint=Endpoint(base_url=desk.server.url)) as life:
        with pytest.raises(EnvironmentFault, match="ANTHROPIC_API_KEY"):
            await life.ask()
    assert (desk.states, desk.posts) == (["refused"], 0)


async def test_all_who_share_a_flight_hear_of_its_failure(desk: Any) -> None:
    """A refusal goes to every waiter, and the name is free again afterwards."""
    desk.arm(Fault("400", times=1))
    async with desk.life() as life:
        results = await asyncio.gather(*(life.ask(f"T{n}") for n in range(4)), return_exceptions=True)
        assert [type(result) for result in results] == [RequestRefused] * 4
        await life.ask("T1")
    assert (desk.posts, desk.paid) == (2, 1)
