"""What a command printed: bounded while it streams, then made safe to show.

output = BoundedOutput()
output.add(chunk)                     # any number of times, any size
text = clean(output.text())
"""

import re

HEAD_BYTES = 64 * 1024
TAIL_BYTES = 64 * 1024
LEFT_OUT = "[… output left out here …]"

_CHUNK_SLACK = 4
"""The tail buffer is cut when it is this many times too long, so that bytes are not moved each time."""


class BoundedOutput:
    """Keeps the first `head` and the last `tail` bytes of a stream, whatever its length.

    output = BoundedOutput(head=1000, tail=1000)
    output.add(b"...")
    output.text()                         # str; says where something was left out
    """

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        if head < 0 or tail < 1:
            raise ValueError(f"head {head} must be at least 0 and tail {tail} at least 1 byte")
        self._head_limit = head
        self._tail_limit = tail
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0
        """Bytes that came in."""

    def add(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        self.total += len(chunk)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk[-self._tail_limit :]
        if len(self._tail) > _CHUNK_SLACK * self._tail_limit:
            del self._tail[: -self._tail_limit]

    def text(self) -> str:
        """All that was kept; invalid UTF-8 becomes U+FFFD. What was left out is cut at line ends where there are any.

        How much was left out is not said: it would differ between two runs that print the same with other timings.
        """
        if self.total <= self._head_limit + self._tail_limit:
            return bytes(self._head + self._tail).decode("utf-8", "replace")
        head = bytes(self._head)
        tail = bytes(self._tail[-self._tail_limit :])
        head = head[: head.rfind(b"\n") + 1] or head
        tail = tail[tail.find(b"\n") + 1 :] or tail
        start = head.decode("utf-8", "replace").rstrip("\n")
        return f"{start}\n{LEFT_OUT}\n{tail.decode('utf-8', 'replace')}"


# ECMA-48 sequences: CSI; the strings OSC, DCS, SOS, PM and APC up to their terminator; two-byte escapes.
# Each alternative stops at the next ESC, so a scan is linear in the length of the text.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]+[0-~]"
    r"|\x1b[0-OQ-WYZ\\`-~]"
)
# C0 but tab and newline, DEL, C1, bidirectional marks, line separators, zero-width and interlinear marks, surrogates,
# tag characters.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def clean(text: str) -> str:
    """The text with nothing in it that could steer a terminal or hide from a reader. Idempotent.

    Escape sequences are dropped (they are colours, mostly), a carriage return becomes a line end, every other control,
    bidirectional or invisible character is shown: C0 as its control picture (`␀`), the others as `<U+202E>`.
    """
    text = _SEQUENCE.sub("", text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _HIDDEN.sub(_shown, text)


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return f"<U+{code:04X}>"
