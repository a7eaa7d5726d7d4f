import unittest

from sundry.durations import format_duration, parse_duration


class ParseDuration(unittest.TestCase):
    def test_one_unit(self):
        self.assertEqual(parse_duration("45s"), 45)
        self.assertEqual(parse_duration("2 h"), 7_200)

    def test_several_units_add_up(self):
        self.assertEqual(parse_duration("1d 2h 3m 4s"), 93_784)

    def test_fractions(self):
        self.assertEqual(parse_duration("1.5m"), 90)

    def test_other_text_is_no_duration(self):
        self.assertIsNone(parse_duration("soon"))
        self.assertIsNone(parse_duration(""))
        self.assertIsNone(parse_duration("5m or so"))


class FormatDuration(unittest.TestCase):
    def test_at_most_two_units(self):
        self.assertEqual(format_duration(93_784), "1d 2h")

    def test_units_of_zero_are_left_out(self):
        self.assertEqual(format_duration(3_605), "1h 5s")

    def test_nothing(self):
        self.assertEqual(format_duration(0), "0s")

    def test_negative(self):
        self.assertEqual(format_duration(-90), "-1m 30s")
