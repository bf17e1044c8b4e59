"""What the experiments with a ReLU teacher share: students from one base start, rescaled to every τ and δ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.tasks import TeacherStudent, teacher_student
from richter.training import Networks, train_many

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
SEEN = ("train_loss", "test_loss", "kernel_distance", "hamming", "parameter_distance")


def students(world: TeacherStudent, cells: Sequence[tuple[float, float]]) -> Networks:
    """The student's base start rescaled to every (τ, δ)."""
    starts = [world.student(tau, delta) for tau, delta in cells]
    return Networks.two_layer([s.a for s in starts], [s.w for s in starts])


def descend(
    cells: Sequence[tuple[float, float]],
    seeds: Sequence[int],
    steps: int,
    moments: Iterable[int],
    *,
    rate: float = 5e-3,
    dtype: str = "float32",
    see: Iterable[str] = SEEN,
    progress: Callable[[str, float], None],
    store: Path | None = None,
    **world: Any,
) -> xr.Dataset:
    """Every cell for every seed, over (seed, cell, step), with the rate ÷ τ² of KUN24 App. D.1.

    A seed draws teacher, base start and data; its cells see the same data and are trained together. `store` keeps
    what is done, ten times in each batch of a seed.
    """
    import xarray as xr

    looks, made = sorted(set(moments)), []
    for place, seed in enumerate(seeds):
        drawn = teacher_student(rng=seed, **world)
        tell = part(progress, f"seed {seed}", place / len(seeds), (place + 1) / len(seeds))
        run = train_many(
            students(drawn, cells), drawn.task, steps=steps, rate=[rate / tau**2 for tau, _ in cells], loss="square",
            moments=looks, see=see, dtype=dtype, progress=tell, checkpoints=kept(store, f"seed-{seed}"),
        )  # fmt: skip
        made.append(run.dataset.rename(start="cell").drop_vars(["rate", "t"]))
    ds = xr.concat(made, "seed", combine_attrs="override")
    return ds.assign_coords(
        seed=list(seeds), tau=("cell", [tau for tau, _ in cells]), delta=("cell", [delta for _, delta in cells])
    )


def kept(store: Path | None, name: str) -> Path | None:
    """Where one call of the engine keeps its state, if a folder is given.

    >>> kept(None, "seed-0") is None
    True
    """
    return None if store is None else store / name


def part(progress: Callable[[str, float], None], what: str, low: float, high: float) -> Callable[[float], None]:
    """Progress of one part of a run, which is its share from `low` to `high`."""
    return lambda share: progress(what, low + share * (high - low))


def interval(values: Floats, statistic: Callable[..., Any], rng: int = 0, draws: int = 2000) -> tuple[float, float]:
    """The 95 % bootstrap interval of a statistic of the last axis.

    >>> low, high = interval(np.arange(100.0), np.median)
    >>> low < 49.5 < high
    True
    """
    generator = np.random.default_rng(rng)
    chosen = values[generator.integers(len(values), size=(draws, len(values)))]
    low, high = np.quantile(statistic(chosen, axis=1), [0.025, 0.975])
    return float(low), float(high)
