"""Makes our bare repository and mends what a crash left in it."""

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

from taskyard.services import fault
from taskyard.services.errors import GitError
from taskyard.services.repo.git import Git

_CONFIG = """\
# Written by taskyard at every start. Nothing that the user's repository holds can change it.
[core]
\trepositoryformatversion = {version}
\tbare = true
\tfilemode = true
\tsymlinks = true
\tignorecase = false
\tprecomposeunicode = false
\tautocrlf = false
\tsafecrlf = false
\ttrustctime = true
\tcheckstat = default
\tprotectHFS = true
\tprotectNTFS = true
\tfsmonitor = false
\tuntrackedcache = false
\thooksPath = /dev/null
\tattributesFile = /dev/null
\texcludesFile = /dev/null
\tlogAllRefUpdates = false
\tfsync = committed,reference
\tfsyncMethod = batch
\tfilesRefLockTimeout = 5000
\tpackedRefsTimeout = 5000
[extensions]
\tobjectFormat = {object_format}
[gc]
\tauto = 0
[maintenance]
\tauto = false
[protocol]
\tversion = 2
[protocol "ext"]
\tallow = never
[fetch]
\trecurseSubmodules = false
\twriteCommitGraph = false
[submodule]
\trecurse = false
[merge]
\tdirectoryRenames = false
\tconflictStyle = merge
\trenormalize = false
[i18n]
\tlogOutputEncoding = UTF-8
[log]
\tshowSignature = false
"""
# Read instead of the user's global configuration when objects come from the checkout, which the user trusts.
_TRUST = "[safe]\n\tdirectory = *\n"
_LOOKS, _LOOK_S = 20, 0.1
_STALE_S = 60.0
"""No lock of a ref is held this long by a live git."""


async def prepare(git: Git, git_dir: Path, object_format: str, *, alone: bool) -> None:
    """Make the bare repository if there is none, set its configuration, drop locks that a killed git left.

    alone: no other process moves `refs/taskyard/`, so a lock there that outlasts a moment is a dead one's.
    """
    if not (git_dir / "HEAD").exists():
        await _make(git, git_dir, object_format)
    await asyncio.to_thread(_settle, git_dir, object_format)
    if alone:
        await _drop_orphans(git_dir / "refs" / "taskyard")


async def _drop_orphans(refs: Path) -> None:
    """A git whose parent was killed may still be at work: it gets the time that moving a ref takes."""
    for _ in range(_LOOKS):
        if not await asyncio.to_thread(_locks, refs):
            return
        await asyncio.sleep(_LOOK_S)
    for lock in await asyncio.to_thread(_locks, refs):
        lock.unlink(missing_ok=True)


def _locks(refs: Path) -> list[Path]:
    return list(refs.rglob("*.lock"))


async def _make(git: Git, git_dir: Path, object_format: str) -> None:
    git_dir.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=git_dir.parent, prefix=".new-repo-") as folder:
        made = Path(folder) / "repo"
        options = ("--bare", "--quiet", "--template=", f"--object-format={object_format}", "--initial-branch=none")
        await git.run(["init", *options, str(made)], cwd=Path(folder), env=git.own_environment())
        made.chmod(0o700)
        fault.point("repo.init.before")
        try:
            made.rename(git_dir)
        except OSError as error:  # not empty: another process was faster, or it is something else
            if not (git_dir / "HEAD").exists():
                raise GitError(f"{git_dir} exists and is no git repository. Move it away and start again.") from error
        fault.point("repo.init.after")


def _settle(git_dir: Path, object_format: str) -> None:
    version = 0 if object_format == "sha1" else 1
    config = _CONFIG.format(version=version, object_format=object_format)
    if version == 0:
        config = config.replace("[extensions]\n\tobjectFormat = sha1\n", "")
    _write(git_dir / "config", config)
    _write(git_dir / "trust", _TRUST)
    with tempfile.NamedTemporaryFile(dir=git_dir, prefix=".new-") as probe:
        limit = Path(probe.name).stat().st_mtime - _STALE_S  # by the clock of the file system, as the locks' times are
    for lock in [*git_dir.glob("*.lock"), *(git_dir / "refs").rglob("*.lock")]:
        _drop_old(lock, limit)
    for left in git_dir.glob("tmp-*"):
        if left.is_dir() and left.stat().st_mtime < limit - 3600:
            shutil.rmtree(left, ignore_errors=True)


def _write(path: Path, text: str) -> None:
    if path.exists() and path.read_text() == text:
        return
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    fault.point("repo.config.before")
    Path(name).replace(path)
    fault.point("repo.config.after")


def _drop_old(lock: Path, limit: float) -> None:
    try:
        if lock.stat().st_mtime < limit:
            lock.unlink()
    except FileNotFoundError:  # its git has just ended
        return
