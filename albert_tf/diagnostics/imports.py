"""Imports of the packages with compiled code, each in a process of its own."""

from collections.abc import Collection, Mapping

from albert_tf.diagnostics import child, findings

MODULES = (
    *("numpy", "scipy", "sklearn", "numba", "pyarrow", "h5py", "google_crc32c"),
    *("sentencepiece", "tokenizers", "safetensors", "zstandard", "xxhash"),
    *("ml_dtypes", "pydantic", "grpc", "tensorflow", "tensorflow_text"),
)
# Slower ones are named, with their times.
_SLOW_SECONDS = 2.0


def observe(timeout_seconds: float) -> dict[str, child.Outcome]:
    """Imports one module after the other: two at a time might want the same TPU."""
    return {name: child.run(f"import {name}", [], timeout_seconds) for name in MODULES}


def judge(
    observed: Mapping[str, child.Outcome], instructions: Collection[str]
) -> list[findings.Finding]:
    """One line for each import that failed, and one for all others.

    Args:
      observed: how each import ended, by module.
      instructions: flags of the CPU in /proc/cpuinfo.
    """
    failed = [
        findings.Finding(
            "imports",
            findings.Status.FAILED,
            f"import {name}: {outcome.describe()}",
            _remedy(outcome, instructions),
            {"module": name, "code": outcome.code, "signal": outcome.signal_name()},
        )
        for name, outcome in observed.items()
        if outcome.code != 0
    ]
    seconds = {
        name: round(outcome.seconds, 2)
        for name, outcome in observed.items()
        if outcome.code == 0
    }
    if not seconds:
        return failed
    slow = [
        f"{name} in {value:.1f} s"
        for name, value in seconds.items()
        if value >= _SLOW_SECONDS
    ]
    text = f"{len(seconds)} packages with compiled code can be imported"
    if slow:
        text += f": {', '.join(slow)}"
    return [
        *failed,
        findings.Finding(
            "imports", findings.Status.OK, text, values={"seconds": seconds}
        ),
    ]


def _remedy(outcome: child.Outcome, instructions: Collection[str]) -> str:
    if outcome.code is None:
        return (
            "Is the disk slow, or does another process hold the TPU? Off a TPU VM the "
            "TPU build waits for a metadata server; TPU_SKIP_MDS_QUERY=1 prevents that"
        )
    name = outcome.signal_name()
    lacks_avx = bool(instructions) and "avx" not in instructions
    if name == "SIGILL" or (name and lacks_avx):
        has = "which lacks AVX" if lacks_avx else "though it has AVX"
        return (
            f"The wheel uses instructions that are missing on this CPU, {has}: take "
            "another type of machine, or in a virtual machine pass the host's CPU on"
        )
    if name == "SIGKILL":
        return "It was killed, probably for its memory: see the line `memory`"
    if name == "SIGABRT":
        return (
            "Install the pinned versions; on a TPU VM libtpu as in requirements-tpu.txt"
        )
    if name:
        return "The wheel does not fit this machine or another package: reinstall it"
    if "ModuleNotFoundError" in outcome.last_line():
        return "Install the pinned packages"
    if ".so" in outcome.last_line():
        return "A system library is missing or too old: take a newer image"
    return "Reinstall the package at its pinned version"
