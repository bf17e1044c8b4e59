"""Functions of cells that workers can import, some of which go wrong on purpose; each call leaves a line."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr


def log(folder: str, line: str) -> None:
    """Append one line at once, whoever else does."""
    with open(Path(folder) / "calls", "a") as file:
        file.write(line + "\n")


def calls(folder: Path) -> list[str]:
    path = folder / "calls"
    return path.read_text().split() if path.exists() else []


def first_time(folder: str, name: str) -> bool:
    """Whether nobody has asked this before."""
    try:
        os.close(os.open(Path(folder) / name, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def product(x: float, k: int, folder: str = "", wait: float = 0.0) -> dict[str, Any]:
    """A chain of matrix products and sums whose last bits depend on the order of every operation."""
    if folder:
        log(folder, f"{x},{k}")
    time.sleep(wait)
    matrix = np.random.default_rng([int(10 * x), k]).standard_normal((60, 60)) / 8
    power = np.linalg.matrix_power(matrix, 5)
    return {"trace": np.trace(power) * x, "rows": (("row",), power.sum(axis=1)), "word": f"x{x}", "even": k % 2 == 0}


def products(cells: list[dict[str, Any]], folder: str = "", wait: float = 0.0) -> dict[str, Any]:
    """The same for a batch, as one stacked product."""
    if folder:
        log(folder, f"batch-of-{len(cells)}")
    time.sleep(wait)
    made = np.stack([np.random.default_rng([int(10 * c["x"]), c["k"]]).standard_normal((40, 40)) for c in cells])
    return {"trace": np.einsum("nij,nji->n", made, made), "rows": (("row",), np.matmul(made, made).sum(axis=2))}


def kills_its_worker_once(x: float, k: int, folder: str) -> dict[str, Any]:
    if k == 1 and first_time(folder, f"killed-{x}"):
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    return product(x, k)


def kills_its_worker_always(x: float, k: int, folder: str) -> dict[str, Any]:
    log(folder, f"{x},{k}")
    if k == 1 and x == 1.0:
        os.kill(os.getpid(), signal.SIGKILL)
    return product(x, k)


def fails_at_two(x: float, k: int, folder: str) -> dict[str, Any]:
    log(folder, f"{x},{k}")
    if x == 2.0 and not (Path(folder) / "mended").exists():
        raise ArithmeticError("two is too many")
    return product(x, k)


def fails_twice(x: float, k: int, folder: str) -> dict[str, Any]:
    if first_time(folder, f"a-{x}-{k}") or first_time(folder, f"b-{x}-{k}"):
        raise OSError("come again")
    return product(x, k)


def is_used_wrongly(x: float, k: int, folder: str) -> dict[str, Any]:
    log(folder, f"{x},{k}")
    raise TypeError("never right")


class StrangeError(Exception):
    """Cannot be pickled back: its constructor wants two arguments."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one)


def raises_strangely(x: float, k: int) -> None:
    raise StrangeError("one", "two")


def dataset(x: float, n: int) -> xr.Dataset:
    """As many times as asked for, with labels."""
    t = np.linspace(0, x, n)
    return xr.Dataset({"y": ("t", t**2, {"long_name": "a parabola"}), "n_of": n}, {"t": t, "x": x})


def fixed_times(x: float, n: int) -> xr.Dataset:
    return xr.Dataset({"y": ("t", np.arange(3.0) * x * n)}, {"t": [0.0, 1.0, 2.0]})


def seeded(x: float, seed: int) -> float:
    return float(np.random.default_rng(seed).standard_normal()) + 0 * x


def heavy(x: float) -> dict[str, Any]:
    return {"y": np.full(4000, x)}


def threads(x: float) -> dict[str, Any]:
    """How many threads a library would use, and whether a sweep within would multiply."""
    from richter.sweep import cores

    return {"omp": os.environ["OMP_NUM_THREADS"], "cores": cores()}
