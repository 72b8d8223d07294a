"""Model sizes that the ALBERT paper prints, and which of our counts match them.

Source: Lan et al., 2019 (arXiv 1909.11942), its tables of models, of embedding sizes
(3) and of sharing (4). All have V 30,000, 512 positions and F = 4 H.
"""

from albert_tf.core import config as config_lib
from albert_tf.model import costs

# By (L, H, E, sharing). Versions of the paper differ for xxlarge.
PRINTED: dict[tuple[int, int, int, str], tuple[str, ...]] = {
    # Models.
    (12, 768, 128, "all"): ("12M",),
    (24, 1024, 128, "all"): ("18M",),
    (24, 2048, 128, "all"): ("60M",),
    (12, 4096, 128, "all"): ("235M", "233M"),
    (12, 768, 768, "none"): ("108M",),
    (24, 1024, 1024, "none"): ("334M",),
    (24, 2048, 2048, "none"): ("1270M",),
    # ALBERT base with other E and sharing.
    (12, 768, 64, "all"): ("10M",),
    (12, 768, 256, "all"): ("16M",),
    (12, 768, 768, "all"): ("31M",),
    (12, 768, 128, "attention"): ("64M",),
    (12, 768, 768, "attention"): ("83M",),
    (12, 768, 128, "feed_forward"): ("38M",),
    (12, 768, 768, "feed_forward"): ("57M",),
    (12, 768, 64, "none"): ("87M",),
    (12, 768, 128, "none"): ("89M",),
    (12, 768, 256, "none"): ("93M",),
}

# Counts that a printed size may be, by attribute of `costs.Parameters`.
COUNTS = {
    "encoder": "encoder",
    "encoder_without_pooler": "without pooler",
    "total": "with heads",
}


def printed_sizes(model: config_lib.ModelConfig) -> tuple[str, ...]:
    """Returns the sizes that the paper prints for a model, such as "12M", if any."""
    key = (model.num_layers, model.hidden_size, model.embedding_size, model.sharing)
    if key not in PRINTED:
        return ()
    of_paper = config_lib.ModelConfig(
        num_layers=model.num_layers,
        hidden_size=model.hidden_size,
        embedding_size=model.embedding_size,
        sharing=model.sharing,
        num_heads=model.hidden_size // 64,
        intermediate_size=4 * model.hidden_size,
    )
    # Heads and rates change no count; vocabulary, positions or groups would.
    is_same = costs.count_parameters(model) == costs.count_parameters(of_paper)
    return PRINTED[key] if is_same else ()


def reading(printed: str, parameters: costs.Parameters) -> str:
    """Returns a description of which counts round to the paper's figure.

    Args:
      printed: the paper's figure, such as "12M".
      parameters: ours.

    Returns:
      The names of those counts, and the unit of rounding; or that there is none, and
      by how much the nearest differs.
    """
    millions = int(printed.removesuffix("M"))
    counts = {words: getattr(parameters, name) / 1e6 for name, words in COUNTS.items()}
    for unit in (1, 10):
        matching = [
            words
            for words, count in counts.items()
            if unit * round(count / unit) == millions
        ]
        if matching:
            return f"{' or '.join(matching)}, rounded to {unit}M"
    nearest = min(counts, key=lambda words: abs(counts[words] - millions))
    return f"none; {nearest} is nearest ({counts[nearest] / millions - 1:+.1%})"
