"""The files of a model of Hugging Face transformers, by their names.

Without TensorFlow: what a model on the Hub lacks is said before anything is fetched.
"""

import fnmatch
from collections.abc import Iterable

CONFIG = "config.json"
VOCAB = "spiece.model"
TOKENIZER = "tokenizer_config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"  # of weights in several files
PART = "model-*-of-*.safetensors"
# Weights that are not read, the likeliest to be there first; and the remedy.
_OTHERS = {
    PART: f"a part of the weights: copy {INDEX} and all parts",
    **dict.fromkeys(
        ("*.bin", "*.pt", "*.pth", "*.ckpt"),
        "a pickle, which can run any program and is never opened here: save it again "
        "in transformers, whose save_pretrained writes safetensors",
    ),
    "tf_model.h5": "weights of TensorFlow: open them in transformers 4 by "
    "from_pretrained(..., from_tf=True), whose save_pretrained writes safetensors",
    "flax_model.msgpack": "weights of Flax: open them in transformers 4 by "
    "from_pretrained(..., from_flax=True), whose save_pretrained writes safetensors",
}


def remedy(names: Iterable[str]) -> str:
    """What to do about a model without safetensors.

    Args:
      names: of its files.
    """
    names = sorted(names)
    for pattern, advice in _OTHERS.items():
        if matching := fnmatch.filter(names, pattern):
            return f"It holds {matching[0]}, {advice}"
    return "Give a model that has its weights as safetensors"
