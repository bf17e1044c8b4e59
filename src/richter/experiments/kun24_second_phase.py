"""KUN24 §5, downstream: with too few neurons to fit by reweighing, a second and slow rich phase follows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.experiments.teacher_student_runs import interval, kept, part, students
from richter.figure import Figure, Panel
from richter.figure.build import number
from richter.figure.data import mark
from richter.refs import KUN24
from richter.tasks import teacher_student
from richter.training import Networks, log_moments, train_many

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
TAU = 0.1
STEADY = 0.5  # rate × neurons × |δ|, well below what is stable


@dataclass(frozen=True, kw_only=True)
class SecondPhase(AbstractExperiment):
    """Downstream starts of narrow and wide ReLU students: loss and kernel distance over time, for several |δ|."""

    name = "kun24-second-phase"
    title = "Too few neurons to fit by reweighing"
    statement = (
        "A downstream start fits by reweighing its neurons while the kernel stays; if they are too few, a second, slow "
        "rich phase follows in which the kernel changes, and |δ| controls its delay."
    )
    places = (KUN24["Sec. 5"],)
    presets = {
        "smoke": {"seeds": 4, "sizes": (1.0, 2.0, 4.0), "span": 1600.0},
        "laptop": {},
        "paper": {"seeds": 64, "sizes": (1.0, 2.0, 4.0, 8.0, 16.0), "span": 51200.0},
    }
    narrow: int = setting(8, "neurons of the narrow student, half of them mirror copies", symbol="h", low=2, high=50)
    wide: int = setting(100, "neurons of the wide student", symbol="h", low=20, high=1000)
    sizes: tuple[float, ...] = setting((1.0, 2.0, 4.0, 8.0), "sizes of the imbalance", symbol="|δ|", low=0.5, high=100)
    seeds: int = setting(12, "teachers, starts and data", low=2, high=1000)
    span: float = setting(12800.0, "last time at |δ| = 1; it is this over |δ|", symbol="t", low=100)
    moments: int = setting(100, "times looked at", low=20, high=1000)
    seed: int = setting(0, "first seed", low=0)

    def run(self, progress: Progress = silent, store: Path | None = None) -> xr.Dataset:
        """Gradient descent on ½ mean, steps ∝ 1/|δ|; the wide student, which soon rests, for an eighth of the time."""
        import xarray as xr

        made = []
        for place, (width, share) in enumerate(((self.narrow, 1.0), (self.wide, 1 / 8))):
            worlds = [
                teacher_student(20, d=2, width=2 * (width // 2), n_test=0, rng=self.seed + k) for k in range(self.seeds)
            ]
            step = STEADY / width
            steps = round(self.span * share / step)
            cells = [(TAU, -size) for size in self.sizes]
            run = train_many(
                Networks.together([students(world, cells) for world in worlds]),
                [world.task for world in worlds for _ in cells], steps=steps,
                rate=np.tile(step / np.array(self.sizes), self.seeds), dtype="float64",
                moments=log_moments(steps, self.moments), see=("train_loss", "kernel_distance", "hamming"),
                progress=part(progress, "gradient descent", place / 2, (place + 1) / 2),
                checkpoints=kept(store, f"width-{width}"),
            ).dataset  # fmt: skip
            # In units of 1/|δ| all sizes are looked at at the same times, which are the same for both widths.
            times = np.geomspace(10 * step, self.span * share, self.moments)
            fold = lambda name, run=run, times=times, step=step: np.array(
                [np.interp(times, run.step.values[1:] * step, row[1:]) for row in run[name].values]
            ).reshape(self.seeds, len(self.sizes), -1)
            dims = ("seed", "size", "moment")
            data = {name: (dims, fold(name)) for name in ("train_loss", "kernel_distance", "hamming")}
            loss0 = run.train_loss.values[:, 0].reshape(self.seeds, -1)
            t = times / np.array(self.sizes)[:, None]
            made.append(xr.Dataset({**data, "first_loss": (dims[:2], loss0), "t": (dims[1:], t)}))
        ds = xr.concat(made, "width")
        return ds.assign_coords(seed=self.seed + np.arange(self.seeds), size=list(self.sizes), width=["narrow", "wide"])

    @claim("if the number of hidden neurons is insufficient to fit the data, there will be a second, slow rich phase "
           "where the kernel will change", KUN24["Sec. 5"])  # fmt: skip
    def second(self, ds: xr.Dataset) -> Verdict:
        """K22: the kernel's final distance, narrow against wide, and its half-time over the loss's."""
        end = ds.kernel_distance.isel(moment=-1).median("seed")
        share = float((end.sel(width="wide") / end.sel(width="narrow")).max())
        late = np.median(self._half(ds, "kernel_distance") / self._half(ds, "train_loss"), axis=0)
        last = float(end.sel(width="narrow").min())
        return Verdict.of(
            share < 0.1 and bool((late > 3).all()) and last > 0.005,
            f"final kernel distance of the narrow student {last:.2g} or more, of the wide one at most {share:.1g} of "
            f"it; the narrow kernel's half-time is {_listed(late)} times the loss's, for |δ| = {_listed(self.sizes)}",
            "wide below a tenth of narrow; more than 3 times later", self._scale(ds), "medians over seeds",
        )  # fmt: skip

    @claim("with |δᵢ| controlling the delay", KUN24["Sec. 5"])
    def delayed(self, ds: xr.Dataset) -> Verdict:
        """K22: the power of |δ| in the kernel's half-time; Eq. 9 gives directions a rate ∝ 1/|δ|.

        A change that is cut off by the last time has too small a half-time, the more so the larger |δ|.
        """
        half = self._half(ds, "kernel_distance")
        powers = np.polyfit(np.log(self.sizes), np.log(half).T, 1)[0]
        low, high = interval(powers, np.median)
        middle = np.median(half, axis=0)
        last = ds.sel(width="narrow").isel(size=-1).kernel_distance.median("seed").values
        times = ds.t.sel(width="narrow").isel(size=-1).values
        late = 1 - float(np.interp(times[-1] / 2, times, last) / last[-1])
        return Verdict.of(
            low > 0, f"half-times {_listed(middle)} at |δ| = {_listed(self.sizes)}: power {np.median(powers):.2f} "
            f"[{low:.2f}, {high:.2f}] (the last half of the time adds {late:.0%} at the largest |δ|)",
            "a positive power (1 for |δ| ≫ |μ|)", self._scale(ds),
            "medians over seeds, 95 % bootstrap interval",
        )  # fmt: skip

    def _half(self, ds: xr.Dataset, name: str) -> Floats:
        """When half of the final change has happened in the narrow student, (seed, size)."""
        here = ds.sel(width="narrow")
        rows = here[name].transpose("seed", "size", "moment").values
        start = here.first_loss.values[..., None] if name == "train_loss" else 0.0
        there = np.abs(rows - start) >= 0.5 * np.abs(rows[..., -1:] - start)
        t = here.t.transpose("size", "moment").values
        return np.asarray(t[np.arange(t.shape[0])[None], there.argmax(axis=-1)])

    def figure(self, ds: xr.Dataset) -> Figure:
        """Loss and kernel distance over time, narrow and wide."""
        panels = []
        letters = iter("abcd")
        for name, words in {"train_loss": "L: training loss", "kernel_distance": "S(0, t): kernel distance"}.items():
            for width, size in (("narrow", self.narrow), ("wide", self.wide)):
                here = ds[name].sel(width=width).median("seed")
                marks = [
                    mark("line", ds.t.sel(width=width).isel(size=k), here.isel(size=k), role="simulated",
                         colour=float(value), label=f"|δ| = {number(value)}", group=f"{value:g}")
                    for k, value in enumerate(self.sizes)
                ]  # fmt: skip
                high = 1.1 * float(ds[name].median("seed").max())
                panels.append(
                    Panel(tuple(marks), x="t: time", y=words, x_log=True, y_range=(0.0, high),
                          title=f"({next(letters)}) {width}: {size} neurons")
                )  # fmt: skip
        return Figure(
            tuple(panels),
            "Too few neurons to fit by reweighing",
            f"Downstream starts (τ = {TAU:g}) of a ReLU student in the plane, 20 examples of a teacher of 3; medians "
            f"over {ds.sizes['seed']} seeds. A wide student fits at once, its kernel rests; in a narrow one a second "
            "phase follows, the later the larger |δ|. After KUN24 §5.",
        )

    def _scale(self, ds: xr.Dataset) -> str:
        widths = f"{self.narrow} and {self.wide} neurons"
        return f"d = 2, n = 20, {widths}, |δ| = {_listed(self.sizes)}, {ds.sizes['seed']} seeds, t to {self.span:g}/|δ|"


def _listed(values: Floats | tuple[float, ...]) -> str:
    return ", ".join(f"{value:,.0f}" if value >= 1000 else f"{value:.3g}" for value in values)
