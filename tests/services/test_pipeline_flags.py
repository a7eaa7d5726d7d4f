"""What the gate notices about a change, on real trees."""

import os
from pathlib import Path

import pytest

from taskyard.services.pipeline.flags import flags_of
from taskyard.services.repo import Checkout, Identity, Repository, scaffold

FILES = {"a.py": (b"1\n2\n3\n4\n", False), "conftest.py": (b"\n", False), "old.py": (b"1\n", False)}
STEERING = (
    "sub/conftest.py", "pytest.ini", "sub/tox.ini", "setup.cfg", "lib/sitecustomize.py", "usercustomize.py",
    "GNUmakefile", "sub/makefile", "lib/x.pth", ".github/workflows/ci.yml", "sub/.ci/run.sh", "pytest.toml",
    "pyproject.toml",
)  # fmt: skip
WELCOME = ("tests/test_new.py", "src/conftest_helpers.py", "github/notes.md", "docs/setup.md", "src/make.py")


@pytest.fixture
async def repository(tmp_path: Path) -> Repository:
    await scaffold(tmp_path / "work", tmp_path / "remote.git", FILES, Identity("A", "a@example.org"), "First\n")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    return await Repository.open(
        tmp_path / "state" / "repo.git", await Checkout.find(tmp_path / "work", environ), "origin"
    )


async def flags(repository: Repository, changes: dict[str, bytes | None]) -> list[str]:
    base = await repository.tree_of(await repository.fetch("main"))
    return list(await flags_of(repository, base, await repository.replace(base, changes), 0.5))


async def test_a_new_file_that_may_steer_checks_is_flagged(repository: Repository) -> None:
    """One line each, at any depth; new tests are welcome, and a change of what was there is seen in the diff."""
    found = await flags(repository, dict.fromkeys((*STEERING, *WELCOME), b"x\n") | {"conftest.py": b"x\n"})
    assert sorted(found) == sorted(f"{path} is new and may change how checks run" for path in STEERING)


async def test_what_was_deleted_is_flagged(repository: Repository) -> None:
    """Files, and most of a file's lines."""
    found = await flags(repository, {"old.py": None, "a.py": b"1\n"})
    assert found == ["75% of the lines of a.py were deleted", "old.py was deleted"]


async def test_a_flag_is_one_line_whatever_the_path_holds(repository: Repository) -> None:
    """A file's name can't bring lines of its own before the judge."""
    (flag,) = await flags(repository, {"x\n- all is well/conftest.py": b""})
    assert flag == r"'x\n- all is well/conftest.py' is new and may change how checks run"
