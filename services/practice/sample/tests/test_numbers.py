import unittest

from sundry.numbers import ordinal, percent, thousands


class Numbers(unittest.TestCase):
    def test_ordinals(self):
        given = [1, 2, 3, 4, 11, 12, 13, 21, 102, 113]
        self.assertEqual(
            [ordinal(number) for number in given],
            ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "113th"],
        )

    def test_thousands(self):
        self.assertEqual(thousands(999), "999")
        self.assertEqual(thousands(1_234_567, " "), "1 234 567")

    def test_percent(self):
        self.assertEqual(percent(1, 3), "33.3 %")
        self.assertEqual(percent(1, 0), "–")
