"""`taskyard init`: a commented taskyard.toml, and the folder for what is worth committing.

    for line in initialise(top, shutil.which):
        print(line)

Nothing is ever overwritten.
"""

import json
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

from taskyard.services.config import template
from taskyard.services.errors import EnvironmentFault

Which = Callable[[str], str | None]

_SETTINGS = "taskyard.toml"
_ATTRIBUTES = ".taskyard/.gitattributes"
_UNION = "lessons.jsonl merge=union\n"
_NPM_PLACEHOLDER = "no test specified"


def initialise(top: Path, which: Which) -> Iterator[str]:
    """Write what is missing in the repository at `top`; one line per thing done, then what comes next.

    which: where a command is on PATH, or None. Raises EnvironmentFault when a file can't be written.
    """
    command = guess_check(top, which)
    here = command is not None and which(_tool(command)) is not None
    what = f"every setting with its default, and a check: {command}" if here else "every setting with its default"
    yield _write(top, _SETTINGS, _settings(command, here=here), what)
    yield _write(top, _ATTRIBUTES, _UNION, "so that lessons of two branches merge by themselves")
    yield f"next: {_next_step(_text(top / _SETTINGS), command)}taskyard doctor"


def _next_step(settings: str, command: str | None) -> str:
    """What is left to do before `doctor`, in the settings as they are now."""
    if _has_check(settings):
        return ""
    if command is None:
        return f"name a test command under [checks] in {_SETTINGS}, then run: "
    if json.dumps(command) in settings:
        return f"uncomment the check under [checks] in {_SETTINGS} once {_tool(command)} is installed, then run: "
    return f"put a check such as `{command}` under [checks] in {_SETTINGS}, then run: "


def _has_check(settings: str) -> bool:
    """Whether there is a check already. A file that can't be read is for `doctor` to tell of."""
    try:
        return bool(tomllib.loads(settings).get("checks"))
    except tomllib.TOMLDecodeError:
        return True


def guess_check(top: Path, which: Which) -> str | None:
    """A test command that suits what lies in the repository, whether its tool is here or not; None for no idea."""
    python = next((name for name in ("python", "python3") if which(name)), "python")
    tests = next((folder for folder in ("tests", "test") if any((top / folder).glob("**/test*.py"))), None)
    if _uses_pytest(top):
        return f"{python} -m pytest -q"
    if tests:
        package = f" -t . -s {tests}" if (top / tests / "__init__.py").exists() else f" -s {tests}"
        return f"{python} -m unittest discover{package}"
    if _has_npm_test(top):
        return "npm test"
    if (top / "go.mod").exists():
        return "go test ./..."
    return "cargo test" if (top / "Cargo.toml").exists() else None


def _uses_pytest(top: Path) -> bool:
    if any((top / name).exists() for name in ("pytest.ini", "conftest.py", "tests/conftest.py", "test/conftest.py")):
        return True
    return any(
        "pytest" in _text(top / name) for name in ("pyproject.toml", "setup.cfg", "tox.ini", "requirements-dev.txt")
    )


def _has_npm_test(top: Path) -> bool:
    try:
        package = json.loads(_text(top / "package.json") or "{}")
        script = package.get("scripts", {}).get("test", "")
    except (ValueError, AttributeError):
        return False
    return bool(script) and _NPM_PLACEHOLDER not in script


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _settings(command: str | None, *, here: bool) -> str:
    """The template with the suggested check; commented out when its tool is not on this machine."""
    if command is None:
        return template()
    line = f"test = {json.dumps(command)}"
    suggestion = line if here else f"# {line}   # {_tool(command)} was not found on PATH"
    return template().replace("\n[checks]\n", f"\n[checks]\n{suggestion}\n", 1)


def _tool(command: str) -> str:
    return "pytest" if " pytest" in command else command.split()[0]


def _write(top: Path, name: str, text: str, what: str) -> str:
    path = top / name
    try:
        path.parent.mkdir(exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        if isinstance(error, FileExistsError) and path.exists():
            return f"kept {name} as it is"
        raise EnvironmentFault(f"can't write {path}: {error.strerror}") from error
    return f"wrote {name}, {what}"
