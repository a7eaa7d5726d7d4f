"""The package as people get it: built as a wheel, installed into an empty environment, started in someone's repository.

Slow (it installs every dependency once): `make wheel-test` runs it, `make unit` leaves it out.
"""

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2]
FOLDERS = ("services", "tui", "styles")
SELECTION = ("tests/unit/test_cli_*.py", "tests/unit/test_config_*.py", "tests/unit/test_prompts_*.py")
TEST_TOOLS = ("pytest", "pytest-asyncio", "hypothesis")


def _run(*command: object, cwd: Path, **environ: str) -> "subprocess.CompletedProcess[str]":
    """A command that must succeed, in an environment that knows nothing of this checkout."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "TASKYARD"))
    }
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=inherited | environ, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the project as they would be committed, and none of what lies around them."""
    copy = tmp_path_factory.mktemp("sources")
    listed = _run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=SOURCE).stdout
    for name in filter(None, listed.split("\0")):
        if (SOURCE / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(SOURCE / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that these files give."""
    out = tmp_path_factory.mktemp("dist")
    build = tmp_path_factory.mktemp("build") / "taskyard"
    shutil.copytree(sources, build)
    _run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", out, ".", cwd=build)
    return next(out.glob("taskyard-*.whl"))


@pytest.fixture(scope="module")
def bin_folder(sources: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment that holds the wheel, what it needs, and the test tools."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=True)
    constraints = sources / "constraints.txt"
    _run(home / "bin" / "python", "-m", "pip", "install", "-q", wheel, *TEST_TOOLS, "-c", constraints, cwd=home)
    return home / "bin"


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[Path]:
    """Someone's repository, whose own folders have the names of ours and must never be imported."""
    for name in FOLDERS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text('raise RuntimeError("this is the other project")\n')
    _run("git", "init", "--quiet", cwd=tmp_path)
    yield tmp_path


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(sources: Path, wheel: Path) -> None:
    """Templates, prices, styles and the sample project travel, its dotfiles and run bits included."""
    wanted = {
        f"taskyard/{path.relative_to(sources)}"
        for folder in FOLDERS
        for path in (sources / folder).rglob("*")
        if path.is_file()
    }
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert held == wanted
    assert any(Path(name).name.startswith(".") for name in held)


def test_the_installed_command_runs_in_a_foreign_repository(bin_folder: Path, foreign: Path) -> None:
    """With the current folder on Python's path, and folders of the same names in it."""
    help_text = _run(bin_folder / "taskyard", "--help", cwd=foreign, PYTHONPATH=".").stdout
    assert help_text.startswith("Usage: taskyard ")
    where = "import taskyard.services, taskyard.tui; print(taskyard.services.__file__)"
    assert "site-packages" in _run(bin_folder / "python", "-c", where, cwd=foreign, PYTHONPATH=".").stdout


def test_the_demo_of_the_wheel_merges_all_in_one_push(
    bin_folder: Path, foreign: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In an empty environment: nothing but the package, what it depends on, git and Python."""
    state = tmp_path_factory.mktemp("state")
    path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    done = _run(
        bin_folder / "taskyard", "demo", "--headless", "--json",
        cwd=foreign, PYTHONPATH=".", TASKYARD_STATE=str(state), PATH=path,
    )  # fmt: skip
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["event"], last["exit"], last["pushes"]) == ("run_finished", 0, 1)
    assert last["tasks"]["merged"] == 9


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_the_tests_pass_on_either_kind_of_install(kind: str, sources: Path, bin_folder: Path, foreign: Path) -> None:
    """A selection, from inside the foreign repository."""
    python = bin_folder / "python" if kind == "wheel" else Path(sys.executable)
    tests = sources if kind == "wheel" else SOURCE
    files = sorted(path for pattern in SELECTION for path in tests.glob(pattern))
    done = _run(python, "-m", "pytest", "-p", "no:cacheprovider", *files, cwd=foreign, PYTHONPATH=".")
    assert " passed" in done.stdout
    assert "failed" not in done.stdout
