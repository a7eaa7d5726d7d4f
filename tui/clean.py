"""Text from outside, made safe for a terminal.

    clean("\\x1b[2Jboo")             # "␛[2Jboo"
    clean("one\\ntwo", limit=5)      # "one …"

Nothing in cleaned text can move the cursor, change colours or hide.
"""

import re

# C0, DEL, C1; soft hyphen, bidi marks, embeddings and isolates, zero-width space and no-break space, line and
# paragraph separators, invisible operators, interlinear marks, tags; lone surrogates. The joiners U+200C and U+200D
# stay: Persian, Indic scripts and emoji are wrong without them.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)


def _shown(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\u27e8U+{code:04X}\u27e9"


def clean(text: str, *, limit: int | None = None) -> str:
    """One printable line: white space of any kind becomes single spaces, other unsafe characters are made visible.

    limit: characters at most; a longer text ends in "…". Applying it twice changes nothing more.
    """
    line = _UNSAFE.sub(_shown, " ".join(re.split(r"[\t\n\v\f\r ]+", text.strip("\t\n\v\f\r "))))
    return line if limit is None or len(line) <= limit else line[: limit - 1] + "…"


def clean_lines(text: str) -> str:
    """Printable text that keeps its line ends and indentation; tabs become four spaces."""
    plain = text.replace("\r\n", "\n").replace("\t", "    ")
    return "\n".join(_UNSAFE.sub(_shown, line) for line in plain.split("\n"))
