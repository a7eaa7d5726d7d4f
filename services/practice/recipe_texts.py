"""The texts that the practice model's recipes put into files: new tests, and the longer pieces of code and prose."""

DURATION_TEST = """\
import unittest

from sundry.durations import format_duration


class Carry(unittest.TestCase):
    def test_seconds_carry_into_minutes_and_hours(self):
        self.assertEqual(format_duration(59.6), "1m")
        self.assertEqual(format_duration(3_599.7), "1h")

    def test_below_the_half_nothing_is_carried(self):
        self.assertEqual(format_duration(59.4), "59s")
        self.assertEqual(format_duration(0.4), "0s")

    def test_negative_durations_carry_too(self):
        self.assertEqual(format_duration(-59.6), "-1m")
"""

SIZE_TEST = """\
import unittest

from sundry.sizes import format_size


class Limits(unittest.TestCase):
    def test_one_byte_less_than_a_unit_reads_as_that_unit(self):
        self.assertEqual(format_size(1024**2 - 1), "1.0 MiB")
        self.assertEqual(format_size(1024**3 - 1), "1.0 GiB")
        self.assertEqual(format_size(1024**4 - 1), "1.0 TiB")
"""

SIZE_TEST_BETTER = (
    SIZE_TEST
    + """
    def test_the_unit_changes_no_earlier(self):
        self.assertEqual(format_size(1023), "1023 B")
        self.assertEqual(format_size(1023 * 1024), "1023.0 KiB")
"""
)

ACCENT_TEST = """\
import unittest

from sundry.slugs import slugify, unique_slug


class Accents(unittest.TestCase):
    def test_letters_lose_their_accents(self):
        self.assertEqual(slugify("Crème brûlée"), "creme-brulee")
        self.assertEqual(slugify("Año nuevo"), "ano-nuevo")

    def test_both_ways_to_write_an_accent_give_the_same(self):
        self.assertEqual(slugify("cafe\\u0301"), slugify("caf\\u00e9"))

    def test_plain_text_is_as_before(self):
        self.assertEqual(slugify("Opening hours, winter"), "opening-hours-winter")
        self.assertEqual(unique_slug("Café", {"cafe"}), "cafe-2")
"""

LIMIT_TEST = """\
import unittest

from sundry.slugs import slugify


class Limit(unittest.TestCase):
    def test_ends_at_a_whole_word(self):
        self.assertEqual(slugify("Opening hours, winter", limit=19), "opening-hours")
        self.assertEqual(slugify("Opening hours, winter", limit=20), "opening-hours-winter")

    def test_a_long_first_word_is_cut(self):
        self.assertEqual(slugify("Incomprehensibilities", limit=6), "incomp")

    def test_works_with_another_separator(self):
        self.assertEqual(slugify("a b c", "--", limit=5), "a--b")

    def test_without_a_limit_nothing_changes(self):
        self.assertEqual(slugify("Opening hours, winter"), "opening-hours-winter")
"""

_PRINTED = """\
def printed(*arguments):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main(arguments)
    return code, out.getvalue()
"""

CLI_SLUG_TEST = f"""\
import contextlib
import io
import unittest

from sundry.cli import main


{_PRINTED}

class SlugCommand(unittest.TestCase):
    def test_a_slug_for_each_argument(self):
        self.assertEqual(printed("slug", "Opening hours", "News!"), (0, "opening-hours\\nnews\\n"))

    def test_no_argument_prints_nothing(self):
        self.assertEqual(printed("slug"), (0, ""))
"""

CLI_TABLE_TEST = f"""\
import contextlib
import io
import unittest
from pathlib import Path

from sundry.cli import main

CAFES = Path(__file__).parent.parent / "examples" / "cafes.csv"


{_PRINTED}

class TableCommand(unittest.TestCase):
    def test_a_file_as_a_table(self):
        code, out = printed("table", str(CAFES))
        self.assertEqual(code, 0)
        lines = out.splitlines()
        self.assertEqual(lines[0], "cafe       city    seats  rating")
        self.assertEqual(lines[2], "Blom       Bergen     24     4.5")
        self.assertEqual(len(lines), 6)
"""

NUMBER_TEST = """\
import unittest

from sundry.numbers import is_number
from sundry.report import summarise
from sundry.tables import render_table


class IsNumber(unittest.TestCase):
    def test_numbers(self):
        self.assertTrue(all(is_number(text) for text in ["0", "-3", "2.5", " 7 ", "1e3"]))

    def test_other_text(self):
        self.assertFalse(any(is_number(text) for text in ["", "three", "1,5", "2 m"]))

    def test_tables_and_summaries_agree(self):
        self.assertEqual(render_table(["n"], [["1,5"], ["2"]]), "n\\n---\\n1,5\\n2")
        self.assertEqual(summarise(["n", '"1,5"', "2"]), [])
"""

IS_NUMBER = '''

def is_number(text: str) -> bool:
    """Whether `text` reads as a number.

    >>> is_number("2.5"), is_number("2,5")
    (True, False)
    """
    try:
        float(text)
    except ValueError:
        return False
    return True
'''

README_PARTS = """\
## Sizes

    >>> from sundry import format_size, parse_size
    >>> format_size(1536)
    '1.5 KiB'
    >>> parse_size("10 kB")
    10000

## Tables

    >>> from sundry import render_table
    >>> print(render_table(["cafe", "seats"], [["Blom", "24"], ["Nordlys", "8"]]))
    cafe     seats
    -------  -----
    Blom        24
    Nordlys      8

"""
