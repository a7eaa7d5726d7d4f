"""How text looks on this terminal: glyphs, colours, money and time.

    look = look_of(sys.stdout, os.environ)
    look.state("merged")      # "✔ merged", green on a terminal that shows colours
    usd(0.0123), span(75)     # "$0.0123", "1:15"

The same in every plain line.
"""

from collections.abc import Mapping
from typing import TextIO

import msgspec
from rich.cells import cell_len

from taskyard.services.records import TaskState

GLYPHS: Mapping[TaskState, str] = {
    "queued": "○", "planning": "●", "implementing": "●", "verifying": "●", "judging": "●", "batched": "◐",
    "landing": "◆", "merged": "✔", "failed": "✘", "needs_you": "▲", "cancelled": "⊘", "skipped": "─",
}  # fmt: skip
_COLOURS: Mapping[TaskState, str] = {"merged": "32", "failed": "31", "needs_you": "33"}


class Look(msgspec.Struct, frozen=True):
    """What the reader's terminal can show."""

    colour: bool = False
    glyphs: bool = True

    def word(self, state: TaskState, word: str | None = None) -> str:
        """Glyph and word of a state, or the glyph with another word."""
        shown = state.replace("_", " ") if word is None else word
        return f"{GLYPHS[state]} {shown}" if self.glyphs else shown

    def state(self, state: TaskState, word: str | None = None, *, width: int = 0) -> str:
        """The same in its colour, padded to `width` columns."""
        return self._painted(pad(self.word(state, word), width), _COLOURS.get(state))

    def faint(self, text: str) -> str:
        """Text of less weight, such as a time."""
        return self._painted(text, "2")

    def _painted(self, text: str, code: str | None) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and code else text


def look_of(stream: TextIO, environ: Mapping[str, str]) -> Look:
    """Colours only on a terminal that has them, and never with NO_COLOR; glyphs only where they can be encoded."""
    colour = stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM", "dumb") != "dumb"
    try:
        "".join(GLYPHS.values()).encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        return Look(colour=colour, glyphs=False)
    return Look(colour=colour)


def pad(text: str, width: int) -> str:
    """Filled up with spaces to `width` terminal columns; wide characters count as two."""
    return text + " " * max(0, width - cell_len(text))


def usd(amount: float | None) -> str:
    """Dollars: four places below one dollar, two above; None is a model without a known price."""
    if amount is None:
        return "unpriced"
    return f"${amount:.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}"


def span(seconds: float) -> str:
    """m:ss, or h:mm:ss from an hour on."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def counted(number: int, noun: str) -> str:
    """1 task, 2 tasks."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{'es' if noun.endswith('sh') else 's'}"
