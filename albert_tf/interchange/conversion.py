"""Reads a model in one format and writes it in another."""

import os
from collections.abc import Callable

from albert_tf.core import checksums, files
from albert_tf.core import config as config_lib
from albert_tf.interchange import (
    albert_zh,
    formats,
    hugging_face,
    keras_hub,
    native,
    portable,
    tf1,
    weight_map,
)

Reader = Callable[
    [str, portable.ReadOptions, weight_map.ConversionReport], portable.PortableModel
]
Writer = Callable[
    [portable.PortableModel, str, weight_map.ConversionReport], portable.PortableModel
]

READERS: dict[str, Reader] = {
    formats.NATIVE: native.read,
    "tf1": tf1.read,
    "albert_zh": albert_zh.read,
    "hf": hugging_face.read,
    "keras": keras_hub.read,
}
# Without the native format, whose writer takes a recipe too.
_WRITERS: dict[str, Writer] = {
    "tf1": tf1.write,
    "hf": hugging_face.write,
    "keras": keras_hub.write,
}


def write(
    name: str,
    model: portable.PortableModel,
    folder: str,
    recipe: config_lib.Config,
    report: weight_map.ConversionReport,
) -> portable.PortableModel:
    """Writes a model in one of the formats `formats.WRITTEN`.

    Args:
      name: the format's.
      model: what to write.
      folder: an empty one.
      recipe: the settings that a run has and the model has not.
      report: gets the number of weights, and what has no counterpart.

    Returns:
      What was written of the model.

    Raises:
      ValueError: the format has no such model.
    """
    if name == formats.NATIVE:
        native.write(model, folder, recipe, report)
        return model
    return _WRITERS[name](model, folder, report)


def convert(
    source: str,
    target: str,
    options: portable.ReadOptions,
    add_card: Callable[[portable.PortableModel, str], None] = lambda *_: None,
    list_weights: bool = False,
) -> list[str]:
    """Converts a model; the target appears complete or not at all.

    Args:
      source: FORMAT:PATH.
      target: FORMAT:DIRECTORY.
      options: what the user specifies of the source.
      add_card: adds a model card to the written directory, of what was written.
      list_weights: whether each weight has a line.

    Returns:
      Lines with the number of weights, and with what is omitted, computed or has no
      counterpart.

    Raises:
      ValueError: the source is damaged or of another architecture, or the target
        cannot hold it.
    """
    (source_format, path), (target_format, folder) = formats.locate(source, target)
    report = weight_map.ConversionReport(list_weights)
    report.say(f"from {source}:")
    checksums.check(path if files.is_folder(path) else os.path.dirname(path))
    model = READERS[source_format](path, options, report)
    report.say(f"to {target}:")
    with files.complete_folder(folder) as unfinished:
        kept = write(target_format, model, unfinished, options.recipe, report)
        add_card(kept, unfinished)
        if target_format != formats.NATIVE:  # whose checkpoints have checksums
            checksums.write(unfinished)
    return report.lines
