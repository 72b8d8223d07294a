"""A pre-trained run, a task and a recipe small enough to fine-tune within a test."""

import pathlib
import random

from albert_tf.checkpoints import checkpointer
from albert_tf.core import config_io
from albert_tf.data import schema
from albert_tf.model import pretraining_model
from albert_tf.optim import optimizers
from albert_tf.training import loops
from albert_tf.training import objectives as objectives_lib
from tests.support import small_run

OVERRIDES = (
    "train.batch_size=8",
    "train.num_steps=12",
    "train.steps_per_loop=4",
    "train.save_every_steps=4",
    "train.eval_every_steps=4",
    "train.eval_batch_size=5",
    "train.keep_checkpoints=1",
    "train.best_metric=",
    # Compiling takes longer than these runs.
    "train.jit_compile=off",
    "optimizer.name=adamw",
    "optimizer.learning_rate=0.01",
    "optimizer.warmup_steps=2",
    "task.max_seq_length=24",
)
TABLE = (
    "task.name=table",
    "task.train_file=train.tsv",
    "task.dev_file=dev.tsv",
    "task.test_file=test.tsv",
)
_GOOD = ("river", "church", "train", "county", "railway", "city")
_BAD = ("number", "York", "brother", "near", "south", "known")


def write_pretrained(folder: pathlib.Path, *overrides: str) -> pathlib.Path:
    """A run's folder with a checkpoint as pre-training writes it, all weights drawn."""
    folder.mkdir(parents=True)
    settings = small_run.small_config(*overrides)
    (folder / schema.CONFIG_FILE).write_text(config_io.to_json(settings))
    (folder / schema.VOCAB_FILE).write_bytes(small_run.VOCAB.read_bytes())
    model = pretraining_model.build_pretraining_model(settings.model, 3)
    adam = optimizers.create(settings.optimizer, settings.train.num_steps)
    adam.build(model.trainable_variables)
    objective = objectives_lib.PretrainingObjective(settings.data.pair_loss)
    parts = {
        "model": model,
        "optimizer": adam,
        "loop": loops.TrainState(objective),
    }
    checkpointer.Checkpointer(str(folder), 1, parts, is_chief=True).save(7, wait=True)
    return folder


def write_table(folder: pathlib.Path, num_train: int = 60) -> pathlib.Path:
    """Texts whose class follows from their words: train.tsv, dev.tsv, test.tsv."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(11)
    for name, count in (("train", num_train), ("dev", 23), ("test", 9)):
        lines = ["text\tlabel" if name != "test" else "text"]
        for _ in range(count):
            label = rng.choice(("bad", "good"))
            words = _GOOD if label == "good" else _BAD
            text = " ".join(rng.choice(words) for _ in range(rng.randint(3, 8)))
            lines.append(text if name == "test" else f"{text}\t{label}")
        (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    return folder


def arguments(
    pretrained: pathlib.Path,
    data_dir: pathlib.Path,
    model_dir: pathlib.Path,
    *overrides: str,
) -> list[str]:
    """Flags of albert_tf.finetune."""
    settings = (*OVERRIDES, *TABLE, *overrides)
    return [
        f"--init_checkpoint={pretrained}",
        f"--data_dir={data_dir}",
        f"--model_dir={model_dir}",
        *(f"--set={setting}" for setting in settings),
    ]
