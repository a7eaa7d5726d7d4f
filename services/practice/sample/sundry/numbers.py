"""Numbers in running text: `1st`, `12,500`, `37.5 %`."""

_ENDINGS = {1: "st", 2: "nd", 3: "rd"}


def ordinal(number: int) -> str:
    """`number` as a place in an order.

    >>> ordinal(1), ordinal(12), ordinal(23)
    ('1st', '12th', '23rd')
    """
    if 10 <= abs(number) % 100 <= 20:
        return f"{number}th"
    return f"{number}{_ENDINGS.get(abs(number) % 10, 'th')}"


def thousands(number: float, separator: str = ",") -> str:
    """`number` with its digits in groups of three.

    >>> thousands(1234567)
    '1,234,567'
    """
    return f"{number:,}".replace(",", separator)


def percent(part: float, whole: float, digits: int = 1) -> str:
    """`part` of `whole` in per cent; a dash when there is no whole.

    >>> percent(3, 8)
    '37.5 %'
    """
    if whole == 0:
        return "–"
    return f"{100 * part / whole:.{digits}f} %"
