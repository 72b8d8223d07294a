"""Model cards: what they say of a run, and that hubs can read them."""

import json
import types

import pytest
import yaml

from albert_tf.core import config as config_lib
from albert_tf.core import config_io
from albert_tf.data import schema
from albert_tf.interchange import conversion, portable
from albert_tf.serving import model_card, model_facts
from tests.support import sample_runs


def _metadata(card):
    first, metadata, _ = card.split("---\n", 2)
    assert first == ""
    return yaml.safe_load(metadata)


def _finetuned(folder, **values):
    results = sample_runs.results(
        "mrpc", scores={"dev": {"accuracy": 0.625, "f1": 0.75}}, **values
    )
    sample_runs.write(folder, "mrpc", results, [], [])
    task = {
        "name": "mrpc",
        "kind": "classification",
        "labels": ["0", "1"],
        "head_settings": {},
        "calibration": {},
        "init_checkpoint": str(folder.parent / "base" / "model.ckpt-9"),
    }
    (folder / "task.json").write_text(json.dumps(task))
    return str(folder)


def _pretrained(folder, *overrides):
    folder.mkdir()
    config = config_io.override(config_lib.Config(), list(overrides))
    (folder / "config.json").write_text(config_io.to_json(config))
    rows = [
        {"split": "heldout", "step": step, "seconds": 1.0, "mlm_loss": 8.0 / step}
        for step in (1, 2)
    ]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in rows))
    manifest = schema.Manifest(
        *({"language": "de"}, {}, 100, "", 4, (), 32, 5, {"kept": 1234}, {}, ""),
        splits={},
        heldout_unigram_entropy=5.5,
    )
    values = json.loads(manifest.to_json())
    split = {"num_documents": 1, "num_records": 98765, "shards": [], "statistics": {}}
    values["splits"] = {"train": split}
    (folder / "manifest.json").write_text(json.dumps(values))
    return str(folder)


def test_a_hub_reads_task_license_and_scores_of_a_fine_tuned_model(tmp_path):
    _pretrained(tmp_path / "base")
    run = _finetuned(tmp_path / "my run")
    text = model_facts.card_of_run(run, "text", "my run/model.ckpt-600", "cc-by-4.0")
    assert _metadata(text) == {
        "language": ["de"],
        "license": "cc-by-4.0",
        "library_name": "albert_tf",
        "pipeline_tag": "text-classification",
        "tags": ["albert", "text-classification"],
        "metrics": ["accuracy", "f1"],
        "model-index": [
            {
                "name": "my run",
                "results": [
                    {
                        "task": {"type": "text-classification"},
                        "dataset": {
                            "type": "glue",
                            "name": "GLUE MRPC",
                            "config": "mrpc",
                            "split": "dev",
                        },
                        "metrics": [{"type": metric, "value": value}],
                    }
                    for metric, value in (("accuracy", 0.625), ("f1", 0.75))
                ],
            }
        ],
    }
    # The Hub's own reader, which other packages bring along.
    hub = pytest.importorskip("huggingface_hub")
    read = hub.ModelCard(text).data
    assert (read.license, read.model_name) == ("cc-by-4.0", "my run")
    assert [one.metric_value for one in read.eval_results] == [0.625, 0.75]
    assert "- Fine-tuning: MRPC, examples: 3,668 of train, 408 of dev." in text
    assert (
        "- Pre-training: 98,765 records of 32 tokens made from 1,234 documents." in text
    )
    assert "Exported as text from model.ckpt-600 on 20" in text
    assert 'model.classify("A fine film.")' in text
    assert "| learning rate | 2e-05 |" in text


def test_scores_of_another_checkpoint_are_not_claimed(tmp_path):
    run = _finetuned(tmp_path / "run")
    text = model_facts.card_of_run(run, "lite", "model.ckpt-800", "unknown")
    assert "model-index" not in _metadata(text)
    assert "## Scores\n\nNone are known." in text
    assert _metadata(text)["license"] == "unknown"
    assert "Unknown: none was given" in text


def test_a_pre_trained_model_has_the_evaluation_of_its_step(tmp_path):
    run = _pretrained(tmp_path / "run")
    text = model_facts.card_of_run(run, "encoder", "model.ckpt-2", "unknown")
    (result,) = _metadata(text)["model-index"][0]["results"]
    assert result["metrics"] == [{"type": "mlm_loss", "value": 4.0}]
    assert result["dataset"]["split"] == "heldout"
    assert _metadata(text)["pipeline_tag"] == "fill-mask"


def test_scores_of_averaged_weights_are_not_those_of_the_trained_ones(tmp_path):
    run = _pretrained(tmp_path / "run", "train.ema_decay=0.5")
    for weights, has_scores in (("averaged", True), ("trained", False)):
        text = model_facts.card_of_run(run, "text", "m-2", "unknown", weights)
        assert ("model-index" in _metadata(text)) == has_scores


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("albert", "An ALBERT encoder of 12 layers")),
        ({"sharing": "none"}, ("albert", "An ALBERT encoder of 12 layers")),
        (
            {"sharing": "none", "embedding_size": 768},
            ("bert", "A BERT encoder of 12 layers"),
        ),
    ],
)
def test_a_model_that_shares_and_factorizes_nothing_is_called_bert(changes, expected):
    model = config_lib.ModelConfig(**changes)
    assert model_facts.architecture(model) == expected[0]
    assert model_facts.summary(model).startswith(expected[1])


def test_what_a_run_is_called_is_text_and_not_markup():
    card = model_card.Card("a|b <i>\n# c: d", "", "albert_tf", "S.", "M.")
    text = model_card.render(card)
    assert "# a\\|b \\<i\\> # c: d\n" in text
    assert "\n# c" not in text
    scored = model_card.Card(
        **{**vars(card), "scores": [model_card.Score("mrpc", "dev", "f1", 0.5)]}
    )
    metadata = _metadata(model_card.render(scored))
    assert metadata["model-index"][0]["name"] == "a|b <i>\n# c: d"


@pytest.mark.parametrize("name", ["", "Apache 2.0", "x: y", "a\nb", "a" * 65])
def test_a_license_is_an_identifier(name):
    with pytest.raises(ValueError, match="--license must be an identifier"):
        model_card.check_license(name)
    model_card.check_license("apache-2.0")


def test_a_converted_model_says_whence_it_is_and_claims_nothing(testdata, tmp_path):
    source, target = f"tf1:{testdata / 'tf1_g1'}", f"hf:{tmp_path / 'hf'}"
    add_card = model_facts.writer(source, target, "apache-2.0", "averaged")
    conversion.convert(source, target, portable.ReadOptions(), add_card)
    text = (tmp_path / "hf" / "README.md").read_text()
    assert _metadata(text) == {
        "license": "apache-2.0",
        "library_name": "transformers",
        "pipeline_tag": "fill-mask",
        "tags": ["albert", "fill-mask"],
    }
    assert "Converted from tf1:tf1_g1 to the format hf on 20" in text
    assert "transformers.AlbertForPreTraining.from_pretrained" in text
    assert "Not known to the conversion: see the card of the source." in text
    assert "learning rate" not in text


def test_a_converted_run_keeps_what_is_known_of_it(tmp_path):
    run = _finetuned(tmp_path / "run")
    add_card = model_facts.writer(f"run:{run}", "keras:out", "unknown", "averaged")
    head = types.SimpleNamespace(kind="classification")
    parts = ("encoder", "pooler", "head")
    model = types.SimpleNamespace(step=600, config=None, head=head, parts=parts)
    add_card(model, str(tmp_path))
    text = (tmp_path / "README.md").read_text()
    assert _metadata(text)["library_name"] == "keras-hub"
    assert _metadata(text)["pipeline_tag"] == "text-classification"
    assert _metadata(text)["metrics"] == ["accuracy", "f1"]
    assert "Converted from run:run to the format keras" in text


def test_a_card_has_no_scores_of_a_head_that_was_left_out(tmp_path):
    run = _finetuned(tmp_path / "run")
    add_card = model_facts.writer(f"run:{run}", "hf:out", "unknown", "averaged")
    model = types.SimpleNamespace(
        step=600, config=None, head=None, parts=("encoder", "pooler")
    )
    add_card(model, str(tmp_path))
    metadata = _metadata((tmp_path / "README.md").read_text())
    assert metadata["pipeline_tag"] == "feature-extraction"
    assert "metrics" not in metadata and "model-index" not in metadata
