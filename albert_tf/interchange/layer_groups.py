"""Groups of layers, by which other libraries share parameters.

They number the blocks by group and by index within the group. Each library has its own
rule for the group of a layer.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from albert_tf.core import config as config_lib
from albert_tf.core import short_repr
from albert_tf.model import sharing

# From the layer, the number of layers and the number of groups to the group.
GroupOfLayer = Callable[[int, int, int], int]


class Groups(NamedTuple):
    """Native blocks in the groups of another library.

    num_groups: the library's number of groups.
    block_of: index of the native block, by (group, index within it).
    copied: what is shared here and copied there; empty if nothing is.
    """

    num_groups: int
    block_of: dict[tuple[int, int], int]
    copied: str = ""


def of_config(
    config: config_lib.ModelConfig, group_of_layer: GroupOfLayer, library: str
) -> Groups:
    """The groups that are equivalent to the sharing of a native model.

    If there are none, every layer gets a group with copies of what was shared: the same
    outputs from more weights.

    Args:
      config: of the native model.
      group_of_layer: the library's.
      library: its name, for errors.

    Raises:
      ValueError: no number of groups gives these layers.
    """
    pairs = sharing.parts_at_depth(config)
    distinct = list(dict.fromkeys(pairs))
    blocks = [distinct.index(pair) for pair in pairs]
    for num_groups in dict.fromkeys((config.num_groups, config.num_layers)):
        block_of = _block_of(config, group_of_layer, num_groups, blocks)
        if block_of is None:
            continue
        copied = ""
        if len(block_of) > len(distinct):
            copied = f'model.sharing "{config.sharing}"'
        elif len({pair[0] for pair in pairs}) < len(distinct):
            copied = "the attention that layers share"
        elif len({pair[1] for pair in pairs}) < len(distinct):
            copied = "the feed-forward that layers share"
        return Groups(num_groups, block_of, copied)
    raise ValueError(
        f"{library} divides {config.num_layers} layers into groups by numbers that "
        "round, so that none of its divisions is that of this model; nothing can be "
        "written"
    )


def _block_of(
    config: config_lib.ModelConfig,
    group_of_layer: GroupOfLayer,
    num_groups: int,
    blocks: list[int],
) -> dict[tuple[int, int], int] | None:
    """Block by group and index; None if a group would need two blocks at an index."""
    block_of: dict[tuple[int, int], int] = {}
    for layer in range(config.num_layers):
        group = group_of_layer(layer, config.num_layers, num_groups)
        for inner in range(config.num_inner_groups):
            block = blocks[layer * config.num_inner_groups + inner]
            if block_of.setdefault((group, inner), block) != block:
                return None
    if len(block_of) != num_groups * config.num_inner_groups:
        return None
    return block_of


def sharing_settings(
    num_layers: int,
    num_groups: int,
    group_of_layer: GroupOfLayer,
    where: str,
    keys: Mapping[str, str],
) -> dict[str, Any]:
    """The settings of `ModelConfig` that are equivalent to groups of layers.

    Args:
      num_layers: the number of layers.
      num_groups: the number of groups.
      group_of_layer: the library's.
      where: path of the library's configuration, for errors.
      keys: what it calls settings, where the names differ.

    Raises:
      ValueError: no settings give these groups.
    """
    layers_key = keys.get("num_layers", "num_layers")
    groups_key = keys.get("num_groups", "num_groups")
    if not 1 <= num_groups <= num_layers:
        raise ValueError(
            f"{where}: {groups_key} must be from 1 to {layers_key}; received "
            f"{num_groups} and {num_layers}"
        )
    if num_layers > config_lib.MAX_BLOCK_APPLICATIONS:
        raise ValueError(
            f"{where}: {layers_key} must be at most "
            f"{config_lib.MAX_BLOCK_APPLICATIONS:,}; received {num_layers:,}"
        )
    external = [
        group_of_layer(layer, num_layers, num_groups) for layer in range(num_layers)
    ]
    native = [layer * num_groups // num_layers for layer in range(num_layers)]
    if external != native:
        raise ValueError(
            f"{where}: {groups_key} and {layers_key} make {num_groups} groups of "
            f"{num_layers} layers, which its library divides as "
            f"{short_repr.shown(external)}; here they are divided as "
            f"{short_repr.shown(native)}"
        )
    if num_groups == num_layers > 1:
        return {"sharing": "none"}
    return {
        "sharing": "all",
        "num_groups": num_groups,
        "uneven_groups": num_layers % num_groups != 0,
    }


def by_scaling(layer: int, num_layers: int, num_groups: int) -> int:
    """The original's rule, in floats."""
    return int(layer / num_layers * num_groups)


def by_division(layer: int, num_layers: int, num_groups: int) -> int:
    """Hugging Face's rule, in floats."""
    return int(layer / (num_layers / num_groups))


def by_equal_parts(layer: int, num_layers: int, num_groups: int) -> int:
    """KerasHub's rule; -1 if the groups would not be equally long."""
    if num_layers % num_groups:
        return -1
    return layer // (num_layers // num_groups)
