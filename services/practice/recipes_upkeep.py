"""The practice model's recipes for the board's features and upkeep; `recipes` tells how they are found.

The two commands are added at one place of `cli.py`, so that the one that lands second conflicts with the first and
needs another attempt from the tip.
"""

from collections.abc import Callable

from taskyard.services.practice import recipe_texts
from taskyard.services.practice.changes import (
    Change,
    Target,
    append,
    cut_function,
    insert_before,
    one_after_another,
    swap,
    write,
)
from taskyard.services.practice.orders import Order, Plan
from taskyard.services.practice.reading import Prompt

CONFLICTING_TASKS = ("SD-6", "SD-7")


def _new_command(name: str, function: str) -> Change:
    """The function in front of the table of commands, and a line for it at the table's end."""
    return one_after_another(
        insert_before("COMMANDS = {", f"{function}\n\n"),
        insert_before("}", f'    "{name}": _{name},\n'),
    )


def _duration_errors(_: Prompt) -> Order:
    return Order(
        plan=Plan(
            "Raise ValueError with the text in it, and let the command line catch it.",
            (
                "Raise in `parse_duration` and say so in its docstring and its return type.",
                "Catch the error in the `duration` command; its message stays the same.",
                "Turn the old test of None into one of the error, as the board allows.",
            ),
            ("Callers outside this repository that look for None will see the error; the release notes say so.",),
        ),
        targets=(
            Target(
                "sundry/durations.py",
                swap(
                    ("def parse_duration(text: str) -> float | None:", "def parse_duration(text: str) -> float:"),
                    (
                        "stands for; None when it is not a duration.",
                        "stands for; raises ValueError when it is no duration.",
                    ),
                    ("        return None\n", '        raise ValueError(f"not a duration: {text!r}")\n'),
                ),
            ),
            Target(
                "sundry/cli.py",
                swap(
                    (
                        "        seconds = parse_duration(text)\n"
                        "        if seconds is None:\n"
                        '            print(f"not a duration: {text!r}", file=sys.stderr)\n'
                        "            return 2\n",
                        "        try:\n"
                        "            seconds = parse_duration(text)\n"
                        "        except ValueError as error:\n"
                        "            print(error, file=sys.stderr)\n"
                        "            return 2\n",
                    )
                ),
            ),
            Target(
                "tests/test_durations.py",
                swap(
                    *(
                        (
                            f'        self.assertIsNone(parse_duration("{text}"))\n',
                            f"        with self.assertRaisesRegex(ValueError, \"not a duration: '{text}'\"):\n"
                            f'            parse_duration("{text}")\n',
                        )
                        for text in ("soon", "")
                    ),
                    (
                        '        self.assertIsNone(parse_duration("5m or so"))',
                        "        with self.assertRaisesRegex(ValueError, \"not a duration: '5m or so'\"):\n"
                        '            parse_duration("5m or so")',
                    ),
                ),
            ),
        ),
        search=("parse_duration", "*.py"),
        remark="Let me see who calls it.",
        summary="`parse_duration` raises ValueError; the command line says what it said before.",
    )


def _slug_command(_: Prompt) -> Order:
    function = '''\
def _slug(arguments: Sequence[str]) -> int:
    """The slug of each argument."""
    for text in arguments:
        print(slugify(text))
    return 0
'''
    return Order(
        plan=Plan(
            "Add a function for the command and a line in the table of commands.",
            ("Import `slugify`.", "Write `_slug`.", "Enter it under `slug`.", "Test it through `main`."),
        ),
        targets=(
            Target(
                "sundry/cli.py",
                one_after_another(
                    insert_before("from sundry.tables", "from sundry.slugs import slugify\n"),
                    _new_command("slug", function),
                ),
            ),
            Target("tests/test_cli_slug.py", write(recipe_texts.CLI_SLUG_TEST), new=True),
        ),
        remark="Let me see how the other commands are made.",
        summary="`python3 -m sundry slug` prints a slug for each argument.",
    )


def _table_command(_: Prompt) -> Order:
    function = '''\
def _table(arguments: Sequence[str]) -> int:
    """Each CSV file as a table."""
    for name in arguments:
        with Path(name).open(encoding="utf-8", newline="") as lines:
            header, *rows = csv.reader(lines)
        print(render_table(header, rows))
    return 0
'''
    return Order(
        plan=Plan(
            "Add a function for the command and a line in the table of commands.",
            ("Import csv.", "Write `_table`.", "Enter it under `table`.", "Test it with the cafes of the examples."),
            ("An empty file has no header, and ends in an error.",),
        ),
        targets=(
            Target(
                "sundry/cli.py",
                one_after_another(
                    insert_before("import sys", "import csv\n"),
                    _new_command("table", function),
                ),
            ),
            Target("tests/test_cli_table.py", write(recipe_texts.CLI_TABLE_TEST), new=True),
        ),
        remark="Let me see how the other commands are made.",
        summary="`python3 -m sundry table` prints CSV files as tables.",
    )


def _readme(_: Prompt) -> Order:
    return Order(
        plan=Plan(
            "Add the two sections behind the slugs, with examples that doctest runs.",
            ("Write a section on sizes.", "Write a section on tables.", "Run doctest on the README."),
        ),
        targets=(Target("README.md", insert_before("## Tests", recipe_texts.README_PARTS)),),
        remark="Let me read the README and see how its examples look.",
        summary="The README shows sizes and tables.",
    )


def _one_is_number(_: Prompt) -> Order:
    return Order(
        plan=Plan(
            "Move the function to `numbers.py` and call it from both modules.",
            (
                "Add `is_number` to `numbers.py`.",
                "Take the private copies out of `tables.py` and `report.py` and import the new one.",
                "Test the function, and that tables and summaries agree.",
            ),
            ("Both copies must behave alike: they do, each asks float().",),
        ),
        targets=(
            Target("sundry/numbers.py", append(recipe_texts.IS_NUMBER)),
            Target(
                "sundry/tables.py",
                one_after_another(
                    cut_function("_is_number"),
                    swap(("_is_number(", "is_number(")),
                    swap(("import Sequence\n", "import Sequence\n\nfrom sundry.numbers import is_number\n")),
                ),
            ),
            Target(
                "sundry/report.py",
                one_after_another(
                    cut_function("_looks_like_a_number"),
                    swap(("_looks_like_a_number(", "is_number(")),
                    swap(("import dataclass\n", "import dataclass\n\nfrom sundry.numbers import is_number\n")),
                ),
            ),
            Target("tests/test_is_number.py", write(recipe_texts.NUMBER_TEST), new=True),
        ),
        search=("float\\(", "*.py"),
        remark="Let me find both copies.",
        summary="`is_number` stands in `numbers.py` alone; tables and summaries use it.",
    )


UPKEEP: tuple[tuple[str, Callable[[Prompt], Order]], ...] = (
    ("`parse_duration` raises ValueError", _duration_errors),
    ("A `slug` command.", _slug_command),
    ("A `table` command.", _table_command),
    ("README: sizes and tables.", _readme),
    ("One `is_number`.", _one_is_number),
)
