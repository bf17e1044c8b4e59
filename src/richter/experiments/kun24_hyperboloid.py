"""KUN24 Fig. 2: gradient flow stays on a hyperboloid whose shape the imbalance decides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.figure import Figure
from richter.figure.build import number
from richter.figure.data import Mark, mark
from richter.figure.space import View, axes3, hidden, path, scene, surface
from richter.refs import KUN24
from richter.theory import SingleNeuron

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
REACH = 2.3  # how far the surfaces are drawn
SHEETS = {"downstream": "one sheet", "balanced": "a double cone", "upstream": "two sheets"}


@dataclass(frozen=True, kw_only=True)
class Hyperboloid(AbstractExperiment):
    """The conserved surfaces of the single neuron with two inputs, and gradient flow on them."""

    name = "kun24-hyperboloid"
    title = "Gradient flow on the conserved hyperboloid"
    statement = (
        "The rescaling symmetry between a and w confines gradient flow of a single neuron to the hyperboloid "
        "a² − ‖w‖² = δ: one sheet downstream, a double cone at balance, two sheets upstream."
    )
    places = (KUN24["Fig. 2"], KUN24["App. A.1"])
    presets = {"smoke": {"starts": 4, "moments": 60}, "laptop": {}, "paper": {"starts": 24, "moments": 800}}
    deltas: tuple[float, ...] = setting((-1.0, 0.0, 1.0), "imbalances, one panel each", symbol="δ", low=-3, high=3)
    starts: int = setting(10, "starts around each sheet", low=2, high=60)
    moments: int = setting(300, "times on each path", low=20)
    span: float = setting(20.0, "last time", symbol="t", low=1)
    radius: float = setting(1.1, "‖w‖ of the starts on the two sheets; a of the starts on one", low=0.1, high=2)

    def theory(self) -> SingleNeuron:
        """The starts: (surface, start), half of them with a > 0."""
        angle = np.linspace(0, 2 * np.pi, self.starts, endpoint=False) + 0.3
        ring = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        a0, w0 = [], []
        for delta in self.deltas:
            a = np.sqrt(delta + self.radius**2) if delta >= 0 else self.radius
            size = self.radius if delta >= 0 else np.sqrt(self.radius**2 - delta)
            a0.append(np.repeat([a, -a], self.starts))
            w0.append(size * np.concatenate([ring, ring]))
        return SingleNeuron(a0=np.array(a0), w0=np.array(w0), beta_star=[0.0, 1.0], batch=("surface", "start"))

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Exact and simulated paths."""
        theory = self.theory()
        t = np.concatenate([[0.0], np.geomspace(1e-3, self.span, self.moments - 1)])
        progress("exact paths", 0.1)
        ds = theory.solve(t, only=("a", "w", "loss", "delta"))
        progress("simulated paths", 0.4)
        simulated = theory.simulate(t, only=("a", "w", "delta"))
        ds["simulated_delta"] = simulated.delta
        ds["simulation_gap"] = abs(simulated.a - ds.a).max("t") + abs(simulated.w - ds.w).max(("t", "input"))
        return ds.assign_coords(surface=("surface", np.array(self.deltas), {"symbol": "δ"}))

    @claim("δ is conserved: the flow stays on the surface it starts on", KUN24["App. A.1"], KUN24["Fig. 2"])
    def stays(self, ds: xr.Dataset) -> Verdict:
        """K1: drift along exact and simulated paths."""
        size = float(ds.a.isel(t=0).max() ** 2 + (ds.w.isel(t=0) ** 2).sum("input").max())
        exact = float(abs(ds.a**2 - (ds.w**2).sum("input") - ds.surface).max()) / size
        simulated = float(abs(ds.simulated_delta - ds.surface).max()) / size
        return Verdict.of(
            exact < 1e-12 and simulated < 1e-8,
            f"largest drift of δ, relative to a² + ‖w‖²: exact {exact:.1e}, simulated {simulated:.1e}",
            "0, to rounding (1e-12) and to the integrator's tolerance (1e-8)",
            self._scale(ds),
        )

    @claim("upstream and at balance the sign of a never changes; downstream it may", KUN24["App. A.2.4"])
    def signs(self, ds: xr.Dataset) -> Verdict:
        """Paths that cross a = 0, by surface."""
        crossed = (np.sign(ds.a.isel(t=-1)) != np.sign(ds.a.isel(t=0))).sum("start").values
        down = np.array(self.deltas) < 0
        said = f"crossings per surface: {dict(zip(self.deltas, crossed.tolist(), strict=True))}"
        return Verdict.of(
            not crossed[~down].any() and (crossed[down] > 0).all(), said, "none for δ ≥ 0", self._scale(ds)
        )

    @claim("the flow ends on the minima manifold aw = β*, on either of its two branches", KUN24["Fig. 2"])
    def ends(self, ds: xr.Dataset) -> Verdict:
        """Distance of a w from β* at the last time, over starts away from the saddle."""
        late = ds.isel(t=-1)
        first = float(ds.loss.isel(t=0).max())
        share = float((late.loss < 1e-6 * first).mean())
        both = bool((late.a > 0).any() and (late.a < 0).any())
        return Verdict.of(
            share >= 0.9 and both, f"{share:.0%} of the starts have fitted by t = {self.span:g}; both branches: {both}",
            "at least 90 % (the rest starts near the saddle's surface), both branches", self._scale(ds),
        )  # fmt: skip

    def figure(self, ds: xr.Dataset) -> Figure:
        """One view in space per imbalance."""
        view = View(azimuth=-52, elevation=17)
        panels = []
        for i, delta in enumerate(self.deltas):
            kind = "downstream" if delta < 0 else "upstream" if delta > 0 else "balanced"
            grids = _sheets(delta)
            marks: list[Mark] = [m for grid in grids for m in surface(view, grid, edge=False, role="guide")]
            for branch in (1.0, -1.0):
                a = branch * np.geomspace(1 / REACH, REACH, 60)
                curve = np.stack([0 * a, 1 / a, a], axis=-1)
                marks += path(view, curve, behind=grids, role="target", label="minima: aw = β*")
            here = ds.isel(surface=i)
            points = np.concatenate([here.w.values, here.a.values[..., None]], axis=-1)
            for row in points:
                end = "ends with a > 0" if row[-1, 2] > 0 else "ends with a < 0"
                marks += path(view, row, behind=grids, role="simulated", label=end, colour=end)
                if not hidden(view, row[:1], grids).any():
                    seen = view.project(row[:1])
                    marks.append(mark("points", seen[:, 0], seen[:, 1], role="simulated", colour=end, group=end))
            marks += axes3(view, [REACH + 0.4] * 3, ["w₁", "w₂", "a"], behind=grids)
            title = f"({'abcdefgh'[i]}) δ = {number(delta)}: {kind}, {SHEETS[kind]}"
            panels.append(scene(view, marks, title=title))
        return Figure(
            tuple(panels),
            "Gradient flow on the conserved hyperboloid",
            "Exact paths of a single neuron with two inputs, a w·x, from starts (dots) on the surface a² − ‖w‖² = δ, "
            "β* = (0, 1), coloured by the sign of a at the end; dotted where they run behind the surface. "
            f"{view.words} After KUN24 Fig. 2.",
        )

    def _scale(self, ds: xr.Dataset) -> str:
        return f"{ds.sizes['surface']} surfaces × {ds.sizes['start']} starts × {ds.sizes['t']} times, two inputs"


def _sheets(delta: float) -> list[Floats]:
    """Grids (m, n, 3) of the surface a² − ‖w‖² = δ in (w₁, w₂, a)."""
    angle = np.linspace(0, 2 * np.pi, 61)
    if delta < 0:
        a = np.linspace(-REACH, REACH, 41)[:, None]
        size = np.sqrt(a**2 - delta)
        return [np.stack(np.broadcast_arrays(size * np.cos(angle), size * np.sin(angle), a), axis=-1)]
    size = np.linspace(0, np.sqrt(REACH**2 - delta) if REACH**2 > delta else 1.0, 25)[:, None]
    a = np.sqrt(delta + size**2)
    return [np.stack(np.broadcast_arrays(size * np.cos(angle), size * np.sin(angle), s * a), axis=-1) for s in (1, -1)]
