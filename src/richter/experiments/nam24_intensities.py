"""NAM24 Fig. 1.2: the same functions with opposite intensities fit the same examples oppositely."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.figure import Figure, Panel
from richter.figure.data import mark
from richter.refs import NAM24
from richter.theory import sine_fits

if TYPE_CHECKING:
    import xarray as xr

MODELS = ("falling intensity", "rising intensity")


@dataclass(frozen=True, kw_only=True)
class Intensities(AbstractExperiment):
    """Minimum-norm fits of a few points by ten sines whose intensities fall or rise with the frequency."""

    name = "nam24-intensities"
    title = "Intensities decide which functions fit"
    statement = (
        "Two overparameterised linear models with the same functions and opposite intensities learn different "
        "functions from the same examples: each expresses them by the functions it prefers."
    )
    places = (NAM24["Fig. 1.2"], NAM24["Sec. 1.6"])
    presets = {"smoke": {"draws": 40, "grid": 200}, "laptop": {}, "paper": {"draws": 5000}}
    modes: int = setting(10, "sine functions of each model", symbol="p", low=4, high=40)
    examples: int = setting(4, "examples", symbol="n", low=2, high=20)
    power: float = setting(4.0, "|α|: features go like k^±α, intensities like k^±2α", symbol="α", low=0.5, high=6)
    draws: int = setting(500, "sets of examples with random labels", low=5)
    grid: int = setting(800, "points at which the functions are drawn", low=50)
    seed: int = setting(0, "seed of the examples", low=0)

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Fits of every set of examples by both models; the functions of the first."""
        import xarray as xr

        k = np.arange(1.0, self.modes + 1)
        rho = [k ** (-2 * self.power), k ** (2 * self.power)]
        used, left = [], []
        for i in range(self.draws):
            progress("fits", i / self.draws)
            rng = np.random.default_rng([self.seed, i])
            # One x in the middle half of each cell of [0, ½], in which sines do not repeat.
            x = (np.arange(self.examples) + 0.25 + 0.5 * rng.uniform(size=self.examples)) / (2 * self.examples)
            ds = sine_fits(x, rng.standard_normal(self.examples), rho, grid=self.grid if i == 0 else 2)
            waves = np.sqrt(2) * np.sin(2 * np.pi * np.outer(k, x))
            used.append(ds.utilisation)
            off = ds.coefficient.sum("part").values @ waves - ds.label.values
            left.append(np.abs(off).max(axis=1) / np.abs(ds.label.values).max())
            if i == 0:
                first = ds
        made = xr.Dataset(
            {
                "utilisation": xr.concat(used, "draw", coords="minimal", compat="override"),
                "residual": (("draw", "model"), left, {"long_name": "largest |f − y| over the largest |y|"}),
                "intensity": first.intensity,
                "fit": first.fit.isel(features=0, drop=True).sum("part"),
                "input": first.input, "label": first.label,
            },
            {"model": list(MODELS)},
        )  # fmt: skip
        made["frequency"] = (made.utilisation * made["mode"]).sum("mode")
        return made

    @claim("the two models share the function space: both fit the examples, and differ elsewhere", NAM24["Fig. 1.2"])
    def interpolate(self, ds: xr.Dataset) -> Verdict:
        """N1: both interpolate, with different functions."""
        worst = float(ds.residual.max())
        apart = abs(ds.utilisation.isel(model=0) - ds.utilisation.isel(model=1)).sum("mode") / 2
        least = float(apart.min())
        return Verdict.of(
            worst < 1e-4 and least > 0.2,
            f"largest residual {worst:.1e}; at least {least:.0%} of the variance lies in other functions",
            "residual below 1e-4 (conditioned up to p^2α); at least 20 %", self._scale(ds),
        )  # fmt: skip

    @claim(
        "the model with greater intensity for low frequencies used low frequencies, the other high ones",
        NAM24["Fig. 1.2"],
    )
    def frequencies(self, ds: xr.Dataset) -> Verdict:
        """N1: mean frequencies in every draw, and the share of the n strongest functions."""
        gap = ds.frequency.sel(model=MODELS[1]) - ds.frequency.sel(model=MODELS[0])
        n = self.examples
        shares = [
            ds.utilisation.sel(model=MODELS[0]).isel(mode=slice(0, n)).sum("mode"),
            ds.utilisation.sel(model=MODELS[1]).isel(mode=slice(-n, None)).sum("mode"),
        ]
        low, high = (float(share.median()) for share in shares)
        quartile = [float(share.quantile(0.25)) for share in shares]
        return Verdict.of(
            bool((gap > 0).all()) and min(low, high) > 0.9,
            f"the rising model's mean frequency is higher in {float((gap > 0).mean()):.1%} of the draws; its {n} "
            f"strongest functions carry {high:.1%} (falling: {low:.1%}) of the variance in the median",
            "all draws; above 90 %", self._scale(ds), f"lower quartiles {quartile[1]:.1%} and {quartile[0]:.1%}",
        )  # fmt: skip

    def figure(self, ds: xr.Dataset) -> Figure:
        """The intensities, and the fits of the first set of examples."""
        k = ds["mode"].values
        left = [
            mark(kind, k, ds.intensity.sel(model=model) / ds.intensity.sel(model=model).max(), role="simulated",
                 colour=model, label=model if kind == "line" else "", group=model)
            for model in MODELS for kind in ("line", "points")
        ]  # fmt: skip
        right = [
            mark("line", ds.x, ds.fit.sel(model=model), role="simulated", colour=model, label=model, group=model)
            for model in MODELS
        ]
        right.append(mark("points", ds.input, ds.label, role="measured", label="examples"))
        half = (0.0, 0.5)
        return Figure(
            (
                Panel(tuple(left), x="k: frequency", y="ρ: intensity, over its largest", y_log=True,
                    title="(a) Intensity"),
                Panel(tuple(right), x="x", y="f(x): learned function", x_range=half, title="(b) Fits"),
            ),
            self.title,
            f"Minimum-norm fits of {self.examples} examples by {self.modes} functions w_k k^±{self.power:g} "
            "√2 sin(2πkx): the same function space, opposite preferences. Shown is half a period, in which the "
            "sines do not repeat. After NAM24 Fig. 1.2.",
        )  # fmt: skip

    def _scale(self, ds: xr.Dataset) -> str:
        return f"p = {self.modes}, n = {self.examples}, {ds.sizes['draw']} sets of random labels, exact fits"
