"""Which files outside the worktree a command needs: what PATH leads to, and the installations behind it.

    found = discover(["/home/me/project/.venv/bin", "/usr/bin"], homes=(Path("/home/me"),))
    found.folders        # real folders and files to show read-only: the .venv, and the Python it was made from
    found.links          # links to make again, because PATH or a tool goes through them

A tool is rarely one file: an interpreter needs its library, a virtual environment the interpreter it was made from, a
script the interpreter in its first line. The home folder, what lies above it, and a repository's top are never shown.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_STORES = ("/nix/store", "/gnu/store")
_NEVER = {
    "/",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/mnt",
    "/opt",
    "/proc",
    "/run",
    "/srv",
    "/sys",
    "/tmp",
    "/var",
    "/var/tmp",
}
_BINARY_FOLDERS = {"bin", "sbin", "libexec", "shims", ".bin"}
_PIECES = ("bin", "sbin", "lib", "lib64", "libexec", "include")
_MARKERS = ("pyvenv.cfg", "conda-meta")
_LINK_LIMIT = 40

MANAGERS = {
    "PYENV_ROOT": ".pyenv",
    "RBENV_ROOT": ".rbenv",
    "NODENV_ROOT": ".nodenv",
    "ASDF_DATA_DIR": ".asdf",
    "MISE_DATA_DIR": ".local/share/mise",
    "VOLTA_HOME": ".volta",
    "RUSTUP_HOME": ".rustup",
}
"""Tools that choose another tool's version by files under the home folder: variable → its default there.

Shown when PATH leads into them; the variable is set, because inside the sandbox the home folder is another one.
"""
_RUST_PROXIES = (".cargo", "bin")


class Toolchains(msgspec.Struct, frozen=True):
    """What was found. All paths are absolute; `folders` and `prefixes` are real paths."""

    path: tuple[str, ...]
    """PATH, without entries that are relative or not there."""
    folders: tuple[str, ...]
    """Folders and files to show read-only, none inside another."""
    links: tuple[tuple[str, str], ...]
    """(the link, its target as written), for links that lie in nothing that is shown."""
    managers: tuple[tuple[str, str], ...]
    """(variable, folder) of the version managers that PATH leads into."""
    prefixes: tuple[str, ...]
    """Roots of the installations that PATH leads to."""


class _Finder:
    """Collects folders and links while it follows tools to their installations."""

    def __init__(self, homes: Iterable[Path], shown: tuple[str, ...]) -> None:
        self.homes = tuple(str(home) for home in homes)
        self.shown = shown
        self.folders: set[str] = set()
        self.links: dict[str, str] = {}
        self.prefixes: set[str] = set()
        self._entries: set[str] = set()

    def real(self, path: str) -> str | None:
        """The path with every link resolved, remembering the links; None when it is not there or goes in a circle."""
        todo = [part for part in path.split("/") if part][::-1]
        current = ""
        followed = 0
        while todo:
            part = todo.pop()
            if part == ".":
                continue
            if part == "..":
                current = current.rpartition("/")[0]
                continue
            step = f"{current}/{part}"
            try:
                target = str(Path(step).readlink())
            except OSError:
                current = step
                continue
            followed += 1
            if followed > _LINK_LIMIT:
                return None
            self.links[step] = target
            if target.startswith("/"):
                current = ""
            todo += [piece for piece in target.split("/") if piece][::-1]
        return current or "/" if Path(current or "/").exists() else None

    def covered(self, real: str) -> bool:
        return inside(real, self.shown) or inside(real, self.folders)

    def above_home(self, real: str) -> bool:
        return real in _NEVER or any(inside(home, (real,)) for home in self.homes)

    def show(self, real: str) -> None:
        """Show a real folder or file, unless it is a home folder, above one, or a repository's top."""
        if not self.covered(real) and not self.above_home(real) and not Path(real, ".git").exists():
            self.folders.add(real)

    def manager(self, path: str) -> None:
        """Show a version manager's folder, which often is a clone of its repository."""
        real = self.real(path)
        if real is not None and not self.above_home(real):
            self.folders.add(real)
            self.prefixes.update(str(version) for version in Path(real, "versions").glob("*"))

    def entry(self, path: str) -> None:
        """Follow one entry of PATH: the folder, its installation, and what its tools lead to."""
        real = self.real(path)
        if real is None or real in self._entries:
            return
        self._entries.add(real)
        ours = inside(real, self.shown)
        self.show(real)
        self.prefix(real)
        for tool in _tools(real):
            if tool.is_symlink():
                self.executable(tool.path)
            if not ours:
                for interpreter in _interpreters(tool.path):
                    self.executable(interpreter)

    def executable(self, path: str) -> None:
        """Show the installation that an executable belongs to, or at least the file."""
        real = self.real(path)
        if real is None:
            return
        self.prefix(real.rpartition("/")[0])
        self.show(real)

    def prefix(self, folder: str) -> None:
        """Show the installation that a real folder of executables is part of, or as much of it as may be shown."""
        root, _, name = folder.rpartition("/")
        if name not in _BINARY_FOLDERS or root in self.prefixes or not root:
            return
        self.prefixes.add(root)
        store = next((store for store in _STORES if inside(folder, (store,))), None)
        if store is not None:
            self.folders.add(store)
            return
        if self.above_home(root):
            return
        environment = any(Path(root, marker).exists() for marker in _MARKERS)
        repository = Path(root, ".git").exists()
        collection = root.count("/") == 1 or root.rpartition("/")[0] in self.homes
        if name == ".bin":
            self.show(root)
        elif repository or (collection and not environment):
            for piece in _PIECES if environment or not repository else ():
                if Path(root, piece).exists():
                    self.piece(f"{root}/{piece}")
        else:
            self.show(root)
        self.virtual_environment(root)

    def piece(self, path: str) -> None:
        """Show one piece of a collection such as `~/.local`."""
        real = self.real(path)
        if real is not None:
            self.show(real)

    def virtual_environment(self, root: str) -> None:
        """Show the interpreter that a virtual environment was made from (`home = …` in its pyvenv.cfg)."""
        try:
            lines = Path(root, "pyvenv.cfg").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return
        for key, _, value in (line.partition("=") for line in lines):
            if key.strip() == "home" and (home := self.real(value.strip())):
                self.prefix(home)
        for tool in _tools(f"{root}/bin"):
            if tool.is_symlink():
                self.executable(tool.path)


def discover(
    path: Iterable[str],
    *,
    homes: Iterable[Path],
    environ: Mapping[str, str],
    read: Iterable[str] = (),
    shown: tuple[str, ...] = SYSTEM,
) -> Toolchains:
    """Follow every entry of PATH to what its tools need.

    path: entries in order. homes: real paths of home folders, never shown. environ: for variables of version managers.
    read: further folders or files to show (`[sandbox] read`), absolute.
    shown: what is shown anyway. Costs some 20 ms for two thousand tools; what can't be read is passed over.
    """
    finder = _Finder(homes, shown)
    entries = tuple(dict.fromkeys(entry.rstrip("/") or "/" for entry in path if entry.startswith("/")))
    entries = tuple(entry for entry in entries if Path(entry).is_dir())
    managers = tuple(_managers(entries, finder.homes, environ))
    for _, folder in managers:
        finder.manager(folder)
    for entry in entries:
        finder.entry(entry)
    for extra in read:
        real = finder.real(extra)
        if real is not None and not finder.covered(real):
            finder.folders.add(real)
    outer = tuple(sorted(folder for folder in finder.folders if not inside(folder, finder.folders - {folder})))
    links = tuple((link, finder.links[link]) for link in sorted(finder.links) if not inside(link, (*outer, *shown)))
    return Toolchains(
        path=entries, folders=outer, links=links, managers=managers, prefixes=tuple(sorted(finder.prefixes))
    )


def _managers(
    entries: tuple[str, ...], homes: tuple[str, ...], environ: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    for variable, default in MANAGERS.items():
        places = [environ[variable]] if environ.get(variable) else [f"{home}/{default}" for home in homes]
        for place in places:
            reached = any(inside(entry, (place,)) for entry in entries) or (
                variable == "RUSTUP_HOME" and any(Path(entry).parts[-2:] == _RUST_PROXIES for entry in entries)
            )
            if reached and place.startswith("/") and Path(place).is_dir():
                yield variable, place
                break


def _tools(folder: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except OSError:
        return


def _interpreters(path: str) -> Iterator[str]:
    """Absolute paths in a script's first two lines that start it: `#!/path`, or pip's `'''exec' "/long path"`."""
    try:
        if not Path(path).is_file():
            return
        with Path(path).open("rb") as file:
            first, second = file.readline(512), file.readline(512)
    except OSError:
        return
    if not first.startswith(b"#!"):
        return
    words = first[2:].split()
    if words and words[0].startswith(b"/"):
        yield os.fsdecode(words[0])
    if second.startswith(b"'''exec'"):
        words = second[8:].replace(b'"', b" ").split()
        if words and words[0].startswith(b"/"):
            yield os.fsdecode(words[0])


def inside(path: str, folders: Iterable[str]) -> bool:
    """Is `path` one of the folders, or in one?"""
    return any(path == folder or path.startswith(folder + "/") for folder in folders)
