"""The order in which tasks meet the tip, kept across runs.

Which of two overlapping changes lands first decides which one conflicts, and so what is asked of the model. The first
run's order is recorded; a later run of the same board on the same base lets a task wait for those that met the tip
before it, as long as they can still come. When everything waits for the order (the board was edited), the first in
line goes.
"""

import asyncio
from collections.abc import Iterable, Mapping

from taskyard.services.activity import Activity
from taskyard.services.journal import Sticky


class Meeting:
    """The turnstile before the merge queue."""

    def __init__(
        self, sticky: Sticky, activity: Activity, scope: str, order: Iterable[tuple[str, int]], texts: Mapping[str, str]
    ) -> None:
        """order: what `Sticky.order` gave for `scope`; texts: {task id: digest of its text} of this run's tasks."""
        self._sticky = sticky
        self._activity = activity
        self._scope = scope
        self._texts = dict(texts)
        here = set(self._texts.values())
        self._places = {entry: place for place, entry in enumerate(order) if entry[0] in here}
        self._reached = dict.fromkeys(here, 1)
        self._gone: set[str] = set()
        self._met: set[tuple[str, int]] = set()
        self._waiting: dict[int, asyncio.Event] = {}
        activity.listen(self._look)

    def attempt(self, task: str, number: int) -> None:
        """The task has begun this attempt, so its earlier ones will not come any more."""
        self._reached[self._texts[task]] = number
        self._look()

    def ended(self, task: str) -> None:
        """The task will not come (again)."""
        self._gone.add(self._texts[task])
        self._look()

    async def turn(self, task: str, attempt: int) -> None:
        """Wait for those that came before, then count as met."""
        entry = (self._texts[task], attempt)
        place = self._places.get(entry)
        if place is not None and self._expected_before(place):
            self._waiting[place] = asyncio.Event()
            try:
                with self._activity.at(task, "dependency"):
                    await self._waiting[place].wait()
            finally:
                del self._waiting[place]
        await self._sticky.met(self._scope, *entry)

    def submitted(self, task: str, attempt: int) -> None:
        """The task stands in the merge queue now; the next may come."""
        self._met.add((self._texts[task], attempt))
        self._look()

    def _expected_before(self, place: int) -> bool:
        return any(
            other < place
            and entry not in self._met
            and entry[0] not in self._gone
            and self._reached[entry[0]] <= entry[1]
            for entry, other in self._places.items()
        )

    def _look(self) -> None:
        if not self._waiting:
            return
        free = [place for place in self._waiting if not self._expected_before(place)]
        if not free and self._activity.only_at("dependency", "person"):
            free = [min(self._waiting)]
        for place in free:
            self._waiting[place].set()
