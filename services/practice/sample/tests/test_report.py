import unittest

from sundry.report import Summary, summarise


class Summarise(unittest.TestCase):
    def test_only_columns_of_numbers(self):
        lines = ["city,visits,share", "Bergen,3,0.5", "Oslo,5,0.25"]
        self.assertEqual(summarise(lines), [Summary("visits", 2, 8.0), Summary("share", 2, 0.75)])

    def test_empty_cells_do_not_count(self):
        (summary,) = summarise(["n", "4", "", "8"])
        self.assertEqual((summary.count, summary.mean), (2, 6.0))

    def test_nothing_in_nothing_out(self):
        self.assertEqual(summarise([]), [])
        self.assertEqual(summarise(["a,b"]), [])
