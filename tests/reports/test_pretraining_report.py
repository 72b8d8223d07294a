"""Tests of the report: what a reader sees, that it stands alone, and error lines."""

import base64
import dataclasses
import html.parser
import json
import pathlib
import re
import subprocess
import sys

import pytest
from absl import flags

from albert_tf import report
from albert_tf.core import config as config_lib
from albert_tf.core import config_io
from albert_tf.data import schema
from albert_tf.reports import html as report_html
from albert_tf.reports import pretraining_report

CONFIG = config_lib.Config(
    model=config_lib.ModelConfig(vocab_size=4001, num_layers=5, hidden_size=240),
    train=config_lib.TrainConfig(batch_size=33, num_steps=70),
    optimizer=config_lib.OptimizerConfig(warmup_steps=7),
)
BEFORE = {
    "mlm_loss": 8.25,
    "mlm_accuracy": 0.002,
    "sentence_order_loss": 0.7125,
    "sentence_order_accuracy": 0.49,
}
AFTER = {
    "mlm_loss": 5.21,
    "mlm_accuracy": 0.313,
    "sentence_order_loss": 0.6525,
    "sentence_order_accuracy": 0.617,
}
SUMMARY = {
    "documents": 21873,
    "records": 74120,
    "heldout_documents": 655,
    "parameters": 1450912,
    "steps": 70,
    "seconds": {"vocabulary": 38.94, "training": 431.7},
    "total_seconds": 7384,
    "heldout_unigram_entropy": 5.94,
    "before": BEFORE,
    "after": AFTER,
    "filled_masks": [
        {
            "text": "Return the [MASK] of <b>it</b>.",
            "answers": [
                {"token": "size", "probability": 0.6123},
                {"token": "<script>alert(1)</script>", "probability": 0.05},
            ],
        }
    ],
    "data_statistics": {
        "masked_rate": 0.147088,
        "mean_length": 91.7453,
        "drawn_ngram_lengths": {"1": 6000, "2": 3000, "3": 1000},
        "labels": {"-1": 800, "0": 150, "1": 50},
    },
}
TRAIN_EXTRA = {"gradient_norm": 1.5, "learning_rate": 0.001, "tokens_per_second": 1e4}
ROWS = [
    {"split": "heldout", "step": 0, "seconds": 0.0, **BEFORE},
    {"split": "train", "step": 35, "seconds": 3.0, **BEFORE, **TRAIN_EXTRA},
    {"split": "train", "step": 70, "seconds": 6.0, **AFTER, **TRAIN_EXTRA},
    {"split": "heldout", "step": 70, "seconds": 6.5, **AFTER},
]
PICTURES = {
    "mlm-accuracy",
    "mlm-loss",
    "optimization",
    "sentence-order",
    "throughput",
}
# What a row of training holds besides since the devices' use is recorded.
NEWER = {
    "steps_per_second": 2.125,
    "input_share": 0.034,
    "model_flops_per_second": 98.25e12,
    "model_flops_utilization": 0.49875,
    "masked_share": 0.1504,
    "skipped_steps": 3,
    "overflow_steps": 2,
    "loss_scale": 32768.0,
    "trust_ratio/encoder/embeddings/word_embeddings": 0.0625,
    "trust_ratio/encoder/block_0/attention/query/kernel": 108.25,
    "trust_ratio/encoder/pooler/kernel": 1.5,
}
NEWER_PICTURES = {
    "masks-and-skips",
    "trust-ratios-attention",
    "trust-ratios-embeddings",
    "trust-ratios-pooler-and-heads",
    "utilization",
}


class _Page(html.parser.HTMLParser):
    """Tags, what they link to, and the text with single spaces."""

    def __init__(self, markup: str):
        super().__init__()
        self.tags, self.links, self.figures, self._data = [], [], [], []
        self.feed(markup)
        body = "".join(self._data).replace("\xa0", " ")
        self.text = re.sub(r"\s+", " ", body)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "td":  # Nothing else parts the cells of a row.
            self._data.append(" ")
        if tag == "figure":
            self.figures += [v for k, v in attrs if k == "id"]
        self.links += [v for k, v in attrs if k in ("src", "srcset", "href")]

    def handle_data(self, data):
        self._data.append(data)


def _write(folder, summary=SUMMARY, rows=ROWS) -> _Page:
    path = pretraining_report.write_report(str(folder), summary, rows, CONFIG)
    assert path == str(folder / "index.html")
    return _read(folder)


def _read(folder) -> _Page:
    return _Page((folder / "index.html").read_text("utf-8"))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return _write(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def newer_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("newer")
    _write(folder, rows=[*ROWS[:2], {**ROWS[2], **NEWER}, ROWS[3]])
    return folder


def test_page_says_what_was_done_and_what_came_of_it(page):
    text = page.text
    assert (
        "An ALBERT of 5 layers (hidden size 240, 1,450,912 parameters) with a "
        "vocabulary of 4,001 pieces was pre-trained for 70 steps of 33 sequences, each "
        "of at most 512 tokens, made from 21,873 documents. On 655 held-out documents, "
        "its MLM loss went from 8.25 to 5.21 nats a masked token, and it predicts "
        "31.3% of the masked tokens correctly." in text
    )
    assert "0.73 nats below: it has learnt from context." in text
    assert "MLM loss (nats a masked token) 8.2500 5.2100" in text
    assert "token frequencies alone 5.9400" in text
    assert "MLM accuracy 0.2% 31.3%" in text
    assert "Sentence-order loss (nats a pair) 0.7125 0.6525" in text
    assert "Sentence-order accuracy (chance: 50%) 49.0% 61.7%" in text


def test_page_of_a_run_in_stages_lists_them(tmp_path):
    run = config_lib.TrainConfig(
        batch_size=33,
        num_steps=70,
        stages=(
            config_lib.StageConfig(num_steps=63, max_seq_length=128, batch_size=66),
            config_lib.StageConfig(num_steps=7),
        ),
    )
    config = dataclasses.replace(CONFIG, train=run)
    pretraining_report.write_report(str(tmp_path), SUMMARY, ROWS, config)
    text = _read(tmp_path).text
    assert (
        "was pre-trained for 70 steps in 2 stages, made from 21,873 documents." in text
    )
    assert "63 steps of 66 sequences of 128 tokens 7 steps of 33 sequences" in text
    assert "of the first stage, and those after of the last" in text


def test_page_shows_counts_times_statistics_answers_and_configuration(page):
    text = page.text
    assert "records 74,120" in text
    assert "vocabulary 38.9 s training 7 min 12 s total 2 h 03 min" in text
    assert "masked rate 14.71%" in text
    assert "mean length 91.75" in text
    assert "drawn ngram lengths 1: 6,000 (60.0%); 2: 3,000 (30.0%); 3: 1,000" in text
    assert "one segment: 800 (80.0%); in order: 150 (15.0%); swapped: 50" in text
    assert "Return the [MASK] of <b>it</b>. size 61.2%" in text
    assert '"batch_size": 33' in text


def test_page_shows_the_last_row_of_training_with_units(newer_folder):
    assert (
        "Last row of training step 70 MLM loss 5.2100 nats a masked token MLM accuracy "
        "31.3% sentence-order loss 0.6525 nats a pair sentence-order accuracy 61.7% "
        "learning rate 0.001 gradient norm before clipping 1.5 tokens, padding not "
        "counted 10,000 a second steps 2.125 a second time spent waiting for batches "
        "3.4% operations of the model 98.25 TFLOP/s share of the devices' peak (MFU) "
        "49.88% masked share of the tokens 15.0% steps skipped so far 3 steps skipped "
        "for overflow of float16 2 loss scale 32,768 least trust "
        "ratio 0.0625 (word embeddings) greatest trust ratio 108.2 (block 0 attention "
        "query) Curves" in _read(newer_folder).text
    )


def test_last_row_of_an_older_run_shows_what_it_has(page):
    assert "order accuracy 61.7% learning rate 0.001 gradient norm" in page.text
    assert "tokens, padding not counted 10,000 a second Curves" in page.text


def test_newer_rows_have_pictures_of_their_own(newer_folder):
    page = _read(newer_folder)
    assert set(page.figures) == PICTURES | NEWER_PICTURES
    assert "Strong band" not in page.text


def test_many_variables_are_bands_that_the_page_explains(tmp_path):
    ratios = {f"trust_ratio/encoder/block_{n}/attention/query": 1.0 for n in range(13)}
    rows = [{"split": "train", "step": step, **ratios} for step in (1, 2)]
    page = _write(tmp_path, {}, rows)
    assert page.figures == ["trust-ratios-attention"]
    assert "Trust ratios: attention Line: median of the variables" in page.text


def test_what_a_run_produced_cannot_become_markup(page):
    assert "<script>alert(1)</script>" in page.text
    assert not {"script", "b"} & set(page.tags)


@pytest.mark.parametrize(
    "loss, words",
    [
        (5.65, "0.29 nats below: it has hardly learnt from context."),
        (6.19, "0.25 nats above: it has not learnt from context."),
        (5.94, "0.00 nats above: it has not learnt from context."),
        (float("nan"), "The loss is not a number: it has not learnt from context."),
    ],
)
def test_page_says_when_nothing_was_learnt_from_context(tmp_path, loss, words):
    after = {**AFTER, "mlm_loss": loss}
    page = _write(tmp_path, {**SUMMARY, "after": after})
    assert words in page.text
    assert "it has learnt" not in page.text


def test_the_page_is_one_file_with_its_pictures_in_two_themes(tmp_path):
    page = _write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
    assert set(page.figures) == PICTURES
    assert len(page.links) == len(set(page.links)) == 2 * len(PICTURES)
    for link in page.links:
        kind, _, content = link.partition(",")
        assert kind == "data:image/png;base64"
        header = base64.b64decode(content)[:24]
        assert header[:8] == b"\x89PNG\r\n\x1a\n"
        assert int.from_bytes(header[16:20]) == 1040  # width in pixels
    assert "http" not in (tmp_path / "index.html").read_text("utf-8")


def test_same_run_gives_the_same_bytes(tmp_path):
    _write(tmp_path / "first")
    _write(tmp_path / "second")
    for path in (tmp_path / "first").iterdir():
        assert path.read_bytes() == (tmp_path / "second" / path.name).read_bytes()


def test_run_without_held_out_documents(tmp_path):
    page = _write(tmp_path, {}, [row for row in ROWS if row["split"] == "train"])
    assert "It was not evaluated on held-out documents, so it is not known" in page.text
    assert "The setting data.heldout_rate of the records decides" in page.text
    assert set(page.figures) == PICTURES


def test_before_and_after_come_from_the_metrics_if_the_summary_has_none(tmp_path):
    heldout = [row for row in ROWS if row["split"] == "heldout"]
    page = _write(tmp_path, {"heldout_unigram_entropy": None}, heldout)
    assert "its MLM loss went from 8.25 to 5.21 nats" in page.text
    assert "nats below" not in page.text
    assert "mlm-accuracy" in page.figures
    assert "throughput" not in page.figures
    assert "Last row of training" not in page.text


def test_evaluation_before_training_is_not_taken_for_one_after(tmp_path):
    text = _write(tmp_path, {"heldout_unigram_entropy": 5.94}, ROWS[:2]).text
    assert "It has not been evaluated on held-out documents since." in text
    assert "MLM loss (nats a masked token) 8.2500 –" in text
    assert "from context" not in text


def test_a_branch_begins_with_the_step_where_it_starts(tmp_path):
    # Two evaluations of a branch from step 1,500.
    first, last = (
        {**row, "step": row["step"] + 1500, "begun_at": 1500}
        for row in ROWS
        if row["split"] == "heldout"
    )
    summary = {"heldout_unigram_entropy": 5.94}
    text = _write(tmp_path / "begun", summary, [first]).text
    assert "It has not been evaluated on held-out documents since." in text
    assert "MLM loss (nats a masked token) 8.2500 –" in text
    text = _write(tmp_path / "both", summary, [first, last]).text
    assert "its MLM loss went from 8.25 to 5.21 nats" in text


@pytest.mark.parametrize(
    "rows, num_pictures",
    [
        ([], 0),
        (ROWS[:1], 3),
        (ROWS[1:2], 5),
        ([{**ROWS[1], **NEWER}], 10),
    ],
)
def test_one_point_or_none(tmp_path, rows, num_pictures):
    page = _write(tmp_path, {}, rows)
    assert "pre-trained for" in page.text
    assert len(page.links) == 2 * num_pictures


@pytest.mark.parametrize(
    "summary, rows, message",
    [
        ([], [], "a summary must be an object; received []"),
        ({"seconds": 5}, [], "seconds must hold numbers by name; received 5"),
        ({"after": {"mlm_loss": "a"}}, [], "after must hold numbers by name"),
        ({"total_seconds": "a"}, [], "total_seconds must be a number; received 'a'"),
        ({"data_statistics": 5}, [], "data_statistics must be an object"),
        ({"filled_masks": {}}, [], "filled_masks must be a list"),
        ({"filled_masks": [{}]}, [], "a mask has text and answers; received {}"),
        ({}, [{"split": "train"}], "metrics have split and step; received"),
        (
            {},
            [{**ROWS[1], "a": "b"}],
            "all metrics but split must be numbers; received",
        ),
    ],
)
def test_other_forms_are_named(tmp_path, summary, rows, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        pretraining_report.write_report(str(tmp_path / "report"), summary, rows, CONFIG)
    assert not (tmp_path / "report").exists()


def _make_run(folder, summary=SUMMARY):
    folder.mkdir()
    (folder / "config.json").write_text(config_io.to_json(CONFIG))
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in ROWS))
    if summary is not None:
        (folder / "summary.json").write_text(json.dumps(summary))


def _main(*arguments):
    values = flags.FlagValues()
    report.define_flags(values)
    report.main(values(["report", *map(str, arguments)]), values)


def test_command_writes_into_the_folder_of_the_run(tmp_path, capsys):
    _make_run(tmp_path / "run")
    _main(tmp_path / "run")
    path = tmp_path / "run" / "report" / "index.html"
    assert capsys.readouterr().out == f"{path}\n"
    assert "1,450,912 parameters" in _Page(path.read_text("utf-8")).text


def test_command_without_summary_into_another_folder(tmp_path):
    _make_run(tmp_path / "run", summary=None)
    _main(tmp_path / "run", f"--output_dir={tmp_path / 'other'}")
    page = _Page((tmp_path / "other" / "index.html").read_text("utf-8"))
    assert "went from 8.25 to 5.21 nats" in page.text
    assert not (tmp_path / "run" / "report").exists()


def test_the_page_names_the_run_its_date_and_versions(tmp_path):
    _make_run(tmp_path / "first")
    _main(tmp_path / "first")
    page = _read(tmp_path / "first" / "report").text
    assert "Run directory first; its date and versions were not recorded." in page
    starts = [
        {"date": "2026-11-03 09:05 UTC", "versions": {"albert_tf": "0.1"}, "step": 0},
        {"date": "2026-11-04 10:06 UTC", "versions": {"albert_tf": "0.2"}, "step": 35},
    ]
    (tmp_path / "first" / "provenance.json").write_text(json.dumps(starts))
    _main(tmp_path / "first")
    assert (
        "Run directory first, begun 2026-11-03 09:05 UTC, resumed once, last "
        "2026-11-04 10:06 UTC; albert_tf 0.1; then albert_tf 0.2."
        in _read(tmp_path / "first" / "report").text
    )


def _write_probe(folder, suite, accuracy):
    found = {"accuracy": accuracy, "low": 0.5, "high": 0.75, "num_pairs": 8}
    other = {"overall": 0.625, "phenomena": {"npi": 0.625}, "paradigms": {"npi_1": 0.5}}
    values = {
        "suite": suite,
        "metric": "pll",
        "model": "run",
        "checkpoint": "run/model.ckpt-70",
        "compute_dtype": "float32",
        **dict.fromkeys(("num_pairs", "num_rows"), 8),
        "num_too_long": 0,
        "seconds": 1.5,
        "mean_over_phenomena": accuracy,
        "overall": {**found, "num_ties": 0},
        "phenomena": {"npi": found},
        "paradigms": {"npi_1": {**found, "phenomenon": "npi", "example": ["A", "B"]}},
        "published": {"5-gram": other},
    }
    folder.mkdir()
    (folder / "results.json").write_text(json.dumps(values))


def test_probes_of_a_run_and_of_a_flag_are_bars_beside_those_of_others(tmp_path):
    _make_run(tmp_path / "run")
    _write_probe(tmp_path / "run" / "probe-zorro", "zorro", 0.5625)
    _write_probe(tmp_path / "blimp", "blimp", 0.6875)
    _main(tmp_path / "run", f"--probe={tmp_path / 'blimp'}")
    path = tmp_path / "run" / "report" / "index.html"
    text = _read(path.parent).text
    assert "Grammar: Zorro 56.2% on 8 minimal pairs" in text
    assert "Grammar: BLiMP 68.8% on 8 minimal pairs" in text
    assert "Probed: run/model.ckpt-70." in text
    widths = re.findall(r'<div style="width: ([\d.]+)%">', path.read_text())
    # Overall and of the phenomenon: this model, 5-gram; then filled masks.
    assert widths[:8] == ["56.25", "62.50"] * 2 + ["68.75", "62.50"] * 2


def test_probes_that_are_damaged_or_missing_are_named(tmp_path, capsys):
    _make_run(tmp_path / "run")
    _assert_error(
        capsys, "--probe: there is no directory", tmp_path / "run", "--probe=missing"
    )
    _write_probe(tmp_path / "blimp", "blimp", "high")
    path = re.escape(str(tmp_path / "blimp" / "results.json"))
    _assert_error(
        capsys,
        f"{path}: overall must hold numbers by the name accuracy",
        tmp_path / "run",
        f"--probe={tmp_path / 'blimp'}",
    )


def _manifest(entropy):
    """The values of a manifest."""
    empty = {"num_documents": 1, "num_records": 9, "shards": [], "statistics": {}}
    manifest = schema.Manifest(
        *({}, {}, 100, "", 4, (), 32, 5, {}, {}, ""),
        splits={},
        heldout_unigram_entropy=entropy,
    )
    splits = {"train": empty, "heldout": empty}
    return json.loads(manifest.to_json()) | {"splits": splits}


@pytest.mark.parametrize("loss", [0.6, 0.693])
def test_a_run_that_does_not_learn_the_order_is_named(tmp_path, loss):
    run = tmp_path / "run"
    _make_run(run, summary=None)
    rows = [
        row | {"sentence_order_loss": loss} if row["split"] == "heldout" else row
        for row in ROWS
    ]
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in rows))
    (run / "manifest.json").write_text(json.dumps(_manifest(9.0)))
    _main(run)
    found = "The last evaluation: the sentence order is not learnt: its held-out loss"
    assert (f"{found} 0.6930" in _read(run / "report").text) == (loss == 0.693)


@pytest.mark.parametrize("names", [(), ("books", "wiki")])
def test_a_run_that_does_not_learn_is_named(tmp_path, names):
    run = tmp_path / "run"
    _make_run(run, summary=None)
    weights = ",".join(names)
    config = config_io.override(CONFIG, [f"train.records={weights}"])
    (run / "config.json").write_text(config_io.to_json(config))
    text = _manifest(5.5)
    if names:
        texts = json.dumps(dict.fromkeys(names, text))
        (run / "manifests.json").write_text(texts)
    else:
        (run / "manifest.json").write_text(json.dumps(text))
    _main(run)
    page = _read(run / "report").text
    assert "0.29 nats below" in page
    step = max(row["step"] for row in ROWS if row["split"] == "heldout")
    assert f"The last evaluation: step {step}: no progress after" in page


def _assert_error(capsys, pattern: str, *arguments):
    with pytest.raises(SystemExit) as info:
        _main(*arguments)
    assert info.value.code == 1
    error = capsys.readouterr().err
    assert re.fullmatch(f"error: [^\n]*{pattern}[^\n]*\n", error), error


def test_command_needs_the_folder_of_a_run(tmp_path, capsys):
    _assert_error(capsys, "one argument is needed, MODEL_DIR; received 0")
    _assert_error(
        capsys, "MODEL_DIR must be .* there is no config.json in .*", tmp_path
    )


def test_a_run_that_ended_before_its_first_row_is_to_be_resumed(tmp_path, capsys):
    config = config_io.load("demo", ["train.steps_per_loop=20"])
    (tmp_path / "config.json").write_text(config_io.to_json(config))
    rule = "ended before its first row .* after step 20. Resume it by the command"
    _assert_error(capsys, rule, tmp_path)


def test_a_wrong_call_is_answered_before_heavy_imports(tmp_path):
    code = (
        "import sys\nfrom absl import flags\nfrom albert_tf import report\n"
        "report.define_flags()\n"
        "try:\n    report.main(flags.FLAGS(['report', sys.argv[1]]))\n"
        "except SystemExit:\n    print(*sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "there is no config.json" in result.stderr
    heavy = {"tensorflow", "matplotlib", "jinja2", "numba", "numpy"}
    assert not heavy & set(result.stdout.split())


@pytest.mark.parametrize(
    "name, content",
    [
        ("config.json", '{"model": {"hidden": 3}}'),
        ("config.json", "{"),
        ("metrics.jsonl", '{"split": "train", "st\n'),
        ("metrics.jsonl", None),
        ("summary.json", "{"),
        ("summary.json", b"\xff"),
    ],
)
def test_command_names_a_damaged_file(tmp_path, capsys, name, content):
    run = tmp_path / "run"
    _make_run(run)
    if content is None:
        (run / name).unlink()
    else:
        (run / name).write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )
    _assert_error(capsys, re.escape(str(run / name)), run)
    assert not (run / "report").exists()


def test_command_says_that_a_folder_cannot_be_written(tmp_path, capsys):
    _make_run(tmp_path / "run")
    (tmp_path / "file").write_text("")
    output_dir = f"--output_dir={tmp_path / 'file' / 'report'}"
    message = re.escape(str(tmp_path / "file"))
    _assert_error(capsys, message, tmp_path / "run", output_dir)


def test_flags_of_advice_are_set_apart_and_packed_rows_are_called_rows(tmp_path):
    alarm = "no progress. Try --set train.num_steps=9, --set optimizer.decay=wsd"
    assert report_html.split_flags(alarm) == [
        "no progress. Try ",
        "--set train.num_steps=9",
        ", ",
        "--set optimizer.decay=wsd",
        "",
    ]
    packed = config_io.override(CONFIG, ["data.pack_sequences=2"])
    path = pretraining_report.write_report(
        str(tmp_path), SUMMARY, ROWS, packed, verdict=alarm
    )
    page = pathlib.Path(path).read_text("utf-8")
    assert "Try <code>--set train.num_steps=9</code>, <code>--set" in page
    assert "of 33 rows packed with sequences of at most 512 tokens" in _Page(page).text
