"""Layer-wise learning-rate decay."""

import tf_keras


def rate_scales(model: tf_keras.Model, decay: float) -> dict[str, float]:
    """Returns the factor of each variable's learning rate, by its name.

    Heads and pooler have 1, the last layer `decay`, the layer before it its square, and
    so on down to the embeddings. A parameter that several layers share belongs to the
    last of them: if all are shared there are three rates.

    Source: Howard and Ruder, 2018 (arXiv 1801.06146), section 3.2; per layer of a
    transformer as Clark et al., 2020 (arXiv 2003.10555), appendix B.
    """
    encoder = model.encoder
    num_inner = encoder.config.num_inner_groups
    levels = dict.fromkeys((v.name for v in model.trainable_variables), 0)
    num_layers = encoder.config.num_layers
    for part in (encoder.embeddings, encoder.embedding_projection):
        for variable in () if part is None else part.trainable_variables:
            levels[variable.name] = num_layers + 1
    for depth, block in enumerate(encoder.block_at_depth):
        for variable in encoder.blocks[block].trainable_variables:
            levels[variable.name] = num_layers - depth // num_inner
    return {name: decay**level for name, level in levels.items()}
