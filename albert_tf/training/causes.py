"""Likely causes of a loss that does not fall, for the settings of a run.

The bounds come from runs that failed (docs/training.md, "A run that does not learn")
and from published recipes.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf.core import config as config_lib
from albert_tf.core import console
from albert_tf.core import stages as stages_lib
from albert_tf.data import schema

# A usual learning rate is this at a hidden size of `_USUAL_WIDTH` and less (LAMB), or
# there (AdamW and Muon), and falls inversely with the size. BERT base has 1e-4 and
# ELECTRA small 5e-4 with AdamW; ALBERT 0.00176, the small recipes here 0.01 with LAMB
# and 0.002 with Muon, whose fall with the size is taken over from AdamW.
_USUAL_WIDTH = 256
_USUAL_RATES = {"lamb": 0.01, "muon": 0.002, "adamw": 3e-4}
_MOST_TIMES, _LEAST_TIMES = 3.0, 0.1
# The shortest warmup that is not named: steps, and share of all steps.
_WARMUP_STEPS, _WARMUP_SHARE = 50, 0.01
_LONG_WARMUP_SHARE = 0.5
_MOST_INITIAL, _LEAST_INITIAL = 0.03, 0.002
_MASKED_RATES = 0.05, 0.5
_SHORT_LENGTH = 128
_SMALL_BATCH_TOKENS = 1024
_FEW_TOKENS = 20_000_000
_LABELLED_SHARE = 0.05
# More passes over the records than this can overfit.
_MOST_PASSES = 3.0
_OVERFITTED = 0.2
_MOST_NAMED = 3

Rows = Sequence[Mapping[str, Any]]


class Cause(NamedTuple):
    """A cause, and what to try against it."""

    text: str
    advice: str


def describe(found: Sequence[Cause]) -> str:
    """Returns the sentences that name the causes and what to try."""
    named = found[:_MOST_NAMED]
    names = "; ".join(cause.text for cause in named)
    advice = ", ".join(dict.fromkeys(cause.advice for cause in named if cause.advice))
    return f"Likely causes: {names}. Try {advice}"


def of_stuck_loss(
    stage: stages_lib.Stage, manifest: schema.Manifest, step: int, first_step: int = 0
) -> list[Cause]:
    """Returns causes of a loss that stays at the token frequencies, likeliest first.

    Args:
      stage: of the run.
      manifest: of its records.
      step: of the evaluation.
      first_step: at which the stage or the branch begins.
    """
    config = stage.config
    found = [
        *_rate(config),
        *_warmup(config, step),
        *_initialization(config),
        *_masking(stage),
    ]
    tokens = _tokens_so_far(stage, step - first_step)
    weak = [
        *tokens,
        *_length(stage),
        *_batch(stage),
        *_labelled_pairs(config, manifest),
    ]
    if found:
        return found + weak
    rate = config.optimizer.learning_rate
    text = Cause(
        f"rate {rate:g}, warmup and initialization are usual, so perhaps the text or "
        "its labels",
        console.command_line("data_prep.inspect_records", "RECORDS"),
    )
    # A short run, for a first try, has few tokens and nothing else to blame.
    return [*tokens, text, *weak[len(tokens) :]]


def of_climbing_loss(
    rows: Rows,
    stage: stages_lib.Stage,
    manifest: schema.Manifest,
    step: int,
    first_step: int = 0,
) -> list[Cause]:
    """Returns causes of a loss that rises again, likeliest first.

    Args:
      rows: of metrics.jsonl up to `step`.
      stage: of the run.
      manifest: of its records.
      step: of the evaluation.
      first_step: at which the stage or the branch begins.
    """
    config, found = stage.config, []
    num_rows = (step - first_step) * config.train.batch_size
    passes = num_rows / manifest.splits[schema.TRAIN].num_records
    gap = _gap(rows)
    if passes > _MOST_PASSES and gap > _OVERFITTED:
        found.append(
            Cause(
                f"overfitting: {passes:.0f} passes over the records, and the loss on "
                f"them is {gap:.2f} lower",
                "more text, dynamic masking, or the best checkpoint",
            )
        )
    found += [*_high_rate(config), *_warmup(config, step)]
    if not found:
        rate = config.optimizer.learning_rate
        found.append(Cause(f"rate {rate:g} is too high by now", _set_rate(rate / 3)))
    return found + [*_initialization(config), *_batch(stage)]


def of_explosion(stage: stages_lib.Stage, step: int) -> list[Cause]:
    """Returns causes of a loss that rose suddenly or is not finite, likeliest first.

    Args:
      stage: of the run.
      step: the step that failed.
    """
    config = stage.config
    found = _high_rate(config)
    rate, warmup = config.optimizer.learning_rate, config.optimizer.warmup_steps
    if warmup <= step:
        found += [cause for cause in _warmup(config, step) if warmup < _WARMUP_STEPS]
    if config.model.initializer_range > _MOST_INITIAL:
        found += _initialization(config)
    if not found:
        text = "already in warmup" if step < warmup else "by now"
        found = [Cause(f"rate {rate:g} is too high {text}", _set_rate(rate / 3))]
    return [*found, *_batch(stage)]


def tokens_a_step(config: config_lib.Config) -> int:
    """Returns the number of tokens of a batch, padding included."""
    return config.train.batch_size * config.data.row.length


def usual_rate(config: config_lib.Config) -> float:
    """Returns a usual peak of the learning rate for the optimizer and hidden size."""
    name = config.optimizer.name
    ratio = _USUAL_WIDTH / config.model.hidden_size
    return _USUAL_RATES[name] * (min(ratio, 1.0) if name == "lamb" else ratio)


def _set(key: str, value: float) -> str:
    return f"--set {key}={value:g}"


def _set_rate(rate: float) -> str:
    return _set("optimizer.learning_rate", float(f"{rate:.1g}"))


def _rate(config: config_lib.Config) -> list[Cause]:
    rate, usual = config.optimizer.learning_rate, usual_rate(config)
    times = rate / usual
    if _LEAST_TIMES < times < _MOST_TIMES:
        return []
    text = (
        f"rate {rate:g} is {times:.2g} times the usual {usual:.2g} of "
        f"{config.optimizer.name} at hidden size {config.model.hidden_size}, batch "
        f"{config.train.batch_size}"
    )
    return [Cause(text, _set_rate(usual))]


def _high_rate(config: config_lib.Config) -> list[Cause]:
    # A low rate lets no loss rise.
    is_high = config.optimizer.learning_rate > usual_rate(config)
    return _rate(config) if is_high else []


def _warmup(config: config_lib.Config, step: int) -> list[Cause]:
    warmup, num_steps = config.optimizer.warmup_steps, config.train.num_steps
    usual = max(_WARMUP_STEPS, math.ceil(_WARMUP_SHARE * num_steps))
    if step < warmup or (
        warmup > _LONG_WARMUP_SHARE * num_steps and warmup > 4 * _WARMUP_STEPS
    ):
        text = f"warmup takes {warmup:,} of {num_steps:,} steps"
    elif warmup < min(usual, num_steps):
        text = "no warmup" if warmup == 0 else f"warmup of {warmup} steps only"
    else:
        return []
    steps = min(max(2 * _WARMUP_STEPS, round(0.05 * num_steps)), num_steps)
    return [Cause(text, _set("optimizer.warmup_steps", steps))]


def _initialization(config: config_lib.Config) -> list[Cause]:
    initial = config.model.initializer_range
    if _LEAST_INITIAL <= initial <= _MOST_INITIAL:
        return []
    is_small = config.model.hidden_size <= _USUAL_WIDTH
    usual = 0.01 if is_small and config.optimizer.name == "lamb" else 0.02
    text = f"initial weights of {initial:g} instead of {usual:g}"
    return [Cause(text, _set("model.initializer_range", usual))]


def _masking(stage: stages_lib.Stage) -> list[Cause]:
    data = stage.config.data
    rate = data.masked_lm_rate
    if _MASKED_RATES[0] <= rate <= _MASKED_RATES[1]:
        return []
    advice = _set(stage.key("data.masked_lm_rate"), 0.15)
    if data.masking == "static":
        advice = f"records with {_set('data.masked_lm_rate', 0.15)}"
    return [Cause(f"a share of {rate:g} of the tokens is masked", advice)]


def _tokens_so_far(stage: stages_lib.Stage, num_steps: int) -> list[Cause]:
    config = stage.config
    per_step = tokens_a_step(config)
    if num_steps * per_step > _FEW_TOKENS:
        return []
    text = f"few tokens so far, {num_steps * per_step / 1e6:.3g} M"
    if config.train.num_steps * per_step < _FEW_TOKENS:
        keys = dict.fromkeys(["train.num_steps", f"{stage.prefix}.num_steps"])
        return [Cause(text, f"more steps ({' and '.join(keys)})")]
    return [Cause(text, "patience")]


def _length(stage: stages_lib.Stage) -> list[Cause]:
    length = stage.config.data.max_seq_length
    if length <= _SHORT_LENGTH:
        return []
    text = f"{length} tokens a sequence: shorter ones are learnt from sooner"
    advice = _set(stage.key("data.max_seq_length"), _SHORT_LENGTH)
    return [Cause(text, f"records of that length and {advice}")]


def _batch(stage: stages_lib.Stage) -> list[Cause]:
    length, tokens = stage.config.data.row.length, tokens_a_step(stage.config)
    if tokens >= _SMALL_BATCH_TOKENS:
        return []
    text = f"only {tokens} tokens a step, so that gradients are noisy"
    key = stage.key("train.batch_size")
    return [Cause(text, _set(key, -(-_SMALL_BATCH_TOKENS // length)))]


def _labelled_pairs(
    config: config_lib.Config, manifest: schema.Manifest
) -> list[Cause]:
    labels = manifest.splits[schema.TRAIN].statistics.get("labels", {})
    total = sum(labels.values())
    if config.data.pair_loss == "none" or not total:
        return []
    share = 1.0 - labels.get(str(schema.NO_LABEL), 0) / total
    if share >= _LABELLED_SHARE:
        return []
    text = f"only {share:.1%} of the sequences are pairs with a label"
    return [Cause(text, "records with --set data.pair_loss=none")]


def _gap(rows: Rows) -> float:
    """Returns by how much the last loss in training is below the held-out one."""
    last = {row["split"]: row["mlm_loss"] for row in rows if "mlm_loss" in row}
    return last.get(schema.HELDOUT, 0.0) - last.get(schema.TRAIN, math.inf)
