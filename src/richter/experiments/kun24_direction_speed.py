"""KUN24 §5, upstream: the start's scale sets how fast neurons turn; in a balanced start, how fast they grow."""

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
WORDS = {"direction": "mean angle by which neurons have turned", "radius": "Σ|μᵢ|: size of the neurons' functions"}


@dataclass(frozen=True, kw_only=True)
class DirectionSpeed(AbstractExperiment):
    """Half-times of the directions and of the sizes of ReLU neurons against the scale of their start."""

    name = "kun24-direction-speed"
    title = "Scale sets the speed of turning or of growing"
    statement = (
        "For an upstream start the scale regulates the speed of directions, not of sizes, and a vanishing start aligns "
        "extremely fast; for a balanced start it is the sizes whose speed depends on the scale."
    )
    places = (KUN24["Sec. 5"], KUN24["Eq. 9"])
    presets = {
        "smoke": {"seeds": 4, "scales": (0.06, 0.12), "steps": 15_000, "width": 20},
        "laptop": {},
        "paper": {"seeds": 64, "scales": (0.01, 0.02, 0.04, 0.08), "steps": 2_000_000},
    }
    scales: tuple[float, ...] = setting((0.03, 0.05, 0.08), "scales of the start", symbol="τ", low=1e-3, high=0.3)
    delta: float = setting(1.0, "imbalance of the upstream start", symbol="δ", low=0.1, high=10)
    width: int = setting(50, "the student's neurons", symbol="h", low=2, high=1000)
    steps: int = setting(150_000, "steps of gradient descent", low=1000, high=10**8)
    seeds: int = setting(10, "teachers, starts and data", low=2, high=1000)
    moments: int = setting(300, "times looked at", low=50, high=2000)
    seed: int = setting(0, "first seed", low=0)

    def run(self, progress: Progress = silent, store: Path | None = None) -> xr.Dataset:
        """Both starts of all scales: the step is a tenth of the smallest neuron's turning time; in float64."""
        import xarray as xr

        worlds = [
            teacher_student(20, d=2, width=2 * (self.width // 2), n_test=0, rng=self.seed + k)
            for k in range(self.seeds)
        ]
        made = []
        for place, (delta, step) in enumerate(((self.delta, 0.1 * min(self.scales) ** 2 / self.delta), (0.0, 2e-3))):
            cells = [(tau, delta) for tau in self.scales]
            # A balanced start of size τ² takes a time of order log 1/τ, the upstream one of order 1/δ.
            steps = self.steps if delta else min(self.steps, 100_000)
            looks = log_moments(steps, self.moments)
            run = train_many(
                Networks.together([students(world, cells) for world in worlds]),
                [world.task for world in worlds for _ in cells], steps=steps, rate=step, dtype="float64",
                moments=looks, see=("train_loss", "parameters"),
                progress=part(progress, "gradient descent", place / 2, (place + 1) / 2),
                checkpoints=kept(store, "upstream" if delta else "balanced"),
            ).dataset  # fmt: skip
            w, a = run.weight1.values, run.weight2.values[:, :, 0]
            size = np.linalg.norm(w, axis=-1)
            unit = w / size[..., None]
            turned = 2 * np.arcsin(np.minimum(np.linalg.norm(unit - unit[:, :1], axis=-1) / 2, 1.0)).mean(axis=-1)
            radius = (np.abs(a) * size).sum(axis=-1)
            times = np.geomspace(step, step * steps, self.moments)
            fold = lambda rows, times=times, run=run: np.array(
                [np.interp(times, run.t.values[1:], row[1:]) for row in rows]
            ).reshape(self.seeds, len(self.scales), -1)
            dims = ("seed", "tau", "moment")
            made.append(xr.Dataset(
                {"direction": (dims, fold(turned)), "radius": (dims, fold(radius)),
                 "train_loss": (dims, fold(run.train_loss.values)), "t": ("moment", times)},
            ))  # fmt: skip
        ds = xr.concat(made, "kind")
        return ds.assign_coords(
            seed=self.seed + np.arange(self.seeds), tau=list(self.scales), kind=["upstream", "balanced"]
        )

    @claim("in the upstream setting the scale regulates the speed of directional dynamics, with vanishing "
           "initializations prompting an extremely fast alignment phase", KUN24["Sec. 5"], KUN24["Eq. 9"])  # fmt: skip
    def upstream(self, ds: xr.Dataset) -> Verdict:
        """K23: powers of τ in the half-times; directions turn at a rate δ/μ = δ/τ², sizes grow at δ."""
        said, (turn, low, high), (grow, *_) = self._powers(ds, "upstream")
        expected = "directions: 2 ± 0.5 with its interval; sizes: less than a quarter of that"
        if low <= 2.5 and high >= 1.5 and not (1.5 <= low and high <= 2.5):
            return Verdict.undecided(f"the interval is too wide: {said}", expected, self._scale(ds))
        return Verdict.of(
            1.5 <= low and high <= 2.5 and abs(grow) < turn / 4, said, expected, self._scale(ds),
            "medians over seeds, 95 % bootstrap intervals",
        )  # fmt: skip

    @claim("unlike in the balanced scenario where scale adjusts the speed of radial dynamics", KUN24["Sec. 5"])
    def balanced(self, ds: xr.Dataset) -> Verdict:
        """K23: balanced sizes grow exponentially, so that their half-time rises like log 1/τ; directions less so."""
        said, (turn, *_), (grow, _, high) = self._powers(ds, "balanced")
        return Verdict.of(
            high < 0 and abs(grow) > abs(turn), said,
            "sizes: a negative power with its interval, larger than that of the directions", self._scale(ds),
            "medians over seeds, 95 % bootstrap intervals",
        )  # fmt: skip

    def _powers(self, ds: xr.Dataset, kind: str) -> tuple[str, tuple[float, ...], tuple[float, ...]]:
        found, said = [], []
        for name, words in (("direction", "directions"), ("radius", "sizes")):
            half = self._half(ds.sel(kind=kind), name)
            powers = np.polyfit(np.log(self.scales), np.log(half).T, 1)[0]
            found.append((float(np.median(powers)), *interval(powers, np.median)))
            times = ", ".join(f"{t:.2g}" for t in np.median(half, axis=0))
            said.append(
                f"{words}: half-times {times}, power {found[-1][0]:.2f} [{found[-1][1]:.2f}, {found[-1][2]:.2f}]"
            )
        scales = ", ".join(f"{tau:g}" for tau in self.scales)
        return f"{'; '.join(said)} at τ = {scales}", found[0], found[1]

    def _half(self, here: xr.Dataset, name: str) -> Floats:
        """When half of the final change has happened, (seed, tau)."""
        rows = here[name].transpose("seed", "tau", "moment").values
        there = np.abs(rows - rows[..., :1]) >= 0.5 * np.abs(rows[..., -1:] - rows[..., :1])
        return np.asarray(here.t.values[there.argmax(axis=-1)])

    def figure(self, ds: xr.Dataset) -> Figure:
        """Angles and sizes over time for every scale, upstream and balanced."""
        panels = []
        letters = iter("abcd")
        for name, words in WORDS.items():
            for kind in ("upstream", "balanced"):
                here = ds.sel(kind=kind)
                marks = [
                    mark("line", here.t, here[name].sel(tau=tau).median("seed"), role="simulated", colour=float(tau),
                         label=f"τ = {number(tau)}", group=f"{tau:g}")
                    for tau in self.scales
                ]  # fmt: skip
                panels.append(Panel(tuple(marks), x="t: time", y=words, x_log=True, title=f"({next(letters)}) {kind}"))
        return Figure(
            tuple(panels),
            "Scale sets the speed of turning or of growing",
            f"{2 * (self.width // 2)} ReLU neurons in the plane learn from a teacher of 3, 20 examples; medians over "
            f"{ds.sizes['seed']} seeds. Upstream (δ = {number(self.delta)}) a smaller start turns earlier and grows "
            "alike; balanced it turns alike and grows later. After KUN24 §5.",
        )

    def _scale(self, ds: xr.Dataset) -> str:
        return f"d = 2, n = 20, h = {2 * (self.width // 2)}, {ds.sizes['seed']} seeds, {self.steps:,} steps"
