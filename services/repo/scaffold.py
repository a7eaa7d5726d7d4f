"""Makes a repository and its remote from nothing, for the demo and the tests."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from taskyard.services.errors import GitError
from taskyard.services.repo.checkout import Identity
from taskyard.services.repo.git import Git

# The hook runs in the remote's own folder.
_HOOK = "#!/bin/sh\ncat >/dev/null\necho push >>../pushes\n"


async def scaffold(
    folder: Path, remote: Path, files: Mapping[str, tuple[bytes, bool]], identity: Identity, message: str
) -> None:
    """A repository at `folder` with one commit of `files` ({path: (content, executable)}) on `main`, and its remote.

    The bare repository `remote` is its `origin` and counts: each push appends a line to `<remote>/../pushes`. The
    first commit's own push does not count. Raises GitError when either place is taken.
    """
    for place in (folder, remote):
        if place.exists() and any(place.iterdir()):
            raise GitError(f"{place} is not empty")
        place.mkdir(parents=True, exist_ok=True)
    git = Git(os.environ)
    env = git.own_environment()
    await asyncio.to_thread(_write, folder, files)
    await git.run(["init", "--quiet", "--bare", "--template=", "--initial-branch=main", "."], cwd=remote, env=env)
    for args in (
        ["init", "--quiet", "--template=", "--initial-branch=main", "."],
        ["config", "user.name", identity.name],
        ["config", "user.email", identity.email],
        ["config", "commit.gpgSign", "false"],
        ["add", "--all", "--force"],
        ["commit", "--quiet", "--cleanup=verbatim", "--message", message],
        ["remote", "add", "origin", os.fspath(remote)],
        ["push", "--quiet", "--set-upstream", "origin", "main"],
    ):
        await git.run(args, cwd=folder, env=env)
    # After the first push, so that it is not counted; the user's global hooksPath must not switch it off.
    await git.run(["config", "core.hooksPath", "hooks"], cwd=remote, env=env)
    hook = remote / "hooks" / "pre-receive"
    hook.parent.mkdir()
    hook.write_text(_HOOK)
    hook.chmod(0o755)


def _write(folder: Path, files: Mapping[str, tuple[bytes, bool]]) -> None:
    for path, (content, executable) in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        if executable:
            place.chmod(0o755)
