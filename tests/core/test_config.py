"""Recipes, overrides, JSON, and the errors that a user meets."""

import dataclasses
import glob
import json
import re

import pytest

from albert_tf.core import config, config_io, files

RECIPES = sorted(set(glob.glob("configs/*.py")) - {"configs/__init__.py"})


@pytest.mark.parametrize("path", RECIPES)
def test_every_recipe_loads_and_survives_json(path):
    loaded = config_io.load(path)
    assert config_io.from_json(config_io.to_json(loaded)) == loaded


def test_a_saved_configuration_is_a_recipe(tmp_path):
    made = config_io.load("configs/demo.py", ["train.batch_size=7"])
    path = tmp_path / "config.json"
    path.write_text(config_io.to_json(made))
    assert config_io.load(str(path)) == made


def test_a_saved_configuration_may_be_remote():
    made = config_io.load("configs/demo.py", ["train.batch_size=7"])
    path = "ram://saved/config.json"
    files.write_bytes(path, config_io.to_json(made).encode())
    assert config_io.load(path) == made
    for absent in ("ram://saved/other.json", "ram://saved"):
        with pytest.raises(ValueError, match="--config must name a recipe or a conf"):
            config_io.load(absent)


@pytest.mark.parametrize(
    ("name", "layers", "hidden", "heads", "intermediate"),
    [
        ("base", 12, 768, 12, 3072),
        ("large", 24, 1024, 16, 4096),
        ("xlarge", 24, 2048, 16, 8192),
        ("xxlarge", 12, 4096, 64, 16384),
    ],
)
def test_the_papers_recipes(name, layers, hidden, heads, intermediate):
    recipe = config_io.load(f"configs/albert_{name}.py")
    sizes = recipe.model
    assert (sizes.num_layers, sizes.hidden_size) == (layers, hidden)
    assert (sizes.num_heads, sizes.intermediate_size) == (heads, intermediate)
    assert (sizes.vocab_size, sizes.embedding_size, sizes.num_groups) == (30000, 128, 1)
    run, adam = recipe.train, recipe.optimizer
    assert (run.batch_size, run.num_steps) == (4096, 125000)
    assert (adam.name, adam.learning_rate, adam.warmup_steps) == ("lamb", 0.00176, 3125)
    assert (adam.weight_decay_rate, adam.epsilon, adam.clip_norm) == (0.01, 1e-6, 1.0)
    assert (recipe.data.max_seq_length, recipe.data.num_predictions) == (512, 20)


def test_overrides_are_typed_and_the_later_wins():
    changed = config_io.load(
        "",
        [
            "train.batch_size=512",
            "train.num_steps=2e4",
            "optimizer.learning_rate=1",
            "data.lower_case=False",
            "text.language=de",
            "train.batch_size=64",
            'optimizer.exclude_patterns=("bias",)',
        ],
    )
    assert (changed.train.batch_size, changed.train.num_steps) == (64, 20000)
    assert changed.optimizer.learning_rate == 1.0
    assert isinstance(changed.optimizer.learning_rate, float)
    assert changed.data.lower_case is False and changed.text.language == "de"
    assert changed.optimizer.exclude_patterns == ("bias",)
    assert changed.model == config.ModelConfig()


def test_values_that_only_hold_together_may_come_in_any_order():
    changed = config_io.load("", ["data.max_seq_length=600", "model.max_positions=600"])
    assert changed.data.max_seq_length == 600


def test_pairs_need_a_kind_of_segment_each():
    one = config_io.override(config.Config(), ["model.type_vocab_size=1"])
    with pytest.raises(ValueError, match="model.type_vocab_size must be at least 2"):
        one.check_pretraining()
    config_io.override(one, ["data.pair_loss=none"]).check_pretraining()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "train.batchsize=3",
            "'train.batchsize'; the nearest valid one is 'train.batch_size'",
        ),
        ("batch_size=3", "the nearest valid one is 'train.batch_size'"),
        ("model.hiden_size=3", "the nearest valid one is 'model.hidden_size'"),
        ("train=3", "unknown setting 'train'"),
        ("architectures=3", "unknown setting 'architectures'; none is like it"),
        ("train.batch_size", "must read key.sub=value; received 'train.batch_size'"),
        (
            "train.batch_size=many",
            "train.batch_size must be an integer; received 'many'",
        ),
        ("train.batch_size=1.5", "train.batch_size must be an integer; received 1.5"),
        ("train.batch_size=True", "train.batch_size must be an integer; received True"),
        ("train.batch_size=0", "train.batch_size must be at least 1; received 0"),
        ("data.lower_case=1", "data.lower_case must be true or false; received '1'"),
        ("model.hidden_size=770", "multiple of model.num_heads; received (770, 12)"),
        ("model.num_groups=13", "larger than model.num_layers; received (13, 12)"),
        (
            "model.num_groups=5",
            "model.num_layers must be a multiple of model.num_groups, unless "
            "model.uneven_groups is set; received (12, 5)",
        ),
        ("model.num_inner_groups=0", "must be at least 1; received 0"),
        (
            "model.sharing=some",
            "must be one of all, attention, feed_forward, none; received 'some'",
        ),
        (
            "model.activation=swish",
            "must be one of gelu_tanh, gelu_exact, relu; received 'swish'",
        ),
        ("model.embedding_size=30001", "must not be larger than model.vocab_size"),
        ("model.hidden_dropout_rate=1", "must lie in [0, 1); received 1.0"),
        ("data.max_seq_length=513", "must not be larger than model.max_positions"),
        ("data.max_seq_length=4", "must lie in [8, 65535]; received 4"),
        ("text.sentence_splitter=dots", "must be one of line, sentencex"),
        ("text.near_duplicate_threshold=0.4", "must be 0 (off) or lie in [0.5, 1]"),
        ("task.name=cool", "must be one of cola, sst2, mrpc, stsb, qqp, mnli, qnli, "),
        ("task.name=cool", "table, conll, or empty; received 'cool'"),
        ("task.layer_decay=0", "task.layer_decay must lie in (0, 1]; received 0.0"),
        ("train.seed=-1", "train.seed must lie in [0, 2147483648); received -1"),
        ("train.seed=20261128123456", "must lie in [0, 2147483648); received 202"),
        ("data.masked_lm_rate=0.0", "must lie in (0, 1); received 0.0"),
        (
            "data.mask_token_rate=0.95",
            "data.mask_token_rate and data.random_token_rate must sum to 1 at most; "
            "received (0.95, 0.1)",
        ),
        ("optimizer.name=sgd", "must be one of lamb, adamw, muon; received 'sgd'"),
        ("optimizer.decay_from=end", "must be one of start, warmup_end"),
        (
            "optimizer.warmup_steps=125001",
            "must not be larger than train.num_steps; received "
            "optimizer.warmup_steps=125001, optimizer.decay_steps=0, "
            "train.num_steps=125000",
        ),
        (
            "optimizer.exclude_patterns=bias,*norm*",
            "each of optimizer.exclude_patterns must be a regular expression; received "
            "'*norm*': nothing to repeat at position 0",
        ),
        ("optimizer.clip_norm=0", "must be above 0; received 0.0"),
        ("train.accumulation_steps=3", "must be a multiple of train.accumulation"),
        ("train.compute_dtype=float64", "must be one of float32, bfloat16"),
        ("train.jit_compile=yes", "must be one of auto, on, off"),
        ("train.remat=all", "must be one of none, attention, block; received 'all'"),
    ],
)
def test_a_wrong_override_says_the_rule_and_what_was_received(override, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        config_io.load("", [override])


def test_groups_of_unequal_length_must_be_asked_for():
    overrides = ["model.num_groups=5", "model.uneven_groups=true"]
    assert config_io.load("", overrides).model.num_groups == 5


def test_nothing_shared_has_no_groups():
    message = 'model.num_groups must be 1 if model.sharing is "none"; received 2'
    with pytest.raises(ValueError, match=re.escape(message)):
        config_io.load("", ["model.sharing=none", "model.num_groups=2"])


def test_unknown_keys_in_json_fail_with_the_nearest_one():
    with pytest.raises(ValueError, match="nearest valid one is 'model.num_layers'"):
        config_io.from_json('{"model": {"num_layer": 3}}')
    with pytest.raises(ValueError, match="unknown setting 'optimiser'"):
        config_io.from_json('{"optimiser": {}}')
    with pytest.raises(ValueError, match="the configuration must be JSON"):
        config_io.from_json("{")


OLD_SETTINGS = {
    "text": {"invalid_utf8": "refuse"},
    "data": {"ngram_law": "longer", "max_ngram": 5},
    "task": {"selection_rate": 0.1, "bad_examples": "refuse"},
}


def test_saved_settings_with_names_of_before_are_read():
    read = config_io.from_json(json.dumps(OLD_SETTINGS))
    assert read.text.invalid_utf8 == "error"
    assert (read.data.ngram_distribution, read.data.max_ngram) == ("longer", 5)
    assert read.task.selection_fraction == 0.1
    assert read.task.on_bad_example == "error"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("data.ngram_law", "data.ngram_distribution"),
        ("task.selection_rate", "task.selection_fraction"),
        ("task.bad_examples", "task.on_bad_example"),
    ],
)
def test_an_override_with_a_name_of_before_is_told_the_new_one(old, new):
    message = f"unknown setting {old!r}; its name is now {new!r}"
    with pytest.raises(ValueError, match=re.escape(message)):
        config_io.load("", [f"{old}=1"])


def test_a_damaged_configuration_is_named_by_its_path(tmp_path):
    path = tmp_path / "config.json"
    for content, message in (
        (b"{", " must be JSON; it is damaged"),
        (b"\xff", " must be JSON; .*utf-8"),
        (b'{"train": {"batch_size": 0}}', ": train.batch_size must be at least 1"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"^{re.escape(str(path))}{message}"):
            config_io.read(str(path))
        with pytest.raises(ValueError, match=f"^{re.escape(str(path))}{message}"):
            config_io.load(str(path))


def test_every_setting_of_a_number_has_a_rule():
    without = {
        f"{section.name}.{field.name}"
        for section in dataclasses.fields(config.Config)
        for field in dataclasses.fields(section.type)
        if field.type in (int, float) and not field.metadata
    }
    assert without == set()


def test_a_missing_recipe_names_those_there_are(tmp_path):
    with pytest.raises(ValueError, match="albert_base.py, albert_large.py"):
        config_io.load("configs/albert_bse.py")
    path = tmp_path / "empty.py"
    path.write_text("")
    with pytest.raises(ValueError, match=r"must define get_config\(\)"):
        config_io.load(str(path))


def test_predictions_follow_from_length_and_rate_unless_capped():
    uncapped = config.DataConfig(max_seq_length=128)
    assert uncapped.num_predictions == 19
    capped = dataclasses.replace(uncapped, max_predictions_per_seq=5)
    assert capped.num_predictions == 5
    assert config.DataConfig(max_predictions_per_seq=500).num_predictions == 77


def test_configurations_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        config_io.load("").model.num_layers = 3
