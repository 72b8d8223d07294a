"""The names and shapes of native weights, part by part.

Shapes: V vocabulary, E embedding, H hidden, I intermediate.
"""

from albert_tf.core import config as config_lib
from albert_tf.interchange import portable
from albert_tf.model import sharing

Shapes = dict[str, tuple[int, ...]]


def shapes_of(
    config: config_lib.ModelConfig,
    parts: tuple[str, ...],
    head: portable.TaskHeadConfig | None = None,
) -> Shapes:
    """Name and shape of every weight of some parts, in the order of the network.

    Args:
      config: the sizes.
      parts: of `portable`.
      head: describes the part `portable.HEAD`.
    """
    shapes: Shapes = {}
    for part in parts:
        match part:
            case portable.ENCODER:
                shapes |= _encoder(config)
            case portable.POOLER:
                shapes |= _dense(
                    "encoder/pooler", config.hidden_size, config.hidden_size
                )
            case portable.MASKED_LM:
                shapes |= _masked_lm(config)
            case portable.SENTENCE_ORDER:
                shapes |= _dense(
                    "sentence_order/output_projection", config.hidden_size, 2
                )
            case portable.HEAD:
                shapes |= _head(config.hidden_size, head)
    return shapes


def num_blocks(config: config_lib.ModelConfig) -> int:
    """The number of blocks; one that is applied several times counts once."""
    return len(set(sharing.parts_at_depth(config)))


def _encoder(config: config_lib.ModelConfig) -> Shapes:
    embedding, hidden = config.embedding_size, config.hidden_size
    shapes: Shapes = {
        "encoder/embeddings/word_embeddings": (config.vocab_size, embedding),
        "encoder/embeddings/position_embeddings": (config.max_positions, embedding),
        "encoder/embeddings/token_type_embeddings": (
            config.type_vocab_size,
            embedding,
        ),
        **_layer_norm("encoder/embeddings/layer_norm", embedding),
    }
    if embedding != hidden:
        shapes |= _dense("encoder/embedding_projection", embedding, hidden)
    for block in range(num_blocks(config)):
        attention = f"encoder/blocks/{block}/attention"
        for name in ("query", "key", "value", "output_projection"):
            shapes |= _dense(f"{attention}/{name}", hidden, hidden)
        shapes |= _layer_norm(f"{attention}/layer_norm", hidden)
        feed_forward = f"encoder/blocks/{block}/feed_forward"
        inner = config.intermediate_size
        shapes |= _dense(f"{feed_forward}/intermediate", hidden, inner)
        shapes |= _dense(f"{feed_forward}/output_projection", inner, hidden)
        shapes |= _layer_norm(f"{feed_forward}/layer_norm", hidden)
    return shapes


def _masked_lm(config: config_lib.ModelConfig) -> Shapes:
    return {
        **_dense("masked_lm/transform", config.hidden_size, config.embedding_size),
        **_layer_norm("masked_lm/layer_norm", config.embedding_size),
        "masked_lm/output_bias": (config.vocab_size,),
    }


def _head(hidden: int, head: portable.TaskHeadConfig | None) -> Shapes:
    if head is None:
        raise ValueError("a model with weights of a head must describe the head")
    match head.kind:
        case "classification" | "token_classification":
            return _dense("head/output_projection", hidden, len(head.labels))
        case "regression" | "multiple_choice":
            return _dense("head/output_projection", hidden, 1)
        case "span":
            return _dense("head/output_projection", hidden, 2)
        case "answerable_span":
            return {
                **_dense("head/start_output", hidden, 1),
                **_dense("head/end_transform", 2 * hidden, hidden),
                **_layer_norm("head/end_layer_norm", hidden),
                **_dense("head/end_output", hidden, 1),
                **_dense("head/answer_transform", 2 * hidden, hidden),
                "head/answer_output/kernel": (hidden, 1),
            }
    raise ValueError(f"there is no head of the kind {head.kind!r}")


def _dense(name: str, inputs: int, units: int) -> Shapes:
    return {f"{name}/kernel": (inputs, units), f"{name}/bias": (units,)}


def _layer_norm(name: str, size: int) -> Shapes:
    return {f"{name}/gamma": (size,), f"{name}/beta": (size,)}
