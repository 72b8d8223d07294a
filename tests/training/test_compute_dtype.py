"""What a run says about dtypes that do not suit its devices."""

import dataclasses

import pytest

from albert_tf.devices import strategies
from albert_tf.diagnostics import cpu
from albert_tf.training import compute_dtype
from tests.support import fake_tpu


def _say(monkeypatch, dtype, instructions):
    observed = dataclasses.replace(
        cpu.observe(), instructions=frozenset(instructions.split())
    )
    monkeypatch.setattr(cpu, "observe", lambda: observed)
    return compute_dtype.check(dtype, strategies.create_strategy())


@pytest.mark.parametrize("instructions", ["avx avx512f avx512_bf16", "asimd bf16", ""])
def test_nothing_is_said_of_bfloat16_where_it_is_fast_or_not_known(
    monkeypatch, instructions
):
    assert _say(monkeypatch, "bfloat16", instructions) == ""


def test_a_cpu_that_converts_bfloat16_is_named(monkeypatch):
    said = _say(monkeypatch, "bfloat16", "avx avx2 fma avx512f")
    assert said == (
        "bfloat16 is not faster than float32 on this CPU: use "
        "train.compute_dtype=float32"
    )
    assert _say(monkeypatch, "float32", "avx avx2 fma avx512f") == ""


def test_the_advice_against_float16_fits_the_cpu(monkeypatch):
    slow = "float16 is slow on a CPU: use train.compute_dtype="
    assert _say(monkeypatch, "float16", "avx avx2") == f"{slow}float32"
    assert _say(monkeypatch, "float16", "avx512_bf16").startswith(f"{slow}bfloat16,")


@pytest.mark.parametrize(
    ("has_bfloat16", "said"), [(True, "has bfloat16"), (False, "")]
)
def test_a_gpu_with_bfloat16_is_named_for_float16_only(monkeypatch, has_bfloat16, said):
    monkeypatch.setattr(strategies, "device_kind", lambda strategy: "GPU")
    monkeypatch.setattr(strategies, "gpu_has_bfloat16", lambda: has_bfloat16)
    found = compute_dtype.check("float16", None)
    assert said in found and bool(found) == has_bfloat16
    assert compute_dtype.check("bfloat16", None) == ""


def test_a_tpu_multiplies_in_bfloat16_and_refuses_float16(monkeypatch):
    strategy = fake_tpu.create_strategy()
    assert compute_dtype.check("bfloat16", strategy) == ""
    with pytest.raises(ValueError, match=r"float16 on a TPU.*compute_dtype=bfloat16"):
        compute_dtype.check("float16", strategy)
