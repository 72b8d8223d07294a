"""Grammar probe of a run: a small part of a suite, scored between steps."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from albert_tf.core import config as config_lib
from albert_tf.devices import strategies
from albert_tf.model import pretraining_model
from albert_tf.probing import model_scorer, probe, scoring, suites
from albert_tf.tokenization import tokenizer as tokenizer_lib
from albert_tf.training import loops


class _StopRequested(Exception):
    """The process was asked to end."""


def make_probe(
    config: config_lib.Config,
    vocab: bytes,
    model: pretraining_model.PretrainingModel,
    strategy: tf.distribute.Strategy,
    signals: loops.Signals,
) -> Callable[[], dict[str, float] | None] | None:
    """Returns a function that probes the model with the weights that it has then.

    The chief does it alone, with a copy of the model on its first device, and other
    hosts wait at their next step: so it is the same on any devices.

    Args:
      config: its `train.probe_suite` and `train.probe_pairs` say with what.
      vocab: the SentencePiece model of the records.
      model: whose weights are copied.
      strategy: the devices of the run.
      signals: their heartbeat counts batches; `stop` ends the probe of a single host.

    Returns:
      None without `train.probe_every_steps`, and on hosts other than the chief. Else
      the function: it returns `accuracy` over all paradigms and `accuracy/PHENOMENON`,
      or None if the process was asked to end.

    Raises:
      ValueError: the suite cannot be read.
    """
    run = config.train
    if not run.probe_every_steps or not strategies.is_chief(strategy):
        return None
    pairs = suites.read(run.probe_suite, run.probe_pairs)
    tokenizer = tokenizer_lib.Tokenizer(vocab, config.data.lower_case)
    # In the dtype of what is exported from the run.
    dtype = config_lib.serving_dtype(run.compute_dtype)
    form = model_scorer.scoring_form(dtype, run.jit_compile)
    copy = pretraining_model.build_pretraining_model(config.model, run.seed, form)
    # Hosts leave a loop together; one alone must not leave it for a signal.
    may_stop = strategies.num_hosts(strategy) == 1

    def probe_model() -> dict[str, float] | None:
        for own, other in zip(copy.variables, model.variables, strict=True):
            own.assign(other.numpy())
        score_tokens = model_scorer.make_score_tokens(copy)

        def score_unless_stopped(*batch: np.ndarray) -> np.ndarray:
            signals.heartbeat.assign_add(1)
            if may_stop and float(signals.stop) > 0:
                raise _StopRequested
            return score_tokens(*batch)

        scorer = scoring.Scorer(
            score_unless_stopped, tokenizer, config.longest_sequence
        )
        try:
            found = probe.probe(scorer, pairs).accuracies
        except _StopRequested:
            return None
        phenomena = {
            f"accuracy/{name}": one.accuracy for name, one in found.phenomena.items()
        }
        return {"accuracy": found.overall.accuracy, **phenomena}

    return probe_model
