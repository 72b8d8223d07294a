"""Judges by a run's losses whether it learns.

A verdict follows from the rows of metrics.jsonl, the configuration and the manifest
alone, so a run that resumes reaches the verdicts of one that was not interrupted, and
so does its report.
"""

import bisect
import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.core import config as config_lib
from albert_tf.core import stages as stages_lib
from albert_tf.data import schema
from albert_tf.training import causes

# EX_CONFIG of sysexits.h: the settings are wrong. The exit code of a run that
# `train.on_no_progress` ended; its state is saved.
EXIT_CODE = 78

# The held-out loss must be this far below the entropy of the token frequencies: nats.
MARGIN = 0.3
# It is judged at evaluations after all of these: tokens since the start, padding
# included; steps since the end of warmup, a number and a share of all steps.
JUDGED_TOKENS = 2_000_000
JUDGED_STEPS = 500
JUDGED_SHARE = 0.05
# A loss climbs if it is `JUMP` above its best, in nats, or if it was far enough below
# the entropy and is `CLIMB` above its best at so many evaluations in a row.
CLIMB = 0.1
CLIMB_EVALUATIONS = 3
JUMP = 0.5
# The pair is not learnt if its loss is not this far below that of equal chances: nats.
PAIR_MARGIN = 0.005

Rows = Sequence[Mapping[str, Any]]
# Step and loss, in nats, of each evaluation.
Losses = Sequence[tuple[int, float]]


class NoProgressError(Exception):
    """A run did not learn and has saved; `train.on_no_progress` ended it."""

    def __init__(self, step: int):
        super().__init__(
            f"ended and saved at step {step}, because train.on_no_progress is "
            '"end"; with --set train.on_no_progress=warn the same command resumes'
        )


@dataclasses.dataclass(frozen=True)
class Alarm:
    """What is wrong with the loss of a run.

    Attributes:
      step: the evaluation at which it was first noticed.
      line: what was noticed, likely causes, and what to try.
    """

    step: int
    line: str


def notes(manifest: schema.Manifest) -> list[str]:
    """Returns a line for the log if nothing can be judged."""
    if manifest.heldout_unigram_entropy is not None:
        return []
    return [
        "no document is held out, so nothing shows whether the model learns; records "
        "made with data.heldout_rate above 0 show it"
    ]


def pair_note(metrics: Mapping[str, float]) -> str:
    """Returns a sentence if the order of segments was not learnt.

    Args:
      metrics: of a held-out evaluation, losses in nats; those of the pair may be
        missing.
    """
    for name in ("sentence_order", "next_sentence"):
        loss = metrics.get(f"{name}_loss")
        if loss is not None and loss >= math.log(2) - PAIR_MARGIN:
            return (
                f"the {name.replace('_', ' ')} is not learnt: its held-out loss "
                f"{loss:.4f} is that of chance, {math.log(2):.4f}. The vector of [CLS] "
                "may be the same for all texts; what reads it, such as a classifier, "
                "then learns little. What may help: docs/training.md, "
                '"A run that does not learn"'
            )
    return ""


def judged_from(config: config_lib.Config, first_step: int = 0) -> int:
    """Returns the step from which the held-out loss is judged.

    Args:
      config: of the run, or of a stage.
      first_step: at which the stage begins.
    """
    run = config.train
    after_warmup = max(JUDGED_STEPS, round(JUDGED_SHARE * run.num_steps))
    enough_tokens = -(-JUDGED_TOKENS // causes.tokens_a_step(config))
    warm = max(config.optimizer.warmup_steps, first_step)
    return min(max(warm + after_warmup, first_step + enough_tokens), run.num_steps)


def find_alarm(
    rows: Rows, stage: stages_lib.Stage, manifest: schema.Manifest
) -> Alarm | None:
    """Judges a run by its rows so far.

    Args:
      rows: of metrics.jsonl, by step; losses in nats. Those of the last one's stage
        are judged.
      stage: the last one's.
      manifest: of its records.

    Returns:
      What is wrong at the last evaluation, or None.
    """
    entropy = manifest.heldout_unigram_entropy
    if entropy is None:
        return None
    # Losses of another stage are of other sequences.
    of_stage = [row for row in rows if row.get("stage") == rows[-1].get("stage")]
    held_out = [
        (row["step"], row["mlm_loss"])
        for row in of_stage
        if row["split"] == schema.HELDOUT and "mlm_loss" in row
    ]
    # A branch begins with a model that has not seen these records, if they are others.
    begun = max(stage.first_step, rows[0]["step"]) if rows else stage.first_step
    judged: list[tuple[str, Losses, float]] = [
        ("held-out", held_out, judged_from(stage.config, begun))
    ]
    if stage.config.train.ema_decay:
        # The average may still improve while the weights that are trained get worse.
        judged.append(("training", _training_losses(of_stage, held_out), math.inf))
    for name, losses, first in judged:
        kinds = _judge(losses, entropy - MARGIN, first)
        if not kinds or not kinds[-1]:
            continue
        # Back to where the last evaluation's kind begins.
        place = len(kinds) - 1
        while place and kinds[place - 1] == kinds[-1]:
            place -= 1
        step = losses[place][0]
        until_then = losses[: place + 1]
        if kinds[-1] == "stuck":
            return Alarm(step, _stuck(until_then, stage, manifest, begun))
        rows = [row for row in rows if row["step"] <= step]
        return Alarm(step, _climbing(name, until_then, rows, stage, manifest, begun))
    return None


def _training_losses(rows: Rows, held_out: Losses) -> Losses:
    """Returns the mean training loss before each evaluation, since the one before."""
    steps = [step for step, _ in held_out]
    losses: list[list[float]] = [[] for _ in steps]
    for row in rows:
        place = bisect.bisect_left(steps, row["step"])
        loss = row.get("mlm_loss", math.nan)
        is_counted = row["split"] == schema.TRAIN and not math.isnan(loss)
        if is_counted and place < len(steps):
            losses[place].append(loss)
    return [
        (step, statistics.fmean(of_step))
        for step, of_step in zip(steps, losses, strict=True)
        if of_step
    ]


def _judge(losses: Losses, learnt: float, first: float) -> list[str]:
    """Judges each evaluation.

    Args:
      losses: step and loss of each.
      learnt: the greatest loss of a model that uses context.
      first: the first step at which the loss is judged.

    Returns:
      For each evaluation "stuck", "climbing" or "".
    """
    kinds, best = [], float("inf")
    for place, (step, loss) in enumerate(losses):
        best = min(best, loss)
        recent = [loss for _, loss in losses[: place + 1][-CLIMB_EVALUATIONS:]]
        is_slow = len(recent) == CLIMB_EVALUATIONS and min(recent) >= best + CLIMB
        kind = ""
        if math.isnan(loss) or loss >= best + JUMP or (is_slow and best <= learnt):
            kind = "climbing"
        elif best > learnt and step >= first:
            kind = "stuck"
        kinds.append(kind)
    return kinds


def _stuck(
    held_out: Losses,
    stage: stages_lib.Stage,
    manifest: schema.Manifest,
    begun: int,
) -> str:
    step, loss = held_out[-1]
    tokens = (step - begun) * causes.tokens_a_step(stage.config)
    found = causes.of_stuck_loss(stage, manifest, step, begun)
    return (
        f"step {step}: no progress after {tokens / 1e6:.3g} M tokens: the held-out MLM "
        f"loss {loss:.3f} should be at least {MARGIN} below the "
        f"{manifest.heldout_unigram_entropy:.3f} of token frequencies alone. "
        f"{causes.describe(found)}"
    )


def _climbing(
    name: str,
    losses: Losses,
    rows: Rows,
    stage: stages_lib.Stage,
    manifest: schema.Manifest,
    begun: int,
) -> str:
    step, loss = losses[-1]
    best_step, best = min(losses, key=lambda one: (math.isnan(one[1]), one[1]))
    found = causes.of_climbing_loss(rows, stage, manifest, step, begun)
    return (
        f"step {step}: no progress: the {name} MLM loss climbs, to {loss:.3f} from "
        f"{best:.3f} at step {best_step}. {causes.describe(found)}"
    )
