"""What a worker does: compute one batch, and say plainly what went wrong if it could not."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from richter.errors import ParameterError, UnknownNameError
from richter.sweep.part import encode, gather


@dataclass(frozen=True)
class Task:
    """A batch of cells and the function that computes them, either `together` (a list of cells) or one by one."""

    function: Callable[..., Any]
    together: bool
    batch: int
    numbers: tuple[int, ...]
    cells: tuple[Mapping[str, Any], ...]
    fixed: Mapping[str, Any]
    seeds: tuple[int, ...] | None
    sweep: str


@dataclass(frozen=True)
class Problem:
    """Why a batch could not be computed; `again` says whether another attempt may help."""

    why: str
    trace: str = ""
    again: bool = True
    attempts: int = 0

    @classmethod
    def of(cls, problem: BaseException) -> Problem:
        """From an exception: its kind and words; wrong input stays wrong, anything else is tried again."""
        words = " ".join(str(problem).split())
        again = not isinstance(problem, (ParameterError, UnknownNameError, TypeError, AttributeError, ImportError))
        trace = "".join(traceback.format_exception(problem))[-4000:]
        return cls(f"{type(problem).__name__}: {words}" if words else type(problem).__name__, trace, again)

    def after(self, attempts: int) -> Problem:
        """The same, with how often it was tried."""
        return replace(self, attempts=attempts)


@dataclass(frozen=True)
class Done:
    """A finished batch: its file's content, the seconds it took and the most memory its worker has held."""

    content: bytes
    seconds: float
    memory: int


def compute(task: Task) -> Done | Problem:
    """Run in a worker: no exception leaves it, since some cannot travel between processes."""
    begin = time.perf_counter()
    try:
        if task.together:
            drawn = {} if task.seeds is None else {"seeds": list(task.seeds)}
            result = task.function([dict(cell) for cell in task.cells], **task.fixed, **drawn)
        else:
            one = {} if task.seeds is None else {"seed": task.seeds[0]}
            result = task.function(**task.cells[0], **task.fixed, **one)
        part = gather(result, task.numbers, task.together, list(task.cells[0]))
        seconds = time.perf_counter() - begin
        note = {"sweep": task.sweep, "batch": task.batch, "seconds": round(seconds, 6)}
        return Done(encode(replace(part, note=note)), seconds, peak_memory())
    except Exception as problem:
        return Problem.of(problem)


def peak_memory() -> int:
    """The most memory this process has held, in bytes.

    >>> peak_memory() > 1e6
    True
    """
    try:  # a child's ru_maxrss starts at its parent's size, this does not
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    import resource
    import sys

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
