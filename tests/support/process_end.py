"""Whether a process runs that is not a child of this one."""

import pathlib
import time


def wait_for_end(pid: int, seconds: float = 120.0) -> None:
    """Returns once no process has this id, or it has ended and nobody has asked.

    Raises:
      TimeoutError: it is still running after `seconds`.
    """
    deadline = time.monotonic() + seconds
    while is_running(pid):
        if time.monotonic() > deadline:
            raise TimeoutError(f"process {pid} is running after {seconds:.0f} seconds")
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """Returns whether a process has this id and has not ended."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # no such process, or it ended while this was read
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
