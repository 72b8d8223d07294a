"""Tests of the report of a fine-tuning: scores beside the paper's, curves, errors."""

import html.parser
import json
import re

import pytest
from absl import flags

from albert_tf import report
from albert_tf.core import config as config_lib
from albert_tf.core import config_io, task_config
from albert_tf.finetuning import results_reader
from albert_tf.model import task_model
from albert_tf.reports import (
    charts,
    error_analysis,
    finetuning_charts,
    finetuning_report,
)
from tests.support import sample_runs

_VOID = {"meta", "img", "source", "br"}


class _Page(html.parser.HTMLParser):
    """Links, marked texts and all text; raises where tags do not close in order."""

    def __init__(self, markup: str):
        super().__init__()
        self.links, self.marks, self._data, self._open = [], [], [], []
        self.figures = []
        self.feed(markup)
        self.close()
        assert self._open == []
        self.text = re.sub(r"\s+", " ", "".join(self._data).replace("\xa0", " "))

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag in ("td", "th"):  # Nothing else parts the cells of a row.
            self._data.append(" ")
        if tag == "figure":
            self.figures.append(values["id"])
        self.links += [values[k] for k in ("src", "srcset", "href") if k in values]
        if tag not in _VOID:
            self._open.append((tag, values.get("class", "")))

    def handle_endtag(self, tag):
        assert self._open.pop()[0] == tag

    def handle_data(self, data):
        self._data.append(data)
        if self._open and "error" in [name for _, name in self._open]:
            name = self._open[-1][1]
            if {"right", "wrong"} & set(name.split()):
                self.marks.append((name, data))


def _run(folder, task, answers, **results) -> _Page:
    """The page of a run with these answers to the development set."""
    _write_run(folder, task, answers, **results)
    return _report(folder)


def _write_run(folder, task, answers, **results):
    found = sample_runs.results(task, **results)
    rows = sample_runs.rows(found["best_metric"], (0.5, 0.55, 0.6, 0.5))
    sample_runs.write(folder, task, found, answers, rows)


def _report(folder) -> _Page:
    """The page, with empty pictures, which take the most time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(charts, "draw", lambda *_: b"")
        path = finetuning_report.write(str(folder / "report"), str(folder))
    assert path == str(folder / "report" / "index.html")
    return _Page((folder / "report" / "index.html").read_text("utf-8"))


def _pictures(page) -> set[str]:
    return set(page.figures)


# ---- The page ----


@pytest.fixture(scope="module")
def mrpc_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mrpc") / "run"
    _write_run(
        folder,
        "mrpc",
        sample_runs.MRPC_ANSWERS,
        labels=["0", "1"],
        scores={"dev": {"accuracy": 0.6034, "f1": 0.75}},
        left_out=["left out 2: text must not be empty (the first is train.tsv:9)"],
    )
    finetuning_report.write(str(folder / "report"), str(folder))
    return folder


@pytest.fixture(scope="module")
def mrpc(mrpc_folder):
    return _Page((mrpc_folder / "report" / "index.html").read_text("utf-8"))


def test_page_says_what_was_learnt_and_what_came_of_it(mrpc):
    assert (
        "ALBERT fine-tuned on MRPC Run directory run; its date and versions were not "
        "recorded. "
        "An ALBERT of 5 layers (hidden size 240) learnt MRPC "
        "in 800 steps of 33 examples, from 3,668 training examples. It began with the "
        "weights of another run. The checkpoint of step 600 is the one scored. 60.3 "
        "accuracy on dev The development set selected the checkpoint, so its score is "
        "an upper bound: expect less on other examples." in mrpc.text
    )


def test_scores_stand_beside_the_papers_which_are_named_as_such(mrpc):
    assert (
        "Beside the paper scores, times 100 accuracy F1 This run, dev 408 examples "
        "60.3 75.0 Always the most frequent label (1), dev 80.0 – The paper's, not "
        "ours: 235M–334M parameters, 16 GB of text or more, the full training data "
        "BERT large 334M; as others reported it; dev, table 9 88.0 – ALBERT xxlarge "
        "235M; more than 16 GB of text, 1M steps; dev, table 9 90.2 – ALBERT xxlarge "
        "235M; more than 16 GB of text, 1.5M steps; dev, table 9 90.9 – In table 9 the "
        "paper fine-tunes for this task a model already fine-tuned on MNLI" in mrpc.text
    )
    assert "All scores" not in mrpc.text  # they are all there already


def test_labels_have_recall_precision_and_f1(mrpc):
    # Of four labelled 1 three are answered so, as is the one labelled 0.
    assert (
        "label count recall precision F1 0 1 0.0 0.0 0.0 1 4 75.0 75.0 75.0"
        in mrpc.text
    )


def test_rare_labels_that_are_confused_are_not_right(tmp_path):
    # 25 labels: the last six are "(other)", of which two are right.
    names = [f"c{number:02}" for number in range(25)]
    answers = [
        {"id": "0", "text_a": "a", "label": name, "prediction": name}
        for name in names[:19] * 2 + names[19:21]
    ]
    answers += [
        {"id": "0", "text_a": "a", "label": label, "prediction": prediction}
        for label, prediction in zip(names[21:], [*names[22:], "c00"], strict=True)
    ]
    page = _run(tmp_path / "run", "table", answers, labels=names)
    # Of 6 labels 2 are right, of 5 answers too.
    assert "(other) 6 33.3 40.0 36.4" in page.text
    assert "c00 2 100.0 66.7 80.0" in page.text


def test_the_surest_wrong_answers_come_first_and_cannot_become_markup(mrpc):
    assert (
        "The most confident wrong answers (2 of 2) Sure and wrong. Wrong and sure. "
        "answer: 0 "
        "(93.8%); label: 1 A <b>cat</b> sat. It sat & slept. answer: 1 (75.0%); "
        "label: 0 Settings" in mrpc.text
    )


def test_settings_name_what_the_run_began_with_and_left_out(mrpc):
    assert (
        "optimizer adamw learning rate 2e-05 batch size 33 steps 800, 200 of warmup "
        "longest sequence 128 tokens dropout of the head 0.1 dropout of the encoder 0 "
        "decay of the learning rate by layer 1 seed 1 "
        "initialized from /models/base/ckpt-9 "
        "examples train: 3,668, dev: 408 time 2 min 03 s skipped left out 2: text "
        "must not be empty (the first is train.tsv:9) Configuration" in mrpc.text
    )


def test_a_run_that_patience_ended_has_the_steps_that_it_took(tmp_path):
    page = _run(tmp_path / "run", "mrpc", sample_runs.MRPC_ANSWERS, last_step=300)
    assert "300 steps of" in page.text
    assert "steps 300 of at most 800, " in page.text


def test_the_page_names_the_run_its_date_and_versions(tmp_path):
    folder = tmp_path / "graded"
    page = _run(folder, "mrpc", sample_runs.MRPC_ANSWERS, labels=["0", "1"])
    assert "Run directory graded; its date and versions were not recorded." in page.text
    start = {
        "date": "2026-11-03 09:05 UTC",
        "versions": {"albert_tf": "0.1", "tensorflow": "2.20.0"},
        "step": 0,
    }
    (folder / "provenance.json").write_text(json.dumps([start]))
    assert (
        "Run directory graded, begun 2026-11-03 09:05 UTC; albert_tf 0.1, tensorflow "
        "2.20.0." in _report(folder).text
    )


def test_the_page_is_one_file_with_its_pictures(mrpc_folder, mrpc):
    names = {"loss", "scores", "learning-rate", "gradient-norm", "confusion-dev"}
    assert _pictures(mrpc) == names
    assert len(mrpc.links) == 2 * len(names)
    assert all(link.startswith("data:image/png;base64,iVBOR") for link in mrpc.links)
    folder = mrpc_folder / "report"
    assert [path.name for path in folder.iterdir()] == ["index.html"]
    assert "http" not in (folder / "index.html").read_text("utf-8")


def test_same_run_gives_the_same_bytes(mrpc_folder, tmp_path):
    finetuning_report.write(str(tmp_path), str(mrpc_folder))
    for path in tmp_path.iterdir():
        first = (mrpc_folder / "report" / path.name).read_bytes()
        assert path.read_bytes() == first


@pytest.mark.parametrize(
    "selected_on, words",
    [
        ("", "No split selected the checkpoint: it is the last one."),
        (
            "train",
            "held out of training, selected the checkpoint; the splits scored here",
        ),
        (
            "train-share",
            "held out of training, selected the checkpoint; the splits scored here",
        ),
        (
            "dev_matched",
            "The split dev_matched selected the checkpoint, so its score is",
        ),
        ("selection", "The split selection selected the checkpoint."),
    ],
)
def test_page_says_what_selected_the_checkpoint(tmp_path, selected_on, words):
    scores = {"dev_matched": {"accuracy": 0.5}, "dev_mismatched": {"accuracy": 0.25}}
    page = _run(tmp_path / "run", "mnli", [], selected_on=selected_on, scores=scores)
    assert words in page.text
    assert ("upper bound" in page.text) == (selected_on == "dev_matched")
    assert "This run, dev_matched 50.0 This run, dev_mismatched 25.0" in page.text


def test_a_baseline_without_pretraining_is_called_one(tmp_path):
    page = _run(
        tmp_path / "run",
        "sst2",
        sample_runs.MRPC_ANSWERS,
        initial_weights="random",
        init_checkpoint="",
    )
    assert "It began with random weights: this is the baseline that" in page.text
    assert "initialized from random examples" in page.text


def test_of_several_seeds_all_are_compared_and_the_best_is_shown(tmp_path):
    for seed, accuracy in ((1, 0.5), (2, 0.75)):
        found = sample_runs.results(
            "rte",
            seed=seed,
            labels=["0", "1"],
            scores={"dev": {"accuracy": accuracy}},
        )
        rows = sample_runs.rows("accuracy", (accuracy,))
        answers = sample_runs.MRPC_ANSWERS[: 2 if seed == 2 else 1]
        sample_runs.write(tmp_path / f"seed-{seed}", "rte", found, answers, rows)
    seeds = {
        "task": "rte",
        "best_metric": "accuracy",
        "seeds": [
            {"seed": 1, "folder": "seed-1", "scores": {"dev": {"accuracy": 0.5}}},
            {"seed": 2, "folder": "seed-2", "scores": {"dev": {"accuracy": 0.75}}},
        ],
        "median": {"dev": {"accuracy": 0.625}},
        "standard_deviation": {"dev": {"accuracy": 0.125}},
        "min": {"dev": {"accuracy": 0.5}},
        "max": {"dev": {"accuracy": 0.75}},
        "best": 2,
    }
    (tmp_path / "seeds.json").write_text(json.dumps(seeds))
    text = _report(tmp_path).text
    assert (
        "Seeds, dev scores, times 100 accuracy seed 1 50.0 seed 2 the best 75.0 median "
        "62.5 standard deviation 12.5 min 50.0 max 75.0 All that follows is of the "
        "best, seed 2." in text
    )
    assert "Median of 2 seeds, dev 62.5 Best seed (2), dev 408 examples 75.0" in text
    assert "It also selected the best seed; the median is the fairer figure." in text
    assert "The most confident wrong answers (2 of 2)" in text  # seed 1 has but one


def test_a_run_that_has_not_ended_shows_its_curves(tmp_path):
    folder = tmp_path / "run"
    sample_runs.write(folder, "sst2", {}, [], sample_runs.rows("accuracy", (0.5, 0.75)))
    (folder / "results.json").unlink()
    page = _report(folder)
    assert "This run has not ended or was not scored: its folder holds no" in page.text
    assert _pictures(page) == {"loss", "scores", "learning-rate", "gradient-norm"}
    assert "Beside the paper" not in page.text


@pytest.mark.parametrize("kind", results_reader.ANSWER_NAMES)
def test_answers_without_labels_are_left_out(tmp_path, kind):
    *names, label = results_reader.ANSWER_NAMES[kind]
    of_other_type = {"regression": {"prediction": 0.5}}
    of_other_type["token_classification"] = {"words": [], "prediction": []}
    of_other_type["multiple_choice"] = {"options": []}
    answer = {**dict.fromkeys(names, ""), **of_other_type.get(kind, {})}
    page = _run(tmp_path / "run", "mrpc", [answer], kind=kind)
    assert "Answers, dev" not in page.text
    assert "most frequent label" not in page.text


# ---- Other kinds of tasks ----


def test_an_ensemble_is_called_one(tmp_path):
    names = {"text_a": "x", "prediction": "0", "label": "0", "is_correct": True}
    page = _run(tmp_path / "run", "mrpc", [names], members=["a", "b", "c"])
    assert "Scored is the mean of 3 runs, of which this is the first." in page.text
    assert "is the one scored" not in page.text


def test_spans_are_marked_in_their_context(tmp_path):
    page = _run(
        tmp_path / "run",
        "squad2",
        sample_runs.SQUAD_ANSWERS,
        best_metric="f1",
        scores={"dev": {"f1": 0.375, "exact_match": 0.25}},
        calibration={"null_odds_threshold": -1.0},
    )
    assert page.marks == [
        # London where nothing is right
        ("wrong", "London"),
        ("wrong", "London"),
        ("right", "no answer"),
        # "in 1843" where "1843" is right
        ("wrong", "in "),
        ("right wrong", "1843"),
        ("wrong", "in 1843"),
        ("right", "1843"),
        # nothing where "Ada Lovelace" is right
        ("right", "Ada Lovelace"),
        ("wrong", "no answer"),
        ("right", "Ada Lovelace"),
    ]
    assert "question: Where is Paris? Ada Lovelace wrote of the engine" in page.text
    assert {"lengths-dev", "null-odds-dev"} <= _pictures(page)
    assert "null odds threshold -1 Times 100, but for" in page.text


def test_a_long_context_is_cut_around_the_spans():
    context = "a" * 1000 + "WRONG" + "b" * 1000 + "RIGHT" + "c" * 1000
    pieces = error_analysis.marked(context, [(2005, 2010)], [(1000, 1005)])
    assert [(piece.text, piece.mark) for piece in pieces] == [
        (" … ", ""),
        ("a" * 160, ""),
        ("WRONG", "wrong"),
        ("b" * 160, ""),
        (" … ", ""),
        ("b" * 160, ""),
        ("RIGHT", "right"),
        ("c" * 160, ""),
        (" … ", ""),
    ]


def test_without_any_span_the_beginning_of_the_context_is_shown():
    pieces = error_analysis.marked("a" * 1000, [], [])
    assert [(piece.text, piece.mark) for piece in pieces] == [
        ("a" * 160, ""),
        (" … ", ""),
    ]


def test_wrong_words_are_marked_with_what_was_said_and_what_is_right(tmp_path):
    page = _run(
        tmp_path / "run",
        "conll",
        sample_runs.CONLL_ANSWERS,
        labels=["B-LOC", "B-PER", "O"],
        best_metric="entity_f1",
        scores={"dev": {"entity_f1": 0.25}},
    )
    assert (
        "Most words wrong (2 of 2 texts with errors) In (B-PER, not O) London (B-PER, "
        "not B-LOC) Ada met Bab$bage (O, not B-PER) Settings" in page.text
    )
    assert [text for _, text in page.marks] == ["In", "London", "Bab$bage"]
    assert "Beside the paper" not in page.text and "the paper" not in page.text.lower()
    assert "Scores scores, times 100" in page.text
    assert "B-PER 2 50.0 33.3 40.0" in page.text  # words, not texts


def test_options_are_marked(tmp_path):
    page = _run(
        tmp_path / "run",
        "race",
        sample_runs.RACE_ANSWERS,
        scores={"dev": {"accuracy": 2 / 3, "accuracy_high": 2 / 3}},
    )
    assert (
        "The most confident wrong answers (1 of 1) The sun is far. question: "
        "The sun is _ . A: "
        "near B: far C: cold D: wet answer: D (50.0%); label: B" in page.text
    )
    assert page.marks[:2] == [("right", "far"), ("wrong", "wet")]
    assert "scores, times 100 accuracy accuracy middle accuracy high" in page.text
    assert "test, table 10 86.5 89.0 85.5" in page.text


def test_numbers_are_a_scatter_and_the_furthest_off_come_first(tmp_path):
    page = _run(
        tmp_path / "run",
        "stsb",
        sample_runs.STSB_ANSWERS,
        best_metric="pearson",
        scores={"dev": {"pearson": 0.375, "mean_squared_error": 3.0833}},
    )
    assert "scatter-dev" in _pictures(page)
    assert (
        "The largest errors (2 of 3) Far. Off. answer: 2 (-3); label: 5 One. Two."
        " answer: 1.5 (+0.5); label: 1 Settings" in page.text
    )
    assert "Pearson correlation 37.5 mean squared error 3.083 Times 100" in page.text
    (picture,) = finetuning_charts.of_answers(
        "regression", "dev", sample_runs.STSB_ANSWERS, [], None
    )
    assert picture.panels[0].x == [1.0, 5.0, 5.0]
    assert picture.panels[0].y == [1.5, 2.0, 5.0]


def test_at_most_twenty_errors_are_shown():
    errors, number = error_analysis.worst(
        "classification", sample_runs.MRPC_ANSWERS[:1] * 21
    )
    assert (len(errors), number) == (20, 21)


def test_kinds_are_those_of_the_heads():
    assert results_reader.ANSWER_NAMES.keys() == task_model.HEADS.keys()


def test_tasks_are_those_of_the_configuration():
    assert tuple(task_config.TITLES) == task_config.TASKS


# ---- Damaged folders ----


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("config.json", '{"model": {"hidden": 3}}', "config.json: "),
        ("metrics.jsonl", '{"split": "train", "st\n', "metrics.jsonl:1 must be JSON; "),
        (
            "metrics.jsonl",
            '{"split": "train"}\n',
            "must have a split, a step and numbers",
        ),
        ("results.json", "{", "results.json must be JSON"),
        ("results.json", "[]", "results.json: an object with task, kind, labels"),
        (
            "results.json",
            json.dumps(sample_runs.results("mrpc", kind="unknown")),
            "results.json: kind must be one of classification, regression, ",
        ),
        (
            "results.json",
            json.dumps(sample_runs.results("mrpc", scores={"../x": {}})),
            "results.json: scores must be numbers by split and metric; received",
        ),
        (
            "results.json",
            json.dumps(sample_runs.results("mrpc", best_step=None)),
            "results.json: best_step must be a number; received None",
        ),
        (
            "results.json",
            json.dumps(sample_runs.results("mrpc", num_examples=3)),
            "results.json: num_examples must be an object of numbers; received 3",
        ),
        (
            "seeds.json",
            '{"task": "", "best_metric": "", "best": 3, "seeds": '
            '[{"seed": 3, "folder": "../pretrained", "scores": {}}]}',
            "config.json: task.name must not be empty in the directory of a",
        ),
        ("answers-dev.jsonl", "{}\n{\n", "answers-dev.jsonl:1: an object with text_a"),
        (
            "answers-dev.jsonl",
            '{"text_a": "", "prediction": "0"}\n{\n',
            "answers-dev.jsonl:2 must be JSON; ",
        ),
        ("seeds.json", "{}", "seeds.json: an object with task, best_metric, seeds"),
        (
            "seeds.json",
            '{"task": "", "best_metric": "", "seeds": [], "best": 3}',
            "seeds.json: best must be one of []; received 3",
        ),
        (
            "seeds.json",
            '{"task": "", "best_metric": "", "best": 3, "seeds": '
            '[{"seed": 3, "folder": "seed-3", "scores": {}}]}',
            "seed-3/config.json",
        ),
    ],
)
def test_command_names_a_damaged_file(tmp_path, capsys, name, content, message):
    folder = tmp_path / "run"
    found = sample_runs.results("mrpc")
    rows = sample_runs.rows("accuracy", (0.5,))
    sample_runs.write(folder, "mrpc", found, sample_runs.MRPC_ANSWERS, rows)
    (folder / name).write_text(content)
    (tmp_path / "pretrained").mkdir()
    text = config_io.to_json(config_lib.Config())
    (tmp_path / "pretrained" / "config.json").write_text(text)
    with pytest.raises(SystemExit) as info:
        _main(folder)
    assert info.value.code == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1
    assert message in error
    assert not (folder / "report").exists()


def _main(*arguments):
    values = flags.FlagValues()
    report.define_flags(values)
    report.main(values(["report", *map(str, arguments)]), values)


def test_command_writes_the_page_of_a_fine_tuning_into_its_folder(
    mrpc_folder, tmp_path, capsys
):
    _main(mrpc_folder, f"--output_dir={tmp_path / 'page'}")
    path = tmp_path / "page" / "index.html"
    assert capsys.readouterr().out == f"{path}\n"
    assert "ALBERT fine-tuned on MRPC" in _Page(path.read_text("utf-8")).text
