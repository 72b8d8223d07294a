"""The path of the documentation: weights, fine-tuning, export, server."""

import dataclasses
import importlib
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import urllib.request

import pytest

from albert_tf.core import config
from albert_tf.interchange import conversion, weight_map
from tests.repository import documented_commands, project_files
from tests.support import binaries, portable_models, small_run, weight_server

PAGE = "docs/use_cases/from_hugging_face.md"
TIMEOUT = 60


def _write_model(folder: pathlib.Path) -> pathlib.Path:
    drawn = portable_models.draw("one_layer", vocab_size=4000, max_positions=32)
    model = dataclasses.replace(drawn, vocab=small_run.VOCAB.read_bytes())
    folder.mkdir()
    report = weight_map.ConversionReport()
    conversion.write("hf", model, str(folder), config.Config(), report)
    return folder


def _write_reviews(folder: pathlib.Path) -> None:
    folder.mkdir()
    rng = random.Random(3)
    for name, count in (("train", 24), ("dev", 8)):
        lines = ["review,stars"]
        for _ in range(count):
            stars, word = rng.choice([(1, "dull"), (5, "fine")])
            lines.append(f'"A {word} book, number {rng.randint(1, 99)}.",{stars}')
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


@pytest.mark.slow
def test_published_weights_are_served_by_the_four_commands_of_the_page(
    tmp_path, monkeypatch, capsys
):
    text = (project_files.ROOT / PAGE).read_text()
    block = re.search(r"```sh\n.*?```\n", text, re.S).group()
    commands = list(documented_commands.find(block))
    fetch, *others, serve = commands
    assert [command.module for command in commands] == [
        *("albert_tf.convert", "albert_tf.finetune", "albert_tf.export"),
        "albert_tf.serve",
    ]
    monkeypatch.chdir(tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(project_files.ROOT)}
    with weight_server.running() as hub:
        hub.models["albert/albert-base-v2"] = _write_model(tmp_path / "published")
        there = {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "cache")}
        done = subprocess.run(
            [sys.executable, "-m", fetch.module, *fetch.arguments],
            env={**environment, **there},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("fetching 4 files, ")
    assert not [path for path in hub.asked if "agent" in path]  # the client's own
    _write_reviews(tmp_path / "reviews")
    for command in others:
        # In this process, which has imported TensorFlow.
        binaries.run(importlib.import_module(command.module), *command.arguments)
    capsys.readouterr()
    # At a free port: another program may listen at that of the page.
    process = subprocess.Popen(
        [sys.executable, "-m", serve.module, *serve.arguments, "--port=0"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        address = process.stdout.readline().removeprefix("ready at ").strip()
        asked = json.dumps({"examples": [{"text": "A fine book."}]}).encode()
        request = urllib.request.Request(
            f"{address}/v1/classify", asked, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            answer = json.load(response)
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT)
    (found,) = answer["answers"]
    assert found["label"] in ("1", "5")
