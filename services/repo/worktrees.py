"""Folders laid out from trees, a bounded number of them, used again and again.

    pool = WorktreePool(repository, cache / "work", size=4)
    async with pool.lay_out(tree) as worktree:
        (worktree.path / "new.txt").write_text("…")
        tree = await worktree.write_tree(["new.txt"])

A worktree is a plain folder: there is no `.git` in it, its index lies beside it, and every git call has the repository
pinned, so nothing that runs inside can steer git. A folder of which anything is in doubt (a failed or cancelled reset)
is given up and a new one made. A pool holds a file lock as long as its process lives; what dead pools left is removed
when the next one starts.
"""

import asyncio
import errno
import fcntl
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from taskyard.services import fault
from taskyard.services.errors import GitError, StorageFull
from taskyard.services.repo.git import Bare
from taskyard.services.repo.repository import Repository
from taskyard.services.repo.staging import stage
from taskyard.services.repo.sweep import Layout, remove_tree, sweep
from taskyard.services.repo.trees import ABSENT, SUBMODULE, bytes_of, changed, list_modes


class _Slot:
    """A folder with its index: `<home>/tree`, `<home>/index`."""

    def __init__(self, bare: Bare, pool: Path) -> None:
        self._bare = bare
        self._pool = pool
        self._home: Path | None = None
        self._layout = Layout.of(())
        self.tree: str | None = None
        """What it was last laid out from; None while that is in doubt."""

    @property
    def home(self) -> Path:
        if self._home is None:
            raise GitError("This worktree was given up after a failed reset.")
        return self._home

    @property
    def path(self) -> Path:
        return self.home / "tree"

    async def reset(self, tree: str) -> None:
        """Make the folder hold exactly `tree`; try once more in a new folder when that fails."""
        for again in (True, False):
            old, self.tree = self.tree, None
            try:
                if old is None:
                    await self._renew()
                await self._lay(tree, old)
            except (GitError, OSError, RecursionError) as error:
                if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
                    raise StorageFull(
                        f"The disk is full ({self._pool}: {error.strerror}). Make room, then run `taskyard resume`."
                    ) from error
                if not again or old is None:
                    raise GitError(f"The tree {tree} could not be laid out in {self._pool}: {error}") from error
            else:
                self.tree = tree
                return

    async def _renew(self) -> None:
        self._home, old = None, self._home
        if old is not None:
            await asyncio.to_thread(_discard, old)
        home = Path(tempfile.mkdtemp(dir=self._pool, prefix="w"))
        (home / "tree").mkdir()
        self._home = home

    async def _lay(self, tree: str, old: str | None) -> None:
        if old is None:
            await self._git("read-tree", "--reset", "-u", tree)
            self._layout = await _list(self._bare, tree)
            return
        await asyncio.to_thread(sweep, os.fsencode(self.path), self._layout)
        if tree == old:
            await self._repair()
            return
        layout = asyncio.create_task(_follow(self._bare, self._layout, old, tree))
        try:
            await self._git("read-tree", "--reset", "-u", tree)
            self._layout = await layout
        finally:
            layout.cancel()
            await asyncio.wait([layout])

    async def _repair(self) -> None:
        """Write anew what has other stat data than git wrote down: any change of content or mode shows in ctime."""
        odd = await self._git("diff-files", "-z", "--name-only", "--ignore-submodules=all")
        if odd:
            await self._git("checkout-index", "--force", "--index", "-z", "--stdin", stdin=odd)

    async def _git(self, *args: str, stdin: bytes | None = None) -> bytes:
        fault.point("repo.worktree.before")
        done = await self._bare.run(*args, stdin=stdin, index=self.home / "index", work_tree=self.path)
        fault.point("repo.worktree.after")
        if done.err.strip():  # "unable to unlink …" is but a warning to git
            raise GitError(f"git {args[0]} said: {done.err.strip()}")
        return done.out


async def _list(bare: Bare, tree: str) -> Layout:
    modes = await list_modes(bare, tree)
    submodules = {bytes_of(path) for path, (mode, _) in modes.items() if mode == SUBMODULE}
    return Layout.of({bytes_of(path) for path in modes} - submodules, submodules)


async def _follow(bare: Bare, layout: Layout, old: str, new: str) -> Layout:
    """The layout of `new`, from that of `old`: cheaper than listing thousands of files."""
    files, submodules = set(layout.files), set(layout.submodules)
    for change in await changed(bare, old, new):
        path = bytes_of(change.path)
        files.discard(path)
        submodules.discard(path)
        if change.new_mode != ABSENT:
            (submodules if change.new_mode == SUBMODULE else files).add(path)
    return Layout.of(files, submodules)


class Worktree:
    """A folder laid out from a tree, for as long as `WorktreePool.lay_out` lends it."""

    def __init__(self, bare: Bare, slot: _Slot, tree: str) -> None:
        self._bare = bare
        self._slot: _Slot | None = slot
        self.tree = tree
        """The tree that it was laid out from."""
        self.path = slot.path

    async def write_tree(self, paths: Sequence[str]) -> str:
        """`tree` with exactly these paths as they are on disk now; one that is no file any more is removed.

        Paths are relative and literal. Ignored files are taken like others; line ends follow the attributes. Raises
        GitError with path and rule: a path that leads out, `.git` in any spelling, a symbolic link that leaves the
        tree, a nested repository, a pipe or device.
        """
        slot = self._lent()
        return await stage(self._bare, self.tree, slot.path, paths, slot.home)

    async def reset(self, tree: str | None = None) -> None:
        """Lay out `tree` (None: the same again); nothing else stays, ignored files and nested repositories included.

        `path` may be another folder afterwards, when the old one could not be cleaned.
        """
        slot = self._lent()
        await slot.reset(tree or self.tree)
        self.tree, self.path = tree or self.tree, slot.path

    def end(self) -> None:
        """The folder goes to somebody else now."""
        self._slot = None

    def _lent(self) -> _Slot:
        if self._slot is None:
            raise GitError("This worktree was given back to its pool.")
        return self._slot


class WorktreePool:
    """At most `size` worktrees below `folder`, made when first needed."""

    def __init__(self, repository: Repository, folder: Path, size: int) -> None:
        self._bare = repository.bare
        self._folder = folder
        self._places = asyncio.Semaphore(size)
        self._opening = asyncio.Lock()
        self._home: Path | None = None
        self._lock = -1
        self._free: list[_Slot] = []
        self.in_use = 0
        """How many worktrees are lent now."""
        self.peak = 0
        """The most that were lent at once."""

    @asynccontextmanager
    async def lay_out(self, tree: str) -> AsyncIterator[Worktree]:
        """A worktree that holds `tree` and nothing else. Waits for a free one, first come, first served."""
        async with self._places:
            slot = self._take(tree, await self._opened())
            self.in_use += 1
            self.peak = max(self.peak, self.in_use)
            try:
                await slot.reset(tree)
                worktree = Worktree(self._bare, slot, tree)
                try:
                    yield worktree
                finally:
                    worktree.end()
            finally:
                self.in_use -= 1
                self._free.append(slot)

    def _take(self, tree: str, home: Path) -> _Slot:
        """The one that needs the least work: same tree, else the last one used, else a new one."""
        if not self._free:
            return _Slot(self._bare, home)
        at = next((n for n, slot in enumerate(self._free) if slot.tree == tree), len(self._free) - 1)
        return self._free.pop(at)

    async def _opened(self) -> Path:
        async with self._opening:
            if self._home is not None:
                return self._home
            home, self._lock = await asyncio.to_thread(_open_pool, self._folder)
            self._home = home
            return home

    async def close(self) -> None:
        """Remove the worktrees, none of which may be lent. A pool that is not closed is removed by the next one."""
        if self._home is not None:
            home, self._home = self._home, None
            self._free.clear()
            await asyncio.to_thread(_discard, home)
            os.close(self._lock)


def _open_pool(folder: Path) -> tuple[Path, int]:
    """A new home below `folder` with its lock held; the homes of dead pools are removed."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    gate = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(gate, fcntl.LOCK_EX)
        for home in sorted(folder.glob("pool-*")):
            _discard_dead(home)
        home = Path(tempfile.mkdtemp(dir=folder, prefix="pool-"))
        lock = os.open(home / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return home, lock
    finally:
        os.close(gate)


def _discard_dead(home: Path) -> None:
    with suppress(FileNotFoundError):
        lock = os.open(home / "lock", os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        finally:
            os.close(lock)
    _discard(home)


def _discard(folder: Path) -> None:
    """Best effort: what can't be removed lies where nothing uses it, and is tried again at the next start."""
    with suppress(OSError, RecursionError):
        remove_tree(os.fsencode(folder))
