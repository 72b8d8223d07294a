"""Builds one implementation of a case, then runs steps on demand.

    python -m albert_tf.benchmarks.step_server MODULE REQUEST

MODULE has `build_step(request, batch)`, which returns a function that runs one step and
returns a number that depends on it. REQUEST is JSON: the fields of `model_cases.Case`,
with the `dtype` and the `options` of a `model_cases.Implementation`. Each answer is one
line of JSON on standard output: the first one when the step is ready, then one for each
line of standard input. Only the standard library is imported here, so that this runs in
every environment.
"""

import importlib
import json
import os
import random
import sys
import time
from typing import Any

# The first call compiles; the second still allocates.
_NUM_WARM_UPS = 2
# Lower ids are special tokens in the vocabularies of ALBERT.
_FIRST_WORD_ID = 5


def make_batch(request: dict[str, Any]) -> dict[str, list]:
    """Token ids and labels, the same in every process, as nested lists of integers.

    `input_ids`, `input_mask` (all ones: there is no padding), `segment_ids` [B, S];
    `masked_lm_positions` (ascending, distinct), `masked_lm_ids` [B, P]; `pair_labels`
    [B].

    Args:
      request: has `batch_size`, `length`, `num_predictions` and `model`.
    """
    stream = random.Random(0)
    batch_size, length = request["batch_size"], request["length"]
    num_predictions = request["num_predictions"]

    def words(count: int) -> list[list[int]]:
        values = range(_FIRST_WORD_ID, request["model"]["vocab_size"])
        return [stream.choices(values, k=count) for _ in range(batch_size)]

    half = length // 2
    return {
        "input_ids": words(length),
        "input_mask": [[1] * length for _ in range(batch_size)],
        "segment_ids": [[0] * half + [1] * (length - half) for _ in range(batch_size)],
        "masked_lm_positions": [
            sorted(stream.sample(range(length), num_predictions))
            for _ in range(batch_size)
        ],
        "masked_lm_ids": words(num_predictions),
        "pair_labels": stream.choices(range(2), k=batch_size),
    }


def main() -> None:
    """Serves steps until standard input ends."""
    # Libraries print to standard output, so answers go to a copy of it.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module, request = sys.argv[1], json.loads(sys.argv[2])

    def answer(**values: Any) -> None:
        print(json.dumps(values), file=answers, flush=True)

    started = time.perf_counter()
    step = importlib.import_module(module).build_step(request, make_batch(request))
    first_value = step()
    first_seconds = time.perf_counter() - started
    for _ in range(_NUM_WARM_UPS - 1):
        step()
    answer(first_value=first_value, first_seconds=first_seconds)
    for _ in sys.stdin:
        seconds = []
        for _ in range(request["num_calls"]):
            started = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - started)
        answer(seconds=seconds)


if __name__ == "__main__":
    main()
