"""KUN24 Fig. 4, left: the way of the function to the target on whitened inputs, by the imbalance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.figure import Figure, Panel
from richter.figure.build import number
from richter.figure.data import Mark, mark, scale_of
from richter.refs import KUN24
from richter.theory import SingleNeuron

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
START = np.array([1.0, 0.25])  # β₀
TARGET = np.array([0.35, 1.0])  # β*
FARTHEST = 1e4  # |δ| up to which the ways are measured
TAIL = 4  # the last so many imbalances are fitted


@dataclass(frozen=True, kw_only=True)
class FunctionPaths(AbstractExperiment):
    """Paths of β in the plane from one β₀, their first angle, length and distance from the two limiting ways."""

    name = "kun24-function-paths"
    title = "Balance decides the way of the function"
    statement = (
        "From the same β₀ an upstream start follows linear regression, a downstream start first moves along β₀ and "
        "then sweeps round to β*, and a balanced start takes a way between them."
    )
    places = (KUN24["Fig. 4"], KUN24["Sec. 3"])
    presets = {
        "smoke": {"moments": 60, "points": 8, "deltas": (-4.0, 0.0, 4.0)},
        "laptop": {},
        "paper": {"moments": 1000, "points": 60},
    }
    deltas: tuple[float, ...] = setting(
        (-16.0, -4.0, -1.0, 0.0, 1.0, 4.0, 16.0), "imbalances of the drawn paths", symbol="δ", low=-300, high=300
    )
    moments: int = setting(300, "times on each path", low=30)
    points: int = setting(24, "imbalances on each side for the measures", low=6, high=500)

    def start(self, deltas: Floats) -> SingleNeuron:
        """The same β₀ at each imbalance."""
        return SingleNeuron.from_imbalance(beta0=START, delta=deltas, beta_star=TARGET, batch=("imbalance",))

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Drawn paths, exact and integrated, and the measures of many more."""
        side = np.geomspace(0.1, FARTHEST, self.points)
        grid = np.concatenate([-side[::-1], [0.0], side])
        t = np.concatenate([[0.0], np.geomspace(1e-4, 2e3, self.moments - 1)])
        progress("drawn paths", 0.1)
        drawn = self.start(np.array(self.deltas))
        ds = drawn.solve(t, only=("beta",)).rename(beta="path")
        ds["simulated_path"] = drawn.simulate(t, only=("beta",)).beta
        progress("measures", 0.5)
        fine = np.concatenate([[0.0], np.geomspace(1e-7, 100 * FARTHEST, 20 * self.moments), [np.inf]])
        beta = np.concatenate(
            [self.start(part).solve(fine, only=("beta",)).beta.values for part in np.array_split(grid, 8)]
        )
        ds["length"] = ("delta", np.linalg.norm(np.diff(beta, axis=1), axis=-1).sum(axis=1))
        ds["off_regression"] = ("delta", _distance(beta, _regression()))
        ds["off_sweep"] = ("delta", _distance(beta, _sweep()))
        ds["first_angle"] = ("delta", _angle(beta[:, 1] - beta[:, 0], TARGET - START))
        return ds.assign_coords(
            imbalance=("imbalance", np.array(self.deltas), {"symbol": "δ"}), delta=("delta", grid, {"symbol": "δ"})
        )

    @claim("we can solve for the dynamics exactly using our expressions for μ, φ", KUN24["Fig. 4"])
    def exact(self, ds: xr.Dataset) -> Verdict:
        """K7: largest distance between exact and integrated paths."""
        gap = float(abs(ds.path - ds.simulated_path).max())
        return Verdict.of(gap < 1e-8, f"largest gap {gap:.1e}", "the integrator's tolerance, 1e-8",
                          f"{len(self.deltas)} imbalances, {ds.sizes['t']} times")  # fmt: skip

    @claim("upstream initializations follow the trajectory of gradient flow on β", KUN24["Fig. 4"])
    def regression(self, ds: xr.Dataset) -> Verdict:
        """K7: largest distance from the straight way, and its power in δ."""
        here = ds.off_regression.where(ds.delta > 0, drop=True)
        power, last = _power(here), float(here[-1])
        return Verdict.of(last < 1e-3 and abs(power + 2) < 0.1,
                          f"at most {last:.1e} away at δ = {number(float(here.delta[-1]))}, power {power:.3f}",
                          "vanishing, with power −2 ± 0.1", self._scale(ds))  # fmt: skip

    @claim("downstream initializations first move in the direction of β₀ before sweeping around towards β*",
           KUN24["Fig. 4"])  # fmt: skip
    def sweep(self, ds: xr.Dataset) -> Verdict:
        """K7: distance from the way along β₀ to the foot of β*, and from there on the circle ‖β‖ = φ‖β*‖."""
        here = ds.isel(delta=0)
        last, first = float(here.off_sweep), float(here.first_angle)
        turn = float(_angle(_sweep()[1] - START, TARGET - START))
        length = float(here.length) / _length(_sweep())
        return Verdict.of(
            last < 0.02 and abs(first - turn) < 0.1 and abs(length - 1) < 0.01,
            f"at most {last:.1e} away at δ = {number(float(here.delta))}; it sets out {first:.2f}° off the straight "
            f"way, along β₀ is {turn:.2f}° off; {length:.4f} of the limiting way's length",
            "within 0.02, 0.1° and 1 %",
            self._scale(ds),
        )

    @claim("balanced initializations take an intermediate trajectory between these two", KUN24["Fig. 4"])
    def between(self, ds: xr.Dataset) -> Verdict:
        """K7: the first angle and the length at δ = 0 lie between the limits, and the angle falls with δ."""
        falls = bool((np.diff(ds.first_angle.values) < 1e-3).all())
        low, middle, high = (float(ds.first_angle.isel(delta=i)) for i in (-1, self.points, 0))
        length, ends = float(ds.length.isel(delta=self.points)), (_length(_regression()), _length(_sweep()))
        return Verdict.of(
            falls and low < middle < high and ends[0] < length < ends[1],
            f"at δ = 0 it sets out {middle:.1f}° off the straight way (limits {low:.1f}° and {high:.1f}°), length "
            f"{length:.3f} (limits {ends[0]:.3f} and {ends[1]:.3f}); the angle falls with δ everywhere: {falls}",
            "between the limits, the angle falling with δ",
            self._scale(ds),
        )

    def figure(self, ds: xr.Dataset) -> Figure:
        """Paths in the plane; first angle and length against δ."""
        marks: list[Mark] = []
        for delta in self.deltas:
            here, words = ds.sel(imbalance=delta), f"δ = {number(delta)}"
            x, y = here.simulated_path.values.T
            marks.append(mark("line", x, y, role="simulated", colour=delta, label=words, group=words))
            x, y = here.path.values.T
            marks.append(mark("line", x, y, role="exact", label="exact solution"))
        for point, words, beside in ((START, "β₀", (-0.02, 0.06)), (TARGET, "β*", (0.03, 0.02))):
            marks.append(mark("points", point[:1], point[1:], role="target", label="β₀, β*"))
            marks.append(mark("text", point[:1] + beside[0], point[1:] + beside[1], role="guide", label=words))
        panels = [
            Panel(tuple(marks), x="β₁", y="β₂", equal=True, y_range=(0.1, 1.15), title="(a) paths",
                  colours=scale_of(marks, "δ"))
        ]  # fmt: skip
        squashed = np.arcsinh(ds.delta.values)
        limits = {"first_angle": (0.0, float(_angle(_sweep()[1] - START, TARGET - START))),
                  "length": (_length(_regression()), _length(_sweep()))}  # fmt: skip
        names = {"first_angle": "angle between dβ/dt at 0 and β* − β₀ (°)", "length": "length of the way"}
        for letter, name in zip("bc", names, strict=True):
            drawn = [mark("line", squashed, ds[name], role="exact", label="exact solution")]
            drawn += [mark("hline", y=limit, role="guide", label="limits δ → ±∞") for limit in limits[name]]
            panels.append(Panel(tuple(drawn), x="sinh⁻¹ δ: imbalance", y=names[name], title=f"({letter})"))
        return Figure(
            tuple(panels),
            "Balance decides the way of the function",
            "β = a w on whitened inputs from one β₀ at different imbalances δ. (a) Integrated (colour) and exact "
            "(dashed) paths. (b) How far from the straight way they set out, and (c) how long they are. After KUN24 "
            "Fig. 4, left.",
        )

    def _scale(self, ds: xr.Dataset) -> str:
        return f"two inputs, {ds.sizes['delta']} imbalances to ±{FARTHEST:g}, exact paths of {20 * self.moments} times"


def _angle(x: Floats, y: Floats) -> Any:
    """Between vectors, in degrees."""
    cosine = (x * y).sum(axis=-1) / (np.linalg.norm(x, axis=-1) * np.linalg.norm(y, axis=-1))
    return np.degrees(np.arccos(np.clip(cosine, -1, 1)))


def _regression() -> Floats:
    return START + np.linspace(0, 1, 2000)[:, None] * (TARGET - START)


def _sweep() -> Floats:
    """Along β₀ to the foot of β* on it, then on the circle over β* as diameter."""
    unit = START / np.linalg.norm(START)
    foot = (unit @ TARGET) * unit
    angle = np.linspace(np.arctan2(*unit[::-1]), np.arctan2(*TARGET[::-1]), 2000)
    rays = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    straight = START + np.linspace(0, 1, 500, endpoint=False)[:, None] * (foot - START)
    return np.concatenate([straight, (rays @ TARGET)[:, None] * rays])


def _length(path: Floats) -> float:
    return float(np.linalg.norm(np.diff(path, axis=0), axis=1).sum())


def _distance(paths: Floats, line: Floats) -> Floats:
    """The largest distance of each path's points from a finely cut line."""
    from scipy.spatial import cKDTree

    steps, tree = np.diff(line, axis=0), cKDTree(line)
    made = np.empty(len(paths))
    for i, path in enumerate(paths):
        near = np.clip(tree.query(path)[1][:, None] + np.arange(-1, 1), 0, len(steps) - 1)
        since = path[:, None] - line[near]
        share = np.clip((since * steps[near]).sum(axis=-1) / (steps[near] ** 2).sum(axis=-1), 0, 1)
        made[i] = np.linalg.norm(since - share[..., None] * steps[near], axis=-1).min(axis=1).max()
    return made


def _power(values: xr.DataArray) -> float:
    return float(np.polyfit(np.log(values.delta.values[-TAIL:]), np.log(values.values[-TAIL:]), 1)[0])
