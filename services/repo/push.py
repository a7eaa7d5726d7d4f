"""Pushes: one receive-pack whatever the number of refs, each guarded by what we last saw there."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from taskyard.services import fault
from taskyard.services.errors import GitError, PushRefused
from taskyard.services.repo.checkout import NETWORK_REMOTE
from taskyard.services.repo.git import Bare, Done, clean_words
from taskyard.services.repo.records import PushUpdate

PROBE = "refs/heads/taskyard/doctor-probe"
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
    done = await bare.network(
        *_NEUTRAL, *_OPTIONS, *atomic, *leases, NETWORK_REMOTE, *specs, cwd=cwd, config=config, ok=None
    )
    fault.point("repo.push.after")
    if done.code:
        raise refusal(done, shown)


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
