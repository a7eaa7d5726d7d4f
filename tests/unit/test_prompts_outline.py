"""The repository's outline: bounded, sorted, the same everywhere."""

import random

from hypothesis import given
from hypothesis import strategies as st

from taskyard.services.prompts import RepositoryView, repository_view
from taskyard.services.prompts.outline import CONVENTION_BYTES, MAP_BYTES


def view(files: dict[str, bytes]) -> RepositoryView:
    return repository_view([(path, len(content)) for path, content in files.items()], files.get)


def test_a_small_repository_is_shown_whole() -> None:
    """Tree first, then the definitions of its sources, tests last."""
    files = {
        "tests/test_main.py": b"def test_it():\n    pass\n",
        "app/main.py": b"import os\n\nclass Main(Base):\n    def run(self, x: int) -> None:\n        pass\n"
        b"    def _hidden(self): ...\n\nasync def go():\n    def inner(): ...\n"
        b"class _Own:\n    def x(self): ...\n",
        "README.md": b"# Hi\n",
        "lib/a.go": b"package a\nfunc Add(a int) int {\n}\n",
    }
    assert view(files).map == (
        "app/\n  main.py\nlib/\n  a.go\ntests/\n  test_main.py\nREADME.md\n"
        "\nMain definitions:\napp/main.py\n  class Main(Base)\n      def run(self, x: int) -> None\n  async def go()\n"
        "lib/a.go\n  func Add(a int) int\ntests/test_main.py\n  def test_it()\n"
    )


def test_the_order_in_which_files_are_listed_does_not_matter() -> None:
    """Same repository, same bytes."""
    files = {f"{folder}/f{n}.py": b"def f(): pass\n" for folder in "abcd" for n in range(30)}
    listed = list(files.items())
    expected = view(dict(listed))
    for seed in range(5):
        random.Random(seed).shuffle(listed)
        assert view(dict(listed)) == expected


def test_a_huge_repository_is_folded_into_the_bound() -> None:
    """10,000 files: folders that don't fit are counted, few files are read."""
    files = {
        f"pkg{a:02}/mod{b:02}/file{c:02}.py": b"def f(x):\n    pass\n" * 40
        for a in range(20)
        for b in range(20)
        for c in range(25)
    }
    read: list[str] = []

    def reading(path: str) -> bytes:
        read.append(path)
        return files[path]

    shown = repository_view([(path, len(content)) for path, content in files.items()], reading).map
    assert len(shown.encode()) <= MAP_BYTES
    assert "pkg19/" in shown and "(25 files)" in shown and "(28 more)" in shown
    assert len(read) == len(set(read)) <= 300


def test_sources_without_definitions_are_not_read_without_end() -> None:
    """The map never fills up, yet only some hundred files are looked at."""
    read: list[str] = []
    repository_view([(f"f{n:04}.py", 10) for n in range(1_000)], lambda path: read.append(path) or b"x = 1\n")
    assert read == [f"f{n:04}.py" for n in range(300)]


def test_a_folder_of_many_files_shows_some_and_counts_the_rest() -> None:
    """No single folder takes the room of all others."""
    shown = view({f"data/{n:04}.csv": b"" for n in range(500)} | {"app/x.txt": b""}).map
    assert "  0039.csv\n  (460 more)\n" in shown and "app/\n  x.txt\n" in shown


def test_conventions_are_heads_of_the_files_that_hold_them() -> None:
    """Bounded each, cut at a line, with a note; case does not matter."""
    long = "".join(f"rule {n}\n" for n in range(2000)).encode()
    text = view(
        {"agents.md": b"\xef\xbb\xbfBe kind.\r\nTest.\r\n", "CONTRIBUTING.md": long, "docs/x.md": b"no"}
    ).conventions
    assert text.startswith("From agents.md:\n\nBe kind.\nTest.\n\nFrom CONTRIBUTING.md:\n\nrule 0\n")
    assert text.endswith("\n(the rest of CONTRIBUTING.md is left out)\n")
    assert len(text.encode()) < CONVENTION_BYTES + 200 and "rule 2\n" in text


def test_a_convention_file_that_repeats_or_links_to_another_is_left_out() -> None:
    """Git holds a symbolic link as a file with the target's name in it."""
    text = view({"AGENTS.md": b"Be kind.", "CLAUDE.md": b"AGENTS.md", "CONTRIBUTING.md": b"Be kind.\n"}).conventions
    assert text == "From AGENTS.md:\n\nBe kind.\n"


def test_binary_and_missing_files_are_passed_over() -> None:
    """`read` may give None: a submodule, a file that is gone."""
    shown = repository_view([("a.py", 5), ("b.py", 5), ("AGENTS.md", 3)], {"a.py": b"def a\0"}.get)
    assert shown == RepositoryView("AGENTS.md\na.py\nb.py\n", "")


def test_odd_names_stay_on_their_line() -> None:
    """A line break in a file's name can't forge a line of the map."""
    assert view({"a\nb": b"", "é": b"", "\udcff": b""}).map == "a\\nb\né\n\\udcff\n"


@given(st.dictionaries(st.text(min_size=1, max_size=30), st.binary(max_size=200), max_size=60))
def test_any_tree_gives_a_bounded_view(files: dict[str, bytes]) -> None:
    """Whatever the names and contents."""
    shown = view(files)
    assert len(shown.map.encode()) <= MAP_BYTES
    assert shown == view(dict(reversed(files.items())))
