"""KUN24 Fig. 10: what still changes when training goes on ten times longer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.experiments.teacher_student_runs import SEEN, descend
from richter.figure import Figure, Panel
from richter.figure.build import number
from richter.figure.data import mark
from richter.refs import KUN24

if TYPE_CHECKING:
    import xarray as xr

PUBLISHED = 1_000_000
KEPT = ("test_loss", "kernel_distance", "hamming", "parameter_distance")
WORDS = {
    "train_loss": "training loss", "test_loss": "test loss", "kernel_distance": "kernel distance",
    "hamming": "Hamming distance", "parameter_distance": "parameter distance",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LateTraining(AbstractExperiment):
    """The last factor of ten in the number of steps: the training loss falls on, the rest has settled."""

    name = "kun24-late-training"
    title = "What still changes late in training"
    statement = (
        "Between 10⁵ and 10⁶ steps the training loss still drops, while the test loss and the distances from the start "
        "remain largely unchanged."
    )
    places = (KUN24["Fig. 10"], KUN24["App. D.1"])
    presets = {
        "smoke": {"steps": 300, "taus": (0.1, 2.0), "deltas": (0.0,), "tests": 1000},
        "laptop": {},
        "paper": {"taus": (0.1, 0.3, 0.7, 2.0), "deltas": (-1.0, 0.0, 1.0), "seeds": 4},
    }
    taus: tuple[float, ...] = setting((0.1, 2.0), "scales", symbol="τ", low=0.01, high=10)
    deltas: tuple[float, ...] = setting((-1.0, 1.0), "imbalances", symbol="δ", low=-10, high=10)
    seeds: int = setting(1, "teachers, starts and data", low=1, high=1000)
    steps: int = setting(PUBLISHED, "steps of gradient descent", low=100, high=10**8)
    rate: float = setting(5e-3, "learning rate times τ²", symbol="ητ²", low=1e-5, high=0.1)
    tests: int = setting(10_000, "test examples", low=10)
    seed: int = setting(0, "first seed", low=0)

    def run(self, progress: Progress = silent, store: Path | None = None) -> xr.Dataset:
        """In float64: late steps are too small for single precision."""
        cells = [(tau, delta) for delta in self.deltas for tau in self.taus]
        looks = [0, self.steps // 10, self.steps]
        looks += [round(10 ** (k / 3)) for k in range(3, 24) if 10 ** (k / 3) < self.steps]
        return descend(
            cells, range(self.seed, self.seed + self.seeds), self.steps, looks, rate=self.rate, dtype="float64",
            progress=progress, store=store, n=1000, d=100, width=50, n_test=self.tests,
        )  # fmt: skip

    @claim("although training loss still drops between 10⁵ and 10⁶ steps, the test loss and other distances considered "
           "remain largely unchanged", KUN24["Fig. 10"])  # fmt: skip
    def settled(self, ds: xr.Dataset) -> Verdict:
        """K16: last over tenth of the steps, in every cell that is not at the noise of the numbers."""
        late, early = ds.isel(step=-1), ds.sel(step=self.steps // 10)
        falls = (late.train_loss / early.train_loss).values.ravel()
        changes = {name: (late[name] / early[name]).values.ravel() for name in KEPT}
        said = "; ".join(f"{WORDS[name]} × {_range(ratio)}" for name, ratio in changes.items())
        measured = f"training loss × {_range(falls)}; {said}"
        expected = "training loss below a half in every cell; the others within a factor of 1.5"
        if self.steps < PUBLISHED:
            return Verdict.undecided(f"only {self.steps:,} steps: {measured}", expected, self._scale(ds))
        kept = all((ratio > 1 / 1.5).all() and (ratio < 1.5).all() for ratio in changes.values())
        return Verdict.of(bool((falls < 0.5).all()) and kept, measured, expected, self._scale(ds), "ranges over cells")

    def figure(self, ds: xr.Dataset) -> Figure:
        """Every observable over the steps, and where the last tenth begins."""
        panels = []
        for name in SEEN:
            marks = [mark("vline", [self.steps / 10], role="guide", label="a tenth of the steps")]
            for k in range(ds.sizes["cell"]):
                here = ds.isel(cell=k, step=slice(1, None))
                label = f"τ = {number(float(here.tau))}, δ = {number(float(here.delta))}"
                middle = here[name].mean("seed")
                marks.append(mark("line", here.step, middle, role="simulated", colour=label, label=label, group=label))
            panels.append(Panel(tuple(marks), x="steps", y=WORDS[name], x_log=True, y_log=True, title=WORDS[name]))
        return Figure(
            tuple(panels),
            "What still changes late in training",
            f"A ReLU student of 50 neurons learns from a teacher of 3, 100 inputs, 1000 examples; mean over "
            f"{_seeds(ds)}. After KUN24 Fig. 10.",
        )

    def _scale(self, ds: xr.Dataset) -> str:
        return f"{ds.sizes['cell']} cells, {_seeds(ds)}, {self.steps:,} steps, d = 100, n = 1000, float64"


def _range(ratio: np.ndarray) -> str:
    return f"{ratio.min():.3g} to {ratio.max():.3g}" if ratio.size > 1 else f"{ratio[0]:.3g}"


def _seeds(ds: xr.Dataset) -> str:
    return f"{ds.sizes['seed']} seed{'s' if ds.sizes['seed'] > 1 else ''}"
