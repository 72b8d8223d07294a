"""What this process may use of its machine: cores and memory."""

import math
import os
import pathlib
import re

from albert_tf.core import cgroup


def num_cores(root: pathlib.Path = pathlib.Path("/")) -> int:
    """Returns how many cores this process and its children may keep busy.

    Those of its CPU affinity, as batch systems and `taskset` set it, and at most the
    quota of its control group, as containers have one; rounded up.

    Args:
      root: directory that has proc/ and sys/.
    """
    count = len(os.sched_getaffinity(0))
    quota = cgroup.cpu_quota(root)
    return count if quota is None else max(1, min(count, math.ceil(quota)))


def memory_sizes(root: pathlib.Path = pathlib.Path("/")) -> dict[str, int]:
    """Returns the sizes in /proc/meminfo in bytes, such as "MemTotal".

    Args:
      root: directory that has proc/.
    """
    text = (root / "proc" / "meminfo").read_text()
    found = re.findall(r"^(\w+):\s+(\d+) kB$", text, re.MULTILINE)
    return {name: int(kilobytes) * 1024 for name, kilobytes in found}


def available_bytes(root: pathlib.Path = pathlib.Path("/")) -> int:
    """Returns the bytes of memory that are free without swapping.

    At most the limit of the process's control group; what others of the group use is
    not subtracted.

    Args:
      root: directory that has proc/ and sys/.
    """
    available = memory_sizes(root)["MemAvailable"]
    limit = cgroup.memory_limit(root)
    return available if limit is None else min(available, limit)
