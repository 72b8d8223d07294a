"""Exports the model of a run: SavedModels that take strings or ids, and TF Lite.

Each function writes a new or empty directory, which locally appears only when it is
complete, and returns the path of the checkpoint that it exported.
"""

import contextlib
import os
from collections.abc import Collection, Iterator

import tensorflow as tf

from albert_tf.checkpoints import untrained as untrained_lib
from albert_tf.core import (
    checksums,
    config_io,
    files,
    progress_bar,
    provenance,
    task_config,
)
from albert_tf.core import config as config_lib
from albert_tf.data import schema
from albert_tf.finetuning import results_reader, run_dir
from albert_tf.inference import openvino_model, saved_model_dir
from albert_tf.model import encoder as encoder_lib
from albert_tf.serving import (
    hub_encoder,
    load,
    model_card,
    model_facts,
    openvino_export,
    signature,
    tflite,
    warmup,
)

# Beside vocabulary and configuration.
SIGNATURES_FILE = "signatures.md"
_CONVERTING = "converting it for TensorFlow Lite"


def export_text(
    model_dir: str,
    output_dir: str,
    checkpoint_path: str = "",
    compute_dtype: str | None = None,
    fixed_length: int | None = None,
    weights: str = config_lib.WEIGHTS[0],
    license_name: str = model_card.UNKNOWN_LICENSE,
) -> tuple[str, list[str]]:
    """Writes a SavedModel that takes strings, with requests to warm it up.

    Vocabulary, configuration, model card and descriptions of the signatures are written
    beside them.

    Args:
      model_dir: the run directory.
      output_dir: the directory of the model.
      checkpoint_path: as in `load.load_serving`.
      compute_dtype: as in `load.load_serving`.
      fixed_length: as in `load.load_serving`.
      weights: as in `load.load_serving`.
      license_name: for the model card, as `model_card.check_license` takes it.

    Returns:
      The path of the checkpoint, and the names of the signatures.

    Raises:
      ValueError: as `load.load_serving`; or `output_dir` cannot be written.
    """
    module, path = load.load_serving(
        model_dir, checkpoint_path, compute_dtype, fixed_length, weights
    )
    _say_restored(model_dir, path, "tracing and writing the signatures")
    with _complete(output_dir) as unfinished:
        tf.saved_model.save(module, unfinished, signatures=module.signatures)
        warmup.write(unfinished, module.signatures)
        _write_extra(model_dir, unfinished, compute_dtype, fixed_length, path)
        text = signature.describe(module.signatures)
        extra = os.path.join(unfinished, saved_model_dir.EXTRA)
        files.write_bytes(os.path.join(extra, SIGNATURES_FILE), text.encode())
        _write_card(model_dir, unfinished, "text", path, license_name, weights)
    return path, list(module.signatures)


def export_encoder(
    model_dir: str,
    output_dir: str,
    checkpoint_path: str = "",
    weights: str = config_lib.WEIGHTS[0],
    license_name: str = model_card.UNKNOWN_LICENSE,
) -> str:
    """Writes the encoder as a SavedModel that takes ids and can be trained further.

    Vocabulary and configuration are written beside it. Takes, returns and raises what
    `export_text` does, without signatures.
    """
    encoder, path = load.load_encoder(model_dir, checkpoint_path, weights)
    _say_restored(model_dir, path, "tracing and writing the encoder")
    saved = hub_encoder.make(encoder)
    with _complete(output_dir) as unfinished:
        tf.saved_model.save(saved, unfinished)
        _write_extra(model_dir, unfinished, None, None, path)
        _write_card(model_dir, unfinished, "encoder", path, license_name, weights)
    return path


def export_tflite(
    model_dir: str,
    output_dir: str,
    checkpoint_path: str = "",
    fixed_length: int | None = None,
    weights: str = config_lib.WEIGHTS[0],
    license_name: str = model_card.UNKNOWN_LICENSE,
) -> str:
    """Writes a TensorFlow Lite model beside vocabulary, configuration and task.

    Takes, returns and raises what `export_text` does, without signatures.
    """
    run_path = model_dir
    model_dir = results_reader.best_folder(model_dir)
    config, tokenizer = load.read_run(model_dir, "float32", fixed_length)
    contents = {}
    if config.task.name:
        task, path = load.load_task(
            model_dir, config, tokenizer, checkpoint_path, weights=weights
        )
        length = config.task.max_seq_length
        _say_restored(model_dir, path, _CONVERTING)
        contents[tflite.MODEL_FILE] = tflite.convert_task(task.model, length)
        task_path = os.path.join(model_dir, run_dir.TASK_FILE)
        contents[run_dir.TASK_FILE] = files.read_bytes(task_path)
    else:
        model, path = load.load_pretrained(model_dir, config, checkpoint_path, weights)
        length = config.data.max_seq_length
        _say_restored(model_dir, path, _CONVERTING, untrained_lib.PARTS)
        contents[tflite.MODEL_FILE] = tflite.convert_pretrained(model, length)
    vocab_path = os.path.join(model_dir, schema.VOCAB_FILE)
    contents[schema.VOCAB_FILE] = files.read_bytes(vocab_path)
    contents[schema.CONFIG_FILE] = config_io.to_json(config).encode()
    with _complete(output_dir) as unfinished:
        for name, content in contents.items():
            files.write_bytes(os.path.join(unfinished, name), content)
        _write_card(run_path, unfinished, "lite", path, license_name, weights)
    return path


def export_openvino(
    model_dir: str,
    output_dir: str,
    checkpoint_path: str = "",
    precision: str = "float32",
    calibration_path: str = "",
    weights: str = config_lib.WEIGHTS[0],
    license_name: str = model_card.UNKNOWN_LICENSE,
) -> tuple[str, list[str]]:
    """Writes a model that takes strings, and whose encoder OpenVINO computes.

    Args:
      model_dir: the run directory.
      output_dir: the directory of the model, a local one.
      checkpoint_path: as in `load.load_serving`.
      precision: one of `openvino_model.PRECISIONS`.
      calibration_path: for int8, a file of examples, as albert_tf.predict reads them.
      weights: as in `load.load_serving`.
      license_name: for the model card, as `model_card.check_license` takes it.

    Returns:
      The path of the checkpoint, and the names of the signatures.

    Raises:
      ValueError: as `export_text`; or OpenVINO is not installed, or there is no example
        to calibrate with.
    """
    made: list[openvino_export.DividedEncoder] = []

    def divide(encoder: encoder_lib.Encoder) -> openvino_export.DividedEncoder:
        made.append(openvino_export.DividedEncoder(encoder))
        return made[-1]

    module, path = load.load_serving(
        model_dir, checkpoint_path, "float32", None, weights, divide
    )
    is_int8 = precision == "int8"
    settings = openvino_model.Settings(
        "float32" if is_int8 else precision,
        os.path.basename(path),
        weights,
        made[0].encoder.config.hidden_size,
    )
    _say_restored(model_dir, path, "converting it for OpenVINO, up to a minute")
    with _complete(output_dir) as unfinished:
        openvino_export.write(module, made[0], settings, unfinished)
        if is_int8:
            progress_bar.say(f"calibrating with {calibration_path}")
            openvino_export.quantize(unfinished, calibration_path)
        _write_extra(model_dir, unfinished, "float32", None, path)
        _write_card(model_dir, unfinished, "openvino", path, license_name, weights)
        signatures = openvino_model.Model(unfinished).signatures
    return path, list(signatures)


def _say_restored(
    model_dir: str,
    path: str,
    following: str,
    parts: Collection[str] = (untrained_lib.POOLER,),
) -> None:
    """Writes a line that a checkpoint is restored, and what takes seconds now.

    Another line names those of the parts that are exported though never trained.
    """
    progress_bar.say(f"restored {path}; {following}")
    model_dir = results_reader.best_folder(model_dir)
    config = config_io.read(os.path.join(model_dir, schema.CONFIG_FILE))
    if not config.task.name:
        found = sorted(untrained_lib.of_run(model_dir, config) & set(parts))
        if found:
            progress_bar.say(f"never trained, so not to be used: {', '.join(found)}")


def _write_extra(
    model_dir: str,
    saved_model: str,
    compute_dtype: str | None,
    fixed_length: int | None,
    checkpoint_path: str,
) -> None:
    """Adds vocabulary, configuration, task and description of what was exported."""
    name = provenance.name_of(model_dir)
    model_dir = results_reader.best_folder(model_dir)
    config, tokenizer = load.read_run(model_dir, compute_dtype, fixed_length)
    folder = os.path.join(saved_model, saved_model_dir.EXTRA)
    files.make_folder(folder)
    files.write_bytes(os.path.join(folder, schema.VOCAB_FILE), tokenizer.model_proto)
    content = config_io.to_json(config).encode()
    files.write_bytes(os.path.join(folder, schema.CONFIG_FILE), content)
    if config.task.name:
        task = files.read_bytes(os.path.join(model_dir, run_dir.TASK_FILE))
        files.write_bytes(os.path.join(folder, run_dir.TASK_FILE), task)
    made = provenance.now()
    saved_model_dir.write_description(
        saved_model,
        saved_model_dir.Description(
            name,
            task_config.TITLES.get(config.task.name, "pre-training"),
            os.path.basename(checkpoint_path),
            made.date,
            made.versions,
            fixed_length is not None,
        ),
    )


def _write_card(
    model_dir: str,
    folder: str,
    form: str,
    checkpoint_path: str,
    license_name: str,
    weights: str,
) -> None:
    card = model_facts.card_of_run(
        model_dir, form, checkpoint_path, license_name, weights
    )
    files.write_bytes(os.path.join(folder, model_card.FILE), card.encode())


@contextlib.contextmanager
def _complete(output_dir: str) -> Iterator[str]:
    """As `files.complete_folder`, with the sums of its files.

    Raises:
      ValueError: it cannot be written.
    """
    try:
        with files.complete_folder(output_dir) as unfinished:
            yield unfinished
            checksums.write(unfinished)
    except (OSError, tf.errors.OpError) as error:
        raise ValueError(
            f"--output_dir must be a directory that can be written: {error}"
        ) from error
