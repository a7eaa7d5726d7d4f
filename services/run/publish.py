"""The push: the verified tip with the board's ticks on top, in one receive-pack, and the proof, read back."""

import asyncio
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Literal

import msgspec

from taskyard.services import fault
from taskyard.services.board import tick, tick_file
from taskyard.services.clock import Clock
from taskyard.services.errors import BoardError, GitError, PushRefused
from taskyard.services.events import Event, Landed, LandingStepped, Warned
from taskyard.services.repo import Identity, Landing, PushUpdate, Repository, Verify
from taskyard.services.run.ready import BoardPath
from taskyard.services.run.record import Record

_TRIES = 5
_BACKOFF_S = 1.0
_ORPHAN_S = 60.0
_LOOK_S = 0.1
Mode = Literal["branch", "target", "none"]


class Published(msgspec.Struct, frozen=True):
    """What a push came to."""

    proved: frozenset[str]
    """Tasks whose own commit is on what the remote (with `none`: the run's tip) holds now."""
    lost: dict[str, str] = {}
    """{task: why} of tasks whose commit could not follow when the remote moved; it stays under refs/taskyard/."""
    trouble: str = ""
    """Why what is verified is not at the remote; empty when it is."""


class BoardFile(msgspec.Struct, frozen=True):
    """The working file of the board."""

    path: BoardPath
    content: bytes
    """As the run read it."""
    lock: Path


class Publisher:
    """Pushes one run's tip."""

    def __init__(
        self,
        *,
        run: str,
        mode: Mode,
        target: str,
        remote: str,
        board: BoardFile,
        repository: Repository,
        landing: Landing,
        record: Record,
        verify: Verify,
        identity: Identity,
        clock: Clock,
        emit: Callable[[Event], None],
        base: str,
    ) -> None:
        self._run = run
        self._mode = mode
        self._remote = remote
        self._target = target
        self._ref = f"refs/heads/{target if mode == 'target' else f'taskyard/{run}'}"
        self._board = board
        self._repository = repository
        self._landing = landing
        self._record = record
        self._verify = verify
        self._identity = identity
        self._clock = clock
        self._emit = emit
        self._base = base

    async def recover(self) -> None:
        """Settle pushes whose fate a dead process left open, by asking the remote. Raises GitError when it is away."""
        async with self._landing.still():
            await self._settle()

    async def _settle(self) -> None:
        left_open = await self._record.open_pushes()
        if left_open:
            await self._outlive()
        for row, ref, commit in left_open:
            arrived = await self._repository.remote_ref(ref) == commit
            if arrived:
                await self._landing.adopt(commit)
            await self._record.push_ended(row, "pushed" if arrived else "lost")

    async def _outlive(self) -> None:
        """git goes on when its parent is killed: let a push that is under way end before its fate is asked for."""
        if not self._repository.pushing():
            return
        message = f"a push that this run began before is still under way; waiting up to {_ORPHAN_S:g} s for its end"
        self._emit(Warned(code="push_under_way", message=message))
        until = self._clock.monotonic() + _ORPHAN_S
        while self._clock.monotonic() < until:
            await asyncio.sleep(_LOOK_S)
            if not self._repository.pushing():
                return

    async def publish(self) -> Published:
        """Push what is verified and not at the remote yet. A remote that refuses or is away is `trouble`, no error."""
        if self._mode == "none":
            return Published(frozenset(self._landing.landed))
        lost: dict[str, str] = {}
        async with self._landing.still():
            try:
                await self._settle()
                for attempt in range(_TRIES):
                    try:
                        return Published(await self._push_once(), lost)
                    except PushRefused as error:
                        if not error.moved or self._mode != "target" or attempt == _TRIES - 1:
                            raise
                        lost |= await self._follow()
                        await asyncio.sleep(_BACKOFF_S * attempt)
            except GitError as error:
                return Published(await self._proved(), lost, str(error))
        raise AssertionError("unreachable")

    async def known(self) -> frozenset[str]:
        """As `Published.proved`, by what this run remembers of its pushes, without asking the remote."""
        if self._mode == "none":
            return frozenset(self._landing.landed)
        return await self._reachable(await self._record.last_pushed(self._ref))

    async def _push_once(self) -> frozenset[str]:
        """One push of all that is new. Raises PushRefused, GitError."""
        landed = self._landing.landed
        old = await self._expected()
        if not landed or old == self._landing.tip:
            await self._tick_in_place(await self._proved())
            return await self._proved()
        await self._verify_tip(landed)
        final = await self._with_ticks(landed)
        tasks = tuple(landed)
        self._emit(LandingStepped(landing=self._landing.last, step="pushing", tasks=tasks, detail=self._ref))
        row = await self._record.push_begins(self._ref, old, final)
        fault.point("publish.push.before")
        try:
            await self._repository.push([PushUpdate(self._ref, final, old)])
        except PushRefused as error:
            await self._record.push_ended(row, "lost" if error.moved else "refused")
            raise
        except GitError:
            arrived = await self._arrived(final)
            if arrived is False:
                await self._record.push_ended(row, "lost")
            if not arrived:  # when nobody can tell, the row stays open, and the next push asks first
                raise
        fault.point("publish.push.after")
        # The row stays open until the tip has followed: a push that ended, on another tip, would be made again.
        await self._landing.adopt(final)
        fault.point("publish.adopt.after")
        await self._record.push_ended(row, "pushed")
        proved = await self._proved()
        self._emit(
            Landed(
                landing=self._landing.last,
                tasks=tuple(t for t in tasks if t in proved),
                commit=final,
                ref=self._ref,
                pushed=True,
            )
        )
        await self._tick_in_place(proved)
        return proved

    async def _verify_tip(self, landed: Collection[str]) -> None:
        """The checks as they are now, on what is pushed; all known to be green unless they changed since it landed."""
        red = await self._verify(await self._repository.tree_of(self._landing.tip), tuple(landed), fresh=False)
        if red:
            raise PushRefused(
                f"with the checks as they are now, {red[0].check} is red on the run's tip; nothing was pushed. "
                f"The commits are kept in refs/taskyard/{self._landing.ref}.",
                moved=False,
            )

    async def _expected(self) -> str | None:
        """Where the ref is as far as we know; the push is refused when it is elsewhere."""
        last = await self._record.last_pushed(self._ref)
        if self._mode != "target":
            return last
        ours = {commit.id for commit in await self._repository.log(self._landing.tip, self._landing.base)}
        return last if last in ours else self._landing.base

    async def _arrived(self, commit: str) -> bool | None:
        """Whether a push got there although its connection broke; None when the remote is away."""
        try:
            return await self._repository.remote_ref(self._ref) == commit
        except GitError:
            return None

    async def _proved(self) -> frozenset[str]:
        """Tasks whose own commit is reachable from what the remote holds now: asked of it, never believed."""
        try:
            commit = await self._repository.remote_ref(self._ref)
        except GitError:
            commit = await self._record.last_pushed(self._ref)
        return await self._reachable(commit)

    async def _reachable(self, commit: str | None) -> frozenset[str]:
        """This run's tasks that have a commit of their own in the history of `commit`."""
        if commit is None or commit == self._base:
            return frozenset()
        known = await self._repository.resolve(commit)
        if known is None:
            return frozenset()
        commits = await self._repository.log(known, self._base)
        found = {
            c.trailers["Task-Id"] for c in commits if c.trailers.get("Run-Id") == self._run and "Task-Id" in c.trailers
        }
        return frozenset(found & set(self._landing.landed))

    async def _with_ticks(self, landed: Collection[str]) -> str:
        """The tip with one commit on top that ticks the board, when the board is part of the history."""
        tip = self._landing.tip
        if not await self._ticks_in_history():
            return tip
        tree = await self._repository.tree_of(tip)
        there = await self._repository.read(tree, self._board.path.inside)
        if there is None:
            return tip
        try:
            ticked = tick(there, landed, self._board.path.inside)
        except BoardError as error:
            self._emit(Warned(code="ticks", message=f"the board is left as it is: {error}"))
            return tip
        if ticked == there:
            return tip
        tree = await self._repository.replace(tree, {self._board.path.inside: ticked})
        if red := await self._verify(tree, tuple(landed), fresh=False):
            self._emit(
                Warned(code="ticks", message=f"the board is left as it is: with ticks, check {red[0].check} is red")
            )
            return tip
        names = ", ".join(landed)
        commit = await self._repository.commit(
            tree, [tip], f"Tick {names}\n\nRun-Id: {self._run}\n", identity=self._identity, when=self._clock.now()
        )
        await self._repository.keep(f"runs/{self._run}/ticks/{commit}", commit)
        return commit

    async def _ticks_in_history(self) -> bool:
        """Whether the working file equals the base's version."""
        if not self._board.path.in_repository:
            return False
        tree = await self._repository.tree_of(self._base)
        return await self._repository.read(tree, self._board.path.inside) == self._board.content

    async def _tick_in_place(self, proved: Collection[str]) -> None:
        """The board is not in the history as it was read: tick the working file."""
        if not proved or await self._ticks_in_history():
            return
        try:
            await asyncio.to_thread(tick_file, self._board.path.file, sorted(proved), self._board.lock)
        except BoardError as error:
            self._emit(Warned(code="ticks", message=str(error)))

    async def _follow(self) -> dict[str, str]:
        """The target moved: put the landed commits on its new tip; {task: why} of those that can't follow.

        Raises PushRefused when that is red, GitError.
        """
        there = f"{self._remote}/{self._target}"
        lost, red = await self._landing.rebase(await self._repository.fetch(self._target))
        if red:
            raise PushRefused(
                f"{there} moved, and with it check {red[0].check} is red; nothing was pushed. "
                f"The commits are kept in refs/taskyard/{self._landing.ref}.",
                moved=False,
            )
        return {task: f"{there} moved, and {why}" for task, why in lost.items()}
