"""Figures of docs/finetuning_results.md are those of the JSON beside it."""

import json
import re
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


def _read(name):
    return json.loads((DOCS / "finetuning" / name).read_text())


def _apart(both):
    """Returns the difference of the medians in standard deviations."""
    medians, deviations = (
        [measure(scores) for scores in both]
        for measure in (statistics.median, statistics.stdev)
    )
    return (medians[0] - medians[1]) / max(deviations)


def test_scores_are_those_of_the_figures():
    found = _read("small_model.json")
    lines = (DOCS / "finetuning_results.md").read_text().splitlines()
    ahead = {}
    for (task, metric), (*names, factor, digits) in _SHOWN.items():
        *both, other = (
            found[task][weights]["scores"][metric]
            for weights in ("pretrained", "random", "other_masks_twice_the_steps")
        )
        are_all_above = "yes" if min(both[0]) > max(both[1]) else "no"
        ahead.setdefault(task, []).append(_apart(both))
        cells = [*names, *(_cell(scores, factor, digits) for scores in both)]
        cells += [are_all_above, f"{ahead[task][-1]:.1f}"]
        cells.append(_cell(other, factor, digits))
        assert f"| {' | '.join(cells)} |" in lines
    # By each of a task's scores.
    assert {task for task, apart in ahead.items() if min(apart) > 1} == {
        *("cola", "squad1", "sst2", "stsb")
    }
    # The other model, which has one seed on SQuAD.
    others: dict[str, list[float]] = {}
    for task in ("cola", "sst2", "stsb", "mrpc", "rte"):
        for metric, scores in found[task]["random"]["scores"].items():
            other = found[task]["other_masks_twice_the_steps"]["scores"][metric]
            others.setdefault(task, []).append(_apart([other, scores]))
    assert {task for task, apart in others.items() if min(apart) > 1} == {
        *("cola", "sst2", "stsb", "mrpc")
    }
    first, second = (f"{apart:.1f}" for apart in others["mrpc"])
    page = " ".join("\n".join(lines).split())
    assert f"on MRPC by {first} and {second} standard deviations" in page
    (other,) = found["squad1"]["other_masks_twice_the_steps"]["scores"]["f1"]
    assert other > max(found["squad1"]["random"]["scores"]["f1"])


def test_the_model_is_that_of_its_figures():
    page = " ".join((DOCS / "finetuning_results.md").read_text().split())
    losses = json.loads((DOCS / "training" / "own_text.json").read_text())
    loss = losses["heldout_mlm_loss"]["RUN, step 18,000"]["wikipedia"]
    assert f"held-out MLM loss of {loss:.2f} nats on Wikipedia at 128 tokens" in page
    experiments = DOCS / "experiments"
    mixed = json.loads((experiments / "text_with_questions.json").read_text())
    blimp, zorro = (mixed["all_pairs"][suite] for suite in ("blimp", "zorro"))
    shown = (
        f"{100 * blimp['accuracy']:.1f}% on BLiMP and {100 * zorro['accuracy']:.1f}%"
    )
    assert f"{shown} on Zorro" in page
    longer = json.loads((experiments / "double_steps.json").read_text())
    order = longer["heldout"][-1]["sentence_order_accuracy"]
    assert f"it orders {100 * order:.1f}% of the held-out pairs" in page


def test_the_text_has_the_scores_of_the_figures():
    found, rule = _read("small_model.json"), _read("rule.json")
    page = " ".join((DOCS / "finetuning_results.md").read_text().split())
    for weights, shown in (
        ("pretrained", "with 1e-3 they have {} on"),
        ("random", "the random ones {}."),
    ):
        share = 100 * found["sst2"][weights]["sweep"]["1e-3"]
        assert shown.format(f"{share:.1f}") in page
    older, newer = found["earlier_models"].values()
    before, after = (
        statistics.median(model["cola_matthews"]) for model in (older, newer)
    )
    assert f"medians of {before:.3f} and {after:.3f} without" in page
    first, second = (100 * model["squad1_f1"][0] for model in (older, newer))
    assert f"two models before had {first:.1f} and {second:.1f}, one" in page
    best = {
        task: max(
            max(found[task][weights]["scores"]["accuracy"])
            for weights in ("pretrained", "other_masks_twice_the_steps")
        )
        for task in ("mrpc", "rte")
    }
    assert f"the best seed of both has {100 * best['mrpc']:.1f}, with 68.4" in page
    assert f"on RTE {100 * best['rte']:.1f}, with" in page
    stsb = rule["chosen_by_the_rule"]["stsb"]
    steps = f"{stsb['num_steps']:,} steps of {stsb['batch_size']} rows"
    assert f"reaches {stsb['scores']['pearson']:.3f} with 3e-4 and" in page
    assert f"{steps}." in page


def test_the_rates_are_those_of_the_figures():
    found = _read("small_model.json")
    lines = (DOCS / "finetuning.md").read_text().splitlines()
    rates = ("1e-4", "3e-4", "1e-3")
    names = {"pretrained": "", "other_masks_twice_the_steps": ", the other model"}
    assert f"| task | {' | '.join(rates)} |" in lines
    for task, metric in (
        ("cola", "matthews"),
        ("sst2", "accuracy"),
        ("mrpc", "accuracy"),
        ("stsb", "pearson"),
    ):
        name, of_metric, factor, digits = _SHOWN[task, metric]
        for weights, model in names.items():
            scores = found[task][weights]["sweep"]
            cells = [f"{scores[rate] * factor:.{digits}f}" for rate in rates]
            assert f"| {name}, {of_metric}{model} | {' | '.join(cells)} |" in lines


def test_rates_are_those_that_the_sweeps_chose():
    found = _read("small_model.json")
    for task in {task for task, _ in _SHOWN}:
        for weights in ("pretrained", "random", "other_masks_twice_the_steps"):
            one = found[task][weights]
            sweep = one.get("sweep", {"3e-4": 0})  # SQuAD 1.1 and RTE had no choice
            assert one["learning_rate"] == float(max(sweep, key=sweep.get))
            assert ("sweep" in one) == (task not in ("squad1", "rte"))


def test_the_rule_has_the_scores_of_the_figures():
    found = _read("rule.json")
    page = (DOCS / "finetuning.md").read_text()
    for one in found["sst2_at_16_tokens"]:
        rate = re.escape(one["learning_rate"])
        is_corrected = "yes" if one["bias_correction"] else "no"
        shares = " \\| ".join(f"{100 * a:.1f}" for a in one["accuracy"].values())
        row = rf"^\| \**{rate}\**[^|]* \| \**{is_corrected}\** \| {shares} \|$"
        assert re.search(row, page, re.MULTILINE), row
    for name, one in found["chosen_by_the_rule"].items():
        task, _, rate = name.partition("-")
        metric = next(iter(one["scores"]))
        shown, of_metric, factor, digits = _SHOWN[task, metric]
        cells = [
            f"{shown}, {of_metric}",
            rate or "3e-4",
            f"{one['num_steps']:,} of {one['batch_size']} rows",
            f"{one['scores'][metric] * factor:.{digits}f}",
        ]
        assert f"| {' | '.join(cells)} |" in page
