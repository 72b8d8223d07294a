"""Loads a model of any form as one that scores tokens, for grammar probes."""

import dataclasses
import os
from typing import Any, NamedTuple

from albert_tf.checkpoints import warm_start
from albert_tf.core import config as config_lib
from albert_tf.core import config_io, files
from albert_tf.data import schema
from albert_tf.inference import saved_model, saved_model_dir
from albert_tf.probing import model_scorer, scoring, settings
from albert_tf.serving import load
from albert_tf.tokenization import tokenizer as tokenizer_lib

SIGNATURE = "score_tokens"


class LoadedScorer(NamedTuple):
    """A model that scores tokens.

    Attributes:
      scorer: the model.
      config: of its run; as exported, for an exported model.
      checkpoint: the path of its checkpoint; empty for an exported model.
    """

    scorer: scoring.Scorer
    config: config_lib.Config
    checkpoint: str


def load_scorer(
    model: str,
    compute_dtype: str | None = None,
    weights: str = config_lib.WEIGHTS[0],
    batch_tokens: int = settings.BATCH_TOKENS,
    batches_at_once: int = 1,
) -> LoadedScorer:
    """Loads a model.

    Args:
      model: the directory of a pre-training or of a converted model, for its newest
        checkpoint; the prefix of a checkpoint; or a SavedModel of albert_tf.export.
      compute_dtype: of the blocks; None means that of the run. Not for a SavedModel.
      weights: of the checkpoint, as in `checkpointer.weights_part`.
      batch_tokens: as in `scoring.Scorer`.
      batches_at_once: as in `scoring.Scorer`.

    Raises:
      ValueError: there is no such model, or it has no masked-LM head.
    """
    if saved_model_dir.is_saved_model(model):
        return _load_saved_model(model, batch_tokens, batches_at_once)
    model_dir, checkpoint = model, ""
    if not files.is_folder(model):
        config_path = warm_start.find_beside(model, schema.CONFIG_FILE)
        if config_path is None:
            raise ValueError(
                f"--model must have the {schema.CONFIG_FILE} of its run beside the "
                f"checkpoint or one level up; {model} has none. Copy it there"
            )
        model_dir, checkpoint = os.path.dirname(config_path), model
    config, tokenizer = load.read_run(model_dir, compute_dtype)
    if config.task.name:
        raise ValueError(
            "--model must be pre-trained: a fine-tuned model has no masked-LM head. "
            f"{model} is fine-tuned on {config.task.name}"
        )
    run = config.train
    form = model_scorer.scoring_form(run.compute_dtype, run.jit_compile)
    network, path = load.load_pretrained(model_dir, config, checkpoint, weights, form)
    scorer = scoring.Scorer(
        model_scorer.make_score_tokens(network, batch_tokens),
        tokenizer,
        config.data.max_seq_length,
        batch_tokens,
        batches_at_once,
    )
    return LoadedScorer(scorer, config, path)


def _load_saved_model(
    path: str, batch_tokens: int, batches_at_once: int
) -> LoadedScorer:
    loaded = saved_model.load(path)
    folder = os.path.join(path, saved_model_dir.EXTRA)
    config_path = os.path.join(folder, schema.CONFIG_FILE)
    if SIGNATURE not in loaded.signatures or not files.exists(config_path):
        raise ValueError(
            f"--model must be a SavedModel with the signature {SIGNATURE}; {path} has "
            f"{', '.join(loaded.signatures)}. Export a pre-trained model again with "
            "albert_tf.export"
        )
    scorer = dataclasses.replace(
        of_loaded(loaded, path),
        batch_tokens=batch_tokens,
        batches_at_once=batches_at_once,
    )
    return LoadedScorer(scorer, config_io.read(config_path), "")


def of_loaded(loaded: Any, path: str) -> scoring.Scorer:
    """Returns a scorer with the weights of a model that is loaded already.

    Args:
      loaded: of `load.load_serving` or `saved_model.load`, with `SIGNATURE`.
      path: the directory that it was loaded from, which has its vocabulary.

    Raises:
      ValueError: a file is missing or damaged, or they do not match.
    """
    if saved_model_dir.is_saved_model(path):
        folder = os.path.join(path, saved_model_dir.EXTRA)
        config = config_io.read(os.path.join(folder, schema.CONFIG_FILE))
        vocab_path = os.path.join(folder, schema.VOCAB_FILE)
        tokenizer = tokenizer_lib.Tokenizer.from_file(
            vocab_path, config.data.lower_case
        )
    else:
        config, tokenizer = load.read_run(path)

    def run(input_ids, input_mask, positions, target_rows, target_ids):
        # Through the loaded object, which owns the variables of its functions.
        return loaded.signatures[SIGNATURE](
            input_ids=input_ids,
            input_mask=input_mask,
            positions=positions,
            target_rows=target_rows,
            target_ids=target_ids,
        )["log_probability"]

    length = config.data.max_seq_length
    return scoring.Scorer(model_scorer.of_arrays(run), tokenizer, length)
