"""KUN24 Fig. 1, last sentence of the caption: which start ends with the smallest test loss."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.experiments.teacher_student_runs import descend, interval
from richter.figure import Figure, Panel
from richter.figure.build import number
from richter.figure.data import mark
from richter.refs import KUN24

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
CELLS = ((0.1, 1.0), (0.1, 0.0), (0.1, -1.0), (2.0, 1.0), (2.0, 0.0))  # the first is the one that is claimed best


@dataclass(frozen=True, kw_only=True)
class SmallestTestLoss(AbstractExperiment):
    """Test losses of five starts over many teachers: medians, means and their intervals."""

    name = "kun24-test-loss"
    title = "Which start generalises best"
    statement = "A small scale τ with a large imbalance δ also leads to the smallest test loss."
    places = (KUN24["Fig. 1"], KUN24["App. D.1"])
    presets = {
        "smoke": {"seeds": 3, "steps": 300, "tests": 1000},
        "laptop": {},
        "paper": {"steps": 100_000, "dtype": "float64"},
    }
    seeds: int = setting(16, "teachers, starts and data", low=2, high=1000)
    steps: int = setting(20_000, "steps of gradient descent", low=100, high=10**8)
    rate: float = setting(5e-3, "learning rate times τ²", symbol="ητ²", low=1e-5, high=0.1)
    tests: int = setting(10_000, "test examples", low=10)
    dtype: str = setting("float32", "precision", choices=("float32", "float64"))
    seed: int = setting(0, "first seed", low=0)

    def run(self, progress: Progress = silent, store: Path | None = None) -> xr.Dataset:
        """All starts on the same data, seed by seed; d = 100, h = 50, n = 1000 as published."""
        looks = [0, *(round(10 ** (k / 2)) for k in range(4, 17) if 10 ** (k / 2) < self.steps), self.steps]
        return descend(
            CELLS, range(self.seed, self.seed + self.seeds), self.steps, looks, rate=self.rate, dtype=self.dtype,
            see=("train_loss", "test_loss"), progress=progress, store=store, n=1000, d=100, width=50, n_test=self.tests,
        )  # fmt: skip

    @claim("this initialization (τ small and δ large) also leads to the smallest test loss", KUN24["Fig. 1"])
    def smallest(self, ds: xr.Dataset) -> Verdict:
        """K15: every rival's test loss over the upstream one's on the same data; medians and means with intervals."""
        last = ds.test_loss.isel(step=-1).transpose("seed", "cell").values
        ratios = np.log(last[:, 1:] / last[:, :1])
        said, lows, highs = [], [], []
        for (tau, delta), row in zip(CELLS[1:], ratios.T, strict=True):
            low, high = np.exp(interval(row, np.median))
            lows.append(low)
            highs.append(high)
            said.append(f"τ = {tau:g}, δ = {delta:g}: {np.exp(np.median(row)):.3g} [{low:.3g}, {high:.3g}]")
        own = self._summary(last[:, 0])
        rivals = {cell: self._summary(last[:, k])[1] for k, cell in enumerate(CELLS) if k}
        best = min(rivals, key=lambda cell: rivals[cell])
        measured = (
            f"median test loss {own[0]:.3g}, mean {own[1]:.3g} {own[2]} (best rival's mean {rivals[best]:.3g} at "
            f"τ = {best[0]:g}, δ = {best[1]:g}); rivals' over it: " + "; ".join(said)
        )
        expected = "every rival's median ratio above 1, its 95 % interval too"
        if len(last) < 16:
            return Verdict.undecided(f"{len(last)} seeds are too few; {measured}", expected, self._scale(ds))
        if min(lows) <= 1 <= min(highs):
            return Verdict.undecided(f"an interval holds 1; {measured}", expected, self._scale(ds))
        return Verdict.of(min(lows) > 1, measured, expected, self._scale(ds), "95 % bootstrap intervals over seeds")

    def _summary(self, losses: Floats) -> tuple[float, float, str]:
        low, high = interval(losses, np.mean)
        return float(np.median(losses)), float(losses.mean()), f"[{low:.3g}, {high:.3g}]"

    def figure(self, ds: xr.Dataset) -> Figure:
        """Test and training losses over the steps: medians, and the middle half of the seeds."""
        panels = []
        for letter, (name, words) in zip(
            "ab", {"test_loss": "test loss", "train_loss": "training loss"}.items(), strict=True
        ):
            marks = []
            for k, (tau, delta) in enumerate(CELLS):
                here = ds[name].isel(cell=k, step=slice(1, None)).transpose("seed", "step").values
                label = f"τ = {number(tau)}, δ = {number(delta)}"
                low, middle, high = np.quantile(here, [0.25, 0.5, 0.75], axis=0)
                steps = ds.step.values[1:]
                marks.append(mark("band", steps, low, high=high, role="simulated", colour=label, group=label))
                marks.append(mark("line", steps, middle, role="simulated", colour=label, label=label, group=label))
            panels.append(
                Panel(tuple(marks), x="steps", y=words, x_log=True, y_log=True, title=f"({letter}) {words}")
            )  # fmt: skip
        return Figure(
            tuple(panels),
            "Which start generalises best",
            f"A ReLU student of 50 neurons learns from a teacher of 3, 100 inputs, 1000 examples; medians over "
            f"{ds.sizes['seed']} seeds, bands hold the middle half. After the caption of KUN24 Fig. 1.",
        )

    def _scale(self, ds: xr.Dataset) -> str:
        return f"{len(CELLS)} starts, {ds.sizes['seed']} seeds, {self.steps:,} steps, d = 100, n = 1000, {self.dtype}"
