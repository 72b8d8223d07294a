"""Tables of bench_data's measurements."""

from collections.abc import Mapping, Sequence

from data_prep.benchmarks import process_meter

# Records per second and core of the original's create_pretraining_data.py, from text to
# shards, measured with the settings of configs/data_original.py.
_ORIGINAL_RATE = 130.0


def stage_table(
    seconds: Mapping[str, float],
    alternatives: Mapping[str, float],
    num_bytes: int,
    num_records: int,
) -> str:
    """Formats seconds by row; `alternatives` are below the sum and not in it."""
    total = sum(seconds.values())
    rows = [["stage", "seconds", "share", "MB/s", "records/s"]]
    for row, value in [*seconds.items(), ("all stages", total), *alternatives.items()]:
        share = "" if row in alternatives else f"{value / total:.1%}"
        rate = 1.0 / max(value, 1e-9)
        columns = [f"{num_bytes / 1e6 * rate:,.1f}", f"{num_records * rate:,.0f}"]
        rows.append([row, f"{value:.3f}", share, *columns])
    return _align(rows)


def _align(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
        for row in rows
    )


def run_table(
    runs: Mapping[int, process_meter.Run],
    starts: Mapping[int, process_meter.Run],
    num_bytes: int,
    num_records: int,
) -> str:
    """Formats runs by number of workers; `starts` are runs on very little text."""
    walls = [run.wall_seconds for run in runs.values()]
    works = [
        max(w - starts[n].wall_seconds, 1e-9) for n, w in zip(runs, walls, strict=True)
    ]
    table = []
    for (workers, run), work in zip(runs.items(), works, strict=True):
        rate = num_records / run.wall_seconds / workers
        columns = {
            "workers": f"{workers}",
            "seconds": f"{run.wall_seconds:.2f}",
            "of it start": f"{starts[workers].wall_seconds:.2f}",
            "CPU seconds": f"{run.cpu_seconds:.2f}",
            "MB/s": f"{num_bytes / 1e6 / run.wall_seconds:.2f}",
            "records/s": f"{rate * workers:,.0f}",
            "a core": f"{rate:,.0f}",
            "x original": f"{rate / _ORIGINAL_RATE:.0f}",
            "(less start)": f"{num_records / work / workers / _ORIGINAL_RATE:.0f}",
            "x first row": f"{walls[0] / run.wall_seconds:.2f}",
            "(start apart)": f"{works[0] / work:.2f}",
            "peak MB": f"{run.peak_bytes / 1e6:,.0f}",
        }
        table.append(columns)
    return _align([list(table[0]), *(list(columns.values()) for columns in table)])
