"""A compiler for tests, whose memory is linear in the batch."""

from albert_tf.planning import compiled_step

GIB = 1 << 30
FACTOR = {"none": 4.0, "attention": 2.0, "block": 1.0}


class LinearCompiler:
    """Needs 1 GiB, and 0.25 GiB for each row in float32 without anything recomputed.

    `calls` are rows, precision, remat, parts and replicas of each compilation.
    """

    def __init__(self, each: float = 0.25):
        self.each = each
        self.calls: list[tuple] = []

    def compile(self, config, num_rows, chip, num_replicas=1):
        train = config.train
        parts = train.accumulation_steps
        self.calls.append(
            (num_rows, train.compute_dtype, train.remat, parts, num_replicas)
        )
        width = 1.0 if train.compute_dtype == "float32" else 0.5
        each = self.each * width * FACTOR[train.remat] / FACTOR["none"]
        needed = int(GIB * (1 + each * num_rows / parts))
        if needed > chip.hbm_bytes:
            return compiled_step.CompiledStep("", num_replicas, 1.0, None, needed)
        return compiled_step.CompiledStep(
            *("f00d", num_replicas, 1.0),
            compiled_step.Memory(GIB, GIB, GIB, needed - GIB, 0),
            *(needed, 0, 1e12 * num_rows, 2 * 10**9 * num_rows),
        )
