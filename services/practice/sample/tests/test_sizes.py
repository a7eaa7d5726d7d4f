import unittest

from sundry.sizes import format_size, parse_size


class FormatSize(unittest.TestCase):
    def test_bytes_have_no_decimals(self):
        self.assertEqual(format_size(0), "0 B")
        self.assertEqual(format_size(512), "512 B")

    def test_one_decimal_from_a_kibibyte_on(self):
        self.assertEqual(format_size(1_536), "1.5 KiB")
        self.assertEqual(format_size(5 * 1024**3), "5.0 GiB")

    def test_a_unit_lasts_until_1024_of_it(self):
        self.assertEqual(format_size(1_010 * 1024), "1010.0 KiB", "the units are binary: 1010 KiB is not yet a MiB")

    def test_the_last_unit_goes_on(self):
        self.assertEqual(format_size(5_000 * 1024**4), "5000.0 TiB")


class ParseSize(unittest.TestCase):
    def test_plain_bytes(self):
        self.assertEqual(parse_size("123"), 123)
        self.assertEqual(parse_size("123 B"), 123)

    def test_decimal_and_binary_units(self):
        self.assertEqual(parse_size("2 MB"), 2_000_000)
        self.assertEqual(parse_size("2MiB"), 2 * 1024**2)

    def test_other_text_is_refused(self):
        with self.assertRaisesRegex(ValueError, "not a size: 'big'"):
            parse_size("big")
