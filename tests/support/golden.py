"""The original's numbers, under the names of this project.

`tests/testdata/golden/*.npz` were produced by the authors' TensorFlow 1 code, run
unmodified under TensorFlow 1.15 on CPU.
"""

import json
import os

import numpy as np

from albert_tf.core import config

FOLDER = os.path.join(os.path.dirname(__file__), "..", "testdata", "golden")

# The original's name, without the group, to ours.
_NAMES = {
    "bert/embeddings/word_embeddings": "encoder/embeddings/word_embeddings",
    "bert/embeddings/token_type_embeddings": "encoder/embeddings/token_type_embeddings",
    "bert/embeddings/position_embeddings": "encoder/embeddings/position_embeddings",
    "bert/embeddings/LayerNorm": "encoder/embeddings/layer_norm",
    "bert/encoder/embedding_hidden_mapping_in": "encoder/embedding_projection",
    "attention_1/self": "attention",
    "attention_1/output/dense": "attention/output",
    "ffn_1/intermediate/dense": "feed_forward/intermediate",
    "ffn_1/intermediate/output/dense": "feed_forward/output",
    "LayerNorm": "attention/layer_norm",
    "LayerNorm_1": "feed_forward/layer_norm",
    "bert/pooler/dense": "encoder/pooler",
    "cls/predictions/transform/dense": "masked_lm/transform",
    "cls/predictions/transform/LayerNorm": "masked_lm/layer_norm",
    "cls/predictions/output_bias": "masked_lm/output_bias",
    "cls/seq_relationship/output_weights": "sentence_order/output/kernel",
    "cls/seq_relationship/output_bias": "sentence_order/output/bias",
}
_GROUPS = "bert/encoder/transformer/group_"


def assert_near(found, expected, limit: float, quantity: str) -> None:
    """Asserts that arrays of one shape differ by less than `limit` everywhere.

    The file that GOLDEN_MARGINS names gets a line: see `golden_margins`.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape, quantity
    difference = float(np.max(np.abs(found - expected)))
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
    if path := os.environ.get("GOLDEN_MARGINS"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps([test, quantity, difference, limit]) + "\n")
    assert difference < limit, (quantity, difference, limit)


def load(name: str) -> dict[str, np.ndarray]:
    """The arrays of one file."""
    with np.load(os.path.join(FOLDER, name + ".npz"), allow_pickle=False) as arrays:
        return dict(arrays)


def load_json(name: str):
    """The values of one JSON file."""
    with open(os.path.join(FOLDER, name + ".json"), encoding="utf-8") as file:
        return json.load(file)


def model_config(arrays) -> config.ModelConfig:
    """The ModelConfig that says what the original's `config_json` says."""
    original = json.loads(str(arrays["config_json"]))
    return config.ModelConfig(
        vocab_size=original["vocab_size"],
        embedding_size=original["embedding_size"],
        hidden_size=original["hidden_size"],
        num_layers=original["num_hidden_layers"],
        num_groups=original["num_hidden_groups"],
        uneven_groups=True,  # model_g2 has 3 layers in 2 groups
        num_inner_groups=original["inner_group_num"],
        num_heads=original["num_attention_heads"],
        intermediate_size=original["intermediate_size"],
        max_positions=original["max_position_embeddings"],
        type_vocab_size=original["type_vocab_size"],
        initializer_range=original["initializer_range"],
    )


def our_name(original: str) -> str:
    """The name of the variable here that is `original` there."""
    if original in _NAMES:
        return f"albert/{_NAMES[original]}:0"
    prefix, _, last = original.rpartition("/")
    if prefix.startswith(_GROUPS):
        group, _, rest = prefix.removeprefix(_GROUPS).partition("/inner_group_0/")
        if rest in _NAMES:
            return f"albert/encoder/block_{group}/{_NAMES[rest]}/{last}:0"
        rest, _, part = rest.rpartition("/")  # query, key, value
        return f"albert/encoder/block_{group}/{_NAMES[rest]}/{part}/{last}:0"
    return f"albert/{_NAMES[prefix]}/{last}:0"


def variables(arrays, prefix: str) -> dict[str, np.ndarray]:
    """The arrays below `prefix` (as "var/"), by our names and in our layout."""
    result = {}
    for name, value in arrays.items():
        if name.startswith(prefix):
            original = name.removeprefix(prefix)
            if original == "cls/seq_relationship/output_weights":
                value = value.T  # kept there as [2, H]
            result[our_name(original)] = value
    return result


def assign(model, values: dict[str, np.ndarray]) -> None:
    """Gives every variable of `model` its value; no name may be left over."""
    ours = {variable.name: variable for variable in model.variables}
    assert set(ours) == set(values), set(ours) ^ set(values)
    for name, variable in ours.items():
        variable.assign(values[name])


def features(arrays) -> dict[str, np.ndarray]:
    """The batch that the goldens were computed on."""
    batch = {
        name.removeprefix("in/"): value
        for name, value in arrays.items()
        if name.startswith("in/")
    }
    batch["next_sentence_labels"] = batch["next_sentence_labels"][:, 0]
    return batch
