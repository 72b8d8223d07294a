"""Runs a module while Python's clock goes back by some hours after some seconds.

python -m tests.faults.clock_back SECONDS MODULE FLAGS
"""

import runpy
import sys
import time

BACK_SECONDS = 3 * 3600.0


def _turn_back(after: float) -> None:
    began, now, now_ns = time.monotonic(), time.time, time.time_ns

    def back() -> float:
        return BACK_SECONDS if time.monotonic() - began > after else 0.0

    time.time = lambda: now() - back()
    time.time_ns = lambda: now_ns() - int(back() * 1e9)


if __name__ == "__main__":
    _turn_back(float(sys.argv[1]))
    sys.argv = sys.argv[2:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
