"""What a run writes on the board, and that it proves what it says there."""

from typing import Any

import pytest


def committed(yard: Any, path: str = "board.md") -> str:
    """A file as the base has it."""
    return yard.git("show", f"main:{path}") + "\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_board_that_equals_the_bases_version_is_ticked_in_the_landed_history(
    make_yard: Any, creates: Any, end: str
) -> None:
    """One last commit changes the status cells and no other byte; the working file is not touched."""
    yard = make_yard(creates("A"), creates("B", "(the judge rejects)"))
    odd = "# Täsk\tboard  \n\n| ID | Scope | Status| Verification |\n|:--|---|:-:|---|\n"
    rows = "".join(
        f"|{c[0]}   |  {c[1]}|[ ]  | {c[2]} |\n" for c in (creates("A"), creates("B", "(the judge rejects)"))
    )
    text = (odd + rows + "\nlast line without an end").replace("\n", end)
    (yard.repo / "board.md").write_bytes(text.encode())
    yard.git("-c", "core.autocrlf=false", "commit", "-qam", "Board", at=yard.repo)
    yard.git("-c", "core.hooksPath=/dev/null", "push", "-q", "origin", "main", at=yard.repo)
    ran = yard.run()
    assert (ran.code, ran.counts) == (1, {"merged": 1, "failed": 1})
    expected = text.replace("|[ ]  |", "|[x]  |", 1)
    shown = yard.git("show", f"{yard.tip(ran)}:board.md")
    assert shown.encode() == expected.encode().replace(b"\r\n", b"\n") or shown == expected
    assert yard.git("cat-file", "-s", f"{yard.tip(ran)}:board.md") == str(len(expected.encode()))
    assert (yard.repo / "board.md").read_bytes() == text.encode()
    assert yard.git("status", "--porcelain", at=yard.repo) == "?? .taskyard/"


def test_an_untracked_board_is_ticked_in_place(make_yard: Any, creates: Any) -> None:
    """Only the cells; the history has one commit for each task and none for ticks."""
    yard = make_yard(creates("A"), creates("B", "(changes nothing)"))
    board = yard.repo / "mine.md"
    board.write_bytes((yard.repo / "board.md").read_bytes().replace(b"# Work", b"# Mine"))
    before = board.read_text()
    ran = yard.run(board="mine.md")
    assert (ran.code, ran.counts) == (1, {"merged": 1, "failed": 1})
    line = next(line for line in before.splitlines() if line.startswith("| A |"))
    assert board.read_text() == before.replace(line, line.replace("[ ]", "[x]"))
    assert "mine.md" not in yard.files(yard.tip(ran))
    assert yard.git("rev-list", "--count", f"main..{yard.tip(ran)}") == "1"


def test_a_board_that_was_edited_is_ticked_in_place_and_not_in_the_history(make_yard: Any, creates: Any) -> None:
    """The working file is what is read; what was not committed by its owner is not committed by us."""
    yard = make_yard(creates("A"))
    board = yard.repo / "board.md"
    board.write_text(board.read_text().replace("# Work", "# Work for Monday"))
    before = board.read_text()
    ran = yard.run()
    assert ran.code == 0
    assert board.read_text() == before.replace("[ ]", "[x]")
    assert yard.read(yard.tip(ran), "board.md") == committed(yard)
    assert "board.md" in ran.warnings()["dirty_checkout"]


def test_a_board_outside_of_the_repository_is_ticked_in_place(make_yard: Any, creates: Any) -> None:
    """Wherever it lies."""
    yard = make_yard(creates("A"))
    board = yard.folder / "elsewhere.md"
    board.write_bytes((yard.repo / "board.md").read_bytes())
    ran = yard.run(board=str(board))
    assert (ran.code, board.read_text().count("[x]")) == (0, 1)
    assert yard.read(yard.tip(ran), "board.md") == committed(yard)


def test_with_push_none_nothing_is_ticked_in_the_checkout(make_yard: Any, creates: Any) -> None:
    """What is nowhere but in our own repository is not done."""
    yard = make_yard(creates("A"))
    assert yard.run("--push", "none").code == 0
    assert (yard.repo / "board.md").read_text() == committed(yard)


def test_one_commit_never_ticks_two_tasks(make_yard: Any) -> None:
    """Two tasks that ask for the very same change: the first one's commit does not merge the second."""
    rows = [(name, "Create `same.txt` with `same`.", "`test -f same.txt`") for name in ("A", "B")]
    yard = make_yard(*rows, settings="\n[landing]\nmax_age_s = 60\n")
    ran = yard.run()
    landed = yard.landed(yard.tip(ran))
    assert (len(landed), ran.counts["merged"]) == (1, 1)
    (other,) = {"A", "B"} - set(landed)
    assert ran.code in {1, 4}
    assert ran.states(other)[-1][0] in {"failed", "needs_you"}
    ticked = [line for line in yard.read(yard.tip(ran), "board.md").splitlines() if "[x]" in line]
    assert [line.split("|")[1].strip() for line in ticked] == list(landed)


def test_a_model_can_not_tick_the_board_itself(make_yard: Any) -> None:
    """The board is out of reach of the tools: a task whose change it would be ends without a commit."""
    yard = make_yard(("A", "Replace `[ ]` with `[x]` in `board.md`.", "`test -f board.md`"))
    ran = yard.run()
    assert (ran.code, ran.counts, yard.pushes) == (1, {"failed": 1}, 0)
    assert (yard.repo / "board.md").read_text() == committed(yard)


def test_a_board_that_lies_in_a_folder_and_is_named_from_there(make_yard: Any, creates: Any) -> None:
    """The key of a task is that of the board's path in the repository, whatever the folder one stands in."""
    yard = make_yard(creates("A"), files={"plans/next.md": ""})
    yard.change({"plans/next.md": committed(yard)})
    ran = yard.process(["run", "next.md", "--json"], cwd=yard.repo / "plans")
    assert (ran.code, ran.counts) == (0, {"merged": 1})
    assert yard.read(yard.tip(ran), "plans/next.md").count("[x]") == 1
    waiting = yard.run(board="plans/next.md")
    assert (waiting.code, waiting.counts) == (0, {"skipped": 1})
