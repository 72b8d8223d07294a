"""The largest batch is found in few compilations, most of them refused quickly."""

import pytest

from albert_tf.planning import compiled_step, search

USABLE = 1000
NOTHING = compiled_step.Memory(0, 0, 0, 0, 0)


def _point(num_rows: int, fixed: float, each: float) -> compiled_step.CompiledStep:
    needed = int(fixed + each * num_rows)
    memory = NOTHING if needed <= USABLE else None
    return compiled_step.CompiledStep("", 1, 0.0, memory, needed)


@pytest.mark.parametrize(
    ("first", "fixed", "each", "compiled", "largest"),
    [
        # Two that are too large, and the one that their line predicts.
        (110, 50, 9.7, [110, 104, 96], 96),
        (12, 200, 100, [12, 9, 8], 8),
        (5, 100, 300, [5, 4, 3], 3),
        # The first fits, so the second is meant not to.
        (20, 50, 9.7, [20, 112, 96], 96),
        # Not even one.
        (3, 1, 2000, [3, 1], 0),
    ],
)
def test_the_line_through_two_points_is_verified(first, fixed, each, compiled, largest):
    points = {first: _point(first, fixed, each)}
    while (rows := search.next_batch(points, USABLE, fixed // 2)) is not None:
        points[rows] = _point(rows, fixed, each)
    assert [*points] == compiled
    assert search.largest(points) == largest


def test_memory_in_steps_ends_too():
    """Where memory is not linear, the search ends with a batch that fits."""

    def needed(rows: int) -> float:
        return 100 + 40 * (rows // 8 * 8) + 3 * rows

    points: dict[int, compiled_step.CompiledStep] = {}
    rows: int | None = 30
    while rows is not None:
        points[rows] = _point(1, needed(rows), 0)
        rows = search.next_batch(points, USABLE, 50)
    assert 20 <= search.largest(points) <= 23
    assert len(points) <= 7


def test_batches_are_a_sixteenth_apart_at_the_most():
    assert [search.spacing(n) for n in (1, 15, 31, 32, 88, 736)] == [1, 1, 1, 2, 4, 32]
