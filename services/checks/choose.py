"""Which sandbox a run has: bubblewrap where it works, none where a person allowed that."""

import os
import platform
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from taskyard.services.checks import environment
from taskyard.services.checks.bubblewrap import Bubblewrap, working
from taskyard.services.checks.limits import Limits
from taskyard.services.checks.sandbox import Launch, Sandbox, homes, key, readable
from taskyard.services.checks.toolchains import discover
from taskyard.services.config import SandboxSettings
from taskyard.services.errors import EnvironmentFault

_INSTALL = (
    "install bubblewrap (Debian, Ubuntu: `apt install bubblewrap`; Fedora: `dnf install bubblewrap`; "
    "Arch: `pacman -S bubblewrap`), or pass --unsafe-local to run checks without a sandbox"
)


class Unconfined(Sandbox):
    """Runs commands as the user, with the same environment and the limits that work so."""

    kind = "none"

    def __init__(self, settings: SandboxSettings, environ: Mapping[str, str]) -> None:
        at_home = homes(environ)
        self.toolchains = discover(
            environ.get("PATH", os.defpath).split(":"),
            homes=at_home,
            environ=environ,
            read=readable(settings.read, at_home),
        )
        online = {**environment.proxies(environ), **environment.certificates(environ)}
        self._environ = {**online, **environment.lasting(environ, self.toolchains, settings.env)}
        self._limits = Limits.of(settings, contained=False)
        self.key = key("none", (), self._limits, self._environ, self.toolchains)

    def launch(self, command: str, *, folder: Path, network: bool, read_only: Sequence[str], private: Path) -> Launch:
        del network, read_only
        home, temporary = private / "home", private / "tmp"
        home.mkdir(exist_ok=True)
        temporary.mkdir(exist_ok=True)
        argv = (*self._limits.prefix(), "/bin/sh", "-c", command)
        environ = environment.for_one(self._environ, folder=folder, home=str(home), temporary=str(temporary))
        return Launch(argv=argv, environ=environ, folder=str(folder), mark=str(private))


def choose_sandbox(settings: SandboxSettings, *, unsafe_local: bool, environ: Mapping[str, str]) -> Sandbox:
    """The sandbox for a run. Starts bwrap to see whether it works here; takes some 50 ms.

    unsafe_local: a person allowed commands to run unconfined. Raises EnvironmentFault, which says what to do, when
    there is no working bubblewrap and no such permission; ConfigError for a bad `[sandbox] read`.
    """
    if unsafe_local:
        return Unconfined(settings, environ)
    if settings.mode == "off":
        raise EnvironmentFault(
            'the sandbox is switched off ([sandbox] mode = "off"), so checks would run unconfined, with your files and '
            'keys in reach: pass --unsafe-local to allow that, or set mode = "auto"'
        )
    if not sys.platform.startswith("linux"):
        raise EnvironmentFault(
            f"there is no sandbox for checks on {platform.system()} (bubblewrap is for Linux): pass --unsafe-local to "
            "run checks without one, on a machine where nothing can be harmed"
        )
    bwrap = shutil.which("bwrap", path=environ.get("PATH", os.defpath))
    if bwrap is None:
        raise EnvironmentFault(f"checks run in a sandbox, and bubblewrap (bwrap) is not on PATH: {_INSTALL}")
    bwrap = str(Path(bwrap).absolute())
    return Bubblewrap(bwrap, working(bwrap, settings.memory), settings, environ)
