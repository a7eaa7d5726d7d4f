"""Reads the sources of settings, checks each whole, and lays them over one another."""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from taskyard.services.config.sections import CheckDefaults, Settings, fields_of, sections
from taskyard.services.config.values import Kind, Text
from taskyard.services.errors import ConfigError
from taskyard.services.records import Check

_FILE = "taskyard.toml"
_PROJECT = "pyproject.toml"
_PREFIX = "TASKYARD_"
_NOT_SETTINGS = ("TASKYARD_STATE", "TASKYARD_FAULT")
_CHECK_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_TASK_CHECK_PREFIX = "verify-"
# Screen and tmux take these for themselves; alt is not sent by every terminal.
_NEVER_BOUND = re.compile(r"alt\+.*|ctrl\+[abijmsz]")

_SECTIONS = dict(sections())
_FIELDS = {name: fields_of(section) for name, section in _SECTIONS.items() if section is not None}
_CHECK_FIELDS = fields_of(CheckDefaults)

Values = dict[str, dict[str, Any]]
"""section → key → value, typed; a check is a dictionary of the fields that were given."""


def load(top: Path, environ: Mapping[str, str], flags: Mapping[str, object]) -> Settings:
    """The settings of the repository at `top`.

    flags: what the command line gave, by dotted name, typed or as text: {"run.lane": "live"}; None means not given.
    Raises ConfigError for an unknown setting, a bad value or a file that can't be read, in any source.
    """
    merged: Values = {name: {} for name in _SECTIONS}
    project = _toml(top / _PROJECT).get("tool", {})
    own = project.get("taskyard", {}) if isinstance(project, dict) else {}
    for layer in (_from_table(own, f"{_PROJECT} [tool.taskyard]"), _from_table(_toml(top / _FILE), _FILE)):
        _lay_over(merged, layer)
    _lay_over(merged, _from_environment(environ, tuple(merged["checks"]), tuple(merged["keys"])))
    _lay_over(merged, _from_flags(flags))
    return _settings(merged)


def _lay_over(merged: Values, layer: Values) -> None:
    for section, values in layer.items():
        merged[section].update(values)


def _settings(merged: Values) -> Settings:
    built: dict[str, Any] = {
        name: section(**merged[name]) for name, section in _SECTIONS.items() if section is not None
    }
    defaults = built["check_defaults"]
    checks = tuple(
        Check(
            name=name,
            command=given["command"],
            timeout_s=given.get("timeout_s", defaults.timeout_s),
            network=given.get("network", defaults.network),
        )
        for name, given in merged["checks"].items()
    )
    return Settings(checks=checks, keys=merged["keys"], **built)


def _toml(path: Path) -> dict[str, Any]:
    """The file's tables; none when there is no such file.

    A pyproject.toml that is no TOML is an error too: whether it holds settings can't be known.
    """
    purpose = "" if path.name == _FILE else " (taskyard looks there for [tool.taskyard])"
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path.name} is not valid TOML{purpose}: {error}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError(f"{path.name} line {line} is not UTF-8{purpose}; save it as UTF-8") from error
    except OSError as error:
        raise ConfigError(f"can't read {path.name}{purpose}: {error.strerror}") from error


def _from_table(table: object, where: str) -> Values:
    if not isinstance(table, dict):
        raise ConfigError(f"{where}: {_shown(table)} is not allowed; it must be a table of sections")
    values: Values = {}
    for section, content in table.items():
        if section not in _SECTIONS:
            raise ConfigError(f"{where}: unknown section [{section}]; {_hint(section, _names(section, content))}")
        if not isinstance(content, dict):
            raise ConfigError(f"{where}: {section} = {_shown(content)} is not allowed; [{section}] is a section")
        values[section] = {key: _value(section, key, given, where, text=False) for key, given in content.items()}
    return values


def _names(section: str, content: object) -> Iterable[str]:
    """What an unknown name at the top could have meant: a section, or a setting whose section was left out."""
    if isinstance(content, dict):
        return _SECTIONS
    return [f"{name}.{section}" for name, fields in _FIELDS.items() if section in fields] or _SECTIONS


def _value(section: str, key: str, given: object, where: str, *, text: bool) -> object:
    """The typed value of one setting. text: the source knows text only."""
    if section == "checks":
        return _check(key, given, where)
    if section == "keys":
        return _key(key, given, where)
    fields = _FIELDS[section]
    if key not in fields:
        raise ConfigError(f"{where}: unknown setting {section}.{key}; {_hint(key, fields, within=section)}")
    return _read(fields[key].kind, given, f"{section}.{key}", where, text=text)


def _read(kind: Kind, given: object, name: str, where: str, *, text: bool = False) -> object:
    try:
        return kind.from_text(given) if text and isinstance(given, str) else kind.read(given)
    except ValueError:
        raise ConfigError(f"{where}: {name} = {_shown(given)} is not allowed; it must be {kind.allowed}") from None


def _check(name: str, given: object, where: str) -> dict[str, object]:
    if not _CHECK_NAME.fullmatch(name) or name.startswith(_TASK_CHECK_PREFIX):
        raise ConfigError(
            f"{where}: a check can't be named {_shown(name)}; allowed are 1 to 64 letters, digits, dots, hyphens and "
            f'underscores, not beginning with "{_TASK_CHECK_PREFIX}" (a task\'s own checks are named so)'
        )
    label = f"checks.{name}"
    if not isinstance(given, dict):
        return {"command": _read(_COMMAND, given, label, where)}
    for key in given:
        if key != "command" and key not in _CHECK_FIELDS:
            hint = _hint(key, ("command", *_CHECK_FIELDS), within=label)
            raise ConfigError(f"{where}: unknown setting {label}.{key}; {hint}")
    if "command" not in given:
        raise ConfigError(f'{where}: {label} has no command; write {name} = {{ command = "…" }}')
    return {
        key: _read(_COMMAND if key == "command" else _CHECK_FIELDS[key].kind, item, f"{label}.{key}", where)
        for key, item in given.items()
    }


_COMMAND = Text(form="a command that is not empty, or a table { command, timeout_s, network }")


def _key(command: str, given: object, where: str) -> object:
    key = _read(Text(), given, f"keys.{command}", where)
    if _NEVER_BOUND.fullmatch(str(key).lower()):
        raise ConfigError(f"{where}: keys.{command} = {_shown(key)} is not allowed; terminals keep this key")
    return key


def _from_environment(environ: Mapping[str, str], checks: Iterable[str], keys: Iterable[str]) -> Values:
    """The settings of TASKYARD_… variables. Checks and keys are matched to known names, else written small."""
    known = {_variable(section, key): (section, key) for section, fields in _FIELDS.items() for key in fields}
    known |= {_variable("checks", name): ("checks", name) for name in checks}
    known |= {_variable("keys", name): ("keys", name) for name in keys}
    values: Values = {}
    for variable in sorted(environ):
        if not variable.startswith(_PREFIX) or variable in _NOT_SETTINGS:
            continue
        section, key = known.get(variable) or _open_setting(variable) or ("", "")
        if not section:
            raise ConfigError(f"environment: unknown setting {variable}; {_hint(variable, (*known, *_NOT_SETTINGS))}")
        where = f"environment {variable}"
        values.setdefault(section, {})[key] = _value(section, key, environ[variable], where, text=True)
    return values


def _variable(section: str, key: str) -> str:
    return _PREFIX + re.sub(r"[^A-Z0-9]", "_", f"{section}_{key}".upper())


def _open_setting(variable: str) -> tuple[str, str] | None:
    for section in ("checks", "keys"):
        prefix = _variable(section, "")
        if variable.startswith(prefix) and variable != prefix:
            return section, variable.removeprefix(prefix).lower()
    return None


def _from_flags(flags: Mapping[str, object]) -> Values:
    values: Values = {}
    for name, given in flags.items():
        if given is None:
            continue
        section, _, key = name.partition(".")
        if section not in _SECTIONS or not key:
            every = [f"{known}.{field}" for known, fields in _FIELDS.items() for field in fields]
            raise ConfigError(f"command line: unknown setting {name}; {_hint(name, every)}")
        values.setdefault(section, {})[key] = _value(section, key, given, "command line", text=True)
    return values


def _hint(name: str, known: Iterable[str], within: str = "") -> str:
    """The known name nearest to `name`, or those there are; `within` is the section that they are shown with."""
    candidates = list(known)
    prefix = f"{within}." if within else ""
    endings = [candidate for candidate in candidates if candidate.endswith(f".{name}")]
    near = endings or difflib.get_close_matches(name, candidates, n=1, cutoff=0.6)
    if near:
        return f"did you mean {prefix}{near[0]}?"
    if len(candidates) < 20:
        return "known are: " + ", ".join(prefix + candidate for candidate in candidates)
    return "`taskyard init` writes a taskyard.toml that lists all settings"


def _shown(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 80 else text[:77] + "…"
