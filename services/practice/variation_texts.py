"""The code and the tests of the variations, made from their parameters."""

import math
from fractions import Fraction


def factor_line(factor: Fraction) -> str:
    """The line that defines a conversion's factor."""
    return f"FACTOR = {factor.numerator}" + (f" / {factor.denominator}" if factor.denominator > 1 else "")


def conversion(name: str, source: str, goal: str, factor: Fraction) -> str:
    """A module with one conversion."""
    return f'''\
"""From {source} to {goal}."""

{factor_line(factor)}


def {name}(value: float) -> float:
    """`value` in {source} as {goal}."""
    return value * FACTOR
'''


def way_back(name: str, source: str, goal: str) -> str:
    """The function that undoes a conversion."""
    return f'''

def {name}(value: float) -> float:
    """`value` in {goal} as {source}."""
    return value / FACTOR
'''


def conversion_test(module: str, name: str, factor: Fraction) -> str:
    """Tests of one conversion by its exact factor."""
    one, many = float(factor), float(250 * factor)
    return f"""\
import math
import unittest

from sundry.units.{module} import {name}


class Conversion(unittest.TestCase):
    def test_nothing_is_nothing(self):
        self.assertEqual({name}(0), 0)

    def test_one_and_many(self):
        self.assertTrue(math.isclose({name}(1), {one!r}, rel_tol=1e-12))
        self.assertTrue(math.isclose({name}(250), {many!r}, rel_tol=1e-12))
"""


def round_trip_test(name: str, back: str, factor: Fraction) -> str:
    """Tests of both ways of a conversion."""
    return f"""\
import math
import unittest

from sundry.units.{name} import {back}, {name}


class BothWays(unittest.TestCase):
    def test_the_way_back(self):
        self.assertTrue(math.isclose({back}({float(factor)!r}), 1, rel_tol=1e-12))

    def test_each_undoes_the_other(self):
        for value in (0, 1, 2.5, 1000):
            self.assertTrue(math.isclose({back}({name}(value)), value, rel_tol=1e-12))
"""


def digits(base: int) -> str:
    """A module that writes whole numbers in one base."""
    return f'''\
"""Whole numbers in base {base}."""

import string

_DIGITS = (string.digits + string.ascii_lowercase)[:{base}]


def to_base_{base}(number: int) -> str:
    """The digits of `number`, with a minus in front of a negative one."""
    if number < 0:
        return "-" + to_base_{base}(-number)
    higher, last = divmod(number, {base})
    return (to_base_{base}(higher) if higher else "") + _DIGITS[last]
'''


def digits_test(base: int) -> str:
    """Tests of one base against Python's own reading of numbers."""
    return f"""\
import unittest

from sundry.bases.base_{base} import to_base_{base}


class Base{base}(unittest.TestCase):
    def test_reads_back_as_the_same_number(self):
        for number in (0, 1, {base - 1}, {base}, 12_345, -678):
            self.assertEqual(int(to_base_{base}(number), {base}), number)

    def test_the_base_itself_is_one_zero(self):
        self.assertEqual(to_base_{base}({base}), "10")
"""


def percentile(percent: int) -> str:
    """A module with one percentile by nearest rank: the value at position ceil(p/100 * n)."""
    return f'''\
"""Percentile {percent}, by nearest rank."""

import math
from collections.abc import Iterable


def percentile_{percent}(values: Iterable[float]) -> float:
    """The smallest value that at least {percent} % of `values` do not exceed; raises ValueError without values."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("a percentile needs at least one value")
    return ordered[math.ceil({percent} * len(ordered) / 100) - 1]
'''


def percentile_test(percent: int) -> str:
    """Tests of one percentile."""
    of_seven = math.ceil(percent * 7 / 100)
    return f"""\
import unittest

from sundry.stats.percentile_{percent} import percentile_{percent}


class Percentile{percent}(unittest.TestCase):
    def test_of_a_hundred_values(self):
        self.assertEqual(percentile_{percent}(range(100, 0, -1)), {percent})

    def test_of_few_values(self):
        self.assertEqual(percentile_{percent}([7, 6, 5, 4, 3, 2, 1]), {of_seven})
        self.assertEqual(percentile_{percent}([42]), 42)

    def test_of_none(self):
        with self.assertRaises(ValueError):
            percentile_{percent}([])
"""
