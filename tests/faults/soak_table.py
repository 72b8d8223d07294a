"""Tables of docs/reliability.md about processes that ran for long."""

from typing import Any

_MEASURES = {
    "memory_kb": ("memory (MiB)", 1024),
    "num_files": ("open files", 1),
    "num_threads": ("threads", 1),
    "disk_kb": ("disk of the run directory (MiB)", 1024),
    "num_checkpoints": ("checkpoints", 1),
}
_QUANTILES = ("p50", "p99", "max")


def of_process(values: dict[str, Any]) -> list[str]:
    """What a process held, and how fast that grew.

    Args:
      values: as `soak.summary` gives them.
    """
    lines = [
        f"| {values['seconds'] / 60:.0f} minutes | after {values['settled_seconds']} s "
        "| at the end | most | growth an hour |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, (title, unit) in _MEASURES.items():
        if name not in values:
            continue
        found = [values[name][key] / unit for key in ("first", "last", "peak")]
        cells = [f"{value:,.0f}" for value in found]
        growth = round(values[name]["slope_per_hour"] / unit, 1) + 0.0  # no -0.0
        lines.append(f"| {title} | {' | '.join(cells)} | {growth:+,.1f} |")
    return lines


def of_server(values: dict[str, Any]) -> list[str]:
    """What a server answered, how soon, and what it held.

    Args:
      values: as `server_soak.run` gives them.
    """
    lines = [
        "| what is sent | answers by status | p50 ms | p99 ms | longest ms |",
        "|---|---|---:|---:|---:|",
    ]
    for kind, counts in sorted(values["statuses"].items()):
        # A connection that the client left has no status.
        statuses = [
            f"{count:,} × {status}" if status != "0" else f"{count:,} left"
            for status, count in counts.items()
        ]
        seconds = values["latency_ms"].get(kind, {})
        cells = [f"{seconds[key]:,.0f}" if seconds else "" for key in _QUANTILES]
        lines.append(f"| {kind} | {', '.join(statuses)} | {' | '.join(cells)} |")
    lines += [
        "",
        f"{values['requests_per_second']:,.1f} requests a second; "
        f"{values['num_unexpected']} answers that are not stated, "
        f"{values['num_tracebacks']} tracebacks in the log.",
        "",
    ]
    return lines + of_process(values["process"])
