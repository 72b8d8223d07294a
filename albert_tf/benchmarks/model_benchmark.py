"""The speed and peak memory of implementations of the model, printed as tables."""

from collections.abc import Sequence
from typing import Any

from albert_tf.benchmarks import matmul_probe, model_cases, results, runner


def measure_speed(
    cases: Sequence[model_cases.Case],
    implementations: Sequence[model_cases.Implementation],
    num_rounds: int,
) -> list[dict[str, Any]]:
    """Prints a table for each case and precision; returns all measurements."""
    probe = matmul_probe.MatrixProbe()
    measured = []
    for case in cases:
        for dtype in model_cases.DTYPES:
            group = [
                one
                for one in implementations
                if one.dtype == dtype and case.task in one.tasks
            ]
            if not group:
                continue
            found = runner.measure(
                case, group, num_rounds, probe.rate, runner.start_process
            )
            print(f"\n{results.speed_table(case, *found)}", flush=True)
            measured.append(results.to_dict(case, *found))
    return measured


def measure_memory(
    cases: Sequence[model_cases.Case], dtypes: Sequence[str], num_rounds: int
) -> list[dict[str, Any]]:
    """Prints a table for each precision; returns all measurements.

    Each combination runs in a new process, since the peak of a process never falls.
    """
    probe = matmul_probe.MatrixProbe()
    measured = []
    for dtype in dtypes:
        rows: dict[model_cases.Case, dict[str, runner.Outcome]] = {}
        for case in cases:
            rows[case] = {}
            for form, train in model_cases.MEMORY_FORMS.items():
                implementation = model_cases.albert_tf(dtype, **train)
                outcomes, missing = runner.measure(
                    case,
                    [implementation],
                    num_rounds,
                    probe.rate,
                    runner.start_process,
                )
                measured.append(results.to_dict(case, outcomes, missing))
                for outcome in outcomes:
                    rows[case][form] = outcome
                for reason in missing.values():
                    print(f"{case.name}, {dtype}, {form} is not measured: {reason}")
        table = results.memory_table(rows, tuple(model_cases.MEMORY_FORMS))
        print(
            f"\nA training step in {dtype}, by train.remat; parts: "
            f"{model_cases.QUERIES_AT_ONCE} queries at once\n{table}",
            flush=True,
        )
    return measured
