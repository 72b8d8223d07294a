"""Tables of measured figures on the pages are those of the JSON beside them."""

import json
import statistics

import pytest

from tests.repository import project_files

DOCS = project_files.ROOT / "docs"
# How docs/serving.md calls what bench-serve measured: family and form.
_IMPLEMENTATIONS = {
    ("albert_tf", ""): "SavedModel",
    ("albert_tf", "openvino"): "OpenVINO",
    ("albert_tf", "lite"): "TensorFlow Lite, eight bits",
    ("albert_tf", "openvino-int8"): "OpenVINO, eight bits",
    ("transformers", "eager"): "transformers",
    ("transformers", "tuned"): "transformers, tuned",
    ("transformers", "compiled"): "transformers, compiled",
    ("transformers", "onnxruntime"): "transformers on ONNX Runtime",
    ("transformers", "onnxruntime-int8"): "transformers on ONNX Runtime, eight bits",
    ("keras_hub", "jit"): "KerasHub, compiled by XLA",
}
_PRECISIONS = ("float32", "bfloat16", "eight bits")


def _read(path):
    return json.loads((DOCS / path).read_text())


def _require(page, lines):
    table = "\n".join(lines)
    assert f"\n{table}\n\n" in (DOCS / page).read_text(), f"{page} needs\n{table}"


def _cells(*cells):
    return f"| {' | '.join(cells)} |".replace("|  |", "| |")


def _serving_times():
    """Seconds by precision, implementation and number of texts, in the order found."""
    times, tokens = {}, {}
    for group in _read("serving/speed.json"):
        case = group["case"]
        size = case["batch_size"]
        tokens[size] = size * case["length"]
        assert not group["missing"]
        for outcome in group["outcomes"]:
            one = outcome["contestant"]
            name = _IMPLEMENTATIONS[one["family"], one["form"]]
            precision = "eight bits" if "eight" in name else one["dtype"]
            seconds = [statistics.median(turn["seconds"]) for turn in outcome["turns"]]
            by_size = times.setdefault((precision, name.split(", eight")[0]), {})
            by_size[size] = statistics.median(seconds)
    return times, tokens


def test_speeds_of_serving_are_those_of_the_figures():
    times, tokens = _serving_times()
    assert tokens == {1: 128, 32: 4096}
    _require(
        "serving.md",
        [
            _cells(
                precision,
                name,
                f"{1e3 * seconds[1]:,.0f}",
                f"{tokens[32] / seconds[32]:,.0f}",
            )
            for precision in _PRECISIONS
            for (of, name), seconds in times.items()
            if of == precision
        ],
    )


def test_ratios_of_serving_are_those_of_the_figures():
    ratios, shares, throughput = [], [], {}
    for group in sorted(_read("serving/speed.json"), key=_dtype, reverse=True):
        turns = {
            (one["contestant"]["family"], one["contestant"]["form"]): one["turns"]
            for one in group["outcomes"]
        }
        seconds = {
            name: [statistics.median(turn["seconds"]) for turn in of_rounds]
            for name, of_rounds in turns.items()
        }
        others = [name for name in seconds if name[0] != "albert_tf"]
        fastest = min(others, key=lambda name: statistics.median(seconds[name]))
        own = "albert_tf", "openvino"
        pairs = zip(seconds[fastest], seconds[own], strict=True)
        ratios.append(f"{statistics.median(a / b for a, b in pairs):.2f}")
        share = statistics.median(
            group["case"]["flops"] / one / statistics.mean(turn["matmul_rates"])
            for one, turn in zip(seconds[own], turns[own], strict=True)
        )
        shares.append(f"{share:.0%}"[:-1])
        for name in (own, ("albert_tf", "openvino-int8")):
            if group["case"]["batch_size"] == 32 and name in seconds:
                throughput[_dtype(group), name[1]] = 1 / statistics.median(
                    seconds[name]
                )
    text = " ".join((DOCS / "serving.md").read_text().split())
    assert f"OpenVINO is {ratios[0]} and {ratios[1]} times as fast" in text
    assert f"and {ratios[2]} and {ratios[3]} times in bfloat16" in text
    assert f"reaches {', '.join(shares[:3])} and {shares[3]}% of the rate" in text
    ratio = throughput["bfloat16", "openvino-int8"] / throughput["bfloat16", "openvino"]
    assert f"int8 has {ratio:.2f} times the throughput of its bfloat16" in text


def _dtype(group):
    return group["outcomes"][0]["contestant"]["dtype"]


def test_the_load_is_that_of_the_figures():
    lines = []
    for outcome in _read("serving/load.json"):
        cells = [outcome["name"], f"{outcome['texts_per_second']:.1f}"]
        for seconds in outcome["latencies"].values():
            cells.append(f"{seconds['p50']:.1f}, {seconds['p99']:.1f} s")
        lines.append(_cells(*cells))
    _require("serving.md", lines)


@pytest.mark.parametrize("name", ["packing_small", "packing_base"])
def test_packing_is_that_of_the_figures(name):
    lines, length = [], None
    for one in _read(f"data/{name}.json"):
        is_new, length = one["max_seq_length"] != length, one["max_seq_length"]
        lines.append(
            _cells(
                str(length) if is_new else "",
                str(one["pack_sequences"]),
                f"{one['batch_size']} x {one['row_length']}",
                f"{one['padding_rate']:.1%}",
                f"{one['step_seconds'] * 1e3:,.0f}",
                f"{one['tokens_per_second']:,.0f}",
                f"{one['ratio']:.2f}",
            )
        )
    _require("data.md", lines)


def test_scores_by_precision_are_those_of_the_figures():
    found = _read("serving/precisions.json")
    lines = []
    for one in found["rows"]:
        scores = [f"{one[name]:.{one['digits']}f}" for name in found["columns"]]
        lines.append(_cells(one["label"], *scores))
    _require("serving.md", lines)


def test_training_steps_are_those_of_the_figures():
    lines, best = [], []
    for group in _read("model_speed/training_base.json"):
        seconds, shares = {}, {}
        for outcome in group["outcomes"]:
            one = outcome["contestant"]
            name = "-".join(filter(None, (one["family"], one["form"])))
            seconds[name] = [
                statistics.median(turn["seconds"]) for turn in outcome["turns"]
            ]
            shares[name] = statistics.median(
                group["case"]["flops"] / value / statistics.mean(turn["matmul_rates"])
                for value, turn in zip(seconds[name], outcome["turns"], strict=True)
            )
        others = [name for name in seconds if name != "albert_tf"]
        fastest = min(others, key=lambda name: statistics.median(seconds[name]))
        for place, outcome in enumerate(group["outcomes"]):
            name = list(seconds)[place]
            pairs = zip(seconds[fastest], seconds[name], strict=True)
            ratio = f"{statistics.median(a / b for a, b in pairs):.2f}"
            best += [ratio] * (name == "albert_tf")
            cells = (
                "" if place else _dtype(group),
                name,
                f"{1e3 * statistics.median(seconds[name]):,.0f}",
                f"{1e3 * min(seconds[name]):,.0f}",
                f"{shares[name]:.0%}",
                ratio,
                f"{outcome['peak_bytes'] / 1e9:.2f}",
            )
            lines.append(_cells(*cells))
    _require("model_speed.md", lines)
    text = " ".join((DOCS / "model_speed.md").read_text().split())
    assert f"a step is {best[0]} times as fast as the fastest baseline's in" in text
    assert f"float32, and {best[1]} times in bfloat16" in text


def test_what_batches_by_length_save_is_that_of_the_figures():
    text = (DOCS / "finetuning.md").read_text()
    for one in _read("finetuning/lengths.json"):
        *first, last = map(str, one["lengths"])
        rates = [one["steps_per_second"][step] for step in ("100", "150")]
        cells = (
            f"{', '.join(first)} or {last}" if first else last,
            f"{one['padding_percent']}%",
            f"{statistics.mean(1 / rate for rate in rates):.2f}",
            f"{one['seconds']['150'] / 60:.1f}",
        )
        assert f"| {' | '.join(cells)} |\n" in text
