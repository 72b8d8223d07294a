"""Parameter sharing across layers (ALBERT paper, section 3.1), without TensorFlow."""

from albert_tf.core import config as config_lib


def parts_at_depth(config: config_lib.ModelConfig) -> list[tuple[int, int]]:
    """Attention and feed-forward of each block application.

    Args:
      config: its sharing, groups and inner groups.

    Returns:
      For each application, in order, the numbers of the two parts. Equal pairs are one
      block.
    """
    pairs = []
    for layer in range(config.num_layers):
        # Differs from the original: its division of floats rounds, so that layer 1 of
        # 49 in 49 groups gets the block of layer 0.
        group = layer * config.num_groups // config.num_layers
        for inner in range(config.num_inner_groups):
            shared = group * config.num_inner_groups + inner
            own = layer * config.num_inner_groups + inner
            pairs.append(
                (
                    shared if config.sharing in ("all", "attention") else own,
                    shared if config.sharing in ("all", "feed_forward") else own,
                )
            )
    return pairs
