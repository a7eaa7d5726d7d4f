"""Taskyard's own bare repository: every tree and commit of a run lives here, never in the user's.

    repository = await Repository.open(state / "repo.git", checkout, "origin")
    base = await repository.fetch("main")
    tree = await repository.replace(await repository.tree_of(base), {"README.md": b"Hello\\n"})
    commit = await repository.commit(tree, [base], "Say hello", identity=identity, when=clock.now())
    await repository.keep("attempts/T1/1", commit)
    await repository.push([PushUpdate("refs/heads/main", commit, base)])

Refs: `refs/taskyard/*` is what we keep, `refs/remotes/<remote>/*` what the remote has, `refs/local/*` what the checkout
had when we last looked. Safe to use from many tasks at once. All methods raise GitError when git fails and StorageFull
when the disk is full.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from taskyard.services import fault
from taskyard.services.errors import EnvironmentFault, GitError
from taskyard.services.repo import history, merge, push, trees
from taskyard.services.repo.checkout import NETWORK_REMOTE, Checkout, Identity, RemoteUrl
from taskyard.services.repo.git import Bare, clean_words
from taskyard.services.repo.layout import prepare
from taskyard.services.repo.names import ref_of
from taskyard.services.repo.records import Change, Commit, Merge, PushUpdate, TreeFile

_FETCH = (
    "fetch",
    "--no-tags",
    "--prune",
    "--no-write-fetch-head",
    "--no-auto-maintenance",
    "--recurse-submodules=no",
    "--quiet",
)
_NAMED_AT_MOST = 20


class Repository:
    """See the module. `open` makes it."""

    def __init__(
        self, bare: Bare, checkout: Checkout, remote: str, urls: RemoteUrl, config: tuple[tuple[str, str], ...]
    ) -> None:
        self.bare = bare
        self.checkout = checkout
        self.remote = remote
        self.urls = urls
        self._config = config
        self._fetching = asyncio.Lock()

    @classmethod
    async def open(cls, git_dir: Path, checkout: Checkout, remote: str, *, alone: bool = False) -> "Repository":
        """Open the bare repository, or make it. Raises EnvironmentFault when the checkout has no such remote.

        alone: this process holds the lock of the run, so that nobody else moves what is kept.
        """
        urls = await checkout.remote_url(remote)
        config = await checkout.network_config(remote)
        await prepare(checkout.git, git_dir, checkout.object_format, alone=alone)
        return cls(Bare(checkout.git, git_dir), checkout, remote, urls, config)

    # What the remote and the checkout have

    async def fetch(self, target: str) -> str:
        """Bring the remote's branches here; the tip of its branch `target`.

        Objects come from the checkout first, so that the network carries only what is new. Raises EnvironmentFault
        when the remote can't be read or has no such branch.
        """
        async with self._fetching:
            await self._take_from_checkout("+refs/heads/*:refs/local/heads/*", "+refs/remotes/*:refs/local/remotes/*")
            fault.point("repo.fetch.before")
            done = await self.bare.network(
                "-c", "fetch.pruneTags=false", *_FETCH, NETWORK_REMOTE, f"+refs/heads/*:refs/remotes/{self.remote}/*",
                cwd=self.checkout.top, config=self._config, ok=None,
            )  # fmt: skip
            fault.point("repo.fetch.after")
        if done.code:
            raise EnvironmentFault(
                f"The remote '{self.remote}' ({clean_words(self.urls.fetch)}) can't be read: {clean_words(done.err)}. "
                f"Check that `git fetch {self.remote}` works."
            )
        branches = await self.remote_branches("")
        if target not in branches:
            names = ", ".join(list(branches)[:_NAMED_AT_MOST]) or "none"
            raise EnvironmentFault(
                f"The remote '{self.remote}' has no branch '{target}'. It has: {names}. "
                "Set [run] target in taskyard.toml."
            )
        return branches[target]

    async def _take_from_checkout(self, *specs: str) -> bool:
        """A fetch from the user's repository on this disk. False when it can't be (a shallow or partial clone)."""
        if self.checkout.shallow:
            return False
        extra = {"GIT_CONFIG_GLOBAL": str(self.bare.git_dir / "trust")}
        done = await self.bare.run(*_FETCH, str(self.checkout.git_dir), *specs, extra=extra, ok=None)
        return done.code == 0

    async def resolve(self, rev: str) -> str | None:
        """The commit that `rev` names here, or in the checkout, from where it is then taken; None when in neither."""
        if rev.startswith("-") or "\0" in rev:
            return None
        done = await self.bare.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}", ok=None)
        if done.code == 0:
            return done.line
        commit = await self.checkout.commit_id(rev)
        if commit is None or await self._has(commit):
            return commit
        return commit if await self._take_from_checkout(f"+{commit}:refs/local/commits/{commit}") else None

    async def _has(self, commit: str) -> bool:
        return (await self.bare.run("cat-file", "-e", f"{commit}^{{commit}}", ok=None)).code == 0

    async def local_only(self, target: str) -> tuple[str, ...]:
        """`abc1234 subject` of the commits on the checkout's branch `target` that the remote lacks, newest first."""
        local = await self.checkout.commit_id(f"refs/heads/{target}")
        if local is None:
            return ()
        format_ = "--format=tformat:%h %s"
        if await self._has(local):
            done = await self.bare.run("log", "-z", format_, f"refs/remotes/{self.remote}/{target}..{local}", "--")
        else:
            done = await self.checkout.read("log", "-z", format_, local, "--not", f"--remotes={self.remote}", "--")
        return tuple(clean_words(line, 200) for line in done.out.decode("utf-8", "replace").split("\0") if line)

    async def remote_branches(self, prefix: str) -> dict[str, str]:
        """{name: commit} of the remote's branches whose name starts with `prefix`, as last fetched."""
        start = f"refs/remotes/{self.remote}/"
        done = await self.bare.run("for-each-ref", "--format=%(objectname) %(refname)", start)
        pairs = (line.partition(" ") for line in done.text.splitlines())
        names = {ref.removeprefix(start): commit for commit, _, ref in pairs}
        return {name: commit for name, commit in names.items() if name.startswith(prefix)}

    # Commits and trees

    async def trailers(self, tip: str, key: str, *, since: str | None = None) -> dict[str, str]:
        """{value of trailer `key`: newest commit with it}, of what is reachable from `tip` and not from `since`."""
        return await history.read_trailers(self.bare, tip, key, since)

    async def log(self, tip: str, since: str | None) -> tuple[Commit, ...]:
        """The commits reachable from `tip` and not from `since`, oldest first."""
        return await history.read_log(self.bare, tip, since)

    async def tree_of(self, commit: str) -> str:
        """The tree of a commit."""
        return (await self.bare.run("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")).line

    async def files(self, tree: str) -> tuple[TreeFile, ...]:
        """Every file of the tree, sorted by path."""
        return await trees.list_files(self.bare, tree)

    async def read(self, tree: str, path: str) -> bytes | None:
        """The content of a file (of a symbolic link: where it points to); None when `path` is no file of the tree."""
        return (await trees.read_blobs(self.bare, [f"{tree}:{trees.check_path(path)}"]))[0]

    async def read_many(self, tree: str, paths: Sequence[str]) -> dict[str, bytes]:
        """{path: content} of those paths that are files of the tree, in one go."""
        found = await trees.read_blobs(self.bare, [f"{tree}:{trees.check_path(path)}" for path in paths])
        return {path: content for path, content in zip(paths, found, strict=True) if content is not None}

    async def replace(
        self, tree: str, changes: Mapping[str, bytes | None], *, modes: Mapping[str, str] | None = None
    ) -> str:
        """The tree with these files written, or (None) removed.

        A file keeps its mode unless `modes` gives one (`100755`); a new one gets `100644`.
        """
        return await trees.replace(self.bare, tree, changes, modes or {})

    async def restore(self, tree: str, source_tree: str, paths: Sequence[str]) -> str:
        """The tree with `paths`, files or whole folders, as `source_tree` has them: added, changed or removed."""
        return await trees.restore(self.bare, tree, source_tree, paths)

    async def merge(self, base_tree: str, ours_tree: str, theirs_tree: str) -> Merge:
        """The three-way merge of trees. Nothing of the trees (attributes, drivers) has a say in it."""
        return await merge.merge(self.bare, base_tree, ours_tree, theirs_tree)

    async def diff(self, old: str, new: str) -> bytes:
        """From one tree or commit to another as a unified diff; the same bytes every time."""
        return await trees.diff(self.bare, old, new)

    async def changed(self, old: str, new: str) -> tuple[Change, ...]:
        """The paths that differ, in git's order."""
        return await trees.changed(self.bare, old, new)

    async def commit(self, tree: str, parents: Sequence[str], message: str, *, identity: Identity, when: float) -> str:
        """Make a commit; author and committer are `identity` at `when` (seconds since 1970, UTC).

        The message, trailers included, is taken as it is.
        """
        who: dict[str, str] = {}
        for role in ("AUTHOR", "COMMITTER"):
            who |= {f"GIT_{role}_NAME": identity.name, f"GIT_{role}_EMAIL": identity.email}
            who[f"GIT_{role}_DATE"] = f"@{int(when)} +0000"
        above = [word for parent in parents for word in ("-p", parent)]
        text = message.replace("\0", "").encode("utf-8", "replace")
        fault.point("repo.commit.before")
        done = await self.bare.run("commit-tree", *above, "-F", "-", tree, stdin=text, extra=who)
        fault.point("repo.commit.after")
        return done.line

    # What we keep

    async def keep(self, name: str, commit_or_tree: str) -> None:
        """Hold on to an object under refs/taskyard/. Any text is a legal name (see `names`)."""
        fault.point("repo.keep.before")
        await self.bare.run("update-ref", ref_of(name), commit_or_tree)
        fault.point("repo.keep.after")

    async def ref(self, name: str) -> str | None:
        """What is kept under `name`."""
        return await self._value(ref_of(name))

    async def _value(self, ref: str) -> str | None:
        done = await self.bare.run("rev-parse", "--verify", "--quiet", ref, ok=None)
        return done.line if done.code == 0 else None

    async def move(self, name: str, new: str, old: str | None) -> bool:
        """Compare and swap: `name` holds `new` from now on if it held `old` (None: nothing). False when it did not."""
        ref = ref_of(name)
        fault.point("repo.move.before")
        done = await self.bare.run("update-ref", ref, new, old or "0" * len(new), ok=None)
        fault.point("repo.move.after")
        if done.code == 0:
            return True
        if await self._value(ref) != old:
            return False
        raise GitError(f"{ref} could not be moved: {clean_words(done.err)}")

    # The remote, now

    async def push(self, updates: Sequence[PushUpdate]) -> None:
        """Set refs at the remote, all or none, in one receive-pack.

        Each is guarded by its lease (`PushUpdate.old`). A ref that is already as wanted is no error. Raises
        PushRefused: moved (fetch, merge and try again) or refused by a rule or hook, whose words it holds; GitError
        when the remote can't be reached.
        """
        await push.push(self.bare, updates, cwd=self.checkout.top, config=self._config, shown=self._shown())

    def pushing(self) -> bool:
        """Whether a push is under way, also one that outlived the process that began it."""
        return push.under_way(self.bare.git_dir)

    async def remote_ref(self, ref: str) -> str | None:
        """What `ref` (in full) names at the remote that we push to, asked now; None when there is none."""
        place = NETWORK_REMOTE if self.urls.fetch == self.urls.push else self.urls.push
        done = await self.bare.network("ls-remote", "--", place, ref, cwd=self.checkout.top, config=self._config)
        pairs = (line.partition("\t") for line in done.text.splitlines())
        return next((commit for commit, _, name in pairs if name == ref), None)

    async def can_push(self) -> str | None:
        """None when a push would be taken as far as a dry run can tell, else why not. Needs a `fetch` before."""
        branches = await self.remote_branches("")
        if not branches:
            return f"nothing was fetched from '{self.remote}' yet"
        commit = next(iter(branches.values()))
        return await push.try_push(self.bare, commit, cwd=self.checkout.top, config=self._config)

    def _shown(self) -> str:
        return f"'{self.remote}' ({clean_words(self.urls.push)})"
