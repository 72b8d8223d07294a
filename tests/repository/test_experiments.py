"""Figures of docs/experiments.md are those of the JSON beside it."""

import itertools
import json
import re
import shlex
import statistics
import types

import pytest

from albert_tf.core import config as config_lib
from albert_tf.core import config_io
from albert_tf.core import stages as stages_lib
from albert_tf.data import schema
from albert_tf.training import guard
from tests.repository import project_files
from tests.training import guard_runs

DOCS = project_files.ROOT / "docs"
# Of the token frequencies of the held-out Wikipedia text, nats.
_ENTROPY = 6.76


def _read(name):
    return json.loads((DOCS / "experiments" / name).read_text())


def _section(heading):
    """Returns the text below a heading, up to the next one of its level."""
    (section,) = (DOCS / "experiments.md").read_text().split(f"{heading}\n")[1:]
    return section.split("\n## ")[0]


def _rows(heading):
    """Returns the cells of the rows below a heading."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in _section(heading).splitlines()
        if line.startswith("| ")
    ]


def _entry(heading):
    """Returns the text below a heading, with single spaces, and its tables' rows."""
    return " ".join(_section(heading).split()), _rows(heading)


def _assert_probes(heading, found):
    text, _ = _entry(heading)
    for name, suite in (("BLiMP", "blimp"), ("Zorro", "zorro")):
        low, mean, high = (
            100 * found[suite]["overall"][key] for key in ("low", "accuracy", "high")
        )
        assert f"{name} {mean:.1f}% ({low:.1f} to {high:.1f})" in text


def test_the_hour_beside_transformers_is_that_of_its_figures():
    found = _read("learning_hour.json")
    rows = _rows("### The hour, whole")
    for name, models in found["at_minutes"].items():
        losses = [f"{model['mlm_loss']:.3f}" for model in models]
        assert [f"{name}: MLM loss", *losses] in rows
        steps = [f"{model['step']:,}" for model in models]
        assert [f"{name}: steps", *steps] in rows
    ours, theirs = (found["at_minutes"][n] for n in ("albert_tf", "transformers"))
    for one, other in zip(ours, theirs, strict=True):
        assert one["mlm_loss"] < other["mlm_loss"] - 0.2
    for name, models in found["blimp"].items():
        shares = [f"{100 * model['accuracy']:.1f}" for model in models]
        assert [f"{name}: BLiMP, %", *shares] in rows


def test_the_long_run_is_that_of_its_figures():
    found = _read("long_run.json")
    rows = _rows("## 2026-11-24: two hours and a quarter")
    heldout = {row["step"]: row for row in found["heldout"]}
    probes = {row["step"]: row for row in found["probe_of_20_pairs"]}
    steps = list(probes)[1:]
    assert ["step", *(f"{step:,}" for step in steps)] in rows
    losses = [f"{heldout[step]['mlm_loss']:.3f}" for step in steps]
    assert ["held-out MLM loss", *losses] in rows
    shares = [f"{100 * probes[step]['accuracy']:.1f}" for step in steps]
    assert ["BLiMP, 20 pairs each, %", *shares] in rows
    _assert_probes("## 2026-11-24: two hours and a quarter", found)


def test_the_run_with_all_tokens_masked_is_that_of_its_figures():
    found = _read("all_masked.json")
    rows = _rows("## 2026-11-24: every masked token becomes [MASK]")
    (steps,) = (
        [int(cell.replace(",", "")) for cell in cells]
        for name, *cells in rows
        if name == "step"
    )
    for name, key, values in (
        ("held-out MLM loss, averaged weights", "mlm_loss", found["heldout"]),
        ("training loss of the last 500 steps", "mlm_loss", found["training"]),
    ):
        by_step = {row["step"]: row[key] for row in values}
        assert [name, *(f"{by_step[step]:.3f}" for step in steps)] in rows
    probes = {row["step"]: row["accuracy"] for row in found["probe_of_20_pairs"]}
    shares = [f"{100 * probes[step]:.1f}" for step in steps]
    assert ["BLiMP, 20 pairs each, %", *shares] in rows
    before = {row["step"]: row for row in _read("long_run.json")["probe_of_20_pairs"]}
    shares = [
        f"{100 * before[step]['accuracy']:.1f}" if step in before else ""
        for step in steps
    ]
    assert ["the same in the last entry", *shares] in rows
    _assert_probes("## 2026-11-24: every masked token becomes [MASK]", found)


def test_the_run_with_muon_is_that_of_its_figures():
    found = _read("muon.json")
    rows = _rows("## 2026-11-25: orthogonalized steps for the matrices (Muon)")
    trials, (steps, *_) = (
        found["trials"],
        [
            [int(cell.replace(",", "")) for cell in cells]
            for name, *cells in rows
            if name == "step"
        ],
    )
    for row, trial in (
        ("LAMB at 0.006, nothing shared", "nothing shared, LAMB at 0.006"),
        ("Muon at 0.006, all shared", "Muon at 0.006"),
        ("Muon at 0.006, nothing shared", "nothing shared, Muon at 0.006"),
        ("Muon at 0.012, all shared", "Muon at 0.012"),
        ("Muon at 0.024, all shared", "Muon at 0.024"),
    ):
        losses = {one["step"]: f"{one['mlm_loss']:.3f}" for one in trials[trial]}
        assert [row, *(losses.get(step, "") for step in steps)] in rows
    *_, (_, *cells) = (cells for cells in rows if cells[0] == "step")
    steps = [int(cell.replace(",", "")) for cell in cells]
    for name, values in (
        ("held-out MLM loss, averaged weights", found["heldout"]),
        ("training loss of the last 500 steps", found["training"]),
    ):
        (key,) = (key for key in values[0] if key.startswith("mlm_loss"))
        by_step = {row["step"]: row[key] for row in values}
        assert [name, *(f"{by_step[step]:.3f}" for step in steps)] in rows
    probes = {row["step"]: row["accuracy"] for row in found["probe_of_20_pairs"]}
    shares = [f"{100 * probes[s]:.1f}" if s in probes else "" for s in steps]
    assert ["BLiMP, 20 pairs each, %", *shares] in rows
    _assert_probes("## 2026-11-25: orthogonalized steps for the matrices (Muon)", found)


def test_the_decays_are_those_of_their_figures():
    found = _read("weight_decay.json")
    rows = _rows("## 2026-11-26: weight decay that holds the norms")
    run = found["run"]
    _, *cells = next(row for row in rows if row[0] == "step")
    for name, key in (
        ("training loss of the last 500 steps", "training_500"),
        ("held-out MLM loss, averaged weights", "heldout"),
    ):
        assert [name, *_losses(run[key], cells)] in rows
    _, *cells = next(row for row in rows if row[0] == "weight decay")
    branches = {f"{one['weight_decay_rate']:g}": one for one in found["branches"]}
    assert list(branches) == ["0.01", "0.2", "1", "2", "4"]
    for name, one in branches.items():
        assert [name, *_losses(one["training_250"], cells)] in rows
    late = found["from_random_weights"]["training_500"], run["training_500"]
    own, others = (_losses(one, ["1,500"])[0] for one in late)
    text = " ".join((DOCS / "experiments.md").read_text().split())
    assert f"a training loss of {own} at step 1,500, where the run has {others}" in text


def _losses(rows, steps):
    """Losses at steps, which are shown as in a table; empty where there is none."""
    by_step = {f"{row['step']:,}": f"{row['mlm_loss']:.3f}" for row in rows}
    return [by_step.get(step, "") for step in steps]


def test_the_search_for_muons_settings_is_that_of_its_figures():
    trust, combined, masked, longest = _read("muon_search.json")
    rows = _rows("## 2026-11-26: Muon without a trust ratio")

    def cells(run, steps):
        losses = [f"{run['heldout'][step]:.3f}" for step in steps]
        return [*losses, f"{run['blimp']:.1f}", f"{run['zorro']:.1f}"]

    order = (0, 2, 1, 3, 4, 15, 6, 5, 7, 8, 9, 10, 11, 12, 13, 14)
    found = [cells(trust["runs"][at], ("2000", "6000")) for at in order]
    at = [row[1:] for row in rows].index(found[0])
    assert [row[1:] for row in rows[at : at + 16]] == found
    of_combined = (0, 2, 3, 12, 13, 15)
    found = [cells(combined["runs"][at], ("2000", "6000")) for at in of_combined]
    assert [row[1:] for row in rows[at + 17 : at + 23]] == found
    steps = [f"{4000 * count}" for count in range(1, 7)]
    found = [cells(run, steps) for run in longest["runs"]]
    assert [row[1:] for row in rows[at + 24 : at + 27]] == found
    ends = [run["heldout"]["6000"] for run in combined["runs"]]
    assert sum(end > 4.4 for end in ends[:12]) == 8
    assert max(ends[12:]) < 4.1
    groups = (trust, combined, masked, longest)
    assert sum(len(group["runs"]) for group in groups) == 37


def test_the_demonstrations_rates_are_those_of_the_figures():
    text = (DOCS / "decisions.md").read_text()
    for run in _read("demonstration.json")["runs"]:
        rate, end = run["learning_rate"], run["heldout"][-1]
        assert end["step"] == 2800
        taken = " (taken)" if rate == 0.004 else ""
        share = 100 * end["sentence_order_accuracy"]
        assert f"| {rate}{taken} | {end['mlm_loss']:.3f} | {share:.1f}% |\n" in text


def test_the_recipe_with_these_settings_is_that_of_its_figures():
    found, before = _read("muon_adamw.json"), _read("muon.json")
    text = (DOCS / "experiments.md").read_text()
    (section,) = text.split("### The recipe with these settings\n")[1:]
    steps = (3000, 6000, 9000, 11000, 12000, 15000, 16000, 18000)
    probes = {one["step"]: one["accuracy"] for one in found["probe_of_20_pairs"]}
    shares = [f"{100 * probes[s]:.1f}" if s in probes else "" for s in steps]
    for name, values in (
        ("held-out MLM loss, averaged weights", found["heldout"]),
        ("the same on 2026-11-25", before["heldout"]),
        ("training loss of the last 500 steps", found["training"]),
    ):
        (key,) = (key for key in values[0] if key.startswith("mlm_loss"))
        by_step = {one["step"]: one[key] for one in values}
        cells = " | ".join(f"{by_step[step]:.3f}" for step in steps)
        assert f"| {name} | {cells} |\n" in section
    cells = f"| BLiMP, 20 pairs each, % | {' | '.join(shares)} |".replace("|  |", "| |")
    assert f"{cells}\n" in section
    _assert_probes("### The recipe with these settings", found)
    assert f"{found['seconds']:,.0f} s" in section
    last = found["heldout"][-1]
    assert f"{100 * last['sentence_order_accuracy']:.1f}% at the end" in section
    for name in ("agreement_subject_verb", "local_attractor"):
        new, old = (
            100 * one["zorro"]["phenomena"][name]["accuracy"] for one in (found, before)
        )
        assert f"{new:.1f}% ({old:.1f}" in section


def test_the_runs_with_and_without_kept_tokens_are_those_of_their_figures():
    found = _read("kept_tokens.json")
    rows = _rows("## 2026-11-26: kept tokens and what [CLS] holds")
    deviations: dict[bool, list[float]] = {True: [], False: []}
    for run in found["runs"]:
        first, masks = run["first_token"], run["masks"]
        deviations[masks["kept"] > 0].append(first["cls_std"])
        rates = ", ".join(f"{100 * rate:.0f}" for rate in masks.values())
        shares = [run.get("order_of_1029_pairs")]
        shares += [run.get(name, {}).get("accuracy") for name in ("zorro", "blimp")]
        row = [
            rates + ("; heads by AdamW" if "AdamW" in run["name"] else ""),
            str(run["seed"]),
            f"{int(first['checkpoint'].removeprefix('model.ckpt-')):,}",
            *(f"{first[name]:.3f}" for name in ("cls_std", "token_std")),
            *("" if share is None else f"{100 * share:.1f}" for share in shares),
        ]
        assert row in rows
    assert len(deviations[True]) == 4
    assert max(deviations[True]) < 0.03 < 0.19 < min(deviations[False])
    text = " ".join((DOCS / "experiments.md").read_text().split())
    late = found["paper's masks after all [MASK]"]
    assert f"leave the deviation at {late['cls_std']:.3f}" in text
    low, mean, high = (
        f"{100 * late['zorro'][name]:.1f}" for name in ("low", "accuracy", "high")
    )
    assert f"Zorro is {mean}% after them ({low} to {high})" in text
    for scores in found["stsb_pearson_of_three_seeds"].values():
        assert f"{min(scores):.3f} to {max(scores):.3f}" in text
    for name, deviation in found["deviation_with_kept_tokens_elsewhere"].items():
        assert f"{deviation:.3f}" in text, name
    longer = found["64 tokens from the run of 18,000 steps"]
    assert {f"{row['sentence_order_loss']:.2f}" for row in longer["training"]} == {
        "0.69"
    }
    assert f"at 0.693 and the deviation at {longer['cls_std']:.3f}" in text
    assert f"{longer['num_steps']} more steps with sequences of 64 tokens" in text
    losses = [
        " and ".join(
            f"{row['sentence_order_loss_of_500_steps']:.3f}"
            for row in found["runs"][place]["training"][:2]
        )
        for place in (-1, 0)
    ]
    assert (
        f"{losses[0]} in the first two times 500 steps, {losses[1]} with Muon" in text
    )


def test_the_lengths_of_the_first_stage_are_those_of_their_figures():
    runs = _read("first_stage.json")["runs"]
    rows = _rows("## 2026-11-26: the length of the first stage")

    def expect(name, values, form):
        cells = ["" if value is None else f"{value:{form}}" for value in values]
        assert [name, *cells] in rows

    def at(step, part, key):
        found = ({one["step"]: one[key] for one in run[part]} for run in runs)
        return [losses.get(step) for losses in found]

    for name, key, form in (
        ("tokens in a sequence", "max_seq_length", "d"),
        ("the rate falls to 0 in", "decay_over_steps", ",d"),
        ("sequences that are pairs, %", "sequences_that_are_pairs_percent", ".1f"),
    ):
        expect(name, [run[key] for run in runs], form)
    for step in (1000, 1500, 2000, 3000):
        losses = at(step, "heldout", "mlm_loss")
        expect(f"held-out MLM loss at step {step:,}", losses, ".3f")
    for step in (500, 1000, 1500, 2000, 3000):
        losses = at(step, "training", "mlm_loss_of_500_steps")
        expect(f"training loss of 500 steps, to step {step:,}", losses, ".3f")
        losses = at(step, "training", "sentence_order_loss_of_500_steps")
        expect(f"of the pair, to step {step:,}", losses, ".4f")
    for name, key in (
        ("deviation of [CLS]", "cls_std"),
        ("of the sixth token", "token_std"),
    ):
        expect(name, [run["first_token"][key] for run in runs], ".3f")
    order = [run.get("order_of_4554_pairs") for run in runs]
    expect("order, %", [share and 100 * share for share in order], ".1f")
    for name in ("Zorro", "BLiMP"):
        probes = [run.get(name.lower()) for run in runs]
        shares = [probe and 100 * probe["accuracy"] for probe in probes]
        expect(f"{name}, %", shares, ".1f")


def test_the_trial_of_a_pair_loss_is_that_of_its_figures():
    text = " ".join((DOCS / "reproduction.md").read_text().split())
    trial = _read("kept_tokens.json")["ablations, a trial of the SOP model"]
    last = trial["heldout"][-1]
    share = f"{100 * last['sentence_order_accuracy']:.1f}%"
    assert f"ordered {share} of 1,952 held-out pairs after {last['step']:,}" in text
    assert f"its loss on them, {last['sentence_order_loss']:.3f}" in text


def _assert_curves(rows, found, probe_label, probe_key):
    """The rows of a run's losses, its order of pairs and its probe are in a table."""
    heldout = {one["step"]: one for one in found["heldout"]}
    training = {one["step"]: one for one in found["training"]}
    probes = {one["step"]: one["accuracy"] for one in found[probe_key]}
    (steps,) = (row[1:] for row in rows if row[0] == "step")
    steps = [int(step.replace(",", "")) for step in steps]
    for name, by_step, key in (
        ("held-out MLM loss, averaged weights", heldout, "mlm_loss"),
        ("training loss of the last 500 steps", training, "mlm_loss_of_500_steps"),
        ("training loss of the pair", training, "sentence_order_loss_of_500_steps"),
    ):
        assert [name, *(f"{by_step[step][key]:.3f}" for step in steps)] in rows
    order = [f"{100 * heldout[step]['sentence_order_accuracy']:.1f}" for step in steps]
    assert ["order, %", *order] in rows
    shares = [f"{100 * probes[step]:.1f}" if step in probes else "" for step in steps]
    assert [probe_label, *shares] in rows


def _assert_compared(rows, found, runs):
    """The losses of both masks and the accuracies on the same pairs are in a table."""
    all_masks, papers = (
        found["all_masked_words_become_mask"],
        found["masks_of_the_paper"],
    )
    for name, values, key, form in (
        ("MLM loss, all masked words become [MASK]", all_masks, "mlm_loss", ".3f"),
        ("MLM loss, the paper's masks", papers, "mlm_loss", ".3f"),
        ("loss of the pair", papers, "sentence_order_loss", ".3f"),
        ("order, %", papers, "sentence_order_accuracy", ".1%"),
    ):
        cells = [f"{values[run][key]:{form}}".rstrip("%") for run in runs]
        assert [name, *cells] in rows
    for name, suite in (("BLiMP", "blimp"), ("Zorro", "zorro")):
        pairs, *shares = found["same_pairs"][suite].values()
        cells = [f"{100 * share:.1f}" for share in shares]
        assert [f"{name}, {pairs:,} pairs, %", *cells] in rows


def test_the_stages_that_training_shows_are_those_of_the_small_recipe():
    text = (DOCS / "training.md").read_text()
    (block,) = re.findall(r"```python\n(data = config\.DataConfig.*?)```", text, re.S)
    shown: dict = {"config": config_lib}
    exec(block, shown)
    recipe = config_io.load(str(project_files.ROOT / "configs/small.py"))
    assert shown["data"] == recipe.data
    assert shown["train"].stages == recipe.train.stages
    assert shown["train"].num_steps == recipe.train.num_steps


def test_the_small_recipe_as_it_was_has_the_curves_of_its_figures():
    found = _read("small_recipe.json")
    section, rows = _entry("## 2026-11-28: the small recipe as it was")
    _assert_curves(rows, found, "BLiMP, 20 pairs each, %", "probe_of_20_pairs")
    runs = ("this run", "twice the steps", "masks of the paper, 18,000 steps")
    _assert_compared(rows, found, runs)
    _assert_probes("## 2026-11-28: the small recipe as it was", found)
    assert f"{found['seconds']:,.0f} s" in section
    assert f"{found['seconds_a_step']:.2f} s a step" in section
    before = _read("double_steps.json")
    for part in ("all_masked_words_become_mask", "masks_of_the_paper"):
        for name, old in zip(runs[1:], list(before[part].values())[2:], strict=True):
            assert found[part][name] == old
    for suite, one in found["same_pairs"].items():
        old = list(before["same_pairs"][suite].values())
        assert [one["pairs"], *list(one.values())[2:]] == old


def test_twice_the_steps_are_those_of_their_figures():
    found, before = _read("double_steps.json"), _read("muon_adamw.json")
    section, rows = _entry("## 2026-11-26: twice the steps")
    _assert_curves(rows, found, "Zorro, 50 pairs each, %", "probe_of_50_pairs")
    _assert_probes("## 2026-11-26: twice the steps", found)
    assert f"{found['seconds']:,.0f} s" in section
    runs = ("twice the steps, step 36,000", "masks of the paper, step 18,000")
    _assert_compared(rows, found, runs)
    for suite in ("blimp", "zorro"):
        assert found["same_pairs"][suite][runs[1]] == pytest.approx(
            before[suite]["overall"]["accuracy"], abs=1e-6
        )
    paradigms = found["zorro"]["paradigms"]
    low = [one["accuracy"] for one in paradigms.values() if one["accuracy"] < 0.4]
    assert len(low) == 5
    assert all(f"{100 * share:.1f}%" in section for share in low)
    others = [one["accuracy"] for one in paradigms.values() if one["accuracy"] >= 0.4]
    assert f"mean of the other 18 is {100 * statistics.mean(others):.1f}%" in section
    for name, label in (
        ("npi_licensing-only_npi_licensor", "fell"),
        ("anaphor_agreement-pronoun_gender", "pronouns"),
        ("agreement_subject_verb-across_prepositional_phrase", "rose"),
        ("argument_structure-swapped_arguments", "swapped arguments"),
    ):
        new, old = found["zorro_500_pairs_by_paradigm"][name].values()
        assert f"{label} from {100 * old:.1f} to {100 * new:.1f}%" in section
    asked = found["questions_in_the_text"]
    share = asked["sentences_ending_with_a_question_mark"] / asked["sentences"]
    assert f"{1000 * share:.0f} of 1,000 sentences end with a question mark" in section
    assert f"deviation {found['deviation_of_cls']:.2f}" in section


@pytest.mark.parametrize(
    "name",
    [
        "double_steps.json",
        "muon_adamw.json",
        "small_recipe.json",
        "text_with_questions.json",
    ],
)
def test_the_guard_raises_no_alarm_on_the_runs_of_the_small_recipe(name):
    found = _read(name)
    words = shlex.split(found["command"])
    settings = [word for flag, word in itertools.pairwise(words) if flag == "--set"]
    config = config_io.load(str(project_files.ROOT / "configs/small.py"), settings)
    stages = stages_lib.split(config)
    records = types.SimpleNamespace(num_records=1_000_000, statistics={})
    manifest = types.SimpleNamespace(
        heldout_unigram_entropy=_ENTROPY, splits={schema.TRAIN: records}
    )
    training = [
        {
            "split": schema.TRAIN,
            "step": row["step"],
            "stage": stages_lib.leading_to(stages, row["step"]).number,
            "mlm_loss": row["mlm_loss_of_500_steps"],
        }
        for row in found["training"]
    ]
    held_out = [{"split": schema.HELDOUT, **row} for row in found["heldout"]]
    rows = sorted(training + held_out, key=lambda row: row["step"])
    for count, row in enumerate(rows, 1):
        if row["split"] == schema.HELDOUT:
            stage = stages_lib.leading_to(stages, row["step"])
            assert guard.find_alarm(rows[:count], stage, manifest) is None
    # Not because nothing is judged: a model that only knows the token frequencies.
    stuck = [{**row, "mlm_loss": max(row["mlm_loss"], _ENTROPY)} for row in rows]
    assert "no progress" in guard.find_alarm(stuck, stages[-1], manifest).line


def test_what_limits_zorro_is_that_of_the_figures():
    heading = "## 2026-11-27: what limits Zorro"
    found = _read("zorro_texts.json")["paradigms"]
    whole = _read("double_steps.json")["zorro"]["paradigms"]
    assert found.keys() == whole.keys()
    for name, paradigm in found.items():
        assert paradigm["ours"] == round(100 * whole[name]["accuracy"], 2)

    def means(names):
        return [
            statistics.mean(
                statistics.mean(found[name][model])
                if model != "ours"
                else found[name][model]
                for name in names
            )
            for model in ("ours", "roberta_warstadt", "babyberta")
        ]

    questions = [name for name, one in found.items() if one["questions"] == 1]
    others = [name for name in found if name not in questions]
    rows = _rows(heading)
    for label, names in (
        ("6 paradigms of questions", questions),
        ("17 other paradigms", others),
        ("all 23", [*found]),
    ):
        assert str(len(names)) in label
        assert [label, *(f"{mean:.1f}" for mean in means(names))] in rows
    shown = [row for row in rows if " to " in row[-1]]
    lowest = sorted(found, key=lambda name: found[name]["ours"])[: len(shown)]
    for row, name in zip(shown, lowest, strict=True):
        one = found[name]
        assert row[1] == f"{100 * whole[name]['accuracy']:.1f}"
        assert ("(questions)" in row[0]) == (name in questions)
        for cell, model in zip(row[2:], ("roberta_warstadt", "babyberta"), strict=True):
            assert cell == f"{min(one[model]):.1f} to {max(one[model]):.1f}"
    section = (DOCS / "experiments.md").read_text().split(heading)[1]
    ours, _, theirs = means(questions)
    others_ours, _, others_theirs = means(others)
    assert f"the model is {others_theirs - others_ours:.1f} points behind" in section
    assert f"in questions it is {theirs - ours:.0f} points behind" in section
    with_theirs = (6 * theirs + 17 * others_ours) / 23
    assert f"it would have {with_theirs:.1f}%" in section
    of_each = [one["ours"] for one in found.values()]
    for model, label in (("roberta_warstadt", "correlation "), ("babyberta", "(")):
        of_other = [statistics.mean(one[model]) for one in found.values()]
        value = statistics.correlation(of_each, of_other)
        assert f"{label}{value:.2f})" in section


def test_the_batches_with_muon_are_those_of_their_figures():
    rows = {row[0]: row[1:] for row in _rows("## 2026-11-27: the batch with Muon")}
    runs = _read("muon_batch.json")["runs"]
    for run in runs:
        size, last = run["batch_size"], run["heldout"]
        steps = [tokens // size for tokens in range(6400, 38400, 6400)]
        found = [run["training_loss"].get(str(step)) for step in steps]
        cells = [f"{loss:.3f}" if loss else "" for loss in found]
        cells += (
            [f"{last['mlm_loss']:.3f}", f"{100 * last['mlm_accuracy']:.1f}"]
            if last
            else ["", ""]
        )
        assert rows[f"{128 * size:,}, {run['learning_rate']:g}"] == cells
        assert run["num_steps"] * size == 32_000
    large, small = (run["heldout"]["mlm_loss"] for run in runs[:2])
    text = (DOCS / "experiments.md").read_text()
    assert f"{large - small:.2f} nats better for the same operations" in text
    speeds = _read("muon_batch.json")["tokens_per_second"]
    each, both = sum(speeds["a_core_each"]), statistics.mean(speeds["both_cores"])
    assert f"read {each:,} tokens a second together; one with both cores\n" in text
    assert f"{both:,.0f} (steps 51 to 200" in text
    page = (DOCS / "reproduction.md").read_text()
    assert f"{each / both:.1f} times as fast as one after another" in page


def test_the_base_of_the_ablations_is_that_of_its_figures():
    heading = "## 2026-11-27: a smaller base for the paper's tables"
    rows = {row[0]: row[1:] for row in _rows(heading)}
    found = _read("small_ablations.json")
    losses = {}
    for run in found["runs"]:
        size, last = run["batch_size"], run["heldout"]
        assert run["num_steps"] * size == 48_000
        key = (run["hidden_size"], 128 * size, run["learning_rate"])
        losses.setdefault(key, []).append(last["mlm_loss"])
        cells = [
            f"{run['training_loss'][str(count // size)]:.3f}"
            for count in (16_000, 32_000, 48_000)
        ]
        cells += [f"{last['mlm_loss']:.3f}", f"{100 * last['mlm_accuracy']:.1f}"]
        shares = (run.get(name) for name in ("blimp", "sst2"))
        cells += [f"{100 * share:.1f}" if share else "" for share in shares]
        hidden_size, tokens, rate = key
        name = f"{hidden_size}, {run['embedding_size']}, {tokens:,}, {rate:g}"
        assert rows[f"{name}, {run['seed']}"] == cells
    speeds = {
        size: statistics.mean(values)
        for size, values in found["tokens_per_second"]["by_hidden_size"].items()
    }
    assert rows["H"] == [*speeds]
    assert rows[
        "tokens a second on one core (E 32, 24, 32, 16; 2,048 tokens a step)"
    ] == [f"{speed:,.0f}" for speed in speeds.values()]
    means = {key: statistics.mean(values) for key, values in losses.items()}
    wide, narrow = means[192, 2048, 0.002], means[96, 2048, 0.002]
    text = " ".join((DOCS / "experiments.md").read_text().split())
    for phrase in (
        f"H 96 is {speeds['96'] / speeds['192']:.2f} times as fast as H 192",
        f"its held-out loss is {narrow - wide:.2f} nats above the mean",
        f"regain {narrow - means[96, 1024, 0.002]:.2f} nats of it",
        f"Twice the rate is {narrow - means[96, 2048, 0.004]:.2f} nats better",
    ):
        assert phrase in text
    one, other = losses[192, 2048, 0.002]
    assert f"two seeds of H 192 differ ({one - other:.2f})" in text


def test_onednn_is_as_fast_as_its_figures():
    rows = _rows("## 2026-11-27: oneDNN without AVX-512")[1:]
    runs = _read("onednn.json")["runs"]
    ratios = []
    for cells, run in zip(rows, runs, strict=True):
        off, on = (
            statistics.mean(itertools.chain(*run[key])) for key in ("without", "with")
        )
        assert cells[0].strip("`") == run["model"]
        assert cells[1:] == [
            run["compute_dtype"],
            str(run["cores"]),
            *(f"{value:.2f}" for value in (off, on, on / off)),
        ]
        assert on > off
        ratios.append(on / off)
    training = " ".join((DOCS / "training.md").read_text().split())
    narrow, wide = (f"{ratio:.2f}" for ratio in ratios[:2])
    assert f"{wide} to {narrow} times as fast on one core" in training
    text = " ".join((DOCS / "experiments.md").read_text().split())
    small = [f"{ratio:.2f}" for ratio in ratios[2:]]
    assert f"oneDNN is {wide} and {narrow} times as fast for the small models" in text
    assert f"it was {small[0]} (float32) and {small[1]} times (bfloat16) as" in text
    profile = _read("onednn.json")["profile"]
    packing = profile["without"]["gemm_pack_colmajor_block"]
    assert f"showed {100 * packing:.1f}% of the time in Eigen's packing" in text
    before, after = (profile[key]["compiled_code"] for key in ("without", "with"))
    assert (
        f"{100 * after:.0f}% of the time in compiled code, before {before:.0%}" in text
    )


def test_the_times_without_bfloat16_are_those_of_the_figures():
    found = _read("without_bfloat16.json")
    start = " ".join((DOCS / "start.md").read_text().split())
    rates = {
        run["compute_dtype"]: statistics.mean(itertools.chain(*run["with"]))
        for run in _read("onednn.json")["runs"]
        if run["model"] == "configs/small.py"
    }
    assert (
        f"a step took {1 / rates['float32']:.1f} s in float32 and "
        f"{1 / rates['bfloat16']:.1f} s in bfloat16: five and a half hours, and six "
        "and a half ("
    ) in start
    hours = [18_000 / rate / 3600 for rate in rates.values()]
    assert hours == pytest.approx([5.5, 6.5], abs=0.25)
    minutes = [seconds / 60 for seconds in found["demonstration"]["seconds"]]
    assert minutes == pytest.approx([10, 14], abs=0.6)
    (with_onednn,) = found["demonstration_with_onednn"]["seconds"]
    assert min(minutes) < with_onednn / 60 < max(minutes)
    readme = (project_files.ROOT / "README.md").read_text()
    for page in (start, " ".join(readme.split())):
        assert "with AVX-512, or ten to fourteen without" in page


def test_size_batch_and_masks_at_equal_time_are_those_of_their_figures():
    found = _read("equal_time.json")
    base, runs = found["base"], {run["name"]: run for run in found["runs"]}
    kept = _read("kept_tokens.json")["runs"][0]
    assert base["heldout_mlm_loss"] == kept["heldout"][-1]["mlm_loss"]
    assert base["zorro"] == kept["zorro"]
    rows = _rows("## 2026-11-28: size, batch and masks at equal time")
    _, first, *others = rows
    assert first[1:] == [
        *("1", f"{base['num_steps']:,}", f"{base['heldout_mlm_loss']:.3f}"),
        f"{100 * base['sentence_order_accuracy']:.1f}",
        f"{100 * base['zorro']['accuracy']:.1f}",
    ]
    names = ("two", "mask30", "rows16", "wide")
    for row, run in zip(others, map(runs.get, names), strict=True):
        last, speed = run["heldout"][-1], run["speed_on_one_core"]
        ratio = speed["seconds_a_step"] / speed["base_beside_it"]
        loss = run.get("heldout_with_20_percent_masks", last["mlm_loss"])
        assert row[1:] == [
            *(f"{ratio:.2f}", f"{run['num_steps']:,}", f"{loss:.3f}"),
            f"{100 * last['sentence_order_accuracy']:.1f}",
            f"{100 * run['zorro']['accuracy']:.1f}",
        ]
        # Each takes the time of the base.
        assert run["num_steps"] * ratio == pytest.approx(base["num_steps"], rel=0.015)
    text = " ".join((DOCS / "experiments.md").read_text().split())
    longer = found["long_run_of_two_layers"]
    assert f"is {longer['heldout'][-1]['mlm_loss']:.3f}, that of the recipe" in text
    speeds = found["replicas_of_the_base_on_two_idle_cores"]
    one, again = (turn["median_seconds_a_step"] for turn in speeds["one process"])
    assert f"takes {one:.3f} and {again:.3f} s on two idle cores" in text
    for name in ("two CPU devices", "two workers, a core each"):
        assert f"{speeds[name]['median_seconds_a_step']:.3f} s with" in text


def test_text_with_questions_has_the_figures_of_its_file():
    found = _read("equal_time.json")
    base = _read("kept_tokens.json")["runs"][0]
    runs = {run["name"]: run for run in found["runs"]}
    mixed = runs.pop("race")

    def probe(run, suite):
        shares = (100 * run[suite][key] for key in ("accuracy", "low", "high"))
        return "{:.1f} ({:.1f} to {:.1f})".format(*shares)

    rows = _rows("## 2026-11-28: text with questions")[1:]
    assert rows == [
        [
            "MLM loss on held-out Wikipedia",
            f"{base['heldout'][-1]['mlm_loss']:.3f}",
            f"{mixed['heldout_with_20_percent_masks']:.3f}",
        ],
        [
            "order of held-out Wikipedia pairs, %",
            f"{100 * base['heldout'][-1]['sentence_order_accuracy']:.1f}",
            f"{100 * mixed['order_of_wikipedia']:.1f}",
        ],
        ["Zorro, 6,900 pairs, %", probe(base, "zorro"), probe(mixed, "zorro")],
        ["BLiMP, 6,648 pairs, %", probe(base, "blimp"), probe(mixed, "blimp")],
    ]
    paradigms = _read("zorro_texts.json")["paradigms"]

    def mean(run, is_question):
        shares = run["zorro_paradigms"]
        return statistics.mean(
            100 * shares[name]
            for name, one in paradigms.items()
            if (one["questions"] == 1) == is_question
        )

    text = (DOCS / "experiments.md").read_text()
    for is_question, sentence in (
        (
            True,
            "have {:.1f}%, in the four other runs of the entry before {:.1f} to {:.1f}",
        ),
        (False, "the other 17 have {:.1f}, there {:.1f} to {:.1f}"),
    ):
        others = [mean(run, is_question) for run in runs.values()]
        shown = sentence.format(mean(mixed, is_question), min(others), max(others))
        assert shown in " ".join(text.split())


def test_the_whole_run_on_text_with_questions_is_that_of_its_figures():
    found = _read("text_with_questions.json")
    section, rows = _entry("## 2026-11-28: a whole run on text with questions")
    _assert_curves(rows, found, "BLiMP, 20 pairs each, %", "probe_of_20_pairs")
    (steps,) = (row[1:] for row in rows if row[0] == "step")
    heldout = {f"{one['step']:,}": one for one in found["heldout"]}
    losses = [f"{heldout[step]['mlm_loss_of_wikipedia']:.3f}" for step in steps]
    assert ["of that, Wikipedia", *losses] in rows
    runs = ("this run", "Wikipedia alone")
    _assert_compared(rows, found, runs)
    _assert_probes("## 2026-11-28: a whole run on text with questions", found)
    assert f"{found['seconds']:,.0f} s in all" in section
    assert f"{found['seconds_a_step']:.2f} s a step" in section
    minutes = found["seconds"] / 60
    assert f"reached in {minutes:.0f} minutes" in section

    # ---- Zorro ----
    texts = _read("zorro_texts.json")["paradigms"]
    shares = found["zorro_500_pairs_by_paradigm"]
    asked = [name for name in shares if texts[name]["questions"] == 1]
    others = [name for name in shares if name not in asked]
    gains = {}
    for label, names in (
        ("6 paradigms of questions", asked),
        ("17 other paradigms", others),
        ("dropped arguments", ["argument_structure-dropped_argument"]),
        ('matrix questions with "ever"', ["npi_licensing-matrix_question"]),
        ("adjunct islands", ["island-effects-adjunct_island"]),
        ("ellipsis of a noun", ["ellipsis-n_bar"]),
        ('"only" with "ever"', ["npi_licensing-only_npi_licensor"]),
    ):
        means = [
            100 * statistics.fmean(shares[name][run] for name in names) for run in runs
        ]
        assert [f"Zorro, {label}, %", *(f"{mean:.1f}" for mean in means)] in rows
        gains[label] = means[0] - means[1]
    asked, other = gains["6 paradigms of questions"], gains["17 other paradigms"]
    assert (
        f"{asked:.0f} points in the six paradigms of questions, {other:.0f} in the "
        "others, of which more than half is dropped arguments" in section
    )
    assert gains["dropped arguments"] / 17 > other / 2

    # ---- BLiMP, and the other run ----
    before = _read("muon_adamw.json")
    for name, label in (
        ("anaphor_agreement", "agreement of pronouns ({} instead of {}%)"),
        ("npi_licensing", "negative polarity ({} and {})"),
        ("ellipsis", "ellipsis ({} and {})"),
        ("island_effects", "islands ({} and {})"),
        ("filler_gap_dependency", "filler-gap dependencies ({} and {})"),
    ):
        pair = [
            f"{100 * run['blimp']['phenomena'][name]['accuracy']:.1f}"
            for run in (found, before)
        ]
        assert label.format(*pair) in section

    # ---- All pairs ----
    blimp, zorro = (
        "{:.1f}% ({:.1f} to {:.1f})".format(
            *(100 * one[key] for key in ("accuracy", "low", "high"))
        )
        for one in map(found["all_pairs"].get, ("blimp", "zorro"))
    )
    assert f"Of all pairs BLiMP is {blimp} and Zorro {zorro}." in section

    # ---- Fine-tuning ----
    cola = json.loads((DOCS / "finetuning" / "small_model.json").read_text())["cola"]
    ours, chance, longer = (
        cola[kind]["scores"]["matthews"]
        for kind in ("pretrained", "random", "other_masks_twice_the_steps")
    )
    shown = f"{statistics.median(ours):.3f} ({min(ours):.3f} to {max(ours):.3f})"
    assert f"it has {shown} on CoLA, random weights have" in section
    assert f"weights have {statistics.median(chance):.3f}, and the model" in section
    assert f"order of sentences, {statistics.median(longer):.3f}." in section

    gained = [
        100 * (pairs["this run"] - pairs["Wikipedia alone"])
        for pairs in map(found["same_pairs"].get, ("zorro", "blimp"))
    ]
    assert f"{gained[0]:.1f} points above" in section
    assert f"BLiMP {gained[1]:.1f} points higher" in section


def test_the_average_of_the_weights_has_the_losses_of_its_figures():
    losses = _read("average.json")["heldout_mlm_loss"]
    section, rows = _entry("## 2026-11-28: the average of the weights")
    assert ["step", *(f"{one['step']:,}" for one in losses)] in rows
    for kind in ("trained", "averaged"):
        cells = [f"{one[kind]:.3f}" for one in losses]
        assert [f"MLM loss, {kind} weights", *cells] in rows
    lag = {one["step"]: one["averaged"] - one["trained"] for one in losses}
    assert f"its loss is {lag[18000]:.3f} nats higher" in section
    assert f"the average is {lag[16000]:.2f} nats worse" in section
    assert f"at step 15,000 its loss is {-lag[15000]:.2f} nats lower" in section


def _assert_pair_rows(rows, runs, shown):
    """Asserts that a table has the steps of runs with a pair loss.

    Args:
      rows: of the table.
      runs: figures by name.
      shown: the name and the steps of each label.
    """
    for label, (name, steps) in shown.items():
        run = runs[name]
        heldout = run["heldout"]
        for step in steps:
            at, held = run["step"].index(step), heldout["step"].index(step)
            assert [
                label,
                f"{step:,}",
                f"{heldout['mlm_loss'][held]:.2f}",
                f"{run['pair_loss'][at]:.3f}",
                f"{100 * run['pair_accuracy'][at]:.1f}",
                f"{100 * heldout['pair_accuracy'][held]:.1f}",
            ] in rows


def test_what_a_pair_loss_needs_is_that_of_its_figures():
    runs = _read("pair_start.json")["runs"]
    section, rows = _entry("## 2026-11-28: what a model needs to learn a pair loss")
    shown = {
        "SOP from the first step, 0.002": ("joint", (2000, 4000, 6000)),
        "SOP branch, 0.002": ("branch, 0.002", (8000, 10000, 12000)),
        "SOP branch, 0.0005": ("branch, 0.0005", (7000, 8000, 9000)),
        "NSP branch, 0.0005": ("NSP branch, 0.0005", (7000, 8000, 9000, 10000)),
    }
    _assert_pair_rows(rows, runs, shown)
    pairs, order = (
        100 * runs[name]["heldout"]["pair_accuracy"][-1]
        for name in ("NSP branch, 0.0005", "branch, 0.0005")
    )
    assert f"at a quarter of the rate: {pairs:.1f}% of the held-out pairs at" in section
    assert f"{order:.1f}% after 2,750 steps" in section
    known = runs["joint"]["heldout"]
    share = known["mlm_accuracy"][known["step"].index(4000)]
    assert f"E 32: {100 * share:.1f}% of the masked words" in section
    table = json.loads((DOCS / "reproduction" / "pair_loss.json").read_text())
    ends = [
        100 * one["mlm_accuracy"]
        for experiment in table.values()
        for one in experiment["seeds"].values()
    ]
    assert f"models end with {min(ends):.1f} to {max(ends):.1f}%." in section
    long, short = (runs[name]["mlm_loss"][-1] for name in ("512 tokens", "32 tokens"))
    assert f"is {long:.2f} after 2,000 steps" in section
    assert f"it is {short:.2f} after 2,500." in section
    begin, *_, end = runs["512 tokens, branch"]["heldout"]["mlm_loss"]
    assert f"begins at {begin:.2f} held out and is at {end:.2f} after 477" in section


def test_the_guards_runs_are_those_of_their_figures():
    found = json.loads((DOCS / "training" / "guard.json").read_text())
    page = (DOCS / "training.md").read_text()
    (table,) = re.findall(
        r"<!-- begin of the guard's runs -->\n(.*?)<!-- end", page, re.DOTALL
    )
    assert table.split("\n") == ["", *guard_runs.rows(found["runs"]), "", ""]
    assert f"alone give {found['heldout_unigram_entropy']:.3f}" in " ".join(
        page.split()
    )
    for name, run in guard_runs.RUNS.items():
        figures = found["runs"][name]
        assert tuple(figures["settings"]) == run.settings
        is_good = name in ("muon", "lamb", "lamb-no-warmup")
        assert (figures["exit_code"] == 0) == is_good
    assert guard_runs.verdict(found["runs"]["muon-few"]).verdict.startswith("the loss")


def test_continued_pre_training_has_the_losses_of_its_figures():
    found = json.loads((DOCS / "training" / "own_text.json").read_text())
    losses = found["heldout_mlm_loss"]
    page = (DOCS / "training.md").read_text()
    section = page.split("## Continued pre-training")[1].split("\n## ")[0]
    shown = [line.strip("| ").split(" | ") for line in section.splitlines()]
    shown = [cells[1:] for cells in shown if len(cells) == 3]
    order = (
        *("RUN, step 17,000", "RUN, step 18,000", "branch"),
        *("branch on 70% own records and 30% old ones", "branch on old records"),
        *("branch with the rate of step 17,000", "init_checkpoint", "random weights"),
    )
    texts = ("own", "wikipedia")
    assert shown == [[f"{losses[name][one]:.3f}" for one in texts] for name in order]
    own, old = (
        {name: both[one] - losses[order[0]][one] for name, both in losses.items()}
        for one in texts
    )
    words = " ".join(section.split())
    gain, forgotten = -own["branch"], old["branch"]
    assert f"gain {gain:.1f} nats on one's own text and lose {forgotten:.2f}" in words
    mixed = "branch on 70% own records and 30% old ones"
    assert f"cost {own[mixed] + gain:.2f} nats" in words
    assert f"and {old[mixed]:.2f} instead of {forgotten:.2f} are lost" in words
    assert own["branch with the rate of step 17,000"] == pytest.approx(-gain / 2, 0.1)
    entropies = [f"{found['unigram_entropy'][one]:.2f}" for one in texts]
    assert f"alone have {entropies[0]} and {entropies[1]}:" in words
    page = (DOCS / "use_cases" / "continue_pretraining.md").read_text()
    words = " ".join(page.split())
    low = "branch with the rate of step 17,000"
    before, after, less = (
        f"{losses[name]['own']:.2f}" for name in (order[0], "branch", low)
    )
    assert f"from {before} to {after} nats; with the low rate" in words
    assert f"at that step, to {less} (" in words
    assert f"rose by {forgotten:.2f} nats, and by {old[mixed]:.2f} with 30%" in words


def _share(one):
    low, mean, high = (100 * one[key] for key in ("low", "accuracy", "high"))
    return f"{mean:.1f}%", f"({low:.1f} to {high:.1f})"


def test_the_probes_that_pages_name_are_those_of_their_figures():
    mixed = _read("text_with_questions.json")
    alone = _read("muon_adamw.json")
    page = (DOCS / "probing.md").read_text()
    recipe = (project_files.ROOT / "configs/small.py").read_text()
    whole = mixed["all_pairs"]
    blimp = {**whole["blimp"]["phenomena"], "overall": whole["blimp"]}
    (block,) = re.findall(r"```\n( +this model.*?)```", page, re.DOTALL)
    shown = [line.split() for line in block.splitlines()[1:]]
    assert [cells[0] for cells in shown][-1] == "overall"
    for name, share, low, _, high, *_ in shown:
        assert (share, f"({low} to {high})") == _share(blimp[name])
    published = [
        f"{100 * one:.1f}%" for one in whole["blimp"]["published_overall"].values()
    ]
    assert shown[-1][5:] == published
    runs = _read("demonstration.json")
    start = " ".join((DOCS / "start.md").read_text().split())
    last = next(one for one in runs["runs"] if one["learning_rate"] == 0.004)
    orders = [
        100 * one["sentence_order_accuracy"]
        for one in (last["heldout"][-1], *runs["whole_runs_2026-11-28"])
    ]
    assert f"ordered {min(orders):.1f} to {max(orders):.1f}% of the pairs" in start
    demonstration = runs["zorro"]
    words = " ".join(page.split())
    assert " ".join(_share(demonstration["overall"])) in words
    shares = [100 * share for share in demonstration["phenomena"].values()]
    assert f"from {min(shares):.1f}% in argument structure" in words
    assert f"to {max(shares):.1f}% in filler-gap" in words
    for suite, name in (("blimp", "BLiMP"), ("zorro", "Zorro")):
        share, _ = _share(whole[suite])
        assert f"{name} in the report: {share}, and" in page
        for text in (page, recipe):
            share, interval = _share(alone[suite]["overall"])
            assert f"{share} {interval[:-1]}" in " ".join(text.split())
            share, _ = _share(mixed[suite]["overall"])
            assert share in text


def test_longer_pairs_and_source_code_are_those_of_their_figures():
    found = _read("pair_length.json")
    section, rows = _entry(
        "## 2026-11-29: longer pairs, and source code, for the order of sentences"
    )
    shown = {
        "SOP, articles, 256 tokens": ("articles, SOP", (6000, 7500, 9000)),
        "SOP, code, 128 tokens": ("code, SOP", (3000, 4000, 6000, 8000, 10000)),
        "NSP, code, 128 tokens": ("code, NSP", (3000,)),
    }
    _assert_pair_rows(rows, found["runs"], shown)
    repeated = {
        f"{kind}, of the table, 64 tokens, seed {seed}": f"table, {kind}, seed {seed}"
        for kind in ("SOP", "NSP")
        for seed in (1, 3)
    }
    for label, name in {
        **repeated,
        "SOP, of source code, 128 tokens": "code, SOP",
    }.items():
        for kind, pairs in found["pair_scores"][name].items():
            assert [
                f"{label}, on {kind.upper()}",
                f"{pairs['pairs']:,}",
                f"{pairs['accuracy']:.1f}",
                f"{pairs['auc']:.1f}",
            ] in rows
    code = found["pair_scores"]["code, SOP"]

    def of_table(kind, tried, figure, scores="pair_scores"):
        return [
            found[scores][f"table, {kind}, seed {seed}"][tried][figure]
            for seed in (1, 3)
        ]

    sop_on_nsp, nsp_on_sop = (
        "{:.1f} and {:.1f}".format(*sorted(of_table(*pair, "auc")))
        for pair in (("SOP", "nsp"), ("NSP", "sop"))
    )
    assert f"AUC on next sentences is {sop_on_nsp}, so" in section
    assert f"with any threshold: {nsp_on_sop}." in section
    scores = "pair_scores_with_batches_of_16"
    for kind in ("sop", "nsp"):
        both = "{:.1f} and {:.1f}% on ".format(
            *of_table("SOP", kind, "accuracy", scores)
        )
        assert f"{both}{kind.upper()}" in section
    words = json.loads((DOCS / "reproduction" / "pair_words.json").read_text())
    assert f"Words alone have {words['sop']['on']['nsp']['auc']} there" in section
    measures = json.loads((DOCS / "reproduction" / "pair_loss.json").read_text())
    again, changes = found["table_trained_again"], {}
    for key, name in (
        ("sop/sentence_order_accuracy", "SOP"),
        ("nsp/next_sentence_accuracy", "NSP"),
        ("mlm_accuracy", "masked words"),
    ):
        for kind in ("nsp", "sop"):
            seeds = measures[f"pair-{kind}"]["seeds"]
            before, after = (
                [100 * of[seed][key] for seed in "13"]
                for of in (seeds, again[f"pair-{kind}"])
            )
            changes.setdefault(name, []).extend(
                abs(a - b) for a, b in zip(after, before, strict=True)
            )
            if name != "masked words":
                scores = of_table(kind.upper(), name.lower(), "accuracy")
                assert scores == [pytest.approx(one, abs=0.06) for one in after]
            if key.startswith("sop/") and kind == "nsp":
                assert "{:.1f} and {:.1f}% on SOP".format(*before) in section
                accuracies = "{:.1f} and {:.1f}%".format(*scores)
                assert f"of the NSP models, {accuracies}, are above" in section
            elif name != "masked words" and kind == "sop":
                assert "{:.1f} and {:.1f}% on ".format(*before) + name in section
    of_pairs = f"{max(changes['SOP'] + changes['NSP']):.1f}"
    of_words = f"{max(changes['masked words']):.1f}"
    assert f"accuracies of pairs by up to {of_pairs} points" in section
    assert f"those of masked words by up to {of_words}." in section
    assert f"learnt: {code['sop']['accuracy']:.1f}% of the pairs are right" in section
    assert f"is as little, {code['nsp']['accuracy']:.1f}%." in section
    articles, source = (found["runs"][name] for name in ("articles, SOP", "code, SOP"))
    assert f"That took {articles['seconds'] / 60:.0f} minutes" in section
    assert f"after {source['seconds'] / 60:.0f} minutes" in section
    page = " ".join((DOCS / "reproduction.md").read_text().split())
    assert f"two seeds trained again have {accuracies} |" in page
    rounding = (
        f"{of_words} points of MLM accuracy and {of_pairs} of the accuracies of pairs"
    )
    assert rounding in page
    assert f"they order {code['sop']['accuracy']:.1f}% of the pairs at most" in page
