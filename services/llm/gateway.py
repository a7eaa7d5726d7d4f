"""The only way to a model: name → journal → cache → single flight → ledger → lane."""

import asyncio
from collections.abc import Callable
from typing import Literal

import msgspec

from taskyard.services import fault
from taskyard.services.activity import Activity
from taskyard.services.clock import Clock
from taskyard.services.database import Connection, Database
from taskyard.services.errors import EnvironmentFault, ModelError, ServerUnreachable
from taskyard.services.events import AnswerGiven, Event, PossiblyPaid, Warned
from taskyard.services.journal import Steps
from taskyard.services.llm.answers import Answer, MalformedAnswer, read_answer, useful
from taskyard.services.llm.budget import Bill, Budget
from taskyard.services.llm.ledger import Ledger, Stored
from taskyard.services.llm.live import Ambiguous, LiveLane, NotAccepted
from taskyard.services.llm.prices import PriceTable
from taskyard.services.llm.requests import Request, canonical, name_of
from taskyard.services.records import Source

CacheMode = Literal["on", "read", "off"]

_GARBLED = 2
"""Answers of one request that may be unreadable; each has probably been paid."""
_BYTES_PER_TOKEN = 2
"""Fewer than any text has on average, so that a reservation is a worst case."""


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long the gateway goes on trying."""

    backoff_s: float = 1.0
    """The first wait where the server names none; each further one is twice as long."""
    backoff_max_s: float = 30.0
    unreachable_s: float = 300.0
    """How long no proper answer may come: no server, a broken connection, or errors of its own (5xx)."""


class Served(msgspec.Struct, frozen=True):
    """The journal's record of an answer: which one, and what it meant for the bill."""

    source: Source
    cost_usd: float | None
    saved_usd: float | None
    answer: int
    """Its id in the ledger: a later answer to the same request never takes its place in a replay."""


class Gateway:
    """Asks models and remembers every answer.

        answer = await gateway.ask(request, steps)

    Equal requests at the same time make one paid request; an answer that is on disk is never paid again.
    """

    def __init__(
        self,
        *,
        db: Database,
        run: str,
        lane: LiveLane,
        prices: PriceTable,
        budget: Budget,
        activity: Activity,
        clock: Clock,
        emit: Callable[[Event], None],
        live_requests: int,
        cache: CacheMode,
        ttl_s: float | None,
        patience: Patience = Patience(),  # noqa: B008 (frozen)
    ) -> None:
        self.ledger = Ledger(db)
        self._db = db
        self._run = run
        self._lane = lane
        self._prices = prices
        self._budget = budget
        self._activity = activity
        self._clock = clock
        self._emit = emit
        self._live = asyncio.Semaphore(live_requests)
        self._cache = cache
        self._ttl_s = ttl_s
        self._patience = patience
        self._flights: dict[str, asyncio.Task[Stored]] = {}
        self._pause_until = 0.0
        self._delay = patience.backoff_s
        self._troubled = False
        self._failing_since: float | None = None
        self._probe = asyncio.Lock()

    async def recover(self) -> None:
        """Settle what a dead process of this run left open: each is possibly paid."""
        for lost in await self.ledger.lost(self._run):
            await self._doubt(lost.id, lost.name, lost.model, lost.worst_case_usd, "the process died in mid-request")

    async def ask(self, request: Request, steps: Steps) -> Answer:
        """The answer to a request: from the journal, the cache, a flight under way, or paid for now.

        It is on disk before this returns. Raises RequestRefused, KeyRefused, ServerUnreachable, BudgetReached,
        ModelError, StorageFull.
        """
        name = name_of(request.params, path=request.path, sample=request.sample)
        recorded = await steps.peek("answer", name)
        if recorded is not None:
            return await self._replay(name, request, msgspec.json.decode(recorded, type=Served))
        stored, source = await self._obtain(name, request)
        served = self._served(request, stored, source)
        await self._record(request, stored, served, steps)
        self._tell(request, stored, served, replayed=False)
        return stored.answer

    async def drain(self, seconds: float) -> None:
        """Wait, at most so long, for answers that are already being paid for."""
        if self._flights:
            await asyncio.wait(self._flights.values(), timeout=seconds)

    @property
    def in_flight(self) -> int:
        """How many requests are under way."""
        return len(self._flights)

    async def close(self) -> None:
        """Give up what is still under way (each is recorded as possibly paid) and close the connections."""
        flights = list(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)
        await self._lane.close()

    async def _replay(self, name: str, request: Request, served: Served) -> Answer:
        """The very answer that was recorded, also when it has expired or would not serve others."""
        stored = await self.ledger.get(served.answer)
        if stored is not None:
            self._tell(request, stored, served, replayed=True)
            return stored.answer
        self._emit(Warned(code="answer_missing", message=f"a recorded answer of {request.task} is gone; asking again"))
        stored, source = await self._obtain(name, request)
        self._tell(request, stored, self._served(request, stored, source), replayed=False)
        return stored.answer

    async def _obtain(self, name: str, request: Request) -> tuple[Stored, Source]:
        """An answer and how it was come by. One that is not good serves nobody but the request that paid for it."""
        while (stored := await self._stored(name, request)) is None:
            joined = name in self._flights
            with self._activity.at(request.task, "in-flight"):
                stored = await self._fly(name, request)
            if not joined:
                break
            if useful(stored.answer, request.params):
                return stored, "shared"
        own = stored.owner == (self._run, request.task, request.attempt, request.turn)
        return stored, "paid" if own else "cache"

    async def _stored(self, name: str, request: Request) -> Stored | None:
        """An answer on disk that may serve this request: its own always, another's if it is good and the cache on."""
        known = await self.ledger.find(name)
        mine = (self._run, request.task, request.attempt)
        return next((stored for stored in known if stored.owner[:3] == mine), None) or next(
            (stored for stored in known if self._serves_others(stored)), None
        )

    def _serves_others(self, stored: Stored) -> bool:
        if self._cache == "off" and stored.owner[0] != self._run:
            return False
        expired = stored.expires_at is not None and stored.expires_at <= self._clock.now()
        return stored.good and not expired

    def _served(self, request: Request, stored: Stored, source: Source) -> Served:
        if source == "paid":
            return Served(source, stored.cost_usd, 0.0, stored.id)
        price = self._prices.find(request.model, self._clock.now())
        return Served(source, 0.0, price.cost(stored.answer.usage, "live") if price else None, stored.id)

    async def _record(self, request: Request, stored: Stored, served: Served, steps: Steps) -> None:
        """Journal which answer this step got, and count a hit, in one transaction."""
        journal = steps.writer("answer", stored.answer.name, msgspec.json.encode(served))
        count = self.ledger.count_hit(request.role, request.model, served.saved_usd)

        def write(connection: Connection) -> None:
            journal(connection)
            if served.source != "paid":
                count(connection)

        fault.point("llm.serve.before")
        await self._db.write(write)
        fault.point("llm.serve.after")

    def _tell(self, request: Request, stored: Stored, served: Served, *, replayed: bool) -> None:
        usage = stored.answer.usage
        self._emit(
            AnswerGiven(
                task=request.task,
                role=request.role,
                attempt=request.attempt,
                turn=request.turn,
                model=request.model,
                lane="live",
                source="cache" if replayed else served.source,
                key=stored.answer.name,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cache_read_tokens=usage.cache_read_tokens,
                cache_write_tokens=usage.cache_write_tokens,
                cost_usd=0.0 if replayed else served.cost_usd,
                saved_usd=0.0 if replayed else served.saved_usd,
            )
        )

    async def _fly(self, name: str, request: Request) -> Stored:
        """Join the flight of that name, or start it. A waiter that is cancelled does not stop the flight."""
        flight = self._flights.get(name)
        if flight is None:
            flight = asyncio.create_task(self._pay(name, request), name=f"flight {name}")
            self._flights[name] = flight
            flight.add_done_callback(lambda done: self._landed(name, done))
        return await asyncio.shield(flight)

    def _landed(self, name: str, flight: "asyncio.Task[Stored]") -> None:
        del self._flights[name]
        if not flight.cancelled():
            flight.exception()  # seen, also when every waiter has gone

    async def _pay(self, name: str, request: Request) -> Stored:
        """Send until there is an answer, a refusal, or no more patience."""
        if (stored := await self._stored(name, request)) is not None:  # an earlier flight landed while its asker looked
            return stored
        garbled = 0
        while True:
            try:
                async with self._live:
                    stored = await self._send_or_probe(name, request)
            except NotAccepted as error:
                self._back_off(error, error.retry_after_s, failing=error.unreachable)
            except Ambiguous as error:
                self._back_off(error, error.retry_after_s, failing=True)
            except MalformedAnswer as error:
                garbled += 1
                if garbled == _GARBLED:
                    raise ModelError(f"{garbled} answers in a row could not be read: {error}") from error
            else:
                self._failing_since, self._troubled, self._delay = None, False, self._patience.backoff_s
                return stored

    async def _send_or_probe(self, name: str, request: Request) -> Stored:
        """While the server is in trouble, one request at a time finds out whether that is over."""
        if not self._troubled:
            return await self._submit(name, request)
        async with self._probe:
            return await self._submit(name, request)

    def _back_off(self, error: Exception, wait: float | None, *, failing: bool) -> None:
        """Close the gate for everyone, each time for longer. Raises ServerUnreachable when the patience is over.

        failing: no proper answer came; a rate limit, in contrast, may last as long as it likes.
        """
        now, patience = self._clock.monotonic(), self._patience
        self._troubled = True
        if failing:
            self._failing_since = now if self._failing_since is None else self._failing_since
            if now - self._failing_since >= patience.unreachable_s:
                raise ServerUnreachable(
                    f"no proper answer from the server for {patience.unreachable_s:.0f} seconds ({error}). "
                    "Check the network and ANTHROPIC_BASE_URL, then run `taskyard resume`."
                ) from error
        already_closed = self._pause_until > now  # by a request that was sent at the same time
        self._pause_until = max(self._pause_until, now + max(self._delay, wait or 0.0))
        if not already_closed:
            self._delay = min(2 * self._delay, patience.backoff_max_s)

    async def _wait_for_gate(self, task: str) -> None:
        """One gate for the whole process: after a refusal nobody sends before the time the server named."""
        while (left := self._pause_until - self._clock.monotonic()) > 0:
            with self._activity.at(task, "backoff"):
                await asyncio.sleep(left)

    async def _submit(self, name: str, request: Request) -> Stored:
        price = self._prices.find(request.model, self._clock.now())
        size = len(canonical(request.params)) // _BYTES_PER_TOKEN
        worst = price.worst_case(size, request.max_tokens, "live") if price else None
        async with self._budget.reserve(worst or 0.0) as bill:
            await self._wait_for_gate(request.task)
            submission = await self.ledger.open(name, self._run, request, "live", worst, self._clock.now())
            try:
                raw = await self._lane.send(request.params)
                answer = read_answer(name, raw)
            except (Ambiguous, MalformedAnswer, asyncio.CancelledError) as error:
                bill.cost_usd = worst or 0.0
                await self._doubt(submission, name, request.model, worst, str(error) or "cancelled in mid-request")
                raise
            except (NotAccepted, ModelError, EnvironmentFault) as error:
                await self.ledger.end(submission, "refused", self._clock.now(), str(error))
                raise
            return await self._keep(submission, request, answer, bill)

    async def _keep(self, submission: int, request: Request, answer: Answer, bill: Bill) -> Stored:
        """Put a paid answer on disk before anyone reads it."""
        now = self._clock.now()
        price = self._prices.find(request.model, now)
        cost = price.cost(answer.usage, "live") if price else None
        saved = price.prompt_cache_saved(answer.usage, "live") if price else None
        bill.cost_usd = cost or 0.0
        good = useful(answer, request.params) and self._cache == "on"
        owner = (self._run, request.task, request.attempt, request.turn)
        expires_at = None if self._ttl_s is None else now + self._ttl_s
        stored = Stored(submission, answer, good, owner, cost, expires_at)
        fault.point("llm.answer.before")
        await self.ledger.done(stored, request.role, request.model, saved, now)
        fault.point("llm.answer.after")
        return stored

    async def _doubt(self, submission: int, name: str, model: str, worst: float | None, reason: str) -> None:
        await self.ledger.end(submission, "possibly_paid", self._clock.now(), reason)
        self._emit(PossiblyPaid(key=name, model=model, worst_case_usd=worst, reason=reason))
