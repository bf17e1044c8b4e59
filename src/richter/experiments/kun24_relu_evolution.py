"""KUN24 Fig. 5: a ReLU network fits by reweighing its features or by turning them first."""

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
from richter.figure.data import Mark, mark
from richter.figure.space import View, scene
from richter.maths.partition import partition_slice
from richter.refs import KUN24
from richter.theory.piecewise_network import PiecewiseNetwork

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
X = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])  # exclusive or: the sign of the product
Y = np.array([1.0, 1.0, -1.0, -1.0])
TURN = 0.35  # the inputs are turned a little, so that no neuron is indifferent by symmetry
DISTANCES = {
    "hamming": "activation patterns changed",
    "function_distance": "‖f(t) − f(0)‖",
    "parameter_distance": "‖θ(t) − θ(0)‖",
}
STARTS = {-1: "downstream", 0: "balanced", 1: "upstream"}


@dataclass(frozen=True, kw_only=True)
class ReluEvolution(AbstractExperiment):
    """The exact partition and surface of a two-layer ReLU network while it learns exclusive or."""

    name = "kun24-relu-evolution"
    title = "A ReLU network turns its features or reweighs them"
    statement = (
        "From a nearly zero function, a downstream start keeps its partition and fits by reweighing; balanced and "
        "upstream starts first change the partition while the function stays near zero, and fit then."
    )
    places = (KUN24["Fig. 5"], KUN24["Sec. 5"])
    presets = {
        "smoke": {"seeds": 2, "moments": 60, "neurons": 12},
        "laptop": {},
        "paper": {"seeds": 30, "moments": 300},
    }
    neurons: int = setting(20, "hidden neurons, half of them mirror copies", symbol="h", low=4, high=200)
    tau: float = setting(
        0.05, "scale of the start: every neuron's function has size τ²", symbol="τ", low=1e-3, high=0.5
    )
    delta: float = setting(1.0, "size of the imbalance of the unbalanced starts", symbol="|δ|", low=0.1, high=10)
    seeds: int = setting(8, "starts of each kind", low=2, high=200)
    moments: int = setting(120, "times looked at", low=30)
    span: float = setting(40.0, "last time", symbol="t", low=10)
    seed: int = setting(0, "first seed", low=0)

    def network(self, sign: int, seed: int) -> PiecewiseNetwork:
        """A symmetrised start with imbalance sign · |δ|; the same directions for every sign."""
        c, s = np.cos(TURN), np.sin(TURN)
        inputs = X @ np.array([[c, s], [-s, c]])
        return PiecewiseNetwork.symmetrised(
            X=inputs, y=Y, neurons=2 * (self.neurons // 2), tau=self.tau, delta=sign * self.delta, rng=seed
        )

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Distances of every start over time, and the weights of the first seed."""
        import xarray as xr

        t = np.concatenate([[0.0], np.geomspace(1e-3, self.span, self.moments - 1)])
        wanted = ("a", "w", "loss", "delta", *DISTANCES)
        made = []
        for i, (sign, words) in enumerate(STARTS.items()):
            runs = []
            for k in range(self.seeds):
                progress(f"{words}: start {k + 1}", (i * self.seeds + k) / (len(STARTS) * self.seeds))
                runs.append(self.network(sign, self.seed + k).simulate(t, wanted, rtol=1e-9, atol=1e-11))
            made.append(xr.concat(runs, "start", combine_attrs="drop"))
        ds = xr.concat(made, "kind", combine_attrs="drop").assign_coords(kind=list(STARTS.values()))
        ds.attrs = {}
        return ds

    @claim("δᵢ of every neuron is conserved", KUN24["Sec. 5"])
    def conserved(self, ds: xr.Dataset) -> Verdict:
        """K1 for piecewise-linear networks."""
        drift = float(abs(ds.delta - ds.delta.isel(t=0)).max())
        return Verdict.of(
            drift < 1e-7, f"largest drift {drift:.1e}", "0, to the integrator's tolerance", self._scale(ds)
        )

    @claim("a downstream start keeps its partition and fits the data by reweighing", KUN24["Fig. 5"], KUN24["Sec. 5"])
    def reweighs(self, ds: xr.Dataset) -> Verdict:
        """K12: activation patterns changed when 99 % of the loss is gone; starts that can fit at all by reweighing."""
        here = ds.sel(kind="downstream")
        fit = self._fitted(here)
        flips = here.hamming.where(here.t <= fit).max("t")
        able = np.isfinite(fit)
        if int(able.sum()) < 2:
            return Verdict.undecided(
                f"{int(able.sum())} starts fit by t = {self.span:g}", "at least 2", self._scale(ds)
            )
        worst, rich = float(flips[able].max()), float(ds.hamming.sel(kind="balanced").isel(t=-1).median())
        return Verdict.of(
            worst <= 0.25 * rich,
            f"at the fit at most {worst:.3f} of the patterns have changed ({int(able.sum())} starts); balanced in the "
            f"end {rich:.3f} in the median",
            "at most a quarter of the balanced start's",
            self._scale(ds),
        )

    @claim("balanced or upstream, the partition changes while the function stays near zero; then the data are fitted",
           KUN24["Fig. 5"], KUN24["Sec. 5"])  # fmt: skip
    def turns_first(self, ds: xr.Dataset) -> Verdict:
        """K12: order of the half-times of pattern and function, and the function's size at the first."""
        said, holds = [], True
        for kind in ("balanced", "upstream"):
            here = ds.sel(kind=kind)
            patterns, function = self._half(here.hamming), self._half(here.function_distance)
            at = here.function_distance.interp(t=("start", patterns)).values / here.function_distance.isel(t=-1).values
            first = float((patterns < function).mean())
            said.append(
                f"{kind}: patterns first in {first:.0%}, function then at {float(np.median(at)):.1%} of its end"
            )
            holds &= first >= 0.9 and float(np.median(at)) < 0.1
        return Verdict.of(holds, "; ".join(said), "in at least 90 % of the starts; below 10 %", self._scale(ds))

    @claim("an upstream start changes activations without moving far in parameters", KUN24["Sec. 5"])
    def near(self, ds: xr.Dataset) -> Verdict:
        """K12: parameter distance at the patterns' half-time, relative to the final one."""
        share = {}
        for kind in ("upstream", "downstream"):
            here = ds.sel(kind=kind)
            at = here.parameter_distance.interp(t=("start", self._half(here.hamming)))
            share[kind] = float((at / here.parameter_distance.isel(t=-1)).median())
        return Verdict.of(
            share["upstream"] < 0.5, f"at half of the changed patterns {share['upstream']:.0%} of the final distance "
            f"(downstream {share['downstream']:.0%})", "less than half", self._scale(ds),
        )  # fmt: skip

    def _fitted(self, here: xr.Dataset) -> Floats:
        """When 1 % of the loss is left, per start; ∞ if never."""
        left = (here.loss <= 0.01 * here.loss.isel(t=0)).transpose("start", "t").values
        return np.where(left.any(axis=1), here.t.values[np.argmax(left, axis=1)], np.inf)

    def _half(self, distance: xr.DataArray) -> Floats:
        """When half of the final distance is reached, per start."""
        there = (distance >= 0.5 * distance.isel(t=-1)).transpose("start", "t").values
        return np.asarray(distance.t.values[np.argmax(there, axis=1)])

    def figure(self, ds: xr.Dataset) -> Figure:
        """Surfaces at three moments for each start, and the distances over time."""
        view = View(azimuth=-60, elevation=38)
        panels: list[Panel] = []
        letters = iter("abcdefghijkl")
        for words in ("start", "half of the patterns changed", "end"):
            for kind in STARTS.values():
                here = ds.sel(kind=kind).isel(start=0)
                half = float(self._half(ds.sel(kind=kind).hamming)[0])
                moment = {"start": 0.0, "end": self.span}.get(words, half)
                now = here.sel(t=moment, method="nearest")
                title = f"({next(letters)}) {kind}, {words}: t = {number(float(now.t), 2)}"
                panels.append(scene(view, self._surface(view, now), title=title))
        for kind in STARTS.values():
            here = ds.sel(kind=kind).isel(start=0, t=slice(1, None))
            marks = [
                mark("line", here.t, here[name] / float(here[name].max()), role="simulated", colour=label, label=label)
                for name, label in DISTANCES.items() if float(here[name].max()) > 0
            ]  # fmt: skip
            panels.append(
                Panel(
                    tuple(marks), x="t: time", y="share of its largest value", x_log=True,
                    title=f"({next(letters)}) {kind}",
                )
            )  # fmt: skip
        size = 2 * (self.neurons // 2)
        return Figure(
            tuple(panels),
            "A ReLU network turns its features or reweighs them",
            f"f(x) over the plane for {size} neurons (τ = {number(self.tau)}, δ = ±{number(self.delta)} or 0) learning "
            "exclusive or: the exact surface, its activation regions in two colours by the parity of "
            "active lines; dots are the examples and their targets. Below: what has changed over time, each as a share "
            f"of its largest value. {view.words} After KUN24 Fig. 5.",
        )

    def _surface(self, view: View, now: xr.Dataset) -> list[Mark]:
        box, height = 1.5, 1.0
        made = partition_slice([(now.w.values, None), (now.a.values[None], None)], box)
        marks: list[Mark] = []
        for polygon, slope, colour in zip(made.polygons, made.slopes[:, 0], made.colours(), strict=True):
            corners = np.column_stack([polygon, height * (polygon @ slope)])
            seen, near = view.project(corners), float(view.nearness(corners.mean(axis=0)))
            words = "even" if colour else "odd"
            marks.append(mark("area", seen[:, 0], seen[:, 1], role="simulated", colour=words, order=near, edge=True))
        inputs = np.asarray(self.network(0, self.seed).X)
        seen = view.project(np.column_stack([inputs, height * Y]))
        return [*marks, mark("points", seen[:, 0], seen[:, 1], role="target", label="examples")]

    def _scale(self, ds: xr.Dataset) -> str:
        size = 2 * (self.neurons // 2)
        return f"{size} neurons, {ds.sizes['start']} starts of each kind, t to {self.span:g}, 4 examples"
