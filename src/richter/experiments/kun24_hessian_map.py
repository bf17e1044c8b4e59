"""KUN24 A.4.2: M⁻¹ is no Hessian of a potential, g·M⁻¹ is one; and the potential between ℓ¹ and ℓ²."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.figure import Figure, Panel
from richter.figure.build import number
from richter.figure.data import mark, scale_of
from richter.maths.hessian_map import asymmetry
from richter.maths.potentials import radial_potential
from richter.maths.preconditioner import neuron_preconditioner_inverse, time_warp
from richter.refs import KUN24

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
H = 1e-3  # relative step of the differences, which are of fourth order
ROUGH = 1e-9  # what the differences leave, relative to the derivatives
DRAWN = (-100.0, -1.0, 0.0, 1.0, 100.0)
FARTHEST = 100.0


@dataclass(frozen=True, kw_only=True)
class HessianMap(AbstractExperiment):
    """Third derivatives of random β by differences, with and without the time warp, at every imbalance."""

    name = "kun24-hessian-map"
    title = "A mirror flow only in warped time"
    statement = (
        "The inverse preconditioner of the single neuron is not the Hessian of any potential, but with the scalar "
        "factor g_δ it is that of Φ_δ: the function follows a mirror flow in warped time."
    )
    places = (KUN24["App. A.4.2"], KUN24["Eq. 50"], KUN24["Eq. 59"], KUN24["Eq. 67"])
    presets = {"smoke": {"points": 4, "draws": 8}, "laptop": {}, "paper": {"points": 40, "draws": 1000}}
    points: int = setting(15, "imbalances on each side of 0", low=3, high=200)
    draws: int = setting(40, "random β at each imbalance, of 2 to 6 inputs", low=5, high=100_000)
    seed: int = setting(0, "seed of the draws", low=0)

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Largest relative asymmetry of the third derivatives, and the difference between g·M⁻¹ and ∇²Φ."""
        import xarray as xr

        side = np.geomspace(1e-2, FARTHEST, self.points)
        deltas = np.concatenate([-side[::-1], [0.0], side])
        rng = np.random.default_rng(self.seed)
        rough, warped, hessian = (np.empty((deltas.size, self.draws)) for _ in range(3))
        for j in range(self.draws):
            progress(f"function {j + 1}", j / self.draws)
            beta = rng.standard_normal(j % 5 + 2)
            beta *= rng.uniform(0.3, 3.0) / np.linalg.norm(beta)
            for i, delta in enumerate(deltas):
                plain = lambda b, delta=delta: neuron_preconditioner_inverse(b, delta)
                both = lambda b, delta=delta: time_warp(b @ b, delta) * neuron_preconditioner_inverse(b, delta)
                rough[i, j], warped[i, j] = _bend(plain, beta), _bend(both, beta)
                slope = lambda b, delta=delta: _differences(lambda x: radial_potential(np.linalg.norm(x), delta), b)
                numeric, exact = _differences(slope, beta), both(beta)
                hessian[i, j] = np.abs(numeric - exact).max() / np.abs(exact).max()
        size = np.geomspace(1e-3, 1e3, 121)
        exponent = [np.gradient(np.log(radial_potential(size, delta)), np.log(size)) for delta in DRAWN]
        return xr.Dataset(
            {
                "asymmetry": (("delta", "draw"), rough, {"long_name": "largest |∂H_ij/∂β_k − ∂H_ik/∂β_j| of M⁻¹"}),
                "warped_asymmetry": (("delta", "draw"), warped, {"long_name": "the same of g·M⁻¹"}),
                "hessian_gap": (("delta", "draw"), hessian, {"long_name": "largest relative |∇²Φ − g·M⁻¹|"}),
                "exponent": (("drawn", "size"), np.array(exponent), {"long_name": "d ln Φ/d ln‖β‖"}),
            },
            {"delta": ("delta", deltas, {"symbol": "δ"}), "drawn": list(DRAWN), "size": size},
        )

    @claim("M⁻¹ is not a Hessian map", KUN24["Eq. 54"], KUN24["App. A.4.2"])
    def no_hessian(self, ds: xr.Dataset) -> Verdict:
        """K26: the smallest relative asymmetry over all draws with |δ| of the size of β, and how it fades."""
        near = ds.asymmetry.where(abs(ds.delta) <= 3, drop=True)
        far = ds.asymmetry.median("draw")
        return Verdict.of(
            float(near.min()) > 1e-3 and float(ds.asymmetry.min()) > 100 * ROUGH,
            f"at least {float(near.min()):.2g} for |δ| ≤ 3; median {float(far[0]):.2g} at δ = −{FARTHEST:g}, "
            f"{float(far[-1]):.1e} at δ = {FARTHEST:g}, where M is nearly constant",
            f"above what the differences leave ({ROUGH:g})",
            self._scale(ds),
        )

    @claim("there exists a scalar function g_δ such that g_δ(‖β‖²)M⁻¹ is a Hessian map", KUN24["App. A.4.2"])
    def warped(self, ds: xr.Dataset) -> Verdict:
        """K26: the largest asymmetry that differences find."""
        worst = float(ds.warped_asymmetry.max())
        return Verdict.of(worst < ROUGH, f"relative asymmetry at most {worst:.1e}", f"0: below {ROUGH:g}",
                          self._scale(ds))  # fmt: skip

    @claim("it is the Hessian of Φ_δ", KUN24["Eq. 67"])
    def potential(self, ds: xr.Dataset) -> Verdict:
        """K26: ∇²Φ by twofold differences."""
        worst = float(ds.hessian_gap.max())
        return Verdict.of(worst < 1e-5, f"largest relative gap {worst:.1e}", "0: below 1e-5 (second differences)",
                          self._scale(ds))  # fmt: skip

    def figure(self, ds: xr.Dataset) -> Figure:
        """Asymmetry against δ, and the local exponent of the potential."""
        squashed = np.arcsinh(ds.delta.values)
        marks = []
        for name, words in (("asymmetry", "M⁻¹"), ("warped_asymmetry", "g·M⁻¹")):
            row = ds[name].clip(min=1e-16)
            marks.append(
                mark("band", squashed, row.min("draw"), high=row.max("draw"), role="measured", colour=words,
                     group=words)
            )  # fmt: skip
            marks.append(
                mark("line", squashed, row.median("draw"), role="measured", colour=words, label=words, group=words)
            )
        first = Panel(tuple(marks), x="sinh⁻¹ δ: imbalance", y="relative asymmetry of the third derivatives",
                      y_log=True, title="(a) which is a Hessian")  # fmt: skip
        lines = [
            mark("line", ds["size"], ds.exponent.sel(drawn=delta), role="exact", colour=delta, group=f"{delta:g}",
                 label=f"δ = {number(delta)}")
            for delta in DRAWN
        ]  # fmt: skip
        lines += [mark("hline", y=value, role="guide", label="1, 3/2, 2") for value in (1.0, 1.5, 2.0)]
        second = Panel(tuple(lines), x="‖β‖: size of the function", y="d ln Φ/d ln‖β‖", x_log=True,
                       title="(b) exponent of the potential", colours=scale_of(lines, "δ"))  # fmt: skip
        return Figure(
            (first, second),
            "A mirror flow only in warped time",
            "(a) Largest asymmetry of the third derivatives at random β, relative to their size, by differences of "
            "fourth order: median and range. (b) The potential Φ_δ goes like ‖β‖ far downstream, like ‖β‖^(3/2) at "
            "balance and like ‖β‖² upstream where ‖β‖ is below |δ|. After KUN24 App. A.4.2.",
        )

    def _scale(self, ds: xr.Dataset) -> str:
        return f"{ds.sizes['draw']} random β of 2 to 6 inputs × {ds.sizes['delta']} imbalances to ±{FARTHEST:g}"


def _differences(of: Callable[[Floats], Any], beta: Floats) -> Floats:
    """Derivatives along every input, last axis, by central differences of fourth order."""
    h = H * float(np.linalg.norm(beta))
    rows = []
    for e in h * np.eye(beta.size):
        rows.append((8 * (of(beta + e) - of(beta - e)) - (of(beta + 2 * e) - of(beta - 2 * e))) / (12 * h))
    return np.stack(rows, axis=-1)


def _bend(of: Callable[[Floats], Any], beta: Floats) -> float:
    """Largest asymmetry of the derivatives of a matrix, relative to the largest derivative and its bulk."""
    slopes, matrix = _differences(of, beta), of(beta)
    size = max(float(np.abs(slopes).max()), float(np.abs(matrix).max() / np.linalg.norm(beta)))
    return float(np.abs(asymmetry(slopes)).max()) / size
