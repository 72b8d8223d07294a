"""Search for the largest batch of a replica, with few compilations.

Memory is close to linear in the batch. The compiler refuses a program that does not fit
in seconds, and takes minutes for one that does. So the line is drawn through batches
that are too large, and the batch that it predicts is verified.
"""

import math
from collections.abc import Mapping

from albert_tf.planning import compiled_step

# Batches are told apart to this part of them, rounded down to a power of two.
_PARTS = 16
# Of one search; most need three or four.
_MOST_COMPILATIONS = 7
# How far above the prediction the batches are that are meant not to fit.
_FIRST_EXCESS = 1.25
_SECOND_EXCESS = 1.06

Points = Mapping[int, compiled_step.CompiledStep]


def spacing(num_rows: int) -> int:
    """Returns the distance of batches of about that many rows that are tried."""
    return 1 << max(0, math.floor(math.log2(max(1, num_rows) / _PARTS)))


def largest(points: Points) -> int:
    """Returns the largest batch that was compiled and fits; 0 if none does."""
    return max((rows for rows, point in points.items() if point.fits), default=0)


def predicted(points: Points, usable_bytes: int, fixed_bytes: int) -> int:
    """Returns the largest batch that fits by the line through two points.

    They are the largest batch that fits and the smallest that does not; of one kind
    alone, the two nearest to the limit.

    Args:
      points: at least one compiled batch.
      usable_bytes: of the replica's memory.
      fixed_bytes: what does not depend on the batch, for the line of a single point.
    """
    best = largest(points)
    too_large = [rows for rows in sorted(points) if not points[rows].fits]
    nearest = [best, too_large[0]] if best and too_large else too_large[:2]
    nearest = nearest or sorted(points)[-2:]
    bytes_of = {rows: float(points[rows].needed_bytes) for rows in nearest}
    if len(bytes_of) == 1:
        (needed,) = bytes_of.values()
        bytes_of[0] = min(float(fixed_bytes), needed / 2)
    (rows, needed), (others, others_needed) = bytes_of.items()
    slope = (needed - others_needed) / (rows - others)
    if slope <= 0:
        return max(bytes_of)
    return max(0, math.floor(rows + (usable_bytes - needed) / slope))


def next_batch(points: Points, usable_bytes: int, fixed_bytes: int) -> int | None:
    """Returns the batch to compile next; None if the largest one is found.

    It is found if no batch that fits by the line is larger by 2 * `spacing` or more.

    Args:
      points: the compiled batches, at least one.
      usable_bytes: of the replica's memory.
      fixed_bytes: an estimate of what does not depend on the batch.
    """
    if len(points) >= _MOST_COMPILATIONS:
        return None
    best = largest(points)
    by_line = predicted(points, usable_bytes, fixed_bytes)
    too_large = min((rows for rows in points if not points[rows].fits), default=None)
    if too_large is None:
        return max(best + 1, math.ceil(_FIRST_EXCESS * by_line))
    second = max(1, math.ceil(_SECOND_EXCESS * by_line))
    if len(points) == 1 and second < too_large:
        return second
    if not best and by_line < 1:
        # Nothing fits by the line, which is steeper where memory comes in steps.
        return too_large // 2 or None
    step = spacing(by_line)
    candidate = min(by_line, too_large - 1) // step * step
    if candidate < best + (2 * step if best and step > 1 else 1):
        return None
    return candidate
