"""What the gate notices about a change, one line each, for judge and screen. Flags refuse nothing by themselves."""

from fnmatch import fnmatchcase

from taskyard.services.repo import Repository

_STEERING = (
    "conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg", "pyproject.toml",
    "sitecustomize.py", "usercustomize.py", "*.pth", "gnumakefile", "makefile",
)  # fmt: skip
"""Names of files that test runners, Python and make take up by themselves, in lower case."""
_STEERING_FOLDERS = {".github", ".ci"}


async def flags_of(repository: Repository, base_tree: str, tree: str, max_deleted: float) -> tuple[str, ...]:
    """Deleted files, files that lost more than the share `max_deleted` of their lines, new files that steer checks."""
    flags = []
    for change in await repository.changed(base_tree, tree):
        if change.kind == "D":
            flags.append(f"{_shown(change.path)} was deleted")
        if change.kind == "A" and _steers(change.path):
            flags.append(f"{_shown(change.path)} is new and may change how checks run")
        if change.kind != "M":
            continue
        old = await repository.read(base_tree, change.path) or b""
        new = await repository.read(tree, change.path) or b""
        before = old.splitlines()
        if before and (gone := _gone(before, new.splitlines()) / len(before)) > max_deleted:
            flags.append(f"{gone:.0%} of the lines of {_shown(change.path)} were deleted")
    return tuple(flags)


def _steers(path: str) -> bool:
    *folders, name = path.casefold().split("/")
    return not _STEERING_FOLDERS.isdisjoint(folders) or any(fnmatchcase(name, glob) for glob in _STEERING)


def _shown(path: str) -> str:
    """A path on one line, whatever it holds."""
    return path if path.isprintable() else repr(path)


def _gone(before: list[bytes], after: list[bytes]) -> int:
    """How many more lines went than came."""
    return max(len(before) - len(after), 0)
