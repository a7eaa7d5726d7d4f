"""Which sandbox a run has, and what a check sees in it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from taskyard.services.checks import LocalRunner, Sandbox, choose_sandbox
from taskyard.services.clock import SystemClock
from taskyard.services.config import SandboxSettings
from taskyard.services.errors import ConfigError, EnvironmentFault
from taskyard.services.records import Check, CheckResult

pytestmark = pytest.mark.needs_bwrap

PYTHON = Path(sys.executable).parent


def environ(home: Path) -> dict[str, str]:
    home.mkdir(exist_ok=True)
    return {**os.environ, "HOME": str(home), "PATH": f"{PYTHON}:{os.environ['PATH']}"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "tree"
    folder.mkdir()
    return folder


async def run(sandbox: Sandbox, tree: Path, command: str, timeout_s: float = 60.0) -> CheckResult:
    check = Check("check", command, timeout_s=timeout_s)
    return await LocalRunner(sandbox, SystemClock()).run(check, tree="0" * 40, folder=tree)


def make_venv(folder: Path, *options: str) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", *options, folder], check=True)


def said_outside(command: str, environ: dict[str, str]) -> str:
    """What a command prints without any sandbox."""
    return subprocess.run(["sh", "-c", command], env=environ, capture_output=True, text=True, check=True).stdout


async def test_the_environment_is_a_list(tree: Path, tmp_path: Path):
    """A check sees the listed variables and those of `[sandbox] env`, in both kinds."""
    given = {**environ(tmp_path / "home"), "ANTHROPIC_API_KEY": "hush", "ASKED": "yes", "OTHER": "no"}
    for unsafe in (False, True):
        chosen = choose_sandbox(SandboxSettings(env=("ASKED",)), unsafe_local=unsafe, environ=given)
        result = await run(chosen, tree, "env")
        names = {line.partition("=")[0] for line in result.output.splitlines()}
        assert {"PATH", "HOME", "TMPDIR", "TERM", "NO_COLOR", "CI", "LANG", "ASKED"} <= names
        assert not {"ANTHROPIC_API_KEY", "OTHER", "VIRTUAL_ENV_PROMPT", "OLDPWD", "SHLVL", "SSH_AUTH_SOCK"} & names


@pytest.mark.parametrize("kind", ["--symlinks", "--copies"])
@pytest.mark.parametrize("place", ["tmp/venv", "home/venv", "home/repo/.venv"])
async def test_a_virtual_environment_is_the_same_inside(tree: Path, tmp_path: Path, place: str, kind: str):
    """In a temporary folder, under the home folder, ignored in the repository: the very interpreter of outside."""
    outside = environ(tmp_path / "home")
    venv = tmp_path / place
    make_venv(venv, kind)
    (venv.parent / ".git").mkdir()
    outside |= {"PATH": f"{venv}/bin:/usr/bin:/bin", "VIRTUAL_ENV": str(venv)}
    ask = "python3 -c \"import sys, os; print(sys.executable, sys.prefix, sys.base_prefix, os.environ['VIRTUAL_ENV'])\""
    said = said_outside(ask, outside)
    chosen = choose_sandbox(SandboxSettings(), unsafe_local=False, environ=outside)
    result = await run(chosen, tree, f"{ask} > said; command -v python3")
    assert result.exit == 0, result.output
    assert (tree / "said").read_text() == said
    assert str(venv) in said


async def test_every_tool_on_path_is_the_same_inside(tree: Path, tmp_path: Path):
    """PATH finds the same file inside as outside, shims of a version manager included."""
    outside = environ(tmp_path / "home")
    outside.pop("PYENV_ROOT", None)
    root = tmp_path / "home" / ".pyenv"
    make_venv(root / "versions" / "3.9")
    (root / "shims").mkdir()
    shim = root / "shims" / "python-of-shim"
    shim.write_text('#!/bin/sh\nexec "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.9/bin/python3" "$@"\n')
    shim.chmod(0o755)
    outside["PATH"] = f"{root}/shims:{outside['PATH']}"
    ask = "for t in python python3 pytest sh git make node cargo go java ruby python-of-shim; do command -v $t; done; "
    ask += "python-of-shim -c 'import sys; print(sys.prefix)'"
    said = said_outside(ask, outside)
    chosen = choose_sandbox(SandboxSettings(), unsafe_local=False, environ=outside)
    result = await run(chosen, tree, f"{{ {ask}; }} > said")
    assert result.exit == 0, result.output
    assert (tree / "said").read_text() == said


async def test_further_folders_can_be_shown(tree: Path, tmp_path: Path):
    """`[sandbox] read` names them; they can't be written."""
    (tmp_path / "sdk").mkdir()
    (tmp_path / "sdk" / "a").write_text("hello")
    chosen = choose_sandbox(
        SandboxSettings(read=(f"{tmp_path}/sdk",)), unsafe_local=False, environ=environ(tmp_path / "home")
    )
    result = await run(chosen, tree, f"cat {tmp_path}/sdk/a; echo x > {tmp_path}/sdk/a")
    assert result.output.startswith("hello")
    assert (tmp_path / "sdk" / "a").read_text() == "hello"


async def test_a_sandbox_that_can_not_start_is_broken(tree: Path, tmp_path: Path):
    """A failure of the sandbox is not taken for a failure of the code, whatever the exit code."""
    (tmp_path / "sdk").mkdir()
    settings = SandboxSettings(read=(f"{tmp_path}/sdk",))
    chosen = choose_sandbox(settings, unsafe_local=False, environ=environ(tmp_path / "home"))
    (tmp_path / "sdk").rmdir()
    result = await run(chosen, tree, "true")
    assert result.exit is None
    assert "the sandbox could not start the command" in result.broken
    assert "sdk" in result.broken


def test_without_bubblewrap_the_message_says_what_to_do(tmp_path: Path):
    """Not installed, not working, switched off: each says so and names --unsafe-local."""
    (tmp_path / "bin").mkdir()
    bwrap = tmp_path / "bin" / "bwrap"
    with pytest.raises(EnvironmentFault, match=r"apt install bubblewrap.*--unsafe-local"):
        choose_sandbox(SandboxSettings(), unsafe_local=False, environ={"PATH": str(tmp_path / "bin")})
    bwrap.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    bwrap.chmod(0o755)
    with pytest.raises(EnvironmentFault, match=r"does not work here: No permissions.*--unsafe-local"):
        choose_sandbox(SandboxSettings(), unsafe_local=False, environ={"PATH": str(tmp_path / "bin")})
    with pytest.raises(EnvironmentFault, match="--unsafe-local"):
        choose_sandbox(SandboxSettings(mode="off"), unsafe_local=False, environ=os.environ)
    assert choose_sandbox(SandboxSettings(mode="off"), unsafe_local=True, environ=os.environ).kind == "none"


@pytest.mark.parametrize("path", ["vendor", "~", "/"])
def test_a_folder_that_must_not_be_shown_is_refused(tmp_path: Path, path: str):
    """`[sandbox] read` takes no relative path and nothing that shows the home folder."""
    with pytest.raises(ConfigError, match=r"\[sandbox\] read"):
        choose_sandbox(SandboxSettings(read=(path,)), unsafe_local=False, environ=environ(tmp_path / "home"))


def test_the_key_is_stable_and_changes_with_what_matters(tmp_path: Path):
    """Two runs share results; another limit, variable, tool or kind does not. A secret's value is not in it."""
    given = environ(tmp_path / "home")

    def key(unsafe_local: bool = False, more: dict[str, str] | None = None, **settings: object) -> str:
        chosen = SandboxSettings(**settings)  # type: ignore[arg-type]
        return choose_sandbox(chosen, unsafe_local=unsafe_local, environ={**given, **(more or {})}).key

    assert key() == key()
    tools = tmp_path / "tools" / "bin"
    tools.mkdir(parents=True)
    others = [
        key(unsafe_local=True),
        key(memory=10**9),
        key(more={"A": "1"}, env=("A",)),
        key(more={"A": "2"}, env=("A",)),
        key(more={"PATH": f"{tools}:{given['PATH']}"}),
    ]
    assert len({key(), *others}) == 6
    token = {"env": ("MY_TOKEN",)}
    assert key(more={"MY_TOKEN": "a"}, **token) == key(more={"MY_TOKEN": "b"}, **token)
