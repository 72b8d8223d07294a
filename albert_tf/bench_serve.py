r"""How fast an exported model answers, beside Hugging Face's on PyTorch.

  python -m albert_tf.bench_serve --rounds=5
  python -m albert_tf.bench_serve --model_dir=RUN --batch_sizes=1,8

A pre-trained run (by default one of base size with drawn weights and sequences of 128
tokens) is exported in float32, in bfloat16 and for TensorFlow Lite in eight bits (the
row "lite", among those of float32), and converted for transformers. Then all
answer the same texts, which are as long as the sequence: strings in, the sequence
output and the pooled one out as arrays. They take turns, as in albert_tf.bench_model.
"""

import dataclasses
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence

import numpy as np
from absl import flags

from albert_tf import binary
from albert_tf import config as config_lib
from albert_tf.interchange import names, ours, portable, tables
from albert_tf.model_speed import cases, contest, matrix_probe, results

_LENGTH = 128
_PARTS = (
    portable.ENCODER,
    portable.POOLER,
    portable.MASKED_LM,
    portable.SENTENCE_ORDER,
)
_VOCAB_SIZE = 2000
# Of two hidden values, which are of size 1, added up.
_MOST_DIFFERENCE = 1e-3
_MOST_DIFFERENCE_ROUNDED = 0.5
# Each is so long that a turn at batch 1 does not find cold caches alone.
_CALLS_AT_BATCH_1 = 10
# Its matrices have eight bits, what lies between is float32.
_LITE = "lite"


def define_flags(values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags: here, so that another binary's can live in one process."""
    run = "Folder of a pre-training to measure, in the place of a drawn model."
    flags.DEFINE_string("model_dir", "", run, values)
    flags.DEFINE_list("batch_sizes", ["1", "32"], "Texts of a call.", values)
    flags.DEFINE_integer("rounds", 5, "Turns of each.", 1, None, flag_values=values)
    flags.DEFINE_bool("no_peers", False, "Measures this project alone.", values)


def draw_run(folder: str, model: config_lib.ModelConfig) -> str:
    """Writes a run whose weights were never trained; returns its folder.

    All its weights are drawn, biases too: zeros would be left out of a graph. Its
    vocabulary is trained on this project's documentation.

    Raises:
      ValueError: that failed.
    """
    vocab = os.path.join(folder, "vocab.model")
    _call(
        "data_prep.train_vocab",
        f"--input={contest.ROOT / 'docs' / '*.md'}",
        f"--output={vocab}",
        f"--vocab_size={model.vocab_size}",
    )
    made = portable.Portable(
        model, _draw_weights(model), vocab=pathlib.Path(vocab).read_bytes()
    )
    run = os.path.join(folder, "run")
    os.mkdir(run)
    recipe = config_lib.Config(
        data=config_lib.DataConfig(max_seq_length=min(_LENGTH, model.max_positions))
    )
    ours.write(made, run, recipe, tables.Report())
    return run


def make_contestants(run: str, folder: str, length: int) -> list[cases.Contestant]:
    """Exports and converts a run; returns all who can answer.

    Args:
      run: its folder.
      folder: for what is made of it.
      length: of its sequences, in tokens.

    Raises:
      ValueError: the run cannot be exported or converted.
    """
    text = os.path.join(folder, "text")
    pathlib.Path(text).write_text(_long_text(length))
    converted = os.path.join(folder, "hf")
    _call("albert_tf.convert", f"--from=run:{run}", f"--to=hf:{converted}")
    found = []
    for dtype in cases.DTYPES:
        saved = os.path.join(folder, dtype)
        _call(
            "albert_tf.export",
            f"--model_dir={run}",
            f"--output_dir={saved}",
            f"--compute_dtype={dtype}",
        )
        found.append(
            _contestant(cases.OWN, "", dtype, "own_serving", folder=saved, text=text)
        )
        if dtype == cases.FLOAT32:
            lite = os.path.join(folder, "lite")
            form = f"--form={_LITE}"
            _call(
                "albert_tf.export", f"--model_dir={run}", f"--output_dir={lite}", form
            )
            found.append(
                _contestant(cases.OWN, _LITE, dtype, "own_lite", folder=lite, text=text)
            )
        for form, variables in (
            ("eager", {}),
            ("tuned", cases.TUNED_MALLOC),
            ("compiled", cases.TUNED_MALLOC),
        ):
            peer = _contestant(
                "transformers",
                form,
                dtype,
                "torch_serving",
                folder=converted,
                text=text,
                compiled=form == "compiled",
            )
            found.append(
                dataclasses.replace(peer, environment="torch", variables=variables)
            )
    return found


def check_agreement(outcomes: Sequence[contest.Outcome]) -> None:
    """Raises ValueError where contestants of one precision gave different numbers.

    Where weights are rounded, to bfloat16 or to eight bits, the numbers may differ by
    more.
    """
    values = [one.first_value for one in outcomes]
    for one in outcomes:
        contestant = one.contestant
        is_exact = contestant.dtype == cases.FLOAT32 and contestant.form != _LITE
        most = _MOST_DIFFERENCE if is_exact else _MOST_DIFFERENCE_ROUNDED
        if abs(one.first_value - values[0]) > most:
            raise ValueError(
                "all must compute the same; their first outputs sum up to "
                f"{', '.join(map(str, values))}"
            )


def ratios(outcomes: Sequence[contest.Outcome]) -> list[str]:
    """How many times as fast as each peer this project's model is, in a line each."""
    own = [one for one in outcomes if not one.contestant.is_peer]
    peers = [one for one in outcomes if one.contestant.is_peer]
    return [
        f"{one.contestant.name}: {results.speed_ratio(one, peer):.2f} times "
        f"the speed of {peer.contestant.name}"
        for one in own
        for peer in peers
    ]


def bench(values: flags.FlagValues) -> None:
    """Measures what the flags ask for, and prints it.

    Raises:
      ValueError: a flag's value is wrong, or this project's own model failed.
    """
    sizes = [_batch_size(text) for text in values.batch_sizes]
    probe = matrix_probe.MatrixProbe()
    with tempfile.TemporaryDirectory(prefix="bench_serve") as folder:
        base = config_lib.ModelConfig(vocab_size=_VOCAB_SIZE)
        run = values.model_dir or draw_run(folder, base)
        config = config_lib.from_json(pathlib.Path(run, "config.json").read_text())
        length = config.data.max_seq_length
        contestants = make_contestants(run, folder, length)
        print(f"{os.cpu_count()} cores, load before {os.getloadavg()[0]:.1f}")
        for size in sizes:
            case = cases.Case(
                f"serving-{size}x{length}",
                cases.SERVING,
                config.model,
                size,
                length,
                num_predictions=1,  # of the batch of ids, which nobody looks at
                num_calls=_CALLS_AT_BATCH_1 if size == 1 else 1,
            )
            for dtype in cases.DTYPES:
                group = [
                    one
                    for one in contestants
                    if one.dtype == dtype and not (values.no_peers and one.is_peer)
                ]
                outcomes, missing = contest.measure(
                    case, group, values.rounds, probe.rate, _start
                )
                print(f"\n{results.speed_table(case, outcomes, missing)}")
                print("\n".join(ratios(outcomes)), flush=True)
                check_agreement(outcomes)
                for one in group:
                    if one.name in missing and not one.is_peer:
                        raise ValueError(f"{one.name} could not be measured")


def _draw_weights(model: config_lib.ModelConfig) -> dict[str, np.ndarray]:
    """Of encoder and heads, by name."""
    rng = np.random.default_rng(1)
    drawn = {}
    for name, shape in names.shapes_of(model, _PARTS).items():
        weight = rng.normal(0.0, model.initializer_range, shape)
        drawn[name] = (weight + name.endswith("/gamma")).astype(np.float32)
    return drawn


def _contestant(family, form, dtype, module, **options) -> cases.Contestant:
    module = f"albert_tf.model_speed.{module}"
    return cases.Contestant(family, form, dtype, module, "", options, (cases.SERVING,))


def _long_text(length: int) -> str:
    """Words of the documentation, at least as many tokens as asked for."""
    words = (contest.ROOT / "README.md").read_text().split()
    # Marks of code are left out: transformers makes quotation marks of some.
    plain = [word for word in words if word.isalpha()]
    return " ".join((plain * (1 + length // len(plain)))[:length])


def _start(contestant: cases.Contestant, case: cases.Case) -> contest.Process:
    python = contest.find_python(contestant.environment)
    return contest.Process(python, contestant, case)


def _batch_size(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"--batch_sizes must be numbers from 1 on; received {text!r}")
    return int(text)


def _call(module: str, *arguments: str) -> None:
    """Runs another binary.

    Raises:
      ValueError: it failed; with the last line that it said.
    """
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=contest.ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise ValueError(f"{module} ended with code {done.returncode}: {last}")


def main(argv: Sequence[str], flag_values: flags.FlagValues = flags.FLAGS) -> None:
    """Measures and prints."""
    with binary.user_errors():
        binary.refuse_arguments(argv)
        bench(flag_values)


if __name__ == "__main__":
    binary.run(main, define_flags)
