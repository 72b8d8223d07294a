"""Probes what a model has learnt of grammar, without fine-tuning, with minimal pairs.

python -m albert_tf.probe --model=RUN --suite=blimp --data_dir=blimp --output_dir=OUT
python -m albert_tf.probe --model=SAVED_MODEL --suite=pairs.jsonl --output_dir=OUT

writes results.json, pairs.tsv (the scores of each pair) and index.html. A pair is right
if the model gives the grammatical sentence the higher pseudo-log-likelihood. RUN is the
directory of a pre-training or of a converted model, or the prefix of a checkpoint. Own
pairs are JSON lines with sentence_good, sentence_bad and, if there are several kinds,
the name of a group. docs/probing.md says where to get BLiMP and Zorro.
"""

import os
import time
from collections.abc import Sequence

from absl import flags

from albert_tf.checkpoints import flags as checkpoint_flags
from albert_tf.core import checkpoint_prefix, cli, files, other_formats
from albert_tf.data import schema
from albert_tf.inference import saved_model_dir
from albert_tf.probing import published, settings, suites


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    flags.DEFINE_string(
        "model",
        None,
        "Run directory (its newest checkpoint), checkpoint prefix, or SavedModel.",
        flag_values,
    )
    flags.DEFINE_string(
        "suite", None, "blimp, zorro, or a file of JSON lines.", flag_values
    )
    flags.DEFINE_string(
        "data_dir", "", "Directory of BLiMP or Zorro, as published.", flag_values
    )
    flags.DEFINE_string("output_dir", None, "Directory to write.", flag_values)
    flags.DEFINE_enum(
        "metric",
        settings.PLL,
        settings.METRICS,
        "pll: one token masked at a time. within_word: also those after it in the same "
        "word.",
        flag_values,
    )
    flags.DEFINE_integer(
        "pairs_per_paradigm",
        0,
        "Takes the first so many pairs of each paradigm; 0 for all.",
        lower_bound=0,
        flag_values=flag_values,
    )
    flags.DEFINE_integer(
        "batch_tokens",
        settings.BATCH_TOKENS,
        "Tokens of a batch; more need more memory.",
        lower_bound=1,
        flag_values=flag_values,
    )
    checkpoint_flags.define_compute_dtype(flag_values)
    checkpoint_flags.define_weights(flag_values)
    flags.adopt_module_key_flags(checkpoint_flags, flag_values)
    flags.mark_flags_as_required(["model", "suite", "output_dir"], flag_values)


def _suite_path(flag_values: flags.FlagValues) -> str:
    """Returns where the suite is.

    Raises:
      ValueError: it is not there.
    """
    suite, data_dir = flag_values.suite, flag_values.data_dir
    if suite not in suites.SUITES:
        if data_dir:
            raise ValueError(
                "--data_dir must be given with --suite=blimp or zorro only; received "
                f"--suite={suite}"
            )
        if files.is_folder(suite) or not files.exists(suite):
            raise ValueError(
                f"--suite must be {', '.join(suites.SUITES)} or a file of JSON lines; "
                f"there is no file {suite}"
            )
        return suite
    if not data_dir:
        raise ValueError(f"--suite={suite} needs --data_dir, where it is unpacked")
    cli.require_directories(flag_values, "data_dir")
    if suites.find(data_dir) != suite:
        raise ValueError(f"--data_dir must hold {suite}; {data_dir} holds another one")
    return data_dir


def _check_model(flag_values: flags.FlagValues) -> None:
    model = flag_values.model
    if saved_model_dir.is_saved_model(model):
        if flag_values.compute_dtype or flag_values["weights"].present:
            raise ValueError(
                "--compute_dtype and --weights must be omitted for a SavedModel, which "
                "computes as it was exported"
            )
        return
    other_formats.refuse(model)
    is_run = files.exists(os.path.join(model, schema.CONFIG_FILE))
    if not is_run and not checkpoint_prefix.exists(model):
        raise ValueError(
            "--model must be the directory of a run, the prefix of a checkpoint such "
            f"as RUN/model.ckpt-500, or a SavedModel; {model} is none of them"
            f"{checkpoint_prefix.say_others(model)}"
        )


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Probes the model that the flags name."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        path, output_dir = _suite_path(flag_values), flag_values.output_dir
        _check_model(flag_values)
        cli.check_output_dir(output_dir, [flag_values.model])
        whole = suites.read(path)
        number = flag_values.pairs_per_paradigm
        pairs = suites.first(whole, number) if number else whole
        compared = published.read(path)
        for one in compared:
            # An error now, and not after all sentences were scored.
            _ = one.means({pair.paradigm: pair.phenomenon for pair in pairs})

        # Imported here: TensorFlow takes seconds, and flags and files were checked
        # first.
        from albert_tf.core import config_io, provenance
        from albert_tf.devices import cpu_threads
        from albert_tf.probing import probe
        from albert_tf.reports import probe_report
        from albert_tf.serving import token_scorer

        loaded = token_scorer.load_scorer(
            flag_values.model,
            flag_values.compute_dtype,
            flag_values.weights,
            flag_values.batch_tokens,
            cpu_threads.one_core_a_batch(),
        )
        started = time.monotonic()
        probed = probe.probe(
            loaded.scorer, pairs, flag_values.metric, shows_progress=True
        )
        values = probe.to_dict(
            probed,
            compared,
            suite=flag_values.suite,
            pairs_per_paradigm=number if len(pairs) < len(whole) else 0,
            metric=flag_values.metric,
            model=flag_values.model,
            checkpoint=loaded.checkpoint,
            compute_dtype=loaded.config.train.compute_dtype,
            seconds=round(time.monotonic() - started, 1),
        )
        probe.write(output_dir, probed, values)
        made = provenance.now()
        page = probe_report.write(
            output_dir,
            values,
            config_io.to_json(loaded.config),
            f"Model {provenance.name_of(flag_values.model)}, probed {made.date}; "
            f"{made.versions_line}.",
        )
    print("\n".join([*probe.summary_lines(values), page]))


if __name__ == "__main__":
    cli.run(main, define_flags)
