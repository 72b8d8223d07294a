"""Flags of the local run and of the Beam pipeline, and the checks of their values."""

from absl import flags

from albert_tf.core import cli, console, files
from data_prep.reading import input_files


def define_shared_flags(flag_values: flags.FlagValues) -> None:
    """Defines the flags that do not depend on where the work is done."""
    values = flag_values
    cli.define_list(
        "input",
        None,
        "Globs of input files, plain or .gz, .bz2, .xz, .zst. Their format is the "
        "setting text.input_format: by default UTF-8 text with an empty line between "
        "documents.",
        values,
    )
    flags.DEFINE_string(
        "vocab_model", None, "The SentencePiece .model of the vocabulary.", values
    )
    flags.DEFINE_string(
        "output_dir", None, "The directory to write, local or gs://.", values
    )
    flags.DEFINE_string("config", "", "A recipe or a config.json.", values)
    flags.DEFINE_multi_string(
        "set", [], "One setting, such as data.dupe_factor=2.", values
    )
    flags.DEFINE_bool(
        "overwrite",
        False,
        "Replace the records in the directory, and unfinished work.",
        values,
    )
    cli.define_list(
        "evaluation_input",
        [],
        "Globs of text files whose texts must not occur in the records.",
        values,
    )
    flags.mark_flags_as_required(["input", "vocab_model", "output_dir"], values)


def check_input_files(flag_values: flags.FlagValues) -> None:
    """Checks that the files that the shared flags name exist.

    Raises:
      ValueError: a glob matches no file, or there is no vocabulary.
    """
    input_files.expand(flag_values.input)
    if flag_values.evaluation_input:
        input_files.expand(flag_values.evaluation_input)
    if not files.exists(flag_values.vocab_model):
        raise ValueError(
            f"--vocab_model must name a SentencePiece .model file; there is no "
            f"{flag_values.vocab_model}. Train one with "
            f"`{console.command_line('data_prep.train_vocab')}`"
        )
