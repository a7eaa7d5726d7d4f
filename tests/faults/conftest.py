"""A run that dies, and what is left of it: every part is a process of its own, and this one only looks."""

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from taskyard.services.board import tick
from taskyard.services.config import folders
from taskyard.services.database import Connection, Database
from taskyard.services.history.archive import read as read_archive
from taskyard.services.repo import Checkout, Identity, Repository, scaffold
from taskyard.services.run.compose import MIGRATIONS

TASKS = ("K-1", "K-2", "K-3", "K-4")
OTHER = "rother"
"""Another run in the same state folder, which nobody may touch."""
BOARD = """\
# Words and numbers

| ID | Scope | Status | Depends on | Verification |
|----|-------|--------|------------|--------------|
| K-1 | Append `delta` to `words.txt`. (fails without the lesson `delta is`) | [ ] | | `sh has.sh delta words.txt` |
| K-2 | Replace `two` with `zwei` in `numbers.txt`. | [ ] | | `sh has.sh zwei numbers.txt` |
| K-3 | Replace `three` with `drei` in `numbers.txt`. | [ ] | | `sh has.sh drei numbers.txt` |
| K-4 | Create `more.txt` with `vier`. | [ ] | K-2 | `sh has.sh vier more.txt` |
"""
SETTINGS = """\
[models]
planner = "practice"
implementer = "practice"
judge = "practice"

[checks]
numbers = "sh has.sh one numbers.txt"
"""
FILES = {
    "board.md": BOARD,
    "taskyard.toml": SETTINGS,
    "words.txt": "alpha\nbeta\ngamma\n",
    "numbers.txt": "one\ntwo\nthree\nfour\n",
    "has.sh": 'grep -qx "$1" "$2" || { echo "$1 is missing in $2"; exit 1; }\n',
}
MOVING_HOOK = """\
#!/bin/sh
cat >/dev/null
if [ ! -e ../moved ]; then
  touch ../moved
  unset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES
  exec git update-ref refs/heads/main refs/next
fi
echo push >>../pushes
"""
SMALL_HISTORY = "\n[history]\nmax_entries = 4\n"
PROGRAM = "from taskyard.tui.cli import main\nmain()"
TRACED = f"""
import os
from taskyard.services import fault
passed, out = fault.point, os.open(os.environ["TRACE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def point(name):
    os.write(out, f"{{name}}\\n".encode())
    passed(name)
fault.point = point
{PROGRAM}
"""
LIFE_S = 300


class Life(NamedTuple):
    """One process of the program, from its start to its end."""

    code: int
    events: list[dict[str, Any]]
    err: str

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL

    @property
    def finished(self) -> dict[str, Any]:
        """The last event, which must be `run_finished`."""
        assert self.events, f"exit {self.code}: {self.err}"
        assert self.events[-1]["event"] == "run_finished", self.events[-1]
        return self.events[-1]


class Server:
    """The practice server as a process, and its own count of what it was paid."""

    def __init__(self, ledger: Path, latency_s: float) -> None:
        command = [sys.executable, "-m", "taskyard.services.practice", "--ledger", str(ledger)]
        self._ledger = ledger
        self._process = subprocess.Popen(
            [*command, "--latency", str(latency_s)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()

    def paid(self) -> Counter[str]:
        """How often each request was paid, by the name that the server gives it."""
        lines = self._ledger.read_text().splitlines() if self._ledger.exists() else []
        return Counter(json.loads(line)["payment"]["key"] for line in lines)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()


class Stage:
    """A repository with a board, its remote, a state folder with another run in it, and a server.

    kind: `plain`; `fresh` has an empty state folder; `edited` a board with uncommitted changes; `history` a history
    that is nearly full; `target` pushes to main, where somebody else pushes a moment before.
    """

    def __init__(self, folder: Path, kind: str, latency_s: float) -> None:
        self.folder, self.kind = folder, kind
        self.repo, self.remote = folder / "repo", folder / "remote.git"
        files = {path: (text.encode(), False) for path, text in FILES.items()}
        if kind == "history":
            files["taskyard.toml"] = ((SETTINGS + SMALL_HISTORY).encode(), False)
        asyncio.run(scaffold(self.repo, self.remote, files, Identity("You", "you@example.org"), "A start"))
        self.server = Server(folder / "ledger.jsonl", latency_s)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("TASKYARD_", "ANTHROPIC_", "GIT_"))}
        self.environ = kept | {
            "TASKYARD_STATE": str(folder / "state"),
            "ANTHROPIC_BASE_URL": self.server.url,
            "ANTHROPIC_API_KEY": "practice",
            "GIT_OPTIONAL_LOCKS": "0",
        }
        self.state = folders(self.repo, self.environ).state
        self.database = self.state / "taskyard.db"
        if kind != "fresh":
            asyncio.run(self._another_run())
        if kind == "edited":
            (self.repo / "board.md").write_text(f"{BOARD}\nTo be done by Friday.\n")
        if kind == "target":
            self._let_main_move()
        self._others, self._checkout = self.others(), self.checkout()

    def hurry(self) -> None:
        """From now on the server answers at once: another process, at another address, with the same ledger."""
        self.server.close()
        self.server = Server(self.folder / "ledger.jsonl", 0.0)
        self.environ["ANTHROPIC_BASE_URL"] = self.server.url

    def close(self) -> None:
        self.server.close()
        shutil.rmtree(self.folder)

    # What is done to it

    def start(
        self, *arguments: str, fault: str = "", trace: Path | None = None, flags: tuple[str, ...] = ()
    ) -> "subprocess.Popen[str]":
        """Start the program in a process group of its own. fault: `point:n`, where it kills itself."""
        program = TRACED if trace else PROGRAM
        if self.kind == "target":
            flags = (*flags, "--push", "target")
        environ = self.environ | ({"TASKYARD_FAULT": fault} if fault else {}) | ({"TRACE": str(trace)} if trace else {})
        return subprocess.Popen(
            [sys.executable, "-c", program, *arguments, "--headless", "--json", "--unsafe-local", *flags],
            cwd=self.repo, env=environ, start_new_session=True, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def life(self, *arguments: str, kill_after_s: float | None = None, **options: Any) -> Life:
        """One process to its end; or (kill_after_s) until SIGKILL ends its group."""
        with self.start(*arguments, **options) as process:
            try:
                out, err = process.communicate(timeout=LIFE_S if kill_after_s is None else kill_after_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, err = process.communicate(timeout=LIFE_S)
                assert kill_after_s is not None, f"not done after {LIFE_S} s: {err}"
        whole = out[: out.rfind("\n") + 1]  # a process that is killed may leave half a line
        return Life(process.returncode, [json.loads(line) for line in whole.splitlines()], err)

    def carry_on(self, **options: Any) -> Life:
        """Resume; where the last life died before there was a run, resume says so, and the run is started again."""
        life = self.life("resume", **options)
        if life.code != 2 or self.run_row() is not None:
            return life
        assert (life.events, "nothing has run here yet" in life.err or OTHER in life.err) == ([], True), life.err
        return self.life("run", "board.md", **options)

    # What is left of it

    def git(self, *arguments: str, folder: Path | None = None) -> str:
        command = ["git", *arguments]
        done = subprocess.run(
            command, cwd=folder or self.remote, env=self.environ, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def rows(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """What a query of the database gives; nothing when there is no such table yet."""
        try:
            connection = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)
        except sqlite3.OperationalError:
            return []
        try:
            return connection.execute(sql, values).fetchall()
        except sqlite3.OperationalError:
            return []
        finally:
            connection.close()

    def run_row(self) -> tuple[str, str, int | None] | None:
        """Id, state and exit code of the run."""
        rows = self.rows("select id, state, exit from run where id != ?", OTHER)
        assert len(rows) < 2, rows
        return rows[0] if rows else None

    def pushes(self) -> int:
        """The remote's own count of receive-packs."""
        counter = self.folder / "pushes"
        return len(counter.read_text().splitlines()) if counter.exists() else 0

    def others(self) -> dict[str, Any]:
        """All that belongs to the other run."""
        tables = self.rows("select m.name from sqlite_master m, pragma_table_info(m.name) c where c.name = 'run'")
        if self.kind == "history":
            tables.remove(("attempt_record",))
        found: dict[str, Any] = {
            table: self.rows(f"select * from {table} where run = ?", OTHER) for (table,) in sorted(tables)
        }
        branches = self.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads").splitlines()
        own = self.state / "repository.git"
        kept = self.git("for-each-ref", "refs/taskyard", folder=own) if own.exists() else ""
        mine = (self.run_row() or ("",))[0]
        own_branch = "refs/heads/main " if self.kind == "target" else f"refs/heads/taskyard/{mine} "
        found["branches"] = [line for line in branches if not line.startswith(own_branch)]
        found["kept"] = [line for line in kept.splitlines() if OTHER in line]
        found["run"] = self.rows("select * from run where id = ?", OTHER)
        return {name: value for name, value in found.items() if value}

    def checkout(self) -> dict[str, object]:
        """All that belongs to the user."""
        git = self.repo / ".git"
        status = self.git("status", "--porcelain", "--untracked-files=all", folder=self.repo).splitlines()
        return {
            "HEAD": (git / "HEAD").read_bytes(),
            "index": (git / "index").read_bytes(),
            "config": (git / "config").read_bytes(),
            "refs": self.git("for-each-ref", folder=self.repo),
            "status": [line for line in status if not line.endswith(" .taskyard/lessons.jsonl")],
            "files": {path: (self.repo / path).read_bytes() for path in FILES if path != "board.md"},
        }

    def _let_main_move(self) -> None:
        """Somebody else's commit comes onto the remote's main during the first push, which is so refused."""
        blob = self.git("hash-object", "-w", str(self.repo / "words.txt"))
        listed = f"{self.git('ls-tree', 'main')}\n100644 blob {blob}\tothers.txt\n"
        tree = subprocess.run(
            ["git", "mktree"], cwd=self.remote, input=listed, capture_output=True, text=True, check=True
        )
        who = ("-c", "user.name=Other", "-c", "user.email=other@example.org")
        commit = self.git(*who, "commit-tree", "-p", "main", "-m", "Another file", tree.stdout.strip())
        self.git("update-ref", "refs/next", commit)
        (self.remote / "hooks" / "pre-receive").write_text(MOVING_HOOK)

    async def _another_run(self) -> None:
        """An older run, finished but for a submission and a push whose fate nobody has asked for."""
        repository = await Repository.open(
            self.state / "repository.git", await Checkout.find(self.repo, self.environ), "origin"
        )
        base = await repository.fetch("main")
        await repository.keep(f"runs/{OTHER}/tip", base)
        self.git("update-ref", f"refs/heads/taskyard/{OTHER}", base)
        database = await Database.open(self.database, MIGRATIONS)
        await database.write(_insert_another_run)
        await database.close()

    # What must hold at the end

    def assert_same_end(self, lives: list[Life], undisturbed: dict[str, Any]) -> None:
        """The end is that of an undisturbed run, whatever happened on the way."""
        row = self.run_row()
        assert row is not None
        assert row[1:] == ("finished", 0), [(life.code, life.events[-1:], life.err) for life in lives]
        told = [event for life in lives for event in life.events if event["event"] == "warning"]
        assert not [event for event in told if event["code"] in {"internal_error", "journal_divergence"}], told
        status = subprocess.run(
            [sys.executable, "-c", PROGRAM, "status", "--json"], cwd=self.repo, env=self.environ, capture_output=True,
            check=True,
        )  # fmt: skip
        totals = json.loads(status.stdout)["totals"]
        if lives[-1].events:  # a life that died after its run was finished leaves a resume that has nothing to say
            finished = lives[-1].finished
            assert (finished["exit"], finished["tasks"]) == (0, {"merged": len(TASKS)})
            assert {name: finished[name] for name in totals if not name.endswith("_s") and name != "speedup"} == {
                name: value for name, value in totals.items() if not name.endswith("_s") and name != "speedup"
            }
        assert self.pushed(row[0]) == undisturbed
        assert totals["pushes"] == self.pushes() == 1
        self._assert_paid_once(row[0], totals)
        assert self.others() == self._others
        assert self.checkout() == self._checkout
        self._assert_lessons()
        self._assert_history(row[0])

    def pushed(self, run: str) -> dict[str, Any]:
        """What the remote holds of the run, but for what differs from run to run."""
        branch, base = f"refs/heads/taskyard/{run}", "refs/heads/main"
        if self.kind == "target":
            branch, base = "refs/heads/main", "refs/next"
            self.git("merge-base", "--is-ancestor", base, branch)
        form = "%x00".join(f"%(trailers:key={key},valueonly,separator=)" for key in ("Task-Id", "Run-Id", "Task-Key"))
        log = self.git("log", "--reverse", f"--format={form}", f"{base}..{branch}")
        commits = [line.split("\0") for line in log.splitlines()]
        assert {commit[1] for commit in commits} == {run}
        assert sorted(commit[0] for commit in commits if commit[0]) == list(TASKS)
        board = (self.repo / "board.md").read_bytes() if self.kind == "edited" else BOARD.encode()
        if self.kind == "edited":
            assert board == tick(f"{BOARD}\nTo be done by Friday.\n".encode(), TASKS)
        else:
            assert self.git("show", f"{branch}:board.md") == tick(board, TASKS).decode().strip()
        return {
            "tree": self.git("rev-parse", f"{branch}^{{tree}}"),
            "keys": sorted(commit[2] for commit in commits),
            "ticks": sum(not commit[0] for commit in commits),
        }

    def _assert_paid_once(self, run: str, totals: dict[str, Any]) -> None:
        """Ledger and server agree, and no answer that was committed was paid again."""
        paid = self.server.paid()
        states = Counter(state for (state,) in self.rows("select state from submission where run = ?", run))
        assert set(states) <= {"done", "possibly_paid"}
        assert totals["requests"]["paid"] == states["done"] <= paid.total() <= states["done"] + states["possibly_paid"]
        twice = self.rows(
            "select name from submission where run = ? and state = 'done' group by name having count(*) > 1", run
        )
        assert twice == []
        assert sum(paid.values()) - len(paid) <= states["possibly_paid"]
        late = """select a.name from submission a join submission b on a.name = b.name and a.id < b.id
            where a.run = ?1 and b.run = ?1 and a.state = 'done'"""
        assert self.rows(late, run) == []

    def _assert_lessons(self) -> None:
        """Each failure is a lesson once, its resolution a second line, and no line is torn."""
        text = (self.repo / ".taskyard" / "lessons.jsonl").read_text()
        assert text.endswith("\n")
        lines = [json.loads(line) for line in text.splitlines()]
        assert {line["times_seen"] for line in lines} == {1}
        assert sorted(line["failure_type"] for line in lines if not line["resolution"]) == ["check_failed", "conflict"]
        assert Counter(line["id"] for line in lines).most_common(1)[0][1] <= 2

    def _assert_history(self, run: str) -> None:
        """Every attempt is on record, or in the archive if it was pruned."""
        archived = [record for file in (self.state / "archive").glob("*.zst") for record in read_archive(file)]
        found = {(r.task, r.attempt): r.status for r in archived if r.run == run}
        rows = self.rows("select task, attempt, status from attempt_record where run = ?", run)
        found |= {(task, attempt): status for task, attempt, status in rows}
        assert Counter(found.values()) == {"merged": len(TASKS), "failed": 2}
        if self.kind == "history":
            others = self.rows("select task, attempt from attempt_record where run = ?", OTHER)
            others += [(r.task, r.attempt) for r in archived if r.run == OTHER]
            assert set(others) == {("X", 1), ("X", 2), ("X", 3)}


def _insert_another_run(connection: Connection) -> None:
    for statement in (
        "insert into run values ('rother', 'other.md', x'', '', '{}', 'finished', 0, null, 1.0, 2.0)",
        "insert into journal values ('rother', 'K-1', 1, 0, 'answer', 'abc', x'7b7d')",
        "insert into task_state values ('rother', 'K-1', 'merged', 1, null, 0)",
        """insert into push (run, ref, new, state, at)
            values ('rother', 'refs/heads/taskyard/rother', 'x', 'pushing', 1.0)""",
        """insert into submission (name, run, task, attempt, turn, role, model, lane, state, started_at)
            values ('n', 'rother', 'K-1', 1, 1, 'planner', 'practice', 'live', 'submitting', 1.0)""",
        *(
            f"""insert into attempt_record
                (run, task, attempt, status, start, end, output, error, metrics, written, version)
                values ('rother', 'X', {number}, 'merged', 1.0, unixepoch() - {number}, '', '', '{{}}', 1.0, 1)"""
            for number in (1, 2, 3)
        ),
    ):
        connection.execute(statement)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    """Makes stages: `stage("plain", latency_s=0.0)`."""
    made: list[Stage] = []

    def make(kind: str = "plain", latency_s: float = 0.0) -> Stage:
        made.append(Stage(tmp_path / f"stage-{len(made)}", kind, latency_s))
        return made[-1]

    yield make
    for one in made:
        one.close()


class Undisturbed(NamedTuple):
    """A run that nobody disturbed."""

    pushed: dict[str, Any]
    passes: Counter[str]
    """How often it passed each point."""
    seconds: float
    """From the start of its process to the end of it."""


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Undisturbed]:
    """What a run of a kind of stage comes to when nobody disturbs it; each kind is run once."""
    known: dict[str, Undisturbed] = {}

    def find(kind: str) -> Undisturbed:
        if kind not in known:
            folder = tmp_path_factory.mktemp(kind) / "stage"
            scene = Stage(folder, kind, 0.0)
            began = time.monotonic()
            life = scene.life("run", "board.md", trace=folder / "trace")
            seconds = time.monotonic() - began
            assert life.code == 0, (life.events[-3:], life.err)
            pushed = scene.pushed(life.finished["run"])
            scene.assert_same_end([life], pushed)
            passes = Counter((folder / "trace").read_text().splitlines())
            known[kind] = Undisturbed(pushed, passes, seconds)
            scene.close()
        return known[kind]

    return find
