"""Evaluation of one split with a fine-tuned model."""

import typing
from collections.abc import Callable, Sequence
from typing import Any

from albert_tf.checkpoints import checkpointer
from albert_tf.core import cli
from albert_tf.core import config as config_lib
from albert_tf.devices import strategies
from albert_tf.finetuning import (
    batches,
    prediction,
    results_reader,
    results_writer,
    run_dir,
)
from albert_tf.model import compute as compute_lib
from albert_tf.model import encoder as encoder_lib
from albert_tf.model import pretraining_model
from albert_tf.tasks import splits
from albert_tf.training import loops


class SplitEvaluation:
    """A split of a fine-tuning run to predict.

    Attributes:
      run: the run, or the exported model, without weights.
      split: the examples and their features.
    """

    def __init__(
        self,
        model_dir: str,
        data_dir: str,
        split: str,
        exported_dir: str = "",
        overrides: Sequence[str] = (),
    ):
        """Reads run and split.

        Args:
          model_dir: directory of the run, or of one of its seeds.
          data_dir: directory of the task's files.
          split: such as "dev".
          exported_dir: directory of a model exported from the run, whose settings are
            used instead; empty for none.
          overrides: as `config_io.check_data_settings` takes them.

        Raises:
          ValueError: the run has not ended, or has no such split, or a file is
            malformed.
        """
        self._model_dir = model_dir
        self._results = results_reader.read_results(model_dir)
        self.run = run_dir.read(exported_dir or model_dir, overrides)
        names = (*self.run.task.dev_splits, *self.run.task.test_splits)
        if split not in names:
            raise ValueError(
                f"--split must be one of {', '.join(names)}; received {split!r}"
            )
        loader = splits.Loader(self.run.task, self.run.tokenizer, data_dir, "")
        self.split = loader.read_split(split)
        self._skipped = loader.skipped

    def batcher(self, is_fixed_length: bool = False) -> batches.FeatureBatcher:
        """Batches of the features, padded as in the run or to the maximal length."""
        return batches.FeatureBatcher(
            self.split.features,
            self.run.task.kind,
            self.run.tokenizer.pad_id,
            self.run.config.task.max_seq_length,
            is_fixed_length,
        )

    def write(
        self,
        model_outputs: prediction.ModelOutputs,
        output_dir: str,
        best_step: int | None = None,
    ) -> dict[str, Any]:
        """Writes predictions and metrics.

        Args:
          model_outputs: for all items.
          output_dir: directory to write.
          best_step: of the checkpoint; None means the run's best.

        Returns:
          The content of results.json.
        """
        split, task = self.split, self.run.task
        predictions = task.postprocess(split.examples, split.features, model_outputs)
        run_dir.copy(self._model_dir, output_dir)
        scores = results_writer.write_split(
            output_dir, task, split.name, split.examples, predictions
        )
        results = {
            **self._results,
            "num_examples": {split.name: len(split.examples)},
            "left_out": self._skipped,
            "scores": {split.name: scores} if scores else {},
            results_writer.MAJORITY: results_writer.majority_of(
                {split.name: split.examples}
            ),
        }
        if best_step is not None:
            results["best_step"] = best_step
        results_writer.write_results(output_dir, results)
        return results


def evaluate_checkpoint(
    model_dir: str,
    data_dir: str,
    split: str,
    output_dir: str,
    checkpoint_path: str = "",
    strategy_kind: str = "auto",
    tpu: str = "",
    compute: compute_lib.Compute | None = None,
    make_encoder: Callable[[encoder_lib.Encoder], encoder_lib.TextEncoder]
    | None = None,
    weights: str = config_lib.WEIGHTS[0],
    overrides: Sequence[str] = (),
) -> dict[str, Any]:
    """Predicts a split with a checkpoint, and writes predictions and metrics.

    Args:
      model_dir: directory of the run, or of one of its seeds.
      data_dir: directory of the task's files.
      split: such as "dev".
      output_dir: another directory.
      checkpoint_path: empty means the best checkpoint.
      strategy_kind: as for `strategies.create_strategy`.
      tpu: as for `strategies.create_strategy`.
      compute: how an exported model computes; None means as the run did.
      make_encoder: gives the encoder of an exported model, from that with its weights;
        None means the model's.
      weights: as in `checkpointer.weights_part`.
      overrides: as `config_io.check_data_settings` takes them.

    Returns:
      The content of results.json; without metrics on a worker that does not write.

    Raises:
      ValueError: directory, checkpoint or data do not fit.
    """
    cli.check_output_dir(output_dir, [model_dir])
    strategy = strategies.create_strategy(strategy_kind, tpu)
    evaluation = SplitEvaluation(model_dir, data_dir, split, overrides=overrides)
    path = checkpoint_path or checkpointer.best_path(model_dir)
    if not path:
        raise ValueError(f"{model_dir} has no best checkpoint; pass --checkpoint")
    settings = evaluation.run.config.train
    with strategy.scope():
        model = evaluation.run.build_model(
            compute or pretraining_model.compute_form(settings)
        )
        checkpointer.restore_parts(path, weights, model=model)
        encoder = make_encoder(model.encoder) if make_encoder else None
    predict = prediction.make_predict(
        strategy,
        model,
        evaluation.batcher(),
        settings.eval_batch_size,
        "off" if compute else settings.jit_compile,
        loops.Signals(),
        encoder,
    )
    with strategies.raise_worker_lost(strategy):
        # Not None, because nothing sets these signals.
        model_outputs = typing.cast(prediction.ModelOutputs, predict())
    strategies.leave_together(strategy)
    if not strategies.is_chief(strategy):
        return {"scores": {}, "selected_on": "", "left_out": []}
    return evaluation.write(model_outputs, output_dir, checkpointer.step_of(path))
