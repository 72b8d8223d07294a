"""The pre-training of transformers' model that bench_learning compares with."""

import json

import numpy as np
import pytest
import torch
import transformers

from albert_tf.benchmarks import transformers_pretraining

SIZES = {
    "vocab_size": 40,
    "embedding_size": 10,
    "hidden_size": 12,
    "num_layers": 2,
    "num_heads": 2,
    "intermediate_size": 20,
    "max_positions": 16,
    "initializer_range": 0.02,
}


def _write_batches(folder, num_batches: int = 3) -> dict[str, np.ndarray]:
    """Batches of 4 sequences of 9 tokens, whose masked token is that before it."""
    folder.mkdir()
    rng = np.random.default_rng(3)
    ids = rng.integers(5, 40, [num_batches, 4, 9])
    labels = ids[:, :, 2:6:3].copy()  # positions 2 and 5
    ids[:, :, 2:6:3] = 4
    arrays = {
        "input_ids": ids.astype("uint16"),
        "input_mask": np.ones([num_batches, 4, 9], "uint8"),
        "segment_ids": np.zeros([num_batches, 4, 9], "uint8"),
        "masked_lm_positions": np.broadcast_to([2, 5], [num_batches, 4, 2]).astype(
            "uint16"
        ),
        "masked_lm_ids": labels.astype("uint16"),
        "masked_lm_weights": np.ones([num_batches, 4, 2], "uint8"),
        "next_sentence_labels": np.full([num_batches, 4], -1, "int8"),
    }
    arrays["masked_lm_weights"][:, 0, 1] = 0
    arrays["next_sentence_labels"][:, 1] = 1
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)
    return arrays


@pytest.fixture
def request_of(tmp_path):
    """A request with some fields replaced."""
    _write_batches(tmp_path / "train")
    _write_batches(tmp_path / "heldout", 2)

    def make(**changes) -> dict:
        return {
            "model": SIZES,
            "train_dir": str(tmp_path / "train"),
            "heldout_dir": str(tmp_path / "heldout"),
            "output_dir": str(tmp_path / "run"),
            "dtype": "float32",
            "compiled": False,
            "learning_rate": 0.01,
            "warmup_steps": 4,
            "num_steps": 10,
            "save_every_steps": 5,
            "seed": 1,
            **changes,
        }

    return make


def test_the_losses_are_those_of_the_library(tmp_path):
    arrays = _write_batches(tmp_path / "batches", 1)
    batch = transformers_pretraining.Batches(str(tmp_path / "batches"))[0]
    torch.manual_seed(7)
    model = transformers_pretraining.build_model({**SIZES, "initializer_range": 0.5})
    model.eval()
    mlm, pair = transformers_pretraining.losses(model, batch)
    labels = torch.full((4, 9), -100)
    for row in range(4):
        labels[row, 2] = int(arrays["masked_lm_ids"][0, row, 0])
        if row:
            labels[row, 5] = int(arrays["masked_lm_ids"][0, row, 1])
    order = torch.tensor([-100, 1, -100, -100])
    expected = model(
        batch["input_ids"],
        attention_mask=batch["input_mask"],
        token_type_ids=batch["segment_ids"],
        labels=labels,
        sentence_order_label=order,
    )
    assert (mlm + pair).item() == pytest.approx(expected.loss.item(), abs=1e-5)
    only_mlm = torch.nn.functional.cross_entropy(
        expected.prediction_logits.flatten(0, 1), labels.flatten()
    )
    assert mlm.item() == pytest.approx(only_mlm.item(), abs=1e-5)


def test_the_rate_rises_and_falls_linearly(request_of):
    trainer = transformers_pretraining.Trainer(request_of())
    rates = [trainer._rate(step) for step in range(10)]
    expected = [0.0025, 0.005, 0.0075, 0.01, 0.01, 5 / 600, 4 / 600, 3 / 600]
    assert rates[:8] == pytest.approx(expected)
    assert rates[9] == pytest.approx(1 / 600)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_run_learns_and_saves_models_that_the_library_loads(
    request_of, tmp_path, dtype
):
    request = request_of(num_steps=60, save_every_steps=30, dtype=dtype)
    path = tmp_path / "request.json"
    path.write_text(json.dumps(request))
    transformers_pretraining.main([str(path)])
    losses = [
        json.loads((tmp_path / "run" / f"step-{step}" / "heldout.json").read_text())
        for step in (30, 60)
    ]
    # The held-out batches are those of training here, which it learns by heart.
    assert losses[1]["mlm_loss"] < losses[0]["mlm_loss"] < np.log(40)
    loaded = transformers.AlbertForPreTraining.from_pretrained(
        tmp_path / "run" / "step-60"
    )
    assert loaded.config.hidden_size == 12
    assert (
        len(json.loads((tmp_path / "run" / "times.json").read_text())["seconds"]) == 59
    )
