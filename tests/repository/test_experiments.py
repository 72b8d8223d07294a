"""Figures of docs/experiments.md are those of the JSON beside it."""

import json

from tests.repository import project_files

DOCS = project_files.ROOT / "docs"


def test_the_hour_beside_transformers_is_that_of_its_figures():
    found = json.loads((DOCS / "experiments" / "learning_hour.json").read_text())
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (DOCS / "experiments.md").read_text().splitlines()
        if line.startswith("| ")
    ]
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
