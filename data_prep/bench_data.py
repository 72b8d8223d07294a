r"""Benchmark of data preparation: the time of each stage, and of whole runs.

  python -m data_prep.bench_data --megabytes=30 --num_workers=1,2

The text is first written in the form that the original takes: one sentence per line, an
empty line between documents. Other load on the machine counts, too: of several repeats
the fastest is shown, row by row.
"""

import pathlib
import tempfile
from collections.abc import Sequence

from absl import flags

from albert_tf.core import cli, config_io, files
from data_prep.reading import input_files

_ROOT = pathlib.Path(__file__).resolve().parent.parent
_ORIGINAL_RECIPE = str(_ROOT / "configs" / "data_original.py")


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    values = flag_values
    cli.define_list(
        "input",
        [],
        "Globs of text files; by default the demonstration corpus, which is made. "
        "text.sentence_splitter says how to split it into sentences.",
        values,
    )
    vocab = "A vocabulary; by default, one is trained on the text."
    flags.DEFINE_string("vocab_model", "", vocab, values)
    flags.DEFINE_float("megabytes", 30.0, "Maximum text size.", 0.001, None, values)
    cli.define_list("num_workers", ["1", "2"], "Numbers of workers to run.", values)
    recipe = "A recipe or a config.json."
    flags.DEFINE_string("config", _ORIGINAL_RECIPE, recipe, values)
    flags.DEFINE_multi_string("set", [], "One setting of it.", values)


def _worker_counts(numbers: Sequence[str]) -> list[int]:
    if not all(number.isdigit() and int(number) for number in numbers):
        raise ValueError(
            "--num_workers must be whole numbers above 0, such as 1,2; received "
            f"{','.join(numbers)}"
        )
    return list(map(int, numbers))


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Measures and prints."""
    with cli.user_errors(), tempfile.TemporaryDirectory() as directory:
        cli.refuse_arguments(argv)
        worker_counts = _worker_counts(flag_values.num_workers)
        config = config_io.load(flag_values.config, flag_values.set)
        if flag_values.input:
            input_files.check_format(input_files.expand(flag_values.input), config.text)
        if flag_values.vocab_model and not files.exists(flag_values.vocab_model):
            raise ValueError(f"--vocab_model: no file {flag_values.vocab_model!r}")
        # Imported here: libraries take a second, and flags and files are checked first.
        from data_prep.benchmarks import runner

        runner.bench(
            flag_values.input,
            flag_values.vocab_model,
            int(flag_values.megabytes * 1e6),
            config,
            worker_counts,
            directory,
        )


if __name__ == "__main__":
    cli.run(main, define_flags)
