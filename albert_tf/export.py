"""Exports a trained model: SavedModels that take strings or ids, and TensorFlow Lite.

python -m albert_tf.export --model_dir=RUN --output_dir=SAVED_MODEL
python -m albert_tf.export --model_dir=RUN --output_dir=MODELS --version=3
python -m albert_tf.export --model_dir=RUN --output_dir=SMALLER --compute_dtype=bfloat16
python -m albert_tf.export --model_dir=RUN --output_dir=ENCODER --form=encoder
python -m albert_tf.export --model_dir=RUN --output_dir=LITE --form=lite

RUN is the directory of a pre-training (signatures encode, fill_mask, score_tokens,
sentence_order) or of a fine-tuning (one signature: classify, tag, answer or choose).
score_tokens takes ids, for albert_tf.probe; its vocabulary and configuration are in
assets.extra. With --version the SavedModel is MODELS/3, where TensorFlow Serving
expects it. In bfloat16 the weights of the blocks are stored in it too. With
--fixed_length all texts are padded to one length, for compilers that generate code for
each shape. The encoder takes ids, returns all its layers, and can be trained in Keras.
The form lite is a file for TensorFlow Lite with 8-bit matrices; it takes ids.
"""

import os
from collections.abc import Sequence

from absl import flags

from albert_tf.checkpoints import flags as checkpoint_flags
from albert_tf.core import cli, files
from albert_tf.data import schema

FORMS = ("text", "encoder", "lite")
# Each directory of a run has one of them: of one run, or of one per seed.
_RUN_FILES = (schema.CONFIG_FILE, schema.SEEDS_FILE)


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    flags.DEFINE_string(
        "model_dir",
        None,
        "Directory of a run of albert_tf.pretrain or albert_tf.finetune.",
        flag_values,
    )
    flags.DEFINE_string(
        "output_dir", None, "Directory to export to, new or empty.", flag_values
    )
    flags.DEFINE_string(
        "checkpoint",
        "",
        "Checkpoint to export, such as RUN/model.ckpt-600. By default the newest of a "
        "pre-training, and the best of a fine-tuning.",
        flag_values,
    )
    checkpoint_flags.define_weights(flag_values)
    flags.adopt_module_key_flags(checkpoint_flags, flag_values)
    flags.DEFINE_enum(
        "form",
        "text",
        FORMS,
        "text: takes strings, returns answers. encoder: takes ids, returns all layers, "
        "can be trained further. lite: for TensorFlow Lite, takes ids, 8-bit matrices.",
        flag_values,
    )
    flags.DEFINE_integer(
        "version",
        None,
        "Writes to the subdirectory of this number, as TensorFlow Serving expects.",
        lower_bound=1,
        flag_values=flag_values,
    )
    checkpoint_flags.define_compute_dtype(flag_values)
    flags.DEFINE_integer(
        "fixed_length",
        None,
        "Pads and cuts all texts to this number of tokens. By default they are padded "
        "to the longest in the call, and cut as in the run.",
        lower_bound=1,
        flag_values=flag_values,
    )
    flags.mark_flags_as_required(["model_dir", "output_dir"], flag_values)


def _check(flag_values: flags.FlagValues, output_dir: str) -> None:
    """Checks what needs no TensorFlow, unless a path is remote.

    Raises:
      ValueError: flags exclude one another, or a directory is not what it must be.
    """
    form, model_dir = flag_values.form, flag_values.model_dir
    if flag_values.compute_dtype and form != "text":
        raise ValueError(
            "--compute_dtype must go with --form=text; an encoder computes as its run "
            "did, and TensorFlow Lite in eight bits"
        )
    if flag_values.fixed_length and form == "encoder":
        raise ValueError(
            "--fixed_length must go with --form=text or --form=lite; an encoder takes "
            "any length"
        )
    if not any(files.exists(os.path.join(model_dir, name)) for name in _RUN_FILES):
        raise ValueError(
            "--model_dir must be a directory that albert_tf.pretrain or "
            f"albert_tf.finetune wrote; there is no {schema.CONFIG_FILE} in {model_dir}"
        )
    checkpoint = flag_values.checkpoint
    if checkpoint and not files.exists(f"{checkpoint}.index"):
        raise ValueError(
            "--checkpoint must name a checkpoint, such as RUN/model.ckpt-600; there is "
            f"no {checkpoint}.index"
        )
    if not files.is_new_or_empty(output_dir):
        raise ValueError(
            f"--output_dir must be new or empty; {output_dir} is not. Remove it or "
            "choose another"
        )


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Exports what the flags say."""
    model_dir, output_dir = flag_values.model_dir, flag_values.output_dir
    form, checkpoint = flag_values.form, flag_values.checkpoint
    weights = flag_values.weights
    with cli.user_errors():
        cli.refuse_arguments(argv)
        if flag_values.version is not None:
            output_dir = os.path.join(output_dir, str(flag_values.version))
        _check(flag_values, output_dir)
        # Imported here: TensorFlow takes seconds, and flags and files were checked
        # first.
        from albert_tf.serving import export

        if flag_values.version is not None:
            files.make_folder(flag_values.output_dir)
        exported, length = form, flag_values.fixed_length
        if form == "text":
            path, names = export.export_text(
                model_dir,
                output_dir,
                checkpoint,
                flag_values.compute_dtype,
                length,
                weights,
            )
            exported = ", ".join(names)
        elif form == "encoder":
            path = export.export_encoder(model_dir, output_dir, checkpoint, weights)
        else:
            path = export.export_tflite(
                model_dir, output_dir, checkpoint, length, weights
            )
    print(f"{output_dir}: {exported} of {path}")


if __name__ == "__main__":
    cli.run(main, define_flags)
