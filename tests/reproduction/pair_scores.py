"""How well the scores of a pre-training run tell held-out pairs apart.

Call as `python -m tests.reproduction.pair_scores --model_dir=RUN --data_dir=RECORDS`.
RECORDS may have pairs of another kind than those that the run was trained on. Besides
the accuracy it prints the area under the ROC curve (AUC): how often a false pair has a
higher score than a true one. That does not depend on the threshold of the scores,
which the other kind of pairs may move. Both are in percent. Masks are those of the
run's own evaluations, as the batches have the same size.
"""

import argparse
import json
import os

import numpy as np
import tensorflow as tf
from sklearn import metrics

from albert_tf.core import config_io
from albert_tf.data import input_pipeline, manifest, sources
from albert_tf.training import pretraining


def pair_scores(model_dir: str, data_dir: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns the labels and the scores of all held-out pairs.

    Args:
      model_dir: a run; its newest checkpoint is read.
      data_dir: records with pairs.

    Returns:
      Labels int32 [pairs], 0 for a true pair, and scores float32 [pairs], above 0 where
      the model calls a pair false.

    Raises:
      ValueError: there is no checkpoint, or run and records do not fit together.
    """
    data = manifest.read_manifest(data_dir).data
    names = ("pair_loss", "max_seq_length", "pack_sequences")
    settings = [
        *(f"data.{name}={data[name]}" for name in names),
        *("train.stages=[]", "train.records={}", "train.eval_batches=0"),
    ]
    config = config_io.load(os.path.join(model_dir, "config.json"), settings)
    ((source,),) = (stage.held_out() for stage in sources.read(data_dir, config))
    input_fn, _ = input_pipeline.eval_input_fn(data_dir, source.manifest, config)
    trainer = pretraining.make_trainer(config, model_dir)
    trainer.restore()
    if trainer.restored_step is None:
        raise ValueError(f"{model_dir} must have a checkpoint; it has none")
    logits_of = tf.function(lambda batch: trainer.model.scores(batch, None).pair_logits)
    labels, scores = [], []
    with trainer.eval_weights():
        for batch in input_fn(tf.distribute.InputContext()):
            # Packed rows have several pairs; rows that fill up the batch have none.
            present = batch["example_weights"] > 0
            label = tf.reshape(batch["next_sentence_labels"][present], [-1])
            logit = tf.reshape(logits_of(batch)[present], [-1, 2])
            labels.append(label[label >= 0].numpy())
            scores.append((logit[:, 1] - logit[:, 0])[label >= 0].numpy())
    return np.concatenate(labels), np.concatenate(scores)


def figures(labels: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    """Returns the number of pairs, the accuracy and the AUC, in percent."""
    return {
        "pairs": len(labels),
        "accuracy": round(100 * float(np.mean((scores > 0) == labels)), 1),
        "auc": round(100 * float(metrics.roc_auc_score(labels, scores)), 1),
    }


def main() -> None:
    """Prints the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model_dir", required=True)
    parser.add_argument("--data_dir", required=True)
    arguments = parser.parse_args()
    found = pair_scores(arguments.model_dir, arguments.data_dir)
    print(json.dumps(figures(*found)))


if __name__ == "__main__":
    main()
