"""Tests of the paper's scores, which nobody may take for others."""

import numpy as np
import pytest

from albert_tf.core import task_config
from albert_tf.reports import paper_scores


def test_figures_of_table_2_have_the_averages_that_the_paper_prints():
    by_model = {}
    for task in ("squad1", "squad2", "mnli", "sst2", "race"):
        for row in paper_scores.rows_of(task):
            if row.table == 2:
                mean = np.mean(list(row.scores.values()))
                by_model.setdefault((row.model, row.parameters), []).append(mean)
    averages = {model: np.mean(scores) for model, scores in by_model.items()}
    printed = {
        ("BERT base", "108M"): 82.3,
        ("BERT large", "334M"): 85.2,
        ("ALBERT base", "12M"): 80.1,
        ("ALBERT large", "18M"): 82.4,
        ("ALBERT xlarge", "60M"): 85.5,
        ("ALBERT xxlarge", "235M"): 88.7,
    }
    assert averages.keys() == printed.keys()
    for model, average in averages.items():
        assert abs(average - printed[model]) <= 0.051, model


def test_figures_of_tables_9_and_10_are_the_papers():
    def found(task, table):
        rows = [row for row in paper_scores.rows_of(task) if row.table == table]
        assert [(row.model, row.parameters) for row in rows] == [
            ("BERT large", "334M"),
            ("ALBERT xxlarge", "235M"),
            ("ALBERT xxlarge", "235M"),
        ]
        assert [row.pretraining.split(", ")[-1] for row in rows] == [
            "as others reported it",
            "1M steps",
            "1.5M steps",
        ]
        return [row.scores for row in rows]

    assert found("mnli", 9) == [{"accuracy": x} for x in (86.6, 90.4, 90.8)]
    assert found("qnli", 9) == [{"accuracy": x} for x in (92.3, 95.2, 95.3)]
    assert found("qqp", 9) == [{"accuracy": x} for x in (91.3, 92.0, 92.2)]
    assert found("rte", 9) == [{"accuracy": x} for x in (70.4, 88.1, 89.2)]
    assert found("sst2", 9) == [{"accuracy": x} for x in (93.2, 96.8, 96.9)]
    assert found("mrpc", 9) == [{"accuracy": x} for x in (88.0, 90.2, 90.9)]
    assert found("cola", 9) == [{"matthews": x} for x in (60.6, 68.7, 71.4)]
    assert found("stsb", 9) == [{"pearson": x} for x in (90.0, 92.7, 93.0)]
    assert found("squad1", 10)[0] == {"f1": 90.9, "exact_match": 84.1}
    assert found("squad1", 10)[2] == {"f1": 94.8, "exact_match": 89.3}
    assert found("squad2", 10)[1] == {"f1": 89.9, "exact_match": 87.2}
    assert found("race", 10)[2] == {
        "accuracy": 86.5,
        "accuracy_middle": 89.0,
        "accuracy_high": 85.5,
    }


def test_the_papers_rows_are_on_development_sets_but_for_race_in_table_10():
    for task in task_config.TASKS:
        for row in paper_scores.rows_of(task):
            is_race_test = (task, row.table) == ("race", 10)
            assert row.split == ("test" if is_race_test else "dev")


@pytest.mark.parametrize("task", ["wnli", "table", "conll"])
def test_tasks_that_the_paper_has_no_row_for(task):
    assert paper_scores.rows_of(task) == ()
