"""The implementer's tools on a folder: what they reach, what they change, what they tell."""

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from taskyard.services.clock import SystemClock
from taskyard.services.errors import StorageFull, ToolError
from taskyard.services.pipeline import tools
from taskyard.services.pipeline.reach import Rules, matches
from taskyard.services.pipeline.tools import RESULT_BYTES, Toolbox, clip

RULES = Rules(
    protected=("tests/**", "**/test_*", "Makefile"),
    denied=("board.md", ".taskyard/lessons.jsonl", "vendor/sub"),
    existing=frozenset({"a.py", "tests/test_a.py", "Makefile", "board.md"}),
)
FILES = {
    "a.py": "one = 1\ntwo = 2\nthree = 3\n",
    "src/b.py": "def b():\n    return 'b'\n",
    "src/deep/c.txt": "c\n",
    "tests/test_a.py": "assert True\n",
    "Makefile": "all:\n",
    "board.md": "| ID |\n",
    ".taskyard/lessons.jsonl": "{}\n",
    "taskyard.toml": "[checks]\n",
    ".env": "SECRET=canary\n",
    ".env.example": "SECRET=\n",
    "keys/server.pem": "canary\n",
    "credentials.py": "class Credentials: ...\n",
    "empty.txt": "",
    "run.sh": "#!/bin/sh\n",
}
OWN = '[project]\nname = "x"\n\n[tool.taskyard.run]\nconcurrency = 1\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "tree" / "run.sh").chmod(0o755)
    (tmp_path / "outside.txt").write_text("canary\n")
    return tmp_path / "tree"


@pytest.fixture
def box(folder: Path) -> Toolbox:
    return Toolbox(folder, RULES, SystemClock())


def refused(box: Toolbox, name: str, **arguments: object) -> str:
    """What the model is told; never a path of the machine."""
    with pytest.raises(ToolError) as told:
        box.call(name, arguments)
    assert str(box._reach.folder) not in str(told.value)
    return str(told.value)


# Paths

GIT = (".git/config", ".GIT/config", ".git ./x", ".git. /x", "git~1/x", "GIT~1/x", "a/.Git/hooks/x", ".g\u200cit/x")
GIT += (".git::$INDEX_ALLOCATION/x", ".git", "src\\.git\\x")


@pytest.mark.parametrize("path", GIT)
def test_git_is_out_of_reach_in_every_spelling(box: Toolbox, folder: Path, path: str) -> None:
    """Nothing that any file system takes for `.git` can be read or made, whatever the case, dots and blanks."""
    assert "git's own files" in refused(box, "create", path=path, text="x")
    assert "git's own files" in refused(box, "view", path=path)
    assert not (folder / path).exists()


@pytest.mark.parametrize(
    "path", ["../outside.txt", "/etc/passwd", "src/../../outside.txt", "", "a\0b", "\ud800", "..", "."]
)
def test_nothing_outside_is_reached(box: Toolbox, path: str) -> None:
    """Every tool refuses a path that is none inside the repository."""
    for name, more in {
        "view": {},
        "edit": {"old": "canary", "new": "x"},
        "create": {"text": "x"},
        "delete": {},
    }.items():
        refused(box, name, path=path, **more)
    assert box.touched == set()


def test_links_are_followed_inside_and_never_out(box: Toolbox, folder: Path) -> None:
    """A link to a file inside is edited there; a link out, also one that dangles or goes in a circle, is refused."""
    (folder / "in.py").symlink_to("a.py")
    (folder / "out.txt").symlink_to("../outside.txt")
    (folder / "out").symlink_to("..")
    (folder / "nowhere").symlink_to("../not-there")
    (folder / "circle").symlink_to("circle")
    (folder / "hidden.txt").symlink_to(".env")
    assert box.call("edit", {"path": "in.py", "old": "one", "new": "eins"}) == "ok: edited a.py"
    assert (folder / "in.py").is_symlink()
    assert (folder / "a.py").read_text().startswith("eins = 1")
    for path in ("out.txt", "out/outside.txt", "nowhere", "circle", "circle/x", "hidden.txt"):
        refused(box, "view", path=path)
        refused(box, "edit", path=path, old="canary", new="x")
    for path in ("out/new.txt", "nowhere", "circle/x"):
        refused(box, "create", path=path, text="x")
    assert "canary" not in box.call("search", {"pattern": "canary"})
    assert sorted(path.name for path in folder.parent.iterdir()) == ["outside.txt", "tree"]
    assert (folder.parent / "outside.txt").read_text() == "canary\n"


def test_a_link_is_deleted_and_not_what_it_leads_to(box: Toolbox, folder: Path) -> None:
    """Delete takes the entry that was named away, also a link that dangles."""
    (folder / "in.py").symlink_to("a.py")
    (folder / "dangling").symlink_to("not-there")
    assert box.call("delete", {"path": "in.py"}) == "ok: deleted in.py"
    assert "exists" in refused(box, "create", path="dangling", text="x")
    assert box.call("delete", {"path": "dangling"}) == "ok: deleted dangling"
    assert (folder / "a.py").exists()
    assert not os.path.lexists(folder / "in.py")
    assert not os.path.lexists(folder / "dangling")


@pytest.mark.parametrize(
    "path",
    [
        ".env", ".ENV", ".env.local", "keys/server.pem", "id_rsa", "board.md", "./board.md", "src/../board.md",
        "Board.md",
        ".taskyard/lessons.jsonl", ".Taskyard/prompts/x.j2", "taskyard.toml", "vendor/sub", "vendor/sub/new.py",
    ],
)  # fmt: skip
def test_secrets_board_lessons_settings_and_submodules_are_out_of_reach(box: Toolbox, path: str) -> None:
    """They are neither read nor made nor changed."""
    for name, more in {
        "view": {},
        "edit": {"old": "a", "new": "x"},
        "create": {"text": "x"},
        "delete": {},
    }.items():
        assert "out of reach" in refused(box, name, path=path, **more)


def test_an_example_and_source_code_are_no_secrets(box: Toolbox) -> None:
    """`.env.example` and a module named after credentials can be worked on."""
    assert box.call("edit", {"path": ".env.example", "old": "SECRET", "new": "TOKEN"})
    assert box.call("edit", {"path": "credentials.py", "old": "...", "new": "pass"})


def test_protected_files_stay_and_new_ones_may_come(box: Toolbox) -> None:
    """Existing tests may be read, not changed or deleted; a new test is free, also to be changed again."""
    assert box.call("view", {"path": "tests/test_a.py"}) == "1\tassert True"
    assert "protected" in refused(box, "edit", path="tests/test_a.py", old="True", new="1")
    assert "protected" in refused(box, "delete", path="Makefile")
    assert box.call("create", {"path": "tests/test_new.py", "text": "x\n"}) == "ok: created tests/test_new.py"
    assert box.call("edit", {"path": "tests/test_new.py", "old": "x", "new": "y"})
    assert box.call("delete", {"path": "tests/test_new.py"})


@pytest.mark.parametrize(
    "text",
    [
        OWN,
        "tool.taskyard.gate.protected = []\n",
        '"tool"."t\\u0061skyard".x = 1\n',
        "tool = {taskyard = {x = 1}}\n",
        "[tool.taskyard]\n",
        "[tool.taskyard\n",
        "x = " + "[" * 100_000 + " # TaskYard",
    ],
)
@pytest.mark.parametrize("path", ["pyproject.toml", "./PyProject.TOML", "src/../pyproject.toml"])
def test_no_task_brings_settings_by_way_of_pyproject(box: Toolbox, folder: Path, path: str, text: str) -> None:
    """A new file with `[tool.taskyard]`, or of which nobody can tell, in any spelling."""
    assert "[tool.taskyard]" in refused(box, "create", path=path, text=text)
    assert not (folder / path).exists()
    assert not box.touched
    box.call("create", {"path": "src/pyproject.toml", "text": text})  # taskyard looks in the root alone


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("concurrency = 1", "concurrency = 2"),
        ("concurrency = 1", "concurrency = true"),
        ("concurrency = 1", "concurrency = "),
        ("[tool.taskyard.run]\nconcurrency = 1", "[[["),
        ("taskyard.run", "other.run"),
    ],
)
def test_no_task_changes_settings_in_pyproject(box: Toolbox, folder: Path, old: str, new: str) -> None:
    """Neither by an edit nor by deleting the file, also where tests may change."""
    (folder / "pyproject.toml").write_text(OWN)
    assert "[tool.taskyard]" in refused(box, "edit", path="pyproject.toml", old=old, new=new, count=None)
    assert "[tool.taskyard]" in refused(box, "delete", path="pyproject.toml")
    assert (folder / "pyproject.toml").read_text() == OWN


def test_no_task_changes_settings_behind_a_link(box: Toolbox, folder: Path) -> None:
    """What pyproject.toml leads to counts as pyproject.toml."""
    (folder / "pyproject.toml").symlink_to("src/project.toml")
    assert "[tool.taskyard]" in refused(box, "create", path="src/project.toml", text=OWN)
    (folder / "src/project.toml").write_text(OWN)
    for path in ("pyproject.toml", "src/project.toml"):
        assert "[tool.taskyard]" in refused(box, "edit", path=path, old="= 1", new="= 2", count=None)
        assert "[tool.taskyard]" in refused(box, "delete", path=path)


def test_the_rest_of_pyproject_may_change(box: Toolbox, folder: Path) -> None:
    """Only where it is not protected, which the globs say."""
    (folder / "pyproject.toml").write_text(OWN)
    box.call("edit", {"path": "pyproject.toml", "old": '"x"', "new": '"y"', "count": None})
    assert (folder / "pyproject.toml").read_text() == OWN.replace('"x"', '"y"')
    (folder / "pyproject.toml").write_text("[project")
    box.call("edit", {"path": "pyproject.toml", "old": "[project", "new": "[project]", "count": None})
    box.call("delete", {"path": "pyproject.toml"})
    box.call("create", {"path": "pyproject.toml", "text": "[tool.other]\n"})


@pytest.mark.parametrize("name", ["x" * 300, "y" * 5000, "d/" * 3000 + "x", "ü" * 200])
def test_a_name_that_no_file_can_have_is_told_to_the_model(box: Toolbox, name: str) -> None:
    """A name that is too long is a ToolError with the system's words, not a crash of the task."""
    assert "name too long" in refused(box, "create", path=name, text="x")
    refused(box, "view", path=name)
    refused(box, "delete", path=name)


def test_a_long_name_that_is_legal_can_be_written(box: Toolbox, folder: Path) -> None:
    """255 bytes of name are enough for any tool."""
    name = "\U0001f600" * 63 + "abc"
    box.call("create", {"path": name, "text": "one\n"})
    box.call("edit", {"path": name, "old": "one", "new": "two"})
    assert (folder / name).read_text() == "two\n"


# Files of every kind


def test_folders_pipes_and_binaries_are_told_from_text(box: Toolbox, folder: Path) -> None:
    """A folder lists what is in it; a pipe does not hang; a binary is named as one."""
    os.mkfifo(folder / "pipe")
    (folder / "picture").write_bytes(b"\x89PNG\0\0")
    (folder / "late").write_bytes(b"x" * 9000 + b"\0")
    assert refused(box, "view", path="src") == "src is a folder; in it: b.py, deep/"
    assert "is a folder" in refused(box, "edit", path="src", old="a", new="b")
    assert "is a folder" in refused(box, "create", path="src", text="x")
    assert "is a folder" in refused(box, "delete", path="src")
    assert "no ordinary file" in refused(box, "view", path="pipe")
    assert "no ordinary file" in refused(box, "edit", path="pipe", old="a", new="b")
    assert "binary" in refused(box, "view", path="picture")
    assert "binary" in refused(box, "view", path="late")
    assert "binary" in refused(box, "edit", path="late", old="x", new="y")
    assert "there is no file" in refused(box, "view", path="nope")
    assert "part of its folder is a file" in refused(box, "create", path="a.py/x", text="x")
    assert box.call("search", {"pattern": "PNG"}) == "(no match)"


def test_a_huge_file_is_refused_before_it_is_read(box: Toolbox, folder: Path) -> None:
    """A file of a terabyte costs nothing."""
    with (folder / "huge").open("wb") as file:
        file.truncate(10**12)
    assert "larger than 5 MB" in refused(box, "view", path="huge")
    assert "larger than 5 MB" in refused(box, "edit", path="huge", old="a", new="b")
    assert box.call("search", {"pattern": "one"}) == "a.py:1:one = 1"


def test_an_edit_keeps_the_mode_and_leaves_nothing_beside(box: Toolbox, folder: Path) -> None:
    """The execute bit survives; a new file is an ordinary one; no scratch file stays."""
    box.call("edit", {"path": "run.sh", "old": "/bin/sh", "new": "/bin/bash"})
    box.call("create", {"path": "new/file.txt", "text": ""})
    assert (folder / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (folder / "new/file.txt").stat().st_mode & 0o777 == 0o644
    assert [path.name for path in (folder / "new").iterdir()] == ["file.txt"]
    assert box.touched == {"run.sh", "new/file.txt"}


def test_a_folder_ends_with_its_last_file(box: Toolbox, folder: Path) -> None:
    """As in git: after the delete its name is free for a file."""
    assert box.call("delete", {"path": "src/deep/c.txt"}) == "ok: deleted src/deep/c.txt"
    assert not (folder / "src/deep").exists()
    assert box.call("create", {"path": "src/deep", "text": "x"}) == "ok: created src/deep"


def test_a_full_disk_stops_the_run_and_is_not_told_to_the_model(
    box: Toolbox, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model can't mend a full disk; the file is as it was and no scratch file stays."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StorageFull, match="disk is full"):
        box.call("edit", {"path": "a.py", "old": "one", "new": "x"})
    assert (folder / "a.py").read_text() == FILES["a.py"]
    assert not [path for path in folder.iterdir() if path.name.startswith(".taskyard-")]


def test_another_error_of_the_system_is_told_without_its_path(box: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that answers with an error is no reason to crash the task."""

    def broken(path: Path) -> bytes:
        raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr(Path, "read_bytes", broken)
    assert refused(box, "view", path="a.py") == "view: Input/output error"


# view


@pytest.mark.parametrize(
    ("start", "end", "shown"),
    [
        (None, None, "1\tone = 1\n2\ttwo = 2\n3\tthree = 3"),
        (2, None, "2\ttwo = 2\n3\tthree = 3"),
        (None, 1, "1\tone = 1"),
        (3, 3, "3\tthree = 3"),
        (0, 1, "1\tone = 1"),
        (-5, 1, "1\tone = 1"),
        (2, 99, "2\ttwo = 2\n3\tthree = 3"),
    ],
)
def test_a_view_shows_the_lines_that_were_asked_for(
    box: Toolbox, start: int | None, end: int | None, shown: str
) -> None:
    """1-based, both ends included, bounded by the file."""
    assert box.call("view", {"path": "a.py", "start": start, "end": end}) == shown


@pytest.mark.parametrize(("start", "end"), [(4, None), (99, 100), (3, 2), (None, 0), (2, -1)])
def test_a_view_of_no_lines_says_why(box: Toolbox, start: int | None, end: int | None) -> None:
    """An impossible range is an error, and never looks like an empty file."""
    refused(box, "view", path="a.py", start=start, end=end)


def test_an_empty_file_says_that_it_is_empty(box: Toolbox) -> None:
    """A tool result is never empty text."""
    assert box.call("view", {"path": "empty.txt", "start": 7}) == "(the file is empty)"


def test_a_view_hides_marks_and_line_ends_but_counts_like_a_compiler(box: Toolbox, folder: Path) -> None:
    """BOM and CR are not shown; a form feed does not begin a line, so that an edit of what was shown fits."""
    (folder / "odd.txt").write_bytes(b"\xef\xbb\xbfa\r\nb\x0cc\r\n")
    assert box.call("view", {"path": "odd.txt"}) == "1\ta\n2\tb\x0cc"
    box.call("edit", {"path": "odd.txt", "old": "a\nb\x0cc", "new": "x"})
    assert (folder / "odd.txt").read_bytes() == b"\xef\xbb\xbfx\r\n"


def test_a_long_result_keeps_head_and_tail(box: Toolbox, folder: Path) -> None:
    """At most 10 KB, whatever the letters; what was left out is said."""
    (folder / "long.txt").write_text("\n".join(f"line {n} ü" for n in range(20_000)))
    shown = box.call("view", {"path": "long.txt"})
    assert len(shown.encode()) <= RESULT_BYTES
    assert shown.startswith("1\tline 0 ü\n")
    assert shown.endswith("line 19999 ü")
    assert "bytes left out" in shown
    assert clip("x" * RESULT_BYTES) == "x" * RESULT_BYTES
    assert clip("a\udcff") == "a?"


# search


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        (None, ["a.py", "credentials.py", "src/b.py"]),
        ("*.py", ["a.py", "credentials.py", "src/b.py"]),
        ("**/*.py", ["a.py", "credentials.py", "src/b.py"]),
        ("src/**", ["src/b.py"]),
        ("src/**/*.py", ["src/b.py"]),
        ("./src/*.py", ["src/b.py"]),
        ("src", ["src/b.py"]),
        ("src/", ["src/b.py"]),
        ("src/b.py", ["src/b.py"]),
        ("[ab].py", ["a.py"]),
        ("?.py", ["a.py"]),
        (".", ["a.py", "credentials.py", "src/b.py"]),
    ],
)
def test_a_search_takes_the_globs_that_people_write(box: Toolbox, glob: str | None, found: list[str]) -> None:
    """`*.py`, `**/*.py`, `src/**`, a folder; in the order of paths."""
    lines = box.call("search", {"pattern": "one =|def b|class", "glob": glob}).splitlines()
    assert [line.split(":")[0] for line in lines] == found


def test_a_search_tells_no_match_from_no_file(box: Toolbox) -> None:
    """A glob that fits nothing is not taken for the absence of what was sought."""
    assert box.call("search", {"pattern": "zzz", "glob": None}) == "(no match)"
    assert box.call("search", {"pattern": "one", "glob": "*.rs"}) == "(no file fits the glob *.rs)"


def test_search_results_come_in_the_same_order_each_time(box: Toolbox, folder: Path) -> None:
    """Path, then line, independent of the order on disk; cut at 200."""
    for number in (9, 1, 5):
        (folder / f"f{number}.txt").write_text("hit\n" * 80)
    result = box.call("search", {"pattern": "hit"})
    lines = result.splitlines()
    assert lines == [*(f"f1.txt:{n}:hit" for n in range(1, 81)), *(f"f5.txt:{n}:hit" for n in range(1, 81)),
                     *(f"f9.txt:{n}:hit" for n in range(1, 41)), "(more matches were left out)"]  # fmt: skip
    assert box.call("search", {"pattern": "hit"}) == result


@pytest.mark.parametrize(
    "pattern", ["(", "[a", "(?P<", "(?=x)y", r"(a)\1", r"\p{Foo}", "((x{1,99}){1,99}){1,99}", "\ud800"]
)
def test_a_faulty_pattern_is_told_to_the_model(box: Toolbox, pattern: str) -> None:
    """Also one that only a backtracking engine could match, or that would take all memory."""
    assert "regular expression" in refused(box, "search", pattern=pattern)


@pytest.mark.parametrize("pattern", [r"(x+x+)+y", r"(x*)*(x*)*y", "(" * 900 + "x" + ")*" * 900 + "y"])
def test_a_search_ends_whatever_the_pattern(box: Toolbox, folder: Path, pattern: str) -> None:
    """Patterns that keep a backtracking engine busy for ever, or fill the memory, are answered."""
    (folder / "x.txt").write_text(("x" * 60 + "\n") * 100)
    assert box.call("search", {"pattern": pattern, "glob": "x.txt"}) == "(no match)"


def test_a_search_has_one_time_limit_for_all_its_files(folder: Path) -> None:
    """Not one for each line."""

    class Hurried:
        seconds = 0.0

        def now(self) -> float:
            return self.seconds

        def monotonic(self) -> float:
            self.seconds += 1.0
            return self.seconds

    box = Toolbox(folder, Rules(protected=(), denied=(), existing=frozenset()), Hurried())
    (folder / "x.txt").write_text("x\n" * 100)
    with pytest.raises(ToolError, match="takes too long"):
        box.call("search", {"pattern": "y"})


def test_a_name_that_is_not_utf8_can_be_shown(box: Toolbox, folder: Path) -> None:
    """What the model is told can always be sent."""
    (folder / os.fsdecode(b"caf\xe9.txt")).write_text("here\n")
    box.call("search", {"pattern": "here"}).encode()
    box.call("search", {"pattern": "nowhere", "glob": "*.zzz"}).encode()


# Calls


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("view", {}),
        ("view", {"path": 1}),
        ("view", {"path": "a.py", "start": "one"}),
        ("view", {"path": "a.py", "lines": 1}),
        ("edit", {"path": "a.py", "old": "one", "new": None}),
        ("edit", {"path": "a.py", "old": "one", "new": "x", "count": True}),
        ("create", {"path": "n.txt", "text": ["x"]}),
        ("create", {"path": "n.txt", "text": "a\0b"}),
        ("create", {"path": "n.txt", "text": "\ud800"}),
        ("delete", None),
        ("delete", "a.py"),
        ("search", [1]),
        ("rm", {"path": "a.py"}),
        ("", {}),
    ],
)
def test_a_malformed_call_is_told_to_the_model(box: Toolbox, name: str, arguments: object) -> None:
    """No shape of arguments crashes the task or changes a file."""
    with pytest.raises(ToolError):
        box.call(name, arguments)
    assert box.touched == set()


async def test_a_cancelled_call_ends_before_its_folder_is_given_away(
    box: Toolbox, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that has begun must not go into the next task's tree."""
    begun, go_on = threading.Event(), threading.Event()
    write: Callable[[Path, bytes], None] = tools._write

    def slow(path: Path, data: bytes) -> None:
        begun.set()
        go_on.wait(30)
        write(path, data)

    monkeypatch.setattr(tools, "_write", slow)
    call = asyncio.create_task(box.carry_out("create", {"path": "n.txt", "text": "x"}))
    await asyncio.to_thread(begun.wait, 30)
    call.cancel()
    done, _ = await asyncio.wait([call], timeout=0.05)
    assert not done
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (folder / "n.txt").read_text() == "x"


@pytest.mark.parametrize(
    ("path", "glob", "fits"),
    [
        ("tests/a/b.py", "tests/**", True),
        ("test_a.py", "**/test_*", True),
        ("x/y/test_a.py", "**/test_*", True),
        ("x/a_test.py", "**/*_test.*", True),
        ("conftest.py", "conftest.py", True),
        ("x/conftest.py", "conftest.py", False),
        ("src/a/b/c.py", "src/**/b/**/c.py", True),
        ("src/c.py", "src/**/**/c.py", True),
        ("srcx/c.py", "src/**/c.py", False),
        ("a**/b", "a**/b", True),
        ("Tests/a.py", "tests/**", False),
        ("x/" * 60 + "y", "**/x/" * 12 + "z", False),
    ],
)
def test_globs_fit_any_depth(path: str, glob: str, fits: bool) -> None:
    """`**/` stands for any folders, also none, wherever it stands; no glob takes for ever."""
    assert matches(path, (glob,)) is fits
