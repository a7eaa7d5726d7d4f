"""Worktrees: laid out, written to trees, and clean again whatever was done to them."""

import asyncio
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from taskyard.services.errors import GitError
from taskyard.services.repo import Change, Checkout, Identity, Repository, Worktree, WorktreePool, scaffold

ME = Identity("Ada L", "ada@example.org")
FILES = {
    ".gitignore": (b"*.log\n", False),
    "README.md": (b"hello\n", False),
    "run.sh": (b"#!/bin/sh\n", True),
    "src/a.py": (b"a = 1\n", False),
    "src/deep/b.py": (b"b = 1\n", False),
}


@pytest.fixture
async def repository(tmp_path: Path) -> Repository:
    await scaffold(tmp_path / "work", tmp_path / "remote.git", FILES, ME, "First\n")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    checkout = await Checkout.find(tmp_path / "work", environ)
    return await Repository.open(tmp_path / "state" / "repo.git", checkout, "origin")


@pytest.fixture
async def tree(repository: Repository) -> str:
    return await repository.tree_of(await repository.fetch("main"))


@pytest.fixture
def pool(repository: Repository, tmp_path: Path) -> WorktreePool:
    return WorktreePool(repository, tmp_path / "cache" / "work", 1)


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    """{path: (content or link target, mode)} of everything in a folder; a folder ends in `/`."""
    found = {}
    for place, folders, files in os.walk(folder):
        for name in files + folders:
            path = Path(place) / name
            shown = str(path.relative_to(folder))
            if path.is_symlink():
                found[shown] = (os.fsencode(path.readlink()), 0)
            elif path.is_dir():
                found[shown + "/"] = (b"", path.stat().st_mode & 0o700)
            else:
                found[shown] = (path.read_bytes(), path.stat().st_mode & 0o700)
    return found


CLEAN = {path: (data, 0o700 if executable else 0o600) for path, (data, executable) in FILES.items()} | {
    "src/": (b"", 0o700),
    "src/deep/": (b"", 0o700),
}


async def test_a_worktree_holds_the_tree_and_nothing_else(pool: WorktreePool, tree: str) -> None:
    """Content and modes as in the tree; no `.git` that could steer anything."""
    async with pool.lay_out(tree) as worktree:
        assert content(worktree.path) == CLEAN
        assert worktree.tree == tree


def untracked(at: Path) -> None:
    (at / "x.log").write_text("ignored")
    (at / "new" / "er").mkdir(parents=True)
    (at / "src" / "empty").mkdir()


def nested_repositories(at: Path) -> None:
    for place in (at, at / "src", at / "other"):
        subprocess.run(["git", "init", "-q", place], check=True)
        (place / ".git" / "hooks").mkdir(exist_ok=True)


def read_only(at: Path) -> None:
    (at / "locked" / "in").mkdir(parents=True)
    (at / "locked" / "in" / "f").write_text("1")
    (at / "src" / "extra").write_text("1")
    for folder in (at / "locked" / "in", at / "locked", at / "src" / "deep", at / "src", at):
        folder.chmod(0o500)
    (at / "README.md").chmod(0)
    (at / "run.sh").chmod(0o4755)


def same_size_and_time(at: Path) -> None:
    for path, text in (("README.md", "HELLO\n"), ("src/a.py", "a = 2\n")):
        before = (at / path).stat()
        (at / path).write_text(text)
        os.utime(at / path, ns=(before.st_atime_ns, before.st_mtime_ns))


def swapped_kinds(at: Path) -> None:
    (at / "README.md").unlink()
    (at / "README.md").mkdir()
    (at / "README.md" / "x").write_text("1")
    (at / "src" / "a.py").unlink()
    (at / "src" / "deep" / "b.py").unlink()
    (at / "src" / "deep").rmdir()
    (at / "src" / "deep").write_text("file")
    (at / "run.sh").unlink()
    os.mkfifo(at / "run.sh")
    with socket.socket(socket.AF_UNIX) as server:
        folder = os.open(at, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{folder}/s" if Path("/proc/self/fd").is_dir() else "s")
        os.close(folder)


def links_out(at: Path) -> None:
    outside = at.parents[2] / "outside"
    (outside / "deep").mkdir(parents=True, exist_ok=True)
    (outside / "precious").write_text("x")
    (outside / "deep" / "b.py").write_text("precious")
    (at / "dirlink").symlink_to(outside)
    for name in ("src/a.py", "src/deep/b.py"):
        (at / name).unlink()
    (at / "src" / "deep").rmdir()
    (at / "src").rmdir()
    (at / "src").symlink_to(outside)
    (at / "README.md").unlink()
    (at / "README.md").hardlink_to(outside / "precious")
    (outside / "held").unlink(missing_ok=True)
    (outside / "held").hardlink_to(at / "run.sh")


def odd_names(at: Path) -> None:
    for name in ("new\nline", "-rf", "ü", "u\u0308", " ", "*", ".gitattributes"):
        (at / name).write_text("* filter=evil\n")
    (Path(os.fsdecode(os.fsencode(at) + b"/\xff\xfe"))).write_text("1")


def gone(at: Path) -> None:
    for path in FILES:
        (at / path).unlink()


MESSES: list[Callable[[Path], None]] = [
    untracked, nested_repositories, read_only, same_size_and_time, swapped_kinds, links_out, odd_names, gone,
]  # fmt: skip


@pytest.mark.parametrize("mess", MESSES, ids=lambda mess: mess.__name__)
async def test_nothing_of_a_hostile_check_stays(
    pool: WorktreePool, repository: Repository, tree: str, tmp_path: Path, mess: Callable[[Path], None]
) -> None:
    """Laid out again, the same tree or another, the folder is exactly the tree; what links led to is untouched."""
    other = await repository.replace(tree, {"README.md": b"other\n", "src/deep/b.py": None, "more/c": b"1"})
    expected = CLEAN | {"README.md": (b"other\n", 0o600), "more/": (b"", 0o700), "more/c": (b"1", 0o600)}
    del expected["src/deep/b.py"], expected["src/deep/"]
    async with pool.lay_out(tree) as worktree:
        for wanted, found in ((tree, CLEAN), (other, expected), (tree, CLEAN)):
            if worktree.tree == tree:
                mess(worktree.path)
            await worktree.reset(wanted)
            assert content(worktree.path) == found
            assert (worktree.path / "run.sh").stat().st_nlink == 1
    outside = tmp_path / "cache" / "outside"
    if outside.exists():
        assert (outside / "precious").read_text() == "x"
        assert (outside / "deep" / "b.py").read_text() == "precious"


async def test_a_folder_that_was_replaced_by_a_link_is_made_anew(pool: WorktreePool, tree: str, tmp_path: Path) -> None:
    """Even the worktree's own folder may have been taken away."""
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "x").write_text("1")
    async with pool.lay_out(tree) as worktree:
        worktree.path.rename(worktree.path.with_name("moved"))
        worktree.path.symlink_to(tmp_path / "victim")
        await worktree.reset()
        assert content(worktree.path) == CLEAN
    assert (tmp_path / "victim" / "x").exists()


async def test_a_broken_index_costs_a_new_folder_only(pool: WorktreePool, tree: str) -> None:
    """Whatever makes a reset fail, the worktree is made from nothing."""
    async with pool.lay_out(tree) as worktree:
        (worktree.path.parent / "index").write_bytes(b"garbage")
    async with pool.lay_out(tree) as worktree:
        assert content(worktree.path) == CLEAN


async def test_worktrees_are_bounded(repository: Repository, tree: str, tmp_path: Path) -> None:
    """Tasks that want one hold at most `size`; both counters are true."""
    pool = WorktreePool(repository, tmp_path / "cache", 2)

    async def use() -> None:
        async with pool.lay_out(tree):
            assert pool.in_use <= 2

    async with asyncio.TaskGroup() as group:
        for _ in range(20):
            group.create_task(use())
    assert (pool.in_use, pool.peak) == (0, 2)
    assert len(list((tmp_path / "cache").glob("pool-*/w*"))) == 2


async def test_worktrees_are_given_first_come_first_served(repository: Repository, tree: str, tmp_path: Path) -> None:
    """With one worktree the order of use is the order of asking, whatever a reset takes."""
    pool = WorktreePool(repository, tmp_path / "cache", 1)
    order: list[int] = []

    async def use(number: int) -> None:
        async with pool.lay_out(tree):
            order.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(use(number))
    assert order == list(range(10))


async def test_pools_of_one_folder_don_t_meet(repository: Repository, tree: str, tmp_path: Path) -> None:
    """A second pool, or another process, leaves a live pool's folders alone; a dead pool's are removed."""
    one, two = (WorktreePool(repository, tmp_path / "cache", 1) for _ in range(2))
    async with one.lay_out(tree) as first:
        (first.path / "mine").write_text("1")
        async with two.lay_out(tree) as second:
            assert first.path != second.path
            assert (first.path / "mine").exists()
    await two.close()
    dead = tmp_path / "cache" / "pool-dead" / "w1" / "tree"
    dead.mkdir(parents=True)
    dead.parent.parent.joinpath("lock").touch()
    three = WorktreePool(repository, tmp_path / "cache", 1)
    async with three.lay_out(tree):
        assert not dead.exists()
        assert first.path.exists()


async def test_a_cancelled_lay_out_gives_its_place_back(repository: Repository, tree: str, tmp_path: Path) -> None:
    """Cancelling at any moment of a reset leaves a pool that works."""
    pool = WorktreePool(repository, tmp_path / "cache", 1)
    async with pool.lay_out(tree) as worktree:
        read_only(worktree.path)
    cancelled = 0
    for rounds in range(12):
        started = asyncio.Event()

        async def use(started: asyncio.Event = started) -> None:
            started.set()
            async with pool.lay_out(tree) as worktree:
                read_only(worktree.path)

        task = asyncio.create_task(use())
        await started.wait()
        for _ in range(rounds * 3):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        cancelled += task.cancelled()
        assert pool.in_use == 0
        async with pool.lay_out(tree) as worktree:
            assert content(worktree.path) == CLEAN
    assert cancelled >= 6


async def test_a_worktree_that_was_given_back_is_dead(pool: WorktreePool, tree: str) -> None:
    """Nobody writes into a folder that another task may have."""
    async with pool.lay_out(tree) as worktree:
        pass
    with pytest.raises(GitError, match="given back"):
        await worktree.write_tree(["README.md"])
    with pytest.raises(GitError, match="given back"):
        await worktree.reset()


# Trees from worktrees


async def written(repository: Repository, worktree: Worktree, paths: list[str]) -> dict[str, str]:
    """{path: kind of change} of what was written."""
    new = await worktree.write_tree(paths)
    return {change.path: change.kind for change in await repository.changed(worktree.tree, new)}


async def test_only_the_named_paths_get_in(pool: WorktreePool, repository: Repository, tree: str) -> None:
    """Literal names, ignored files too; nothing that merely lies there, and no pattern."""
    async with pool.lay_out(tree) as worktree:
        at = worktree.path
        names = ["new\nline", "-rf", "ü", "u\u0308", "*", ":(glob)**", "x.log", "a/b/c", "\udcff"]
        for name in [*names, "other.py", "a/b/d"]:
            (at / name).parent.mkdir(parents=True, exist_ok=True)
            (at / name).write_text("1")
        (at / "README.md").write_text("changed but not named")
        (at / "src" / "a.py").unlink()
        assert await written(repository, worktree, [*names, "src/a.py", "no/such"]) == dict.fromkeys(names, "A") | {
            "src/a.py": "D"
        }
        assert await worktree.write_tree([]) == tree
        assert await written(repository, worktree, ["src", "a"]) == {}


async def test_kinds_and_modes_are_taken_as_they_are(pool: WorktreePool, repository: Repository, tree: str) -> None:
    """A file for a folder, a folder for a file, executable bits, links inside the tree."""
    async with pool.lay_out(tree) as worktree:
        at = worktree.path
        (at / "src" / "deep" / "b.py").unlink()
        (at / "src" / "deep").rmdir()
        (at / "src" / "deep").write_text("file now")
        (at / "README.md").unlink()
        (at / "README.md").mkdir()
        (at / "README.md" / "inner").write_text("1")
        (at / "run.sh").chmod(0o644)
        (at / "src" / "link").symlink_to("../run.sh")
        new = await worktree.write_tree(["src/deep", "README.md", "README.md/inner", "run.sh", "src/link"])
        assert await repository.changed(tree, new) == (
            Change("README.md", "D", "100644", "000000"),
            Change("README.md/inner", "A", "000000", "100644"),
            Change("run.sh", "M", "100755", "100644"),
            Change("src/deep", "A", "000000", "100644"),
            Change("src/deep/b.py", "D", "100644", "000000"),
            Change("src/link", "A", "000000", "120000"),
        )


async def test_same_size_and_time_still_counts_as_changed(
    pool: WorktreePool, repository: Repository, tree: str
) -> None:
    """Content is read, not guessed from stat data."""
    async with pool.lay_out(tree) as worktree:
        same_size_and_time(worktree.path)
        assert await written(repository, worktree, ["README.md", "src/a.py"]) == {"README.md": "M", "src/a.py": "M"}


async def test_line_ends_follow_the_tree_s_attributes(pool: WorktreePool, repository: Repository, tree: str) -> None:
    """`eol=crlf` is laid out with CRLF and stored with LF; a .gitattributes that was not named has no say."""
    base = await repository.replace(tree, {".gitattributes": b"*.bat text eol=crlf\n", "x.bat": b"one\n"})
    async with pool.lay_out(base) as worktree:
        at = worktree.path
        assert (at / "x.bat").read_bytes() == b"one\r\n"
        (at / "x.bat").write_bytes(b"one\r\ntwo\r\n")
        (at / "plain.txt").write_bytes(b"raw\r\n")
        (at / ".gitattributes").write_text("* text eol=crlf\n")
        new = await worktree.write_tree(["x.bat", "plain.txt"])
        assert await repository.read(new, "x.bat") == b"one\ntwo\n"
        assert await repository.read(new, "plain.txt") == b"raw\r\n"
        named = await worktree.write_tree(["x.bat", "plain.txt", ".gitattributes"])
        assert await repository.read(named, "plain.txt") == b"raw\n"


@pytest.mark.parametrize("attributes", ["* working-tree-encoding=UTF-16\n", "*.py working-tree-encoding=bogus\n"])
async def test_attributes_that_git_can_t_follow_are_refused_when_they_come(
    pool: WorktreePool, tree: str, attributes: str
) -> None:
    """A tree that nobody could lay out is never made; git's words name no place of this machine."""
    async with pool.lay_out(tree) as worktree:
        (worktree.path / "src" / ".gitattributes").write_text(attributes)
        with pytest.raises(GitError, match="encod") as refused:
            await worktree.write_tree(["src/.gitattributes"])
        assert str(worktree.path.parent) not in str(refused.value)
        assert {entry.name for entry in worktree.path.parent.iterdir()} == {"tree", "index"}


def nested(at: Path) -> None:
    subprocess.run(["git", "init", "-q", at / "sub"], check=True)
    (at / "sub" / "f").write_text("1")


REFUSED: list[tuple[str, Callable[[Path], object], str]] = [
    ("../x", lambda _: None, "must be relative"),
    ("/etc/passwd", lambda _: None, "must be relative"),
    ("a/./b", lambda _: None, "must be relative"),
    (".git/hooks/pre-commit", lambda _: None, "stands for .git"),
    ("src/.GIT", lambda at: (at / "src" / ".GIT").write_text("1"), "stands for .git"),
    ("git~1/x", lambda _: None, "stands for .git"),
    (".g\u200cit/config", lambda _: None, "stands for .git"),
    (".git. /x", lambda _: None, "stands for .git"),
    ("out", lambda at: (at / "out").symlink_to("../../x"), "leaves the tree"),
    ("abs", lambda at: (at / "abs").symlink_to("/etc"), "leaves the tree"),
    ("src/up", lambda at: (at / "src" / "up").symlink_to("../.."), "leaves the tree"),
    ("hooks", lambda at: (at / "hooks").symlink_to(".git/hooks"), "leads into .git"),
    (".gitmodules", lambda at: (at / ".gitmodules").symlink_to("README.md"), "can't be a symbolic link"),
    ("sub", nested, "nested repository"),
    ("sub/f", nested, "nested repository"),
    ("pipe", lambda at: os.mkfifo(at / "pipe"), "neither a file nor"),
]


@pytest.mark.parametrize(("path", "make", "rule"), REFUSED, ids=[f"{path!r}" for path, _, _ in REFUSED])
async def test_a_refusal_names_the_path_and_the_rule(
    pool: WorktreePool, tree: str, path: str, make: Callable[[Path], object], rule: str
) -> None:
    """H06: what could lead out of the tree or steer git never gets into a commit."""
    async with pool.lay_out(tree) as worktree:
        make(worktree.path)
        with pytest.raises(GitError, match=rule) as refused:
            await worktree.write_tree(["README.md", path])
        assert repr(path) in str(refused.value)


async def test_a_file_behind_a_link_is_not_there(
    pool: WorktreePool, repository: Repository, tree: str, tmp_path: Path
) -> None:
    """A folder that became a link: what lies behind it is not read, the path counts as removed."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "b.py").write_text("secret")
    async with pool.lay_out(tree) as worktree:
        (worktree.path / "src" / "deep" / "b.py").unlink()
        (worktree.path / "src" / "deep").rmdir()
        (worktree.path / "src" / "deep").symlink_to(tmp_path / "secret")
        assert await written(repository, worktree, ["src/deep/b.py"]) == {"src/deep/b.py": "D"}


def plant(at: Path, canary: Path) -> None:
    """A repository in the folder all of whose hooks and drivers make the canary."""
    subprocess.run(["git", "init", "-q", at], check=True)
    for key in ("core.fsmonitor", "filter.evil.clean", "filter.evil.smudge", "core.sshCommand"):
        subprocess.run(["git", "-C", at, "config", key, f"touch {canary}; cat"], check=True)
    for hook in ("post-checkout", "post-index-change", "reference-transaction", "pre-commit"):
        place = at / ".git" / "hooks" / hook
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"#!/bin/sh\ntouch {canary}\n")
        place.chmod(0o755)


async def test_filters_and_hooks_of_a_planted_repository_run_nothing(
    pool: WorktreePool, repository: Repository, tree: str, tmp_path: Path
) -> None:
    """A check may write a `.git` with hooks, fsmonitor and filters into the worktree: git never sees it."""
    canary = tmp_path / "canary"
    async with pool.lay_out(tree) as worktree:
        at = worktree.path
        plant(at, canary)
        (at / ".gitattributes").write_text("* filter=evil\n")
        (at / "new.txt").write_text("1")
        canary.unlink(missing_ok=True)
        assert await written(repository, worktree, [".gitattributes", "new.txt"]) == {
            ".gitattributes": "A",
            "new.txt": "A",
        }
        await worktree.reset()
        assert content(at) == CLEAN
    assert not canary.exists()


async def test_submodules_and_links_of_the_base_are_laid_out_safely(
    pool: WorktreePool, repository: Repository, tree: str
) -> None:
    """A submodule is an empty folder, whatever is put there; a link of the user's tree is kept as it is."""
    commit = await repository.commit(tree, [], "x", identity=ME, when=0)
    link = await repository.replace(tree, {"out": b"/etc"}, modes={"out": "120000"})
    done = await repository.bare.run("mktree", stdin=f"160000 commit {commit}\tmod\n040000 tree {link}\tall\n".encode())
    async with pool.lay_out(done.line) as worktree:
        for _ in range(2):
            assert list((worktree.path / "mod").iterdir()) == []
            assert (worktree.path / "all" / "out").readlink() == Path("/etc")
            (worktree.path / "mod" / "x").write_text("1")
            (worktree.path / "all" / "x").write_text("1")
            await worktree.reset()
        (worktree.path / "all" / "x").write_text("1")
        assert await written(repository, worktree, ["all/x"]) == {"all/x": "A"}
        await worktree.reset(tree)
        assert content(worktree.path) == CLEAN
