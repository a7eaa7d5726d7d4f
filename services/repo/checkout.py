"""The user's repository: read only, never written.

    checkout = await Checkout.find(Path.cwd())
    urls = await checkout.remote_url("origin")

Reads run with the user's own configuration (`safe.directory`, included files) but without hooks, fsmonitor and
filters, and without the optional locks by which `git status` would rewrite the index.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from taskyard.services.errors import EnvironmentFault, GitError
from taskyard.services.repo.git import Done, Git, clean_words

OLDEST_GIT = (2, 38)
NETWORK_REMOTE = "taskyard"
"""What the remote is called in the handed-on configuration, whatever the user calls it."""

_QUIET = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
_HANDED_ON = re.compile(r"(credential|url|http|ssh)\.|core\.(sshcommand|askpass|gitproxy)$")
_OF_REMOTE = ("url", "pushurl", "proxy", "proxyauthmethod", "uploadpack", "receivepack")
_LISTS = re.compile(r"(credential\.(.*\.)?helper|http\.(.*\.)?(extraheader|curloptresolve))$")
_SCP_LIKE = re.compile(r"[^/]*:")


class Identity(msgspec.Struct, frozen=True):
    """Who commits, as the user's git configuration says."""

    name: str
    email: str


class RemoteUrl(msgspec.Struct, frozen=True):
    """Where a remote is read from and pushed to: `url.*.insteadOf` applied, relative paths made absolute."""

    fetch: str
    push: str


class Checkout:
    """The user's repository, found from a folder in it."""

    def __init__(self, git: Git, top: Path, git_dir: Path, *, shallow: bool, object_format: str) -> None:
        self.git = git
        self.top = top
        self.git_dir = git_dir
        """The repository itself (of a linked worktree: the common one)."""
        self.shallow = shallow
        self.object_format = object_format
        """`sha1` or `sha256`."""

    @classmethod
    async def find(cls, folder: Path, environ: Mapping[str, str] | None = None) -> "Checkout":
        """The repository that holds `folder`.

        Raises EnvironmentFault: git missing or too old, not a repository, bare, no commits.
        """
        git = Git(os.environ if environ is None else environ)
        await _check_version(git, folder)
        top = await _top(git, folder)
        facts = (await _read(git, top, "rev-parse", "--is-shallow-repository", "--show-object-format")).line.split("\n")
        common = await _read(git, top, "rev-parse", "--path-format=absolute", "--git-common-dir")
        found = cls(git, top, Path(common.line), shallow=facts[0] == "true", object_format=facts[1])
        if not (await found.read("for-each-ref", "--count=1")).out and await found.commit_id("HEAD") is None:
            raise EnvironmentFault(f"The repository {top} has no commits yet. Make a first commit and push it.")
        return found

    async def read(self, *args: str, ok: Sequence[int] | None = (0,)) -> Done:
        """A git command in the checkout that only reads."""
        return await _read(self.git, self.top, *args, ok=ok)

    async def remote_url(self, remote: str) -> RemoteUrl:
        """Where `remote` is fetched from and pushed to. Raises EnvironmentFault that names the remotes there are."""
        names = (await self.read("remote")).text.split("\n")[:-1]
        if remote not in names:
            there = f"It has: {', '.join(names)}." if names else "It has none."
            raise EnvironmentFault(
                f"The repository {self.top} has no remote '{remote}'. {there} "
                f"Add one (git remote add {remote} URL) or set [run] remote in taskyard.toml."
            )
        fetch = await self.read("remote", "get-url", "--", remote, ok=None)
        if fetch.code:
            raise EnvironmentFault(f"The remote '{remote}' of {self.top} has no URL: {clean_words(fetch.err)}")
        push = await self.read("remote", "get-url", "--push", "--", remote)
        return RemoteUrl(fetch=self._absolute(fetch.line), push=self._absolute(push.line))

    def _absolute(self, url: str) -> str:
        if "://" in url or _SCP_LIKE.match(url) or url.startswith("/"):
            return url
        return os.path.normpath(self.top / Path(url).expanduser())

    async def identity(self) -> Identity:
        """Whom the user's commits are by. Raises EnvironmentFault when the configuration does not say."""
        name, email = self.git.author()
        settings = dict(await self._settings())
        name = name or settings.get("author.name") or settings.get("user.name", "")
        email = email or settings.get("author.email") or settings.get("user.email", "")
        if not name.strip() or not email.strip():
            raise EnvironmentFault(
                "git does not know who you are. Run: git config --global user.name NAME; "
                "git config --global user.email ADDRESS"
            )
        return Identity(name=name, email=email)

    async def dirty(self) -> tuple[str, ...]:
        """Tracked paths that differ from HEAD, in the index or on disk; sorted."""
        filters = {
            key.split(".", 1)[1].rpartition(".")[0] for key, _ in await self._settings() if key.startswith("filter.")
        }
        off: list[str] = []
        for name in sorted(filters):
            for setting in (f"filter.{name}.clean=", f"filter.{name}.process=", f"filter.{name}.required=false"):
                off += ["-c", setting]
        done = await self.read(
            *off, "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=dirty"
        )
        return tuple(sorted(entry[3:] for entry in done.text.split("\0") if entry))

    async def network_config(self, remote: str) -> tuple[tuple[str, str], ...]:
        """What a fetch or push from another repository needs of this one's configuration, in git's order.

        `credential.*`, `url.*`, `http.*`, `ssh.*` and the like, and the remote's own URL and proxy under the name
        `NETWORK_REMOTE`. Only the first URL is taken: one push is one receive-pack.
        """
        chosen: list[tuple[str, str]] = []
        own: dict[str, str] = {}
        prefix = f"remote.{remote}."
        for key, value in await self._settings():
            if _HANDED_ON.match(key):
                # The user's global configuration is read again by the network command: start each list anew.
                if _LISTS.match(key) and not any(seen == key for seen, _ in chosen):
                    chosen.append((key, ""))
                chosen.append((key, value))
            elif key.startswith(prefix) and key.removeprefix(prefix) in _OF_REMOTE:
                own.setdefault(f"remote.{NETWORK_REMOTE}.{key.removeprefix(prefix)}", value)
        return (*chosen, *own.items())

    async def commit_id(self, rev: str) -> str | None:
        """The commit that `rev` names in the checkout, None when it names none."""
        if rev.startswith("-") or "\0" in rev:
            return None
        done = await self.read("rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}", ok=None)
        return done.line if done.code == 0 else None

    async def _settings(self) -> list[tuple[str, str]]:
        done = await self.read("config", "--list", "--includes", "-z")
        pairs = (entry.partition("\n") for entry in done.text.split("\0") if entry)
        return [(key, value if line_end else "true") for key, line_end, value in pairs]


async def _read(git: Git, folder: Path, *args: str, ok: Sequence[int] | None = (0,)) -> Done:
    return await git.run([*_QUIET, *args], cwd=folder, env=git.user_environment(), ok=ok)


async def _check_version(git: Git, folder: Path) -> None:
    text = (await git.run(["version"], cwd=folder, env=git.own_environment())).line
    numbers = re.search(r"(\d+)\.(\d+)", text)
    if numbers is None or (int(numbers[1]), int(numbers[2])) < OLDEST_GIT:
        raise EnvironmentFault(f"git 2.38 or later is needed, this is '{text}'. Install a newer git.")


async def _top(git: Git, folder: Path) -> Path:
    try:
        kind = (await _read(git, folder, "rev-parse", "--is-bare-repository", "--is-inside-work-tree")).line.split("\n")
    except GitError as error:
        if "not a git repository" in str(error):
            raise EnvironmentFault(
                f"{folder} is not in a git repository. Go to one, or run git init and commit."
            ) from error
        raise EnvironmentFault(f"The git repository at {folder} can't be read: {error}") from error
    if kind[0] == "true":
        raise EnvironmentFault(f"{folder} is a bare repository. Run taskyard in a clone of it.")
    if kind[1] != "true":
        raise EnvironmentFault(f"{folder} is inside a .git folder. Go to the repository's working folder.")
    return Path((await _read(git, folder, "rev-parse", "--show-toplevel")).line)
