r"""Speed of an exported model, compared with transformers and KerasHub.

  python -m albert_tf.bench_serve --rounds=5
  python -m albert_tf.bench_serve --model_dir=RUN --batch_sizes=1,8

A pre-trained run (by default one of base size with random weights and sequences of 128
tokens) is exported in float32, in bfloat16, for TensorFlow Lite in eight bits (the row
"lite", among those of float32), for OpenVINO if requirements-openvino.txt is installed
(in eight bits among the rows of bfloat16), and converted for transformers, which runs
on PyTorch and, as a graph, on ONNX Runtime (its eight bits are also among the rows of
bfloat16), and for KerasHub, which XLA compiles. All of them take the same texts, which
are as long as the sequence, and return the sequence output and the pooled output as
arrays. They are timed in rounds, as in albert_tf.bench_model.
"""

import os
from collections.abc import Sequence

from absl import flags

from albert_tf.core import cli, files
from albert_tf.data import schema


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `values`, so that tests can give each its own."""
    run = "Run directory of a pre-training to measure instead of random weights."
    flags.DEFINE_string("model_dir", "", run, values)
    cli.define_list("batch_sizes", ["1", "32"], "Batch sizes: texts per call.", values)
    rounds = "How often each implementation is timed."
    flags.DEFINE_integer("rounds", 5, rounds, 1, None, flag_values=values)
    alone = "Measure this project only."
    flags.DEFINE_bool("no_baselines", False, alone, values)
    flags.DEFINE_string("json", "", "File for all figures.", values)


def _batch_size(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"--batch_sizes must be numbers from 1 on; received {text!r}")
    return int(text)


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Measures and prints."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        batch_sizes = [_batch_size(text) for text in flag_values.batch_sizes]
        run = flag_values.model_dir
        if run and not files.exists(os.path.join(run, schema.CONFIG_FILE)):
            raise ValueError(
                "--model_dir must be the run directory of a pre-training; there is no "
                f"{os.path.join(run, schema.CONFIG_FILE)}"
            )
        # Imported here: TensorFlow takes seconds, and flags and files were checked
        # first.
        from albert_tf.benchmarks import serving_benchmark

        measured = serving_benchmark.measure(
            run, batch_sizes, flag_values.rounds, not flag_values.no_baselines
        )
        if flag_values.json:
            files.write_json(flag_values.json, measured)


if __name__ == "__main__":
    cli.run(main, define_flags)
