r"""Throughput and latency of a served model under a load of texts of mixed lengths.

  python -m albert_tf.bench_load --saved_model=DIR [--clients=64] [--json=FILE]

Batches of like lengths, as albert_tf.serve makes them, beside batches in the order of
arrival, in turns. The model is called in this process, without HTTP.
"""

import os
from collections.abc import Sequence

from absl import flags

from albert_tf.core import cli, files, text_table
from albert_tf.inference import saved_model_dir
from albert_tf.web import settings as settings_lib

# Signatures whose items are a text alone.
_SIGNATURES = ("encode", "classify", "tag")


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `values`, so that tests can give each its own."""
    lengths = "Approximate tokens of the texts and their shares: LENGTH:SHARE."
    flags.DEFINE_string("saved_model", None, "Directory of the SavedModel.", values)
    cli.define_list("lengths", ["16:0.9", "400:0.1"], lengths, values)
    flags.DEFINE_integer("clients", 64, "Clients at a time.", 1, None, values)
    flags.DEFINE_float("seconds", 15.0, "Of a measurement.", 0.1, None, values)
    flags.DEFINE_integer("rounds", 3, "Measurements of each.", 1, None, values)
    flags.DEFINE_string("json", "", "File for all figures.", values)
    flags.mark_flag_as_required("saved_model", values)


def _lengths(values: flags.FlagValues) -> dict[int, float]:
    try:
        pairs = [text.split(":") for text in values.lengths]
        found = {int(length): float(share) for length, share in pairs}
    except ValueError as error:
        raise ValueError(
            "--lengths must be numbers of tokens with their shares, such as "
            f"16:0.9,400:0.1; received {','.join(values.lengths)!r}"
        ) from error
    if not found or min(found) < 1 or min(found.values()) <= 0:
        raise ValueError(
            f"--lengths and their shares must be above 0; received {found}"
        )
    return found


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Measures and prints."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        lengths = _lengths(flag_values)
        saved_model_dir.check(flag_values.saved_model)
        # Imported here: TensorFlow takes seconds, and flags and files were checked.
        from albert_tf.benchmarks import serving_load
        from albert_tf.web import model, sizes

        functions = model.load(flag_values.saved_model)
        names = [name for name in _SIGNATURES if name in functions]
        if not names:
            raise ValueError(
                f"--saved_model must have one of the signatures "
                f"{', '.join(_SIGNATURES)}; it has {', '.join(functions)}"
            )
        read = sizes.read_lengths(flag_values.saved_model)
        load = serving_load.Load(
            flag_values.clients, lengths, flag_values.seconds, flag_values.rounds
        )
        print(f"{os.cpu_count()} cores, load before {os.getloadavg()[0]:.1f}")
        outcomes = serving_load.measure(
            functions[names[0]],
            sizes.size_of(names[0], read),
            load,
            settings_lib.ServerSettings(),
        )
        print("\n".join(text_table.align(serving_load.table(outcomes))))
        if flag_values.json:
            found = [serving_load.to_dict(outcome) for outcome in outcomes]
            files.write_json(flag_values.json, found)


if __name__ == "__main__":
    cli.run(main, define_flags)
