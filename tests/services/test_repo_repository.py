"""Our own bare repository: fetching, history, trees, kept refs, merging."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from taskyard.services.errors import EnvironmentFault, GitError
from taskyard.services.repo import Change, Checkout, Identity, Repository, scaffold

ME = Identity("Ada L", "ada@example.org")
FILES = {
    "README.md": (b"one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n", False),
    "run.sh": (b"#!/bin/sh\n", True),
    "src/a.py": (b"a = 1\n", False),
    "src/b.py": (b"b = 1\n", False),
}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home").mkdir()
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home"), "GIT_CONFIG_NOSYSTEM": "1"}


@pytest.fixture
async def work(tmp_path: Path) -> Path:
    await scaffold(tmp_path / "work", tmp_path / "remote.git", FILES, ME, "First\n")
    return tmp_path / "work"


@pytest.fixture
async def repository(work: Path, tmp_path: Path, environ: dict[str, str]) -> Repository:
    checkout = await Checkout.find(work, environ)
    return await Repository.open(tmp_path / "state" / "repo.git", checkout, "origin")


@pytest.fixture
async def tree(repository: Repository) -> str:
    """The tree of FILES."""
    return await repository.tree_of(await repository.fetch("main"))


def git(folder: Path, *args: str, stdin: str | None = None) -> str:
    done = subprocess.run(["git", "-C", folder, *args], check=True, capture_output=True, text=True, input=stdin)
    return done.stdout.strip()


def commit(folder: Path, message: str) -> str:
    git(folder, "commit", "-q", "--allow-empty", "-m", message)
    return git(folder, "rev-parse", "HEAD")


# Fetching


async def test_a_fetch_brings_what_the_remote_has_now(repository: Repository, work: Path, tmp_path: Path) -> None:
    """The base is the remote's tip, not what the checkout last saw; gone branches go."""
    first = await repository.fetch("main")
    other = tmp_path / "other"
    git(tmp_path, "clone", "-q", str(tmp_path / "remote.git"), str(other))
    git(other, "config", "user.name", "x")
    git(other, "config", "user.email", "x@y")
    newer = commit(other, "Newer")
    git(other, "push", "-q", "origin", "main", "main:taskyard/r1")
    assert git(work, "rev-parse", "origin/main") == first
    assert await repository.fetch("main") == newer
    assert await repository.remote_branches("taskyard/") == {"taskyard/r1": newer}
    git(other, "push", "-q", "origin", ":taskyard/r1", "main:taskyard/r1/deeper")
    await repository.fetch("main")
    assert list(await repository.remote_branches("")) == ["main", "taskyard/r1/deeper"]


async def test_a_missing_target_names_the_branches_there_are(repository: Repository) -> None:
    """A typo in `target` is told with what could be meant."""
    with pytest.raises(EnvironmentFault, match=r"no branch 'mian'\. It has: main\."):
        await repository.fetch("mian")


async def test_a_remote_that_can_t_be_reached_is_told(repository: Repository, work: Path, tmp_path: Path) -> None:
    """The message holds the place and git's own words, never a password."""
    git(work, "remote", "set-url", "origin", str(tmp_path / "gone.git"))
    gone = await Repository.open(tmp_path / "state" / "repo.git", repository.checkout, "origin")
    with pytest.raises(EnvironmentFault, match=r"gone\.git\) can't be read: .*does not appear to be a git repository"):
        await gone.fetch("main")


async def test_a_shallow_checkout_is_no_hindrance(
    repository: Repository, work: Path, tmp_path: Path, environ: dict[str, str]
) -> None:
    """What the checkout lacks comes from the remote."""
    commit(work, "Second")
    git(work, "push", "-q", "origin", "main")
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=1", (tmp_path / "remote.git").as_uri(), str(shallow))
    checkout = await Checkout.find(shallow, environ)
    own = await Repository.open(tmp_path / "own.git", checkout, "origin")
    tip = await own.fetch("main")
    assert [entry.subject for entry in await own.log(tip, None)] == ["First", "Second"]
    assert await own.local_only("main") == ()
    assert repository.bare.git_dir != own.bare.git_dir


async def test_local_commits_that_the_remote_lacks_are_listed(repository: Repository, work: Path) -> None:
    """They would be lost from the base, so they are named; a branch that is behind is fine."""
    await repository.fetch("main")
    assert await repository.local_only("main") == ()
    second = commit(work, "Only here")
    await repository.fetch("main")
    assert await repository.local_only("main") == (f"{second[:7]} Only here",)
    assert await repository.local_only("nobranch") == ()


async def test_a_revision_of_the_checkout_is_taken_over(repository: Repository, work: Path) -> None:
    """--base takes what the user's git knows: HEAD, tags, short ids, a commit on no branch."""
    await repository.fetch("main")
    head = git(work, "rev-parse", "HEAD")
    git(work, "checkout", "-q", "--detach")
    loose = commit(work, "Detached")
    git(work, "tag", "-a", "v1", "-m", "tag", head)
    assert await repository.resolve("HEAD") == loose
    assert await repository.tree_of(loose) == await repository.tree_of(head)
    for rev in ("origin/main", "v1", head[:8], "HEAD~1"):
        assert await repository.resolve(rev) == head
    for rev in ("nothing", "", "--all", "-D", "HEAD\0", "v1:README.md"):
        assert await repository.resolve(rev) is None


# Opening


async def test_opening_again_restores_our_configuration(repository: Repository) -> None:
    """Whatever wrote into the configuration of the bare repository, the next start undoes it; stale locks go."""
    config = repository.bare.git_dir / "config"
    ours = config.read_text()
    config.write_text(ours + "[core]\n\tfsmonitor = /bin/evil\n")
    stale = repository.bare.git_dir / "refs" / "taskyard" / "x.lock"
    stale.parent.mkdir(parents=True)
    stale.touch()
    os.utime(stale, (0, 0))
    fresh = stale.with_name("y.lock")
    fresh.touch()
    again = await Repository.open(repository.bare.git_dir, repository.checkout, "origin")
    assert config.read_text() == ours
    assert not stale.exists()
    assert fresh.exists()  # may be another process's
    assert await again.fetch("main")


async def test_a_foreign_folder_is_not_overwritten(repository: Repository, tmp_path: Path) -> None:
    """Where something else lies, nothing is deleted."""
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "precious").write_text("x")
    with pytest.raises(GitError, match="is no git repository"):
        await Repository.open(tmp_path / "taken", repository.checkout, "origin")
    assert (tmp_path / "taken" / "precious").read_text() == "x"


async def test_a_sha256_repository_works(tmp_path: Path, environ: dict[str, str]) -> None:
    """The bare repository has the object format of the checkout."""
    remote, work = tmp_path / "r.git", tmp_path / "w"
    git(tmp_path, "init", "-q", "--bare", "--object-format=sha256", "-b", "main", str(remote))
    git(tmp_path, "init", "-q", "--object-format=sha256", "-b", "main", str(work))
    git(work, "config", "user.name", "x")
    git(work, "config", "user.email", "x@y")
    commit(work, "First")
    git(work, "remote", "add", "origin", str(remote))
    git(work, "push", "-q", "origin", "main")
    repository = await Repository.open(tmp_path / "repo.git", await Checkout.find(work, environ), "origin")
    base = await repository.tree_of(await repository.fetch("main"))
    one = await repository.replace(base, {"one": b"1"})
    two = await repository.replace(base, {"two": b"2"})
    merged = await repository.merge(base, one, two)
    assert merged.tree == await repository.replace(one, {"two": b"2"})


# History


async def test_a_commit_says_who_and_when(repository: Repository, tree: str) -> None:
    """Author and committer are the user at the given second, in UTC; the message is word for word."""
    made = await repository.commit(tree, [], "Tü\n\n# kept\n\nTask-Id: T1\n", identity=ME, when=1_700_000_000.9)
    raw = git(repository.bare.git_dir, "cat-file", "commit", made)
    assert "author Ada L <ada@example.org> 1700000000 +0000" in raw
    assert "committer Ada L <ada@example.org> 1700000000 +0000" in raw
    assert raw.endswith("Tü\n\n# kept\n\nTask-Id: T1")
    assert made == await repository.commit(tree, [], "Tü\n\n# kept\n\nTask-Id: T1\n", identity=ME, when=1_700_000_000)


async def test_the_log_is_oldest_first_with_trailers(repository: Repository, tree: str) -> None:
    """Folded values are one line; text that only looks like a trailer is none; odd messages don't shift fields."""
    base = await repository.commit(tree, [], "Base", identity=ME, when=0)
    odd = "Sub\x1fject: x\n\nTask-Id: not a trailer\n\nmore\x01 text\n\nTask-Id: T 1\nNote: a\n b\n"
    one = await repository.commit(tree, [base], odd, identity=ME, when=5)
    empty = await repository.commit(tree, [one], "", identity=ME, when=1)
    tip = await repository.commit(tree, [empty, base], "Tip\n\nTask-Id: T2\n", identity=ME, when=0)
    log = await repository.log(tip, base)
    assert [entry.id for entry in log] == [one, empty, tip]
    assert log[0].trailers == {"Task-Id": "T 1", "Note": "a b"}
    assert log[0].message == odd
    assert (log[1].subject, log[1].trailers, log[1].tree) == ("", {}, tree)
    assert log[2].parents == (empty, base)
    assert await repository.log(base, base) == ()


async def test_trailers_are_found_in_a_history(repository: Repository, tree: str) -> None:
    """The newest commit of a value wins; `since` cuts."""
    parent: list[str] = []
    made = []
    for number, key in enumerate(["k1", "k2", "k1"]):
        made.append(await repository.commit(tree, parent, f"x\n\nTask-Key: {key}\n", identity=ME, when=number))
        parent = [made[-1]]
    assert await repository.trailers(made[2], "Task-Key") == {"k1": made[2], "k2": made[1]}
    assert await repository.trailers(made[2], "Task-Key", since=made[1]) == {"k1": made[2]}
    assert await repository.trailers(made[2], "task-key", since=made[2]) == {}
    with pytest.raises(GitError, match="can't be the key of a trailer"):
        await repository.trailers(made[2], "a)%H(")


# Trees

NEWLINE = "dir/with\nnewline"


async def test_files_are_replaced_added_and_removed(repository: Repository, tree: str) -> None:
    """Modes stay, names may be anything, a file may take a folder's place."""
    changes = {"run.sh": b"new\r\n", NEWLINE: b"x", "-dash": b"", "src/a.py": None, "src/b.py": None, "src": b"file"}
    new = await repository.replace(tree, changes, modes={"-dash": "100755"})
    files = {file.path: (file.mode, file.size) for file in await repository.files(new)}
    assert files == {
        "-dash": ("100755", 0),
        "README.md": ("100644", len(FILES["README.md"][0])),
        NEWLINE: ("100644", 1),
        "run.sh": ("100755", 5),
        "src": ("100644", 4),
    }
    assert await repository.read(new, "run.sh") == b"new\r\n"
    assert await repository.read(new, NEWLINE) == b"x"
    assert await repository.read(new, "-dash") == b""
    assert await repository.read(new, "src/a.py") is None
    assert await repository.read(tree, "src") is None
    assert await repository.replace(new, {"src": None, "src/a.py": b"a = 1\n"}) != new


@pytest.mark.parametrize(
    "path", ["/etc/x", "../x", "a/../b", "", "a//b", "./a", ".git/config", "x/.GIT/y", "g/git~1/x"]
)
async def test_paths_that_lead_out_are_refused(repository: Repository, tree: str, path: str) -> None:
    """C05: no tree is made with a path that git could not check out safely."""
    with pytest.raises(GitError):
        await repository.replace(tree, {path: b"x"})


@pytest.mark.parametrize("name", [b"a\nb", b"a\xffb", b" a\tb "])
async def test_the_state_folder_may_have_any_name(
    work: Path, tmp_path: Path, environ: dict[str, str], name: bytes
) -> None:
    """Contents are stored and commits made whatever the folders above are called."""
    state = tmp_path / os.fsdecode(name) / "repo.git"
    repository = await Repository.open(state, await Checkout.find(work, environ), "origin")
    base = await repository.tree_of(await repository.fetch("main"))
    new = await repository.replace(base, {"one": b"1", "two": b"2"})
    made = await repository.commit(new, [], "Made", identity=ME, when=0.0)
    assert await repository.read(await repository.tree_of(made), "two") == b"2"


async def test_paths_are_restored_from_another_tree(repository: Repository, tree: str) -> None:
    """Protected paths get the base's state: changed back, brought back, or removed; the rest stays."""
    changes = {"src/a.py": b"bad", "src/b.py": None, "src/new.py": b"x", "README.md": b"mine"}
    edited = await repository.replace(tree, changes)
    restored = await repository.restore(edited, tree, ["src", "nothing"])
    assert await repository.changed(tree, restored) == (Change("README.md", "M", "100644", "100644"),)
    assert await repository.restore(edited, tree, ["src/new.py"]) == await repository.replace(
        edited, {"src/new.py": None}
    )


async def test_changes_name_kind_and_modes(repository: Repository, tree: str) -> None:
    """A rename is a removal and an addition."""
    new = await repository.replace(tree, {"src/a.py": None, "src/c.py": b"a = 1\n", "src/b.py": b"b = 2\n"})
    assert await repository.changed(tree, new) == (
        Change("src/a.py", "D", "100644", "000000"),
        Change("src/b.py", "M", "100644", "100644"),
        Change("src/c.py", "A", "000000", "100644"),
    )
    diff = await repository.diff(tree, new)
    assert b"-b = 1\n+b = 2\n" in diff
    assert b"rename" not in diff
    assert await repository.diff(tree, tree) == b""


# Kept refs


async def test_any_task_id_is_a_legal_name(repository: Repository, tree: str) -> None:
    """H05: ids with '/', spaces, dots or capitals keep apart; an id and one below it are both kept."""
    names = ["T1", "t1", "T1/a", "T1/a/b", "../x", "a b\nc", "é" * 200, "-D"]
    for name in names:
        await repository.keep(name, await repository.replace(tree, {"x": name.encode()}))
    for name in names:
        kept = await repository.ref(name)
        assert kept is not None
        assert await repository.read(kept, "x") == name.encode()
    assert await repository.ref("T2") is None


async def test_hundreds_of_tasks_may_commit_at_once(repository: Repository, tree: str) -> None:
    """Every commit is kept; no lock of git's is ever in the way. Of those who move one name, one wins."""

    async def task(number: int) -> tuple[str, bool]:
        new = await repository.replace(tree, {f"f{number}": b"1"})
        made = await repository.commit(new, [], f"{number}", identity=ME, when=0)
        await repository.keep(f"task/{number}", made)
        return made, await repository.move("tip", made, None)

    done = await asyncio.gather(*(task(number) for number in range(60)))
    assert [await repository.ref(f"task/{number}") for number in range(60)] == [made for made, _ in done]
    assert [made for made, won in done if won] == [await repository.ref("tip")]


async def test_a_name_moves_only_from_where_it_was_seen(repository: Repository, tree: str) -> None:
    """Compare and swap."""
    other = await repository.replace(tree, {"x": b"1"})
    assert await repository.move("tip", tree, None)
    assert not await repository.move("tip", other, None)
    assert not await repository.move("tip", tree, other)
    assert await repository.move("tip", other, tree)
    assert await repository.ref("tip") == other
    with pytest.raises(GitError):
        await repository.move("tip", "1" * 40, other)


# Merging


async def test_changes_on_both_sides_are_merged(repository: Repository, tree: str) -> None:
    """Disjoint files and far lines of one file; trivial cases give the side that changed."""
    ours = await repository.replace(tree, {"README.md": FILES["README.md"][0].replace(b"one", b"ONE"), "new": b"1"})
    theirs = await repository.replace(
        tree, {"README.md": FILES["README.md"][0].replace(b"nine", b"NINE"), "run.sh": None}
    )
    merged = await repository.merge(tree, ours, theirs)
    assert merged.conflicts == ()
    assert merged.tree is not None
    assert await repository.read(merged.tree, "README.md") == b"ONE\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nNINE\n"
    assert [file.path for file in await repository.files(merged.tree)] == ["README.md", "new", "src/a.py", "src/b.py"]
    assert (await repository.merge(tree, tree, theirs)).tree == theirs
    assert (await repository.merge(tree, ours, tree)).tree == ours
    assert (await repository.merge(tree, ours, ours)).tree == ours


async def test_a_conflict_shows_its_lines_and_is_bounded(repository: Repository, tree: str) -> None:
    """The text goes into the next prompt: both versions, labelled, the same every time, never more than 4 KB."""
    ours = await repository.replace(tree, {"README.md": b"one\nOURS\nthree\n", "big": b"a" * 9000 + b"\n"})
    theirs = await repository.replace(tree, {"README.md": b"one\nTHEIRS\nthree\n", "big": b"b" * 9000 + b"\n"})
    merged = await repository.merge(tree, ours, theirs)
    assert merged.tree is None
    texts = {conflict.path: conflict.text for conflict in merged.conflicts}
    assert "<<<<<<< ours\nOURS\n" in texts["README.md"]
    assert "=======\nTHEIRS\n>>>>>>> theirs\n" in texts["README.md"]
    assert len(texts["big"]) < 4200
    assert await repository.merge(tree, ours, theirs) == merged


async def test_conflicts_without_lines_say_what_happened(repository: Repository, tree: str) -> None:
    """Changed here and removed there, a file against a folder, a binary file: each is a conflict with git's words."""
    ours = await repository.replace(tree, {"src/a.py": b"a = 2\n", "both": b"\0a", "x/y": b"1"})
    theirs = await repository.replace(tree, {"src/a.py": None, "both": b"\0b", "x": b"file"})
    texts = {conflict.path: conflict.text for conflict in (await repository.merge(tree, ours, theirs)).conflicts}
    assert texts["src/a.py"].startswith("CONFLICT (modify/delete): src/a.py deleted in theirs and modified in ours")
    assert "CONFLICT" in texts["both"]
    assert "CONFLICT (file/directory)" in texts["x"]


async def test_symbolic_links_that_differ_conflict(repository: Repository, tree: str) -> None:
    """A link is never merged as text."""
    link = {"link": "120000"}
    base = await repository.replace(tree, {"link": b"a"}, modes=link)
    ours = await repository.replace(tree, {"link": b"b"}, modes=link)
    theirs = await repository.replace(tree, {"link": b"c"}, modes=link)
    merged = await repository.merge(base, ours, theirs)
    assert merged.tree is None
    assert [conflict.path for conflict in merged.conflicts] == ["link"]


async def test_attributes_of_the_tree_have_no_say_in_a_merge(
    repository: Repository, tree: str, work: Path, tmp_path: Path
) -> None:
    """`merge=union` would hide a conflict and a merge driver would run a command: neither happens, nor in diffs."""
    canary = tmp_path / "canary"
    for key in ("merge.evil.driver", "diff.evil.command", "diff.evil.textconv", "filter.evil.clean"):
        git(work, "config", key, f"touch {canary}")
    for rule in ("merge=union", "merge=evil diff=evil filter=evil"):
        base = await repository.replace(tree, {".gitattributes": f"* {rule}\n".encode()})
        ours = await repository.replace(base, {"src/a.py": b"a = 2\n"})
        theirs = await repository.replace(base, {"src/a.py": b"a = 3\n"})
        assert (await repository.merge(base, ours, theirs)).tree is None
        assert b"+a = 3" in await repository.diff(base, theirs)
    assert not canary.exists()
