"""Output of `python -m albert_tf.describe`, and the paper's sizes beside ours."""

import json
import pathlib
import re
import subprocess
import sys

import pytest

from albert_tf import describe
from albert_tf.core import config, config_io
from albert_tf.model import cost_report, paper_sizes
from albert_tf.model import costs as costs_lib
from tests.support import binaries

DOC = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "model_sizes.md"
BASE = "configs/albert_base.py"
_ROW = re.compile(r"^\| (\w+) \| (\d+) \|.*? (\d+M) \|", re.MULTILINE)
PREFIXES = {"": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6, "Z": 7}


def printed(capsys, *arguments) -> str:
    binaries.run(describe, *arguments)
    return capsys.readouterr().out


def rows_of(text: str) -> dict[str, dict[str, str]]:
    """The labels and values of each section of one recipe's text."""
    sections: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        if not line.startswith(" "):
            rows = sections.setdefault(line, {})
        else:
            label, value = re.split(r" {2,}", line.strip())
            rows[label] = value
    return sections


# ---- One recipe ----


def test_text_says_the_numbers_of_json(capsys):
    values = json.loads(printed(capsys, f"--config={BASE}", "--json"))
    sections = rows_of(printed(capsys, f"--config={BASE}"))
    assert {k.replace(" ", "_"): v for k, v in sections["parameters"].items()} == {
        name: f"{number:,}" for name, number in values["parameters"].items()
    }
    found = {
        **sections["matrix products of the forward pass"],
        **{
            f"step {label}": value
            for label, value in sections["matrix products of a training step"].items()
        },
        **{
            f"activations {label}": value
            for label, value in sections["activations of a replica"].items()
        },
        **sections["other memory of a replica"],
    }
    expected = {
        **values["forward_flops"],
        **{f"step {name}": number for name, number in values["step_flops"].items()},
        "step all steps": values["training_flops"],
        **{
            f"activations {name}": number
            for name, number in values["activation_bytes"].items()
        },
        "activations each row": values["activation_bytes_per_row"],
        "gradients reduced per step": values["reduced_gradient_bytes"],
        "weights and optimizer slots": values["weight_and_slot_bytes"],
    }
    assert set(found) == {name.replace("_", " ") for name in expected}
    for name, number in expected.items():
        value, unit = found[name.replace("_", " ")].split()
        prefix = unit.removesuffix("FLOP").removesuffix("B")
        shown = float(value) * 1000 ** PREFIXES[prefix]
        assert shown == pytest.approx(number, rel=5e-4), name


def test_numbers_of_albert_base(capsys):
    text = printed(capsys, f"--config={BASE}")
    assert "L 12, H 768, E 128, 12 heads, F 3,072, V 30,000, shared: all" in text
    parameters = rows_of(text)["parameters"]
    assert parameters["encoder"] == "11,683,584"
    assert parameters["total"] == "11,813,810"
    assert "the paper prints 12M: encoder or with heads, rounded to 1M" in text


def test_settings_change_what_is_described(capsys):
    arguments = (
        f"--config={BASE}",
        "--set=model.sharing=attention",
        "--set=train.remat=block",
        "--set=train.compute_dtype=bfloat16",
        "--set=train.accumulation_steps=4",
        "--num_replicas=8",
    )
    values = json.loads(printed(capsys, *arguments, "--json"))
    assert values["parameters"]["encoder"] == 63_647_232
    assert values["model"]["sharing"] == "attention"
    assert values["training"]["num_replicas"] == 8
    assert values["step_flops"]["recomputed"] > 0
    # Of 128 sequences, 512 tokens, 768 values of two bytes: inputs of all blocks but
    # the last, for which little is computed again.
    assert values["activation_bytes"]["kept"] == 11 * 128 * 512 * 768 * 2
    text = printed(capsys, *arguments)
    assert "bfloat16, remat block, replicas 8, accumulation steps 4" in text
    assert "shared: attention" in text and "the paper prints 64M" in text


def test_stages_are_described_each_and_the_largest_in_full(capsys):
    """90% of the steps with 128 tokens, as BERT is trained."""
    settings = (
        "--set=train.num_steps=1000",
        "--set=optimizer.warmup_steps=10",
        "--set=train.stages=[{'num_steps': 900, 'max_seq_length': 128, 'batch_size': "
        "512}, {'num_steps': 100, 'batch_size': 256}]",
    )
    values = json.loads(printed(capsys, f"--config={BASE}", *settings, "--json"))
    short, long = values["stages"]
    parts = ((512, 128, 900), (256, 512, 100))
    for stage, (batch_size, length, num_steps) in zip(
        (short, long), parts, strict=True
    ):
        changes = (
            *(
                f"--set=train.batch_size={batch_size}",
                f"--set=train.num_steps={num_steps}",
            ),
            *(f"--set=data.max_seq_length={length}", "--set=optimizer.warmup_steps=10"),
        )
        plain = json.loads(printed(capsys, f"--config={BASE}", *changes, "--json"))
        assert stage["training_flops"] == plain["training_flops"]
        assert stage["activation_bytes"] == plain["activation_bytes"]["total"]
        assert stage["tokens_per_step"] == batch_size * length
    assert values["training_flops"] == short["training_flops"] + long["training_flops"]
    assert values["described_stage"] == 2
    assert values["activation_bytes"]["total"] == long["activation_bytes"]
    text = printed(capsys, f"--config={BASE}", *settings)
    assert "stage 1: 900 steps of 512 sequences, 128 tokens; a step " in text
    assert "\n100 steps of 256 sequences, 512 tokens (131,072 a step)" in text


def test_a_saved_configuration_is_described_as_its_recipe(capsys, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(config_io.to_json(config_io.load(BASE)))
    ours, saved = (
        json.loads(printed(capsys, f"--config={name}", "--json"))
        for name in (BASE, path)
    )
    assert (ours.pop("name"), saved.pop("name")) == (BASE, str(path))
    assert ours == saved


# ---- All recipes ----


def test_without_a_recipe_all_that_differ_stand_side_by_side(capsys):
    recipes = json.loads(printed(capsys, "--json"))["recipes"]
    names = [values["name"] for values in recipes]
    assert names[:7] == [
        "albert_base",
        "albert_large",
        "albert_xlarge",
        "albert_xxlarge",
        "bert_base",
        "bert_large",
        "bert_xlarge",
    ]
    assert "data_original" not in names  # its model is that of albert_base
    texts = [json.dumps(values["model"]) for values in recipes]
    assert len(set(texts)) == len(texts)
    text = printed(capsys, "--all")
    assert text == printed(capsys)
    for values in recipes:
        (sizes, costs) = re.findall(rf"^{values['name']} .*$", text, re.MULTILINE)
        for name in paper_sizes.COUNTS:
            assert f" {values['parameters'][name]:,} " in f"{sizes} "
        for reading in list(values["paper"].values())[:1]:
            assert sizes.endswith(reading)
        assert f" {values['tokens_per_step']:,} " in costs


def test_paper_sizes_and_which_counts_they_are():
    found = {
        (values["name"], printed): reading
        for values in cost_report.describe_all()
        for printed, reading in values["paper"].items()
    }
    assert found == {
        ("albert_base", "12M"): "encoder or with heads, rounded to 1M",
        ("albert_large", "18M"): "encoder or with heads, rounded to 1M",
        ("albert_xlarge", "60M"): "encoder or with heads, rounded to 10M",
        ("albert_xxlarge", "235M"): "none; with heads is nearest (-5.0%)",
        ("albert_xxlarge", "233M"): "none; with heads is nearest (-4.2%)",
        ("bert_base", "108M"): "without pooler, rounded to 1M",
        ("bert_large", "334M"): "without pooler, rounded to 1M",
        ("bert_xlarge", "1270M"): "without pooler, rounded to 10M",
    }


def test_the_paper_leaves_the_pooler_out_where_nothing_is_shared_and_only_there():
    for (layers, hidden, embedding, sharing), sizes in paper_sizes.PRINTED.items():
        if hidden == 4096:
            continue  # 235M and 233M are none of our counts
        model = config.ModelConfig(
            num_layers=layers,
            hidden_size=hidden,
            embedding_size=embedding,
            sharing=sharing,
            num_heads=hidden // 64,
            intermediate_size=4 * hidden,
        )
        assert paper_sizes.printed_sizes(model) == sizes
        reading = paper_sizes.reading(sizes[0], costs_lib.count_parameters(model))
        counts = reading.split(", rounded")[0].split(" or ")
        assert ("without pooler" if sharing == "none" else "encoder") in counts, model
        if sharing == "none":
            assert counts == ["without pooler"], model


@pytest.mark.parametrize(
    "changes",
    [{"num_layers": 6}, {"vocab_size": 8000}, {"num_groups": 2}],
    ids=["depth", "vocabulary", "groups"],
)
def test_models_that_the_paper_does_not_have_are_compared_with_nothing(changes):
    assert paper_sizes.printed_sizes(config.ModelConfig()) == ("12M",)
    assert paper_sizes.printed_sizes(config.ModelConfig(**changes)) == ()


# ---- The tables of the documentation ----


def test_the_page_of_model_sizes_holds_what_the_command_prints(capsys):
    tables = printed(capsys, "--tables")
    text = DOC.read_text(encoding="utf-8")
    begin, end = "<!-- begin of tables -->\n", "<!-- end of tables -->\n"
    assert text.count(begin) == text.count(end) == 1
    within = text.partition(begin)[2].partition(end)[0]
    assert within.strip() == tables.strip(), (
        f"{DOC.name}: put between its two markers what `python -m albert_tf.describe "
        "--tables` prints"
    )


def test_tables_hold_the_papers_rows(capsys):
    tables = printed(capsys, "--tables")
    _, sizes, sharing = re.split(r"### (?:Embedding size|Sharing)\n", tables)
    assert _ROW.findall(sizes) == [
        ("none", "64", "87M"),
        ("none", "128", "89M"),
        ("none", "256", "93M"),
        ("none", "768", "108M"),
        ("all", "64", "10M"),
        ("all", "128", "12M"),
        ("all", "256", "16M"),
        ("all", "768", "31M"),
    ]
    assert _ROW.findall(sharing) == [
        ("all", "768", "31M"),
        ("attention", "768", "83M"),
        ("feed_forward", "768", "57M"),
        ("none", "768", "108M"),
        ("all", "128", "12M"),
        ("attention", "128", "64M"),
        ("feed_forward", "128", "38M"),
        ("none", "128", "89M"),
    ]
    row = "| attention | 128 | 4,005,120 | 2,363,904 | 56,687,616 | 63,647,232 |"
    assert row in sharing


# ---- The command ----


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--config=configs/finetune_rte.py"],
            "`python -m albert_tf.finetune` trains tasks",
        ),
        (
            ["--config=configs/albert_bse.py"],
            "nearest is 'albert_base.py'. Recipes there",
        ),
        ([f"--config={BASE}", "--set=model.num_layer=6"], "'model.num_layers'"),
        ([f"--config={BASE}", "--set=model.sharing=some"], "must be one of all, att"),
        ([f"--config={BASE}", "--num_replicas=3"], "received 4096, 3 and 1"),
        (["--all", "--num_replicas=3"], "albert_base.py: train.batch_size must be a"),
        ([f"--config={BASE}", "--all"], "--config, --all and --tables are mutually"),
        (["--tables", "--all"], "--config, --all and --tables are mutually"),
        (["--tables", "--json"], "omit --set, --json and --num_replicas"),
        (["--tables", "--set=train.seed=2"], "omit --set, --json and"),
        ([BASE], "arguments must be flags; received 'configs/albert_base.py'"),
    ],
)
def test_errors_are_one_line_that_says_what_to_fix(capsys, arguments, message):
    assert message in binaries.error_of(capsys, describe, *arguments)


def test_tensorflow_is_not_needed():
    code = (
        "import sys; from albert_tf import describe; "
        "from albert_tf.model import cost_report; cost_report.show_tables(); "
        "print('tensorflow' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    assert result.stdout == "False\n"
