"""Prints how near the comparisons with the original's numbers come to their limits.

Call as `python -m tests.support.golden_margins`. The tests run once for each way in
which this machine can round: oneDNN and XLA are told to use older instructions, which
adds in another order and without fused multiply-add.
"""

import json
import os
import subprocess
import sys
import tempfile

_FILES = (
    "tests/interchange/test_convert.py",
    "tests/model/test_pretraining_model.py",
    "tests/model/test_task_heads.py",
    "tests/optim",
    "tests/tasks/test_squad_answers.py",
)
_MACHINES = {
    "as it is": {},
    "AVX": {"ONEDNN_MAX_CPU_ISA": "AVX", "XLA_FLAGS": "--xla_cpu_max_isa=AVX"},
    "SSE": {"ONEDNN_MAX_CPU_ISA": "SSE41", "XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2"},
    "no oneDNN": {"TF_ENABLE_ONEDNN_OPTS": "0"},
}


def main() -> None:
    """Prints the worst comparison of each test, those nearest to their limit first."""
    worst: dict[str, dict[str, list]] = {}
    for machine, changes in _MACHINES.items():
        with tempfile.NamedTemporaryFile() as file:
            changes = {**changes, "GOLDEN_MARGINS": file.name}
            command = [sys.executable, "-m", "pytest", "-k", "original", *_FILES]
            subprocess.run(command, env=os.environ | changes)
            for line in open(file.name, encoding="utf-8"):
                test, quantity, difference, limit = json.loads(line)
                of_test = worst.setdefault(test, {})
                found = [difference / limit, difference, limit, quantity]
                of_test[machine] = max(of_test.get(machine, [0.0]), found)
    print("\nratio of limit" + "".join(f"{name:>11}" for name in _MACHINES))
    for test, found in sorted(
        worst.items(), key=lambda item: -max(item[1].values())[0]
    ):
        ratio, difference, limit, quantity = max(found.values())
        ratios = "".join(f"{found.get(name, [-1])[0]:11.2f}" for name in _MACHINES)
        name = test.rpartition("/")[2]
        print(
            f"{ratio:14.2f}{ratios}  {difference:.1e} {limit:.1e}  {name}: {quantity}"
        )


if __name__ == "__main__":
    main()
