"""Folders of Hugging Face transformers: config.json, model.safetensors, spiece.model.

The classes are AlbertForPreTraining, AlbertForMaskedLM, AlbertModel, and those of
tasks.
"""

import os

from albert_tf.core import config as config_lib
from albert_tf.core import files
from albert_tf.interchange import hugging_face_config as hf_config
from albert_tf.interchange import (
    hugging_face_files,
    io,
    layer_groups,
    portable,
    tokenizer_json,
    weight_files,
    weight_map,
    weight_names,
)
from albert_tf.interchange import hugging_face_weights as hf_weights


def read(
    path: str, options: portable.ReadOptions, report: weight_map.ConversionReport
) -> portable.PortableModel:
    """Reads a folder.

    Args:
      path: the folder.
      options: what the user specifies.
      report: gets the number of weights, and what is ignored.

    Raises:
      ValueError: it is damaged, or of another architecture.
    """
    config_path = os.path.join(path, hugging_face_files.CONFIG)
    values = io.read_json(config_path)
    config = hf_config.read_model(values, config_path)
    paths = hf_weights.paths_in(path)
    weight_files.require_size(config, config_path, paths)
    external = hf_weights.read(paths)
    weights_path = os.path.join(path, hugging_face_files.WEIGHTS)
    prefix = "albert." if any(name.startswith("albert.") for name in external) else ""
    external = hf_weights.untied(external, prefix, weights_path, report)
    head = hf_config.read_head(values, external, options, config_path)
    parts = hf_weights.parts_of(external, prefix, head)
    if config.embedding_size == config.hidden_size:
        kernel, bias = hf_weights.identity_projection(prefix, config.hidden_size)
        external = weight_map.without_identity(
            external, (kernel, bias), weights_path, report
        )
    buffers = tuple(prefix + name for name in hf_weights.BUFFERS)
    weights = weight_map.to_native(
        hf_weights.entries_of(config, parts, head, prefix),
        external,
        weight_names.shapes_of(config, parts, head),
        weights_path,
        [weight_map.Ignored(buffers, "omitted, computed and not learned")],
        report,
    )
    vocab = io.choose_vocab(
        options.vocab_path,
        os.path.join(path, hugging_face_files.VOCAB),
        config.vocab_size,
    )
    return portable.PortableModel(
        config=config,
        weights=weights,
        lower_case=hf_config.read_lower_case(path),
        vocab=vocab,
        head=head,
    )


def write(
    model: portable.PortableModel, folder: str, report: weight_map.ConversionReport
) -> portable.PortableModel:
    """Writes a folder that `from_pretrained` takes.

    Args:
      model: what to write; of "answerable_span" only the encoder has a counterpart.
      folder: an empty one.
      report: gets the number of weights, and what has no counterpart.

    Returns:
      What was written of the model.

    Raises:
      ValueError: the library has no such model.
    """
    config = model.config
    parts, head = _supported(model, report)
    class_name = hf_config.class_of(parts, head)
    prefix = "" if class_name == hf_config.BARE else "albert."
    layout = layer_groups.of_config(config, layer_groups.by_division, "transformers")
    if layout.copied:
        report.say(f"  {layout.copied} has no counterpart: each layer gets a copy")
    entries = hf_weights.entries_of(config, parts, head, prefix)
    external = weight_map.to_external(entries, model.weights, report)
    if config.embedding_size == config.hidden_size:
        projection = hf_weights.identity_projection(prefix, config.hidden_size)
        external |= projection
        name = next(iter(projection)).removesuffix(".weight")
        report.say(f"  {name} has no counterpart here: the identity, for E = H")
    hf_weights.write(folder, external)
    hf_config.write(folder, class_name, config, layout.num_groups, head)
    if model.vocab is None:
        report.lacks_vocab(hugging_face_files.VOCAB)
    else:
        lower_case = model.lower_case is not False
        _write_tokenizer(model.vocab, lower_case, config, folder)
    return model.keeping(parts, head)


def _supported(
    model: portable.PortableModel, report: weight_map.ConversionReport
) -> tuple[tuple[str, ...], portable.TaskHeadConfig | None]:
    """The parts and the head that the library has; reports the others."""
    head, parts = model.head, model.parts
    if head is not None and head.kind not in hf_config.CLASSES:
        lost = weight_names.shapes_of(model.config, (portable.HEAD,), head)
        report.say(
            f"  no counterpart, omitted: the head {head.kind} with "
            f"{weight_map.listed(list(lost))}"
        )
        head, parts = None, (portable.ENCODER, portable.POOLER)
    if head is not None and head.kind not in hf_config.POOLED_KINDS:
        parts = tuple(part for part in parts if part != portable.POOLER)
        class_name = hf_config.CLASSES[head.kind]
        report.say(f"  no counterpart in {class_name}, omitted: the pooler")
    if model.moments is not None:
        report.say("  no counterpart, omitted: the optimizer's slots, and the step")
    return parts, head


def _write_tokenizer(
    vocab: bytes, lower_case: bool, config: config_lib.ModelConfig, folder: str
) -> None:
    files.write_bytes(os.path.join(folder, hugging_face_files.VOCAB), vocab)
    files.write_bytes(
        os.path.join(folder, tokenizer_json.FILE),
        tokenizer_json.build(vocab, lower_case),
    )
    hf_config.write_tokenizer(folder, lower_case, config.max_positions)
