"""Many small networks trained at once: the whole loop compiled, in batches whose memory does not grow with the grid.

Needs the extra `sim` (JAX). float64 is switched on for the call only; the caller's settings of JAX stay as they are.
Bars and measured ratios: benchmarks/ratios.py.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, UnknownNameError, message, nearest
from richter.tasks.randomness import count
from richter.tasks.task import Task
from richter.training.engine_batch import Batch
from richter.training.engine_data import Fresh, Source, arrays, check_loss, check_source
from richter.training.engine_dataset import dataset
from richter.training.engine_networks import Networks
from richter.training.engine_observables import OBSERVABLES, Look
from richter.training.engine_step import OPTIMISERS, Layers, Rule
from richter.training.moments import chosen

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[Any]
LARGEST = 32  # networks in one batch: beyond, their activations leave the cache


@dataclass(frozen=True, eq=False)
class Many:
    """What came out: the observables over (start, step), the networks at the end, and how it went."""

    dataset: xr.Dataset
    networks: Networks
    seconds: float
    resumed_from: int = 0  # steps of the first batch that a checkpoint had


def train_many(
    networks: Networks,
    task: Source,
    *,
    steps: int,
    rate: ArrayLike,
    layer_rates: ArrayLike | None = None,
    optimiser: str = "sgd",
    momentum: float = 0.9,
    batch: int | None = None,
    loss: str = "mse",
    moments: Iterable[int] | int | None = None,
    see: Iterable[str] = ("train_loss",),
    functions: Mapping[str, Callable[[Layers], Any]] | None = None,
    kernel: str = "trace",
    points: int = 1000,
    dtype: str = "float32",
    seed: int = 0,
    together: int = LARGEST,
    checkpoints: str | os.PathLike[str] | None = None,
    every: int | None = None,
    resume: bool = True,
    progress: Callable[[float], object] | None = None,
    go_on: bool = False,
) -> Many:
    """Train many networks of one shape, each with its own start, rate and, if wanted, task.

    The same arguments give the same numbers on one machine, bit by bit, interrupted or not. A network's numbers do
    not depend on the others; batches are composed by their order alone.

    Args:
        networks: the starts.
        task: one task for all (its inputs are then multiplied once for the whole batch), a list with one for each
            network, or `Fresh` examples at every step, shared by all.
        steps: how many.
        rate: the learning rate, one for all or (start,).
        layer_rates: factors on the rate of each layer, (layer,) or (start, layer).
        optimiser: sgd (plain), momentum or adam, as in `train`.
        momentum: for the optimiser "momentum".
        batch: examples per step, the same for all networks, a new order every epoch, the rest that fills no batch
            left out; None takes all.
        loss: mse, half-sum, square, cross-entropy (see `LOSSES`) or binary-cross-entropy (one output).
        moments: steps at which the networks are looked at, before the step of that number; or how many; 30 by
            default, evenly spread in log step.
        see: what is read: train_loss, test_loss, train_accuracy, test_accuracy, kernel_distance, hamming,
            parameter_distance, parameters.
        functions: observables of your own: from one network's layers [(W, b), …] to a number or array, traced by JAX.
        kernel: trace or full, the kernel whose distance is taken; with one output they are the same.
        points: training examples (test examples of a `Fresh` task) for the kernel and the activations, the first ones.
        dtype: float32 or float64.
        seed: of the order of the examples or of fresh ones.
        together: networks in one batch.
        checkpoints: a folder; a run that was killed goes on from there.
        every: steps between checkpoints, a tenth of `steps` by default.
        resume: take up what is in `checkpoints`; False starts over.
        progress: told the share that is done.
        go_on: keep what diverges as NaN instead of raising.

    >>> from richter.tasks import teacher_student
    >>> world = teacher_student(width=4)
    >>> start = world.student(scale=1.0)
    >>> made = train_many(Networks.two_layer([start.a], [start.w]), world.task, steps=50, rate=0.1, moments=[0, 50])
    >>> made.dataset.train_loss.dims, bool(made.dataset.train_loss[0, 1] < made.dataset.train_loss[0, 0])
    (('start', 'step'), True)
    """
    started = time.monotonic()
    count("`steps`", steps, 0, 2**31 - 2)
    if not all(np.isfinite(x).all() for x in (*networks.weights, *networks.biases)):
        raise ParameterError(message("the weights and biases of the networks", "be finite", "nan or inf"))
    check_loss(loss)
    check_source(task, len(networks), batch)
    looks = chosen(moments, steps)
    look = _look(see, functions, kernel, isinstance(task, Fresh))
    for name, value, known in (("optimiser", optimiser, OPTIMISERS), ("dtype", dtype, ("float32", "float64"))):
        if value not in known:
            raise UnknownNameError(f"No {name} named `{value}`. {nearest(value, list(known))}")
    if not 0 <= momentum < 1:
        raise ParameterError(message("`momentum`", "be at least 0 and below 1", momentum))
    count("`points`", points)
    batches = -(-len(networks) // count("`together`", together))
    size = -(-len(networks) // batches)  # even batches, so that one compilation fits nearly all
    rates, factors = _rates(rate, layer_rates, len(networks), len(networks.weights))
    gap = max(1, steps // 10) if every is None else count("`every`", every)
    if isinstance(task, Fresh):
        draw, examples, part = task.draw, task.batch, task.batch
    else:
        draw, examples = None, len(task if isinstance(task, Task) else task[0])
        part = 0 if batch in (None, examples) else int(batch or 0)
    rule = Rule(networks.activation, networks.leak, loss, optimiser, momentum, examples, part, draw)
    seen: list[dict[str, Array]] = []
    ends: list[Networks] = []
    resumed = 0
    for index, first in enumerate(range(0, len(networks), size)):
        rows = slice(first, min(first + size, len(networks)))
        data = arrays(task, rows, loss, networks.sizes[-1], networks.sizes[0], points)
        job = Batch(
            rule, look, networks[rows], data, rates[rows], factors[rows], dtype, seed, looks, steps, go_on, first
        )
        path = None if checkpoints is None else Path(checkpoints) / f"batch-{index:04d}.npz"
        tell = lambda share, first=first, rows=rows: (
            progress((first + share * (rows.stop - first)) / len(networks)) if progress else None
        )
        found, end, begun = job.run(path, gap, resume, tell)
        seen.append(found)
        ends.append(end)
        resumed = resumed or begun
    merged = {name: np.concatenate([part[name] for part in seen]) for name in seen[0]}
    ds = dataset(merged, looks, rates, factors, rule, look, networks, dtype)
    return Many(ds, Networks.together(ends), time.monotonic() - started, resumed)


def _look(
    see: Iterable[str], functions: Mapping[str, Callable[[Layers], Any]] | None, kernel: str, fresh: bool
) -> Look:
    names = tuple(dict.fromkeys(see))
    for name in names:
        if name not in OBSERVABLES:
            raise UnknownNameError(f"No observable named `{name}`. {nearest(name, list(OBSERVABLES))}")
        if fresh and name.startswith("train_"):
            must = "be of the test examples where every step has fresh ones"
            raise ParameterError(message("`see`", must, name, f'Use "test_{name.removeprefix("train_")}".'))
    if kernel not in ("trace", "full"):
        raise ParameterError(message("`kernel`", "be trace or full", kernel))
    clash = sorted({*OBSERVABLES} & {*(functions or {})})
    if clash:
        raise ParameterError(message("`functions`", "have names of their own", clash[0]))
    return Look(names, kernel, tuple((functions or {}).items()))


def _rates(rate: ArrayLike, layer_rates: ArrayLike | None, starts: int, layers: int) -> tuple[Array, Array]:
    """Rates (start,) and factors (start, layer)."""
    made = []
    for name, value, shape in (("`rate`", rate, (starts,)), ("`layer_rates`", layer_rates, (starts, layers))):
        array = np.asarray(1.0 if value is None else value, dtype=np.float64)
        low = 0 if name == "`layer_rates`" else np.nextafter(0, 1)
        if not (np.isfinite(array).all() and (array >= low).all()):
            raise ParameterError(message(name, f"be finite and {'≥' if low == 0 else '>'} 0", value))
        try:
            made.append(np.broadcast_to(array, shape))
        except ValueError:
            words = "(start,)" if len(shape) == 1 else "(layer,) or (start, layer)"
            raise ParameterError(message(name, f"fit {words}, here {shape}", f"shape {array.shape}")) from None
    return made[0], made[1]
