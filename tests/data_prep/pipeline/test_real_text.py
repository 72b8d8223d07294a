"""The binaries on English Wikipedia with the released vocabulary."""

import itertools
import lzma

import pytest

from albert_tf.data import manifest as manifest_lib
from albert_tf.data import schema
from albert_tf.training import metrics_log, pretraining
from data_prep import create_pretraining_data
from tests.support import binaries, small_run

SETTINGS = (
    "model.vocab_size=30000",
    "model.embedding_size=32",
    "model.hidden_size=64",
    "model.intermediate_size=128",
    "model.max_positions=64",
    "text.sentence_splitter=sentencex",
    "data.max_seq_length=64",
    "data.dupe_factor=1",
    "data.heldout_rate=0.1",
    "optimizer.learning_rate=0.03",
    "optimizer.warmup_steps=10",
    "train.batch_size=32",
    "train.num_steps=120",
    "train.steps_per_loop=20",
    "train.save_every_steps=120",
    "train.eval_every_steps=60",
    "train.eval_batches=20",
)


@pytest.mark.slow
def test_the_loss_on_held_out_articles_falls(shared_data, tmp_path):
    with lzma.open(
        shared_data / "wikipedia_en_good_featured.txt.xz", "rt", encoding="utf-8"
    ) as articles:
        text = "".join(itertools.islice(articles, 4000))
    (tmp_path / "articles.txt").write_text(text, encoding="utf-8")
    config = small_run.small_config(*SETTINGS)
    records = tmp_path / "records"
    binaries.run(
        create_pretraining_data,
        f"--input={tmp_path / 'articles.txt'}",
        f"--vocab_model={shared_data / 'albert_en_30k.spm.model'}",
        f"--output_dir={records}",
        *(f"--set={setting}" for setting in (*small_run.OVERRIDES, *SETTINGS)),
    )
    manifest = manifest_lib.read_manifest(str(records))
    split = manifest.splits[schema.TRAIN]
    assert split.num_records > 5000
    assert abs(split.statistics["masked_rate"] - 0.15) < 0.005
    assert split.statistics["unknown_rate"] < 0.01

    pretraining.train(config, str(records), str(tmp_path / "run"))
    losses = [
        row["mlm_loss"]
        for row in metrics_log.read_metrics(str(tmp_path / "run"))
        if row["split"] == schema.HELDOUT
    ]
    assert losses == sorted(losses, reverse=True)
    # Frequencies alone would be learnt by now.
    assert losses[-1] < manifest.heldout_unigram_entropy + 0.5
