"""How many workers this machine carries: cores and memory that are really ours, and one thread for each worker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from richter.errors import ParameterError, message

WORKERS = "RICHTER_WORKERS"  # set to 1 inside a worker, so that a sweep within a sweep does not multiply
GROUP = Path("/sys/fs/cgroup")
# OpenMP and the linear algebra libraries; NPROC is how many threads XLA opens.
THREADS = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
    "NPROC", WORKERS,
)  # fmt: skip


def cores() -> int:
    """Cores this process may use: $RICHTER_WORKERS, else the affinity mask, within the quota of its control group.

    >>> cores() >= 1
    True
    """
    wanted = os.environ.get(WORKERS)
    if wanted is not None:
        if not wanted.isdigit() or int(wanted) < 1:
            raise ParameterError(message(f"${WORKERS}", "be a whole number ≥ 1", wanted))
        return int(wanted)
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _read("cpu.max").partition(" ")
    if quota.isdigit() and period.strip().isdigit():
        count = min(count, max(1, round(int(quota) / int(period))))
    return count


def free_memory() -> int | None:
    """Bytes that new processes may take, as far as the system says."""
    found = []
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable"):
                found.append(1024 * int(line.split()[1]))
    except OSError:
        pass
    limit, used = _read("memory.max"), _read("memory.current")
    if limit.isdigit() and used.isdigit():
        found.append(max(0, int(limit) - int(used)))
    return min(found) if found else None


@contextmanager
def single_threads() -> Iterator[None]:
    """While it lasts, processes that are started use one thread each (they read it when they load their libraries)."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _read(name: str) -> str:
    try:
        return (GROUP / name).read_text().strip()
    except OSError:
        return ""
