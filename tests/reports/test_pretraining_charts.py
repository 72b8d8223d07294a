"""Tests of the report's pictures: which there are, what they hold, how they look."""

import io

import numpy as np
import pytest
from matplotlib import image

from albert_tf.reports import charts, pretraining_charts

# Of the variables of a model whose layers share a block.
SHARED = (
    "encoder/embeddings/word_embeddings",
    "encoder/embedding_projection/kernel",
    "encoder/block_0/attention/output/kernel",
    "encoder/block_0/attention/query/kernel",
    "encoder/block_0/feed_forward/intermediate/kernel",
    "encoder/pooler/kernel",
    "masked_lm/transform/kernel",
)
HEADS = (*SHARED, "sentence_order/output/kernel")
# And for one of four unlike blocks.
UNSHARED = ("masked_lm/transform/kernel",) + tuple(
    f"encoder/block_{block}/{name}/kernel"
    for block in range(4)
    for name in ("attention/query", "attention/key", "feed_forward/output")
)


def _train(step, **values):
    return {"split": "train", "step": step, "seconds": 1.0, **values}


def _heldout(step, **values):
    return {"split": "heldout", "step": step, "seconds": 1.0, **values}


def _ratios(step, names, values):
    pairs = zip(names, values, strict=True)
    return _train(step, **{f"trust_ratio/{name}": value for name, value in pairs})


def _pictures(*rows, entropy=None):
    return {found.name: found for found in pretraining_charts.pictures(rows, entropy)}


def _only_panel(*rows, name):
    (panel,) = _pictures(*rows)[name].panels
    return panel


def _lines(panel):
    return {line.label: (line.steps, line.values) for line in panel.lines}


# ---- Which pictures there are, and what they hold ----


@pytest.mark.parametrize("pair", ["sentence_order", "next_sentence"])
def test_the_loss_of_a_pair_stands_above_its_accuracy(pair):
    words = pair.replace("_", "-")
    picture = _pictures(
        _train(3, **{f"{pair}_loss": 0.75, f"{pair}_accuracy": 0.25}),
        _heldout(5, **{f"{pair}_loss": 0.5, f"{pair}_accuracy": 0.875}),
    )[words]
    assert picture.caption == f"{words.capitalize()} loss; accuracy"
    loss, accuracy = picture.panels
    assert _lines(loss) == {"training": ([3], [0.75]), "held-out": ([5], [0.5])}
    assert _lines(accuracy) == {"training": ([3], [0.25]), "held-out": ([5], [0.875])}
    assert (round(loss.level, 4), accuracy.level) == (0.6931, 0.5)
    assert accuracy.y_limits == (0.0, 1.0)


def test_utilization_is_mfu_where_the_peak_is_known():
    row = _train(3, model_flops_per_second=2.5e13, model_flops_utilization=0.25)
    panel = _only_panel(row, name="utilization")
    assert (panel.y_label, panel.y_format) == ("MFU (of the peak)", "%")
    assert _lines(panel) == {"": ([3], [0.25])}


def test_utilization_is_teraflops_where_the_peak_is_not_known():
    row = _train(3, model_flops_per_second=2.5e13)
    panel = _only_panel(row, name="utilization")
    assert (panel.y_label, panel.y_format) == ("TFLOP/s", "{x:g}")
    assert _lines(panel) == {"": ([3], [25.0])}


def test_time_of_waiting_is_shown_beside_the_utilization():
    row = _train(3, model_flops_per_second=2.5e13, input_share=0.125)
    picture = _pictures(row)["utilization"]
    assert picture.caption == "Use of the devices; time waiting for batches"
    assert [panel.y_label for panel in picture.panels] == [
        "TFLOP/s",
        "share of time",
    ]
    assert picture.panels[1].y_format == "%"
    assert _lines(picture.panels[1]) == {"": ([3], [0.125])}


def test_a_probe_is_a_curve_over_chance():
    rows = [
        {"split": "probe", "step": step, "accuracy": value, "accuracy/islands": 0.25}
        for step, value in ((0, 0.5), (10, 0.5625))
    ]
    panel = _only_panel(_train(5, mlm_loss=6.0), *rows, name="grammar-probe")
    assert _lines(panel) == {"mean over paradigms": ([0, 10], [0.5, 0.5625])}
    assert (panel.level, panel.y_format) == (0.5, charts.SHARE)
    assert "grammar-probe" not in _pictures(_train(5, mlm_loss=6.0))


def test_skipped_steps_are_shown_once_there_are_any():
    first = _train(3, masked_share=0.15, skipped_steps=0)
    assert _pictures(first)["masks-and-skips"].caption == "Masked share of the tokens"
    second = _train(6, masked_share=0.16, skipped_steps=2)
    picture = _pictures(first, second)["masks-and-skips"]
    assert picture.caption == "Masked share of the tokens; steps skipped so far"
    shares, skipped = picture.panels
    assert _lines(shares) == {"": ([3, 6], [0.15, 0.16])}
    assert _lines(skipped) == {"": ([3, 6], [0, 2])}


def test_nothing_masked_and_nothing_skipped_is_no_picture():
    assert _pictures(_train(3, masked_share=0.0, skipped_steps=0)) == {}


def test_sources_of_a_mixture_have_lines_of_their_own():
    values = {"mlm_loss": 5.0, "mlm_loss/wiki": 4.0, "mlm_loss/books": 6.0}
    more = {"mlm_accuracy/wiki": 0.25, "mlm_accuracy/books": 0.125}
    rows = (_train(3, mlm_loss=5.5), _heldout(3, **values, **more))
    loss, accuracy = _pictures(*rows)["mlm-by-source"].panels
    assert _lines(loss) == {"wiki": ([3], [4.0]), "books": ([3], [6.0])}
    assert _lines(accuracy) == {"wiki": ([3], [0.25]), "books": ([3], [0.125])}
    assert _lines(_only_panel(*rows, name="mlm-loss")) == {
        "training": ([3], [5.5]),
        "held-out": ([3], [5.0]),
    }


def test_every_picture_shows_where_stages_end():
    rows = [_train(step, mlm_loss=3.0, learning_rate=0.1) for step in (0, 50, 100)]
    plain = pretraining_charts.pictures(rows, None)
    found = pretraining_charts.pictures(rows, None, [30, 60])
    assert [picture.name for picture in found] == ["mlm-loss", "optimization"]
    assert all(picture.boundaries == (30, 60) for picture in found)
    with_lines, without = (
        image.imread(io.BytesIO(charts.draw(pictures[0], 100, charts.THEMES[0])))
        for pictures in (found, plain)
    )
    is_new = np.abs(with_lines - without).sum(-1) > 0.1
    assert is_new.any(axis=0).sum() > 2


def test_no_rows_and_rows_without_metrics_are_no_pictures():
    assert _pictures() == {}
    assert _pictures(_heldout(0), _train(3), entropy=5.0) == {}


def test_a_metric_that_begins_late_begins_at_its_step():
    rows = _train(3, gradient_norm=2.0), _train(6, gradient_norm=1.0, input_share=0.5)
    assert _lines(_only_panel(*rows, name="utilization")) == {"": ([6], [0.5])}
    assert _lines(_only_panel(*rows, name="optimization")) == {"": ([3, 6], [2.0, 1.0])}


# ---- Trust ratios ----


def test_up_to_twelve_variables_have_a_line_each_by_part_of_the_model():
    rows = (
        _ratios(3, SHARED, (0.5, 1, 2, 3, 4, 5, 6)),
        _ratios(6, SHARED, (0.25, 10, 20, 30, 40, 50, 60)),
    )
    found = _pictures(*rows)
    assert {name: list(_lines(found[name].panels[0])) for name in found} == {
        "trust-ratios-embeddings": ["word embeddings", "projection"],
        "trust-ratios-attention": ["block 0 output", "block 0 query"],
        "trust-ratios-feed-forward": ["block 0 intermediate"],
        "trust-ratios-pooler-and-heads": ["pooler", "masked lm transform"],
    }
    panel = found["trust-ratios-embeddings"].panels[0]
    assert _lines(panel)["word embeddings"] == ([3, 6], [0.5, 0.25])
    assert [line.color for line in panel.lines] == [0, 1]
    assert not any(line.bands for line in panel.lines)
    assert found["trust-ratios-embeddings"].note == ""


def test_trust_ratios_have_one_logarithmic_axis_for_all_parts():
    found = _pictures(_ratios(3, SHARED, (0.02, 1, 2, 3, 4, 5, 600)))
    axes = [(p.panels[0].is_logarithmic, p.panels[0].y_limits) for p in found.values()]
    assert axes == [(True, (0.01, 1000.0))] * 4


@pytest.mark.parametrize(
    "values, limits",
    [((2.0, 3.0), (1.0, 100.0)), ((0.01, 1.0), (0.01, 1.0)), ((1, 1), (1.0, 100.0))],
)
def test_axis_of_trust_ratios_spans_two_decades_at_least(values, limits):
    rows = [_ratios(3, SHARED[:2], values)]
    panel = _only_panel(*rows, name="trust-ratios-embeddings")
    assert panel.y_limits == limits


def test_twelve_variables_are_lines_and_thirteen_are_medians_and_bands():
    assert len(UNSHARED) == 13
    twelve = _only_panel(
        _ratios(3, UNSHARED[1:], [1.0] * 12), name="trust-ratios-feed-forward"
    )
    assert list(_lines(twelve)) == [f"block {block} output" for block in range(4)]
    thirteen = _pictures(_ratios(3, UNSHARED, [1.0] * 13))["trust-ratios-feed-forward"]
    assert list(_lines(thirteen.panels[0])) == ["output (4)"]
    assert thirteen.note.startswith("Line: median")


def test_bands_are_the_least_and_greatest_and_ten_to_ninety_percent():
    #             head  block 0       block 1       block 2       block 3
    first = (7.0, 1.0, 50, 5.0, 2.0, 50, 6.0, 3.0, 50, 7.0, 11.0, 50, 8.0)
    second = (8.0, 4.0, 50, 1.0, 4.0, 50, 1.0, 4.0, 50, 1.0, 4.0, 50, 1.0)
    found = _pictures(_ratios(3, UNSHARED, first), _ratios(6, UNSHARED, second))
    query, key = found["trust-ratios-attention"].panels[0].lines
    assert (query.label, query.steps, query.values) == ("query (4)", [3, 6], [2.5, 4.0])
    # Between sorted 1, 2, 3, 11: a tenth is 0.3 of the way from 1 to 2, nine tenths
    # are 0.7 of the way from 3 to 11.
    (least, greatest), (low, high) = query.bands
    assert (least, greatest) == ([1.0, 4.0], [11.0, 4.0])
    np.testing.assert_allclose((low, high), ([1.3, 4.0], [8.6, 4.0]), rtol=1e-12)
    assert (key.label, key.values) == ("key (4)", [50.0, 50.0])
    (head,) = found["trust-ratios-pooler-and-heads"].panels[0].lines
    assert (head.label, head.values, head.bands) == (
        "masked lm transform",
        [7.0, 8.0],
        (),
    )


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_a_ratio_without_a_logarithm_leaves_a_gap(bad):
    rows = _ratios(3, SHARED[:2], (bad, 2.0)), _ratios(6, SHARED[:2], (3.0, 4.0))
    panel = _only_panel(*rows, name="trust-ratios-embeddings")
    assert _lines(panel) == {
        "word embeddings": ([6], [3.0]),
        "projection": ([3, 6], [2.0, 4.0]),
    }
    assert _pictures(_ratios(3, SHARED[:1], (bad,))) == {}


# ---- How they look ----


def _pixels(picture, last_step=60):
    content = charts.draw(picture, last_step, charts.THEMES[0])
    found = np.round(image.imread(io.BytesIO(content))[..., :3] * 255).astype(int)
    assert found.shape == (700, 1040, 3)
    return found


def _rgb(color):
    return np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)])


def _rows_of_color(pixels, color):
    return np.flatnonzero((pixels == _rgb(color)).all(-1).sum(1) > 300)


@pytest.mark.parametrize("is_logarithmic, place", [(True, 0.5), (False, 0.99)])
def test_a_logarithmic_axis_is_one(is_logarithmic, place):
    line = charts.Line("", [0, 60], [1.0, 1.0])
    panel = charts.Panel(
        "", (line,), y_limits=(0.01, 100.0), is_logarithmic=is_logarithmic
    )
    pixels = _pixels(charts.Picture("name", "", (panel,)))
    grid = _rows_of_color(pixels, charts.THEMES[0].grid)
    drawn = _rows_of_color(pixels, charts.THEMES[0].lines[0]).mean()
    assert abs((drawn - grid[0]) / (grid[-1] - grid[0]) - place) < 0.02


@pytest.mark.parametrize("names", [HEADS, UNSHARED[1:], UNSHARED], ids=len)
def test_no_label_is_cut_at_the_edge(names):
    values = np.geomspace(1e-7, 1e7, len(names)).tolist()
    rows = (
        _train(0, mlm_loss=1e6, mlm_accuracy=0.5, tokens_per_second=123456789.0),
        _heldout(0, mlm_loss=8.25, sentence_order_loss=1e-5, sentence_order_accuracy=1),
        {**_ratios(123456789, names, values), "masked_share": 1e-5, "input_share": 1.0},
        _train(1234567890, learning_rate=1.23456e-9, skipped_steps=1234567),
    )
    paper = _rgb(charts.THEMES[0].paper)
    found = _pictures(*rows, entropy=1234.5)
    assert len(found) >= 7
    for picture in found.values():
        pixels = _pixels(picture, rows[-1]["step"])
        for edge in (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]):
            assert (edge == paper).all(), picture.name


@pytest.mark.parametrize("value", [0.0, 3.0, float("nan")])
def test_one_point_can_be_drawn_and_is_seen(value):
    found = _pictures(_train(0, learning_rate=value), _train(0, gradient_norm=value))
    pixels = _pixels(found["optimization"], last_step=0)
    color = _rgb(charts.THEMES[0].lines[0])
    assert (pixels == color).all(-1).any() == np.isfinite(value)


def test_phenomena_of_grammar_are_in_pictures_of_four_lines():
    names = [f"accuracy/part_{letter}" for letter in "edcba"]
    rows = [
        {"split": "probe", "step": step, "accuracy": 0.5, **dict.fromkeys(names, 0.75)}
        for step in (0, 50)
    ]
    found = pretraining_charts.pictures(rows, None)
    assert [one.name for one in found] == [
        "grammar-probe",
        "grammar-probe-1",
        "grammar-probe-2",
    ]
    lines = [[line.label for line in one.panels[0].lines] for one in found]
    assert lines[1:] == [["part a", "part b", "part c", "part d"], ["part e"]]
    assert found[1].panels[0].lines[3].values == [0.75, 0.75]
