r"""Exports a trained model: SavedModels, for OpenVINO, and for TensorFlow Lite.

python -m albert_tf.export --model_dir=RUN --output_dir=SAVED_MODEL
python -m albert_tf.export --model_dir=RUN --output_dir=MODELS --version=3
python -m albert_tf.export --model_dir=RUN --output_dir=SMALLER --compute_dtype=bfloat16
python -m albert_tf.export --model_dir=RUN --output_dir=ENCODER --form=encoder
python -m albert_tf.export --model_dir=RUN --output_dir=LITE --form=lite
python -m albert_tf.export --model_dir=RUN --output_dir=FASTER --form=openvino
python -m albert_tf.export --model_dir=RUN --output_dir=INT8 --form=openvino \
    --compute_dtype=int8 --calibration_input=EXAMPLES

RUN is the directory of a pre-training (signatures encode, fill_mask, score_tokens,
sentence_order) or of a fine-tuning (one signature: classify, tag, answer or choose).
score_tokens takes ids, for albert_tf.probe; its vocabulary and configuration are in
assets.extra. With --version the SavedModel is MODELS/3, where TensorFlow Serving
expects it. In bfloat16 the weights of the blocks are stored in it too. With
--fixed_length all texts are padded to one length, for compilers that generate code for
each shape. The encoder takes ids, returns all its layers, and can be trained in Keras.
The form lite is a file for TensorFlow Lite with 8-bit matrices; it takes ids. The form
openvino takes strings as the first one does, and albert_tf.serve, predict and evaluate
take it likewise; OpenVINO computes its encoder, on CPUs. README.md is a model card, as
model hubs read it; --license fills its license field.
"""

import importlib.util
import os
from collections.abc import Sequence

from absl import flags

from albert_tf.checkpoints import flags as checkpoint_flags
from albert_tf.core import checkpoint_prefix, cli, files, other_formats
from albert_tf.core import config as config_lib
from albert_tf.data import schema
from albert_tf.inference import saved_model_dir

FORMS = ("text", "encoder", "lite", "openvino")
DTYPES = (*config_lib.COMPUTE_DTYPES, "int8")
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
    checkpoint_flags.define_license(flag_values)
    flags.adopt_module_key_flags(checkpoint_flags, flag_values)
    flags.DEFINE_enum(
        "form",
        "text",
        FORMS,
        "text: takes strings, returns answers. encoder: takes ids, returns all layers, "
        "can be trained further. lite: for TensorFlow Lite, takes ids, 8-bit matrices. "
        "openvino: as text, computed by OpenVINO.",
        flag_values,
    )
    flags.DEFINE_integer(
        "version",
        None,
        "Writes to the subdirectory of this number, as TensorFlow Serving expects.",
        lower_bound=1,
        flag_values=flag_values,
    )
    flags.DEFINE_enum(
        "compute_dtype",
        None,
        DTYPES,
        "Dtype of the blocks in the exported model; by default that of the run, or "
        "float32 for OpenVINO. int8 goes with --form=openvino.",
        flag_values,
    )
    flags.DEFINE_string(
        "calibration_input",
        "",
        "For --compute_dtype=int8: a file of some hundred examples, in the form that "
        "albert_tf.predict --input reads.",
        flag_values,
    )
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
    if flag_values.compute_dtype and form not in ("text", "openvino"):
        raise ValueError(
            "--compute_dtype must go with --form=text or --form=openvino; an encoder "
            "computes as its run did, and TensorFlow Lite in eight bits"
        )
    if flag_values.fixed_length and form not in ("text", "lite"):
        raise ValueError(
            "--fixed_length must go with --form=text or --form=lite; the others take "
            "any length"
        )
    is_int8 = flag_values.compute_dtype == "int8"
    if is_int8 and form != "openvino":
        raise ValueError("--compute_dtype=int8 must go with --form=openvino")
    if is_int8 != bool(flag_values.calibration_input):
        raise ValueError(
            "--calibration_input must be given with --compute_dtype=int8, and only then"
        )
    if is_int8 and not files.exists(flag_values.calibration_input):
        raise ValueError(
            "--calibration_input must be a file of examples; there is no "
            f"{flag_values.calibration_input}"
        )
    if form == "openvino" and importlib.util.find_spec("openvino") is None:
        raise ValueError(
            "--form=openvino needs OpenVINO, which is not installed: pip install -r "
            "requirements-openvino.txt"
        )
    if form == "openvino" and files.is_remote(output_dir):
        raise ValueError(
            "--output_dir must be a local directory for --form=openvino, which is the "
            f"only one that OpenVINO writes; received {output_dir}"
        )
    other_formats.refuse(model_dir)
    other_formats.refuse_exported(model_dir)
    if not any(files.exists(os.path.join(model_dir, name)) for name in _RUN_FILES):
        raise ValueError(
            "--model_dir must be a directory that albert_tf.pretrain or "
            f"albert_tf.finetune wrote; there is no {schema.CONFIG_FILE} in {model_dir}"
        )
    checkpoint = flag_values.checkpoint
    if checkpoint and not checkpoint_prefix.exists(checkpoint):
        raise ValueError(
            "--checkpoint must name a checkpoint, such as RUN/model.ckpt-600; "
            f"{checkpoint_prefix.say_missing(checkpoint)}"
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
    weights, license_name = flag_values.weights, flag_values.license
    with cli.user_errors():
        cli.refuse_arguments(argv)
        if flag_values.version is not None:
            output_dir = os.path.join(output_dir, str(flag_values.version))
        _check(flag_values, output_dir)
        # Imported here: TensorFlow takes seconds, and flags and files were checked
        # first.
        from albert_tf.serving import export, model_card

        model_card.check_license(license_name)
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
                license_name,
            )
            exported = ", ".join(names)
        elif form == "openvino":
            path, names = export.export_openvino(
                model_dir,
                output_dir,
                checkpoint,
                flag_values.compute_dtype or "float32",
                flag_values.calibration_input,
                weights,
                license_name,
            )
            exported = f"{', '.join(names)} for OpenVINO"
        elif form == "encoder":
            path = export.export_encoder(
                model_dir, output_dir, checkpoint, weights, license_name
            )
        else:
            path = export.export_tflite(
                model_dir, output_dir, checkpoint, length, weights, license_name
            )
    print(f"{output_dir}: {exported} of {path}")
    if form in ("text", "openvino"):
        examples = []
        if "fill_mask" in names:
            examples = ["Paris is the [MASK] of France."]
        elif "classify" in names:
            of_pairs = saved_model_dir.takes_pairs(output_dir)
            examples = ["A text", "Another text"] if of_pairs else ["A text"]
        arguments = [f"--saved_model={output_dir}", *examples]
        cli.print_next("albert_tf.predict", *arguments)


if __name__ == "__main__":
    cli.run(main, define_flags)
