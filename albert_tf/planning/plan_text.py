"""Plans as text: lines with aligned labels."""

from collections.abc import Mapping, Sequence
from typing import Any

from albert_tf.core import plurals

_GIB = 1 << 30


def show(plan: Mapping[str, Any]) -> str:
    """Returns a plan as text.

    Args:
      plan: result of `run_plan.make_plan`, perhaps with its `largest_batches`.
    """
    settings = plan["settings"]
    rows = [
        (
            "accelerator",
            f"{plan['accelerator']}: {plurals.count(plan['num_chips'], 'chip')}, "
            f"{plurals.count(plan['num_replicas'], 'replica')}",
        ),
        (
            "batch",
            f"{plan['global_batch']:,} rows, {plan['rows_of_replica']:,} a replica in "
            f"{plurals.count(settings['accumulation_steps'], 'part')}",
        ),
        (
            "settings",
            f"max_seq_length {settings['max_seq_length']}, pack_sequences "
            f"{settings['pack_sequences']}, {settings['compute_dtype']}, remat "
            f"{settings['remat']}",
        ),
        *_memory(plan["memory"]),
        *_step(plan),
        *_run(plan),
    ]
    width = max(len(label) for label, _ in rows)
    lines = [f"{label:<{width}}  {value}" for label, value in rows]
    if "remedies" in plan:
        lines += ["", "Settings that were tried to make it fit:"]
        lines += map(_remedy, plan["remedies"]) if plan["remedies"] else ["  none"]
    if "largest_batches" in plan:
        lines += ["", *_largest(plan["largest_batches"])]
    return "\n".join(lines)


def _gib(number: int) -> str:
    return f"{number / _GIB:.2f} GiB"


def _memory(memory: Mapping[str, Any]) -> list[tuple[str, str]]:
    needed, available = memory["needed_bytes"], memory["available_bytes"]
    by = "by libtpu" if memory["source"] == "libtpu" else "counted, not compiled"
    if available is None:
        verdict = f"needs {_gib(needed)}, {by}"
    elif memory["fits"]:
        verdict = f"fits: {_gib(needed)} of {_gib(available)}, {by}"
    else:
        verdict = (
            f"does not fit by {_gib(needed - available)}: {_gib(needed)}, and there "
            f"are {_gib(available)}, {by}"
        )
    names = ("arguments", "temporaries", "code")
    parts = [f"{name} {_gib(memory[name])}" for name in names if name in memory]
    return [("memory of a replica", verdict), *(("", part) for part in parts)]


def _step(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    if "step" not in plan:
        return []
    step = plan["step"]
    bound = "" if plan["memory"]["source"] == "libtpu" else "at least "
    inside = (
        "within the compiled program; its time is counted"
        if plan["sum_within_program"]
        else "counted"
    )
    ratio = plan.get("compiler_flops_by_products")
    products = f", {ratio:.2f} times those of its products" if ratio else ""
    rows = [
        (
            "a step of a replica",
            f"{step['flops_of_replica'] / 1e12:.3f} TFLOP{products}",
        ),
        ("", f"{bound}{step['memory_bytes_of_replica'] / 1e9:.2f} GB through memory"),
        ("sum over replicas", f"{step['reduced_bytes'] / 1e6:.1f} MB, {inside}"),
    ]
    if "roofline_seconds" not in plan:
        return [*rows, ("roofline", "unknown: this accelerator has no stated peak")]
    roof = plan["roofline_seconds"]
    sides = {
        name: f"{1e3 * roof[name]:.2f}" for name in ("compute", "memory", "reduction")
    }
    return [
        *rows,
        (
            "roofline of a step",
            f"{1e3 * roof['total']:.2f} ms: compute {sides['compute']} at the bfloat16 "
            f"peak, memory {sides['memory']}, then reduction {sides['reduction']}; "
            f"limited by {roof['limit']}",
        ),
    ]


def _run(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    if "run" not in plan:
        return []
    run = plan["run"]
    price = "" if run["price"] is None else f", price {run['price']:,.0f}"
    return [
        (
            f"at utilization {plan['utilization']:.2f}",
            f"{1e3 * run['step_seconds']:.1f} ms a step, "
            f"{100 * run['share_of_peak']:.0f}% of peak",
        ),
        (
            f"{plan['settings']['num_steps']:,} steps",
            f"{run['hours']:,.2f} hours, {run['chip_hours']:,.1f} chip-hours{price}",
        ),
    ]


def _remedy(remedy: Mapping[str, Any]) -> str:
    memory, settings = remedy["memory"], " ".join(remedy["settings"])
    over = memory["needed_bytes"] - memory["available_bytes"]
    if not memory["fits"]:
        return f"  {settings}: still {_gib(over)} too large"
    seconds = remedy["roofline_seconds"]["total"]
    return (
        f"  {settings}: fits with {_gib(memory['needed_bytes'])}, roofline "
        f"{1e3 * seconds:.1f} ms"
    )


def _largest(found: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = ["Largest batch of a replica:"]
    lines.append(
        f"  {'packing':>7}  {'precision':<9}  {'remat':<9}  {'rows':>5}  memory"
    )
    for one in found:
        memory = _gib(one["needed_bytes"]) if one["rows"] else "does not fit"
        lines.append(
            f"  {one['pack_sequences']:>7}  {one['compute_dtype']:<9}  "
            f"{one['remat']:<9}  {one['rows']:>5}  {memory}"
        )
    return lines
