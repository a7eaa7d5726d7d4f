"""What pyproject.toml says about the package, against what lies in the folders."""

import tomllib
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
SAMPLE = SOURCE / "services" / "practice" / "sample"
PROJECT = tomllib.loads((SOURCE / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_folder_with_python_modules_is_a_package_and_no_other() -> None:
    """A folder that is left out would be missing from the wheel, and only there."""
    tops = PROJECT["tool"]["setuptools"]["package-dir"]
    modules = [
        (name, module.parent.relative_to(SOURCE / folder))
        for name, folder in tops.items()
        for module in (SOURCE / folder).rglob("*.py")
        if not module.is_relative_to(SAMPLE)
    ]
    packages = {".".join((name, *folder.parts)) for name, folder in modules}
    assert sorted(PROJECT["tool"]["setuptools"]["packages"]) == sorted(packages)


def test_constraints_pin_versions_and_name_no_place() -> None:
    """Whoever installs chooses where from."""
    lines = (SOURCE / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.count("==") != 1 or "/" in line or "@" in line or line.startswith("-")] == []
