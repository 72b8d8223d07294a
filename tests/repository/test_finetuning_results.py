"""Figures of docs/finetuning_results.md are those of the JSON beside it."""

import json
import statistics

from tests.repository import project_files

DOCS = project_files.ROOT / "docs"
# Names of task and metric on the page, what multiplies the metric, and digits.
_SHOWN = {
    ("squad1", "f1"): ("SQuAD 1.1", "F1", 100, 1),
    ("squad1", "exact_match"): ("SQuAD 1.1", "exact match", 100, 1),
    ("cola", "matthews"): ("CoLA", "Matthews", 1, 3),
    ("sst2", "accuracy"): ("SST-2", "accuracy", 100, 1),
    ("stsb", "pearson"): ("STS-B", "Pearson", 1, 3),
    ("stsb", "spearman"): ("STS-B", "Spearman", 1, 3),
    ("mrpc", "accuracy"): ("MRPC", "accuracy", 100, 1),
    ("mrpc", "f1"): ("MRPC", "F1", 100, 1),
    ("rte", "accuracy"): ("RTE", "accuracy", 100, 1),
}


def _cell(scores, factor, digits):
    values = [score * factor for score in scores]
    median = f"{statistics.median(values):.{digits}f}"
    if len(values) == 1:
        return median
    return f"{median} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def test_scores_are_those_of_the_figures():
    found = json.loads((DOCS / "finetuning" / "small_model.json").read_text())
    lines = (DOCS / "finetuning_results.md").read_text().splitlines()
    for (task, metric), (*names, factor, digits) in _SHOWN.items():
        both = [
            found[task][weights]["scores"][metric]
            for weights in ("pretrained", "random")
        ]
        ahead = "yes" if min(both[0]) > max(both[1]) else "no"
        apart = ""
        if len(both[0]) > 1:
            medians, deviations = (
                [measure(scores) for scores in both]
                for measure in (statistics.median, statistics.stdev)
            )
            apart = f"{(medians[0] - medians[1]) / max(deviations):.1f}"
        cells = [*names, *(_cell(scores, factor, digits) for scores in both)]
        cells += [ahead, apart]
        assert f"| {' | '.join(cells)} |" in lines


def test_the_steps_of_the_rule_have_the_scores_of_the_figures():
    found = json.loads((DOCS / "finetuning" / "small_model.json").read_text())
    page = " ".join((DOCS / "finetuning_results.md").read_text().split())
    stsb, mrpc = (found["with_the_rule"][task] for task in ("stsb", "mrpc"))
    assert f"one seed has {100 * mrpc['scores']['accuracy']:.1f} (" in page
    assert f"with the {mrpc['num_steps']:,} steps" in page
    assert f"its {stsb['num_steps']:,} steps: {stsb['scores']['pearson']:.3f})" in page
    for key, weights, rate, shown in (
        ("sst2", "pretrained", "1e-3", "with 1e-3 they have {} on"),
        ("sst2", "random", "1e-3", "the random ones {}."),
    ):
        share = 100 * found[key][weights]["sweep"][rate]
        assert shown.format(f"{share:.1f}") in page
    older, newer = found["earlier_models"].values()
    before, after = (
        statistics.median(model["cola_matthews"]) for model in (older, newer)
    )
    assert f"the median was {before:.3f}, with" in page
    assert f"the same for all texts) {after:.3f};" in page
    first, second = (100 * model["squad1_f1"][0] for model in (older, newer))
    assert f"the two models before had {first:.1f} and {second:.1f}." in page


def test_the_rates_are_those_of_the_figures():
    found = json.loads((DOCS / "finetuning" / "small_model.json").read_text())
    lines = (DOCS / "finetuning.md").read_text().splitlines()
    rates = ("1e-4", "3e-4", "1e-3")
    assert f"| task | {' | '.join(rates)} |" in lines
    for task, metric in (
        ("cola", "matthews"),
        ("sst2", "accuracy"),
        ("mrpc", "accuracy"),
        ("stsb", "pearson"),
    ):
        name, of_metric, factor, digits = _SHOWN[task, metric]
        scores = found[task]["pretrained"]["sweep"]
        cells = [f"{scores[rate] * factor:.{digits}f}" for rate in rates]
        assert f"| {name}, {of_metric} | {' | '.join(cells)} |" in lines
    # Where the lowest of them was the best.
    best = {
        (task, weights): max(rates, key=found[task][weights]["sweep"].get)
        for task in ("cola", "mrpc", "stsb", "sst2")
        for weights in ("pretrained", "random")
    }
    lowest = {key for key, rate in best.items() if rate == "1e-4"}
    assert lowest == {
        ("cola", "pretrained"),
        ("cola", "random"),
        ("mrpc", "pretrained"),
        ("mrpc", "random"),
        ("stsb", "pretrained"),
    }
