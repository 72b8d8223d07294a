"""Every reader of JSON from outside takes a value, or refuses it in one short line."""

import collections
import dataclasses
import json
import math
import os
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import hypothesis
import pytest
from hypothesis import strategies

from albert_tf.checkpoints import branching, checkpointer, run_dir, untrained
from albert_tf.core import config, config_io, locks, task_config
from albert_tf.data import manifest as manifest_lib
from albert_tf.demonstration import stages
from albert_tf.devices import strategies as devices
from albert_tf.finetuning import results_reader
from albert_tf.finetuning import run_dir as task_run_dir
from albert_tf.inference import openvino_model
from albert_tf.interchange import (
    albert_zh,
    hugging_face,
    hugging_face_config,
    hugging_face_weights,
    keras_hub,
    keras_hub_files,
    portable,
    tf1,
    weight_map,
)
from albert_tf.planning import exported_step
from albert_tf.probing import published, suites
from albert_tf.reports import error_analysis
from albert_tf.reproduction import runner
from albert_tf.tasks import examples, predictions, registry
from albert_tf.training import hangs, metrics_log
from data_prep.reading import formats
from data_prep.verification import manifest as verification
from tests.support import hostile_json, sample_runs, whole_json


class Reader(NamedTuple):
    """A file that a reader reads.

    name: of the file, below the directory.
    valid: an object that it takes; its fields are changed one by one.
    read: reads it, from the path of the directory.
    takes: the names of hostile contents that it takes, or that hold nothing for it.
    beside: contents of other files.
    """

    name: str
    valid: dict[str, Any]
    read: Callable[[str], object]
    takes: tuple[str, ...] = ()
    beside: dict[str, str] = {}


def _within(name: str, read: Callable[[str], object]) -> Callable[[str], object]:
    return lambda folder: read(os.path.join(folder, name))


def _read_task_data(name: str, split: str = "train") -> Callable[[str], object]:
    settings = task_config.TaskConfig(name=name, train_file="", dev_file="")
    if name == "squad2":
        settings = dataclasses.replace(settings, train_file="train.json")
    task = registry.create(settings, ("a", "b") if name == "table" else ())
    return lambda folder: task.read(folder, split, examples.Problems(False))


def _read_model(read) -> Callable[[str], object]:
    return lambda folder: read(
        folder, portable.ReadOptions(), weight_map.ConversionReport()
    )


def _read_run(task: str, answers: list[dict[str, Any]]) -> Callable[[str], object]:
    """Reads a directory that is whole except for one file, and lists the errors."""

    def read(folder: str) -> None:
        whole = pathlib.Path(folder, "whole")
        if not whole.exists():
            rows = sample_runs.rows("accuracy", (0.5,))
            sample_runs.write(whole, task, sample_runs.results(task), answers, rows)
        for path in whole.iterdir():
            target = pathlib.Path(folder, path.name)
            if not target.exists():
                target.write_bytes(path.read_bytes())
        run = results_reader.read_run(folder)
        for found in run.answers.values():
            error_analysis.worst(run.results["kind"], found)

    return read


def _read_corpus(folder: str) -> object:
    path = os.path.join(folder, "corpus.jsonl")
    content = pathlib.Path(path).read_bytes()
    text = config.TextConfig(input_format="jsonl")
    counts = collections.Counter()
    return list(formats.iter_documents(content, path, 1, text, counts))


def _verify(folder: str) -> object:
    return verification.inconsistencies(verification.read_manifest(folder))


def _best(folder: str) -> object:
    return checkpointer.best_path(folder)


READERS = {
    "configuration": Reader(
        "config.json", whole_json.CONFIG, _within("config.json", config_io.read)
    ),
    "manifest": Reader(
        "manifest.json", whole_json.MANIFEST, manifest_lib.read_manifest
    ),
    "manifest to verify": Reader("manifest.json", whole_json.MANIFEST, _verify),
    "manifests of a run": Reader(
        "manifests.json", {"wiki": {"a": 1}}, run_dir.read_manifests
    ),
    "corpus": Reader("corpus.jsonl", {"text": "A.", "id": 1}, _read_corpus, ("empty",)),
    "suite": Reader(
        "a.jsonl", whole_json.MINIMAL_PAIR, _within("a.jsonl", suites.read)
    ),
    "published results": Reader(
        "results/models_summary.jsonl",
        {"UID": "a", "ngram": 0.5, "lstm": 0.5, "txl": 0.5, "gpt2": 0.5},
        published.read,
        ("empty",),
        {"data/a.jsonl": json.dumps(whole_json.MINIMAL_PAIR)},
    ),
    "SQuAD": Reader("train.json", whole_json.SQUAD, _read_task_data("squad2")),
    "RACE": Reader("train/high/1.txt", whole_json.RACE, _read_task_data("race")),
    "table": Reader(
        "train.jsonl", {"text": "A.", "label": "a"}, _read_task_data("table")
    ),
    "results": Reader(
        "results.json",
        sample_runs.results("mrpc", calibration={"null_odds_threshold": 0.5}),
        _read_run("mrpc", sample_runs.MRPC_ANSWERS),
    ),
    **{
        f"answers of {task}": Reader(
            "answers-dev.jsonl", answers[0], _read_run(task, answers), ("empty",)
        )
        for task, answers in (
            ("mrpc", sample_runs.MRPC_ANSWERS),
            ("squad2", sample_runs.SQUAD_ANSWERS),
            ("conll", sample_runs.CONLL_ANSWERS),
            ("race", sample_runs.RACE_ANSWERS),
            ("stsb", sample_runs.STSB_ANSWERS),
        )
    },
    "seeds": Reader("seeds.json", whole_json.SEEDS, results_reader.read_seeds),
    "task": Reader("task.json", whole_json.TASK, task_run_dir.read_task),
    "metrics": Reader(
        "metrics.jsonl", whole_json.ROW, metrics_log.read_metrics, ("empty",)
    ),
    "best checkpoint": Reader(
        "best_checkpoint.json", {"step": 3, "metric": 0.5}, _best
    ),
    "branch": Reader(
        "branch.json",
        {"path": "/run/model.ckpt-3", "step": 3, "records_begin_at": 0},
        lambda folder: branching.find("", config.Config(), b"", (), folder),
    ),
    "hang": Reader(
        "hang.json",
        {"name": "step 3", "step": 3, "is_step": True, "times": 1},
        lambda folder: hangs.HangRecord(folder, True),
    ),
    "untrained parts": Reader(
        "untrained.json",
        {"untrained": ["pooler"]},
        lambda folder: untrained.of_run(folder, config.Config()),
    ),
    "stages of the demonstration": Reader(
        "stages.json",
        {"vocabulary": {"key": "0f", "seconds": 1.5, "done": True}},
        lambda folder: stages.run_stages(folder, [], ""),
    ),
    "measures": Reader(
        "measures.json",
        {"pair-sop": {"digest": "0f", "seeds": {"1": {"mlm_accuracy": 0.5}}}},
        _within("measures.json", runner._read_measures),
    ),
    "exported step": Reader(
        "step.json", whole_json.STEP, exported_step.read, (), {"step.mlir": "module {}"}
    ),
    "OpenVINO": Reader(
        "openvino/settings.json", whole_json.OPENVINO, openvino_model.read_settings
    ),
    "Hugging Face": Reader(
        "config.json", whole_json.HUGGING_FACE, _read_model(hugging_face.read)
    ),
    "tokenizer of Hugging Face": Reader(
        "tokenizer_config.json",
        {"do_lower_case": True, "keep_accents": False, "model_max_length": 10**30},
        hugging_face_config.read_lower_case,
        ("a long name",),
    ),
    "index of Hugging Face": Reader(
        "model.safetensors.index.json",
        {"metadata": {}, "weight_map": {"a": "model-1.safetensors"}},
        hugging_face_weights.paths_in,
    ),
    "the original": Reader(
        "albert_config.json",
        whole_json.TF1,
        _within("albert_config.json", tf1.read_config),
    ),
    "albert_zh": Reader(
        "albert_config.json",
        whole_json.ZH,
        _within("albert_config.json", albert_zh._read_config),
    ),
    "KerasHub": Reader("config.json", whole_json.KERAS, _read_model(keras_hub.read)),
    "task of KerasHub": Reader(
        "task.json", whole_json.KERAS_TASK, keras_hub_files.read_task
    ),
    "index of KerasHub": Reader(
        "model.weights.json",
        {"weight_map": {"a": "b.weights.h5", "c": ["b.weights.h5"]}},
        lambda folder: keras_hub_files.find_weights(folder, None),
    ),
}
EMPTY = {"empty": b""}


def _write(folder: pathlib.Path, reader: Reader, content: bytes) -> None:
    for name, data in {**reader.beside, reader.name: content}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)


@pytest.mark.parametrize("name", list(READERS))
def test_no_hostile_content_is_taken(tmp_path, name):
    reader = READERS[name]
    for kind, content in (hostile_json.CONTENTS | EMPTY).items():
        _write(tmp_path, reader, content and content + b"\n")
        if kind in reader.takes:
            reader.read(str(tmp_path))
            continue
        # Of several files that hold nothing the directory is named.
        path = str(tmp_path if kind == "empty" else tmp_path / reader.name)
        hostile_json.assert_refused(lambda: reader.read(str(tmp_path)), path)


@pytest.mark.parametrize("name", list(READERS))
def test_fields_of_other_types_are_taken_or_named(tmp_path, name):
    reader = READERS[name]
    for values in hostile_json.variants(reader.valid):
        # One line, as files of lines need it.
        _write(tmp_path, reader, json.dumps(values).encode() + b"\n")
        hostile_json.assert_read_or_refused(
            lambda: reader.read(str(tmp_path)), str(tmp_path)
        )


NOT_READ = ("Hugging Face", "index of Hugging Face", "KerasHub", "index of KerasHub")


@pytest.mark.parametrize("name", [n for n in READERS if n not in NOT_READ])
def test_what_is_whole_is_read(tmp_path, name):
    reader = READERS[name]
    _write(tmp_path, reader, json.dumps(reader.valid).encode() + b"\n")
    reader.read(str(tmp_path))


BRIEFLY = hypothesis.settings(
    max_examples=400,
    deadline=None,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
CUTS = strategies.tuples(
    strategies.floats(0, 1), strategies.binary(max_size=4), strategies.integers(0, 9)
)


@BRIEFLY
@hypothesis.given(
    strategies.sampled_from(list(READERS)), strategies.lists(CUTS, min_size=1)
)
def test_any_damage_is_read_or_named(tmp_path_factory, name, cuts):
    reader = READERS[name]
    content = json.dumps(reader.valid).encode() + b"\n"
    for place, inserted, num_dropped in cuts:
        start = int(place * len(content))
        content = content[:start] + inserted + content[start + num_dropped :]
    folder = tmp_path_factory.mktemp("damaged")
    _write(folder, reader, content)
    hostile_json.assert_read_or_refused(lambda: reader.read(str(folder)), str(folder))


# ---- What is no file of its own ----


def test_hostile_locks_have_no_holder_or_one_that_can_be_named():
    for content in hostile_json.CONTENTS.values():
        assert locks.Holder.from_bytes(content) is None
    held = dataclasses.asdict(locks.Holder.here())
    for values in hostile_json.variants(held):
        holder = locks.Holder.from_bytes(json.dumps(values).encode())
        if holder is not None:
            assert len(str(holder)) < 200
            holder.is_alive()


SPANS = {
    "ids": ["a"],
    "n_best": [[["text", 0, 4, 0.5, 1.0, 2.0]]],
    "null_odds": [-math.inf],
}


def test_hostile_predictions_are_refused():
    ids, found = predictions.from_bytes(json.dumps(SPANS).encode())
    assert ids == ["a"] and found.n_best[0][0].text == "text"
    contents = [c for c in hostile_json.CONTENTS.values() if c[:1] == b"{"]
    for content in [*contents, b"{}"]:
        hostile_json.assert_refused(lambda c=content: predictions.from_bytes(c), "")
    for values in hostile_json.variants(SPANS):
        content = json.dumps(values).encode()
        hostile_json.assert_read_or_refused(
            lambda c=content: predictions.from_bytes(c), ""
        )


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "x" * 300_000,
        '{"cluster": []}',
        '{"cluster": {"worker": "ab"}}',
        '{"cluster": {"worker": {"a": 1}}}',
        '{"task": {"index": "one"}}',
        '{"task": {"index": []}}',
        '{"task": 3}',
        '{"task": {"index": Infinity}}',
        '{"task": {"index": 1e999}}',
    ],
)
def test_a_hostile_cluster_is_refused(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    hostile_json.assert_refused(devices.create_strategy, "TF_CONFIG")
