"""Tasks beyond the board's nine: real small changes, each in files of its own, as many as 991.

    variation(1)                 # the first: its scope, its check, the files that the base needs for it
    order(read(body))            # how the model does it, read from the task's text alone

There are five kinds: a new conversion between two units, one whose factor is the wrong way round, one that lacks
the way back, digits in another base, and a percentile. Text and order are made from the same parameters.
"""

import re
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import msgspec

from taskyard.services.practice import units, variation_texts
from taskyard.services.practice.changes import Change, Target, append, swap, write
from taskyard.services.practice.orders import Order, Plan
from taskyard.services.practice.reading import Prompt

_STRIDE = 389
"""Shares no factor with the number of pairs of units, so that steps of it meet every pair once, in a mixed order."""
_BASES = range(2, 37)
_PERCENTILES = range(1, 100)
_CODE = re.compile(r"`(sundry/(?:units|bases|stats)/(\w+)\.py)`")


class Variation(msgspec.Struct, frozen=True, kw_only=True):
    """One task, as it stands on the board and as it is done."""

    title: str
    """The first sentence of the scope; tells the kind."""
    body: str
    path: str
    """The module that the task is about."""
    base: str
    """The module's text before the task; empty when the task makes it."""
    change: Change
    test: str
    """The text of the new test file."""
    steps: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2].removesuffix(".py")

    @property
    def test_path(self) -> str:
        return f"tests/test_{self.name}.py"

    @property
    def scope(self) -> str:
        return f"{self.title} {self.body}"

    @property
    def check(self) -> str:
        return f"python3 -m unittest -q tests.test_{self.name}"


def most() -> int:
    """How many variations there are."""
    return len(_all())


def variation(number: int) -> Variation:
    """The variation with this number, from 1 to `most()`; always the same."""
    kind, parameter = _all()[number - 1]
    return _KINDS[kind](parameter)


def order(prompt: Prompt) -> Order | None:
    """The order for a task whose text is a variation's; None for another task."""
    named = _CODE.search(prompt.text)
    if named is None:
        return None
    candidates = (_KINDS[kind](named[2]) for kind in _KINDS if _fits(kind, named[2]))
    found = next((each for each in candidates if prompt.text.startswith(each.title)), None)
    if found is None:
        return None
    return Order(
        plan=Plan(found.body.partition(". ")[0].rstrip(".") + ".", found.steps),
        targets=(
            Target(found.path, found.change, new=not found.base),
            Target(found.test_path, write(found.test), new=True),
        ),
        remark="Let me see what is there." if found.base else "This is a new module.",
        summary=f"{found.title} Its tests stand in `{found.test_path}`.",
    )


@cache
def _all() -> tuple[tuple[str, str], ...]:
    """(kind, module name) of every variation: three kinds of conversions, with one of the others after each six."""
    pairs = units.pairs()
    mixed = [pairs[number * _STRIDE % len(pairs)] for number in range(len(pairs))]
    kinds = ("new", "upside_down", "way_back")
    conversions = [(kinds[number % 3], f"{a}_to_{b}") for number, (a, b) in enumerate(mixed)]
    others = [("base", f"base_{base}") for base in _BASES] + [("percentile", f"percentile_{p}") for p in _PERCENTILES]
    others = [others[number * 37 % len(others)] for number in range(len(others))]
    result: list[tuple[str, str]] = []
    for number, conversion in enumerate(conversions):
        result.append(conversion)
        if number % 6 == 5 and number // 6 < len(others):
            result.append(others[number // 6])
    return tuple(result)


def _fits(kind: str, name: str) -> bool:
    if kind in ("new", "upside_down", "way_back"):
        source, to, goal = name.partition("_to_")
        return bool(to) and units.factor(source, goal) is not None
    return re.fullmatch(rf"{kind}_[0-9]+", name) is not None


def _conversion(name: str) -> tuple[str, str, Fraction]:
    source, _, goal = name.partition("_to_")
    return source, goal, units.factor(source, goal) or Fraction(1)


def _words(unit: str) -> str:
    return unit.replace("_", " ")


def _new(name: str) -> Variation:
    source, goal, factor = _conversion(name)
    a, b = _words(source), _words(goal)
    return Variation(
        title=f"Convert {a} to {b}.",
        body=f"Add `sundry/units/{name}.py` with `{name}(value)`; one {a} is exactly {_shown(factor)} {b}.",
        path=f"sundry/units/{name}.py",
        base="",
        change=write(variation_texts.conversion(name, a, b, factor)),
        test=variation_texts.conversion_test(name, name, factor),
        steps=(f"Write `{name}` with the exact factor.", "Test nothing, one, and many."),
    )


def _upside_down(name: str) -> Variation:
    source, goal, factor = _conversion(name)
    a, b = _words(source), _words(goal)
    wrong = variation_texts.conversion(name, a, b, 1 / factor)
    return Variation(
        title=f"From {a} to {b} the factor is upside down.",
        body=f"`{name}` in `sundry/units/{name}.py` has it the wrong way round: one {a} is {_shown(factor)} {b}.",
        path=f"sundry/units/{name}.py",
        base=wrong,
        change=swap((variation_texts.factor_line(1 / factor), variation_texts.factor_line(factor))),
        test=variation_texts.conversion_test(name, name, factor),
        steps=("Turn the factor round.", "Test nothing, one, and many."),
    )


def _way_back(name: str) -> Variation:
    source, goal, factor = _conversion(name)
    a, b = _words(source), _words(goal)
    back = f"{goal}_to_{source}"
    return Variation(
        title=f"The way back from {b} to {a}.",
        body=f"`sundry/units/{name}.py` converts {a} to {b} only. Add `{back}(value)` to it, with a test of both ways.",
        path=f"sundry/units/{name}.py",
        base=variation_texts.conversion(name, a, b, factor),
        change=append(variation_texts.way_back(back, a, b)),
        test=variation_texts.round_trip_test(name, back, factor),
        steps=(f"Add `{back}`, which divides by the same factor.", "Test that both ways undo each other."),
    )


def _base(name: str) -> Variation:
    base = int(name.removeprefix("base_"))
    return Variation(
        title=f"Whole numbers in base {base}.",
        body=f"Add `sundry/bases/{name}.py` with `to_{name}(number)`; letters follow the 9, a minus stays in front.",
        path=f"sundry/bases/{name}.py",
        base="",
        change=write(variation_texts.digits(base)),
        test=variation_texts.digits_test(base),
        steps=("Take digits off with divmod.", "Test against int(text, base)."),
    )


def _percentile(name: str) -> Variation:
    percent = int(name.removeprefix("percentile_"))
    return Variation(
        title=f"Percentile {percent} of a list of values.",
        body=f"Add `sundry/stats/{name}.py` with `{name}(values)` by nearest rank; no values raise ValueError.",
        path=f"sundry/stats/{name}.py",
        base="",
        change=write(variation_texts.percentile(percent)),
        test=variation_texts.percentile_test(percent),
        steps=("Sort, and take the value at the nearest rank.", "Test a hundred values, one value, and none."),
    )


def _shown(factor: Fraction) -> str:
    return f"{factor.numerator:,}" if factor.denominator == 1 else f"{factor.numerator}/{factor.denominator}"


_KINDS: dict[str, Callable[[str], Variation]] = {
    "new": _new,
    "upside_down": _upside_down,
    "way_back": _way_back,
    "base": _base,
    "percentile": _percentile,
}
