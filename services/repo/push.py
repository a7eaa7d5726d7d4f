"""Pushes: one receive-pack whatever the number of refs, each guarded by what we last saw there."""

import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from taskyard.services import fault
from taskyard.services.errors import GitError, PushRefused
from taskyard.services.repo.checkout import NETWORK_REMOTE
from taskyard.services.repo.git import Bare, Done, clean_words
from taskyard.services.repo.records import PushUpdate

PROBE = "refs/heads/taskyard/doctor-probe"
_MARK = "pushing"
"""A file in our bare repository, locked by the process of the latest push for as long as that lives."""
_OPTIONS = (
    "push", "--porcelain", "--no-verify", "--no-signed", "--no-follow-tags", "--recurse-submodules=no", "--no-progress",
)  # fmt: skip
# A push option or a followed tag of the user's global configuration is nothing of ours to send.
_NEUTRAL = ("-c", "push.pushOption=", "-c", "push.gpgSign=false")
_MOVED = re.compile(
    r"stale info|non-fast-forward|fetch first|needs force|already exists|cannot lock ref|failed to lock|"
    r"failed to update ref|incorrect old value|reference already exists|unable to resolve reference"
)
_FOLLOWS = re.compile(r"atomic (push|transaction) fail")


@dataclass(frozen=True)
class _Rejected:
    """One `!` line of git's porcelain output."""

    ref: str
    why: str


async def push(
    bare: Bare, updates: Sequence[PushUpdate], *, cwd: Path, config: Sequence[tuple[str, str]], shown: str
) -> None:
    """See `Repository.push`; `shown` is how messages call the remote."""
    if not updates:
        return
    refs = [update.ref for update in updates]
    if any(not ref.startswith("refs/") or ":" in ref for ref in refs) or len(set(refs)) != len(refs):
        raise GitError(f"A push needs full ref names, each once; got {', '.join(refs)}")
    # One ref is atomic by itself, and some servers don't know --atomic.
    atomic = ["--atomic"] if len(updates) > 1 else []
    leases = [f"--force-with-lease={update.ref}:{update.old or ''}" for update in updates]
    specs = [f"{update.new}:{update.ref}" for update in updates]
    fault.point("repo.push.before")
    words = (*_NEUTRAL, *_OPTIONS, *atomic, *leases, NETWORK_REMOTE, *specs)
    with _marked(bare.git_dir) as mark:
        done = await bare.network(*words, cwd=cwd, config=config, ok=None, held=(mark,))
    fault.point("repo.push.after")
    if done.code:
        raise refusal(done, shown)


@contextmanager
def _marked(git_dir: Path) -> Iterator[int]:
    """A lock for git to inherit: it lasts until git has ended, also when this process is killed before.

    A file of its own for each push, since a helper that git leaves in the background may hold on to an older one.
    Raises GitError when it can't be made.
    """
    place = git_dir / _MARK
    try:
        place.unlink(missing_ok=True)
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise GitError(f"{place} can't be made, so nothing was pushed: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield descriptor
    finally:
        os.close(descriptor)


def under_way(git_dir: Path) -> bool:
    """Whether the latest push, of whatever process, has not ended yet."""
    try:
        descriptor = os.open(git_dir / _MARK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


async def try_push(bare: Bare, commit: str, *, cwd: Path, config: Sequence[tuple[str, str]]) -> str | None:
    """Why a push would fail, None when it would not. Nothing is made at the remote and no hook of it runs."""
    spec = f"{commit}:{PROBE}"
    done = await bare.network(*_NEUTRAL, *_OPTIONS, "--dry-run", NETWORK_REMOTE, spec, cwd=cwd, config=config, ok=None)
    return None if done.code == 0 else clean_words(done.err) or f"git push --dry-run ended with exit {done.code}"


def refusal(done: Done, shown: str) -> GitError:
    """The error that a failed `git push --porcelain` stands for."""
    rejected = [found for line in done.text.splitlines() if (found := _rejected(line))]
    if not rejected:
        return GitError(f"The remote {shown} could not be pushed to: {clean_words(done.err) or f'exit {done.code}'}")
    causes = [item for item in rejected if not _FOLLOWS.search(item.why)] or rejected
    moved = any(_MOVED.search(item.why) for item in causes)
    reasons = "; ".join(f"{item.ref}: {clean_words(item.why, 200)}" for item in causes[:5])
    said = "\n".join(
        line.removeprefix("remote:").strip() for line in done.err.splitlines() if line.startswith("remote:")
    )
    words = f"\n{clean_words(said)}" if said.strip() else ""
    if moved:
        return PushRefused(f"The remote {shown} has moved on ({reasons}). Fetch and merge again.{words}", moved=True)
    return PushRefused(f"The remote {shown} refused the push ({reasons}).{words}", moved=False)


def _rejected(line: str) -> _Rejected | None:
    flag, _, rest = line.partition("\t")
    if flag != "!":
        return None
    names, _, why = rest.partition("\t")
    return _Rejected(names.partition(":")[2], why)
