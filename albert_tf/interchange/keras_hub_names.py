"""The names of KerasHub's weights, by their `path` in Keras, as of 0.32.0."""

from albert_tf.core import config as config_lib
from albert_tf.interchange import layer_groups, portable, weight_map


def entries_of(
    config: config_lib.ModelConfig,
    parts: tuple[str, ...],
    head: portable.TaskHeadConfig | None,
) -> list[weight_map.Entry]:
    """The native and external names of all weights.

    Args:
      config: of the model.
      parts: of `portable`.
      head: of a classifier.
    """
    entries = _encoder_entries(config)
    entries += _same("encoder/pooler", "pooled_dense", "kernel", "bias")
    if portable.MASKED_LM in parts:
        entries += _same(
            "masked_lm/transform", "mlm_head/intermediate_dense", "kernel", "bias"
        )
        entries += _same(
            "masked_lm/layer_norm", "mlm_head/intermediate_layer_norm", "gamma", "beta"
        )
        entries += _same("masked_lm", "mlm_head", "output_bias")
    if head is not None:
        entries += _same("head/output_projection", "logits", "kernel", "bias")
    return entries


def _encoder_entries(config: config_lib.ModelConfig) -> list[weight_map.Entry]:
    hidden, num_heads = config.hidden_size, config.num_heads
    head_size = hidden // num_heads
    entries = [
        weight_map.Entry(f"encoder/embeddings/{native}", external)
        for native, external in (
            ("word_embeddings", "token_embedding/embeddings"),
            ("position_embeddings", "position_embedding/embeddings"),
            ("token_type_embeddings", "segment_embedding/embeddings"),
        )
    ]
    entries += _same(
        "encoder/embeddings/layer_norm", "embeddings_layer_norm", "gamma", "beta"
    )
    if config.embedding_size != hidden:
        entries += _same(
            "encoder/embedding_projection", "embedding_projection", "kernel", "bias"
        )
    layout = layer_groups.of_config(config, layer_groups.by_equal_parts, "KerasHub")
    for (group, inner), block in sorted(layout.block_of.items()):
        here = f"encoder/blocks/{block}"
        there = f"group_{group}_inner_layer_{inner}"
        for name in ("query", "key", "value"):
            native, external = (
                f"{here}/attention/{name}",
                f"{there}/self_attention_layer/{name}",
            )
            # [H, H] is [H, N, D] there: the columns of one head are adjacent.
            entries += [
                _reshaped(
                    f"{native}/kernel",
                    f"{external}/kernel",
                    hidden,
                    num_heads,
                    head_size,
                ),
                _reshaped(f"{native}/bias", f"{external}/bias", num_heads, head_size),
            ]
        native = f"{here}/attention/output_projection"
        external = f"{there}/self_attention_layer/attention_output"
        entries += [
            _reshaped(
                f"{native}/kernel", f"{external}/kernel", num_heads, head_size, hidden
            ),
            *_same(native, external, "bias"),
            *_same(
                f"{here}/attention/layer_norm",
                f"{there}/self_attention_layer_norm",
                "gamma",
                "beta",
            ),
        ]
        here = f"{here}/feed_forward"
        for native, external, lasts in (
            ("intermediate", "feedforward_intermediate_dense", ("kernel", "bias")),
            ("output_projection", "feedforward_output_dense", ("kernel", "bias")),
            ("layer_norm", "feedforward_layer_norm", ("gamma", "beta")),
        ):
            entries += _same(f"{here}/{native}", f"{there}/{external}", *lasts)
    return entries


def _same(native: str, external: str, *lasts: str) -> list[weight_map.Entry]:
    return [
        weight_map.Entry(f"{native}/{last}", f"{external}/{last}") for last in lasts
    ]


def _reshaped(native: str, external: str, *shape: int) -> weight_map.Entry:
    return weight_map.Entry(native, external, weight_map.Transform.RESHAPED, shape)
