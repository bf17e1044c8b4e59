"""NAM24 Fig. 3.3: modes of a linear model learn at once, those of a diagonal network one after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.figure import Figure, Panel
from richter.figure.build import number
from richter.figure.data import mark
from richter.refs import NAM24
from richter.theory import DiagonalNetwork, LinearModel

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
MODELS = ("linear", "layerwise")


@dataclass(frozen=True, kw_only=True)
class Sigmoids(AbstractExperiment):
    """Mode strengths over time of the linear model and of the diagonal linear network."""

    name = "nam24-sigmoids"
    title = "Exponential and sigmoidal modes"
    statement = (
        "In a linear model every mode saturates from the start, only at its own speed; in a layerwise model each mode "
        "is "
        "delayed by its small start and then saturates abruptly, so that modes are learned in sequence."
    )
    places = (NAM24["Fig. 3.3"], NAM24["Sec. 3.4.1"])
    presets = {"smoke": {"moments": 801}, "laptop": {}, "paper": {"moments": 20001}}
    variances: tuple[float, ...] = setting(
        (1.0, 0.4, 0.16, 0.064), "E[x²] of the modes, falling", symbol="E[x²]", low=1e-6
    )
    start: float = setting(
        1e-4, "a b of every mode at the start; targets are 1", symbol="a(0)b(0)", low=1e-12, high=0.4
    )
    span: float = setting(150.0, "last time", symbol="t", low=1)
    moments: int = setting(4001, "times looked at", low=200)

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Exact curves, and the layerwise ones again from its flow."""
        import xarray as xr

        t = np.linspace(0.0, self.span, self.moments)
        ones, v = np.ones(len(self.variances)), list(self.variances)
        progress("exact curves", 0.2)
        line = LinearModel(eigenvalues=v, coefficients=ones).solve(t, only=("output",)).output
        net = DiagonalNetwork(a0=np.sqrt(self.start), b0=np.sqrt(self.start), target=ones, input_variance=v)
        curve = net.solve(t, only=("output",)).output
        progress("integration", 0.6)
        few = t[:: max(1, self.moments // 50)]
        seen = net.simulate(few, only=("output",)).output
        made = xr.Dataset(
            {
                "strength": (("model", "t", "mode"), [line.values, curve.values], {"long_name": "share of the target"}),
                "gap": float(abs(seen.values - net.solve(few, only=("output",)).output.values).max()),
            },
            {"t": t, "model": list(MODELS), "mode": ("mode", v, {"symbol": "E[x²]"})},
        )
        return made

    def _hits(self, ds: xr.Dataset, model: str, level: float) -> Floats:
        """When each mode reaches a level; ∞ if not in time."""
        rows = ds.strength.sel(model=model).transpose("mode", "t").values
        t = ds.t.values
        return np.array([np.interp(level, row, t) if row[-1] > level else np.inf for row in rows])

    def _overlaps(self, ds: xr.Dataset, model: str) -> Floats:
        """How far the next mode is when a mode has as much left: the ε at which one saturates as the next emerges."""
        rows = ds.strength.sel(model=model).transpose("mode", "t").values
        made = []
        for here, after in zip(rows[:-1], rows[1:], strict=True):
            both = here + after
            made.append(np.interp(1.0, both, after) if both[-1] > 1 else np.nan)
        return np.array(made)

    @claim(
        "for the linear model, all modes saturate from t = 0, only differing in the saturation speed", NAM24["Fig. 3.3"]
    )
    def linear(self, ds: xr.Dataset) -> Verdict:
        """N9: every mode is fastest at t = 0."""
        rows = ds.strength.sel(model="linear").transpose("mode", "t").values
        fastest = np.diff(rows, axis=1).argmax(axis=1)
        return Verdict.of(
            bool((fastest == 0).all()),
            f"steepest in the intervals {fastest.tolist()} of time",
            "the first",
            self._scale(ds),
        )

    @claim(
        "the layerwise model's modes show a delayed saturation depending on E[x²]", NAM24["Fig. 3.3"], NAM24["Eq. 3.9"]
    )
    def delayed(self, ds: xr.Dataset) -> Verdict:
        """N9: half-times ∝ 1/E[x²]; most of the time nothing is seen; the closed form solves the flow."""
        half, tenth, most = (self._hits(ds, "layerwise", level) for level in (0.5, 0.1, 0.9))
        if not np.isfinite(most).all():
            return Verdict.undecided(
                f"a mode is not learned by t = {self.span:g}", "a later last time", self._scale(ds)
            )
        scaled = half * np.array(self.variances)
        told = np.log(1 / self.start - 1) / 2
        rise = (most - tenth) / half
        return Verdict.of(
            bool((abs(scaled / told - 1) < 0.01).all()) and rise.max() < 1.0 and float(ds.gap) < 1e-8,
            f"half-times · E[x²]: {scaled.min():.3f} to {scaled.max():.3f} (½ ln(1/ab − 1) = {told:.3f}); from 10 % "
            "to 90 % in "
            f"{rise.max():.2f} half-times; largest difference to integration {float(ds.gap):.0e}",
            "within 1 %; below 1 (linear model: 3.2); below 1e-8", self._scale(ds),
        )  # fmt: skip

    @claim("the first mode saturates fully while the next mode remains negligible, contrasting with the concurrent "
           "saturation of modes in linear models", NAM24["Sec. 3.4.2"])  # fmt: skip
    def sequence(self, ds: xr.Dataset) -> Verdict:
        """N9: how much of the next mode is there when as much is left of one."""
        line, net = self._overlaps(ds, "linear"), self._overlaps(ds, "layerwise")
        return Verdict.of(
            float(np.nanmax(net)) < 0.05 and float(np.nanmin(line)) > 0.2,
            f"overlaps of neighbouring modes: layerwise at most {np.nanmax(net):.2%}, linear at least "
            f"{np.nanmin(line):.0%}",
            "below 5 %; above 20 %", self._scale(ds),
        )  # fmt: skip

    def figure(self, ds: xr.Dataset) -> Figure:
        """The saturation curves of both models."""
        panels = []
        for letter, model, words in zip("ab", MODELS, ("θ/S", "ab/S"), strict=True):
            marks = tuple(
                mark("line", ds.t, row, role="simulated", colour=f"E[x²] = {number(v)}", label=f"E[x²] = {number(v)}")
                for v, row in zip(
                    self.variances, ds.strength.sel(model=model).transpose("mode", "t").values, strict=True
                )
            )
            title = f"({letter}) {'Linear model' if model == 'linear' else 'Diagonal linear network'}"
            panels.append(Panel(marks, x="t: time", y=f"{words}: mode strength", title=title))
        return Figure(
            tuple(panels), self.title,
            f"Modes of different variance with target 1: Eq. 3.10 from 0, and Eq. 3.9 from a b = {number(self.start)}. "
            "After NAM24 Fig. 3.3.",
        )  # fmt: skip

    def _scale(self, ds: xr.Dataset) -> str:
        return (
            f"{len(self.variances)} modes, E[x²] from {max(self.variances):g} to {min(self.variances):g}, exact, "
            f"{self.moments} times"
        )
