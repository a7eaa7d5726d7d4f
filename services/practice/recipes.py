"""How the practice model does the tasks of the sample project's board. A task is told by how its text begins.

    order(read(body))        # the Order, or None when the task is not one of the board's

One task is there to show what lessons are for (`LESSON_TASK`): the obvious change makes its own check green and
breaks an older test. The better change is made only when a lesson block in the prompt states that failure; the failed
check's output among what was tried before leads to another change that fails in the same way.
"""

from collections.abc import Callable

from taskyard.services.practice import recipe_texts
from taskyard.services.practice.changes import Target, one_after_another, swap, write
from taskyard.services.practice.orders import Order, Plan
from taskyard.services.practice.reading import Prompt
from taskyard.services.practice.recipes_upkeep import UPKEEP

LESSON_TASK = "SD-2"
LESSON_MARKS = ("1010.0 KiB", "1010 KiB", "test_a_unit_lasts_until_1024_of_it", "the units are binary")
"""A lesson that holds one of these states the failure: they stand in the failed test's output and nowhere else."""


def _duration_carry(_: Prompt) -> Order:
    return Order(
        plan=Plan(
            "Round the whole duration once, before it is split, so that no unit can reach the size of the next.",
            (
                "In `format_duration`, round to whole seconds first.",
                "Split the rounded seconds with divmod.",
                "Add tests for 59.6 s and 3599.7 s, and for a negative duration.",
            ),
            ("Half seconds follow Python's rounding to even; nothing depends on it today.",),
        ),
        targets=(
            Target(
                "sundry/durations.py",
                swap(
                    ("    rest = seconds\n", "    rest = round(seconds)\n"),
                    (
                        '        count = round(rest) if unit == "s" else int(rest // size)\n'
                        "        rest -= count * size\n",
                        "        count, rest = divmod(rest, size)\n",
                    ),
                ),
            ),
            Target("tests/test_duration_carry.py", write(recipe_texts.DURATION_TEST), new=True),
        ),
        remark="The rounding seems to happen too late; let me look at the function.",
        summary="`format_duration` rounds to whole seconds before it splits them into units.",
    )


def _size_limits(prompt: Prompt) -> Order:
    knows = any(mark in lesson for lesson in prompt.lessons for mark in LESSON_MARKS)
    if knows:
        condition, said = "round(value, 1) < 1024", "what is shown reaches 1024; a unit lasts until 1024 of it"
    elif prompt.tried:
        condition, said = "round(value) < 1000", "its rounded value has four digits"
    else:
        condition, said = "value < 999.95", "it would be shown with four digits"
    test = recipe_texts.SIZE_TEST_BETTER if knows else recipe_texts.SIZE_TEST
    return Order(
        plan=Plan(
            f"Go on to the next unit when {said}.",
            (
                "Change the condition in the loop of `format_size`.",
                "Add a test for one byte less than each unit.",
            ),
            ("Sizes between 1000 and 1024 of a unit have to stay in that unit.",) if knows else (),
        ),
        targets=(
            Target("sundry/sizes.py", swap(("if value < 1024 or", f"if {condition} or"))),
            Target("tests/test_size_limits.py", write(test), new=True),
        ),
        remark=(
            "The lesson says where the limit is: at 1024 of what is shown. Let me see the loop."
            if knows
            else "Let me see how the unit is chosen."
        ),
        summary=f"`format_size` goes on to the next unit when {said}.",
        check_all=knows,
    )


def _slug_accents(_: Prompt) -> Order:
    return Order(
        plan=Plan(
            "Decompose the text (NFKD) and drop the combining marks before it is split into words.",
            (
                "Import unicodedata in `slugs.py`.",
                "Split the plain letters in place of the text.",
                "Add tests for accented and for plain text.",
            ),
            ("Letters that do not decompose, such as ø, still separate words.",),
        ),
        targets=(
            Target(
                "sundry/slugs.py",
                one_after_another(
                    swap(
                        ("import re\nfrom", "import re\nimport unicodedata\nfrom"),
                        (
                            "    words = _NOT_A_WORD.split(text.lower())\n",
                            '    letters = unicodedata.normalize("NFKD", text)\n'
                            '    plain = "".join(letter for letter in letters if not unicodedata.combining(letter))\n'
                            "    words = _NOT_A_WORD.split(plain.lower())\n",
                        ),
                    ),
                ),
            ),
            Target("tests/test_slug_accents.py", write(recipe_texts.ACCENT_TEST), new=True),
        ),
        summary="Accented letters give their plain letters in slugs.",
    )


def _slug_limit(_: Prompt) -> Order:
    return Order(
        plan=Plan(
            "Give `slugify` an optional limit and take whole words while they fit.",
            (
                "Add the keyword `limit`, None by default.",
                "Drop words from the end while the slug is too long; cut the first word when it alone is.",
                "Add tests for both, and for a separator of two characters.",
            ),
            ("`unique_slug` adds its number behind the slug, so it may go over a limit; it has none today.",),
        ),
        targets=(
            Target(
                "sundry/slugs.py",
                swap(
                    (
                        'def slugify(text: str, separator: str = "-") -> str:\n'
                        '    """The words of `text` in lower case, joined by `separator`.\n',
                        'def slugify(text: str, separator: str = "-", limit: int | None = None) -> str:\n'
                        '    """The words of `text` in lower case, joined by `separator`, up to `limit` characters.\n',
                    ),
                    (
                        "    return separator.join(word for word in words if word)\n",
                        "    kept = [word for word in words if word]\n"
                        "    if limit is not None:\n"
                        "        while len(kept) > 1 and len(separator.join(kept)) > limit:\n"
                        "            kept.pop()\n"
                        "    return separator.join(kept)[:limit]\n",
                    ),
                ),
            ),
            Target("tests/test_slug_limit.py", write(recipe_texts.LIMIT_TEST), new=True),
        ),
        summary="`slugify` takes a limit and ends at a whole word.",
    )


_BUGS: tuple[tuple[str, Callable[[Prompt], Order]], ...] = (
    ("`format_duration` carries seconds over.", _duration_carry),
    ("`format_size` never says 1024.0 of a unit.", _size_limits),
    ("`slugify` keeps the letters under accents.", _slug_accents),
    ("A limit for slugs.", _slug_limit),
)


def order(prompt: Prompt) -> Order | None:
    """The order for a task of the sample project's board; None for another task."""
    return next((make(prompt) for begin, make in (*_BUGS, *UPKEEP) if prompt.text.startswith(begin)), None)
