"""Runs this project for the tests of transformers, in the product's environment.

python -m tests.interop.our_side write FOLDER
python -m tests.interop.our_side read FOLDER

`write` makes a folder for each case: `hf`, which transformers is to load, and
`outputs.npz`, the inputs and this project's outputs. `read` computes the same from
each `saved`, which transformers wrote beside them, and writes `read.npz`. The case with
a vocabulary has `scores.npz` too: sentences and their scores in a grammar probe.
"""

import dataclasses
import pathlib
import sys

import numpy as np

from albert_tf.interchange import hugging_face, native, portable, weight_map
from albert_tf.model import task_model
from albert_tf.probing import model_scorer, scoring, settings
from albert_tf.tokenization import tokenizer as tokenizer_lib
from tests.support import portable_models, small_run

_PARTS = {
    "model": (portable.ENCODER, portable.POOLER),
    "masked_lm": (portable.ENCODER, portable.MASKED_LM),
}
_HEADS = {
    "classification": portable.TaskHeadConfig(
        "classification", ("no", "yes", "perhaps")
    ),
    "regression": portable.TaskHeadConfig("regression"),
    "token_classification": portable.TaskHeadConfig(
        "token_classification", ("O", "B", "I")
    ),
    "span": portable.TaskHeadConfig("span"),
    "multiple_choice": portable.TaskHeadConfig("multiple_choice"),
}

SENTENCES = (
    "The church was built near a small lake.",
    "The church were built near a small lake.",
    "Unbelievably, 1990 began.",
    "Rivers",
)


def cases() -> dict[str, portable.PortableModel]:
    """The models by name."""
    made = {
        f"sharing-{name}": portable_models.draw(name)
        for name in portable_models.SHARINGS
    }
    for activation in ("gelu_exact", "relu"):
        made[activation] = portable_models.draw(activation=activation)
    made["epsilon"] = portable_models.draw(layer_norm_epsilon=1e-3)
    for name, parts in _PARTS.items():
        made[f"only-{name}"] = portable_models.draw("groups", parts)
    for name, head in _HEADS.items():
        made[f"head-{name}"] = portable_models.draw("groups", head=head)
    vocab = small_run.VOCAB.read_bytes()
    made["tokenizer"] = dataclasses.replace(
        portable_models.draw(vocab_size=4000), vocab=vocab
    )
    return made


def outputs_of(model: portable.PortableModel) -> dict[str, np.ndarray]:
    """Outputs of this project's model for `portable_models.batch`."""
    features = portable_models.batch(model.config)
    if model.head is None:
        missing = dict(portable_models.draw().weights)
        whole = dataclasses.replace(
            model,
            weights={
                **{
                    n: v for n, v in missing.items() if n.startswith(_HEADS_OF_TRAINING)
                },
                "encoder/pooler/kernel": missing["encoder/pooler/kernel"],
                "encoder/pooler/bias": missing["encoder/pooler/bias"],
                **model.weights,
            },
        )
        found = portable_models.outputs_of(whole)
        absent = {
            portable.POOLER: ("pooled_output", "pair_logits"),
            portable.MASKED_LM: ("mlm_logits",),
            portable.SENTENCE_ORDER: ("pair_logits",),
        }
        for part, names in absent.items():
            if part not in model.parts:
                for name in names:
                    found.pop(name, None)
        return found
    settings = {"dropout_rate": 0.1} if model.head.kind != "span" else {}
    if model.head.labels:
        settings["num_classes"] = len(model.head.labels)
    network = task_model.build_task_model(
        model.config, model.head.kind, seed=1, **settings
    )
    for name, value in model.weights.items():
        native.by_path(network, name).assign(value)
    if model.head.kind == "multiple_choice":
        features = {name: value[None] for name, value in features.items()}
    found = network(features)._asdict()
    found.pop("probabilities", None)
    return {name: value.numpy() for name, value in found.items()}


def scores_of(model: portable.PortableModel) -> dict[str, np.ndarray]:
    """The sentences' ids, padded, and their scores by each metric."""
    tokenizer = tokenizer_lib.Tokenizer(model.vocab)
    rows = tokenizer.encode_batch(SENTENCES)
    ids = np.zeros([len(rows), max(map(len, rows))], np.int32)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = row
    scorer = scoring.Scorer(
        model_scorer.make_score_tokens(portable_models.network_of(model)),
        tokenizer,
        model.config.max_positions,
    )
    return {
        "ids": ids,
        "lengths": np.array([len(row) for row in rows]),
        "is_word_start": tokenizer.is_word_start[ids],
        "frame": np.array([tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id]),
        **{
            metric: scoring.score(scorer, SENTENCES, metric).values
            for metric in settings.METRICS
        },
    }


_HEADS_OF_TRAINING = ("masked_lm/", "sentence_order/")


def _write(folder: pathlib.Path) -> None:
    for name, model in cases().items():
        (folder / name / "hf").mkdir(parents=True)
        hugging_face.write(
            model, str(folder / name / "hf"), weight_map.ConversionReport()
        )
        features = portable_models.batch(model.config)
        np.savez(folder / name / "outputs.npz", **features, **outputs_of(model))
        if model.vocab:
            np.savez(folder / name / "scores.npz", **scores_of(model))


def _read(folder: pathlib.Path) -> None:
    for path in sorted(folder.glob("*/saved")):
        model = hugging_face.read(
            str(path), portable.ReadOptions(), weight_map.ConversionReport()
        )
        np.savez(path.parent / "read.npz", **outputs_of(model))


if __name__ == "__main__":
    {"write": _write, "read": _read}[sys.argv[1]](pathlib.Path(sys.argv[2]))
