"""The only place that starts git.

    git = Git(os.environ)
    done = await git.run(["rev-parse", "HEAD"], cwd=folder, env=git.user_environment())
    bare = Bare(git, state / "repo.git")
    tree = (await bare.run("write-tree", index=index)).line

Every call is a process in a session of its own; when it is cancelled or out of time its whole process group ends
before the call returns. At most `limit` git processes run at once.

Three environments: `user` (the user's, to read the checkout), `network` (the user's with the network configuration
of the checkout handed on, for fetch, push and ls-remote) and `own` (nothing of the user's, for all the rest).
"""

import asyncio
import os
import re
import signal
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from taskyard.services.errors import EnvironmentFault, GitError, StorageFull

_GRACE_S = 2.0
"""How long a process group has after SIGTERM: git removes its lock files then."""
_ERR_BYTES = 65536
_WORDS = 2000
_KEPT = frozenset(
    {
        "GIT_ASKPASS",
        "GIT_CEILING_DIRECTORIES",
        "GIT_CONFIG_COUNT",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_CONFIG_SYSTEM",
        "GIT_PROXY_COMMAND",
        "GIT_SSH",
        "GIT_SSH_COMMAND",
        "GIT_SSH_VARIANT",
    }
)
_KEPT_STARTS = ("GIT_SSL_", "GIT_HTTP_", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_")
_OWN_KEPT = ("PATH", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_ALWAYS = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "LC_ALL": "C",
    "TZ": "UTC",
}
_OWN = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
}
_PASSWORD = re.compile(r"(?<=://)[^/@\s]+@")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_FULL = ("No space left on device", "Disk quota exceeded", "Out of diskspace")
_ROOM_BYTES = 1 << 20


@dataclass(frozen=True)
class Done:
    """What a finished git process left."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """The output as text, bytes that are not UTF-8 as surrogates."""
        return self.out.decode("utf-8", "surrogateescape")

    @property
    def line(self) -> str:
        """The output without its closing line end."""
        return self.text.removesuffix("\n")


def clean_words(text: str, limit: int = _WORDS) -> str:
    """Text of a foreign process, safe to print: no control bytes, no credentials, its last `limit` characters."""
    text = _PASSWORD.sub("", _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))).strip()
    return text if len(text) <= limit else "…" + text[-limit:]


class Git:
    """Starts git processes, at most `limit` at once, each for at most `timeout_s` seconds."""

    def __init__(self, environ: Mapping[str, str], *, limit: int = 8, timeout_s: float = 600.0) -> None:
        self._environ = dict(environ)
        self._timeout_s = timeout_s
        self._slots = asyncio.Semaphore(limit)

    def user_environment(self) -> dict[str, str]:
        """The user's, without the variables that would lead git to another repository, index or identity."""
        kept = {k: v for k, v in self._environ.items() if not k.startswith("GIT_") or _passes(k)}
        return kept | _ALWAYS

    def network_environment(self, config: Sequence[tuple[str, str]]) -> dict[str, str]:
        """The user's, with `config` on top by GIT_CONFIG_COUNT (never on the command line: it may hold secrets)."""
        env = {
            k: v
            for k, v in self.user_environment().items()
            if not k.startswith(("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"))
        }
        env["GIT_CONFIG_COUNT"] = str(len(config))
        for number, (key, value) in enumerate(config):
            env[f"GIT_CONFIG_KEY_{number}"] = key
            env[f"GIT_CONFIG_VALUE_{number}"] = value
        return env

    def own_environment(self) -> dict[str, str]:
        """Nothing of the user's but where programs are: no configuration, no identity, no attributes."""
        return {k: self._environ[k] for k in _OWN_KEPT if k in self._environ} | _ALWAYS | _OWN

    def author(self) -> tuple[str, str]:
        """Name and email that the user's environment gives, empty when it gives none."""
        return self._environ.get("GIT_AUTHOR_NAME", ""), self._environ.get("GIT_AUTHOR_EMAIL", "")

    async def run(
        self,
        args: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: bytes | None = None,
        ok: Sequence[int] | None = (0,),
        held: Sequence[int] = (),
    ) -> Done:
        """One git command. `ok` holds the exit codes that are no error; None: all. held: descriptors that it inherits.

        Raises GitError with the command's last words, StorageFull when the disk is full, EnvironmentFault when there
        is no git.
        """
        async with self._slots:
            with tempfile.TemporaryFile() as err:
                code, out = await self._process(args, cwd, env, stdin, err, held)
                words = _tail(err)
        failed = ok is not None and code not in ok
        if code != 0 and (any(sign in words for sign in _FULL) or (failed and _no_room(cwd, env.get("GIT_DIR")))):
            raise StorageFull(f"The disk is full: git {_verb(args)} in {cwd} said: {clean_words(words)}")
        if failed:
            raise GitError(f"git {_verb(args)} failed in {cwd} (exit {code}): {clean_words(words) or 'no message'}")
        return Done(code, out, words)

    async def _process(
        self,
        args: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        stdin: bytes | None,
        err: IO[bytes],
        held: Sequence[int],
    ) -> tuple[int, bytes]:
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                "git",
                *args,
                cwd=cwd,
                env=env,
                stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                # A file, not a pipe: a connection that ssh leaves open in the background keeps its end open too.
                stderr=err,
                start_new_session=True,
                pass_fds=held,
            )
        )
        try:
            process = await asyncio.shield(starting)
        except FileNotFoundError as error:
            raise _not_started(cwd) from error
        except asyncio.CancelledError:
            # Half started, asyncio would kill git alone, not its group, and reap it behind its child watcher's back.
            with suppress(OSError):
                await _end(await starting)
            raise
        try:
            async with asyncio.timeout(self._timeout_s):
                out, _ = await process.communicate(stdin)
        except TimeoutError as error:
            raise GitError(f"git {_verb(args)} in {cwd} was stopped after {self._timeout_s:g} s") from error
        finally:
            if process.returncode is None:
                await _end(process)
        assert process.returncode is not None
        return process.returncode, out


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the whole process group: politely, so that lock files go, then for good."""
    try:
        _signal(process.pid, signal.SIGTERM)
        async with asyncio.timeout(_GRACE_S):
            await process.communicate()
    except TimeoutError:
        pass
    finally:
        _signal(process.pid, signal.SIGKILL)
    await process.wait()


def _signal(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # all gone; macOS says EPERM for a group of zombies
        return


def _tail(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _ERR_BYTES))
    return file.read().decode("utf-8", "replace")


def _verb(args: Sequence[str]) -> str:
    words = list(args)
    while words and words[0] in ("-c", "-C"):
        del words[:2]
    return words[0] if words else ""


def _passes(name: str) -> bool:
    return name in _KEPT or name.startswith(_KEPT_STARTS)


def _not_started(cwd: Path) -> EnvironmentFault:
    if not cwd.is_dir():
        return EnvironmentFault(f"The folder {cwd} does not exist.")
    return EnvironmentFault("git was not found on PATH. Install git 2.38 or later.")


class Bare:
    """Our own bare repository, as a place to run commands in."""

    def __init__(self, git: Git, git_dir: Path) -> None:
        self.git = git
        self.git_dir = git_dir

    async def run(
        self,
        *args: str,
        stdin: bytes | None = None,
        ok: Sequence[int] | None = (0,),
        index: Path | None = None,
        work_tree: Path | None = None,
        extra: Mapping[str, str] | None = None,
    ) -> Done:
        """A local command in the `own` environment, pinned to this repository; see `Git.run`."""
        env = self.git.own_environment() | {"GIT_DIR": str(self.git_dir)} | dict(extra or {})
        if index is not None:
            env["GIT_INDEX_FILE"] = str(index)
        if work_tree is not None:
            env["GIT_WORK_TREE"] = str(work_tree)
        return await self.git.run(args, cwd=work_tree or self.git_dir, env=env, stdin=stdin, ok=ok)

    async def network(
        self,
        *args: str,
        cwd: Path,
        config: Sequence[tuple[str, str]],
        ok: Sequence[int] | None = (0,),
        held: Sequence[int] = (),
    ) -> Done:
        """A command that speaks to the remote, in the `network` environment; `cwd` is what relative URLs start from."""
        env = self.git.network_environment(config) | {"GIT_DIR": str(self.git_dir)}
        return await self.git.run(args, cwd=cwd, env=env, ok=ok, held=held)


def _no_room(*places: str | os.PathLike[str] | None) -> bool:
    """Whether the disk is full: git often says no more than that it could not write a file."""
    for place in places:
        with suppress(OSError):
            if place is not None and (disk := os.statvfs(place)).f_bavail * disk.f_frsize < _ROOM_BYTES:
                return True
    return False
