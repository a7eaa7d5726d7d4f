import unittest

from sundry.tables import render_table


class RenderTable(unittest.TestCase):
    def test_numbers_stand_at_the_right(self):
        self.assertEqual(
            render_table(["cafe", "seats"], [["Blom", "24"], ["Nordlys", "8"]]),
            "cafe     seats\n-------  -----\nBlom        24\nNordlys      8",
        )

    def test_a_table_without_rows(self):
        self.assertEqual(render_table(["a", "b"], []), "a  b\n-  -")

    def test_a_short_row_is_refused(self):
        with self.assertRaisesRegex(ValueError, "row 2 has 1 cells, the header has 2"):
            render_table(["a", "b"], [["1", "2"], ["3"]])
