"""The sample project's files, its boards of any size, and how it travels in the package."""

import re
import tomllib
from glob import glob
from pathlib import Path

import pytest

from taskyard.services.errors import UsageError
from taskyard.services.practice import project
from taskyard.services.practice.reading import read
from taskyard.services.practice.variations import most, order, variation

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
ROW = re.compile(r"^\| (SD-\d+) \|.*\| \[ \] \|.*$", re.MULTILINE)


def board(tasks: int) -> str:
    return project.files(tasks)["board.md"][0].decode()


@pytest.mark.parametrize("tasks", [1, 3, 4, 8, 9, 10, 60, 1000])
def test_the_board_has_as_many_open_tasks_as_asked_for(tasks: int) -> None:
    """Fewer are the first ones, more are variations; what was done stays, and every row fits its header."""
    text = board(tasks)
    assert ROW.findall(text) == [f"SD-{number}" for number in range(1, tasks + 1)]
    assert "| SD-0 |" in text
    cells = [re.sub(r"`[^`]*`", "", line).count("|") for line in text.splitlines() if line.startswith("|")]
    assert set(cells) <= {6, 8}
    assert text.count("| ID |") == text.count("\n\n| ID |") == len(re.findall(r"\n\|-+\|[-|]+\n\| SD-", text))


def test_nine_tasks_are_the_board_as_it_stands() -> None:
    """The standard board is a file that people can read, not one that is made."""
    sample = Path(project.__file__).parent / "sample"
    assert project.files(9)["board.md"] == ((sample / "board.md").read_bytes(), False)
    assert project.files() == project.files(9)


def test_only_a_possible_number_of_tasks_is_taken() -> None:
    """None, or more than there are variations: one clear message."""
    for tasks in (0, -1, 1001):
        with pytest.raises(UsageError, match=f"1 to 1000 tasks, not {tasks}"):
            project.files(tasks)
    assert project.STANDARD_TASKS + most() >= project.MOST_TASKS


def test_all_variations_are_different_and_known_to_the_model() -> None:
    """Each has a text, a test file and a module or a gap in one of its own, and its text alone brings its change."""
    every = [variation(number) for number in range(1, most() + 1)]
    assert len({each.scope for each in every}) == len({each.path for each in every}) == len(every)
    assert len({each.test for each in every}) == len(every)
    for each in every:
        message = {"role": "user", "content": f"# Task X\n\n{each.scope}\n\n## Acceptance\n\n(none given)\n"}
        found = order(read({"messages": [message]}))
        assert found is not None
        assert found.paths == (each.path, each.test_path)
        before = each.base.rstrip("\n") or None
        assert found.targets[0].change(before) not in (None, before)


def test_the_files_of_a_number_never_change() -> None:
    """The same number, the same bytes; a bigger board keeps what a smaller one had."""
    assert project.files(40) == project.files(40)
    small, large = project.files(40), project.files(80)
    assert all(large[path] == content for path, content in small.items() if path != "board.md")


def test_every_file_of_the_sample_travels_in_the_package() -> None:
    """The globs of pyproject.toml meet each file, dotfiles too."""
    data = tomllib.loads(PYPROJECT.read_text())["tool"]["setuptools"]["package-data"]["taskyard.services"]
    services = PYPROJECT.parent / "services"
    # setuptools' own globbing is glob's: unlike Path.glob it leaves dotfiles out of `*`
    packed = {name for pattern in data for name in glob(pattern, root_dir=services, recursive=True)}  # noqa: PTH207
    sample = services / "practice" / "sample"
    there = {
        str(path.relative_to(services))
        for path in sample.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert there <= packed
    assert {f"practice/sample/{name}" for name in (".gitignore", ".editorconfig", "taskyard.toml")} <= there


def test_the_installed_package_holds_the_whole_sample() -> None:
    """What is installed is what `files` gives: the dotfiles are in it and nothing that Python made."""
    names = project.files(9).keys()
    assert {".gitignore", ".editorconfig", "taskyard.toml", "board.md", "README.md", "tests/__init__.py"} <= names
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyc")]
