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
from richter.maths.piecewise import imbalance, layer_scale, network_output, parameter_flow
from richter.refs import KUN24
from richter.theory.piecewise_network import PiecewiseNetwork

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
X = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])  # exclusive or: the sign of the product
Y = np.array([1.0, 1.0, -1.0, -1.0])
TURN = 0.35  # the inputs are turned a little, so that no neuron is indifferent by symmetry
DISTANCES = {
    "turned": "angle by which the neurons' lines have turned",
    "function_distance": "‖f(t) − f(0)‖",
    "parameter_distance": "‖θ(t) − θ(0)‖",
}
COARSE = 0.25  # of the time in which an upstream neuron turns; beyond this a step is no flow
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
        "smoke": {"seeds": 4, "moments": 60, "tau": 0.1, "step": 2e-3},
        "laptop": {},
        "paper": {"seeds": 30, "moments": 300, "step": 5e-5},
    }
    neurons: int = setting(20, "hidden neurons", symbol="h", low=4, high=200)
    tau: float = setting(
        0.05, "scale of the start: every neuron's function has size τ²", symbol="τ", low=1e-3, high=0.5
    )
    delta: float = setting(1.0, "size of the imbalance of the unbalanced starts", symbol="|δ|", low=0.1, high=10)
    seeds: int = setting(8, "starts of each kind", low=2, high=200)
    moments: int = setting(120, "times looked at", low=30)
    step: float = setting(2e-4, "step of gradient descent", symbol="η", low=1e-6, high=0.05)
    span: float = setting(40.0, "last time", symbol="t", low=10)
    seed: int = setting(0, "first seed", low=0)

    def network(self, sign: int, seed: int) -> PiecewiseNetwork:
        """A start with imbalance sign · |δ|, half of the neurons of either sign; the same directions for every δ."""
        c, s = np.cos(TURN), np.sin(TURN)
        inputs = X @ np.array([[c, s], [-s, c]])
        drawn = np.random.default_rng(seed).standard_normal((self.neurons, 2))
        unit = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
        alpha = float(layer_scale(self.tau, sign * self.delta))
        signs = np.resize([1.0, -1.0], self.neurons)
        return PiecewiseNetwork(X=inputs, y=Y, a0=self.tau * alpha * signs, w0=self.tau / alpha * unit)

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Gradient descent of all starts together, read at log-spaced steps; and the drift of δ at half the step."""
        import xarray as xr

        whole = self._descend(self.step, progress)
        _, _, _, a, w = self._descend(self.step / 2, silent, short=True)
        steps, _, _, a1, w1 = self._descend(self.step, silent, short=True)
        t, path_a, path_w, *_ = whole
        dims = ("kind", "start", "t")
        inputs = np.asarray(self.network(0, self.seed).X)
        output = network_output(path_a, path_w, inputs)
        active = np.einsum("...hd,nd->...hn", path_w, inputs) > 0
        turned = _angle(path_w, path_w[:, :, :1])
        first = (slice(None), slice(None), slice(0, 1))
        moved = ((path_a - path_a[first]) ** 2).sum(axis=-1) + ((path_w - path_w[first]) ** 2).sum(axis=(-2, -1))
        drift = lambda a, w: np.abs(imbalance(a, w) - imbalance(path_a[:, :, 0], path_w[:, :, 0])).max()
        return xr.Dataset(
            {
                "a": ((*dims, "neuron"), path_a), "w": ((*dims, "neuron", "input"), path_w),
                "loss": (dims, ((output - Y) ** 2).sum(axis=-1) / 2),
                "turned": (dims, turned.mean(axis=-1) / np.pi),
                "hamming": (dims, (active != active[first]).mean(axis=(-2, -1))),
                "parameter_distance": (dims, np.sqrt(moved)),
                "function_distance": (dims, np.sqrt(((output - output[first]) ** 2).mean(axis=-1))),
                "delta_drift": ("step_size", [drift(a1, w1), drift(a, w)]),
            },
            {"kind": list(STARTS.values()), "t": t, "step_size": [self.step, self.step / 2]},
        )  # fmt: skip

    def _descend(
        self, step: float, progress: Progress, short: bool = False
    ) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Times, paths a and w (kind, start, time, …), and the last a and w; `short`: the first tenth only."""
        nets = [[self.network(sign, self.seed + k) for k in range(self.seeds)] for sign in STARTS]
        a, w = (np.array([[np.asarray(getattr(n, name)) for n in row] for row in nets]) for name in ("a0", "w0"))
        inputs = np.asarray(nets[0][0].X)
        last = round(self.span / step / (10 if short else 1))
        looks = np.unique(np.concatenate([[0, last], np.geomspace(1, last, self.moments).round()]).astype(int))
        paths: tuple[list[Floats], list[Floats]] = ([], [])
        for k in range(last + 1):
            if k == looks[len(paths[0])]:
                paths[0].append(a)
                paths[1].append(w)
                progress("gradient descent", k / last)
            da, dw = parameter_flow(a, w, inputs, Y)
            a, w = a + step * da, w + step * dw
        return looks * step, np.stack(paths[0], axis=2), np.stack(paths[1], axis=2), paths[0][-1], paths[1][-1]

    @claim("δᵢ of every neuron is conserved", KUN24["Sec. 5"])
    def conserved(self, ds: xr.Dataset) -> Verdict:
        """K1 for piecewise-linear networks: the drift of gradient descent is of first order in the step."""
        large, small = ds.delta_drift.values
        order = float(np.log2(large / small))
        return Verdict.of(
            abs(order - 1) < 0.1, f"largest drift {large:.2g}, at half the step {small:.2g}: order {order:.3f}",
            "of first order in the step, 1 ± 0.1", f"{self._scale(ds)}, over the first tenth",
        )  # fmt: skip

    @claim("a downstream start keeps its partition and fits the data by reweighing", KUN24["Fig. 5"], KUN24["Sec. 5"])
    def reweighs(self, ds: xr.Dataset) -> Verdict:
        """K12: how far the lines have turned when 99 % of the loss is gone; starts that can fit by reweighing."""
        here = ds.sel(kind="downstream")
        fit = self._fitted(here)
        able = np.isfinite(fit)
        if int(able.sum()) < 2:
            return Verdict.undecided(
                f"{int(able.sum())} starts fit by t = {self.span:g}", "at least 2", self._scale(ds)
            )
        rows = here.turned.transpose("start", "t").values
        at = np.where(here.t.values <= fit[:, None], rows, 0.0).max(axis=1)[able]
        rich = float(ds.turned.sel(kind="balanced").isel(t=-1).median())
        return Verdict.of(
            float(np.median(at)) <= 0.25 * rich,
            f"mean angle of the lines at the fit: {np.median(at):.3f} π in the median of {int(able.sum())} starts, "
            f"at most {at.max():.3f} π; balanced in the end {rich:.3f} π",
            "at most a quarter of the balanced start's",
            self._scale(ds),
        )

    @claim("balanced or upstream, the partition changes while the function stays near zero; then the data are fitted",
           KUN24["Fig. 5"], KUN24["Sec. 5"])  # fmt: skip
    def turns_first(self, ds: xr.Dataset) -> Verdict:
        """K12: order of the half-times of the lines' angle and the function, and its size at the first."""
        said, holds = [], True
        if self._coarse():
            return Verdict.undecided(self._coarse(), "a step that resolves the turn", self._scale(ds))
        for kind in ("balanced", "upstream"):
            here = ds.sel(kind=kind)
            patterns, function = self._half(here.turned), self._half(here.function_distance)
            at = self._at(here.function_distance, patterns) / here.function_distance.isel(t=-1).values
            first = float((patterns < function).mean())
            said.append(f"{kind}: lines first in {first:.0%}, function then at {float(np.median(at)):.1%} of its end")
            holds &= first >= 0.9 and float(np.median(at)) < 0.1
        return Verdict.of(holds, "; ".join(said), "in at least 90 % of the starts; below 10 %", self._scale(ds))

    @claim("an upstream start changes activations without moving far in parameters", KUN24["Sec. 5"])
    def near(self, ds: xr.Dataset) -> Verdict:
        """K12: parameter distance when the lines have turned half-way, relative to the final one."""
        share = {}
        if self._coarse():
            return Verdict.undecided(self._coarse(), "a step that resolves the turn", self._scale(ds))
        for kind in ("upstream", "downstream"):
            here = ds.sel(kind=kind)
            at = self._at(here.parameter_distance, self._half(here.turned))
            share[kind] = float(np.median(at / here.parameter_distance.isel(t=-1).values))
        return Verdict.of(
            share["upstream"] < 0.5, f"at half of the final angle {share['upstream']:.0%} of the final distance "
            f"(downstream {share['downstream']:.0%})", "less than half", self._scale(ds),
        )  # fmt: skip

    def _coarse(self) -> str:
        """Why the upstream start's turn is not resolved: its neurons turn at a rate of δ/τ²; "" if it is."""
        share = self.step * self.delta / self.tau**2
        return f"one step is {share:.2g} of the upstream neurons' turning time τ²/δ" if share > COARSE else ""

    def _fitted(self, here: xr.Dataset) -> Floats:
        """When 1 % of the loss is left, per start; ∞ if never."""
        left = (here.loss <= 0.01 * here.loss.isel(t=0)).transpose("start", "t").values
        return np.where(left.any(axis=1), here.t.values[np.argmax(left, axis=1)], np.inf)

    def _half(self, distance: xr.DataArray) -> Floats:
        """When half of the final distance is reached, per start."""
        there = (distance >= 0.5 * distance.isel(t=-1)).transpose("start", "t").values
        return np.asarray(distance.t.values[np.argmax(there, axis=1)])

    def _at(self, distance: xr.DataArray, times: Floats) -> Floats:
        """Every start's distance at its own time, one of those looked at."""
        rows = distance.transpose("start", "t").values
        return np.asarray(rows[np.arange(len(rows)), np.searchsorted(distance.t.values, times)])

    def figure(self, ds: xr.Dataset) -> Figure:
        """Surfaces at three moments for each start, and the distances over time."""
        view = View(azimuth=-60, elevation=38)
        panels: list[Panel] = []
        letters = iter("abcdefghijkl")
        for words in ("start", "half-way turned", "end"):
            for kind in STARTS.values():
                here = ds.sel(kind=kind).isel(start=0)
                half = float(self._half(ds.sel(kind=kind).turned)[0])
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
        size = self.neurons
        return Figure(
            tuple(panels),
            "A ReLU network turns its features or reweighs them",
            f"f(x) over the plane for {size} neurons (τ = {number(self.tau)}, δ = ±{number(self.delta)} or 0) learning "
            "exclusive or: the exact surface, its activation regions in two colours by the parity of "
            "active neurons (nearly equal lines leave slivers); dots are the examples and their targets. "
            "Below: what has changed over time, each as a share "
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
        size = self.neurons
        return f"{size} neurons, {ds.sizes['start']} starts of each kind, t to {self.span:g} in steps of {self.step:g}"


def _angle(w: Floats, first: Floats) -> Floats:
    """The angle between w and its start, by half its sine: exact where it is small."""
    unit = lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)
    return np.asarray(2 * np.arcsin(np.minimum(np.linalg.norm(unit(w) - unit(first), axis=-1) / 2, 1.0)))
