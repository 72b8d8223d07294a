"""Limits of this process's control group (cgroup), of version 1 and 2."""

import pathlib
from collections.abc import Iterator


def memory_limit(root: pathlib.Path) -> int | None:
    """Returns the least memory limit in bytes of the group and those above it.

    Args:
      root: directory that has proc/ and sys/.

    Returns:
      None if there is no limit.
    """
    limits = [
        int(text)
        for folder, version in _folders(root, "memory")
        for text in _words(
            folder / ("memory.max" if version == 2 else "memory.limit_in_bytes")
        )
        # Version 1 has a number near 2^63 for none.
        if text.isdigit() and int(text) < 1 << 60
    ]
    return min(limits, default=None)


def cpu_quota(root: pathlib.Path) -> float | None:
    """Returns the number of cores whose time the group may use; None for all."""
    quotas = []
    for folder, version in _folders(root, "cpu"):
        if version == 2:
            quota, period = [*_words(folder / "cpu.max"), "max", "1"][:2]
        else:
            quota = [*_words(folder / "cpu.cfs_quota_us"), "-1"][0]
            period = [*_words(folder / "cpu.cfs_period_us"), "1"][0]
        if quota.isdigit() and period.isdigit() and int(period):
            quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def _folders(root: pathlib.Path, controller: str) -> Iterator[tuple[pathlib.Path, int]]:
    """Yields the directories of the group and of those above it, with the version."""
    mount = root / "sys" / "fs" / "cgroup"
    try:
        lines = (root / "proc" / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        base, version = (mount / controller, 1) if controllers else (mount, 2)
        # In a container the path may be that of the host, which is not mounted: then
        # only the mount's own files count.
        group = base / path.lstrip("/")
        while group != base:
            yield group, version
            group = group.parent
        yield base, version


def _words(path: pathlib.Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
