"""The repository as a model first sees it: the tree of files, the main definitions, the conventions people wrote down.

    view = repository_view([("README.md", 120), ("app/main.py", 900)], read)

A pure function of the files: sorted, bounded, and without anything that depends on the machine or the Python version
(hence regular expressions and not `ast`, whose grammar moves).
"""

import re
from collections.abc import Callable, Iterator, Sequence

from taskyard.services.prompts.inputs import RepositoryView

MAP_BYTES = 8_192
"""About 2,000 tokens."""
CONVENTION_BYTES = 4_096
"""Of each file of conventions."""

_TREE_BYTES = 4_096
_ENTRIES_SHOWN = 40
_SOURCES_READ = 300
_SOURCE_BYTES = 262_144
_DEFINITIONS_SHOWN = 12
_LINE_CHARS = 110
_CONVENTIONS = ("agents.md", "claude.md", "contributing.md", ".github/contributing.md", "docs/contributing.md")

_C_LIKE = r"^(?:export\s+)?(?:default\s+)?(?:abstract\s+)?(?:async\s+)?(?:function|class|interface|enum|type)\s+\w.*"
_JVM = r"^(?:(?:public|abstract|final|sealed|open|data|internal)\s+)*(?:class|interface|enum|record|object|fun)\s+\w.*"
_DEFINITIONS = {
    "py": r"^(?:class|(?:async )?def) \w+.*|^    (?:async )?def [a-z]\w*.*",
    "go": r"^(?:func|type) .*",
    "rs": r"^(?:pub(?:\([a-z]+\))? )?(?:async )?(?:fn|struct|enum|trait|impl|mod)\b.*",
    "rb": r"^[ \t]*(?:class|module|def) .*",
    "js": _C_LIKE,
    "jsx": _C_LIKE,
    "mjs": _C_LIKE,
    "ts": _C_LIKE,
    "tsx": _C_LIKE,
    "php": _C_LIKE,
    "java": _JVM,
    "kt": _JVM,
    "scala": _JVM,
    "cs": _JVM,
    "c": r"^[A-Za-z_][\w \t*]*\([^;\n]*$",
    "h": r"^(?:typedef|struct|enum|union)\b.*|^[A-Za-z_][\w \t*]*\(.*\);",
}
_PATTERNS = {suffix: re.compile(pattern, re.MULTILINE) for suffix, pattern in _DEFINITIONS.items()}
_ASIDE = re.compile(
    r"(?:^|/)(?:tests?|testdata|docs?|examples?|benchmarks?|vendor|third_party|node_modules)/|(?:^|/)test_"
)

Read = Callable[[str], bytes | None]


def repository_view(files: Sequence[tuple[str, int]], read: Read) -> RepositoryView:
    """The outline of a tree.

    files: (path, size in bytes), paths relative with `/`, in any order. read: a file's content, None when there is
    none; it is called for at most a few hundred files, each once. The map holds at most `MAP_BYTES` bytes.
    """
    sizes = dict(files)
    paths = sorted(sizes)
    tree = _fitting(_tree(paths), _TREE_BYTES)
    left = MAP_BYTES - len(tree.encode()) - len(_HEADING)
    definitions = _fitting(_definitions(paths, sizes, read), left)
    shown = f"{tree}{_HEADING}{definitions}" if definitions else tree
    return RepositoryView(shown, _conventions(paths, read))


_HEADING = "\nMain definitions:\n"


class _Folder:
    def __init__(self) -> None:
        self.folders: dict[str, _Folder] = {}
        self.files: list[str] = []
        self.count = 0
        """Files in it and below."""
        self.open = False

    def lines(self, indent: str) -> Iterator[str]:
        shown = 0
        for name, folder in self.folders.items():
            if (shown := shown + 1) > _ENTRIES_SHOWN:
                break
            if folder.open:
                yield f"{indent}{_printable(name)}/"
                yield from folder.lines(indent + "  ")
            else:
                yield f"{indent}{_printable(name)}/ ({folder.count} file{'s' if folder.count > 1 else ''})"
        left = max(0, _ENTRIES_SHOWN - len(self.folders))
        for name in self.files[:left]:
            yield f"{indent}{_printable(name)}"
        hidden = max(0, len(self.folders) - _ENTRIES_SHOWN) + max(0, len(self.files) - left)
        if hidden:
            yield f"{indent}({hidden} more)"


def _tree(paths: Sequence[str]) -> Iterator[str]:
    """Lines of the tree; folders are opened level by level for as long as the tree fits, then only counted."""
    root = _Folder()
    for path in paths:
        *parents, name = path.split("/")
        folder = root
        folder.count += 1
        for parent in parents:
            folder = folder.folders.setdefault(parent, _Folder())
            folder.count += 1
        folder.files.append(name)
    room = _TREE_BYTES - _bytes(root.lines(""))
    level = [(folder, 1) for folder in root.folders.values()]
    while level and room > 0:
        deeper = []
        for folder, depth in level:
            cost = _bytes(folder.lines("  " * depth))
            if cost <= room:
                folder.open = True
                room -= cost
                deeper += [(inner, depth + 1) for inner in folder.folders.values()]
        level = deeper
    return root.lines("")


def _definitions(paths: Sequence[str], sizes: dict[str, int], read: Read) -> Iterator[str]:
    """Per source file its path and its definitions; the files nearest to the top first, tests and the like last."""
    sources = [path for path in paths if _suffix(path) in _PATTERNS and 0 < sizes[path] <= _SOURCE_BYTES]
    sources.sort(key=lambda path: (_ASIDE.search(path) is not None, path.count("/"), path))
    for path in sources[:_SOURCES_READ]:
        found = _PATTERNS[_suffix(path)].findall(_text(read(path)))
        if _suffix(path) == "py":
            found = list(_public(found))
        if not found:
            continue
        yield _printable(path)
        for line in found[:_DEFINITIONS_SHOWN]:
            yield "  " + _printable(line.rstrip().rstrip(":{").rstrip())[:_LINE_CHARS]
        if len(found) > _DEFINITIONS_SHOWN:
            yield f"  ({len(found) - _DEFINITIONS_SHOWN} more)"


def _public(lines: Sequence[str]) -> Iterator[str]:
    """Of Python's definitions the public ones of the module and of its public classes."""
    in_class = False
    for line in lines:
        if line.startswith(" "):
            if in_class:
                yield line
        else:
            public = not line.removeprefix("async ").split(" ", 1)[1].startswith("_")
            in_class = public and line.startswith("class")
            if public:
                yield line


def _conventions(paths: Sequence[str], read: Read) -> str:
    """The heads of the files of conventions; of two with the same text, or a link to another, only one."""
    by_name = {path.lower(): path for path in reversed(paths)}
    parts: list[str] = []
    seen = {path.lower() for path in _CONVENTIONS}
    for wanted in _CONVENTIONS:
        path = by_name.get(wanted)
        text = _text(read(path)).strip() if path else ""
        if not text or text.lower() in seen:
            continue
        seen.add(text.lower())
        head = _head(text, CONVENTION_BYTES)
        cut = f"\n(the rest of {path} is left out)" if len(head) < len(text) else ""
        parts.append(f"From {path}:\n\n{head}{cut}\n")
    return "\n".join(parts)


def _fitting(lines: Iterator[str], limit: int) -> str:
    """As many lines as fit into `limit` bytes."""
    kept: list[str] = []
    for line in lines:
        limit -= len(line.encode()) + 1
        if limit < 0:
            break
        kept.append(line + "\n")
    return "".join(kept)


def _head(text: str, limit: int) -> str:
    """The first whole lines of `text` within `limit` bytes; of one longer line its beginning."""
    raw = text.encode()
    if len(raw) <= limit:
        return text
    end = raw.rfind(b"\n", 0, limit)
    return raw[: end if end > 0 else limit].decode("utf-8", "ignore")


def _text(content: bytes | None) -> str:
    """As text with `\\n` line ends; nothing when it is binary."""
    if content is None or b"\0" in content:
        return ""
    return content.decode("utf-8-sig", "replace").replace("\r\n", "\n")


def _printable(name: str) -> str:
    """One line of UTF-8: control characters and what is no text are shown escaped."""
    if name.isprintable():
        return name
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in name)


def _suffix(path: str) -> str:
    return path.rpartition(".")[2].lower()


def _bytes(lines: Iterator[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)
