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


_SIZES = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3))
_AGES = (("d", 2 * 86_400, 86_400), ("h", 3_600, 3_600), ("min", 60, 60), ("s", 1, 1), ("ms", 0, 0.001))


def size(amount: float) -> str:
    """Bytes in the largest unit that leaves a number of 1 or more; units are powers of 1000, as in the settings."""
    unit, factor = next(((unit, factor) for unit, factor in _SIZES if amount >= factor), ("bytes", 1))
    return f"{_short(amount / factor)} {unit}"


def age(seconds: float) -> str:
    """A length of time in one unit: 0.1 ms, 12 s, 24 h, 30 d."""
    unit, factor = next((unit, factor) for unit, least, factor in _AGES if seconds >= least)
    return f"{_short(seconds / factor)} {unit}"


def share(ratio: float) -> str:
    """A ratio as a percentage."""
    return f"{_short(100 * ratio)} %"


def _short(number: float) -> str:
    """At most one place behind the point."""
    return f"{number:.1f}".removesuffix(".0")


def counted(number: int, noun: str) -> str:
    """1 task, 2 tasks."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}{'es' if noun.endswith('sh') else 's'}"
