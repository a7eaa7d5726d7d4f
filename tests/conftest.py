"""Somebody's repository, with its remote, a practice server and the real command line."""

import asyncio
import functools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from taskyard.services.checks import choose_sandbox
from taskyard.services.config import SandboxSettings
from taskyard.services.errors import EnvironmentFault
from taskyard.services.practice import PracticeServer, Reply, project
from taskyard.services.practice.model import answer
from taskyard.services.repo import Identity, scaffold
from taskyard.tui.cli import invoke

COMMAND = (sys.executable, "-c", "from taskyard.tui.cli import main; main()")
SETTINGS = """\
[checks]
sound = "test ! -e broken"
"""
_KEPT = {"PATH", "LANG", "LC_ALL", "TMPDIR", "PYTEST_CURRENT_TEST"}
ADA = Identity("Ada L", "ada@example.org")


@functools.cache
def has_bwrap() -> bool:
    """Whether checks can be shut in on this machine. CI must have it, so there nothing is skipped or done without."""
    try:
        choose_sandbox(SandboxSettings(), unsafe_local=False, environ=os.environ)
    except EnvironmentFault:
        return bool(os.environ.get("CI"))
    return True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the sandbox itself are left out where there is none."""
    for item in items:
        if item.get_closest_marker("needs_bwrap") and not has_bwrap():
            item.add_marker(pytest.mark.skip(reason="needs bubblewrap (Debian: apt-get install bubblewrap)"))


def _completed(arguments: list[str]) -> list[str]:
    """The command line, with leave to go without a sandbox where there is none."""
    unconfined = arguments[0] in {"run", "resume"} and "--unsafe-local" not in arguments and not has_bwrap()
    return [*arguments, "--unsafe-local"] if unconfined else arguments


def _table(rows: Sequence[Sequence[str]], columns: str) -> str:
    """A board with one open task a row; a cell for each of `columns`."""
    dashes = " | ".join("---" for _ in columns.split("|"))
    lines = [f"| {' | '.join(row)} | [ ] |\n" for row in rows]
    return f"# Work\n\n| {columns} | Status |\n| {dashes} | --- |\n{''.join(lines)}"


@dataclass(frozen=True)
class Ran:
    """What one command line came to."""

    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def finished(self) -> dict[str, Any]:
        """The last event; there is no other `run_finished`."""
        assert [event["event"] for event in self.events].count("run_finished") == 1, self.err
        assert self.events[-1]["event"] == "run_finished"
        assert self.events[-1]["exit"] == self.code
        return self.events[-1]

    @property
    def counts(self) -> dict[str, int]:
        """{state: tasks} at the end."""
        return dict(self.finished["tasks"])

    def named(self, name: str, **fields: Any) -> list[dict[str, Any]]:
        """The events of a name, with these fields."""
        return [e for e in self.events if e["event"] == name and all(e[key] == fields[key] for key in fields)]

    def states(self, task: str) -> list[tuple[str, int]]:
        """(state, attempt) of a task, in order."""
        return [(event["state"], event["attempt"]) for event in self.named("task_state", task=task)]

    def detail(self, task: str) -> str:
        """What was last said about a task."""
        return str(self.named("task_state", task=task)[-1]["detail"])

    def warnings(self) -> dict[str, str]:
        """{code: message}."""
        return {event["code"]: event["message"] for event in self.named("warning")}


class Yard:
    """A repository `repo` with one commit on `main`, its remote, its state folder and its own practice server.

    ran = yard.run("--push", "none")       # the board, by the command line, in this process
    """

    def __init__(self, folder: Path, files: Mapping[str, tuple[bytes, bool]], **server: Any) -> None:
        self.folder = folder
        self.repo = folder / "repo"
        self.remote = folder / "remote.git"
        self.state = folder / "state"
        home = folder / "home"
        home.mkdir(parents=True)
        asyncio.run(scaffold(self.repo, self.remote, files, ADA, "First"))
        self.latency: Callable[[Mapping[str, Any]], float] = lambda _: 0.0
        self.asked: list[Mapping[str, Any]] = []
        """Every request that was paid for, in the server's order."""
        self.on_request: Callable[[Mapping[str, Any]], object] = lambda _: None
        """Called with each of them before it is answered."""
        self.server = PracticeServer(self._answer, latency_s=lambda body: self.latency(body), **server)
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TASKYARD_STATE": str(self.state),
            "ANTHROPIC_BASE_URL": self.server.url,
            "ANTHROPIC_API_KEY": "any",
        }
        self.invoke: Callable[[list[str]], Ran] = self.process
        self.unsafe_local = not has_bwrap()

    def _answer(self, body: Mapping[str, Any]) -> Reply:
        self.asked.append(body)
        self.on_request(body)
        return answer(body)

    def at_first_request(self, action: Callable[[], object]) -> None:
        """Do something once, before the first request is answered."""
        first = threading.Lock()
        self.on_request = lambda _: action() if first.acquire(blocking=False) else None

    @property
    def paid(self) -> int:
        """How many answers the server was paid for."""
        return sum(self.server.ledger.paid().values())

    @property
    def paid_twice(self) -> list[str]:
        """Names of requests that were paid more than once."""
        return [key for key, count in self.server.ledger.paid().items() if count > 1]

    @property
    def pushes(self) -> int:
        """The remote's own count of receive-packs."""
        counter = self.folder / "pushes"
        return counter.read_text().count("\n") if counter.exists() else 0

    def run(self, *arguments: str, board: str = "board.md") -> Ran:
        """`taskyard run BOARD --json …`."""
        return self.invoke(["run", board, "--json", *arguments])

    def resume(self, *arguments: str) -> Ran:
        """`taskyard resume --json …`."""
        return self.invoke(["resume", "--json", *arguments])

    def process(self, arguments: list[str], *, cwd: Path | None = None, **environ: str) -> Ran:
        """Any command line, in a process of its own."""
        done = self.popen(arguments, cwd=cwd, **environ)
        out, err = done.communicate(timeout=120)
        return Ran(done.returncode, out, err)

    def popen(
        self, arguments: list[str], *, prefix: tuple[str, ...] = (), cwd: Path | None = None, **environ: str
    ) -> "subprocess.Popen[str]":
        """The command line, started."""
        return subprocess.Popen(
            [*prefix, *COMMAND, *_completed(arguments)],
            cwd=cwd or self.repo,
            env={**self.environ, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def git(self, *arguments: str, at: Path | None = None, text: str | None = None) -> str:
        """What git says, in the remote unless told otherwise."""
        environ = {**self.environ, "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            ["git", *arguments], cwd=at or self.remote, env=environ, input=text, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.rstrip("\n")

    def branches(self) -> dict[str, str]:
        """{branch: commit} at the remote."""
        lines = self.git("for-each-ref", "--format=%(refname:short) %(objectname)", "refs/heads").splitlines()
        return dict(line.split(" ") for line in lines)

    def tip(self, ran: Ran) -> str:
        """The commit that a run pushed."""
        return self.branches()[f"taskyard/{ran.finished['run']}"]

    def read(self, commit: str, path: str) -> str:
        """A file of a commit at the remote."""
        return self.git("show", f"{commit}:{path}") + "\n"

    def files(self, commit: str) -> set[str]:
        """The paths of a commit at the remote."""
        return set(self.git("ls-tree", "-r", "--name-only", commit).splitlines())

    def landed(self, tip: str, base: str = "main") -> dict[str, str]:
        """{Task-Id: commit} of the commits between, oldest first."""
        form = "%H %(trailers:key=Task-Id,valueonly,separator=%x2C)"
        lines = self.git("log", "--reverse", f"--format={form}", f"{base}..{tip}").splitlines()
        return {task: commit for commit, _, task in (line.partition(" ") for line in lines) if task}

    def change(self, files: Mapping[str, str], message: str = "Change", *, push: bool = True) -> str:
        """Commit these files in the checkout, and push them; the commit."""
        for path, text in files.items():
            (self.repo / path).parent.mkdir(parents=True, exist_ok=True)
            (self.repo / path).write_text(text)
        self.git("add", "--force", "--", *files, at=self.repo)
        self.git("commit", "--quiet", "-m", message, at=self.repo)
        if push:
            self.git("-c", "core.hooksPath=/dev/null", "push", "--quiet", "origin", "main", at=self.repo)
        return self.git("rev-parse", "HEAD", at=self.repo)

    def move_main(self, files: Mapping[str, str]) -> str:
        """Somebody else puts a commit on the remote's main, without a push that counts; the commit."""
        index = {"GIT_INDEX_FILE": str(self.folder / "other-index")}
        entries = []
        for path, text in files.items():
            blob = self.git("hash-object", "-w", "--stdin", text=text)
            entries.append(f"100644 {blob}\t{path}")
        script = ["sh", "-c", "git read-tree main && git update-index --index-info && git write-tree"]
        done = subprocess.run(
            script, cwd=self.remote, env={**self.environ, **index}, input="\n".join(entries) + "\n",
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        who = ("-c", "user.name=Eve", "-c", "user.email=eve@example.org")
        commit = self.git(*who, "commit-tree", "-p", "main", "-m", "Meanwhile", done.stdout.strip())
        self.git("update-ref", "refs/heads/main", commit)
        return commit

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Return once it holds; an AssertionError after a minute."""
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end, "what was waited for did not come"
            time.sleep(0.01)

    def refuse_pushes(self, when: str = "true") -> None:
        """The remote's hook refuses while the shell condition `when` holds; it still counts what it sees."""
        self._hook(
            f"#!/bin/sh\ncat >/dev/null\necho push >>../pushes\nif {when}; then echo 'not today' >&2; exit 1; fi\n"
        )

    def accept_pushes(self) -> None:
        """The remote takes everything again."""
        self._hook("#!/bin/sh\ncat >/dev/null\necho push >>../pushes\n")

    def _hook(self, text: str) -> None:
        hook = self.remote / "hooks" / "pre-receive"
        beside = hook.with_name("new")
        beside.write_text(text)
        beside.chmod(0o755)
        beside.replace(hook)


@pytest.fixture
def creates() -> Callable[..., tuple[str, str, str]]:
    """creates("A") is the row of a task that makes the file notes/A.txt, with a check that looks for it."""

    def row(id_: str, also: str = "", *, check: str = "") -> tuple[str, str, str]:
        return id_, f"Create `notes/{id_}.txt` with `{id_}`. {also}", check or f"`grep -qx {id_} notes/{id_}.txt`"

    return row


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    """A Yard with the sample project and its board of nine; its commands run as processes."""
    yard = Yard(tmp_path_factory.mktemp("sample"), project.files())
    with yard.server:
        yield yard
    assert yard.server.crashes == ()


@pytest.fixture
def make_yard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Yard]]:
    """make_yard(*rows, columns=…, settings=…, files=…, **server): a Yard whose commands run in this process."""
    yards: list[Yard] = []

    def make(
        *rows: Sequence[str], columns: str = "ID | Scope | Verification", settings: str = "",
        files: Mapping[str, str] | None = None, **server: Any,
    ) -> Yard:  # fmt: skip
        contents = {"board.md": _table(rows, columns), "taskyard.toml": SETTINGS + settings, **(files or {})}
        folder = tmp_path / f"yard{len(yards)}"
        yard = Yard(folder, {path: (text.encode(), False) for path, text in contents.items()}, **server)
        yards.append(yard)
        yard.server.start()

        def here(arguments: list[str], **environ: str) -> Ran:
            with monkeypatch.context() as patch:
                for name in [name for name in os.environ if name not in _KEPT]:
                    patch.delenv(name)
                for name, value in (yard.environ | environ).items():
                    patch.setenv(name, value)
                patch.chdir(yard.repo)
                capfd.readouterr()
                code = invoke(_completed(arguments))
                return Ran(code, *capfd.readouterr())

        yard.invoke = here
        return yard

    yield make
    for yard in yards:
        yard.server.close()
        assert yard.server.crashes == ()
