"""Sums gradients of two workers over a link of limited bandwidth.

The workers are processes of this machine in a network namespace of their own, where a
token bucket limits the loopback device: `unshare` and `tc`, which must be allowed.

    python -m albert_tf.benchmarks.limited_link REQUEST

runs both workers, or with `index` in REQUEST one of them. REQUEST is JSON: `ports` of
both, `num_values`, the lengths of what is summed one after another, and `num_calls`.
It prints a line of JSON: the seconds of the calls, for each length.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from albert_tf.benchmarks import rounds
from albert_tf.core import binaries

# Gradients are summed in parts of at most so many values, as tf.distribute does.
_PART_VALUES = 1 << 22
_LIMIT = (
    "ip link set lo up && "
    "tc qdisc add dev lo root tbf rate {rate}mbit burst {burst} latency 400ms && "
    'exec "$@"'
)
_TIMEOUT_SECONDS = 1800.0


def measure(
    num_values: Sequence[int], megabits: int, num_calls: int = 3
) -> list[list[float]]:
    """Times the sum of gradients of two workers.

    Args:
      num_values: numbers of float32 values, each a model's gradients.
      megabits: a second, in each direction. Both directions share the device, which is
        limited to twice as much.
      num_calls: how often each is summed; the first call is not timed.

    Returns:
      The seconds until both workers have the sum: of each call, for each length.

    Raises:
      rounds.Failure: the machine does not allow it, or a worker failed.
    """
    for tool in ("unshare", "ip", "tc"):
        if shutil.which(tool) is None:
            raise rounds.Failure(f"there is no {tool}")
    request = {"num_values": list(num_values), "num_calls": num_calls}
    command = [sys.executable, "-m", "albert_tf.benchmarks.limited_link"]
    done = subprocess.run(
        [
            *("unshare", "--net", "--map-root-user", "sh", "-c"),
            *(_limit(2 * megabits), "sh"),
            *(*command, json.dumps(request)),
        ],
        cwd=binaries.ROOT,
        env=binaries.environment(),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=_TIMEOUT_SECONDS,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise rounds.Failure(lines[-1])
    return json.loads(done.stdout.splitlines()[-1])


def _limit(megabits: int) -> str:
    """Returns a command that limits loopback, and then runs its arguments."""
    # The bytes of ten milliseconds; a packet of loopback has up to 64 KiB.
    burst = max(256 << 10, megabits * 1250)
    return _LIMIT.format(rate=megabits, burst=burst)


def _run_workers(request: dict[str, Any]) -> int:
    """Runs both workers, and prints what the first one measured."""
    ports = _free_ports()
    workers = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "albert_tf.benchmarks.limited_link"),
                json.dumps({**request, "ports": ports, "index": index}),
            ],
            stdout=None if index == 0 else subprocess.DEVNULL,
        )
        for index in range(2)
    ]
    try:
        return max(abs(worker.wait()) for worker in workers)
    finally:
        for worker in workers:
            worker.kill()


def _free_ports() -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _work(request: dict[str, Any]) -> None:
    """Sums as one of the workers, and prints the seconds."""
    cluster = {"worker": [f"127.0.0.1:{port}" for port in request["ports"]]}
    task = {"type": "worker", "index": request["index"]}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": task})
    # Imported here: TensorFlow reads TF_CONFIG, and both workers need it.
    import tensorflow as tf

    from albert_tf.devices import strategies

    strategy = strategies.create_strategy("multi_worker")

    @tf.function
    def add_up(tensors):
        def add(parts):
            # Copies, which are on the replica's device: an argument is on none.
            return strategies.sum_over_replicas([tf.identity(part) for part in parts])

        return strategy.run(add, (tensors,))

    def wait_for_other():
        # A worker has its sum before the last part of the other's has passed the link.
        float(add_up([tf.ones([1])])[0][0])

    found = []
    for count in request["num_values"]:
        whole, rest = divmod(count, _PART_VALUES)
        lengths = [_PART_VALUES] * whole + [rest] * bool(rest)
        tensors = [tf.ones([length]) for length in lengths]
        seconds = []
        for _ in range(1 + request["num_calls"]):
            wait_for_other()
            began = time.perf_counter()
            total = add_up(tensors)
            values = float(total[0][0]), float(total[-1][-1])
            wait_for_other()
            seconds.append(time.perf_counter() - began)
            if values != (2.0, 2.0):
                raise ValueError(f"the sum of two ones must be 2; received {values}")
        found.append(seconds[1:])
    print(json.dumps(found), flush=True)


def main(arguments: Sequence[str]) -> int:
    """Runs both workers, or one of them; returns the exit code."""
    request = json.loads(arguments[0])
    if "index" not in request:
        return _run_workers(request)
    _work(request)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
