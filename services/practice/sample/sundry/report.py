"""Summaries of CSV files: count, sum and mean of each column of numbers."""

import csv
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """What one column of numbers adds up to."""

    column: str
    count: int
    total: float

    @property
    def mean(self) -> float:
        return self.total / self.count


def summarise(lines: Iterable[str]) -> list[Summary]:
    """One summary for each column of `lines` (CSV with a header) that holds numbers alone.

    Empty cells are left out of the count.

    >>> summarise(["city,visits", "Bergen,3", "Oslo,5"])
    [Summary(column='visits', count=2, total=8.0)]
    """
    table = list(csv.reader(lines))
    if not table:
        return []
    summaries = []
    for index, column in enumerate(table[0]):
        cells = [row[index] for row in table[1:] if index < len(row) and row[index].strip()]
        if cells and all(_looks_like_a_number(cell) for cell in cells):
            summaries.append(Summary(column, len(cells), sum(float(cell) for cell in cells)))
    return summaries


def _looks_like_a_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    else:
        return True
