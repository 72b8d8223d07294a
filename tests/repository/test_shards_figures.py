"""The cost of many blocks in docs/data.md is that of the JSON beside it."""

import json

from data_prep.benchmarks import simulated_blocks
from tests.repository import project_files

DOCS = project_files.ROOT / "docs"


def test_the_cost_of_a_record_is_that_of_the_figures():
    found = json.loads((DOCS / "data" / "shards.json").read_text())
    costs = [simulated_blocks.Cost(**one) for one in found]
    lines = (DOCS / "data.md").read_text().splitlines()
    for row in simulated_blocks.table(costs):
        assert f"| {' | '.join(row)} |" in lines
    assert [cost.num_blocks for cost in costs] == [500, 20_000]
    assert costs[1].microseconds <= 1.2 * costs[0].microseconds
    assert costs[1].peak_bytes <= 1.2 * costs[0].peak_bytes
    assert max(cost.most_files for cost in costs) < 20
