"""Models whose weights are all drawn, and what our networks compute from them."""

import numpy as np

from albert_tf.core import config
from albert_tf.interchange import native, portable, weight_names
from albert_tf.model import pretraining_model

SIZES = {
    "vocab_size": 100,
    "embedding_size": 6,
    "hidden_size": 12,
    "num_layers": 4,
    "num_heads": 3,
    "intermediate_size": 20,
    "max_positions": 16,
    "initializer_range": 0.3,
}
SHARINGS = {
    "all": {},
    "groups": {"num_groups": 2},
    "uneven": {"num_layers": 3, "num_groups": 2, "uneven_groups": True},
    "inner": {"num_groups": 2, "num_inner_groups": 2},
    "none": {"sharing": "none"},
    "attention": {"sharing": "attention"},
    "feed_forward": {"sharing": "feed_forward", "num_groups": 2},
    "bert": {"sharing": "none", "embedding_size": 12},
    "one_layer": {"num_layers": 1},
}


def draw(sharing: str = "all", parts=None, head=None, **more) -> portable.PortableModel:
    """A model whose weights are all drawn, biases and norms too."""
    settings = config.ModelConfig(**{**SIZES, **SHARINGS[sharing], **more})
    network = pretraining_model.build_pretraining_model(settings, seed=4)
    rng = np.random.default_rng(7)
    for variable in network.variables:
        variable.assign(rng.normal(0.2, 0.3, variable.shape))
    weights = {name: value.numpy() for name, value in native.variables(network, None)}
    if head is not None:
        weights = {n: v for n, v in weights.items() if n.startswith("encoder/")}
        shapes = weight_names.shapes_of(settings, (portable.HEAD,), head)
        weights |= {n: rng.normal(0, 0.3, s).astype("f4") for n, s in shapes.items()}
    if parts:
        weights = {n: v for n, v in weights.items() if portable.part_of(n) in parts}
    return portable.PortableModel(settings, weights, head=head)


def network_of(model: portable.PortableModel) -> pretraining_model.PretrainingModel:
    """Our network with these weights."""
    network = pretraining_model.build_pretraining_model(model.config, seed=1)
    for name, variable in native.variables(network, None):
        variable.assign(model.weights[name])
    return network


def batch(settings: config.ModelConfig) -> dict[str, np.ndarray]:
    """Three rows, the second padded."""
    rng = np.random.default_rng(3)
    mask = np.ones([3, 7], np.int32)
    mask[1, 4:] = 0
    return {
        "input_ids": rng.integers(0, settings.vocab_size, [3, 7]).astype(np.int32),
        "input_mask": mask,
        "segment_ids": np.tile(np.int32([0, 0, 0, 1, 1, 1, 1]), [3, 1]),
        "masked_lm_positions": np.int32([[1, 3], [0, 2], [6, 5]]),
    }


def outputs_of(model: portable.PortableModel) -> dict[str, np.ndarray]:
    """What our network computes from these weights."""
    found = network_of(model)(batch(model.config))
    return {
        "sequence_output": found.encoder.sequence_output.numpy(),
        "pooled_output": found.encoder.pooled_output.numpy(),
        "mlm_logits": found.mlm.logits.numpy(),
        "pair_logits": found.pair_logits.numpy(),
    }
