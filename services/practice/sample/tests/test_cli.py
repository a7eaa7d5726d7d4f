import contextlib
import io
import unittest
from pathlib import Path

from sundry.cli import main

CAFES = Path(__file__).parent.parent / "examples" / "cafes.csv"


def run(*arguments):
    """(exit code, standard output, standard error)"""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return code, out.getvalue(), err.getvalue()


class CommandLine(unittest.TestCase):
    def test_durations_go_both_ways(self):
        self.assertEqual(run("duration", "1h 30m", "5400"), (0, "5400\n1h 30m\n", ""))

    def test_a_bad_duration_is_named(self):
        self.assertEqual(run("duration", "soon"), (2, "", "not a duration: 'soon'\n"))

    def test_sizes_go_both_ways(self):
        self.assertEqual(run("size", "2 KiB", "2048"), (0, "2048\n2.0 KiB\n", ""))

    def test_a_summary_of_a_file(self):
        code, out, _ = run("summary", str(CAFES))
        self.assertEqual(code, 0)
        self.assertIn("seats       4   144     36\n", out)

    def test_an_unknown_command_shows_the_usage(self):
        code, out, err = run("dance")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("usage: python3 -m sundry {duration,size,summary", err)
