r"""Trains the SentencePiece vocabulary from raw text.

  python -m data_prep.train_vocab --input='corpus/*.txt.gz' --output=vocab/vocab.model

writes vocab/vocab.model, vocab/vocab.vocab (pieces and scores, human-readable) and
vocab/vocab.report.json (statistics on held-out lines). <pad>, <unk>, [CLS], [SEP] and
[MASK] have the ids 0 to 4 and ( ) " - . – £ € the next ones, as in the released models.
The same text and flags give the same bytes with the same version of sentencepiece, for
any --num_workers.

The text may be in any language, with spaces or without. But it is normalized as the
tokenizer does it, which drops all combining characters, even without --lower_case: the
umlauts and accents of Latin letters, Cyrillic й and ё, the vowel points of Arabic and
Hebrew, the tones of Thai and Vietnamese, the virama of Hindi, and the marks that
distinguish Japanese が from か. Words that differ in these alone become equal; a
language that needs them requires another tokenizer.
"""

import os
from collections.abc import Sequence

from absl import flags

from albert_tf.core import cli, config_io, files, machine, recipes
from data_prep.reading import input_files
from data_prep.vocab import settings as settings_lib

_DEFAULTS = settings_lib.VocabSettings()
# What records are usually made for, with a vocabulary of the paper's size.
_RECIPE = "albert_base"


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    values = flag_values
    cli.define_list("input", None, "Globs of text files.", values)
    flags.DEFINE_string("output", None, "The .model file to write.", values)
    flags.DEFINE_string("config", "", "A recipe or a config.json.", values)
    flags.DEFINE_multi_string(
        "set", [], "One setting, such as text.input_format=jsonl.", values
    )
    flags.DEFINE_integer(
        "vocab_size",
        None,
        "Number of pieces, V; by default model.vocab_size.",
        flag_values=values,
    )
    flags.DEFINE_bool(
        "lower_case",
        None,
        "Lower-case the text first; by default data.lower_case.",
        values,
    )
    flags.DEFINE_float(
        "character_coverage",
        _DEFAULTS.character_coverage,
        "Fraction of the characters of the text to cover: 1 for small alphabets, "
        "0.9995 for Chinese and Japanese.",
        lower_bound=0.98,
        upper_bound=1.0,
        flag_values=values,
    )
    _define_sample_flags(values)
    flags.mark_flags_as_required(["input", "output"], values)


def _define_sample_flags(values: flags.FlagValues) -> None:
    flags.DEFINE_integer(
        "input_sentence_size",
        _DEFAULTS.input_sentence_size,
        "Train on a random sample of this many lines, which are held in memory; 0: on "
        "all lines.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "heldout_lines",
        _DEFAULTS.heldout_lines,
        "Report statistics on this many held-out lines, at most one in a hundred; 0: "
        "no report.",
        lower_bound=0,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "seed",
        _DEFAULTS.seed,
        "Seed of the sample and of the held-out lines.",
        lower_bound=0,
        upper_bound=(1 << 63) - 1,
        flag_values=values,
    )
    flags.DEFINE_integer(
        "num_workers",
        machine.num_cores(),
        "Number of worker processes; with 1, this process does all work.",
        lower_bound=1,
        flag_values=values,
    )


def _settings(flag_values: flags.FlagValues) -> settings_lib.VocabSettings:
    """Returns the settings of the flags, and of the recipe for flags not given."""
    recipe = config_io.load(flag_values.config, flag_values.set)
    vocab_size, lower_case = flag_values.vocab_size, flag_values.lower_case
    return settings_lib.VocabSettings(
        text=recipe.text,
        vocab_size=recipe.model.vocab_size if vocab_size is None else vocab_size,
        lower_case=recipe.data.lower_case if lower_case is None else lower_case,
        character_coverage=flag_values.character_coverage,
        input_sentence_size=flag_values.input_sentence_size,
        heldout_lines=flag_values.heldout_lines,
        seed=flag_values.seed,
    )


def _check_output(path: str) -> None:
    """Raises a ValueError if no model can be written, before the training."""
    prefix = path.removesuffix(".model")
    if not os.path.basename(prefix) or files.is_folder(f"{prefix}.model"):
        raise ValueError(
            f"--output must name a file, such as vocab/vocab.model; received {path!r}, "
            "which is a directory"
        )
    probe = f"{prefix}.tmp{os.getpid()}"
    try:
        files.make_folder(os.path.dirname(prefix) or ".")
        files.write_bytes(probe, b"")
        files.remove(probe)
    except OSError as error:
        raise ValueError(
            f"{path}: cannot be written ({error.strerror}); give an --output in a "
            "writable directory"
        ) from error


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Reads the flags, trains, and prints the report."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        settings = _settings(flag_values)
        paths = input_files.expand(flag_values.input)
        input_files.check_format(paths, settings.text)
        _check_output(flag_values.output)
        # Imported here: libraries take a second, and flags and files are checked first.
        from data_prep.vocab import report as report_lib
        from data_prep.vocab import trainer

        tokenizer, report = trainer.train_from_files(
            paths, flag_values.output, settings, flag_values.num_workers
        )
    prefix = flag_values.output.removesuffix(".model")
    if report:
        print(report_lib.format_table({os.path.basename(prefix): report}))
    print(f"{prefix}.model: {tokenizer.vocab_size} pieces, sha256 {tokenizer.sha256}")
    cli.print_next(
        "data_prep.create_pretraining_data",
        f"--input={','.join(flag_values.input)}",
        f"--vocab_model={prefix}.model",
        *_recipe(flag_values, settings, tokenizer.vocab_size),
        "--output_dir=records",
    )


def _recipe(
    flag_values: flags.FlagValues, made: settings_lib.VocabSettings, vocab_size: int
) -> list[str]:
    """Returns the flags of a recipe for records with the vocabulary that was made."""
    name = flag_values.config
    path = name or recipes.path_of(_RECIPE)
    recipe = config_io.load(path, flag_values.set)
    own = [f"--set={setting}" for setting in flag_values.set]
    if vocab_size != config_io.load(path).model.vocab_size:
        name = name or "RECIPE"
    if vocab_size != recipe.model.vocab_size:
        own.append(f"--set=model.vocab_size={vocab_size}")
    if made.lower_case != recipe.data.lower_case:
        own.append(f"--set=data.lower_case={str(made.lower_case).lower()}")
    return [f"--config={name or _RECIPE}", *own]


if __name__ == "__main__":
    cli.run(main, define_flags)
