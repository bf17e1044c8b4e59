"""NAM24 App. A.2: gradient flow from zero ends at the minimum-norm solution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.figure import Figure, Panel
from richter.figure.data import Mark, mark
from richter.maths.linear import flow_weights, weight_flow
from richter.refs import NAM24

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
STARTS = {"from 0": 0.0, "from a random start": 1.0}


@dataclass(frozen=True, kw_only=True)
class MinimumNorm(AbstractExperiment):
    """Gradient descent on random underdetermined regressions, beside the pseudo-inverse and the exact flow."""

    name = "nam24-minimum-norm"
    title = "From zero to the minimum norm"
    statement = (
        "Gradient flow of a linear model from w = 0 converges to the interpolating solution of minimum norm, that of "
        "kernel ridgeless regression, because it never leaves the span of the examples' features."
    )
    places = (NAM24["App. A.2"], NAM24["Eq. A.9"])
    presets = {"smoke": {"problems": 12, "steps": 1500}, "laptop": {}, "paper": {"problems": 1000}}
    features: int = setting(60, "features", symbol="p", low=4)
    examples: int = setting(20, "examples; a quarter of the problems repeats some of them", symbol="n", low=2)
    problems: int = setting(200, "random problems", low=4)
    steps: int = setting(4000, "steps of gradient descent", low=100)
    seed: int = setting(0, "seed of the problems", low=0)

    def _problem(self, i: int) -> tuple[Floats, Floats, Floats]:
        """Φ (feature, example) with singular values from 1 down to 0.1, Y, and a direction for the start."""
        rng = np.random.default_rng([self.seed, i])
        U, _, V = np.linalg.svd(rng.standard_normal((self.features, self.examples)), full_matrices=False)
        phi = U * rng.uniform(0.1, 1.0, self.examples) @ V
        y = rng.standard_normal(self.examples)
        if i % 4 == 0:  # repeated examples: more equations than rank
            half = self.examples // 2
            phi[:, -half:], y[-half:] = phi[:, :half], y[:half]
        return phi, y, rng.standard_normal(self.features)

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Descend every problem from both starts; distances to the pseudo-inverse's solution."""
        import xarray as xr

        looks = np.unique(np.geomspace(1, self.steps, 60).round().astype(int))
        shape = (self.problems, len(STARTS))
        distance, outside = np.empty((*shape, looks.size)), np.empty(shape)
        norm, exact, left, path = np.empty(shape), np.empty(self.problems), np.empty(shape), np.empty(self.problems)
        for i in range(self.problems):
            progress("problems", i / self.problems)
            phi, y, direction = self._problem(i)
            best = np.linalg.pinv(phi.T) @ y
            rate = 1.0 / float(np.linalg.norm(phi, 2)) ** 2
            null = np.eye(self.features) - phi @ np.linalg.pinv(phi)
            exact[i] = np.linalg.norm(flow_weights(phi, y, np.inf) - best) / np.linalg.norm(best)
            for j, size in enumerate(STARTS.values()):
                start: Floats = size * direction
                w = start
                row: list[float] = []
                for k in range(1, self.steps + 1):
                    w = w + weight_flow(w, phi, y, rate)
                    if k == looks[len(row)]:
                        row.append(float(np.linalg.norm(w - best) / np.linalg.norm(best)))
                distance[i, j], left[i, j] = row, np.linalg.norm(w @ phi - y) / np.linalg.norm(y)
                outside[i, j] = np.linalg.norm(null @ (w - start)) / np.linalg.norm(best)
                norm[i, j] = np.linalg.norm(w) / np.linalg.norm(best)
            flow = flow_weights(phi, y, 5.0, 1.0)
            few = np.zeros(self.features)
            for _ in range(200):
                few = few + weight_flow(few, phi, y, 0.025)
            path[i] = np.linalg.norm(few - flow) / np.linalg.norm(flow)
        dims = ("problem", "start")
        return xr.Dataset(
            {
                "distance": ((*dims, "step"), distance, {"long_name": "‖w − w_min‖/‖w_min‖"}),
                "outside": (dims, outside, {"long_name": "movement outside of the examples' span"}),
                "norm": (dims, norm, {"long_name": "norm at the end, over the minimum"}),
                "residual": (dims, left, {"long_name": "‖f − y‖/‖y‖ at the end"}),
                "exact_gap": ("problem", exact, {"long_name": "exact end against the pseudo-inverse"}),
                "path_gap": ("problem", path, {"long_name": "exact flow against 200 small steps, at t = 5"}),
            },
            {"step": looks, "start": list(STARTS)},
        )  # fmt: skip

    @claim("gradient flow with zero initialisation finds the same minimum-norm solution as ridgeless regression",
           NAM24["App. A.2"], NAM24["Eq. A.9"])  # fmt: skip
    def ends(self, ds: xr.Dataset) -> Verdict:
        """N29: the closed form to rounding, and gradient descent as far as it has come."""
        closed = float(ds.exact_gap.max())
        zero = ds.sel(start="from 0")
        ran = float(zero.distance.isel(step=-1).median())
        return Verdict.of(
            closed < 1e-10 and ran < 1e-3 and float(zero.distance.isel(step=-1).max()) < 0.1,
            f"largest distance to the pseudo-inverse's solution: closed form {closed:.1e}; gradient descent after "
            f"{self.steps} steps {ran:.1e} in the median, {float(zero.distance.isel(step=-1).max()):.1e} at most",
            "closed form below 1e-10; descent below 1e-3 in the median and 0.1 everywhere", self._scale(ds),
        )  # fmt: skip

    @claim("w stays in the span of the examples: (I − UUᵀ)dw/dt = 0", NAM24["Eq. A.11"], NAM24["Eq. A.12"])
    def span(self, ds: xr.Dataset) -> Verdict:
        """Movement orthogonal to the examples' features, from any start."""
        worst = float(ds.outside.max())
        return Verdict.of(
            worst < 1e-10, f"largest movement outside, over ‖w_min‖: {worst:.1e}", "0, to rounding", self._scale(ds)
        )

    @claim("the zero start is needed: another start fits the examples with another solution", NAM24["App. A.2"])
    def start(self, ds: xr.Dataset) -> Verdict:
        """From a random start the examples are fitted as well, at a larger norm."""
        other, zero = ds.sel(start="from a random start"), ds.sel(start="from 0")
        least, fitted = float(other.norm.min()), float(other.residual.median())
        return Verdict.of(
            least > 1.01 and fitted < 1e-3 and abs(float(zero.norm.max()) - 1) < 0.01,
            f"norm over the minimum: at least {least:.2f}, from 0 at most {float(zero.norm.max()):.4f}; median "
            f"residual {fitted:.1e}",
            "above 1.01 with the examples fitted; from 0 within 1 %", self._scale(ds),
        )  # fmt: skip

    @claim("w(t) = Y Vᵀ S⁻¹ (1 − e^{−ηS²t}) Uᵀ on the way", NAM24["Eq. A.8"])
    def way(self, ds: xr.Dataset) -> Verdict:
        """The closed form against 200 steps of 0.025, whose own error is of first order in the step."""
        worst = float(ds.path_gap.max())
        return Verdict.of(worst < 0.025, f"largest difference at t = 5: {worst:.1e} of the weights' norm",
                          "below the step, 0.025", self._scale(ds))  # fmt: skip

    def figure(self, ds: xr.Dataset) -> Figure:
        """Distance to the minimum-norm solution over the steps."""
        marks: list[Mark] = []
        for words in STARTS:
            row = ds.distance.sel(start=words)
            marks.append(mark("band", ds.step, row.quantile(0.05, "problem"), high=row.quantile(0.95, "problem"),
                colour=words,
                              group=words))  # fmt: skip
            marks.append(
                mark("line", ds.step, row.median("problem"), role="simulated", colour=words, label=words, group=words)
            )
        panel = Panel(tuple(marks), x="steps of gradient descent", y="‖w − w_min‖/‖w_min‖", x_log=True, y_log=True)
        return Figure(
            (panel,), self.title,
            f"Distance to the minimum-norm solution on {self.problems} random regressions with {self.features} "
            "features and "
            f"{self.examples} examples: median, 5 % and 95 %. After NAM24 Appendix A.2.",
        )  # fmt: skip

    def _scale(self, ds: xr.Dataset) -> str:
        return f"p = {self.features}, n = {self.examples}, {ds.sizes['problem']} problems, {self.steps} steps"
