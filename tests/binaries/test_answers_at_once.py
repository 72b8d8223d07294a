"""Every binary answers help and mistakes before it imports anything heavy.

What is counted is modules: seconds differ by machine.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

from tests.repository import import_rules, project_files

BINARIES = [
    project_files.module_of(path)
    for path in project_files.python_files(project_files.ROOT)
    if import_rules.is_binary(path)
]
HEAVY = {
    *("apache_beam", "datasketch", "fastapi", "grpc", "h5py", "huggingface_hub"),
    *("jax", "jinja2", "keras", "keras_hub", "llvmlite", "matplotlib", "numba"),
    "pandas",
    *("pyarrow", "pydantic", "safetensors", "scipy", "sentencepiece", "sentencex"),
    *("sklearn", "starlette", "tensorflow", "tensorflow_serving", "tensorflow_text"),
    *("tf_keras", "tokenizers", "torch", "transformers", "uvicorn"),
}
# Python, absl and NumPy load 250; with TensorFlow it is thousands.
MAX_MODULES = 400

_SET = "--set=model.absent=1"
_NEW = "--output_dir={new}"
_CORPUS = ("--vocab_model={file}", _NEW)
# Flags that each binary needs beside a wrong --set, where it has that flag.
WRONG_SETTING = {
    "albert_tf.bench_learning": ("--data_dir={dir}",),
    "albert_tf.bench_packing": (),
    "albert_tf.bench_paper_speed": (),
    "albert_tf.bench_probe": (),
    "albert_tf.bench_train": (),
    "albert_tf.convert": ("--from=tf1:{dir}", "--to=run:{new}"),
    "albert_tf.demo": (_NEW,),
    "albert_tf.describe": (),
    "albert_tf.ensemble": ("--runs={dir}", "--data_dir={dir}", _NEW),
    "albert_tf.evaluate": (),
    "albert_tf.finetune": (
        *("--model_dir={new}", "--init_checkpoint={dir}", "--data_dir={dir}"),
    ),
    "albert_tf.plan": ("--export_step={new}",),
    "albert_tf.pretrain": ("--model_dir={new}", "--data_dir={dir}"),
    "albert_tf.reproduce": ("--table=width", _NEW),
    "albert_tf.submit": (
        *("--tpu_type=v3-8", "--zone=europe-west4-a"),
        *("--data_dir=gs://b/records", "--model_dir=gs://b/run"),
    ),
    "data_prep.bench_data": (),
    "data_prep.bench_shards": ("--input={file}", "--vocab_model={file}"),
    "data_prep.create_pretraining_data": ("--input={file}", *_CORPUS),
    "data_prep.train_vocab": ("--input={file}", "--output={new}"),
}
# Arguments that name a file which is absent, where the binary reads any.
MISSING_FILE = {
    "albert_tf.bench_learning": ("--data_dir={absent}", _NEW),
    "albert_tf.average_checkpoints": ("--model_dir={absent}", "--last=1", _NEW),
    "albert_tf.bench_load": ("--saved_model={absent}",),
    "albert_tf.bench_packing": ("--config={absent}.py",),
    "albert_tf.bench_probe": ("--config={absent}.py",),
    "albert_tf.bench_serve": ("--model_dir={absent}",),
    "albert_tf.bench_train": ("--data_dir={absent}",),
    "albert_tf.convert": ("--from=run:{absent}", "--to=hf:{new}"),
    "albert_tf.demo": ("--config={absent}.py", _NEW),
    "albert_tf.describe": ("--config={absent}.py",),
    "albert_tf.ensemble": ("--runs={absent}", "--data_dir={dir}", _NEW),
    "albert_tf.evaluate": ("--model_dir={absent}", "--data_dir={dir}", _NEW),
    "albert_tf.export": ("--model_dir={absent}", _NEW),
    "albert_tf.finetune": (
        *("--model_dir={new}", "--init_checkpoint={absent}", "--data_dir={dir}"),
    ),
    "albert_tf.glue_submission": ("--runs={absent}", "--output={new}"),
    "albert_tf.plan": ("--run_exported={absent}",),
    "albert_tf.predict": ("--saved_model={absent}",),
    "albert_tf.pretrain": ("--model_dir={new}", "--data_dir={absent}"),
    "albert_tf.probe": ("--model={absent}", "--suite={pairs}", _NEW),
    "albert_tf.report": ("{absent}",),
    "albert_tf.reproduce": ("--table=width", "--blimp_dir={absent}", _NEW),
    "albert_tf.serve": ("--saved_model={absent}",),
    "albert_tf.submit": (
        *WRONG_SETTING["albert_tf.submit"],
        "--config={absent}.py",
    ),
    "data_prep.bench_data": ("--input={absent}",),
    "data_prep.bench_shards": ("--input={absent}", "--vocab_model={file}"),
    "data_prep.create_pretraining_data": ("--input={absent}", *_CORPUS),
    "data_prep.inspect_records": ("{absent}",),
    "data_prep.train_vocab": ("--input={absent}", "--output={new}"),
    "data_prep.verify": ("{absent}",),
}
# Arguments with a wrong value, or a wrong combination, and what the error says.
_RUN = ("--model_dir={run}", _NEW)
_MODEL = "--saved_model={model}"
WRONG_VALUE = [
    ("albert_tf.average_checkpoints", _RUN, "either --steps or --last"),
    ("albert_tf.average_checkpoints", (*_RUN, "--last=2"), "must hold all checkpoints"),
    ("albert_tf.doctor", ("--checks=cpu,gqu",), "must be some of versions, imports"),
    ("albert_tf.doctor", ("--checks=",), "received none"),
    ("albert_tf.doctor", ("--json=gs://b/f",), "--json must be a local file"),
    ("albert_tf.doctor", ("cpu",), "arguments must be flags; received 'cpu'"),
    ("albert_tf.export", (*_RUN, "--weights=best"), "should be one of <averaged|tr"),
    ("albert_tf.convert", ("--from=run:{dir}", "--to=run:{new}"), "copy the directory"),
    ("albert_tf.convert", ("--from=bert:{dir}", "--to=hf:{new}"), "received 'bert:"),
    ("albert_tf.convert", ("--from=hf:{dir}", "--to=tf1:{run}"), "new or empty"),
    ("albert_tf.convert", ("--from=hf:a/b", "--to=run:{new}"), "add --download to fet"),
    ("albert_tf.export", ("--model_dir={run}", "--output_dir={run}"), "new or empty"),
    ("albert_tf.export", (*_RUN, "--form=lite", "--compute_dtype=float32"), "eight"),
    ("albert_tf.export", (*_RUN, "--form=encoder", "--fixed_length=8"), "any length"),
    ("albert_tf.bench_load", (_MODEL, "--lengths=16"), "such as 16:0.9,400:0.1"),
    ("albert_tf.bench_load", (_MODEL, "--lengths=0:1"), "must be above 0"),
    ("albert_tf.bench_paper_speed", ("--models=bert_large",), "bert_large alone"),
    ("albert_tf.bench_paper_speed", ("--megabits=0",), "must be numbers from 1 on"),
    ("albert_tf.bench_plan", ("--steps=bert",), "must match one of small 8 x 128"),
    ("albert_tf.reproduce", (_NEW, "--table=3"), "must be all or some of embedding_s"),
    ("albert_tf.reproduce", (_NEW, "--table=added_data"), "needs another text"),
    (
        "albert_tf.finetune",
        (
            *("--config=configs/finetune_cola.py", "--model_dir={new}"),
            *("--init_checkpoint={run}", "--data_dir={dir}"),
            "--sweep=optimizer.learning_rate=1e-4",
        ),
        "a setting and two values or more",
    ),
    ("albert_tf.predict", (_MODEL, "--output=a.csv"), "must end in .parquet or .npz"),
    ("albert_tf.predict", (_MODEL, "--output=a.npz"), "must be encode; received None"),
    ("albert_tf.predict", (_MODEL, "--input={file}", "a"), "either --input or texts"),
    ("albert_tf.probe", ("--model={model}", "--suite=zorro", _NEW), "needs --data_dir"),
    (
        "albert_tf.probe",
        ("--model={model}", "--suite=zorro", "--data_dir={dir}", _NEW),
        "must be the directory of BLiMP or Zorro",
    ),
    (
        "albert_tf.probe",
        ("--model={model}", "--suite={pairs}", _NEW, "--compute_dtype=float32"),
        "must be omitted for a SavedModel",
    ),
    ("albert_tf.probe", ("--model={run}", "--suite={file}", _NEW), "is empty"),
    (
        "albert_tf.probe",
        ("--model={run}", "--suite={pairs}", "--output_dir={run}"),
        "another directory than that of a run",
    ),
    (
        "albert_tf.pretrain",
        (
            *("--model_dir={new}", "--data_dir={dir}", "--set=train.num_steps=9"),
            *("--set=train.stages=[{{'num_steps': 9}}]", "--set=train.records=wiki"),
            "--set=optimizer.warmup_steps=0",
        ),
        "train.records must hold records and their manifest.json",
    ),
    ("data_prep.demo_corpus", (), "error: --output must be given"),
    ("albert_tf.evaluate", (), "--model_dir, --data_dir and --output_dir must be g"),
    ("albert_tf.evaluate", ("--data_dir={dir}",), "--model_dir and --output_dir must"),
    ("albert_tf.evaluate", ("--predictions={file}",), "--task and --data_dir must be"),
    (
        "albert_tf.evaluate",
        ("--data_dir={dir}", "--task=mrpc", "--predictions={absent}"),
        "--predictions must be a file",
    ),
    (
        "albert_tf.evaluate",
        ("--data_dir={dir}", "--predictions={file}", "--model_dir={run}"),
        "needs no model; omit --model_dir",
    ),
]
# These read no file that a flag names, or say of it what they found (doctor), or (Beam)
# need what is not installed here.
NO_FILE = {
    *("albert_tf.bench_model", "albert_tf.bench_paper_speed", "albert_tf.bench_plan"),
    "albert_tf.doctor",
    *("data_prep.beam_pipeline", "data_prep.demo_corpus"),
}

_PROGRAM = """
import atexit, json, runpy, sys
modules_file, module = sys.argv[1:3]
del sys.argv[:2]
atexit.register(lambda: json.dump(sorted(sys.modules), open(modules_file, "w")))
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


def _answer(tmp_path: pathlib.Path, binary: str, *arguments: str, code: int = 1) -> str:
    """All that the binary prints; it must end with the code, with little imported."""
    (tmp_path / "dir").mkdir()
    for name in ("file", "run/config.json", "model/saved_model.pb"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    pair = {"sentence_good": "A", "sentence_bad": "B"}
    (tmp_path / "pairs").write_text(json.dumps(pair))
    names = ("absent", "dir", "file", "model", "new", "pairs", "run")
    paths = {name: str(tmp_path / name) for name in names}
    loaded = tmp_path / "modules.json"
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(loaded), binary]
        + [argument.format(**paths) for argument in arguments],
        cwd=project_files.ROOT,
        env={**os.environ, "PYTHONPATH": str(project_files.ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    output = done.stdout + done.stderr
    assert done.returncode == code, output[-2000:]
    assert "Traceback" not in output, output[-2000:]
    modules = json.loads(loaded.read_text())
    heavy = HEAVY & set(modules)
    assert not heavy, f"{binary} imported {sorted(heavy)}; it printed:\n{output[-500:]}"
    assert len(modules) <= MAX_MODULES
    return output


@pytest.mark.parametrize("binary", BINARIES)
def test_help(tmp_path, binary):
    output = _answer(tmp_path, binary, "--help", code=0)
    # absl indents each flag that the binary defines by two spaces.
    assert re.search(r"^  --(\[no\])?\w+:", output, re.M), output


def test_short_help(tmp_path):
    assert "--data_dir:" in _answer(tmp_path, "albert_tf.pretrain", "-h", code=0)


def test_help_settings(tmp_path):
    arguments = "--help_settings", "--config=demo", "--set=train.batch_size=7"
    output = _answer(tmp_path, "albert_tf.pretrain", *arguments, code=0)
    assert "* train.batch_size=7   (integer, at least 1; default 4096)" in output
    assert "* model.vocab_size=4000   (integer, at least 1; default 30000)" in output
    assert "  model.embedding_size=128   (integer, at least 1; default 128)" in output
    assert "    vocab_size is V, the number of pieces of the vocabulary." in output


def test_help_settings_of_a_recipe_that_is_missing(tmp_path):
    arguments = "--help_settings", "--config={absent}.py"
    output = _answer(tmp_path, "albert_tf.describe", *arguments)
    assert output.startswith("error: --config must name a recipe"), output


@pytest.mark.parametrize(
    "arguments",
    [
        ("albert_tf.pretrain", "--help_settings"),
        ("albert_tf.pretrain", "--help"),
        ("albert_tf.describe",),
    ],
)
def test_a_reader_that_ends_is_no_error(arguments):
    """As `head` ends after its lines."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=project_files.ROOT,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_missing_flags_are_named_together(tmp_path):
    output = _answer(tmp_path, "albert_tf.pretrain")
    assert output.splitlines() == [
        "error: --model_dir and --data_dir must be given; --help lists the flags",
        "  --model_dir: Directory of checkpoints, metrics and summaries.",
        "  --data_dir: Directory of records and their manifest.json, or of the "
        "directories that train.records and train.stages name.",
    ]


@pytest.mark.parametrize("binary", sorted({*BINARIES} - {"data_prep.beam_pipeline"}))
def test_unknown_flag(tmp_path, binary):
    # Beam's own flags are not known to beam_pipeline itself.
    output = _answer(tmp_path, binary, "--surely_unknown=1")
    assert "Unknown command line flag 'surely_unknown'" in output


@pytest.mark.parametrize("binary", WRONG_SETTING)
def test_wrong_setting(tmp_path, binary):
    output = _answer(tmp_path, binary, _SET, *WRONG_SETTING[binary])
    last = output.rstrip("\n").splitlines()[-1]
    assert last.startswith("error: ") and "absent" in last, output


@pytest.mark.parametrize("binary", MISSING_FILE)
def test_missing_file(tmp_path, binary):
    output = _answer(tmp_path, binary, *MISSING_FILE[binary])
    last = output.rstrip("\n").splitlines()[-1]
    assert last.startswith("error: ") and str(tmp_path / "absent") in last, output


@pytest.mark.parametrize(("binary", "arguments", "message"), WRONG_VALUE)
def test_wrong_value(tmp_path, binary, arguments, message):
    assert message in _answer(tmp_path, binary, *arguments).replace("\n", " ")


def test_every_binary_is_tried():
    assert {*BINARIES} == {*MISSING_FILE} | NO_FILE
    with_set = {
        binary
        for binary in BINARIES
        if re.search(r'"set",$', _source(binary), re.M) or "--set" in _source(binary)
    }
    assert with_set - NO_FILE <= {*WRONG_SETTING}


def _source(binary: str) -> str:
    return (project_files.ROOT / f"{binary.replace('.', '/')}.py").read_text()
