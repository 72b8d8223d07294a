"""Results: verdicts, and the tables that are written."""

import math

import pytest

from albert_tf.model import pretraining_model
from albert_tf.reproduction import budgets, results, tables


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        (([0.3, 0.4, 0.5], [0.1, 0.2, 0.1]), (81.0, 80.0), "same direction"),
        (([0.1, 0.2, 0.1], [0.3, 0.4, 0.5]), (80.0, 81.0), "same direction"),
        (([0.3, 0.4, 0.5], [0.1, 0.2, 0.1]), (80.0, 81.0), "opposite"),
        (([0.1, 0.2, 0.1], [0.3, 0.4, 0.5]), (81.0, 80.0), "opposite"),
        # One seed of one is among those of the other.
        (([0.15, 0.4, 0.5], [0.1, 0.2, 0.1]), (81.0, 80.0), "undecided"),
        (([0.1, 0.2, 0.1], [0.2, 0.4, 0.5]), (80.0, 81.0), "undecided"),
        # Two of two are above by chance alone in a third of all cases.
        (([0.3, 0.4, 0.5], [0.1, 0.2]), (81.0, 80.0), "undecided"),
        (([0.3, 0.4], [0.1, 0.2, 0.1]), (81.0, 80.0), "undecided"),
        (([0.3], [0.1]), (81.0, 80.0), "undecided"),
    ],
)
def test_a_difference_counts_beyond_the_spread(ours, theirs, verdict):
    assert results.compare(ours, theirs) == verdict


def pair_table():
    return tables.Maker(budgets.BUDGETS["hour"]).make("pair_loss")


def values(mlm, nsp, sop):
    return {
        "mlm_accuracy": mlm,
        "nsp/next_sentence_accuracy": nsp,
        "sop/sentence_order_accuracy": sop,
        "mlm_loss": 5.0,
    }


MEASURED = {
    "pair-none": {
        "1": values(0.31, 0.5, 0.49),
        "2": values(0.33, 0.5, 0.51),
        "3": values(0.32, 0.5, 0.5),
    },
    "pair-nsp": {
        "1": values(0.3, 0.75, 0.5),
        "2": values(0.34, 0.875, 0.5),
        "3": values(0.32, 0.8125, 0.5),
    },
    "pair-sop": {"1": values(0.25, 0.625, 0.75)},
}


def test_a_table_has_mean_and_range_of_the_seeds():
    found = results.collect(pair_table(), MEASURED)
    assert found["paper_table"] == "5"
    none, nsp, sop = found["rows"]
    assert none["paper"] == {"mlm": 54.9, "nsp": 52.4, "sop": 53.3, "average": 79.0}
    assert nsp["values"]["nsp/next_sentence_accuracy"] == {
        "mean": 0.8125,
        "min": 0.75,
        "max": 0.875,
        "num_seeds": 3,
    }
    assert sop["values"]["sop/sentence_order_accuracy"]["num_seeds"] == 1
    # Nothing was fine-tuned.
    assert [one["key"] for one in found["measures"]] == [
        "mlm_accuracy",
        "nsp/next_sentence_accuracy",
        "sop/sentence_order_accuracy",
    ]
    verdicts = {
        (one["row"], one["than"], one["measure"].partition("/")[0]): one["verdict"]
        for one in found["comparisons"]
        if one["measure"] != "mlm_accuracy"
    }
    assert verdicts == {
        ("nsp", "none", "nsp"): "same direction",
        # Nothing for SOP: the paper's 52.0 and 53.3 are both chance.
        ("sop", "none", "nsp"): "undecided",
        ("sop", "none", "sop"): "undecided",
        ("sop", "nsp", "nsp"): "undecided",
        ("sop", "nsp", "sop"): "undecided",
    }
    differences = {
        (one["row"], one["than"]): (round(one["paper"], 1), one["ours"])
        for one in found["comparisons"]
        if one["measure"] == "nsp/next_sentence_accuracy"
    }
    assert differences[("nsp", "none")] == (38.1, 0.3125)


def test_what_was_not_trained_is_empty():
    found = results.collect(pair_table(), {})
    assert found["measures"] == [] and found["comparisons"] == []
    assert [row["values"] for row in found["rows"]] == [{}, {}, {}]


def test_the_markdown_has_figures_and_verdicts():
    found = results.markdown(results.collect(pair_table(), MEASURED))
    assert found[0] == "### Loss of the pair (table 5)"
    assert found[2] == (
        "|  | parameters | gradients, kB | paper, MLM | paper, NSP | paper, SOP | "
        "paper, average of tasks | MLM accuracy | NSP accuracy | SOP accuracy |"
    )
    assert found[5].startswith("| next sentence | ")
    assert found[5].endswith(
        "| 54.5 | 90.5 | 52.0 | 79.2 | 32.0 (30.0 to 34.0) | 81.2 (75.0 to 87.5) | "
        "50.0 (50.0 to 50.0) |"
    )
    assert found[6].endswith("| 25.0 | 62.5 | 75.0 |")
    verdict = (
        "| next sentence | none | NSP accuracy | +38.1 | +31.25 | same direction |"
    )
    assert verdict in found


def test_the_overview_counts_the_verdicts_of_each_table():
    found = results.collect(pair_table(), MEASURED)
    verdicts = [one["verdict"] for one in found["comparisons"]]
    assert (len(verdicts), verdicts.count(results.SAME)) == (8, 1)
    other = {"title": "Steps", "paper_table": "7", "measures": [], "comparisons": []}
    assert results.overview([found, other]) == [
        "| differences | same direction | undecided | opposite |",
        "|---|---|---|---|",
        "| Loss of the pair (table 5) | 1 | 7 | 0 |",
        "| Steps (table 7) | 0 | 0 | 0 |",
        "| all tables, MLM accuracy | 0 | 3 | 0 |",
        "| all tables, NSP accuracy | 1 | 2 | 0 |",
        "| all tables, SOP accuracy | 0 | 2 | 0 |",
    ]


def test_what_is_equal_in_the_paper_has_no_verdict():
    table = tables.Maker(budgets.BUDGETS["hour"]).make("wide_depth")
    assert len({row.paper["average"] for row in table.rows}) == 1
    measured = {
        row.experiment.name: {str(seed): {"mlm_accuracy": share} for seed in (1, 2, 3)}
        for row, share in zip(table.rows, (0.2, 0.4), strict=True)
    }
    found = results.collect(table, measured)
    assert found["measures"] and found["comparisons"] == []


def test_the_gradients_are_those_of_the_whole_model():
    none = results.collect(pair_table(), {})["rows"][0]
    config = pair_table().rows[0].experiment.config
    model = pretraining_model.build_pretraining_model(config.model, seed=1)
    assert none["gradient_bytes"] == 4 * sum(
        math.prod(weight.shape) for weight in model.trainable_weights
    )


def test_the_lines_are_aligned():
    first, header, *rows = results.lines(results.collect(pair_table(), MEASURED))
    assert first == "Loss of the pair (paper, table 5)"
    assert len(rows) == 3 and header.index("MLM accuracy") > 0
    assert rows[1].startswith("  next sentence")


def test_steps_are_whole_numbers():
    table = tables.Maker(budgets.BUDGETS["hour"]).make("same_time")
    measured = {
        row.experiment.name: {"1": {"num_steps": count, "mlm_loss": 5.0}}
        for row, count in zip(table.rows, (40, 1234), strict=True)
    }
    found = results.collect(table, measured)
    first, second = found["rows"]
    assert results.row_cells(found, first)[-2:] == ["40", "5.000"]
    assert results.row_cells(found, second)[-2:] == ["1,234", "5.000"]


def test_a_difference_that_rounds_to_zero_has_no_minus():
    measured = {
        "pair-none": {"1": values(0.30001, 0.5, 0.5)},
        "pair-nsp": {"1": values(0.3, 0.75, 0.5)},
    }
    found = "\n".join(results.markdown(results.collect(pair_table(), measured)))
    assert "| next sentence | none | MLM accuracy | -0.4 | +0.00 |" in found
