"""The tables: the paper's figures, and the experiments that stand beside them."""

import dataclasses

import pytest

from albert_tf.core import config, config_io
from albert_tf.model import paper_sizes
from albert_tf.reproduction import budgets, experiments, paper, tables


def all_tables(budget, *settings):
    maker = tables.Maker(budgets.BUDGETS[budget], settings)
    return {name: maker.make(name) for name in tables.TABLES}


@pytest.mark.parametrize(
    ("name", "setting", "message"),
    [
        ("depth", "model.num_layers=6", "must not change what --table=depth compares"),
        ("sharing", "model.sharing=all", "compares; received model.sharing"),
        # The rows would still differ in other settings.
        ("same_time", "model.sharing=all", "compares; received model.sharing"),
        ("width", "model.num_heads=2", "compares; received model.num_heads"),
        ("dropout", "train.num_steps=8000", "must leave steps to dropout-with after"),
    ],
)
def test_settings_that_undo_a_comparison_are_refused(name, setting, message):
    maker = tables.Maker(budgets.BUDGETS["hour"], [setting])
    with pytest.raises(ValueError, match=message):
        maker.make(name)
    # This one varies none of them.
    assert maker.make("pair_loss").rows


def printed_scores():
    """All of the paper's scores."""
    groups = [
        *paper.EMBEDDING_SIZES.values(),
        *paper.SHARINGS.values(),
        paper.PAIR_LOSSES,
        paper.SAME_TIME,
        paper.ADDED_DATA,
        paper.DROPOUT,
        paper.DEPTHS,
        paper.WIDTHS,
        paper.WIDE_DEPTHS,
    ]
    return [scores for group in groups for scores in group.values()]


def test_each_printed_average_follows_from_the_scores_beside_it():
    found = printed_scores()
    assert len(found) == 37
    for scores in found:
        of_squad = [sum(scores.squad1) / 2, sum(scores.squad2) / 2]
        mean = sum([*of_squad, scores.mnli, scores.sst2, scores.race]) / 5
        assert abs(mean - scores.average) <= 0.05 + 1e-9, scores


def test_rows_that_two_tables_of_the_paper_share_have_the_same_average():
    sizes, sharings = paper.EMBEDDING_SIZES, paper.SHARINGS
    for sharing in ("all", "none"):
        assert sizes[sharing][768].average == sharings[768][sharing].average
    assert sizes["all"][128].average == sharings[128]["all"].average
    assert paper.PAIR_LOSSES["sop"].average == paper.ADDED_DATA["without"].average
    assert paper.DEPTHS[3] == paper.WIDTHS[1024]
    assert paper.SAME_TIME["albert_xxlarge"] == paper.WIDE_DEPTHS[12]


@pytest.mark.parametrize("budget", budgets.BUDGETS)
def test_every_table_compares_rows_that_it_has(budget):
    for name, table in all_tables(budget).items():
        assert table.name == name
        names = [row.name for row in table.rows]
        assert len(set(names)) == len(names) >= 2
        assert {one for pair in table.comparisons for one in pair} <= set(names)
        assert table.comparisons
        known = set(table.rows[0].paper)
        assert {one.paper for one in table.measures} - {""} <= known
        for row in table.rows:
            assert set(row.paper) == known


@pytest.mark.parametrize("budget", budgets.BUDGETS)
def test_names_of_experiments_are_unique(budget):
    found = experiments.in_order(
        row.experiment for table in all_tables(budget).values() for row in table.rows
    )
    names = [one.name for one in found]
    assert len(set(names)) == len(names)
    starts = [one.name for one in found if one.start is not None]
    assert starts
    for one in found:
        if one.start is not None:
            assert names.index(one.start.name) < names.index(one.name)


def test_an_experiment_that_two_tables_read_is_one():
    found = all_tables("hour")
    base = "e16-h96-l4-all"
    having = [
        name
        for name, table in found.items()
        if base in [row.experiment.name for row in table.rows]
    ]
    assert having == ["embedding_size", "sharing"]
    assert "e16-h128-l3-all" in [r.experiment.name for r in found["width"].rows]
    assert "e16-h128-l3-all" in [r.experiment.name for r in found["wide_depth"].rows]


def test_two_experiments_of_one_name_are_an_error():
    table = all_tables("smoke")["sharing"]
    one = table.rows[0].experiment
    other = dataclasses.replace(one, seconds=5.0)
    with pytest.raises(ValueError, match=f"two experiments have the name {one.name}"):
        experiments.in_order([one, other])


def test_the_hour_has_the_fractions_of_the_paper():
    budget = budgets.BUDGETS["hour"]
    hidden_size = budget.embedding_sizes[-1]
    fractions = [size / hidden_size for size in budget.embedding_sizes]
    assert fractions == [size / 768 for size in (64, 128, 256, 768)]
    widths = [ours / budget.widths[0][0] for ours, _ in budget.widths]
    assert widths == [theirs / 1024 for _, theirs in budget.widths]
    (few, _), (many, _) = budget.wide_depths
    assert many == 2 * few
    # The wide model of two depths has the paper's 4096.
    (wide,) = (ours for ours, theirs in budget.widths if theirs == 4096)
    assert f"model.hidden_size={wide}" in budget.wide_settings


def test_the_full_budget_has_the_models_of_the_paper():
    found = all_tables("full")
    printed = [
        paper_sizes.printed_sizes(row.experiment.config.model)
        for name in ("embedding_size", "sharing")
        for row in found[name].rows
    ]
    assert [sizes[0] for sizes in printed] == [
        *("87M", "89M", "93M", "108M", "10M", "12M", "16M", "31M"),
        *("31M", "83M", "57M", "108M", "12M", "64M", "38M", "89M"),
    ]
    bert, albert = (row.experiment.config for row in found["same_time"].rows)
    assert paper_sizes.printed_sizes(bert.model) == ("334M",)
    assert paper_sizes.printed_sizes(albert.model) == ("235M", "233M")
    assert bert.train.batch_size == 4096


def test_the_pair_models_differ_in_their_records_alone():
    rows = all_tables("hour")["pair_loss"].rows
    configs = []
    for row in rows:
        trained = row.experiment
        assert trained.config.data.pair_loss == row.name
        assert trained.start is None
        assert [prefix for prefix, _ in trained.evaluated_on] == ["sop", "nsp"]
        values = config_io.to_dict(trained.config)
        del values["data"]["pair_loss"], values["train"]["records"]
        configs.append(values)
    assert configs[0] == configs[1] == configs[2]


def test_dropout_is_on_in_one_of_two_branches():
    kept, removed = (row.experiment for row in all_tables("hour")["dropout"].rows)
    assert kept.start == removed.start
    rates = [
        (one.config.model.hidden_dropout_rate, one.config.model.attention_dropout_rate)
        for one in (kept.start, kept, removed)
    ]
    assert rates == [(0.1, 0.1), (0.1, 0.1), (0.0, 0.0)]
    assert kept.start.config.train.num_steps == 6000
    assert kept.config.train.num_steps == removed.config.train.num_steps == 9000


def test_a_setting_of_the_command_is_in_all_experiments():
    found = all_tables(
        "hour", "train.compute_dtype=bfloat16", "data.masked_lm_rate=0.3"
    )
    for table in found.values():
        for row in table.rows:
            config = row.experiment.config
            assert config.train.compute_dtype == "bfloat16"
            assert config.data.masked_lm_rate == 0.3


def test_another_length_keeps_the_shares_of_the_schedule():
    config = all_tables("hour")["sharing"].rows[0].experiment.config
    longer = experiments.with_num_steps(config, 9000)
    assert longer.train.num_steps == longer.train.eval_every_steps == 9000
    assert (longer.optimizer.warmup_steps, longer.optimizer.decay_steps) == (600, 6600)
    tiny = experiments.with_num_steps(config, 1)
    assert (tiny.optimizer.warmup_steps, tiny.optimizer.decay_steps) == (0, 1)


def test_a_new_setting_does_not_make_another_experiment():
    trained = all_tables("hour")["sharing"].rows[0].experiment
    found = trained.identity()["config"]
    assert found["model"]["embedding_size"] == 96
    default = config.Config()
    for section, values in found.items():
        for name, value in values.items():
            assert value != getattr(getattr(default, section), name)
    assert found["task"] == {}
    other = dataclasses.replace(
        trained, config=config_io.override(trained.config, ["optimizer.clip_norm=2.0"])
    )
    assert other.identity() != trained.identity()
