"""Converts models from and to other formats, weight by weight.

python -m albert_tf.convert --from=hf:albert-base-v2 --to=run:albert_base
python -m albert_tf.convert --from=run:albert_base --to=keras:preset

Formats: run (a folder of albert_tf.pretrain or albert_tf.finetune), tf1 (a checkpoint
of ALBERT's authors), albert_zh (brightmart's, read only), hf (Hugging Face
transformers, safetensors) and keras (a preset of KerasHub).
"""

from collections.abc import Sequence

import tensorflow as tf
from absl import flags

from albert_tf import binary, files
from albert_tf import config as config_lib
from albert_tf.interchange import catalog, portable, tables


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags: here, so that another binary's can live in one process."""
    flags.DEFINE_string(
        "from",
        None,
        f"FORMAT:PATH of the model. FORMAT is one of {', '.join(catalog.READERS)}.",
        flag_values,
    )
    flags.DEFINE_string(
        "to",
        None,
        f"FORMAT:FOLDER, new or empty. FORMAT is one of {', '.join(catalog.WRITTEN)}.",
        flag_values,
    )
    flags.DEFINE_string(
        "vocab_model",
        "",
        "The SentencePiece .model of the vocabulary, where it does not lie beside the "
        "model.",
        flag_values,
    )
    flags.DEFINE_enum(
        "head",
        "",
        ["", "regression", "multiple_choice"],
        "What a head with one output is, where the format does not say.",
        flag_values,
    )
    flags.DEFINE_list(
        "labels", [], "Names of the classes, where the format has none.", flag_values
    )
    flags.DEFINE_string(
        "config",
        "",
        "Recipe whose other settings a run takes: optimizer, training, data.",
        flag_values,
    )
    flags.DEFINE_multi_string(
        "set", [], "Changes one setting of the recipe. Repeatable.", flag_values
    )
    flags.mark_flags_as_required(["from", "to"], flag_values)


def convert(source: str, target: str, options: portable.ReadOptions) -> list[str]:
    """Converts a model; the target appears whole or not at all.

    Args:
      source: FORMAT:PATH.
      target: FORMAT:FOLDER.
      options: what the source leaves open.

    Returns:
      Lines for people: every weight that was moved, and what has no counterpart.

    Raises:
      ValueError: the source is damaged or of another architecture, or the target
        cannot hold it.
    """
    source_name, source_path = catalog.locate(source, "from", tuple(catalog.READERS))
    target_name, folder = catalog.locate(target, "to", catalog.WRITTEN)
    if source_name == target_name == catalog.OURS:
        raise ValueError("--from and --to are both of the format run: copy the folder")
    folder = folder.rstrip("/")
    if files.exists(folder) and (
        not files.is_folder(folder) or tf.io.gfile.listdir(folder)
    ):
        raise ValueError(
            f"--to must name a new or empty folder; {folder} is not. Remove it or "
            "choose another"
        )
    report = tables.Report()
    report.say(f"from {source}:")
    model = catalog.READERS[source_name](source_path, options, report)
    report.say(f"to {target}:")
    temporary = folder if files.is_remote(folder) else f"{folder}.incomplete"
    if not files.is_remote(folder) and files.exists(temporary):
        tf.io.gfile.rmtree(temporary)  # of a conversion that was cut off
    files.make_folder(temporary)
    try:
        catalog.write(target_name, model, temporary, options.recipe, report)
        if temporary != folder:
            if files.exists(folder):
                tf.io.gfile.rmtree(folder)  # it is empty
            tf.io.gfile.rename(temporary, folder)
    finally:
        if temporary != folder and files.exists(temporary):
            tf.io.gfile.rmtree(temporary)
    return report.lines


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Converts what the flags say."""
    with binary.user_errors():
        binary.refuse_arguments(argv)
        options = portable.ReadOptions(
            vocab_path=flag_values.vocab_model,
            kind=flag_values.head,
            labels=tuple(flag_values.labels),
            recipe=config_lib.load(flag_values.config, flag_values.set),
        )
        lines = convert(str(flag_values["from"].value), flag_values.to, options)
    print("\n".join(lines))


if __name__ == "__main__":
    binary.run(main, define_flags)
