"""The page of several runs: curves in one picture, best scores, differing settings."""

import json
import re

import pytest
from absl import flags
from matplotlib import figure as figure_lib

from albert_tf import report
from albert_tf.core import config as config_lib
from albert_tf.core import config_io
from albert_tf.reports import charts, comparison_report
from tests.support import sample_runs


def _pretraining(folder, rate, losses, vocab="a"):
    """A run with an evaluation every 10 steps, of a minute each."""
    folder.mkdir(parents=True)
    config = config_io.override(
        config_lib.Config(), [f"optimizer.learning_rate={rate}"]
    )
    (folder / "config.json").write_text(config_io.to_json(config))
    rows = [
        {
            "split": "heldout",
            "step": 10 * number,
            "seconds": 60.0 * number,
            "mlm_loss": loss,
            "mlm_accuracy": 0.125 * number,
        }
        for number, loss in enumerate(losses)
    ]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in rows))
    manifest = {"vocab_sha256": vocab, "splits": {"heldout": {"num_records": 3}}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def _report(*arguments):
    values = flags.FlagValues()
    report.define_flags(values)
    report.main(values(["report", *map(str, arguments)]), values)


def _drawn(monkeypatch):
    """The pictures that are drawn from now on, in light colours."""
    pictures = []
    monkeypatch.setattr(
        charts,
        "draw",
        lambda picture, last_step, theme: pictures.append(picture) or b"",
    )
    return pictures


def _text(path):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", path.read_text()))


def test_curves_scores_and_differing_settings_of_pre_trainings(tmp_path, monkeypatch):
    pictures = _drawn(monkeypatch)
    slow = _pretraining(tmp_path / "slow", 0.25, [8.0, 6.0, 5.0, 4.5, 4.25, 4.0, 3.75])
    fast = _pretraining(tmp_path / "fast", 0.5, [8.0, 3.0, 3.5])
    _report(slow, fast, f"--output_dir={tmp_path / 'out'}")
    assert {picture.name for picture in pictures} == {"heldout"}
    over_steps, over_time = pictures[0].panels
    assert [line.label for line in over_steps.lines] == ["slow", "fast"]
    assert over_steps.lines[1].steps == [0, 10, 20]
    assert over_steps.lines[1].values == [8.0, 3.0, 3.5]
    assert over_time.x_label == "minutes"
    assert over_time.lines[1].steps == [0.0, 1.0, 2.0]
    page = (tmp_path / "out" / "index.html").read_text()
    assert "<strong>3.0000 at step 10</strong>" in page
    assert "<td>3.7500 at step 60</td>" in page
    assert "<strong>75.0%</strong>" in page  # the accuracy at the lowest loss
    text = _text(tmp_path / "out" / "index.html")
    assert "setting slow fast optimizer.learning_rate 0.25 0.5 Settings in" in text
    assert "Run directory slow; its date and versions were not recorded." in text


def test_runs_of_other_records_are_not_ranked(tmp_path, monkeypatch):
    _drawn(monkeypatch)
    one = _pretraining(tmp_path / "one", 0.25, [8.0, 6.0])
    other = _pretraining(tmp_path / "other", 0.25, [8.0, 3.0], vocab="b")
    comparison_report.write(str(tmp_path / "out"), [str(one), str(other)], False)
    assert "<strong>" not in (tmp_path / "out" / "index.html").read_text()
    assert "are not comparable" in _text(tmp_path / "out" / "index.html")


def _finetuning(folder, task, accuracy, loss, **changes):
    results = sample_runs.results(
        task, scores={"dev": {"accuracy": accuracy, "loss": loss}}, **changes
    )
    rows = sample_runs.rows("accuracy", (0.5, accuracy))
    sample_runs.write(folder, task, results, [], rows)
    return folder


def test_scores_and_curves_of_fine_tunings(tmp_path, monkeypatch):
    pictures = _drawn(monkeypatch)
    one = _finetuning(tmp_path / "a" / "mrpc", "mrpc", 0.625, 0.5)
    two = _finetuning(tmp_path / "b" / "mrpc", "mrpc", 0.75, 0.625)
    _report(one, two, f"--output_dir={tmp_path / 'out'}")
    assert [picture.name for picture in pictures[::2]] == ["scores", "loss"]
    scores = pictures[0].panels[0]
    assert [line.label for line in scores.lines] == ["a/mrpc", "b/mrpc"]
    assert [line.values for line in scores.lines] == [[0.5, 0.625], [0.5, 0.75]]
    page = (tmp_path / "out" / "index.html").read_text()
    assert "<td>62.5</td>" in page and "<strong>75.0</strong>" in page
    # Of a loss the lower one is better.
    assert "<strong>0.5</strong>" in page and "<td>0.625</td>" in page


def test_fine_tunings_with_other_examples_are_not_ranked(tmp_path, monkeypatch):
    _drawn(monkeypatch)
    one = _finetuning(tmp_path / "one", "mrpc", 0.625, 0.5)
    fewer = {"train": 3668, "dev": 204}
    two = _finetuning(tmp_path / "two", "mrpc", 0.75, 0.625, num_examples=fewer)
    comparison_report.write(str(tmp_path / "out"), [str(one), str(two)], True)
    assert "<strong>" not in (tmp_path / "out" / "index.html").read_text()
    assert "are not comparable" in _text(tmp_path / "out" / "index.html")
    # Those of training may differ.
    less = {"train": 1000, "dev": 408}
    two = _finetuning(tmp_path / "less", "mrpc", 0.75, 0.625, num_examples=less)
    comparison_report.write(str(tmp_path / "out"), [str(one), str(two)], True)
    assert "<strong>75.0</strong>" in (tmp_path / "out" / "index.html").read_text()


@pytest.mark.parametrize(
    "names, message",
    [
        (("mrpc", "mrpc"), "each run must be given once"),
        (("mrpc", "cola"), "runs side by side must have one task; received 'mrpc, co"),
        (("mrpc", "pretrained"), "all of pre-training or all of fine-tuning"),
    ],
)
def test_runs_that_cannot_be_compared_are_refused(tmp_path, capsys, names, message):
    for task in ("mrpc", "cola"):
        _finetuning(tmp_path / task, task, 0.5, 0.5)
    _pretraining(tmp_path / "pretrained", 0.5, [8.0])
    paths = [tmp_path / name for name in names]
    with pytest.raises(SystemExit):
        _report(*paths, f"--output_dir={tmp_path / 'out'}")
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_several_runs_need_an_output_directory(tmp_path, capsys):
    paths = [_pretraining(tmp_path / name, 0.5, [8.0]) for name in ("one", "two")]
    with pytest.raises(SystemExit):
        _report(*paths)
    assert "--output_dir must be given" in capsys.readouterr().err


def test_equal_names_are_told_apart_by_their_directories():
    assert comparison_report.names_of(["x/a/run", "x/b/run/"]) == ["a/run", "b/run"]
    assert comparison_report.names_of(["x/a", "y/b"]) == ["a", "b"]


def _add_probe(run, name, metric, accuracy, suite="mine"):
    one = {"accuracy": accuracy, "low": 0.1, "high": 0.9}
    one |= {"num_pairs": 100, "num_ties": 0}
    values = {
        "suite": suite,
        "metric": metric,
        "model": "run",
        "checkpoint": "model.ckpt-20",
        "compute_dtype": "float32",
        "seconds": 1.0,
        "num_pairs": 100,
        "num_too_long": 0,
        "num_rows": 300,
        "overall": one,
        "mean_over_phenomena": accuracy,
        "phenomena": {"order": one},
        "paradigms": {"order": {"phenomenon": "order", **one, "example": ["a", "b"]}},
        "published": {},
    }
    (run / name).mkdir()
    (run / name / "results.json").write_text(json.dumps(values))


def test_probes_of_other_scores_or_pairs_are_rows_of_their_own(tmp_path, monkeypatch):
    _drawn(monkeypatch)
    runs = [_pretraining(tmp_path / name, 0.5, [8.0]) for name in "ab"]
    _add_probe(runs[0], "probe-mine", "pll", 0.6)
    _add_probe(runs[0], "probe-words", "within_word", 0.9)
    _add_probe(runs[0], "probe-once-more", "pll", 0.65)
    _add_probe(runs[1], "probe-mine", "pll", 0.7)
    for run, pairs in zip(runs, (20, 50), strict=True):
        config = json.loads((run / "config.json").read_text())
        probed = {"probe_every_steps": 10, "probe_suite": "x/mine"}
        config["train"] |= {**probed, "probe_pairs": pairs}
        (run / "config.json").write_text(json.dumps(config))
        with (run / "metrics.jsonl").open("a") as file:
            file.write('{"split": "probe", "step": 10, "accuracy": 0.5}\n')
    comparison_report.write(str(tmp_path / "out"), list(map(str, runs)), False)
    page = (tmp_path / "out" / "index.html").read_text()
    # Beside both accuracies of masked tokens, which are equal.
    marked = re.findall(r"<strong>(\d+\.\d%)</strong>", page)
    assert marked == ["0.0%", "0.0%", "70.0%"]
    text = _text(tmp_path / "out" / "index.html")
    assert "mine, 100 pairs 60.0% 70.0%" in text
    assert "mine, 100 pairs, within word 90.0% –" in text
    assert "mine, 100 pairs (probe-once-more) 65.0% –" in text
    for pairs, cells in ((20, "50.0% at step 10 –"), (50, "– 50.0% at step 10")):
        assert (
            f"highest probe of the run (mine, {pairs} pairs of a paradigm) {cells}"
            in text
        )


def test_names_are_no_formulas_and_not_hidden_in_a_legend():
    names = ("_a", "b$c$", r"$\no formula$")
    lines = tuple(charts.Line(name, [0.0, 1.0], [1.0, 2.0]) for name in names)
    figures = []
    original = figure_lib.Figure.legend

    def legend(figure, handles, labels, **settings):
        figures.append([*labels])
        return original(figure, handles, labels, **settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figure_lib.Figure, "legend", legend)
        charts.draw(
            charts.Picture("a", "a", (charts.Panel("y", lines),)), 1, charts.THEMES[0]
        )
    assert figures == [[" _a", r"b\$c\$", r"\$\no formula\$"]]


def test_a_time_axis_ends_where_its_lines_do():
    line = charts.Line("run", [0.0, 2.5], [1.0, 2.0])
    panel = charts.Panel("loss", (line,))
    timed = charts.Picture("n", "c", (panel, panel._replace(x_label="minutes")))
    assert not timed.is_over_steps
    assert charts.Picture("n", "c", (panel,)).is_over_steps
    png = charts.draw(timed, 9000, charts.THEMES[0])
    assert png != charts.draw(
        timed._replace(panels=(panel, panel)), 9000, charts.THEMES[0]
    )


def test_the_page_is_one_file(tmp_path):
    slow = _pretraining(tmp_path / "slow", 0.25, [8.0, 6.0])
    fast = _pretraining(tmp_path / "fast", 0.5, [8.0, 3.0])
    _report(slow, fast, f"--output_dir={tmp_path / 'out'}")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["index.html"]
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.count("data:image/png;base64,iVBOR") == 2  # in two themes
    linked = re.findall(r"""(?:src|href)\s*=\s*["']?([^"'\s>]*)""", page)
    assert all(link.startswith(("data:", "#")) for link in linked), linked
    assert "http" not in page and "url(" not in page and "@import" not in page
