"""Where a repository's state and cache live on this machine."""

import os
import re
import sys
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

import platformdirs
from msgspec import Struct

from taskyard.services.errors import EnvironmentFault

# SQLite's write-ahead log and file locks don't hold on these.
_NETWORK_TYPES = re.compile(
    r"nfs\d?|cifs|smb\w*|9p|afs|ncpfs|ceph|lustre|gpfs|beegfs|glusterfs|orangefs|pvfs2|ocfs2|gfs2|davfs"
    r"|fuse\.(sshfs|glusterfs|ceph\S*|s3fs|rclone|davfs\d?|gcsfuse|curlftpfs|smbnetfs|juicefs)"
)
_LONGEST_NAME = 48


class Folders(Struct, frozen=True):
    """The two folders of one repository, both made, both 0700."""

    state: Path
    """Database, git objects, archives: never delete by hand."""
    cache: Path
    """What can be made again: worktrees."""


def folders(top: Path, environ: Mapping[str, str]) -> Folders:
    """The folders of the repository whose checkout is at `top`; makes them.

    TASKYARD_STATE=DIR moves both (DIR and DIR/cache). Raises EnvironmentFault when one can't be made or written, or
    lies on a network file system.
    """
    resolved = top.resolve()
    digest = blake2b(os.fsencode(resolved), digest_size=4).hexdigest()
    name = f"{resolved.name[:_LONGEST_NAME] or 'root'}-{digest}"
    moved = environ.get("TASKYARD_STATE", "")
    if moved:
        state_home = Path(moved).expanduser().absolute()
        cache_home = state_home / "cache"
    else:
        state_home = platformdirs.user_state_path("taskyard", appauthor=False)
        cache_home = platformdirs.user_cache_path("taskyard", appauthor=False)
    return Folders(state=_made(state_home / name), cache=_made(cache_home / name))


def _made(folder: Path) -> Path:
    advice = "set TASKYARD_STATE to a folder on a local disk that you may write"
    kind = network_file_system(folder)
    if kind:
        raise EnvironmentFault(
            f"{folder} lies on a network file system ({kind}), where a database is not safe; {advice}"
        )
    try:
        for missing in reversed([f for f in (folder, *folder.parents) if not f.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
        if not folder.is_dir():
            raise NotADirectoryError(20, "it is not a folder")
        folder.chmod(0o700)
    except OSError as error:
        raise EnvironmentFault(f"can't make the folder {folder}: {error.strerror}; {advice}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise EnvironmentFault(f"can't write to the folder {folder}; {advice}")
    return folder


def network_file_system(path: Path, mounts: str | None = None) -> str:
    """The type of the network file system that `path` lies on, "" when it is local or not known.

    mounts: the text of /proc/mounts, read when None.
    """
    if mounts is None:
        if not sys.platform.startswith("linux"):
            return ""
        try:
            mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return ""
    resolved = path.resolve()
    deepest, kind = -1, ""
    for line in mounts.splitlines():
        parts = line.split(" ")
        if len(parts) < 3:
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), parts[1]))
        # A later mount at the same point hides the earlier one.
        if resolved.is_relative_to(point) and len(point.parts) >= deepest:
            deepest, kind = len(point.parts), parts[2]
    return kind if _NETWORK_TYPES.fullmatch(kind) else ""
