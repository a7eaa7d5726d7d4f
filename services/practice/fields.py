"""Checks of single fields, each with the API's own wording: `path: what it should have been`."""

from collections.abc import Mapping, Sequence
from typing import Any

from taskyard.services.practice.wire import ApiError


def bad(path: str, message: str) -> ApiError:
    """The 400 for a field; `path` is empty for the body itself."""
    return ApiError(400, f"{path}: {message}" if path else message)


def record(value: object, path: str) -> Mapping[str, Any]:
    """The value as an object. Raises ApiError (400), as all of these do."""
    if not isinstance(value, dict):
        raise bad(path, "Input should be a valid dictionary")
    return value


def listed(value: object, path: str) -> list[Any]:
    """The value as a list."""
    if not isinstance(value, list):
        raise bad(path, "Input should be a valid list")
    return value


def string(value: object, path: str) -> str:
    """The value as a string."""
    if not isinstance(value, str):
        raise bad(path, "Input should be a valid string")
    return value


def integer(value: object, path: str, *, least: int) -> int:
    """The value as a whole number of at least `least`; `true` is none."""
    if type(value) is not int:
        raise bad(path, "Input should be a valid integer")
    if value < least:
        raise bad(path, f"Input should be greater than or equal to {least}")
    return value


def switch(value: object, path: str) -> None:
    """The value must be true or false."""
    if not isinstance(value, bool):
        raise bad(path, "Input should be a valid boolean")


def choice(value: object, path: str, options: Sequence[str]) -> str:
    """The value must be one of some strings."""
    if not isinstance(value, str) or value not in options:
        quoted = [f"'{option}'" for option in options]
        rest = ", ".join(quoted[:-1])
        raise bad(path, "Input should be " + (f"{rest} or {quoted[-1]}" if rest else quoted[-1]))
    return value


def known(fields: Mapping[str, Any], path: str, names: Sequence[str]) -> None:
    """No field but these."""
    for name in fields:
        if name not in names:
            raise bad(f"{path}.{name}" if path else name, "Extra inputs are not permitted")


def required(fields: Mapping[str, Any], path: str, names: Sequence[str]) -> None:
    """All of these fields."""
    for name in names:
        if name not in fields:
            raise bad(f"{path}.{name}" if path else name, "Field required")


def at_least_one(values: Sequence[Any], path: str) -> None:
    """A list that is not empty."""
    if not values:
        raise bad(path, "List should have at least 1 item after validation, not 0")
