"""The summary of a finished demonstration."""

import os
from typing import Any

import tensorflow as tf

from albert_tf.core import strict_json
from albert_tf.data import manifest as manifest_lib
from albert_tf.data import schema
from albert_tf.demonstration import stages
from albert_tf.training import metrics_log


def summarize(output_dir: str, seconds: dict[str, float]) -> dict[str, Any]:
    """The figures of a finished demonstration, by name.

    Args:
      output_dir: where the stages wrote.
      seconds: of each stage.
    """
    manifest = manifest_lib.read_manifest(os.path.join(output_dir, stages.RECORDS))
    run = os.path.join(output_dir, stages.RUN)
    held_out = [
        row for row in metrics_log.read_metrics(run) if row["split"] == schema.HELDOUT
    ]
    shapes = tf.train.list_variables(tf.train.latest_checkpoint(run))
    path = os.path.join(output_dir, stages.ANSWERS)
    answers = [answer for _, answer in strict_json.lines(path)]
    train, held = manifest.splits[schema.TRAIN], manifest.splits[schema.HELDOUT]
    return {
        "documents": train.num_documents,
        "records": train.num_records,
        "heldout_documents": held.num_documents,
        "heldout_records": held.num_records,
        "vocab_size": manifest.vocab_size,
        "parameters": sum(
            tf.TensorShape(shape).num_elements()
            for name, shape in shapes
            if name.startswith("model/")
        ),
        "steps": held_out[-1]["step"],
        "seconds": seconds,
        "total_seconds": round(sum(seconds.values()), 1),
        "heldout_unigram_entropy": manifest.heldout_unigram_entropy,
        "before": _metrics(held_out[0]),
        "after": _metrics(held_out[-1]),
        "filled_masks": [
            {"text": answer["text"], "answers": answer["masks"][0]}
            for answer in answers
        ],
        "data_statistics": dict(train.statistics),
    }


def _metrics(row: dict[str, Any]) -> dict[str, float]:
    return {
        name: value
        for name, value in row.items()
        if name.endswith(("_loss", "_accuracy"))
    }


def closing_lines(summary: dict[str, Any], report: str) -> str:
    """The lines that the demonstration prints at its end.

    Args:
      summary: from `summarize`.
      report: path of the report.
    """
    entropy, after = summary["heldout_unigram_entropy"], summary["after"]["mlm_loss"]
    lines = [
        f"{summary['steps']} steps in {summary['seconds']['pretraining']:.0f} s; all "
        f"stages {summary['total_seconds']:.0f} s",
        f"held-out MLM loss before {summary['before']['mlm_loss']:.4f}, after "
        f"{after:.4f} nats",
        f"token frequencies alone {entropy:.4f} nats: the loss is "
        f"{entropy - after:.4f} below",
    ]
    for filled in summary["filled_masks"]:
        best = filled["answers"][0]["token"].replace("▁", "")
        text = filled["text"].replace("[MASK]", f"[{best}]")
        lines.append(f"{text}  ({filled['answers'][0]['probability']:.2f})")
    lines.append(f"report: {report}")
    return "\n".join(lines)
