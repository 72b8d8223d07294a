"""A corpus, records and a configuration small enough to train on within a test."""

import pathlib
import random

from albert_tf.core import config, config_io
from data_prep.pipeline import local_run

VOCAB = (
    pathlib.Path(__file__).parent.parent
    / "testdata"
    / "tokenization"
    / "spm_small.model"
)

OVERRIDES = (
    "model.vocab_size=4000",
    "model.embedding_size=10",
    "model.hidden_size=12",
    "model.num_layers=2",
    "model.num_heads=2",
    "model.intermediate_size=20",
    "model.max_positions=32",
    "data.max_seq_length=24",
    "data.dupe_factor=2",
    "data.heldout_rate=0.2",
    "data.min_shards=3",
    "optimizer.learning_rate=0.02",
    "optimizer.warmup_steps=2",
    "train.batch_size=8",
    "train.num_steps=12",
    "train.steps_per_loop=4",
    "train.save_every_steps=6",
    "train.eval_every_steps=6",
    "train.eval_batch_size=16",
    "train.shuffle_buffer=50",
    # Compiling takes longer than these runs; what is compiled has tests of its own.
    "train.jit_compile=off",
)

_SUBJECTS = ("The river", "A train", "The old city", "This church", "His brother")
_VERBS = ("runs through", "was built near", "is known for", "lies south of")
_TAILS = (", and number {} is {}", "", "")
_PLACES = ("the county", "a small lake", "the railway station", "New York", "1990")


def small_config(*overrides: str) -> config.Config:
    """The small recipe with overrides."""
    return config_io.load("", [*OVERRIDES, *overrides])


def write_corpus(path: pathlib.Path, num_documents: int = 60, seed: int = 5) -> None:
    """Documents of three to seven different sentences.

    In records of 24 tokens two short ones are a pair; a long one has no label.
    """
    rng = random.Random(seed)
    documents = []
    for number in range(num_documents):
        sentences = [
            f"{rng.choice(_SUBJECTS)} {rng.choice(_VERBS)} {rng.choice(_PLACES)}"
            f"{rng.choice(_TAILS).format(number, rng.randint(1, 999))}."
            for _ in range(rng.randint(3, 7))
        ]
        documents.append("\n".join(sentences))
    path.write_text("\n\n".join(documents) + "\n", encoding="utf-8")


def write_records(folder: pathlib.Path, *overrides: str) -> pathlib.Path:
    """Makes `folder`/records and returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    write_corpus(folder / "corpus.txt")
    local_run.create_pretraining_data(
        str(folder / "corpus.txt"),
        str(VOCAB),
        str(folder / "records"),
        small_config(*overrides),
    )
    return folder / "records"
