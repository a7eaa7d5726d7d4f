"""Short names for addresses and files, made from titles."""

import re
from collections.abc import Collection

_NOT_A_WORD = re.compile(r"[^a-z0-9]+")


def slugify(text: str, separator: str = "-") -> str:
    """The words of `text` in lower case, joined by `separator`.

    >>> slugify("Hello, World!")
    'hello-world'
    """
    words = _NOT_A_WORD.split(text.lower())
    return separator.join(word for word in words if word)


def unique_slug(text: str, taken: Collection[str], separator: str = "-") -> str:
    """A slug of `text` that is not in `taken`; a number is added where needed.

    >>> unique_slug("Hello", {"hello", "hello-2"})
    'hello-3'
    """
    slug = slugify(text, separator)
    if slug not in taken:
        return slug
    number = 2
    while f"{slug}{separator}{number}" in taken:
        number += 1
    return f"{slug}{separator}{number}"
