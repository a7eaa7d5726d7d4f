"""The gateway: on disk before it is read, paid once, shared by all who ask the same."""

import asyncio
from typing import Any

import orjson
import pytest

from taskyard.services.errors import BudgetReached, RequestRefused
from taskyard.services.events import AnswerGiven, Event, Warned
from taskyard.services.llm import PriceTable, name_of
from taskyard.services.records import Usage


async def test_an_answer_is_on_disk_before_anyone_reads_it(desk: Any) -> None:
    """Pay once: when the answer is told of, another process already finds it, paid for and journalled."""
    seen: list[Any] = []

    def look(event: Event) -> None:
        if isinstance(event, AnswerGiven):
            seen.append((desk.states, desk.rows("select name, raw from answer"), desk.rows("select kind from journal")))

    desk.on_event = look
    async with desk.life() as life:
        answer = await life.ask()
    assert seen == [(["done"], [(answer.name, answer.raw)], [("answer",)])]
    assert orjson.loads(answer.raw)["content"][0]["input"] == {"number": 1}


async def test_the_ledger_row_is_on_disk_before_the_request_leaves(desk: Any) -> None:
    """Pay once: the server, asked to look into the file while it answers, finds the intent, with its worst case."""
    seen: list[Any] = []
    desk.brain.before = lambda: seen.append(desk.rows("select name, state, worst_case_usd > 0 from submission"))
    async with desk.life() as life:
        answer = await life.ask()
    assert seen == [[(answer.name, "submitting", 1)]]
    assert desk.states == ["done"]


async def test_equal_requests_of_any_task_run_and_server_are_paid_once(desk: Any) -> None:
    """The second ask is served from the file: no request, $0, the same bytes; what it saves is the answer's worth."""
    async with desk.life("r1") as life:
        first = await life.ask("T1")
    async with desk.life("r2") as life:
        second = await life.ask("T2", role="judge")
        assert life.sources == ["cache"]
        assert life.answers[0].cost_usd == 0.0
        assert life.answers[0].saved_usd == pytest.approx(desk.rows("select cost_usd from answer")[0][0])
    assert second.raw == first.raw
    assert (desk.posts, desk.paid) == (1, 1)


async def test_nine_equal_requests_at_once_are_one_payment(desk: Any) -> None:
    """C18: single flight: one is paid, the eight others share its answer."""
    desk.brain.go.clear()
    async with desk.life() as life:
        asking = [asyncio.create_task(life.ask(f"T{n}")) for n in range(9)]
        await life.until("in-flight", 9)
        assert life.gateway.in_flight == 1
        desk.brain.go.set()
        answers = await asyncio.gather(*asking)
        assert sorted(life.sources) == ["paid"] + ["shared"] * 8
        costs = sorted(event.cost_usd for event in life.answers)
        assert costs[:8] == [0.0] * 8 < costs[8:]
        assert all(event.saved_usd == pytest.approx(costs[8]) for event in life.answers if event.source == "shared")
        assert life.gateway.in_flight == 0
    assert len({answer.raw for answer in answers}) == 1
    assert (desk.posts, desk.paid) == (1, 1)


async def test_different_requests_fly_side_by_side_within_the_limit(desk: Any) -> None:
    """`live_requests` counts live calls: twelve requests, never more than three at the server."""
    async with desk.life(live_requests=3) as life:
        await asyncio.gather(*(life.ask(f"T{n}", f"prompt {n}") for n in range(12)))
    assert desk.paid == 12
    assert desk.server.peak_live <= 3


async def test_a_waiter_that_is_cancelled_does_not_lose_the_answer(desk: Any) -> None:
    """The flight goes on, the answer is kept, and asking again costs nothing."""
    desk.brain.go.clear()
    async with desk.life() as life:
        asking = asyncio.create_task(life.ask("T1"))
        assert await asyncio.to_thread(desk.brain.entered.wait, 60)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        desk.brain.go.set()
        await life.gateway.drain(60)
        assert desk.states == ["done"]
        assert life.answers == []
    async with desk.life() as life:
        await life.ask("T1")
        assert life.sources == ["paid"]
    assert (desk.posts, desk.paid) == (1, 1)


async def test_one_of_several_waiters_may_go(desk: Any) -> None:
    """When the one who started a flight is cancelled the others still get its answer."""
    desk.brain.go.clear()
    async with desk.life() as life:
        first = asyncio.create_task(life.ask("T1"))
        assert await asyncio.to_thread(desk.brain.entered.wait, 60)
        second = asyncio.create_task(life.ask("T2"))
        await life.until("in-flight", 2)
        first.cancel()
        desk.brain.go.set()
        await second
        assert life.sources == ["shared"]
    assert desk.paid == 1


async def test_closing_records_what_is_under_way_as_possibly_paid(desk: Any) -> None:
    """What is given up in mid-request may have been paid: it is on the record and told."""
    desk.brain.go.clear()
    async with desk.life() as life:
        asking = asyncio.create_task(life.ask())
        assert await asyncio.to_thread(desk.brain.entered.wait, 60)
        await life.gateway.close()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert desk.states == ["possibly_paid"]
        assert len(life.doubts) == 1
        spent = await life.gateway.ledger.spent("r1")
        assert (spent.paid, spent.possibly_paid) == (0, 1)
        assert spent.possibly_paid_usd == life.doubts[0].worst_case_usd > 0


async def test_cost_is_that_of_the_usage_to_the_cent(desk: Any) -> None:
    """Every sum is what the server counted, priced by hand: $2 in, $10 out, writes 1.25 times, reads a tenth."""
    system = [{"type": "text", "text": "the rules " * 1000, "cache_control": {"type": "ephemeral"}}]
    async with desk.life() as life:
        for number in range(3):
            await life.ask(f"T{number}", f"prompt {number}", system=system)
        rows = desk.server.ledger.snapshot()["paid"]
        total = {name: sum(row[name] for row in rows) for name in rows[0] if name.endswith("tokens")}
        assert total["cache_write_5m_tokens"] > 0 < total["cache_read_tokens"]
        by_hand = (
            2.0 * total["input_tokens"] + 10.0 * total["output_tokens"] + 0.2 * total["cache_read_tokens"]
            + 2.5 * total["cache_write_5m_tokens"] + 4.0 * total["cache_write_1h_tokens"]
        ) / 1e6  # fmt: skip
        spent = await life.gateway.ledger.spent("r1")
        assert spent.cost_usd == pytest.approx(by_hand)
        assert life.budget.spent_usd == pytest.approx(by_hand)
        assert sum(event.cost_usd for event in life.answers) == pytest.approx(by_hand)
        assert sum((await life.gateway.ledger.cost_by_task("r1")).values()) == pytest.approx(by_hand)
        assert await life.gateway.ledger.cost("r1", "T0", 1) == pytest.approx(life.answers[0].cost_usd)
        read, written = total["cache_read_tokens"], total["cache_write_5m_tokens"]
        assert spent.prompt_cache_usd == pytest.approx((1.8 * read - 0.5 * written) / 1e6)
        tokens = [
            (event.input_tokens, event.output_tokens, event.cache_read_tokens, event.cache_write_tokens)
            for event in life.answers
        ]
        assert [sum(column) for column in zip(*tokens, strict=True)] == [
            total["input_tokens"], total["output_tokens"], read, written,
        ]  # fmt: skip


async def test_a_model_without_a_price_costs_null_everywhere(desk: Any) -> None:
    """Unpriced is None in the event, in the bill and in what a hit saves; never 0."""
    async with desk.life() as life:
        await life.ask("T1", model="claude-of-tomorrow")
        assert life.answers[0].cost_usd is None
        spent = await life.gateway.ledger.spent("r1")
        assert (spent.paid, spent.cost_usd) == (1, None)
        await life.ask("T2", "another", model="claude-sonnet-5-5")
        assert (await life.gateway.ledger.spent("r1")).cost_usd is None
    async with desk.life("r2") as life:
        await life.ask("T1", model="claude-of-tomorrow")
        assert (life.answers[0].cost_usd, life.answers[0].saved_usd) == (0.0, None)
        assert (await life.gateway.ledger.spent("r2")).cost_usd == 0.0


async def test_what_does_not_fit_the_budget_is_not_sent(desk: Any) -> None:
    """The worst case has to fit before anything leaves; nothing is spent, nothing is on the ledger."""
    price = PriceTable.load(None).find("claude-sonnet-5-5", desk.clock.now())
    assert price is not None
    least = price.cost(Usage(output_tokens=500), "live")
    async with desk.life(limit_usd=least) as life:
        with pytest.raises(BudgetReached):
            await life.ask()
    assert (desk.posts, desk.states) == (0, [])


async def test_requests_wait_for_each_other_within_the_budget(desk: Any) -> None:
    """Nine requests whose worst cases don't fit together all get their answers, since each costs far less."""
    async with desk.life(limit_usd=0.02) as life:
        await asyncio.gather(*(life.ask(f"T{n}", f"prompt {n}") for n in range(9)))
        assert desk.paid == 9
        assert desk.server.peak_live < 9
        assert life.budget.spent_usd < 0.02


async def test_what_can_not_be_encoded_is_not_sent(desk: Any) -> None:
    """C17: a lone surrogate has no bytes; the request is refused here, at no cost."""
    async with desk.life() as life:
        with pytest.raises(RequestRefused):
            await life.ask("T1", "\ud800")
    assert (desk.posts, desk.states) == (0, [])


@pytest.mark.parametrize("task", ["../../../../owned", "a/b", "x" * 5000, "T1:x\n", "größe 🙂", ""])
async def test_any_string_is_a_legal_task_id(desk: Any, task: str) -> None:
    """C05, C06, C07: ids never become paths; they are kept and found again, however odd."""
    async with desk.life() as life:
        await life.ask(task)
    async with desk.life() as life:
        await life.ask(task)
        assert life.sources == ["cache"]
    assert desk.rows("select task from journal") == [(task,)]
    assert {path.name.partition("-")[0] for path in desk.path.parent.iterdir()} == {"taskyard.db"}
    assert desk.posts == 1


async def test_a_recorded_answer_that_is_gone_is_asked_for_again_and_told(desk: Any) -> None:
    """Somebody emptied the table by hand: a warning, one more payment, and an event that says it was paid."""
    async with desk.life() as life:
        await life.ask()
        await life.db.write(lambda c: c.execute("delete from answer"))
    for sources in (["paid"], ["paid"]):
        async with desk.life() as life:
            await life.ask()
            assert [event.code for event in life.events if isinstance(event, Warned)] == ["answer_missing"]
            assert life.sources == sources
    assert desk.paid == 2


async def test_the_key_of_an_answer_is_the_name_of_its_request(desk: Any) -> None:
    """The event names what was paid for, so that it can be found in cache and ledger."""
    async with desk.life() as life:
        answer = await life.ask()
    (body,) = desk.brain.asked
    assert life.answers[0].key == answer.name == name_of(dict(body))
