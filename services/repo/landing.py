"""The merge queue: accepted trees go onto the run's tip, one commit per task; the tip moves only to what is verified.

    landing = Landing(repository, run="r7k2", …)
    await landing.open(base)
    outcome = await landing.land(candidate)      # Landed or Refused, once the tip has moved or the candidate is out

Candidates that are ready together are merged in a chain and verified once. A red result is bisected over prefixes
(only states that may become the tip are tried), the culprit is confirmed by a second run before it is blamed, and the
rest goes on. Everything is idempotent: after a crash the tip's own commits say, by their trailers, what has landed.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import msgspec

from taskyard.services import fault
from taskyard.services.clock import Clock
from taskyard.services.errors import GitError, LandingStopped
from taskyard.services.events import Event, Landed, LandingStep, LandingStepped
from taskyard.services.records import CheckResult
from taskyard.services.repo.candidates import Candidate, OnTip, Outcome, Refused, Verify, message_of
from taskyard.services.repo.checkout import Identity
from taskyard.services.repo.rebase import own_commits, rebased
from taskyard.services.repo.repository import Repository


class _Waiting:
    """A candidate in the queue."""

    def __init__(self, candidate: Candidate, since: float) -> None:
        self.candidate = candidate
        self.since = since
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    @property
    def gone(self) -> bool:
        """Nobody waits for the outcome any more, or it is known."""
        return self.outcome.done()

    def tell(self, outcome: Outcome) -> None:
        if not self.gone:
            self.outcome.set_result(outcome)


class _Link(msgspec.Struct):
    """A candidate merged onto the chain."""

    waiting: _Waiting
    commit: str
    tree: str


class _Left(msgspec.Struct):
    """A candidate that could not be merged onto the first `behind` links of the chain."""

    waiting: _Waiting
    behind: int
    why: Refused


class Landing:
    """The run's tip and the queue before it. `serve` must run for `land` to return."""

    def __init__(
        self,
        repository: Repository,
        *,
        run: str,
        identity: Identity,
        verify: Verify,
        emit: Callable[[Event], None],
        clock: Clock,
        batch: int,
        max_age_s: float,
        idle: Callable[[], bool],
        landings_before: int,
    ) -> None:
        """idle(): no task can go on by itself, so waiting for more candidates would be in vain.

        landings_before: how many landings earlier lives of the run have numbered.
        """
        self._repository = repository
        self._run = run
        self._identity = identity
        self.verify = verify
        self._emit = emit
        self._clock = clock
        self._batch = batch
        self._max_age_s = max_age_s
        self._idle = idle
        self._queue: list[_Waiting] = []
        self._still = asyncio.Lock()
        self._changed = asyncio.Event()
        self._landed: dict[str, str] = {}
        self._number = landings_before
        self.base = ""
        """The commit that the tip grew from."""
        self.tip = ""
        """The last verified commit."""
        self.ref = f"runs/{run}/tip"

    async def open(self, base: str) -> None:
        """Take up the run's tip where it stands, or start it at `base`."""
        self.base = await self._repository.ref(f"runs/{self._run}/base") or base
        tip = await self._repository.ref(self.ref)
        if tip is None:
            await self._repository.keep(f"runs/{self._run}/base", base)
            await self._repository.keep(self.ref, base)
            self.base = tip = base
        self.tip = tip
        self._landed = own_commits(await self._repository.log(tip, base), self._run)

    @property
    def landed(self) -> dict[str, str]:
        """{task id: commit} on the tip, in order."""
        return dict(self._landed)

    @property
    def last(self) -> str:
        """The id of the latest landing."""
        return f"l{self._number}"

    @property
    def ready(self) -> int:
        """How many candidates wait."""
        return len(self._queue)

    def poke(self) -> None:
        """Something changed that may make the queue due."""
        self._changed.set()

    async def land(self, candidate: Candidate) -> Outcome:
        """Put a candidate on the tip, or learn why not. Asking again for a task that has landed gives its commit."""
        if commit := self._landed.get(candidate.task):
            return OnTip(commit)
        waiting = _Waiting(candidate, self._clock.monotonic())
        self._queue.append(waiting)
        self.poke()
        try:
            return await waiting.outcome
        finally:
            if waiting in self._queue:
                self._queue.remove(waiting)

    async def serve(self) -> None:
        """Land what is due, until cancelled."""
        while True:
            await self._wait_until_due()
            batch, self._queue = self._queue[: self._batch], self._queue[self._batch :]
            try:
                async with self._still:
                    await self._land(batch)
            except BaseException as error:
                stopped = LandingStopped(f"the landing was stopped: {str(error) or 'interrupted'}")
                for waiting in batch:
                    if not waiting.gone:
                        waiting.outcome.set_exception(stopped)
                        waiting.outcome.exception()  # seen, also when nobody waits any more
                if type(error) is GitError:
                    raise stopped from error
                raise

    @asynccontextmanager
    async def still(self) -> AsyncIterator[None]:
        """The tip does not move while the block runs, but by the block itself."""
        async with self._still:
            yield

    async def adopt(self, commit: str) -> None:
        """Move the tip to a commit on top of it that was made elsewhere (the board's ticks); call within `still`."""
        if commit != self.tip:
            await self._move(commit)

    async def rebase(self, base: str) -> tuple[dict[str, str], tuple[CheckResult, ...]]:
        """Put the tip's commits onto another base, since the remote moved; call within `still`.

        Gives {task: why} of those that can't follow, and the red results: the tip moves only when there is none. What
        it moves away from stays under refs/taskyard/.
        """
        moved = await rebased(
            self._repository, run=self._run, tip=self.tip, old=self.base, new=base, identity=self._identity,
            when=self._clock.now(),
        )  # fmt: skip
        tree = await self._repository.tree_of(moved.tip)
        if moved.landed and (red := await self.verify(tree, tuple(moved.landed), fresh=False)):
            return moved.lost, red
        await self._repository.keep(f"runs/{self._run}/before/{self.tip}", self.tip)
        await self._move(moved.tip)
        # Last: a base ahead of the tip would make the next push take back what others have put on it.
        await self._repository.keep(f"runs/{self._run}/base", base)
        self.base, self._landed = base, dict(moved.landed)
        return moved.lost, ()

    async def _wait_until_due(self) -> None:
        while True:
            self._changed.clear()
            wait = self._due_in()
            if wait is not None and wait <= 0:
                return
            # Not `wait_for`: before Python 3.12 it loses a cancellation that comes together with the event.
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._changed.wait()

    def _due_in(self) -> float | None:
        """Seconds until the queue is due; None while nothing waits."""
        if not self._queue:
            return None
        if len(self._queue) >= self._batch or self._idle():
            return 0.0
        return self._queue[0].since + self._max_age_s - self._clock.monotonic()

    async def _land(self, batch: list[_Waiting]) -> None:
        self._number += 1
        landing = f"l{self._number}"
        self._step(landing, "merging", batch)
        chain, left = await self._chain(batch)
        done = await self._land_chain(landing, chain) if chain else 0
        # Told last, so that a new attempt starts from a tip that holds what it conflicted with. What stood behind a
        # link that did not land may fit without it.
        for out in left:
            if out.behind <= done:
                self._refuse(landing, out.waiting, out.why)
        again = {id(link.waiting) for link in chain[done:]} | {id(out.waiting) for out in left if out.behind > done}
        self._queue[:0] = [waiting for waiting in batch if id(waiting) in again and not waiting.gone]
        self.poke()

    async def _land_chain(self, landing: str, chain: list[_Link]) -> int:
        """Verify a chain and move the tip over what is green; how many links are on it. The culprit is refused."""
        self._step(landing, "verifying", [link.waiting for link in chain])
        red = await self._red(chain)
        if not red:
            await self._advance(landing, chain)
            return len(chain)
        good, culprit, red = await self._bisect(landing, chain, red)
        await self._advance(landing, chain[:good])
        if culprit:
            words = "\n\n".join(f"check `{r.check}` failed on the tip (exit {r.exit}):\n{r.output}" for r in red)
            self._refuse(landing, chain[good].waiting, Refused("red", words))
        return good

    async def _chain(self, batch: list[_Waiting]) -> tuple[list[_Link], list[_Left]]:
        """Merge candidate after candidate; what conflicts, or has nothing to add, is left out, with the reason."""
        chain: list[_Link] = []
        left: list[_Left] = []
        parent, tree = self.tip, await self._repository.tree_of(self.tip)
        for waiting in batch:
            if waiting.gone:
                continue
            candidate = waiting.candidate
            if commit := self._landed.get(candidate.task):
                waiting.tell(OnTip(commit))
                continue
            link = await self._merged(waiting, parent, tree)
            if isinstance(link, Refused):
                left.append(_Left(waiting, len(chain), link))
                continue
            parent, tree = link.commit, link.tree
            chain.append(link)
        return chain, left

    async def _merged(self, waiting: _Waiting, parent: str, tree: str) -> _Link | Refused:
        """The candidate as a commit on `parent`, whose tree is `tree`."""
        candidate, repository = waiting.candidate, self._repository
        try:
            merge = await repository.merge(candidate.base_tree, tree, candidate.tree)
            if merge.tree is None:
                return Refused("conflict", "\n\n".join(f"{part.path}:\n{part.text}" for part in merge.conflicts))
            if merge.tree == tree:
                return Refused("empty", "the tip already holds every line of this change")
            message, when = message_of(candidate, self._run), self._clock.now()
            commit = await repository.commit(merge.tree, [parent], message, identity=self._identity, when=when)
        except GitError as error:  # it concerns this candidate alone; a tip that can't be moved concerns all
            return Refused("conflict", f"git could not merge it: {error}")
        return _Link(waiting, commit, merge.tree)

    async def _red(self, chain: list[_Link], *, fresh: bool = False) -> tuple[CheckResult, ...]:
        tasks = [*self._landed, *(link.waiting.candidate.task for link in chain)]
        return await self.verify(chain[-1].tree, tasks, fresh=fresh)

    async def _bisect(
        self, landing: str, chain: list[_Link], red: tuple[CheckResult, ...]
    ) -> tuple[int, bool, tuple[CheckResult, ...]]:
        """The length of the longest prefix known green, whether the next link is to blame, and its red results."""
        green, bad = 0, len(chain)
        while bad - green > 1:
            middle = (green + bad) // 2
            self._step(landing, "bisecting", [link.waiting for link in chain[:middle]])
            found = await self._red(chain[:middle])
            if found:
                bad, red = middle, found
            else:
                green = middle
        self._step(landing, "confirming", [chain[bad - 1].waiting])
        again = await self._red(chain[:bad], fresh=True)
        return (green, True, again) if again else (bad, False, red)

    async def _advance(self, landing: str, links: Sequence[_Link]) -> None:
        """Move the tip over verified links and tell their tasks."""
        if not links:
            return
        await self._move(links[-1].commit)
        for link in links:
            self._landed[link.waiting.candidate.task] = link.commit
        tasks = tuple(link.waiting.candidate.task for link in links)
        self._emit(Landed(landing=landing, tasks=tasks, commit=self.tip, ref=f"refs/taskyard/{self.ref}", pushed=False))
        for link in links:
            link.waiting.tell(OnTip(link.commit))

    async def _move(self, new: str) -> None:
        fault.point("landing.tip.before")
        if not await self._repository.move(self.ref, new, self.tip):
            raise GitError(f"refs/taskyard/{self.ref} moved under this run; is another process using it?")
        fault.point("landing.tip.after")
        self.tip = new

    def _refuse(self, landing: str, waiting: _Waiting, refused: Refused) -> None:
        self._step(landing, "refused", [waiting], refused.kind)
        waiting.tell(refused)

    def _step(self, landing: str, step: LandingStep, batch: Sequence[_Waiting], detail: str | None = None) -> None:
        tasks = tuple(waiting.candidate.task for waiting in batch)
        self._emit(LandingStepped(landing=landing, step=step, tasks=tasks, detail=detail))
