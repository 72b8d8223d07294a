"""Descriptions of what recipes cost, as nested values, text and Markdown tables.

Nothing is built, and TensorFlow is not needed. `costs` says what is counted.
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from albert_tf.core import config as config_lib
from albert_tf.core import config_io, recipes
from albert_tf.core import stages as stages_lib
from albert_tf.model import costs as costs_lib
from albert_tf.model import paper_sizes

RECIPES_DIR = pathlib.Path(recipes.FOLDER)

# The rows of the paper's tables 3 and 4.
_BY_EMBEDDING_SIZE = tuple(itertools.product(("none", "all"), (64, 128, 256, 768)))
_BY_SHARING = tuple((s, e) for e in (768, 128) for s in config_lib.SHARINGS)
# Prefixes of 1000, 1000 ** 2 and so on.
_PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z", "Y", "R")
_PAPER_COLUMNS = ("paper", "the paper's figure is")

Table = tuple[Sequence[str], Sequence[Sequence[str]]]


# ---- Recipes ----


def describe(
    path: str, overrides: Iterable[str] = (), num_replicas: int = 1
) -> dict[str, Any]:
    """Returns the costs of one recipe as nested values that JSON can hold.

    Args:
      path: a recipe or a config.json.
      overrides: `key.sub=value` strings.
      num_replicas: devices that share a batch.

    Raises:
      ValueError: the recipe, an override or the division of the batch is wrong.
    """
    config = config_io.load(path, overrides)
    config.check_pretraining()
    return _with_settings(path, config, num_replicas)


def describe_all(
    overrides: Iterable[str] = (), num_replicas: int = 1
) -> list[dict[str, Any]]:
    """Returns the costs of all pre-training recipes, the first for each model.

    Args:
      overrides: `key.sub=value` strings, for each of them.
      num_replicas: devices that share a batch.

    Raises:
      ValueError: an override or the division of a batch is wrong.
    """
    overrides = list(overrides)
    recipes: dict[config_lib.ModelConfig, dict[str, Any]] = {}
    for path in sorted(RECIPES_DIR.glob("[!_]*.py")):
        if config_io.load(str(path)).task.name:
            continue  # fine-tuning: the model is that of another run
        try:
            config = config_io.load(str(path), overrides)
            values = _with_settings(path.stem, config, num_replicas)
        except ValueError as error:
            raise ValueError(f"{path.name}: {error}") from error
        recipes.setdefault(config.model, values)
    return list(recipes.values())


def _with_settings(
    name: str, config: config_lib.Config, num_replicas: int
) -> dict[str, Any]:
    stages = stages_lib.split(config)
    found = [costs_lib.recipe_costs(stage.config, num_replicas) for stage in stages]
    # Of several stages, the one that needs most memory.
    place = max(range(len(stages)), key=lambda i: found[i].activation_bytes.total)
    costs, shown = found[place], stages[place].config
    of_stages = {
        "stages": [
            _stage_values(stage, costs)
            for stage, costs in zip(stages, found, strict=True)
        ],
        "described_stage": place + 1,
    }
    return {
        "name": name,
        "model": dataclasses.asdict(config.model),
        "training": {
            "num_steps": config.train.num_steps,
            "batch_size": shown.train.batch_size,
            "accumulation_steps": shown.train.accumulation_steps,
            "num_replicas": num_replicas,
            "max_seq_length": shown.data.max_seq_length,
            **_row(shown),
            "compute_dtype": shown.train.compute_dtype,
            "remat": shown.train.remat,
            "queries_at_once": shown.train.queries_at_once,
        },
        **costs_lib.to_dict(costs),
        "training_flops": sum(
            stage.num_steps * costs.step_flops.total
            for stage, costs in zip(stages, found, strict=True)
        ),
        **(of_stages if config.train.stages else {}),
        "paper": {
            printed: paper_sizes.reading(printed, costs.parameters)
            for printed in paper_sizes.printed_sizes(config.model)
        },
    }


def _stage_values(stage: stages_lib.Stage, costs: costs_lib.Costs) -> dict[str, Any]:
    return {
        "num_steps": stage.num_steps,
        "batch_size": stage.config.train.batch_size,
        "accumulation_steps": stage.config.train.accumulation_steps,
        "max_seq_length": stage.config.data.max_seq_length,
        **_row(stage.config),
        "tokens_per_step": costs.tokens_per_step,
        "step_flops": costs.step_flops.total,
        "training_flops": stage.num_steps * costs.step_flops.total,
        "activation_bytes": costs.activation_bytes.total,
    }


def _row(config: config_lib.Config) -> dict[str, int]:
    row = config.data.row
    return {
        "row_length": row.length,
        "row_sequences": max(1, row.num_sequences),
        "num_predictions": row.num_predictions,
    }


# ---- Text ----


def show(values: Mapping[str, Any]) -> str:
    """Returns one recipe as text with aligned columns.

    Args:
      values: result of `describe`.
    """
    model, training = values["model"], values["training"]
    sections: dict[str, dict[str, str]] = {
        "parameters": _exact(values["parameters"]),
        "matrix products of the forward pass": _scaled_all(
            values["forward_flops"], "FLOP"
        ),
        "matrix products of a training step": _scaled_all(values["step_flops"], "FLOP")
        | {"all steps": _scaled(values["training_flops"], "FLOP")},
        "activations of a replica": _scaled_all(values["activation_bytes"], "B")
        | {"each row": _scaled(values["activation_bytes_per_row"], "B")},
        "other memory of a replica": {
            "gradients reduced per step": _scaled(
                values["reduced_gradient_bytes"], "B"
            ),
            "weights and optimizer slots": _scaled(
                values["weight_and_slot_bytes"], "B"
            ),
        },
    }
    label_width = max(len(label) for rows in sections.values() for label in rows)
    value_width = max(len(v) for rows in sections.values() for v in rows.values())
    lines = [
        f"{values['name']}: L {model['num_layers']}, H {model['hidden_size']:,}, "
        f"E {model['embedding_size']:,}, {model['num_heads']} heads, "
        f"F {model['intermediate_size']:,}, V {model['vocab_size']:,}, "
        f"shared: {_sharing(model)}",
        *_stage_lines(values),
        f"{_described_steps(values):,} steps of {_batch(training)} "
        f"({values['tokens_per_step']:,} a step), "
        f"{training['num_predictions']} predictions",
        f"{training['compute_dtype']}, remat {training['remat']}, "
        f"{_queries(training)}replicas "
        f"{training['num_replicas']}, accumulation steps "
        f"{training['accumulation_steps']}",
    ]
    for title, rows in sections.items():
        lines += ["", title]
        lines += [
            f"  {label:<{label_width}}  {value:>{value_width}}"
            for label, value in rows.items()
        ]
    for printed, reading in values["paper"].items():
        lines += ["", f"the paper prints {printed}: {reading}"]
    return "\n".join(lines)


def _queries(training: Mapping[str, Any]) -> str:
    """Returns how attention is computed, as text; "" if not in parts."""
    number = training["queries_at_once"]
    return f"{number:,} queries at once, " if number else ""


def _batch(of: Mapping[str, Any]) -> str:
    """Returns the rows of a batch, of a recipe or a stage, as text."""
    if of["row_sequences"] == 1:
        return f"{of['batch_size']:,} sequences, {of['max_seq_length']} tokens"
    return (
        f"{of['batch_size']:,} rows of up to {of['row_sequences']} sequences, "
        f"{of['row_length']} tokens"
    )


def _stage_lines(values: Mapping[str, Any]) -> list[str]:
    """Returns a line for each stage, if the recipe names any."""
    stages = values.get("stages", [])
    lines = [
        f"stage {number}: {stage['num_steps']:,} steps of {_batch(stage)}; a step "
        f"{_scaled(stage['step_flops'], 'FLOP')}, all "
        f"{_scaled(stage['training_flops'], 'FLOP')}, activations of a replica "
        f"{_scaled(stage['activation_bytes'], 'B')}"
        for number, stage in enumerate(stages, 1)
    ]
    if lines:
        lines.append(
            f"below: stage {values['described_stage']}, which needs most memory; "
            '"all steps" are those of all stages'
        )
    return lines


def _described_steps(values: Mapping[str, Any]) -> int:
    """Returns the steps of the recipe, or of the stage that is described."""
    if "stages" in values:
        return values["stages"][values["described_stage"] - 1]["num_steps"]
    return values["training"]["num_steps"]


def show_all(recipes: Sequence[Mapping[str, Any]]) -> str:
    """Returns recipes side by side as text, with the sizes that the paper prints.

    Args:
      recipes: result of `describe_all`.
    """
    return "\n\n".join(
        _aligned(table) for table in (_sizes_table(recipes), _costs_table(recipes))
    )


def show_tables() -> str:
    """Returns the tables of docs/model_sizes.md, in Markdown."""
    recipes = describe_all()
    parts = (
        ("Recipes", _sizes_table(recipes)),
        ("What training them takes", _costs_table(recipes)),
        ("Embedding size", _variants_table(_BY_EMBEDDING_SIZE)),
        ("Sharing", _variants_table(_BY_SHARING)),
    )
    return "\n\n".join(f"### {title}\n\n{_markdown(table)}" for title, table in parts)


def _sharing(model: Mapping[str, Any]) -> str:
    text = str(model["sharing"])
    for name in ("num_groups", "num_inner_groups"):
        if model[name] > 1:
            text += f", {name} {model[name]}"
    return text


def _sizes_table(recipes: Sequence[Mapping[str, Any]]) -> Table:
    header = ("recipe", "L", "H", "E", "shared", *paper_sizes.COUNTS.values())
    rows: list[Sequence[str]] = []
    for values in recipes:
        model, parameters = values["model"], values["parameters"]
        row = [
            values["name"],
            f"{model['num_layers']}",
            f"{model['hidden_size']:,}",
            f"{model['embedding_size']:,}",
            _sharing(model),
            *(f"{parameters[name]:,}" for name in paper_sizes.COUNTS),
        ]
        (first, *others) = values["paper"].items() or [("", "")]
        rows.append((*row, *first))
        # If the paper prints two figures, the second is on a row of its own.
        rows += [(*[""] * len(row), *other) for other in others]
    return (*header, *_PAPER_COLUMNS), rows


def _costs_table(recipes: Sequence[Mapping[str, Any]]) -> Table:
    header = (
        "recipe",
        "tokens a step",
        "forward, a row",
        "a step",
        "all steps",
        "activations, a row",
        "gradients reduced",
        "weights and slots",
    )
    rows = []
    for values in recipes:
        forward = values["forward_flops"]["total"] // values["training"]["batch_size"]
        rows.append(
            (
                values["name"],
                f"{values['tokens_per_step']:,}",
                _scaled(forward, "FLOP"),
                _scaled(values["step_flops"]["total"], "FLOP"),
                _scaled(values["training_flops"], "FLOP"),
                _scaled(values["activation_bytes_per_row"], "B"),
                _scaled(values["reduced_gradient_bytes"], "B"),
                _scaled(values["weight_and_slot_bytes"], "B"),
            )
        )
    return header, rows


def _variants_table(variants: Iterable[tuple[str, int]]) -> Table:
    """Returns ALBERT base, which is the default model, with other sharing and E."""
    header = ("shared", "E", "embeddings", "attention", "feed-forward")
    rows = []
    for sharing, embedding_size in variants:
        model = config_lib.ModelConfig(embedding_size=embedding_size, sharing=sharing)
        parameters = costs_lib.count_parameters(model)
        blocks = (parameters.attention, parameters.feed_forward)
        embeddings = parameters.encoder_without_pooler - sum(blocks)
        counts = (getattr(parameters, name) for name in paper_sizes.COUNTS)
        (printed,) = paper_sizes.printed_sizes(model)
        rows.append(
            (
                sharing,
                f"{embedding_size}",
                *(f"{number:,}" for number in (embeddings, *blocks, *counts)),
                printed,
                paper_sizes.reading(printed, parameters),
            )
        )
    return (*header, *paper_sizes.COUNTS.values(), *_PAPER_COLUMNS), rows


def _exact(numbers: Mapping[str, int]) -> dict[str, str]:
    return {name.replace("_", " "): f"{number:,}" for name, number in numbers.items()}


def _scaled_all(numbers: Mapping[str, int], unit: str) -> dict[str, str]:
    return {
        name.replace("_", " "): _scaled(number, unit)
        for name, number in numbers.items()
    }


def _scaled(number: int, unit: str) -> str:
    """Formats four digits with a decimal prefix: 12345678, "B" is "12.35 MB"."""
    value, power = float(number), 0
    while value >= 999.95 and power < len(_PREFIXES) - 1:
        value, power = value / 1000, power + 1
    return f"{value:#.4g} {_PREFIXES[power]}{unit}" if power else f"{number} {unit}"


def _aligned(table: Table) -> str:
    header, rows = table
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    # Numbers are right-aligned, words left-aligned.
    signs = ["<" if _is_text(column[1:]) else ">" for column in columns]
    return "\n".join(
        "  ".join(
            f"{cell:{sign}{width}}"
            for cell, sign, width in zip(row, signs, widths, strict=True)
        ).rstrip()
        for row in (header, *rows)
    )


def _markdown(table: Table) -> str:
    header, rows = table
    columns = list(zip(*rows, strict=True))
    rule = ["---" if _is_text(column) else "---:" for column in columns]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, rule, *rows))


def _is_text(cells: Sequence[str]) -> bool:
    return not all(cell[0].isdigit() for cell in cells if cell)
