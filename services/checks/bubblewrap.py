"""The sandbox by bubblewrap.

What it shows is a list, everything else is not there: /usr, the pieces of /etc that programs need, the toolchains that
PATH leads to (`toolchains.py`), and the worktree, which alone is writable but for an empty /tmp and home folder of the
command's own. No network unless the check has it, no process, user or IPC name of the machine, no capabilities.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from taskyard.services.checks import environment
from taskyard.services.checks.limits import Limits
from taskyard.services.checks.sandbox import Launch, Sandbox, homes, key, readable
from taskyard.services.checks.toolchains import SYSTEM, discover, inside
from taskyard.services.config import SandboxSettings
from taskyard.services.errors import EnvironmentFault

_ETC = (
    "alternatives", "ca-certificates", "ca-certificates.conf", "crypto-policies", "debian_version", "fonts", "group",
    "host.conf", "hosts", "inputrc", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.conf", "localtime", "magic",
    "maven", "mime.types", "nsswitch.conf", "os-release", "passwd", "perl", "pki/ca-trust", "pki/tls/cert.pem",
    "pki/tls/certs", "protocols", "resolv.conf", "services", "shells", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf",
    "terminfo", "timezone",
)  # fmt: skip
"""Pieces of /etc that programs need; none holds a secret (no shadow, no keys, no package index with a password)."""
_ETC_PATTERNS = ("java-*", "python3*", "ruby*", "php*")
_PROC_READ_ONLY = ("acpi", "fs", "mtrr", "pressure", "scsi", "sys")
"""Parts of /proc that the machine's root may write without any capability: kernel.core_pattern alone is an escape."""
_TMPFS = ("/dev/shm", "/run", "/tmp", "/var/tmp")
_TMP = "/tmp"
_PROBE_S = 20.0
_OPTIONS = ("--unshare-all", "--unshare-user", "--cap-drop", "ALL", "--die-with-parent", "--new-session")


class Features(msgspec.Struct, frozen=True):
    """What this machine's bwrap turned out to support."""

    options: tuple[str, ...]
    size: tuple[str, ...]
    """Words before each `--tmpfs` that bound it; bubblewrap 0.7 and later."""


class Bubblewrap(Sandbox):
    """Runs commands by bubblewrap, which must be known to work (`working`).

    sandbox = Bubblewrap("/usr/bin/bwrap", working("/usr/bin/bwrap", settings.memory), settings, os.environ)
    """

    kind = "bwrap"

    def __init__(self, bwrap: str, features: Features, settings: SandboxSettings, environ: Mapping[str, str]) -> None:
        self._bwrap = bwrap
        self._features = features
        self._homes = homes(environ)
        self._etc = _etc()
        self._certificates = environment.certificates(environ)
        self.toolchains = discover(
            environ.get("PATH", os.defpath).split(":"),
            homes=self._homes,
            environ=environ,
            read=(*readable(settings.read, self._homes), *self._certificates.values()),
            shown=(*SYSTEM, *(f"/etc/{piece}" for piece in self._etc)),
        )
        self._environ = environment.lasting(environ, self.toolchains, settings.env)
        self._online = {**environment.proxies(environ), **self._certificates}
        self._limits = Limits.of(settings, contained=True)
        self._view = tuple(self._build_view())
        self.key = key("bwrap", (*features.options, *features.size), self._limits, self._environ, self.toolchains)

    def launch(self, command: str, *, folder: Path, network: bool, read_only: Sequence[str], private: Path) -> Launch:
        del private
        kept = sorted((folder / name).resolve() for name in read_only)
        kept = [path for path in kept if path != folder and path.is_relative_to(folder) and path.exists()]
        argv = (
            self._bwrap,
            *self._features.options,
            *(("--share-net",) if network else ()),
            *self._view,
            *("--bind", str(folder), str(folder)),
            *(word for path in kept for word in ("--ro-bind", str(path), str(path))),
            *("--remount-ro", "/", "--chdir", str(folder), "--"),
            *self._limits.prefix(),
            *("/bin/sh", "-c", command),
        )
        always = {**self._online, **self._environ} if network else self._environ
        environ = environment.for_one(always, folder=folder, home=self._home, temporary=_TMP)
        return Launch(argv=argv, environ=environ, folder="/", mark="")

    @property
    def _home(self) -> str:
        """The home folder keeps its name, so that what version managers and tools look for below it is found."""
        home = str(self._homes[0])
        return f"{_TMP}/home" if home == "/" or inside(home, SYSTEM) or inside(_TMP, (home,)) else home

    def _build_view(self) -> list[str]:
        """The options that build what the command sees, but for its worktree. Later ones lie over earlier ones."""
        words: list[str] = []
        for path in map(Path, SYSTEM):
            if path.is_symlink():
                words += ["--symlink", str(path.readlink()), str(path)]
            elif path.is_dir():
                words += ["--ro-bind", str(path), str(path)]
        for piece in self._etc:
            words += ["--ro-bind", f"/etc/{piece}", f"/etc/{piece}"]
        words += ["--proc", "/proc", "--dev", "/dev"]
        if os.geteuid() == 0:
            for name in _PROC_READ_ONLY:
                words += ["--ro-bind-try", f"/proc/{name}", f"/proc/{name}"]
        for place in sorted({*_TMPFS, self._home}):
            words += [*self._features.size, "--tmpfs", place]
        words += ["--remount-ro", "/dev"]
        shown = [(path, ["--ro-bind", path, path]) for path in self.toolchains.folders]
        linked = [(link, ["--symlink", target, link]) for link, target in self.toolchains.links]
        for _, option in sorted(shown + linked):
            words += option
        return words


def working(bwrap: str, size: int) -> Features:
    """The strongest options with which bwrap can run a command here. size: bytes, of each temporary file system.

    Raises EnvironmentFault with what bwrap said, when it can run none.
    """
    bound = ("--size", str(size))
    said = ""
    for features in (
        Features((*_OPTIONS, "--disable-userns"), bound),
        Features(_OPTIONS, bound),
        Features(_OPTIONS, ()),
    ):
        said = _probe(bwrap, features)
        if not said:
            return features
    raise EnvironmentFault(
        f"checks run in a sandbox, and bubblewrap ({bwrap}) does not work here: {said[-400:]}. Inside a container, "
        "allow user namespaces (docker: --security-opt seccomp=unconfined --security-opt systempaths=unconfined); on "
        "Ubuntu 24.04 and later, allow them for bwrap by an AppArmor profile; or pass --unsafe-local to run checks "
        "without a sandbox"
    )


def _probe(bwrap: str, features: Features) -> str:
    """Empty when bwrap works with these options, else what it said."""
    view = ("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", *features.size, "--tmpfs", _TMP)
    argv = (bwrap, *features.options, *view, "--", "/bin/sh", "-c", ":")
    try:
        ended = subprocess.run(
            argv, capture_output=True, env={}, stdin=subprocess.DEVNULL, timeout=_PROBE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if ended.returncode == 0:
        return ""
    return ended.stderr.decode("utf-8", "replace").strip() or f"exit code {ended.returncode}"


def _etc() -> tuple[str, ...]:
    patterns = (path.name for pattern in _ETC_PATTERNS for path in Path("/etc").glob(pattern))
    return tuple(sorted(piece for piece in {*_ETC, *patterns} if Path("/etc", piece).exists()))
