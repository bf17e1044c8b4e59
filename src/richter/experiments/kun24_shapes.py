"""KUN24 §4: which limits of the imbalance are lazy depends on the network's shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.figure import Figure, Panel
from richter.figure.build import number
from richter.figure.data import Mark, mark
from richter.refs import KUN24
from richter.regime import LAZY_BELOW
from richter.theory import IsotropicNetwork
from richter.theory.shapes import shape_of, shape_regime

if TYPE_CHECKING:
    import xarray as xr

SHAPES = {"funnel": (4, 2, 2), "inverted funnel": (2, 2, 4), "square": (3, 3, 3)}
SIDES = ("downstream", "upstream")
FAR = 3  # the largest |δ| over which powers are fitted
FITTED = 1e-2  # share of the loss left at which a network has fitted


@dataclass(frozen=True, kw_only=True)
class Shapes(AbstractExperiment):
    """Kernel movement of funnel, inverted-funnel and square networks over the whole range of imbalance, exactly."""

    name = "kun24-shapes"
    title = "Shapes decide which imbalance is lazy"
    statement = (
        "Funnel networks enter the lazy regime as δ → ∞ and inverted funnels as δ → −∞; in the opposite limits they "
        "are lazy first and rich later. Square networks are lazy in both limits, and all are rich at balance."
    )
    places = (KUN24["Sec. 4"], KUN24["App. B.1"])
    presets = {"smoke": {"draws": 2, "points": 4, "moments": 120}, "laptop": {}, "paper": {"draws": 64, "points": 16}}
    draws: int = setting(8, "random starts and targets of each shape", low=2, high=500)
    points: int = setting(8, "imbalances on each side, from 0.1 to the largest", low=4, high=50)
    largest: float = setting(1e4, "largest imbalance", symbol="|δ|", low=100, high=1e6)
    moments: int = setting(400, "times looked at", low=50)
    scale: float = setting(0.05, "size of the function at the start", symbol="‖β₀‖", low=1e-4, high=0.5)
    seed: int = setting(0, "seed of the starts", low=0)

    def deltas(self) -> np.ndarray:
        """From −largest to largest, 0 included."""
        side = np.geomspace(0.1, self.largest, self.points)
        return np.concatenate([-side[::-1], [0.0], side])

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Largest and final kernel change, its half-time and the time of the fit, of every shape, δ and draw."""
        import xarray as xr

        deltas = self.deltas()
        made = np.full((3, len(SHAPES), deltas.size, self.draws), np.nan)
        t = np.concatenate([np.geomspace(1e-8, 1e2, self.moments) * self.largest, [np.inf]])
        for i, (words, (d, h, c)) in enumerate(SHAPES.items()):
            progress(words, i / len(SHAPES))
            for j, delta in enumerate(deltas):
                nets = []
                for k in range(self.draws):  # the same target and directions at every δ
                    rng = np.random.default_rng([self.seed, i, k])
                    target = rng.standard_normal((d, c))
                    nets.append(IsotropicNetwork.random(
                        inputs=d, neurons=h, outputs=c, beta_star=target / np.linalg.norm(target), delta=delta,
                        scale=self.scale, rng=rng,
                    ))  # fmt: skip
                stacked = lambda key, nets=nets: np.stack([net.params[key] for net in nets])
                both = IsotropicNetwork(A0=stacked("A0"), W0=stacked("W0"), beta_star=stacked("beta_star"))
                ds = both.solve(t, only=("kernel_change", "loss"))
                change, loss = ds.kernel_change.values, ds.loss.values
                first = lambda mask: np.where(mask.any(axis=1), t[np.argmax(mask, axis=1)], np.inf)
                made[0, i, j] = change.max(axis=1)
                made[1, i, j] = first(change >= 0.5 * change.max(axis=1, keepdims=True))
                made[2, i, j] = first(loss <= loss[:, -1:] + FITTED * loss[:, :1])
        says = {
            "kernel_change": "largest ‖M − M₀‖/‖M₀‖ on the way", "half_time": "time at which half of it has happened",
            "fit_time": "time at which 1 % of the loss that can be removed is left",
        }  # fmt: skip
        dims = ("shape", "delta", "draw")
        return xr.Dataset(
            {name: (dims, made[n], {"long_name": words}) for n, (name, words) in enumerate(says.items())},
            {"shape": list(SHAPES), "delta": ("delta", deltas, {"symbol": "δ"})},
        )

    @claim("funnel networks always enter the lazy regime as δ → ∞, inverted funnels as δ → −∞", KUN24["Sec. 4"])
    def lazy(self, ds: xr.Dataset) -> Verdict:
        """K9: the power with which the kernel's change vanishes, and its size at the end."""
        return self._lazy_sides(ds, [("funnel", 1), ("inverted funnel", -1)])

    @claim("square networks transition symmetrically into the lazy regime as δ → ±∞", KUN24["Sec. 4"])
    def square(self, ds: xr.Dataset) -> Verdict:
        """K9: both sides, and that they are equal."""
        return self._lazy_sides(ds, [("square", 1), ("square", -1)])

    @claim("in the opposite limits these networks enter a lazy followed by rich regime", KUN24["Sec. 4"])
    def delayed(self, ds: xr.Dataset) -> Verdict:
        """K9: the kernel moves by a finite amount, at a time that grows like |δ|."""
        said, holds = [], True
        for shape, sign in (("funnel", -1), ("inverted funnel", 1)):
            here = self._side(ds, shape, sign).isel(delta=slice(-FAR, None))
            power = self._power(here, "half_time")
            moved = float(here.kernel_change.min())
            said.append(f"{shape}: change ≥ {moved:.2f}, half-time with power {power:.2f} of |δ|")
            holds &= moved > LAZY_BELOW and abs(power - 1) < 0.1
        return Verdict.of(holds, "; ".join(said), f"change above {LAZY_BELOW:g}, power 1 ± 0.1", self._scale(ds))

    @claim("as the δᵢ → 0, all networks transition into the rich regime", KUN24["Sec. 4"])
    def rich(self, ds: xr.Dataset) -> Verdict:
        """K9: at δ = 0 the kernel changes by far more than its size at the start."""
        least = ds.kernel_change.sel(delta=0.0).min("draw")
        said = ", ".join(f"{shape} {float(least.sel(shape=shape)):.1f}" for shape in SHAPES)
        return Verdict.of(bool((least > 1).all()), f"smallest change at δ = 0: {said}", "above 1", self._scale(ds))

    def _lazy_sides(self, ds: xr.Dataset, sides: list[tuple[str, int]]) -> Verdict:
        said, holds = [], True
        for shape, sign in sides:
            here = self._side(ds, shape, sign).isel(delta=slice(-FAR, None))
            power, last = self._power(here, "kernel_change"), float(here.kernel_change.isel(delta=-1).max())
            limit = SIDES[sign > 0]
            agrees = shape_regime(*SHAPES[shape], limit).label == "lazy"
            said.append(f"{shape}, {limit}: change at most {last:.1e} at the end, power {power:.2f}")
            holds &= agrees and last < LAZY_BELOW and abs(power + 2) < 0.1
        return Verdict.of(
            holds,
            "; ".join(said),
            f"below {LAZY_BELOW:g}; power −2 ± 0.1: M changes by ‖β‖²/|δ| of |δ|",
            self._scale(ds),
        )

    def _side(self, ds: xr.Dataset, shape: str, sign: int) -> xr.Dataset:
        """One shape on one side, |δ| increasing."""
        here = ds.sel(shape=shape)
        return here.isel(delta=np.flatnonzero(sign * ds.delta.values > 0)[::sign])

    def _power(self, here: xr.Dataset, name: str) -> float:
        middle = here[name].median("draw").values
        return float(np.polyfit(np.log(np.abs(here.delta.values)), np.log(middle), 1)[0])

    def figure(self, ds: xr.Dataset) -> Figure:
        """Kernel change and its half-time against |δ|, downstream and upstream."""
        panels = []
        labels = {"kernel_change": "‖M − M₀‖/‖M₀‖: largest change", "half_time": "t½: when half of it has happened"}
        for letter, (name, label) in zip("ab", labels.items(), strict=True):
            for sign, side in ((-1, SIDES[0]), (1, SIDES[1])):
                marks: list[Mark] = []
                for shape in SHAPES:
                    here = self._side(ds, shape, sign)
                    x, y = np.abs(here.delta.values), here[name]
                    marks.append(
                        mark("band", x, y.min("draw"), high=y.max("draw"), role="exact", colour=shape, group=shape)
                    )
                    marks.append(
                        mark("line", x, y.median("draw"), role="exact", colour=shape, label=shape, group=shape)
                    )
                if name == "kernel_change":
                    marks.append(mark("hline", y=LAZY_BELOW, role="guide", label="lazy below"))
                title = f"({letter}{1 + (sign > 0)}) {side}"
                panels.append(Panel(tuple(marks), x="|δ|: imbalance", y=label, x_log=True, y_log=True, title=title))
        sizes = ", ".join(f"{shape_of(*s)} {s[0]}→{s[1]}→{s[2]}" for s in SHAPES.values())
        return Figure(
            tuple(panels),
            "Shapes decide which imbalance is lazy",
            f"Exact solutions for {sizes} (inputs → neurons → outputs) with Δ = δI and ‖β₀‖ of order "
            f"{number(self.scale)}: median and range over {ds.sizes['draw']} random starts and targets. "
            "After KUN24 Section 4.",
        )

    def _scale(self, ds: xr.Dataset) -> str:
        sizes = ", ".join("→".join(map(str, s)) for s in SHAPES.values())
        return f"shapes {sizes}; |δ| to {self.largest:g}; {ds.sizes['draw']} draws; exact, t to ∞"
