"""The complete demonstration: stages, summary and report."""

import os

from albert_tf.core import config as config_lib
from albert_tf.core import config_io, files
from albert_tf.data import schema
from albert_tf.demonstration import stages
from albert_tf.demonstration import summary as summary_lib

_SUMMARY_FILE = "summary.json"


def saved_model_dir(output_dir: str) -> str:
    """Returns the directory of the exported model."""
    return os.path.join(output_dir, stages.SAVED_MODEL)


def run(output_dir: str, config: config_lib.Config) -> str:
    """Runs all stages that are not done, and writes summary.json and the report.

    Args:
      output_dir: created, or that of an earlier call to resume.
      config: the recipe.

    Returns:
      Lines with the main figures.

    Raises:
      ValueError: a stage failed.
    """
    os.makedirs(output_dir, exist_ok=True)
    recipe = os.path.join(output_dir, schema.CONFIG_FILE)
    with open(recipe, "w", encoding="utf-8") as file:
        file.write(config_io.to_json(config))
    to_do = stages.make_stages(output_dir, recipe, config)
    seconds = stages.run_stages(output_dir, to_do, config_io.to_json(config))
    summary = summary_lib.summarize(output_dir, seconds)
    model_dir = os.path.join(output_dir, stages.RUN)
    for folder in (output_dir, model_dir):
        files.write_json(os.path.join(folder, _SUMMARY_FILE), summary)
    report = os.path.join(output_dir, "report")
    command = ("albert_tf.report", model_dir, f"--output_dir={report}")
    stages.run_stage(stages.Stage("report", report, command), "report")
    return summary_lib.closing_lines(summary, os.path.join(report, "index.html"))
