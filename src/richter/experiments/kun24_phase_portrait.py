"""KUN24 Fig. 1b and 10: lazy and rich learning over the scale and the geometry of the start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.experiments.teacher_student_runs import descend
from richter.figure import ColourScale, Figure, Panel
from richter.figure.build import number
from richter.figure.data import mark
from richter.refs import KUN24

if TYPE_CHECKING:
    import xarray as xr

SHOWN = {
    "kernel_distance": "kernel distance", "test_loss": "test loss", "hamming": "Hamming distance",
    "parameter_distance": "parameter distance", "train_loss": "training loss",
}  # fmt: skip
RICH = 0.1  # a kernel distance beyond which a cell counts as having left the lazy regime
FLOOR = 1e-10  # the published picture of the training loss ends here


@dataclass(frozen=True, kw_only=True)
class PhasePortrait(AbstractExperiment):
    """A wide ReLU student of a narrow teacher, for every scale τ and imbalance δ of its start."""

    name = "kun24-phase-portrait"
    title = "Lazy, rich and rapidly rich starts"
    statement = (
        "Learning is lazy when the start's scale τ is large and rich when it is small; it is rapidly rich when τ is "
        "small and the imbalance δ large."
    )
    places = (KUN24["Fig. 1"], KUN24["Fig. 10"], KUN24["App. D.1"])
    presets = {
        "smoke": {"taus": 4, "deltas": 3, "seeds": 1, "steps": 1000, "tests": 1000},
        "laptop": {},
        "paper": {"taus": 17, "deltas": 17, "seeds": 16, "steps": 1_000_000, "dtype": "float64"},
    }  # fmt: skip
    taus: int = setting(9, "scales from 0.1 to 2, evenly in the logarithm", low=3, high=100)
    deltas: int = setting(9, "imbalances from −1 to 1", low=3, high=101)
    seeds: int = setting(4, "teachers, starts and data", low=1, high=1000)
    steps: int = setting(10_000, "steps of gradient descent", low=1000, high=10**8)
    rate: float = setting(5e-3, "learning rate times τ²", symbol="ητ²", low=1e-5, high=0.1)
    width: int = setting(50, "the student's neurons", symbol="h", low=2, high=1000)
    inputs: int = setting(100, "inputs", symbol="d", low=2)
    examples: int = setting(1000, "training examples", symbol="n", low=3)
    tests: int = setting(10_000, "test examples", low=10)
    dtype: str = setting("float32", "precision", choices=("float32", "float64"))
    seed: int = setting(0, "first seed", low=0)

    def run(self, progress: Progress = silent, store: Path | None = None) -> xr.Dataset:
        """Every cell at every power of ten and three times it; over (seed, delta, tau, step)."""
        taus, deltas = np.geomspace(0.1, 2, self.taus), np.linspace(-1, 1, self.deltas)
        cells = [(float(tau), float(delta)) for delta in deltas for tau in taus]
        decades = [round(part * 10**k) for k in range(9) for part in (1, 10**0.5)]
        looks = [0, *(step for step in decades if step < self.steps), self.steps]
        made = descend(
            cells, range(self.seed, self.seed + self.seeds), self.steps, looks, rate=self.rate, dtype=self.dtype,
            progress=progress, store=store, n=self.examples, d=self.inputs, width=2 * (self.width // 2),
            n_test=self.tests,
        )  # fmt: skip
        folded = made.drop_vars(["tau", "delta"]).coarsen(cell=self.taus).construct(cell=("delta", "tau"))
        return folded.assign_coords(tau=taus, delta=deltas)

    @claim("lazy learning happens when τ is large, rich learning happens when τ is small", KUN24["Fig. 1"])
    def scale_decides(self, ds: xr.Dataset) -> Verdict:
        """K14: the kernel distance at the last step, at the smallest and the largest scale, for every δ."""
        end = ds.kernel_distance.isel(step=-1).mean("seed")
        small, large = end.isel(tau=0), end.isel(tau=-1)
        ratio = float((small / large).min())
        balanced = float(small.sel(delta=0, method="nearest"))
        late = "" if self.steps >= 10_000 else "; the slow corner at δ < 0 needs 10⁴ steps"
        holds = ratio >= 10 and float(large.max()) < 0.05
        if not holds and late:
            return Verdict.undecided(f"S(0, t) at τ = 0.1 at least {ratio:.3g} times that at τ = 2{late}",
                                     "at least 10 times", self._scale(ds))  # fmt: skip
        return Verdict.of(
            holds,
            f"S(0, t) at τ = 0.1: {float(small.min()):.3g} to {float(small.max()):.3g} over δ ({balanced:.3g} at "
            f"δ = 0); at τ = 2 at most {float(large.max()):.3g}; ratio at least {ratio:.3g}",
            "at every δ at least 10 times that at τ = 2, which stays below 0.05", self._scale(ds),
        )  # fmt: skip

    @claim("rapid rich learning happens when both τ is small and δ is large: an upstream initialisation",
           KUN24["Fig. 1"])  # fmt: skip
    def upstream_is_rapid(self, ds: xr.Dataset) -> Verdict:
        """K14: the first step looked at with a kernel distance above 0.1, in the four corners and in the middle."""
        distance = ds.kernel_distance.mean("seed")
        there = (distance > RICH).transpose("delta", "tau", "step").values
        first = np.where(there.any(axis=-1), ds.step.values[there.argmax(axis=-1)], np.inf)
        middle = int(np.argmin(np.abs(ds.delta.values)))
        corner = {"small τ, δ = 1": first[-1, 0], "small τ, δ = 0": first[middle, 0],
                  "small τ, δ = −1": first[0, 0], "large τ, δ = 1": first[-1, -1]}  # fmt: skip
        rapid = corner.pop("small τ, δ = 1")
        said = ", ".join(f"{name}: {_steps(value)}" for name, value in corner.items())
        return Verdict.of(
            np.isfinite(rapid) and min(corner.values()) >= 10 * rapid,
            f"S(0, t) > {RICH:g} at small τ, δ = 1 by {_steps(rapid)}; {said}", "at least 10 times earlier",
            self._scale(ds),
        )  # fmt: skip

    @claim("an upstream start is rich due to a changing activation pattern, but does not move far in parameter space",
           KUN24["Sec. 5"], KUN24["Fig. 10"])  # fmt: skip
    def activations(self, ds: xr.Dataset) -> Verdict:
        """Hamming against parameter distance after a hundred steps: upstream and downstream corners."""
        now = ds.sel(step=100, method="nearest").isel(tau=0).mean("seed")
        hamming, moved = now.hamming, now.parameter_distance
        up, down = float(hamming.isel(delta=-1)), float(hamming.isel(delta=0))
        return Verdict.of(
            up > 10 * down and float(moved.isel(delta=-1)) < 3 * float(moved.isel(delta=0)),
            f"after {int(now.step)} steps {up:.2g} of the activations changed upstream, {down:.2g} downstream, over "
            f"parameter distances {float(moved.isel(delta=-1)):.2g} and {float(moved.isel(delta=0)):.2g}",
            "more than 10 times as many over a distance less than 3 times as large", self._scale(ds),
        )  # fmt: skip

    def figure(self, ds: xr.Dataset) -> Figure:
        """One row per observable, one column for each of the last three powers of ten."""
        columns = [step for step in ds.step.values if step >= 10 and abs(np.log10(step) % 1) < 1e-9][-3:]
        panels = []
        for name, words in SHOWN.items():
            middle = ds[name].mean("seed").sel(step=columns)
            values = middle.clip(min=FLOOR) if name.endswith("loss") else middle
            low, high = float(values.min()), float(values.max())
            log = name.endswith("loss") and low > 0
            scale = ColourScale(words, "sequential", low if log else 0.0, high, "log" if log else "linear")
            for step in columns:
                cells = values.sel(step=step).transpose("delta", "tau")
                panels.append(
                    Panel(
                        (mark("cells", ds.tau, ds.delta, values=cells, label=words),), x="τ: scale", y="δ: imbalance",
                        x_log=True, colours=scale, title=f"{words}, {number(step)} steps",
                    )
                )  # fmt: skip
        return Figure(
            tuple(panels),
            "Lazy, rich and rapidly rich starts",
            f"A ReLU student of {2 * (self.width // 2)} neurons learns from a teacher of 3, {self.inputs} inputs; "
            f"mean over {_seeds(ds)}. Rows: distance of the kernel from the start, test loss, Hamming and "
            "parameter distances, training loss. After KUN24 Figs. 1b and 10.",
        )

    def _scale(self, ds: xr.Dataset) -> str:
        size = f"{ds.sizes['tau']} × {ds.sizes['delta']} cells, {_seeds(ds)}, {self.steps:,} steps"
        return f"d = {self.inputs}, h = {2 * (self.width // 2)}, n = {self.examples}, {size}, {self.dtype}"


def _steps(value: float) -> str:
    return f"{value:,.0f} steps" if np.isfinite(value) else "not in this run"


def _seeds(ds: xr.Dataset) -> str:
    return f"{ds.sizes['seed']} seed{'s' if ds.sizes['seed'] > 1 else ''}"
