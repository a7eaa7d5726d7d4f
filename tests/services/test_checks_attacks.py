"""What a hostile check tries has no effect outside its sandbox. Needs a working bubblewrap: `.ci/run` installs it."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from taskyard.services.checks import LocalRunner, choose_sandbox
from taskyard.services.clock import SystemClock
from taskyard.services.config import SandboxSettings
from taskyard.services.records import Check, CheckResult

pytestmark = pytest.mark.needs_bwrap

CANARY = "canary-7f3a"


class Yard(msgspec.Struct, frozen=True):
    """A home folder with secrets, a checkout, two worktrees, and what may be attacked."""

    root: Path
    home: Path
    tree: Path
    environ: dict[str, str]

    async def attack(self, command: str, **settings: object) -> CheckResult:
        sandbox = choose_sandbox(SandboxSettings(**settings), unsafe_local=False, environ=self.environ)  # type: ignore[arg-type]
        runner = LocalRunner(sandbox, SystemClock())
        return await runner.run(Check("attack", command, timeout_s=60), tree="0" * 40, folder=self.tree)


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    root = tmp_path.resolve()
    tree, home = root / "worktrees" / "1", root / "home"
    for folder in (tree, root / "worktrees" / "2", home / ".ssh", root / "checkout" / ".git"):
        folder.mkdir(parents=True)
    for secret in (home / ".ssh" / "id", root / "checkout" / ".env", root / "worktrees" / "2" / "x", root / "victim"):
        secret.write_text(CANARY)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {**os.environ, "HOME": str(home), "PATH": path, "ANTHROPIC_API_KEY": CANARY, "SSH_AUTH_SOCK": f"{root}/s"}
    return Yard(root=root, home=home, tree=tree, environ=environ)


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the same user, outside, with a secret in its environment."""
    with subprocess.Popen(
        ["cat"], stdin=subprocess.PIPE, env={"SECRET": CANARY, "PATH": os.environ["PATH"]}
    ) as process:
        yield process
        process.kill()


@pytest.mark.parametrize(
    "command",
    [
        "echo gotcha > {root}/victim",
        "rm -rf {root}/victim {root}/checkout",
        "ln -s {root}/victim out && echo gotcha > out",
        "ln {root}/victim hard && echo gotcha > hard",
        "mkdir -p {root} && echo gotcha > {root}/new",
        "cp /bin/sh {root}/checkout/.git/hooks; echo gotcha > {root}/checkout/.git/config",
        "echo gotcha > {home}/.bashrc; echo gotcha > ~/.profile",
        "mv ../1 ../3; echo gotcha > ../2/x; rm -r ../2",
    ],
)
async def test_nothing_is_written_outside_the_worktree(yard: Yard, command: str):
    """Direct, by link, by hard link, by moving: the files outside are what they were."""
    before = snapshot(yard)
    await yard.attack(command.format(root=yard.root, home=yard.home))
    assert snapshot(yard) == before


def snapshot(yard: Yard) -> dict[str, str]:
    """All files outside the attacked worktree."""
    files = (path for path in yard.root.rglob("*") if path.is_file() and not path.is_relative_to(yard.tree))
    return {str(path): path.read_text() for path in files}


@pytest.mark.parametrize(
    "command",
    [
        "cat ~/.ssh/id {home}/.ssh/id",
        "cat {root}/checkout/.env ../2/x {root}/victim; find {root} ~ /tmp -name .env -exec cat {{}} +",
        "ln -s {home}/.ssh/id key && cat key",
        "env; cat /proc/self/environ /proc/1/environ",
        "cat /proc/*/environ | tr '\\0' '\\n'",
        "cat /proc/*/root{home}/.ssh/id /proc/1/cwd{home}/.ssh/id",
        "grep -rs canary {root} {home} /tmp /run /var /dev/shm",
    ],
)
async def test_no_secret_is_read(yard: Yard, victim: subprocess.Popen[bytes], command: str):
    """Keys, other trees, the checkout's `.env`, the environment of the machine's processes: out of reach."""
    result = await yard.attack(command.format(root=yard.root, home=yard.home))
    assert victim.poll() is None
    assert result.exit is not None
    assert CANARY not in result.output


async def test_password_hashes_are_out_of_reach(yard: Yard):
    """Of /etc only what programs need is there."""
    result = await yard.attack("ls /etc; cat /etc/shadow /etc/gshadow /etc/ssh/*")
    assert "shadow\n" not in result.output.partition("cat:")[0]
    assert result.exit != 0


@pytest.mark.parametrize("kind", ["tcp", "udp", "unix", "abstract"])
async def test_no_server_outside_hears_of_it(yard: Yard, kind: str):
    """TCP and UDP on loopback, sockets in the file system and abstract ones."""
    unix = kind in {"unix", "abstract"}
    name = {"unix": f"{yard.root}/s", "abstract": f"\0taskyard-{os.getpid()}"}.get(kind, ("127.0.0.1", 0))
    stream = socket.SOCK_DGRAM if kind == "udp" else socket.SOCK_STREAM
    with socket.socket(socket.AF_UNIX if unix else socket.AF_INET, stream) as server:
        server.bind(name)
        if kind != "udp":
            server.listen()
        server.setblocking(False)
        attack = (
            f"import socket; s = socket.socket({int(server.family)}, {int(stream)}); "
            f"s.connect({server.getsockname()!r}); s.send(b'gotcha')"
        )
        await yard.attack(f"cat > a.py <<'END'\n{attack}\nEND\npython3 a.py")
        with pytest.raises(BlockingIOError):
            server.recv(10) if kind == "udp" else server.accept()


async def test_a_check_with_network_has_it(yard: Yard):
    """The same attack succeeds when the check is allowed network: the test above can fail."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        sandbox = choose_sandbox(SandboxSettings(), unsafe_local=False, environ=yard.environ)
        command = f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'"
        check = Check("net", command, timeout_s=60, network=True)
        result = await LocalRunner(sandbox, SystemClock()).run(check, tree="0" * 40, folder=yard.tree)
        assert result.exit == 0, result.output
        server.settimeout(10)
        server.accept()[0].close()


@pytest.mark.parametrize(
    "command",
    [
        "kill -9 {pid}",
        "kill -9 -1",
        "python3 -c 'import ctypes; print(ctypes.CDLL(None).ptrace(16, {pid}, 0, 0))'; kill -STOP {pid}",
        "cat /proc/{pid}/mem; echo > /proc/{pid}/comm",
    ],
)
async def test_no_process_outside_is_touched(yard: Yard, victim: subprocess.Popen[bytes], command: str):
    """Signals and ptrace reach only the check's own processes."""
    await yard.attack(command.format(pid=victim.pid))
    assert victim.stdin is not None
    victim.stdin.write(b"still here")
    victim.stdin.close()
    assert victim.wait(timeout=10) == 0


@pytest.mark.parametrize(
    "command",
    [
        "unshare --user --map-root-user true",
        "mount -t tmpfs none /mnt",
        "umount /proc",
        "mount -o remount,rw /usr",
        'python3 -c \'import sys; open(sys.prefix + "/planted", "w")\'',
        'python3 -c \'import sys; open(sys.base_prefix + "/planted", "w")\'',
        "touch /usr/planted",
        "touch /planted",
        "touch /dev/planted",
        "mknod disk b 8 0",
        "chroot .",
        'python3 -c \'open("/proc/sys/kernel/core_pattern", "r+")\'',
        'python3 -c \'open("/proc/sys/vm/overcommit_memory", "r+")\'',
        'python3 -c \'open("/proc/sysrq-trigger", "r+")\'',
        "cat /dev/kmsg /proc/kcore",
        "test -S /var/run/docker.sock",
    ],
)
async def test_no_way_up_is_open(yard: Yard, command: str):
    """Namespaces, mounts, devices, kernel settings, toolchains: refused, also to root."""
    result = await yard.attack(command)
    assert result.exit not in {0, None}, result.output
    assert result.broken == "" or result.exit in {126, 127}


async def test_no_new_privileges_and_no_capabilities(yard: Yard):
    """A set-user-id program gives nothing."""
    result = await yard.attack("grep -E 'NoNewPrivs|CapEff|CapBnd' /proc/self/status")
    assert "NoNewPrivs:\t1" in result.output
    assert result.output.count("\t0000000000000000") == 2


async def test_memory_file_size_and_core_dumps_are_limited(yard: Yard):
    """`[sandbox]` memory and file_size hold for each process."""
    taken = await yard.attack("python3 -c 'bytearray(400_000_000)'", memory=200_000_000)
    assert "MemoryError" in taken.output
    written = await yard.attack("head -c 3000000 /dev/zero > big; ulimit -c", file_size=1_000_000)
    assert (yard.tree / "big").stat().st_size <= 1_000_000
    assert written.output.endswith("0\n")


async def test_the_count_of_processes_is_limited(yard: Yard):
    """`[sandbox]` processes is the limit the kernel is told; it holds everybody but the machine's root to it."""
    ask = "import resource; print(resource.getrlimit(resource.RLIMIT_NPROC))"
    assert (await yard.attack(f"python3 -c '{ask}'", processes=30)).output == "(30, 30)\n"
    if os.geteuid() != 0:
        result = await yard.attack("for i in $(seq 60); do sleep 30 & done; wait", processes=30)
        assert "fork" in result.output


async def test_protected_paths_of_the_worktree_can_be_read_only(yard: Yard):
    """`read_only` names files and folders that the command sees but can't change; the rest it can."""
    (yard.tree / "tests").mkdir()
    (yard.tree / "tests" / "test_a.py").write_text("ok")
    sandbox = choose_sandbox(SandboxSettings(), unsafe_local=False, environ=yard.environ)
    check = Check("c", "echo x > free; cat tests/test_a.py; echo x > tests/test_a.py; rm -rf tests", timeout_s=60)
    result = await LocalRunner(sandbox, SystemClock()).run(
        check, tree="0" * 40, folder=yard.tree, read_only=["tests", "missing", "../2", "."]
    )
    assert result.output.startswith("ok")
    assert (yard.tree / "tests" / "test_a.py").read_text() == "ok"
    assert (yard.tree / "free").exists()
