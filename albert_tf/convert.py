"""Converts models from and to other formats, weight by weight.

python -m albert_tf.convert --from=hf:albert-base-v2 --to=run:albert_base
python -m albert_tf.convert --from=run:albert_base --to=keras:preset

Formats: run (a run directory of albert_tf.pretrain or albert_tf.finetune), tf1 (a
checkpoint of ALBERT's authors), albert_zh (brightmart's, read only), hf (Hugging Face
transformers, safetensors) and keras (a preset of KerasHub).
"""

from collections.abc import Sequence

from absl import flags

from albert_tf.checkpoints import flags as checkpoint_flags
from albert_tf.core import cli, config_io, files
from albert_tf.interchange import formats, portable

# What the formats need besides the package itself.
_PACKAGES = {
    "hf": ("safetensors", "tokenizers"),
    "keras": ("keras", "keras_hub", "keras_nlp"),
}


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
    flags.adopt_module_key_flags(checkpoint_flags, flag_values)
    flags.DEFINE_list(
        "labels", [], "Names of the classes, if the format has none.", flag_values
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
        source, target = str(flag_values["from"].value), flag_values.to
        formats.locate(source, target)
        for name, packages in _PACKAGES.items():
            if f"{name}:" in (source[: len(name) + 1], target[: len(name) + 1]):
                cli.require_extra("interchange", *packages)
        vocab_path = flag_values.vocab_model
        if vocab_path and not files.exists(vocab_path):
            raise ValueError(f"--vocab_model must be a file; there is no {vocab_path}")
        options = portable.ReadOptions(
            vocab_path=vocab_path,
            kind=flag_values.head,
            labels=tuple(flag_values.labels),
            recipe=config_io.load(flag_values.config, flag_values.set),
            weights=flag_values.weights,
        )
        # Imported here: TensorFlow takes seconds, and flags and files were checked
        # first.
        from albert_tf.interchange import conversion

        lines = conversion.convert(source, target, options)
    print("\n".join(lines))
    name, _, folder = target.partition(":")
    if name == formats.NATIVE:
        flag = f"--model_dir={folder}"
        print(cli.next_command("albert_tf.export", flag, "--output_dir=saved_model"))
    else:
        print(f"{folder} is complete")


if __name__ == "__main__":
    cli.run(main, define_flags)
