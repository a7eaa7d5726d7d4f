"""`taskyard init` writes what is missing and touches nothing that is there."""

import json
import tomllib
from pathlib import Path

import pytest

from taskyard.services.config import load
from taskyard.services.errors import EnvironmentFault
from taskyard.tui.init import Which, guess_check, initialise


def _everything(name: str) -> str | None:
    return f"/usr/bin/{name}"


def _nothing(name: str) -> str | None:
    return None if name else ""


def test_the_written_settings_load_and_are_the_defaults(tmp_path: Path) -> None:
    """A file that init wrote never stops the next command."""
    list(initialise(tmp_path, _everything))
    assert load(tmp_path, {}, {}) == load(tmp_path / "elsewhere", {}, {})


def test_lessons_of_two_branches_merge_by_union(tmp_path: Path) -> None:
    """Lessons are appended by everyone; a line-wise union is right for them."""
    list(initialise(tmp_path, _everything))
    assert (tmp_path / ".taskyard" / ".gitattributes").read_text() == "lessons.jsonl merge=union\n"


def test_nothing_is_overwritten_and_that_is_said(tmp_path: Path) -> None:
    """A second init changes not one byte."""
    (tmp_path / "taskyard.toml").write_text("# mine\n")
    said = list(initialise(tmp_path, _everything))
    assert (tmp_path / "taskyard.toml").read_text() == "# mine\n"
    assert "kept taskyard.toml as it is" in said
    assert any(line.startswith("wrote .taskyard/.gitattributes") for line in said)
    assert list(initialise(tmp_path, _everything))[:2] == [
        "kept taskyard.toml as it is",
        "kept .taskyard/.gitattributes as it is",
    ]


@pytest.mark.parametrize(
    ("which", "last"),
    [
        (_everything, "next: taskyard doctor"),
        (
            _nothing,
            "next: uncomment the check under [checks] in taskyard.toml once go is installed, then run: taskyard doctor",
        ),
    ],
)
def test_a_check_that_is_in_the_file_is_not_suggested_again(tmp_path: Path, which: Which, last: str) -> None:
    """Neither at once nor by a second init."""
    (tmp_path / "go.mod").write_text("")
    assert [list(initialise(tmp_path, which))[-1] for _ in range(2)] == [last, last]


def test_a_file_of_the_users_own_gets_a_suggestion_only_while_it_has_no_check(tmp_path: Path) -> None:
    """What is there already counts, whatever we would have guessed; a broken file is for doctor to tell of."""
    (tmp_path / "go.mod").write_text("")
    said = {}
    for text in ("# mine\n", '[checks]\nown = "make check"\n', "[checks\n"):
        (tmp_path / "taskyard.toml").write_text(text)
        said[text] = list(initialise(tmp_path, _everything))[-1]
    suggested, *others = said.values()
    assert "go test ./..." in suggested
    assert others == ["next: taskyard doctor"] * 2


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"pytest.ini": ""}, "python -m pytest -q"),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, "python -m pytest -q"),
        ({"tests/test_a.py": ""}, "python -m unittest discover -s tests"),
        ({"tests/test_a.py": "", "tests/__init__.py": ""}, "python -m unittest discover -t . -s tests"),
        ({"package.json": json.dumps({"scripts": {"test": "jest"}})}, "npm test"),
        ({"package.json": json.dumps({"scripts": {"test": 'echo "Error: no test specified" && exit 1'}})}, None),
        ({"package.json": "[broken"}, None),
        ({"package.json": "[]"}, None),
        ({"go.mod": ""}, "go test ./..."),
        ({"Cargo.toml": ""}, "cargo test"),
        ({"README.md": ""}, None),
    ],
)
def test_the_test_command_is_guessed_from_what_lies_there(
    tmp_path: Path, files: dict[str, str], command: str | None
) -> None:
    """Pytest, unittest, npm, go and cargo are known; nothing is guessed without a sign."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert guess_check(tmp_path, _everything) == command


def test_a_guess_counts_only_when_its_tool_is_here(tmp_path: Path) -> None:
    """Without cargo the suggestion stays a comment: a check that can't run would stop every run."""
    (tmp_path / "Cargo.toml").write_text("")
    list(initialise(tmp_path, _nothing))
    text = (tmp_path / "taskyard.toml").read_text()
    assert '# test = "cargo test"' in text
    assert tomllib.loads(text).get("checks", {}) == {}


def test_a_guess_whose_tool_is_here_is_a_check(tmp_path: Path) -> None:
    """The suggestion is live, and said."""
    (tmp_path / "go.mod").write_text("")
    said = list(initialise(tmp_path, _everything))
    assert [check.command for check in load(tmp_path, {}, {}).checks] == ["go test ./..."]
    assert any("go test ./..." in line for line in said)


def test_a_folder_that_can_not_be_written_is_one_clear_error(tmp_path: Path) -> None:
    """A file where the folder should be: the message names the path."""
    (tmp_path / ".taskyard").write_text("")
    with pytest.raises(EnvironmentFault, match=r"\.taskyard"):
        list(initialise(tmp_path, _everything))
