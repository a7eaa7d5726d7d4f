"""Limits of a command's processes, set by the words before it."""

import os
import platform
import resource
import shutil

import msgspec

from taskyard.services.config import SandboxSettings

_NPROC_KERNEL = (5, 14)
"""Since then RLIMIT_NPROC counts per user namespace; before, it counted everything the user runs on the machine."""


class Limits(msgspec.Struct, frozen=True):
    """Bytes and counts; None is no limit.

    limits = Limits.of(settings.sandbox, contained=True)
    argv = (*limits.prefix(), "/bin/sh", "-c", command)

    Memory is RLIMIT_DATA, for each process: RLIMIT_AS would also count what Node, Go and Java merely reserve. The count
    of processes needs a user namespace of its own, and the kernel does not hold the machine's root to it.
    """

    data: int | None
    processes: int | None
    file_size: int | None
    prlimit: str | None
    """Path of util-linux's prlimit; None where there is none, and the shell's `ulimit` does."""

    @classmethod
    def of(cls, settings: SandboxSettings, *, contained: bool) -> "Limits":
        """The settings, lowered to the hard limits this process itself is under (it could not raise those)."""
        counted = contained and _kernel() >= _NPROC_KERNEL
        return cls(
            data=_at_most(settings.memory, resource.RLIMIT_DATA),
            processes=_at_most(settings.processes, resource.RLIMIT_NPROC) if counted else None,
            file_size=_at_most(settings.file_size, resource.RLIMIT_FSIZE),
            prlimit=shutil.which("prlimit", path="/usr/bin:/bin" if contained else os.defpath),
        )

    def prefix(self) -> tuple[str, ...]:
        """The words before a command that set its limits, and forbid core dumps."""
        if self.prlimit is not None:
            options = [("data", self.data), ("nproc", self.processes), ("fsize", self.file_size), ("core", 0)]
            return (self.prlimit, *(f"--{name}={value}" for name, value in options if value is not None), "--")
        blocks = [] if self.file_size is None else [f"ulimit -f {self.file_size // 512}"]
        kilobytes = [] if self.data is None else [f"ulimit -d {self.data // 1024}"]
        script = "; ".join(f"{word} 2>/dev/null" for word in ["ulimit -c 0", *blocks, *kilobytes])
        return ("/bin/sh", "-c", f'{script}; exec "$@"', "sh")


def _at_most(value: int, limit: int) -> int:
    hard = resource.getrlimit(limit)[1]
    return value if hard == resource.RLIM_INFINITY else min(value, hard)


def _kernel() -> tuple[int, int]:
    """(major, minor) of the running kernel."""
    major, minor = platform.release().split(".")[:2]
    digits = "".join(character for character in minor if character.isdigit())
    return (int(major), int(digits or "0"))
