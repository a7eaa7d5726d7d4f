"""What a sandbox is: a way to start one command, and a name for all that its outcome may hang on."""

import hashlib
import os
import platform
import pwd
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from taskyard.services.checks import environment
from taskyard.services.checks.identity import identity
from taskyard.services.checks.limits import Limits
from taskyard.services.checks.toolchains import Toolchains
from taskyard.services.errors import ConfigError


class Launch(msgspec.Struct, frozen=True):
    """How to start one command."""

    argv: tuple[str, ...]
    environ: dict[str, str]
    folder: str
    """Where the process is started."""
    mark: str
    """Text in the environment of the command and its children alone, by which stray ones are found.

    Empty when the command has a process namespace of its own, whose end ends all of it; `argv[0]` is bwrap then.
    """


class Sandbox(ABC):
    """A way to run commands; made by `choose_sandbox`, the same for a whole run.

    launch = sandbox.launch("make test", folder=worktree, network=False, read_only=(), private=empty)
    """

    kind: Literal["bwrap", "none"]
    key: str
    """Changes with the sandbox, its limits, the variables that are let through, and the toolchains. 32 hex digits."""
    toolchains: Toolchains

    @abstractmethod
    def launch(self, command: str, *, folder: Path, network: bool, read_only: Sequence[str], private: Path) -> Launch:
        """How to run a line for `sh -c` in `folder`.

        folder: real path, writable to the command. network: may reach it (without bwrap it always may).
        read_only: paths in the folder that the command may not change (without bwrap it may).
        private: an empty folder for this command alone, used where the sandbox has no temporary folder of its own.
        """


def homes(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Real paths of the home folder: by $HOME (first), and by the user database."""
    try:
        listed = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        listed = "/"
    return tuple(dict.fromkeys(Path(home).resolve() for home in (environ.get("HOME") or listed, listed)))


def readable(asked: Iterable[str], at_home: Sequence[Path]) -> tuple[str, ...]:
    """`[sandbox] read`, made absolute. Raises ConfigError for a relative path and for one that shows a home folder."""
    paths = []
    for text in asked:
        path = Path(f"{at_home[0]}{text[1:]}" if text == "~" or text.startswith("~/") else text)
        if not path.is_absolute():
            raise ConfigError(f"[sandbox] read: {text!r} is relative; write the whole path, or begin it with ~")
        real = path.resolve()
        if any(home.is_relative_to(real) for home in at_home):
            raise ConfigError(f"[sandbox] read: {text!r} would show checks the home folder; name the folders they need")
        paths.append(str(path))
    return tuple(paths)


def key(kind: str, options: Iterable[str], limits: Limits, variables: Mapping[str, str], toolchains: Toolchains) -> str:
    """The sandbox's part of a result's environment key."""
    facts = (
        kind,
        *options,
        repr(limits),
        platform.system(),
        platform.machine(),
        *sorted(f"{name}={value}" for name, value in environment.public(variables).items()),
        identity(toolchains),
    )
    return hashlib.blake2b("\0".join(facts).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
