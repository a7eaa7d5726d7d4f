"""Run one command to its end, and everything it started to theirs.

The command has a session of its own; when it ends, is cancelled or runs out of time, its whole group is killed at once.
With bwrap the end of its first process ends the process namespace, whatever its children did to get away. Without it, a
process that left the group is found by a mark in its environment (Linux); one that also cleared that gets away.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from taskyard.services.checks.output import BoundedOutput
from taskyard.services.checks.sandbox import Launch

_CHUNK = 64 * 1024
_LAST_WORDS = 64
"""Chunks read after the end: what the pipe still holds is at most its size, 64 KB to 1 MB."""
_GONE_S = 5.0
_SCANS = 20


class Ending(msgspec.Struct, frozen=True):
    """How a command ended."""

    exit: int | None
    """128 + n when signal n ended it, as a shell says it; None after a time-out."""
    timed_out: bool
    started: bool
    """False when the sandbox failed before the command could start."""


async def run_to_end(launch: Launch, output: BoundedOutput, timeout_s: float) -> Ending:
    """Start the command, collect what it prints, and return once it and all its children are gone.

    Standard input is empty. Raises OSError when the program can't be started at all; a cancellation kills first.
    """
    with contextlib.ExitStack() as files:
        printed = _Pipe(files)
        status = None if launch.mark else _Pipe(files)
        process = await _start(launch, printed, status)
        printed.collect(output)
        timed_out = False
        try:
            async with asyncio.timeout(timeout_s):
                await process.wait()
        except TimeoutError:
            timed_out = True
        finally:
            _kill(process, launch.mark)
            await _gone(process, status)
            printed.drain()
        reported = status.rest() if status is not None else b""
    code = process.returncode if process.returncode is not None else -signal.SIGKILL
    return Ending(
        exit=None if timed_out else (code if code >= 0 else 128 - code),
        timed_out=timed_out,
        started=status is None or timed_out or b'"exit-code"' in reported,
    )


class _Pipe:
    """A pipe whose read end never blocks. The reader does not wait for its end: a stray child may keep it open."""

    def __init__(self, files: contextlib.ExitStack) -> None:
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        self._written = False
        self._output: BoundedOutput | None = None
        self._kept = b""
        files.callback(self._close)

    def close_write_end(self) -> None:
        if not self._written:
            self._written = True
            os.close(self.write_end)

    def collect(self, output: BoundedOutput) -> None:
        """From now on, add what arrives to `output`."""
        self._output = output
        asyncio.get_running_loop().add_reader(self.read_end, self._arrived)

    def drain(self) -> None:
        """Take what is in the pipe now, then stop reading."""
        asyncio.get_running_loop().remove_reader(self.read_end)
        for _ in range(_LAST_WORDS):
            chunk = self._read()
            if not chunk:
                return
            if self._output is not None:
                self._output.add(chunk)

    def rest(self) -> bytes:
        """All that was read so far by `rest`, and what is in the pipe now."""
        while chunk := self._read():
            self._kept += chunk
        return self._kept

    def _arrived(self) -> None:
        chunk = self._read()
        if chunk and self._output is not None:
            self._output.add(chunk)
        elif chunk is not None:
            asyncio.get_running_loop().remove_reader(self.read_end)

    def _read(self) -> bytes | None:
        """The next bytes; empty at the end, None when there are none yet."""
        try:
            return os.read(self.read_end, _CHUNK)
        except BlockingIOError:
            return None

    def _close(self) -> None:
        self.close_write_end()
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop().remove_reader(self.read_end)
        os.close(self.read_end)


def _reporting(argv: Sequence[str], descriptor: int) -> tuple[str, ...]:
    """bwrap tells on a descriptor which process it made, and the command's exit code if it could start it."""
    return (argv[0], "--json-status-fd", str(descriptor), *argv[1:])


async def _start(launch: Launch, printed: _Pipe, status: _Pipe | None) -> asyncio.subprocess.Process:
    """Start the process; a cancellation in between leaves nothing behind."""
    argv = launch.argv if status is None else _reporting(launch.argv, status.write_end)
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=printed.write_end,
            stderr=printed.write_end,
            env=launch.environ,
            cwd=launch.folder,
            start_new_session=True,
            pass_fds=() if status is None else (status.write_end,),
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with contextlib.suppress(OSError):
            process = await starting
            _kill(process, launch.mark)
            await _gone(process, status)
        raise
    finally:
        printed.close_write_end()
        if status is not None:
            status.close_write_end()


def _kill(process: asyncio.subprocess.Process, mark: str) -> None:
    """Kill the group at once and, without a process namespace, whatever bears the mark. Never waits."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    if mark and sys.platform.startswith("linux"):
        for _ in range(_SCANS):
            if not _kill_marked(os.fsencode(mark)):
                return


def _kill_marked(wanted: bytes) -> bool:
    """Kill the processes whose environment holds `wanted`; False when there was none."""
    found = False
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if wanted in (entry / "environ").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
                found = True
        except OSError:
            continue
    return found


async def _gone(process: asyncio.subprocess.Process, status: _Pipe | None) -> None:
    """Wait until the process, and with bwrap its whole process namespace, is no more.

    bwrap itself may end a moment before the namespace: a worktree laid out again at once would be written by the dead.
    """
    await process.wait()
    if status is None:
        return
    try:
        first = msgspec.json.decode(status.rest().partition(b"\n")[0], type=dict[str, int])["child-pid"]
        descriptor = os.pidfd_open(first)
    except (msgspec.DecodeError, KeyError, OSError):
        return
    loop = asyncio.get_running_loop()
    gone = asyncio.Event()
    loop.add_reader(descriptor, gone.set)
    try:
        async with asyncio.timeout(_GONE_S):
            await gone.wait()
    except TimeoutError:
        with contextlib.suppress(OSError):
            os.kill(first, signal.SIGKILL)
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
