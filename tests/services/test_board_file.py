"""Boards as files: reading what is there, and ticking in place."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from taskyard.services.board import on_path, read_board, tick_file
from taskyard.services.board.tick import _replaced
from taskyard.services.errors import BoardError

HEAD = "| ID | Scope | Status |\n| --- | --- | --- |\n"


@pytest.fixture
def board(tmp_path: Path) -> Path:
    path = tmp_path / "repo" / "board.md"
    path.parent.mkdir()
    path.write_text(HEAD + "".join(f"| T{n} | do {n} | [ ] |\n" for n in range(8)))
    return path


def open_ids(path: Path) -> list[str]:
    return [task.id for task in read_board(path, path.name, which=bool).tasks if task.status == "open"]


def refusal(path: Path) -> str:
    with pytest.raises(BoardError) as caught:
        read_board(path, "given.md", which=bool)
    return str(caught.value)


def test_what_is_no_file_is_refused_in_words(tmp_path: Path) -> None:
    """Missing, a folder, a pipe, a name that no file can have: one clear message each, and no waiting."""
    assert "there is no board given.md" in refusal(tmp_path / "none.md")
    assert "given.md is a folder" in refusal(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "given.md is no regular file" in refusal(tmp_path / "pipe")
    assert "can't read the board given.md" in refusal(tmp_path / ("x" * 300))
    assert "can't read the board given.md" in refusal(tmp_path / "a\0b")


def test_a_board_keeps_its_bytes_as_read(board: Path) -> None:
    """What was read can be compared with the base's version."""
    read = read_board(board, "given.md", which=bool)
    assert (read.path, read.content) == ("given.md", board.read_bytes())


def test_a_tick_in_place_keeps_mode_and_link_and_leaves_no_file(board: Path, tmp_path: Path) -> None:
    """The file is replaced in one step: its mode and the link to it are as before, and nothing else is there."""
    board.chmod(0o640)
    link = tmp_path / "link.md"
    link.symlink_to(board)
    tick_file(link, ["T1"], tmp_path / "lock")
    assert link.is_symlink()
    assert board.stat().st_mode & 0o777 == 0o640
    assert "T1" not in open_ids(board)
    assert list(board.parent.iterdir()) == [board]


def test_a_tick_in_place_keeps_what_was_edited_since(board: Path, tmp_path: Path) -> None:
    """The file is read again: a person's edit stays, and the row is found where it is now."""
    board.write_text("Edited.\n\n" + board.read_text())
    tick_file(board, ["T0"], tmp_path / "lock")
    assert board.read_text().startswith("Edited.\n\n")
    assert open_ids(board) == [f"T{n}" for n in range(1, 8)]


def test_a_row_that_is_gone_does_not_keep_others_from_their_tick(board: Path, tmp_path: Path) -> None:
    """The error names the missing row; the rest is done."""
    with pytest.raises(BoardError, match="no row any more for gone"):
        tick_file(board, ["gone", "T3"], tmp_path / "lock")
    assert "T3" not in open_ids(board)


def test_a_file_that_was_removed_is_told(board: Path, tmp_path: Path) -> None:
    """Nothing is made in its place."""
    board.unlink()
    with pytest.raises(BoardError, match="was not ticked"):
        tick_file(board, ["T1"], tmp_path / "lock")
    assert not board.exists()


def test_ticks_at_the_same_time_all_arrive(board: Path, tmp_path: Path) -> None:
    """Each re-reads under the lock, so none overwrites another."""
    threads = [threading.Thread(target=tick_file, args=(board, [f"T{n}"], tmp_path / "lock")) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert open_ids(board) == []


def test_a_file_that_changed_after_it_was_read_is_not_replaced(board: Path) -> None:
    """An editor that saves meanwhile wins; the tick starts over on what it saved."""
    before = board.read_bytes()
    board.write_bytes(before + b"saved meanwhile")
    assert not _replaced(board, board.with_name("temporary"), before, b"ticked")
    assert board.read_bytes() == before + b"saved meanwhile"
    assert list(board.parent.iterdir()) == [board]


@pytest.mark.parametrize("point", ["board.replace.before", "board.replace.after"])
def test_a_kill_leaves_the_old_board_or_the_new_one(board: Path, tmp_path: Path, point: str) -> None:
    """kill -9 around the replacement: never half a board, and the next tick clears what was left."""
    before = board.read_bytes()
    code = "import sys; from pathlib import Path; from taskyard.services.board import tick_file\n"
    code += "tick_file(Path(sys.argv[1]), ['T1'], Path(sys.argv[2]))"
    killed = subprocess.run(
        [sys.executable, "-c", code, str(board), str(tmp_path / "lock")],
        env={**os.environ, "TASKYARD_FAULT": point},
        cwd=tmp_path,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert board.read_bytes() in (before, before.replace(b"do 1 | [ ]", b"do 1 | [x]"))
    tick_file(board, ["T1"], tmp_path / "lock")
    assert board.read_bytes() == before.replace(b"do 1 | [ ]", b"do 1 | [x]")
    assert list(board.parent.iterdir()) == [board]


def test_a_program_is_found_on_the_given_path_or_as_a_builtin(tmp_path: Path) -> None:
    """What a verification cell's first word is held against; never the current directory."""
    for name, mode in (("tool", 0o755), ("notes", 0o644)):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(mode)
    found = on_path(str(tmp_path))
    assert [found(word) for word in ("tool", "notes", "cd", "[", "if", "ls")] == [True, False, True, True, False, False]
    assert found(str(tmp_path / "tool"))
    assert not found(os.path.relpath(tmp_path / "tool"))
