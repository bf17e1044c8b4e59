"""KUN24 Fig. 7: the surface that separates the starts that end with a > 0 from those that end with a < 0."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.figure import Figure
from richter.figure.data import Mark, mark
from richter.figure.space import View, axes3, path, scene, surface
from richter.refs import KUN24
from richter.theory import SingleNeuron
from richter.theory.discrete import descend

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
REACH = 2.2  # how far the surface is drawn
ENDS = ("ends with a > 0", "ends with a < 0", "on the surface: to a saddle")
FITTED = 1e-3
CLEAR = 0.02  # starts nearer to the surface than this are not asked of gradient descent


@dataclass(frozen=True, kw_only=True)
class Basins(AbstractExperiment):
    """Random starts and starts on the separating surface: where the exact flow, descent and the criterion send them."""

    name = "kun24-basins"
    title = "Two basins of attraction"
    statement = (
        "Parameter space is partitioned into two basins, one for each branch of the minima manifold; they are "
        "separated by w₀·β* + (a₀/2)(δ + √(δ² + 4‖β*‖²)) = 0, which no start with δ > 0 meets."
    )
    places = (KUN24["Fig. 7"], KUN24["App. A.2.5"], KUN24["Eq. 33"])
    presets = {
        "smoke": {"starts": 10_000, "followed": 300, "steps": 3000},
        "laptop": {},
        "paper": {"starts": 200_000, "followed": 10_000, "steps": 20_000},
    }
    starts: int = setting(50_000, "random starts, of 2 to 6 inputs and random rates", low=100)
    followed: int = setting(2000, "starts followed by gradient descent", low=50)
    steps: int = setting(8000, "steps of descent", low=500)
    step: float = setting(0.01, "step of descent", symbol="h", low=1e-4, high=0.02)
    seed: int = setting(0, "seed of the starts", low=0)

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Ends by the closed form and by descent, and what the printed criterion says, with what each start is."""
        import xarray as xr

        rng, each = np.random.default_rng(self.seed), self.starts // 5
        made: dict[str, list[Floats]] = {name: [] for name in ("delta", "printed", "first", "end", "stay")}
        for k, inputs in enumerate(range(2, 7)):
            progress(f"{inputs} inputs", 0.4 * k / 5)
            rates = 10 ** rng.uniform(-0.5, 0.5, (2, each))
            size = 10 ** rng.uniform(-2, 1, (2, each))
            a0, w0 = size[0] * rng.standard_normal(each), size[1, :, None] * rng.standard_normal((each, inputs))
            target = rng.standard_normal((each, inputs))
            net = SingleNeuron(a0=a0, w0=w0, beta_star=target, eta_a=rates[0], eta_w=rates[1])
            end = net.limit(only=("a", "loss"))
            delta, product = rates[1] * a0**2 - rates[0] * (w0**2).sum(axis=1), rates.prod(axis=0)
            reach = delta + np.sqrt(delta**2 + 4 * product * (target**2).sum(axis=1))
            hyperplane = rates[0] * (w0 * target).sum(axis=1) + a0 / 2 * reach  # Eq. 33 in units of the rates
            made["printed"].append(np.where(delta >= 0, np.sign(a0), np.sign(hyperplane)))
            made["stay"].append(np.sign(hyperplane))
            made["first"].append(np.sign(a0))
            made["end"].append(np.sign(end.a.values))
            made["delta"].append(delta)
        ds = xr.Dataset({name: ("start", np.concatenate(parts)) for name, parts in made.items()})
        progress("gradient descent", 0.4)
        small = SingleNeuron(
            a0=rng.standard_normal(self.followed), w0=rng.standard_normal((self.followed, 2)), beta_star=[0.0, 1.0]
        )
        followed = descend(small, self.step, [self.steps]).isel(t=0)
        ds["followed_sign"] = ("followed", np.sign(followed.a.values))
        ds["followed_margin"] = ("followed", small.basin_margin())
        ds["followed_loss"] = ("followed", followed.loss.values)
        progress("on the surface", 0.9)
        on = self.on_the_surface(24)
        rays = on.solve([0.0, 1.0, 4.0, 30.0], only=("a", "w", "loss"))
        ds["margin_on_surface"] = (("surface_start", "t"), _margin(rays.a.values, rays.w.values))
        ds["surface_loss"] = (("surface_start", "t"), rays.loss.values)
        return ds

    def on_the_surface(self, count: int) -> SingleNeuron:
        """Starts that the criterion puts on the separating surface; β* = (0, 1), whose length is 1."""
        points = _separatrix(np.linspace(-2.0, 2.0, count // 2), np.array([-0.8, 0.6]))
        points = points.reshape(-1, 3)
        return SingleNeuron(a0=points[:, 2], w0=points[:, :2], beta_star=[0.0, 1.0], batch=("surface_start",))

    @claim("S⁺ = {a₀ > 0 if δ ≥ 0; w₀·β* > −(a₀/2)(δ + √(δ² + 4‖β*‖²)) if δ < 0} is attracted to the branch a > 0",
           KUN24["Eq. 33"])  # fmt: skip
    def basins(self, ds: xr.Dataset) -> Verdict:
        """K6: signs at t = ∞ of every random start, in units of the rates; the lower line alone for every δ."""
        wrong, alone = int((ds.printed != ds.end).sum()), int((ds.stay != ds.end).sum())
        crossed = int((ds.first != ds.end).sum())
        return Verdict.of(
            wrong == 0 and crossed > 0,
            f"{wrong} of {ds.sizes['start']} starts end in the other basin ({crossed} change the sign of a); the line "
            f"for δ < 0 used for every δ: {alone} wrong",
            "none",
            self._scale(ds),
            "exact ends; starts nearer to the surface than rounding would be undecidable",
        )

    @claim("except for a measure zero set all gradient flow trajectories converge to a global minimum",
           KUN24["Sec. 3"], KUN24["App. A"])  # fmt: skip
    def descent(self, ds: xr.Dataset) -> Verdict:
        """K6: gradient descent from starts clear of the surface ends in the basin that the criterion says."""
        clear = abs(ds.followed_margin) > CLEAR
        wrong = int(((np.sign(ds.followed_margin) != ds.followed_sign) & clear).sum())
        fitted = float((ds.followed_loss.where(clear, drop=True) < FITTED).mean())
        return Verdict.of(
            wrong == 0 and fitted > 0.98,
            f"{wrong} of {int(clear.sum())} in the other basin; {fitted:.1%} have fitted to a loss of {FITTED:g}",
            "none; all, but for those near the surface, which take longest: 98 %",
            f"{ds.sizes['followed']} Gaussian starts, two inputs, {self.steps} steps of {self.step:g}; "
            f"{int((~clear).sum())} within {CLEAR:g} of the surface left out",
        )

    @claim("initializations exactly on the separating surface travel along it to a saddle point where w·β* = a = 0",
           KUN24["Fig. 7"])  # fmt: skip
    def saddle(self, ds: xr.Dataset) -> Verdict:
        """K6: the margin along exact paths from the surface; the loss tends to the saddle's, ½‖β*‖²."""
        held = ds.margin_on_surface.isel(t=slice(0, 3))
        worst, off = float(abs(held).max()), float(abs(ds.surface_loss.isel(t=2) - 0.5).max())
        return Verdict.of(
            worst < 1e-12 and off < 0.02,
            f"the margin stays below {worst:.1e} up to t = 4, the loss is then within {off:.1e} of ½‖β*‖²",
            "0 to rounding; 0 as t grows",
            f"{ds.sizes['surface_start']} starts on the surface, exact paths",
        )

    @claim("this intersection is empty if δ > 0", KUN24["Fig. 7"])
    def empty(self, ds: xr.Dataset) -> Verdict:
        """K6: with δ > 0 the hyperplane's sign is that of a₀, so that no start lies on it."""
        up = ds.delta > 0
        same = int((ds.stay.where(up) == ds.first.where(up)).sum())
        return Verdict.of(same == int(up.sum()), f"{same} of {int(up.sum())} upstream starts lie on a₀'s side", "all",
                          self._scale(ds))  # fmt: skip

    def figure(self, ds: xr.Dataset) -> Figure:
        """The surface in space with the two branches of minima and paths beside and on it."""
        view = View(azimuth=-35, elevation=16)
        grid = _separatrix(np.linspace(-REACH, REACH, 61), np.linspace(-1.1, 1.1, 31))
        marks: list[Mark] = list(surface(view, grid, role="guide", edge=False))
        for branch in (1.0, -1.0):
            a = branch * np.geomspace(1 / REACH, REACH, 60)
            marks += path(view, np.stack([0 * a, 1 / a, a], axis=-1), behind=[grid], role="target",
                          label="minima: aw = β*")  # fmt: skip
        t = np.concatenate([[0.0], np.geomspace(1e-2, 40, 200)])
        first = _separatrix(np.linspace(-1.8, 1.8, 6), np.array([-0.7, 0.7])).reshape(-1, 3)
        for shift, words in ((0.12, ENDS[0]), (-0.12, ENDS[1])):
            net = SingleNeuron(a0=first[:, 2] + shift, w0=first[:, :2] + [0.0, shift], beta_star=[0.0, 1.0])
            made = net.solve(t, only=("a", "w"))
            for row in np.concatenate([made.w.values, made.a.values[..., None]], axis=-1):
                marks += path(view, row, behind=[grid], role="simulated", label=words, colour=words)
        still = self.on_the_surface(8).solve(t, only=("a", "w"))
        for row in np.concatenate([still.w.values, still.a.values[..., None]], axis=-1):
            marks += path(view, row, behind=[grid], role="simulated", label=ENDS[2], colour=ENDS[2])
        saddles = view.project(np.array([[-REACH, 0.0, 0.0], [REACH, 0.0, 0.0]]))
        marks.append(mark("line", saddles[:, 0], saddles[:, 1], role="guide", label="saddles: a = w·β* = 0"))
        marks += axes3(view, [REACH + 0.3] * 3, ["w₁", "w₂", "a"], behind=[grid])
        return Figure(
            (scene(view, marks),),
            "Two basins of attraction",
            "The surface that separates the starts of a w·x, β* = (0, 1), that end on either branch of the minima. "
            f"Exact paths from starts just above and below it, and on it; dotted where behind it. {view.words} After "
            "KUN24 Fig. 7.",
        )

    def _scale(self, ds: xr.Dataset) -> str:
        return f"{ds.sizes['start']} starts of size 0.01 to 10, 2 to 6 inputs, rates 0.3 to 3, random targets; exact"


def _separatrix(across: Floats, heights: Floats) -> Floats:
    """The surface for β* = (0, 1): points (height, across, 3) with w₁ = `across` and a = `heights`, rates 1.

    With a ≠ 0 the criterion is w₂ = −r a, r = (δ + √(δ² + 4))/2, so that r² − δr = 1; with δ = a² − w₁² − r²a² this
    is r³a² + r² + r(w₁² − a²) − 1 = 0, which is −1 at 0, w₁² ≥ 0 at 1 and convex: one root between.
    """
    a, w1 = np.broadcast_arrays(heights[:, None], across[None, :])
    low, high = np.zeros(a.shape), np.ones(a.shape)
    for _ in range(60):  # halvings down to rounding
        r = (low + high) / 2
        below = r**3 * a**2 + r**2 + r * (w1**2 - a**2) < 1
        low, high = np.where(below, r, low), np.where(below, high, r)
    return np.stack([w1, -(low + high) / 2 * a, a], axis=-1)


def _margin(a: Floats, w: Floats) -> Floats:
    """w·β* + (a/2)(δ + √(δ² + 4)) for β* = (0, 1)."""
    delta = a**2 - (w**2).sum(axis=-1)
    return np.asarray(w[..., 1] + a / 2 * (delta + np.hypot(delta, 2.0)))
