"""Ref names for arbitrary text.

    ref_of("attempts/run 1/T1/2")      # refs/taskyard/attempts+/run%201+/=t1+/2

Any text is a legal name and no two names share a ref. The rules:

- a name is split at `/`; every part but the last gets a `+`, so that the folder of `a/b` (`a+/`) never meets the
  leaf `a`;
- within a part `a-z 0-9 _ -` stand for themselves; an ASCII capital is `=` and the small letter, because loose refs
  are files and some file systems don't tell the two apart; every other byte is `%xx`; an empty part is `%`;
- a part that would be longer than a file name may be is cut and ends in `%.` and a digest of the whole part; a name
  with a very long path becomes one such part.
"""

from hashlib import blake2b

PREFIX = "refs/taskyard/"
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")
_LONGEST_PART = 180
_LONGEST_NAME = 1500


def ref_of(name: str) -> str:
    """The full name of the ref that stands for `name`."""
    raw = name.encode("utf-8", "surrogatepass")
    parts = [_part(part) for part in raw.split(b"/")]
    path = "".join(f"{part}+/" for part in parts[:-1]) + parts[-1]
    if len(path) > _LONGEST_NAME:
        path = _cut(path, raw)
    return PREFIX + path


def _part(raw: bytes) -> str:
    text = "".join(_letter(byte) for byte in raw) or "%"
    return text if len(text) <= _LONGEST_PART else _cut(text, raw)


def _letter(byte: int) -> str:
    if byte in _PLAIN:
        return chr(byte)
    if 0x41 <= byte <= 0x5A:
        return "=" + chr(byte + 0x20)
    return f"%{byte:02x}"


def _cut(text: str, raw: bytes) -> str:
    """`%.` occurs in no uncut part, so a cut part can't be taken for another one."""
    return text.replace("/", "")[:100] + "%." + blake2b(raw, digest_size=20).hexdigest()
