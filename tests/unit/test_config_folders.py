"""The folders of a repository's state and cache."""

import os
from pathlib import Path

import pytest

from taskyard.services.config import folders, network_file_system
from taskyard.services.errors import EnvironmentFault

MOUNTS = """\
/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
tmpfs /home/ann/local tmpfs rw 0 0
//box/share /mnt/my\\040share cifs rw 0 0
ann@box: /mnt/box fuse.sshfs rw 0 0
host /mnt/host 9p rw 0 0
/dev/fuse /mnt/fuse fuse.ntfs rw 0 0
first /twice nfs rw 0 0
second /twice ext4 rw 0 0
broken line
"""


def test_both_folders_are_made_for_the_owner_alone(tmp_path: Path) -> None:
    """TASKYARD_STATE moves state and cache; each repository has its own; all of it is 0700."""
    top = tmp_path / "shop"
    found = folders(top, {"TASKYARD_STATE": str(tmp_path / "deep" / "state")})
    assert found.state.parent == tmp_path / "deep" / "state"
    assert found.cache == tmp_path / "deep" / "state" / "cache" / found.state.name
    assert found.state.name.startswith("shop-")
    for folder in (found.state, found.cache, found.state.parent):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_a_repository_keeps_its_folders_and_shares_them_with_no_other(tmp_path: Path) -> None:
    """The same for a symbolic link to it; another for a repository of the same name elsewhere."""
    (tmp_path / "a" / "shop").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a" / "shop")
    environ = {"TASKYARD_STATE": str(tmp_path / "state")}
    first = folders(tmp_path / "a" / "shop", environ)
    assert folders(tmp_path / "link", environ) == first
    assert folders(tmp_path / "b" / "shop", environ) != first


def test_a_folder_that_was_open_to_others_is_closed(tmp_path: Path) -> None:
    """State holds prompts and answers: nobody else reads them."""
    environ = {"TASKYARD_STATE": str(tmp_path / "state")}
    state = folders(tmp_path, environ).state
    state.chmod(0o755)
    assert folders(tmp_path, environ).state.stat().st_mode & 0o777 == 0o700


def test_a_long_or_strange_name_of_a_repository_is_no_problem(tmp_path: Path) -> None:
    """C07: a name near the file system's limit still has its folders."""
    environ = {"TASKYARD_STATE": str(tmp_path / "state")}
    assert folders(tmp_path / ("ü" * 127), environ).state.is_dir()
    assert folders(tmp_path / os.fsdecode(b"caf\xe9"), environ).cache.is_dir()
    assert folders(Path("/"), environ).state.name.startswith("root-")


def test_a_file_in_the_way_is_told_with_what_to_do(tmp_path: Path) -> None:
    """EnvironmentFault names the folder and TASKYARD_STATE."""
    (tmp_path / "state").write_text("in the way")
    with pytest.raises(EnvironmentFault, match=r"can't make the folder .*TASKYARD_STATE"):
        folders(tmp_path, {"TASKYARD_STATE": str(tmp_path / "state")})


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/state", ""),
        ("/home/ann/state", "nfs4"),
        ("/home/ann/local/state", ""),
        ("/home/annex", "nfs4"),
        ("/homes/ann", ""),
        ("/mnt/my share/x", "cifs"),
        ("/mnt/box/x", "fuse.sshfs"),
        ("/mnt/host", "9p"),
        ("/mnt/fuse/x", ""),
        ("/twice/x", ""),
    ],
)
def test_a_network_file_system_is_known_by_its_deepest_mount(path: str, kind: str) -> None:
    """A database is only safe on a local file system; the deepest and latest mount decides."""
    assert network_file_system(Path(path), MOUNTS) == kind
