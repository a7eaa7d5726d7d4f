"""The lock of a repository: one holder at a time, named, gone with its process."""

import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from taskyard.services.errors import EnvironmentFault
from taskyard.services.locks import hold, holder

HOLD = """
import sys
from pathlib import Path
from taskyard.services.locks import hold
with hold(Path(sys.argv[1]), "run r7k2"):
    print("held", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def another_process(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock until it is told to end."""
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_held_lock_refuses_others_and_names_its_holder(tmp_path: Path) -> None:
    """The message says who is under way, with the process."""
    path = tmp_path / "run.lock"
    with another_process(path) as process:
        assert holder(path) == f"run r7k2, process {process.pid}"
        with pytest.raises(EnvironmentFault, match=f"run r7k2, process {process.pid} is under way"), hold(path, "me"):
            pass
        assert holder(path) == f"run r7k2, process {process.pid}"


def test_a_lock_ends_with_its_process_however_that_dies(tmp_path: Path) -> None:
    """SIGKILL leaves no lock behind."""
    path = tmp_path / "run.lock"
    with another_process(path) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert holder(path) is None
        with hold(path, "run r8"):
            assert holder(path) == f"run r8, process {os.getpid()}"
    assert holder(path) is None


def test_a_lock_is_let_go_after_an_error(tmp_path: Path) -> None:
    """The block may end in any way; the next one gets the lock, and a shorter name leaves no rest of a longer one."""
    path = tmp_path / "run.lock"
    with pytest.raises(ValueError, match="oops"), hold(path, "a run with quite a long name"):
        raise ValueError("oops")
    with hold(path, "b"):
        assert holder(path) == f"b, process {os.getpid()}"


def test_one_process_can_not_hold_a_lock_twice(tmp_path: Path) -> None:
    """Two runs of one process exclude each other as well."""
    path = tmp_path / "run.lock"
    with hold(path, "first"), pytest.raises(EnvironmentFault, match="first"), hold(path, "second"):
        pass


def test_nobody_holds_a_lock_that_was_never_taken(tmp_path: Path) -> None:
    """Looking neither makes the file nor fails."""
    assert holder(tmp_path / "run.lock") is None
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_private(tmp_path: Path) -> None:
    """Mode 0600, as everything in the state folder."""
    path = tmp_path / "run.lock"
    with hold(path, "me"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_looking_at_a_lock_never_refuses_it_to_anyone(tmp_path: Path) -> None:
    """`taskyard status` in a loop does not keep a run from starting."""
    path = tmp_path / "run.lock"
    path.touch()
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            holder(path)

    lookers = [threading.Thread(target=look) for _ in range(3)]
    for looker in lookers:
        looker.start()
    try:
        for _ in range(2000):
            with hold(path, "me"):
                pass
    finally:
        ended.set()
        for looker in lookers:
            looker.join()
