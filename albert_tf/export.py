"""Writes a trained model for others: SavedModels that take strings or ids, and lite.

python -m albert_tf.export --model_dir=RUN --output_dir=SAVED_MODEL
python -m albert_tf.export --model_dir=RUN --output_dir=MODELS --version=3
python -m albert_tf.export --model_dir=RUN --output_dir=SMALLER --compute_dtype=bfloat16
python -m albert_tf.export --model_dir=RUN --output_dir=ENCODER --form=encoder
python -m albert_tf.export --model_dir=RUN --output_dir=LITE --form=lite

RUN is the folder of a pre-training (signatures encode, fill_mask, sentence_order) or of
a fine-tuning (one signature: classify, tag, answer or choose). With --version the
SavedModel is MODELS/3, as TensorFlow Serving looks for it. In bfloat16 the weights of
the blocks are kept in it too. With --fixed_length all texts are padded to one length,
for compilers that make code for each shape. The encoder takes ids, gives all its
layers, and can be trained on in Keras. The form lite is a file for TensorFlow Lite with
matrices of eight bits; it takes ids.
"""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from absl import flags

from albert_tf import (
    binary,
    checkpoint,
    encoder,
    files,
    layers,
    lite,
    models,
    reusable_encoder,
    schema,
    serving,
    task_folder,
    task_runs,
    tokenization,
    warm_up_requests,
)
from albert_tf import config as config_lib
from albert_tf.task_serving import base as task_serving
from albert_tf.task_serving import folder as serving_folder

FORMS = ("text", "encoder", "lite")
Serving = serving.PretrainedServing | task_serving.TaskServing


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags: here, so that another binary's can live in one process."""
    flags.DEFINE_string(
        "model_dir",
        None,
        "Folder of a run of albert_tf.pretrain or albert_tf.finetune.",
        flag_values,
    )
    flags.DEFINE_string(
        "output_dir", None, "Folder of the exported model, new or empty.", flag_values
    )
    flags.DEFINE_string(
        "checkpoint",
        "",
        "Which checkpoint to take, such as RUN/model.ckpt-600. By default the newest "
        "of a pre-training, and the best of a fine-tuning.",
        flag_values,
    )
    flags.DEFINE_enum(
        "form",
        "text",
        FORMS,
        "text: strings in, answers out. encoder: ids in, all layers out, weights that "
        "can be trained on. lite: for TensorFlow Lite, ids in, matrices in eight bits.",
        flag_values,
    )
    flags.DEFINE_integer(
        "version",
        None,
        "Writes to the subfolder of this number, as TensorFlow Serving looks for it.",
        lower_bound=1,
        flag_values=flag_values,
    )
    flags.DEFINE_enum(
        "compute_dtype",
        None,
        config_lib.COMPUTE_DTYPES,
        "What the blocks compute in; by default what the run did.",
        flag_values,
    )
    flags.DEFINE_integer(
        "fixed_length",
        None,
        "Pads all texts to that many tokens, and cuts them there. By default they are "
        "padded to the longest in the call, and cut as in the run.",
        lower_bound=1,
        flag_values=flag_values,
    )
    flags.mark_flags_as_required(["model_dir", "output_dir"], flag_values)


def load_serving(
    model_dir: str,
    checkpoint_path: str = "",
    compute_dtype: str | None = None,
    fixed_length: int | None = None,
) -> tuple[Serving, str]:
    """The model of a run, ready to answer, and the path of its checkpoint.

    Args:
      model_dir: the folder of the run.
      checkpoint_path: which one; empty means the newest of a pre-training, and the best
        of a fine-tuning.
      compute_dtype: of the blocks; None means that of the run.
      fixed_length: in tokens, what all texts are padded to and cut at; None means the
        longest of a call, and the longest of the run.

    Raises:
      ValueError: the folder holds no run, its files do not fit each other, or the
        length does not suit the model.
    """
    model_dir = task_runs.best_folder(model_dir)
    config, tokenizer = _read_changed(model_dir, compute_dtype, fixed_length)
    is_fixed_length = fixed_length is not None
    if config.task.name:
        trained, path = serving_folder.load(
            model_dir, config, tokenizer, checkpoint_path, is_fixed_length
        )
        return serving_folder.SERVINGS[trained.model.kind](trained), path
    model, path = _load_pretrained(model_dir, config, checkpoint_path)
    module = serving.PretrainedServing(
        model, tokenizer, config.data.max_seq_length, is_fixed_length
    )
    return module, path


def load_lite(
    model_dir: str, checkpoint_path: str = "", fixed_length: int | None = None
) -> tuple[dict[str, bytes], str]:
    """The files of a run for TensorFlow Lite, by name, and its checkpoint's path.

    Args:
      model_dir: the folder of the run.
      checkpoint_path: as `load_serving` takes it.
      fixed_length: of all texts, in tokens; None means the longest of the run.

    Raises:
      ValueError: as `load_serving` does.
    """
    model_dir = task_runs.best_folder(model_dir)
    config, tokenizer = _read_changed(model_dir, "float32", fixed_length)
    contents = {}
    if config.task.name:
        trained, path = serving_folder.load(
            model_dir, config, tokenizer, checkpoint_path
        )
        length = config.task.max_seq_length
        contents[lite.MODEL_FILE] = lite.convert_task(trained.model, length)
        described = os.path.join(model_dir, task_folder.TASK_FILE)
        contents[task_folder.TASK_FILE] = files.read_bytes(described)
    else:
        model, path = _load_pretrained(model_dir, config, checkpoint_path)
        length = config.data.max_seq_length
        contents[lite.MODEL_FILE] = lite.convert_pretrained(model, length)
    vocab = os.path.join(model_dir, schema.VOCAB_FILE)
    contents[schema.VOCAB_FILE] = files.read_bytes(vocab)
    contents[schema.CONFIG_FILE] = config_lib.to_json(config).encode()
    return contents, path


def load_encoder(
    model_dir: str, checkpoint_path: str = ""
) -> tuple[encoder.Encoder, str]:
    """The encoder of a run alone, and the path of its checkpoint.

    Takes and raises what `load_serving` does.
    """
    model_dir = task_runs.best_folder(model_dir)
    config, _ = _read(model_dir)
    # Its heads are left away, but a whole model knows how to make its variables.
    model = models.build_pretraining_model(
        config.model, config.train.seed, layers.Compute(config.train.compute_dtype)
    )
    best = checkpoint.best_path(model_dir) if config.task.name else None
    path = checkpoint_path or best or checkpoint.newest_path(model_dir)
    checkpoint.restore_parts(path, model=tf.train.Checkpoint(encoder=model.encoder))
    return model.encoder, path


def _load_pretrained(
    model_dir: str, config: config_lib.Config, checkpoint_path: str
) -> tuple[models.PretrainingModel, str]:
    """The model of a pre-training, and the path of its checkpoint."""
    model = models.build_pretraining_model(
        config.model,
        config.train.seed,
        models.serving_form(config.train.compute_dtype),
    )
    if checkpoint_path:
        checkpoint.restore_parts(checkpoint_path, model=model)
    return model, checkpoint_path or checkpoint.restore_model(model_dir, model)


def _read_changed(
    model_dir: str, compute_dtype: str | None, fixed_length: int | None
) -> tuple[config_lib.Config, tokenization.Tokenizer]:
    """As `_read`, with what the flags change.

    Raises:
      ValueError: as `_read` does, or the length does not suit the model.
    """
    config, tokenizer = _read(model_dir)
    if compute_dtype:
        config = _with(config, "train", compute_dtype=compute_dtype)
    if fixed_length:
        if fixed_length > config.model.max_positions:
            raise ValueError(
                "--fixed_length must be at most model.max_positions of the run, "
                f"{config.model.max_positions}; received {fixed_length}"
            )
        section = "task" if config.task.name else "data"
        config = _with(config, section, max_seq_length=fixed_length)
    return config, tokenizer


def _with(config: config_lib.Config, section: str, **changes: Any) -> config_lib.Config:
    """A configuration with other settings in one section."""
    changed = dataclasses.replace(getattr(config, section), **changes)
    return dataclasses.replace(config, **{section: changed})


def _read(model_dir: str) -> tuple[config_lib.Config, tokenization.Tokenizer]:
    """Configuration and tokenizer of a run.

    Raises:
      ValueError: there is no run, or its files do not fit each other.
    """
    config_path = os.path.join(model_dir, schema.CONFIG_FILE)
    if not tf.io.gfile.exists(config_path):
        raise ValueError(
            "--model_dir must be a folder that albert_tf.pretrain or "
            f"albert_tf.finetune wrote; there is no {config_path}"
        )
    with tf.io.gfile.GFile(config_path) as file:
        config = config_lib.from_json(file.read())
    tokenizer = tokenization.Tokenizer.from_file(
        os.path.join(model_dir, schema.VOCAB_FILE), config.data.lower_case
    )
    if tokenizer.vocab_size != config.model.vocab_size:
        raise ValueError(
            f"the vocabulary in {model_dir} has {tokenizer.vocab_size} pieces, but the "
            f"model has {config.model.vocab_size}; put back the vocabulary of the run"
        )
    return config, tokenizer


def export(
    model_dir: str,
    output_dir: str,
    checkpoint_path: str = "",
    form: str = "text",
    compute_dtype: str | None = None,
    fixed_length: int | None = None,
) -> tuple[str, list[str]]:
    """Writes a model.

    Args:
      model_dir: the folder of the run.
      output_dir: the folder of the model.
      checkpoint_path: as `load_serving` takes it.
      form: one of `FORMS`.
      compute_dtype: as `load_serving` takes it; only for texts.
      fixed_length: as `load_serving` takes it; not for an encoder.

    Returns:
      The path of the checkpoint it holds, and the names of its signatures: of texts
      alone.

    Raises:
      ValueError: `model_dir` holds no run, `output_dir` is not empty or cannot be
        written, or the form does not have what is asked for.
    """
    if compute_dtype and form != "text":
        raise ValueError(
            "--compute_dtype must go with --form=text; an encoder computes as its run "
            "did, and TensorFlow Lite in eight bits"
        )
    if fixed_length and form == "encoder":
        raise ValueError(
            "--fixed_length must go with --form=text or --form=lite; an encoder takes "
            "any length"
        )
    if tf.io.gfile.exists(output_dir) and (
        not tf.io.gfile.isdir(output_dir) or tf.io.gfile.listdir(output_dir)
    ):
        raise ValueError(
            f"--output_dir must be new or empty; {output_dir} is not. Remove it or "
            "choose another"
        )

    write: Callable[[str], None]
    names: list[str] = []
    if form == "lite":
        contents, path = load_lite(model_dir, checkpoint_path, fixed_length)
        write = functools.partial(_write_files, contents)
    elif form == "encoder":
        encoder_alone, path = load_encoder(model_dir, checkpoint_path)
        saved = reusable_encoder.make(encoder_alone)
        write = functools.partial(tf.saved_model.save, saved)
    else:
        answering, path = load_serving(
            model_dir, checkpoint_path, compute_dtype, fixed_length
        )
        names = list(answering.signatures)
        write = functools.partial(_save, answering)
    whole = output_dir.rstrip("/")
    # A remote folder is renamed file by file, and one busy answer on the way makes
    # TensorFlow say that there is no such folder; saved_model.pb comes late there too.
    temporary = whole if files.is_remote(whole) else whole + ".incomplete"
    try:
        write(temporary)
        if temporary != whole:
            if tf.io.gfile.exists(whole):
                tf.io.gfile.rmtree(whole)  # it is empty
            tf.io.gfile.rename(temporary, whole)
    except (OSError, tf.errors.OpError) as error:
        raise ValueError(
            f"--output_dir must be a folder that can be written: {error}"
        ) from error
    return path, names


def _write_files(contents: Mapping[str, bytes], folder: str) -> None:
    files.make_folder(folder)
    for name, content in contents.items():
        files.write_bytes(os.path.join(folder, name), content)


def _save(module: Serving, folder: str) -> None:
    """Writes the SavedModel of strings."""
    tf.saved_model.save(module, folder, signatures=module.signatures)
    warm_up_requests.write(folder, module.signatures)


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Exports what the flags say."""
    with binary.user_errors():
        binary.refuse_arguments(argv)
        folder = flag_values.output_dir
        if flag_values.version is not None:
            folder = os.path.join(folder, str(flag_values.version))
            files.make_folder(flag_values.output_dir)
        path, names = export(
            flag_values.model_dir,
            folder,
            flag_values.checkpoint,
            flag_values.form,
            flag_values.compute_dtype,
            flag_values.fixed_length,
        )
    print(f"{folder}: {', '.join(names) or flag_values.form} of {path}")


if __name__ == "__main__":
    binary.run(main, define_flags)
