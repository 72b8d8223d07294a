"""Plain-text tables."""

from collections.abc import Sequence


def align(rows: Sequence[Sequence[str]], num_left: int = 1) -> list[str]:
    """Lines of a table.

    Args:
      rows: their cells.
      num_left: number of first columns that are left-aligned; the others are right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left, right = widths[:num_left], widths[num_left:]
    lines = [
        "  ".join([*map(str.ljust, row, left), *map(str.rjust, row[num_left:], right)])
        for row in rows
    ]
    return [line.rstrip() for line in lines]
