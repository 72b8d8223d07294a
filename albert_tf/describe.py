"""Describes what a recipe costs: parameters, matrix products and memory, by arithmetic.

python -m albert_tf.describe --config=configs/albert_base.py [--set model.num_layers=6]
python -m albert_tf.describe [--all]     all recipes side by side, and the paper's sizes
python -m albert_tf.describe --tables    the tables of docs/model_sizes.md

With --json one JSON object instead of text. Nothing is built, and TensorFlow is not
needed. For what is counted see albert_tf/model/costs.py.
"""

import json
from collections.abc import Sequence

from absl import flags

from albert_tf.core import cli
from albert_tf.model import cost_report


def define_flags(flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags in `flag_values`, so that tests can give each its own."""
    flags.DEFINE_string(
        "config", "", "Recipe (configs/NAME.py) or a config.json.", flag_values
    )
    flags.DEFINE_multi_string(
        "set", [], "Changes one setting: key.sub=value. Repeatable.", flag_values
    )
    flags.DEFINE_bool(
        "all",
        False,
        "All recipes side by side; the default without --config.",
        flag_values,
    )
    flags.DEFINE_bool(
        "tables", False, "The tables of docs/model_sizes.md.", flag_values
    )
    flags.DEFINE_bool("json", False, "JSON instead of text.", flag_values)
    flags.DEFINE_integer(
        "num_replicas", 1, "Devices that share a batch.", 1, flag_values=flag_values
    )


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Prints the costs that the flags select."""
    path, overrides = flag_values.config, flag_values.set
    num_replicas, as_json = flag_values.num_replicas, flag_values.json
    with cli.user_errors():
        cli.refuse_arguments(argv)
        if bool(path) + flag_values.all + flag_values.tables > 1:
            raise ValueError(
                "--config, --all and --tables are mutually exclusive; give one of them"
            )
        if flag_values.tables:
            if overrides or as_json or num_replicas > 1:
                raise ValueError(
                    "--tables takes no other flag: the tables describe the recipes "
                    "as they are; omit --set, --json and --num_replicas"
                )
            print(cost_report.show_tables())
        elif path:
            values = cost_report.describe(path, overrides, num_replicas)
            text = cost_report.show(values)
            print(json.dumps(values, indent=2) if as_json else text)
        else:
            recipes = cost_report.describe_all(overrides, num_replicas)
            text = cost_report.show_all(recipes)
            print(json.dumps({"recipes": recipes}, indent=2) if as_json else text)


if __name__ == "__main__":
    cli.run(main, define_flags)
