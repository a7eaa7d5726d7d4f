"""The hard stop: reserve the worst case, send what fits, release on usage."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from taskyard.services.errors import BudgetReached


class Bill:
    """What one reservation came to, US dollars; set by its holder before it lets go."""

    def __init__(self) -> None:
        self.cost_usd = 0.0


class Budget:
    """A limit for one run, US dollars; None is no limit.

    async with budget.reserve(0.30) as bill:
        bill.cost_usd = 0.02
    """

    def __init__(self, limit_usd: float | None, spent_usd: float) -> None:
        self.limit_usd = limit_usd
        self.spent_usd = spent_usd
        self._reserved = 0.0
        self._outstanding = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def reserve(self, worst_usd: float) -> AsyncIterator[Bill]:
        """Wait until the worst case fits, and hold it while the block runs.

        Raises BudgetReached when nothing is outstanding and it still does not fit.
        """
        async with self._changed:
            while not self._fits(worst_usd):
                if self._outstanding == 0:
                    raise BudgetReached(
                        f"the budget of ${self.limit_usd:.2f} is reached: ${self.spent_usd:.4f} spent, and the next "
                        f"request may cost ${worst_usd:.4f}. Raise it with `taskyard resume --budget USD`."
                    )
                await self._changed.wait()
            self._reserved += worst_usd
            self._outstanding += 1
        bill = Bill()
        try:
            yield bill
        finally:
            self._reserved -= worst_usd
            self._outstanding -= 1
            self.spent_usd += bill.cost_usd
            async with self._changed:
                self._changed.notify_all()

    def _fits(self, worst_usd: float) -> bool:
        return self.limit_usd is None or self.spent_usd + self._reserved + worst_usd <= self.limit_usd
