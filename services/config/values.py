"""The kinds of value that a setting may have: how each is read, what it allows, how it is written as TOML.

kind = OrNone(Duration(above=0))
kind.read("2 h")         # 7200.0
kind.read("none")        # None
kind.read("soon")        # ValueError; kind.allowed says what would do
kind.from_text("90")     # the same for the environment and the command line, where all is text
"""

import json
import math
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol, get_args

_DURATION_UNITS: Mapping[str, Decimal | int] = {
    "": 1,
    "ms": Decimal("0.001"),
    "s": 1,
    "min": 60,
    "m": 60,
    "h": 3600,
    "d": 86_400,
    "w": 604_800,
}
_SIZE_UNITS: Mapping[str, Decimal | int] = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
_QUANTITY = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)\s*")
_LARGEST_WHOLE = 10**9
_LARGEST_SIZE = 2**63 - 1


class Kind(Protocol):
    """A kind of value."""

    @property
    def allowed(self) -> str:
        """What is allowed, as the end of a sentence: "a whole number of at least 1"."""
        ...

    def read(self, given: object) -> object:
        """The value of a TOML value. Raises ValueError (without a message: `allowed` has it)."""
        ...

    def from_text(self, text: str) -> object:
        """The value of a text of the environment or the command line. Raises ValueError."""
        ...

    def toml(self, value: object) -> str:
        """The value as TOML source that reads back as the same value."""
        ...


@dataclass(frozen=True)
class Text:
    """A string; an empty one only when `empty`, one of a form only when `pattern` is given."""

    empty: bool = False
    pattern: str = ""
    form: str = ""

    @property
    def allowed(self) -> str:
        return self.form or ("a text" if self.empty else "a text that is not empty")

    def read(self, given: object) -> object:
        if not isinstance(given, str) or "\0" in given or not (given.strip() or self.empty):
            raise ValueError
        if self.pattern and not re.fullmatch(self.pattern, given):
            raise ValueError
        return given

    def from_text(self, text: str) -> object:
        return self.read(text)

    def toml(self, value: object) -> str:
        return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class OneOf:
    """One of the words of a Literal."""

    words: tuple[str, ...]

    @classmethod
    def of(cls, literal: object) -> "OneOf":
        return cls(get_args(literal))

    @property
    def allowed(self) -> str:
        return "one of " + ", ".join(f'"{word}"' for word in self.words)

    def read(self, given: object) -> object:
        if given not in self.words:
            raise ValueError
        return given

    def from_text(self, text: str) -> object:
        return self.read(text.strip())

    def toml(self, value: object) -> str:
        return json.dumps(value)


@dataclass(frozen=True)
class Switch:
    """True or false; as text also yes/no, on/off, 1/0."""

    allowed: str = "true or false"

    def read(self, given: object) -> object:
        if not isinstance(given, bool):
            raise ValueError
        return given

    def from_text(self, text: str) -> object:
        word = text.strip().lower()
        if word in ("true", "yes", "on", "1"):
            return True
        if word in ("false", "no", "off", "0"):
            return False
        raise ValueError

    def toml(self, value: object) -> str:
        return "true" if value else "false"


@dataclass(frozen=True)
class Whole:
    """A whole number in a closed range."""

    at_least: int = 1
    at_most: int = _LARGEST_WHOLE

    @property
    def allowed(self) -> str:
        if self.at_most == _LARGEST_WHOLE:
            return f"a whole number of at least {self.at_least}"
        return f"a whole number from {self.at_least} to {self.at_most}"

    def read(self, given: object) -> object:
        if not isinstance(given, int) or isinstance(given, bool) or not self.at_least <= given <= self.at_most:
            raise ValueError
        return given

    def from_text(self, text: str) -> object:
        return self.read(int(text))

    def toml(self, value: object) -> str:
        return str(value)


@dataclass(frozen=True)
class Real:
    """A finite number, read as float: at least `at_least`, or more than `above`, and at most `at_most`."""

    at_least: float = 0.0
    above: float | None = None
    at_most: float = math.inf

    @property
    def allowed(self) -> str:
        return f"a number {self._range}"

    @property
    def _range(self) -> str:
        low = f"of at least {self.at_least:g}" if self.above is None else f"greater than {self.above:g}"
        return low if math.isinf(self.at_most) else f"{low} and at most {self.at_most:g}"

    def read(self, given: object) -> object:
        if not isinstance(given, int | float) or isinstance(given, bool):
            raise ValueError
        return self._checked(float(given) if abs(given) < 1e300 else math.inf)

    def _checked(self, number: float) -> float:
        if not math.isfinite(number) or not self.at_least <= number <= self.at_most:
            raise ValueError
        if self.above is not None and number <= self.above:
            raise ValueError
        return number

    def from_text(self, text: str) -> object:
        return self.read(float(text))

    def toml(self, value: object) -> str:
        return repr(value)


@dataclass(frozen=True)
class Duration(Real):
    """Seconds as float, from a number or a text with a unit: "2 h", "30 d", "500 ms"."""

    @property
    def allowed(self) -> str:
        return f'seconds, or a text such as "30 s", "5 min", "2 h", "30 d", {self._range}'

    def read(self, given: object) -> object:
        if isinstance(given, str):
            return self._checked(float(_quantity(given, _DURATION_UNITS)))
        return super().read(given)

    def from_text(self, text: str) -> object:
        return self.read(text)

    def toml(self, value: object) -> str:
        assert isinstance(value, float)
        for unit, factor in (("d", 86_400), ("h", 3_600)):
            if value >= 2 * factor and value % factor == 0:
                return f'"{value / factor:g} {unit}"'
        return f"{value:g}" if value == int(value) and value < 1e6 else repr(value)


@dataclass(frozen=True)
class Size:
    """Bytes as int, from a whole number or a text with a unit: "2 GB" (10^9), "512 MiB" (2^20)."""

    allowed: str = 'bytes greater than 0, or a text such as "100 MB", "2 GB"'

    def read(self, given: object) -> object:
        if isinstance(given, str):
            given = int(_quantity(given, _SIZE_UNITS))
        if not isinstance(given, int) or isinstance(given, bool) or not 0 < given <= _LARGEST_SIZE:
            raise ValueError
        return given

    def from_text(self, text: str) -> object:
        return self.read(text)

    def toml(self, value: object) -> str:
        assert isinstance(value, int)
        for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
            if value % factor == 0:
                return f'"{value // factor} {unit}"'
        return str(value)


@dataclass(frozen=True)
class Texts:
    """A list of texts, as a tuple; as text separated by commas, or a TOML list."""

    allowed: str = "a list of texts that are not empty"

    def read(self, given: object) -> object:
        if not isinstance(given, list | tuple):
            raise ValueError
        return tuple(Text().read(item) for item in given)

    def from_text(self, text: str) -> object:
        if text.lstrip().startswith("["):
            return self.read(tomllib.loads(f"list = {text}")["list"])
        return tuple(item.strip() for item in text.split(",") if item.strip())

    def toml(self, value: object) -> str:
        assert isinstance(value, tuple)
        return "[" + ", ".join(Text().toml(item) for item in value) + "]"


@dataclass(frozen=True)
class Or:
    """Another kind, or a word that stands for a value of its own."""

    word: str
    means: object
    kind: Kind

    @property
    def allowed(self) -> str:
        return f'{self.kind.allowed}, or "{self.word}"'

    def read(self, given: object) -> object:
        return self.means if given == self.word else self.kind.read(given)

    def from_text(self, text: str) -> object:
        return self.means if text.strip() == self.word else self.kind.from_text(text)

    def toml(self, value: object) -> str:
        return json.dumps(self.word) if value == self.means else self.kind.toml(value)


def or_none(kind: Kind) -> Or:
    """The kind, or "none": no limit, never, nowhere."""
    return Or("none", None, kind)


def _quantity(text: str, units: Mapping[str, Decimal | int]) -> Decimal:
    found = _QUANTITY.fullmatch(text)
    if found is None or found[2].lower() not in units:
        raise ValueError
    return Decimal(found[1]) * units[found[2].lower()]
