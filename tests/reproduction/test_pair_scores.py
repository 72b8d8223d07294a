"""The scores of `pair_scores` are those that evaluation counts, on both kinds."""

import numpy as np
import pytest

from albert_tf.core import config_io
from albert_tf.training import pretraining
from tests.reproduction import pair_scores
from tests.support import small_run


def test_figures_of_scores_that_rank_better_than_their_threshold():
    labels = np.array([0, 0, 1, 1])
    found = pair_scores.figures(labels, np.array([0.1, 0.4, 0.3, 0.5]))
    assert found == {"pairs": 4, "accuracy": 50.0, "auc": 75.0}
    found = pair_scores.figures(labels, np.array([-0.1, 0.2, 0.3, 0.5]))
    assert found == {"pairs": 4, "accuracy": 75.0, "auc": 100.0}


def test_a_run_without_a_checkpoint_has_no_scores(tmp_path):
    records = small_run.write_records(tmp_path / "records", "data.pair_loss=sop")
    config = small_run.small_config("data.pair_loss=sop")
    (tmp_path / "config.json").write_text(config_io.to_json(config))
    with pytest.raises(ValueError, match="must have a checkpoint; it has none"):
        pair_scores.pair_scores(str(tmp_path), str(records))


@pytest.mark.parametrize("pack", [1, 2])
def test_accuracies_are_those_of_the_evaluation(tmp_path, pack):
    form = f"data.pack_sequences={pack}"
    records = {
        kind: small_run.write_records(
            tmp_path / f"records-{kind}", f"data.pair_loss={kind}", form
        )
        for kind in ("sop", "nsp")
    }
    steps = ("train.num_steps=4", "train.eval_every_steps=4", "data.pair_loss=sop")
    # So that pairs have different scores without much training.
    wide = "model.initializer_range=0.5"
    settings = (*steps, form, wide, "train.eval_batches=0")
    run_dir = str(tmp_path / "run")
    config = small_run.small_config(*settings)
    pretraining.train(config, str(records["sop"]), run_dir)
    for kind, name in (("sop", "sentence_order"), ("nsp", "next_sentence")):
        config = small_run.small_config(*settings, f"data.pair_loss={kind}")
        expected = pretraining.evaluate(config, str(records[kind]), run_dir)
        labels, scores = pair_scores.pair_scores(run_dir, str(records[kind]))
        assert set(labels) == {0, 1}
        accuracy = np.mean((scores > 0) == labels)
        assert accuracy == pytest.approx(expected[f"{name}_accuracy"], abs=1e-6)
        # The accuracy of a model that says the same of all pairs is that of any order.
        loss = np.mean(np.logaddexp(0, scores) - labels * scores)
        assert loss == pytest.approx(expected[f"{name}_loss"], abs=1e-6)
