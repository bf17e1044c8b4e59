"""NAM24 Fig. 1.4: with more features noise is fitted by sharper spikes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.figure import Figure, Panel
from richter.figure.data import mark
from richter.maths.overfitting import fitted_coefficients, sine_basis, spike_width
from richter.refs import NAM24

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Spikes(AbstractExperiment):
    """Random labels fitted by more and more sines of equal intensity."""

    name = "nam24-spikes"
    title = "More features fit noise more sharply"
    statement = (
        "As the number of features grows, the minimum-norm function through random labels becomes sharper, until it "
        "is a sum of benign spikes that hardly differ from 0 elsewhere."
    )
    places = (NAM24["Fig. 1.4"], NAM24["Sec. 1.6.1"])
    presets = {"smoke": {"draws": 4, "features": (400, 800, 1600), "grid": 1001}, "laptop": {}, "paper": {"draws": 200}}
    examples: int = setting(50, "random labels", symbol="n", low=5)
    features: tuple[int, ...] = setting(
        (100, 400, 800, 2000), "numbers of sines, rising; at least three", symbol="p", low=60
    )
    draws: int = setting(20, "sets of examples", low=2)
    grid: int = setting(4001, "points at which the functions are drawn", low=200)
    seed: int = setting(0, "seed of the examples", low=0)

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Width at half height of every spike and variance of the function, for every number of features."""
        import xarray as xr

        shape = (self.draws, len(self.features))
        width, variance, fits = np.full((*shape, self.examples), np.nan), np.empty(shape), []
        grid = np.linspace(0.0, 1.0, self.grid)
        for i in range(self.draws):
            progress("fits", i / self.draws)
            rng = np.random.default_rng([self.seed, i])
            x, y = rng.uniform(size=self.examples), rng.standard_normal(self.examples)
            for j, p in enumerate(self.features):
                c = fitted_coefficients(np.ones(p), sine_basis(x, p), y)
                alone = _apart(x) > 3 / p
                u = np.linspace(-0.75, 0.75, 61) / p
                around = (c @ sine_basis((x[alone, None] + u).ravel(), p)).reshape(-1, u.size) / y[alone, None]
                width[i, j, alone] = (around > 0.5).sum(axis=1) * (u[1] - u[0])
                variance[i, j] = (c**2).sum()
                if i == 0:
                    fits.append(c @ sine_basis(grid, p))
            if i == 0:
                first = x, y
        return xr.Dataset(
            {
                "width": (("draw", "p", "example"), width, {"long_name": "width of the spike at half its height",
                    "undefined_when": "another is nearer than 3/p"}),
                "variance": (("draw", "p"), variance, {"long_name": "variance of the function over [0, 1]"}),
                "theory": ("p", [spike_width(p) for p in self.features],
                    {"long_name": "width of the Dirichlet kernel"}),
                "fit": (("p", "x"), fits), "input": ("example", first[0]), "label": ("example", first[1]),
            },
            {"p": ("p", np.array(self.features), {"symbol": "p", "long_name": "features"}), "x": grid},
        )  # fmt: skip

    @claim("as the number of features grows, the learned function becomes sharper", NAM24["Fig. 1.4"])
    def sharper(self, ds: xr.Dataset) -> Verdict:
        """N3: median width against p, and against the Dirichlet kernel's."""
        there = ds.where(ds.p >= 8 * self.examples, drop=True)  # before, few spikes stand alone
        if there.sizes["p"] < 3:
            return Verdict.undecided(f"{there.sizes['p']} values of p ≥ 8n", "at least 3", self._scale(ds))
        middle = there.width.median(("draw", "example"))
        power = float(np.polyfit(np.log(there.p), np.log(middle), 1)[0])
        each = np.polyfit(np.log(there.p), np.log(there.width.median("example").values.T), 1)[0]
        error = float(each.std(ddof=1) / np.sqrt(each.size))
        ratio = (middle / there.theory).values
        return Verdict.of(
            abs(power + 1) < 0.05 and bool((abs(ratio - 1) < 0.1).all()),
            f"median width ∝ p^{power:.3f}; {ratio.min():.3f} to {ratio.max():.3f} times that of the Dirichlet kernel, "
            "0.603/p", "power −1 ± 0.05; within 10 % of the kernel's", self._scale(ds), f"standard error {error:.3f} "
                "of the power",
        )  # fmt: skip

    @claim("to the point in which they become benign delta-like functions", NAM24["Fig. 1.4"])
    def benign(self, ds: xr.Dataset) -> Verdict:
        """N3: the variance of the function, n/p for labels of variance 1 far from each other."""
        middle = ds.variance.median("draw").values
        share = middle[-1] * self.features[-1] / self.examples
        return Verdict.of(
            bool((np.diff(middle) < 0).all()) and middle[-1] < 0.1,
            f"median variance {middle[0]:.2g} at p = {self.features[0]}, {middle[-1]:.2g} at p = {self.features[-1]}, "
            f"{share:.2f} n/p there", "falls with p; below a tenth of the labels' at the largest", self._scale(ds),
            "between examples nearer than 1/p the function overshoots, so that means grow with the draws",
        )  # fmt: skip

    def figure(self, ds: xr.Dataset) -> Figure:
        """The functions for a small, a middle and a large number of features."""
        panels = []
        for letter, p in zip("abc", (self.features[0], self.features[1], self.features[-1]), strict=True):
            marks = (
                mark("line", ds.x, ds.fit.sel(p=p), role="simulated", label="learned"),
                mark("points", ds.input, ds.label, role="measured", label="random labels"),
            )
            panels.append(Panel(marks, x="x", y="f(x)", y_range=(-4.0, 4.0), title=f"({letter}) p = {p}"))
        return Figure(
            tuple(panels), self.title,
            f"{self.examples} random labels fitted by p sines of equal intensity. Sines are odd about ½: every spike "
            "has a "
            "mirror image with the other sign. After NAM24 Fig. 1.4.",
        )  # fmt: skip

    def _scale(self, ds: xr.Dataset) -> str:
        sizes = ", ".join(map(str, self.features))
        return f"n = {self.examples}, p = {sizes}, {ds.sizes['draw']} sets of examples, uniform x, exact fits"


def _apart(x: Floats) -> Floats:
    """How far each point is from the nearest other one, or from the mirror image of one, its own included."""
    gap = np.abs(x[:, None] - x)
    np.fill_diagonal(gap, np.inf)
    mirror = np.abs(x[:, None] - (1 - x))
    return np.asarray(np.minimum(gap, np.minimum(mirror, 1 - mirror)).min(axis=1))
