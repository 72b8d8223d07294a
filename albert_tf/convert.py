r"""Converts models from and to other formats, weight by weight.

python -m albert_tf.convert --from=hf:albert/albert-base-v2 --download \
    --to=run:albert_base
python -m albert_tf.convert --from=run:albert_base --to=keras:preset

Formats: run (a run directory of albert_tf.pretrain or albert_tf.finetune), tf1 (a
checkpoint of ALBERT's authors), albert_zh (brightmart's, read only), hf (Hugging Face
transformers, safetensors) and keras (a preset of KerasHub). With --download the PATH of
hf, keras and tf1 is the name of a published model, which is fetched.
"""

import functools
from collections.abc import Sequence

from absl import flags

from albert_tf.checkpoints import flags as checkpoint_flags
from albert_tf.core import cli, config_io, files
from albert_tf.core import config as config_lib
from albert_tf.interchange import formats, portable

# What the formats need besides the package itself.
_PACKAGES = {
    "hf": ("huggingface_hub", "safetensors", "tokenizers"),
    "keras": ("kagglehub", "keras", "keras_hub", "keras_nlp"),
}
# Settings that are those of the model, whatever the recipe says.
_OF_MODEL = ("model.", "data.lower_case=")
_HAVE_LOWER_CASE = ("run", "hf")


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    flags.DEFINE_string(
        "from",
        None,
        f"FORMAT:PATH of the model. FORMAT is one of {', '.join(formats.READ)}.",
        flag_values,
    )
    flags.DEFINE_string(
        "to",
        None,
        "FORMAT:DIRECTORY, new or empty. FORMAT is one of "
        f"{', '.join(formats.WRITTEN)}.",
        flag_values,
    )
    flags.DEFINE_bool(
        "download",
        False,
        "Fetches the model that --from names, such as hf:albert/albert-base-v2, "
        "keras:albert_base_en_uncased or tf1:albert_base_v2.",
        flag_values,
    )
    flags.DEFINE_string(
        "revision",
        "",
        "With --download: of hf a branch, tag or commit, of keras the number of a "
        "version, of tf1 the SHA-256 that the archive must have.",
        flag_values,
    )
    flags.DEFINE_string(
        "vocab_model",
        "",
        "The SentencePiece .model of the vocabulary, if the model has none beside it.",
        flag_values,
    )
    flags.DEFINE_enum(
        "head",
        "",
        ["", "regression", "multiple_choice"],
        "The kind of a head with one output, if the format does not specify it.",
        flag_values,
    )
    checkpoint_flags.define_weights(flag_values)
    checkpoint_flags.define_license(flag_values)
    flags.adopt_module_key_flags(checkpoint_flags, flag_values)
    cli.define_list(
        "labels", [], "Names of the classes, if the format has none.", flag_values
    )
    flags.DEFINE_bool(
        "list_weights",
        False,
        "Prints a line for each weight: its names, its shape, and how it is stored.",
        flag_values,
    )
    flags.DEFINE_string(
        "config",
        "",
        "Recipe for the other settings of a run: optimizer, training, data.",
        flag_values,
    )
    flags.DEFINE_multi_string(
        "set", [], "Changes one setting of the recipe. Repeatable.", flag_values
    )
    flags.mark_flags_as_required(["from", "to"], flag_values)


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Converts what the flags say."""
    with cli.user_errors():
        cli.refuse_arguments(argv)
        source, target = formats.locate(
            str(flag_values["from"].value), flag_values.to, flag_values.download
        )
        for location in (source, target):
            cli.require_extra("interchange", *_PACKAGES.get(location.format, ()))
        if flag_values.revision and not flag_values.download:
            raise ValueError(
                "--revision says what to fetch: pass --download too, or omit it"
            )
        vocab_path = flag_values.vocab_model
        if vocab_path and not files.exists(vocab_path):
            raise ValueError(f"--vocab_model must be a file; there is no {vocab_path}")
        options = portable.ReadOptions(
            vocab_path=vocab_path,
            kind=flag_values.head,
            labels=tuple(flag_values.labels),
            recipe=_recipe(flag_values.config, flag_values.set, source, target),
            weights=flag_values.weights,
        )
        # Imported here: the clients and TensorFlow take seconds, and flags and files
        # were checked first.
        named = str(source)
        if flag_values.download:
            from albert_tf.interchange import downloads

            say = functools.partial(print, flush=True)
            source = downloads.fetch(source, flag_values.revision, say)
        from albert_tf.interchange import conversion
        from albert_tf.serving import model_facts

        # Of a fetched model the card has the name, not the path of the cache.
        card = model_facts.writer(
            named, str(target), flag_values.license, flag_values.weights
        )
        lines = conversion.convert(
            str(source), str(target), options, card, flag_values.list_weights
        )
    print("\n".join(lines))
    name, folder = target
    if name == formats.NATIVE:
        print(cli.next_export(folder))
    else:
        print(f"{folder} is complete")


def _recipe(
    path: str,
    overrides: Sequence[str],
    source: formats.Location,
    target: formats.Location,
) -> config_lib.Config:
    """Returns the settings of a new run that the model does not have.

    Raises:
      ValueError: a setting does not exist, or nothing would come of it.
    """
    recipe = config_io.load(path, overrides)
    if (path or overrides) and target.format != formats.NATIVE:
        raise ValueError(
            "--config and --set are the settings of a new run, --to=run:DIRECTORY; "
            f"received --to={target}. Omit them"
        )
    of_model = _OF_MODEL if source.format in _HAVE_LOWER_CASE else _OF_MODEL[:1]
    for override in overrides:
        if override.startswith(of_model):
            raise ValueError(
                "--set changes the settings that the model does not have; received "
                f"{override}, which is that of the model. Omit it"
            )
    return recipe


if __name__ == "__main__":
    cli.run(main, define_flags)
