"""Which stored answers serve whom, what replay sees, and what is counted."""

import asyncio
from typing import Any

import pytest

from taskyard.services.practice import Fault, Reply

TEXT = Reply([{"type": "text", "text": "I would rather not use a tool."}], "end_turn")


@pytest.mark.parametrize("kind", ["refusal", "max_tokens", "empty_content"])
async def test_an_answer_that_is_not_good_serves_only_who_paid_for_it(desk: Any, kind: str) -> None:
    """Refused, cut off or empty: kept for replay, never offered to another task, never replaced by a later answer."""
    desk.arm(Fault(kind))
    async with desk.life() as life:
        spoilt = await life.ask("T1")
    async with desk.life() as life:
        good = await life.ask("T2")
        assert life.sources == ["paid"]
        third = await life.ask("T3")
    assert spoilt.stop_reason != "tool_use" or not spoilt.content or spoilt.content[0]["input"] == {}
    assert good.stop_reason == "tool_use"
    assert third.raw == good.raw
    async with desk.life() as life:
        assert (await life.ask("T1")).raw == spoilt.raw
        assert life.sources == ["cache"]
    assert (desk.posts, desk.paid) == (2, 2)


async def test_an_answer_without_the_tool_call_that_was_demanded_serves_nobody_else(desk: Any) -> None:
    """Good words are no answer to a request that forces a tool; without the demand they are."""
    desk.brain.reply = lambda _: TEXT
    async with desk.life() as life:
        for task in ("T1", "T2"):
            await life.ask(task)
            await life.ask(task, "free to talk", attempt=2, tool_choice={"type": "auto"})
        assert life.sources == ["paid", "paid", "paid", "cache"]


async def test_those_who_wait_for_a_flight_do_not_get_an_answer_that_is_not_good(desk: Any) -> None:
    """Only the one who paid sees the refusal; the others ask once more, together."""
    desk.arm(Fault("refusal"))
    desk.brain.go.clear()
    async with desk.life() as life:
        asking = [asyncio.create_task(life.ask(f"T{n}")) for n in range(4)]
        await life.until("in-flight", 4)
        desk.brain.go.set()
        answers = await asyncio.gather(*asking)
        assert sorted(answer.stop_reason for answer in answers) == ["refusal", "tool_use", "tool_use", "tool_use"]
        assert sorted(life.sources) == ["paid", "paid", "shared", "shared"]
    assert desk.paid == 2


async def test_a_further_attempt_pays_for_its_own_answer_and_takes_nobodys_away(desk: Any) -> None:
    """Attempt 2 asks what attempt 1 was refused; after a crash both replay what each of them got, and pay nothing."""
    desk.arm(Fault("refusal"))
    async with desk.life() as life:
        first, second = await life.ask(attempt=1), await life.ask(attempt=2)
    async with desk.life() as life:
        again = [(await life.ask(attempt=attempt)).raw for attempt in (1, 2)]
        assert life.sources == ["cache", "cache"]
    assert again == [first.raw, second.raw]
    assert first.raw != second.raw
    assert desk.paid == 2


async def test_with_the_cache_off_answers_of_other_runs_are_neither_used_nor_touched(desk: Any) -> None:
    """--cache off: everything is asked anew and the new answers stay out of the cache; the old one still serves."""
    async with desk.life("r1") as life:
        old = await life.ask()
    async with desk.life("r2", cache="off") as life:
        new = await life.ask()
        assert life.sources == ["paid"]
    async with desk.life("r2", cache="off") as life:
        assert (await life.ask()).raw == new.raw
        assert life.sources == ["cache"]
    async with desk.life("r1") as life:
        assert (await life.ask()).raw == old.raw
    async with desk.life("r3") as life:
        assert (await life.ask()).raw == old.raw
    assert new.raw != old.raw
    assert desk.paid == 2


async def test_with_the_cache_read_old_answers_are_used_and_new_ones_not_kept_for_others(desk: Any) -> None:
    """--cache read."""
    async with desk.life("r1") as life:
        await life.ask("T1", "old")
    async with desk.life("r2", cache="read") as life:
        await life.ask("T1", "old", attempt=1)
        await life.ask("T1", "new", attempt=2)
        assert life.sources == ["cache", "paid"]
    async with desk.life("r3") as life:
        await life.ask("T1", "new")
        assert life.sources == ["paid"]
    assert desk.paid == 3


async def test_an_expired_answer_serves_no_other_but_is_replayed(desk: Any) -> None:
    """C03: the time is stored with the answer, so another setting revives nothing; replay reads what it recorded."""
    async with desk.life("r1", ttl_s=100.0) as life:
        old = await life.ask()
    desk.clock.ahead_s = 99.0
    async with desk.life("r2", ttl_s=100.0) as life:
        await life.ask()
        assert life.sources == ["cache"]
    desk.clock.ahead_s = 200.0
    for run, source in (("r3", "paid"), ("r4", "cache")):
        async with desk.life(run, ttl_s=None) as life:
            assert (await life.ask()).raw != old.raw
            assert life.sources == [source]
    for run in ("r1", "r2"):
        async with desk.life(run) as life:
            assert (await life.ask()).raw == old.raw
            assert life.sources == ["cache"]
    assert desk.paid == 2


async def test_the_hit_rate_is_hits_over_lookups_and_outlives_the_process(desk: Any) -> None:
    """C08, C09: 5 hits and 5 misses are 0.5, in total and by role and model, also after the file was reopened."""
    async with desk.life("r1") as life:
        assert (await life.gateway.ledger.cache_stats()).hit_rate == 0
        for number in range(5):
            await life.ask(f"T{number}", f"prompt {number}", role="planner" if number < 4 else "judge")
    async with desk.life("r2") as life:
        for number in range(5):
            await life.ask(f"T{number}", f"prompt {number}", role="planner" if number < 3 else "judge")
        worth = sum(event.saved_usd for event in life.answers)
    async with desk.life("r3") as life:
        stats = await life.gateway.ledger.cache_stats()
    assert (stats.hits, stats.misses, stats.hit_rate) == (5, 5, 0.5)
    assert stats.by_role == {"planner": (3, 4), "judge": (2, 1)}
    assert stats.by_model == {"claude-sonnet-5-5": (5, 5)}
    assert stats.entries == 5
    assert stats.bytes == sum(len(raw) for (raw,) in desk.rows("select raw from answer"))
    assert stats.saved_usd == pytest.approx(worth)


async def test_replay_costs_nothing_and_counts_nothing_twice(desk: Any) -> None:
    """A step read from the journal is an `answer` event from the cache at $0; bill and hit rate stay as they were."""
    async with desk.life("r0") as life:
        await life.ask("T0", "known")
    async with desk.life() as life:
        await life.ask("T1", "new")
        await life.ask("T2", "known")
        before = await life.gateway.ledger.spent("r1"), await life.gateway.ledger.cache_stats()
    for _ in range(2):
        async with desk.life() as life:
            await life.ask("T1", "new")
            await life.ask("T2", "known")
            assert life.sources == ["cache", "cache"]
            assert [(event.cost_usd, event.saved_usd) for event in life.answers] == [(0.0, 0.0), (0.0, 0.0)]
            assert life.budget.spent_usd == 0
            assert (await life.gateway.ledger.spent("r1"), await life.gateway.ledger.cache_stats()) == before
    assert len(desk.rows("select * from journal")) == 3
    assert desk.paid == 2


async def test_an_answer_can_not_be_changed_by_who_got_it(desk: Any) -> None:
    """C11: each asker has an answer of his own; the stored bytes are what everyone's is read from."""
    async with desk.life() as life:
        first = await life.ask("T1")
        first.content[0]["input"]["number"] = "changed by a caller"
        assert (await life.ask("T2")).content[0]["input"] == {"number": 1}
        with pytest.raises(AttributeError):
            first.raw = b"changed"
