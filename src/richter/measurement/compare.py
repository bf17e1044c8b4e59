"""Two runs, or a run and a theory, side by side: both regimes, and how far every shared variable differs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from richter.errors import OutsideTheoryError, ParameterError, message, show
from richter.measurement.measured import Measured
from richter.probes.recorded_run import in_time
from richter.probes.verdict import verdict
from richter.regime import Regime
from richter.schema import load
from richter.theory.base import AbstractTheory

if TYPE_CHECKING:
    import xarray as xr

Side: TypeAlias = Any  # a Dataset, a Measured, a theory, or the path of a saved Dataset
KERNELS = ("kernel_change", "kernel_distance", "kernel")  # a theory's kernel is the full one


@dataclass(frozen=True)
class Difference:
    """How far a variable differs: the largest |a − b| over the shared times, absolute and in units of the largest |b|.

    Where b is 0 throughout there is no such unit: `relative` is NaN.
    """

    name: str
    absolute: float
    relative: float
    at: float  # the time of the largest difference
    ends: tuple[float, float]  # the two values at the last shared time, NaN for wide variables


@dataclass(frozen=True)
class Comparison:
    """Two sides over the times that both have, with their regimes; a side without one has None."""

    names: tuple[str, str]
    datasets: tuple[xr.Dataset, xr.Dataset]
    regimes: tuple[Regime | None, Regime | None]
    differences: tuple[Difference, ...]
    over: str = "t"  # or "step": of two recorded runs

    def __str__(self) -> str:
        label = lambda regime: "no regime" if regime is None else str(regime.label)
        lines = [f"{name}: {label(regime)}" for name, regime in zip(self.names, self.regimes, strict=True)]
        for d in self.differences:
            last = "" if np.isnan(d.ends).any() else f"{d.ends[0]:.3g} and {d.ends[1]:.3g} at the end; "
            most = f"differs by at most {d.absolute:.3g} ({d.relative:.2%} of its size) at {self.over} = {d.at:.4g}"
            lines.append(f"  {d.name}: {last}{most}")
        return "\n".join(lines)

    def plain(self) -> dict[str, object]:
        """As plain data, for JSON; undefined is null."""
        number = lambda x: float(x) if np.isfinite(x) else None
        return {
            "over": self.over,
            "sides": [
                {"name": name, "regime": None if regime is None else regime.plain()}
                for name, regime in zip(self.names, self.regimes, strict=True)
            ],
            "differences": [
                {"name": d.name, "absolute": number(d.absolute), "relative": number(d.relative), "at": number(d.at),
                 "ends": [number(x) for x in d.ends]}
                for d in self.differences
            ],
        }  # fmt: skip


def compare(a: Side, b: Side, *, names: tuple[str, str] = ("", "")) -> Comparison:
    """Lay two runs, or a run and a theory, over each other on the times that both have; two recorded runs on steps.

    Args:
        a: a Dataset with times, what `measure` returned, the path of a saved run (.nc), or a theory.
        b: likewise; at least one of the two must have times of its own. Between its moments a run is interpolated;
            a theory is solved at the other's times.
        names: what the sides are called.

    >>> from richter.theory import SingleNeuron
    >>> theory = SingleNeuron(a0=1.0, w0=[-1.0, 0.0], beta_star=[0.0, 1.0])
    >>> made = compare(theory.simulate([0.0, 1.0, 2.0]), theory)
    >>> max(d.relative for d in made.differences) < 1e-9, made.regimes[1].label
    (True, 'rich')
    """
    sides = [_read(side, which) for side, which in ((a, "first"), (b, "second"))]
    if all(isinstance(side, AbstractTheory) for side in sides):
        do = "Give one as a solution: theory.solve(times)."
        raise ParameterError(
            message("the two sides of compare()", "have times: a run or a solution", "two theories", do)
        )
    solved = [_solved(side, other) for side, other in (sides, sides[::-1])]
    if any(isinstance(side, AbstractTheory) for side in sides):
        solved = [_full(ds) for ds in solved]
    called = tuple(given or _name(side, which) for given, side, which in zip(names, (a, b), "ab", strict=True))
    if called[0] == called[1]:
        called = (f"{called[0]} (a)", f"{called[1]} (b)")
    regimes = tuple(_regime(side, original) for side, original in zip(sides, (a, b), strict=True))
    over = "step" if all("step" in ds.coords for ds in solved) else "t"
    if over == "step":  # a rate of another size, as moves give it, would leave them no time in common
        solved = [_over_steps(ds) for ds in solved]
    named = (called[0], called[1])
    return Comparison(named, (solved[0], solved[1]), (regimes[0], regimes[1]), _differences(*solved), over)


def _read(side: Side, which: str) -> Any:
    if isinstance(side, Measured):
        side = side.dataset
    if isinstance(side, (str, os.PathLike)):
        side = load(side)
    if isinstance(side, AbstractTheory):
        if side.batch_shape:
            got = f"a batch of shape {side.batch_shape}"
            raise ParameterError(message("a theory in compare()", "be of one start", got))
        return side
    if not hasattr(side, "data_vars"):
        must = "be a Dataset, a run, a file or a theory"
        raise ParameterError(message(f"the {which} side of compare()", must, show(side)))
    ds: Any = in_time(side)
    if "t" not in ds.dims or "t" not in ds.coords:
        raise ParameterError(message(f"the {which} side of compare()", "have times `t`", f"dims {tuple(ds.dims)}"))
    return ds


def _solved(side: Any, other: Any) -> Any:
    if not isinstance(side, AbstractTheory):
        return side
    times = np.asarray(other["t"].values, dtype=np.float64)
    try:
        return side.solve(times)
    except OutsideTheoryError:
        if not np.isfinite(times).all():
            raise
        return side.simulate(times)


def _over_steps(ds: Any) -> Any:
    """A recorded run with its steps in the place of `t`."""
    says = {"long_name": "steps of the run", "units": "1"}
    steps = np.asarray(ds["step"].values, dtype=np.float64)
    return ds.drop_vars("step").assign_coords(t=("t", steps, says)).assign_attrs(clock="steps")


def _full(ds: Any) -> Any:
    """A theory's kernel is the full one: beside a run it takes that name."""
    return ds.rename({name: f"{name}_full" for name in KERNELS if name in ds and f"{name}_full" not in ds})


def _name(side: Side, which: str) -> str:
    if isinstance(side, (str, os.PathLike)):
        return os.path.basename(os.fspath(side))
    if isinstance(side, AbstractTheory):
        return side.name
    ds = side.dataset if isinstance(side, Measured) else side
    return str(ds.attrs.get("model", "")) or f"run {which}"


def _regime(side: Any, original: Side) -> Regime | None:
    if isinstance(original, Measured):
        return original.regime
    if isinstance(side, AbstractTheory):
        try:
            return side.regime()
        except OutsideTheoryError:
            return None
    try:
        return verdict(side)
    except ParameterError:
        return None  # nothing of the kernel was recorded


def _differences(a: Any, b: Any) -> tuple[Difference, ...]:
    t = np.asarray(a["t"].values, dtype=np.float64)
    other = np.asarray(b["t"].values, dtype=np.float64)
    shared = (t >= other.min()) & (t <= other.max())
    if not shared.any():
        got = f"{t.min():g} to {t.max():g} and {other.min():g} to {other.max():g}"
        raise ParameterError(message("the times of the two sides", "overlap", got))
    made = []
    for name in map(str, a.data_vars):
        if name not in b or "t" not in a[name].dims or "t" not in b[name].dims or name.endswith("_resampled"):
            continue
        _same_kernel(name, a[name], b[name])
        x = np.asarray(a[name].transpose("t", ...).values[shared], dtype=np.float64)
        y = np.asarray(b[name].transpose("t", ...).values, dtype=np.float64)
        if x.shape[1:] != y.shape[1:]:
            continue
        y = _at(other, y, t[shared])
        gap, size = np.abs(x - y), np.abs(y)
        if np.isnan(gap).all():
            continue
        largest = float(np.nanmax(gap))
        worst = np.unravel_index(int(np.nanargmax(gap)), gap.shape)
        whole = float(np.nanmax(size))
        last = np.flatnonzero(~np.isnan(gap.reshape(len(gap), -1)).all(axis=1))[-1]
        ends = (float(x[last]), float(y[last])) if x.ndim == 1 else (np.nan, np.nan)
        relative = largest / whole if whole > 0 else (0.0 if largest == 0 else np.nan)
        made.append(Difference(name, largest, relative, float(t[shared][worst[0]]), ends))
    if not made:
        have = [", ".join(sorted(map(str, ds.data_vars))) for ds in (a, b)]
        raise ParameterError(message("the two sides", "share a variable over t", f"{have[0]} and {have[1]}"))
    return tuple(made)


def _same_kernel(name: str, a: Any, b: Any) -> None:
    kinds = [x.attrs.get("kind") for x in (a, b)]
    if None not in kinds and kinds[0] != kinds[1]:
        got = f"{kinds[0]} and {kinds[1]}"
        raise ParameterError(message(f"`{name}` of both sides", "be of one kind of kernel", got))


def _at(times: Any, values: Any, wanted: Any) -> Any:
    if times.shape == wanted.shape and (times == wanted).all():
        return values
    flat = values.reshape(len(times), -1)
    columns = [_between(times[known], column[known], wanted) for column in flat.T for known in [~np.isnan(column)]]
    return np.stack(columns, axis=1).reshape(len(wanted), *values.shape[1:])


def _between(times: Any, values: Any, wanted: Any) -> Any:
    """Interpolated between moments that were looked at; NaN before the first and after the last."""
    if not len(times):
        return np.full(len(wanted), np.nan)
    return np.interp(wanted, times, values, left=np.nan, right=np.nan)
