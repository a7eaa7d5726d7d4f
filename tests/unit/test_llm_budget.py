"""The hard stop: what does not fit waits, and ends the run only when nothing is outstanding."""

import asyncio

import pytest

from taskyard.services.errors import BudgetReached
from taskyard.services.llm import Budget


class Payer:
    """Reserves, tells when it got through, and lets go when told to."""

    def __init__(self, budget: Budget, worst: float, cost: float) -> None:
        self._go = asyncio.Event()
        self.inside = False
        self.task = asyncio.create_task(self._pay(budget, worst, cost))

    async def _pay(self, budget: Budget, worst: float, cost: float) -> None:
        async with budget.reserve(worst) as bill:
            self.inside = True
            await self._go.wait()
            bill.cost_usd = cost

    async def done(self) -> None:
        self._go.set()
        await self.task
        await settle()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_what_does_not_fit_waits_until_a_reservation_is_let_go() -> None:
    """The worst case is held while a request is out; its true cost makes room again."""
    budget = Budget(1.0, 0.0)
    first, second, third = Payer(budget, 0.6, 0.1), Payer(budget, 0.5, 0.1), Payer(budget, 0.4, 0.1)
    await settle()
    assert [payer.inside for payer in (first, second, third)] == [True, False, True]
    await first.done()
    assert second.inside
    await second.done()
    await third.done()
    assert budget.spent_usd == pytest.approx(0.3)


async def test_the_run_ends_only_when_nothing_is_outstanding() -> None:
    """BudgetReached is raised for a waiting request when the last reservation is gone and it still does not fit."""
    budget = Budget(1.0, 0.0)
    first, second = Payer(budget, 0.6, 0.6), Payer(budget, 0.5, 0.5)
    await settle()
    assert not second.task.done()
    await first.done()
    with pytest.raises(BudgetReached, match=r"\$1\.00 is reached: \$0\.6000 spent.*\$0\.5000.*--budget"):
        await second.task
    assert budget.spent_usd == pytest.approx(0.6)
    third = Payer(budget, 0.4, 0.4)
    await third.done()
    assert budget.spent_usd == pytest.approx(1.0)


async def test_what_earlier_lives_spent_counts() -> None:
    """A resumed run goes on from what it has spent."""
    with pytest.raises(BudgetReached):
        async with Budget(1.0, 0.9).reserve(0.2):
            pytest.fail("0.9 + 0.2 does not fit into 1.0")


async def test_without_a_limit_everything_fits() -> None:
    """None is no limit; what is spent is counted all the same."""
    budget = Budget(None, 0.0)
    payers = [Payer(budget, 1e9, 1.0) for _ in range(5)]
    await settle()
    assert all(payer.inside for payer in payers)
    for payer in payers:
        await payer.done()
    assert budget.spent_usd == 5.0


async def test_a_failed_or_cancelled_request_lets_its_reservation_go() -> None:
    """Nothing stays reserved for what is over; the bill that was set before still counts."""
    budget = Budget(1.0, 0.0)
    with pytest.raises(ValueError, match="lost"):
        async with budget.reserve(0.9) as bill:
            bill.cost_usd = 0.3
            raise ValueError("lost")
    cancelled = Payer(budget, 0.7, 0.7)
    waiting = Payer(budget, 0.6, 0.1)
    await settle()
    assert (cancelled.inside, waiting.inside) == (True, False)
    cancelled.task.cancel()
    await settle()
    assert waiting.inside
    await waiting.done()
    assert budget.spent_usd == pytest.approx(0.4)


async def test_a_waiter_that_is_cancelled_holds_nothing() -> None:
    """Giving up while waiting changes nothing for the others."""
    budget = Budget(1.0, 0.0)
    first, second = Payer(budget, 1.0, 0.0), Payer(budget, 1.0, 0.0)
    await settle()
    second.task.cancel()
    await first.done()
    third = Payer(budget, 1.0, 1.0)
    await third.done()
    assert budget.spent_usd == 1.0
