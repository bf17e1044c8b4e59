"""KUN24 Theorem B.9: with depth the rich limit holds on to the direction of the start."""

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
from richter.figure.data import mark, scale_of
from richter.maths.integrate import integrate
from richter.refs import KUN24

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
INPUTS, EXAMPLES = 4, 2
LATE = 3e4  # integration ends here, or when the gradient is gone
GONE = 1e-12


@dataclass(frozen=True, kw_only=True)
class DepthBias(AbstractExperiment):
    """Balanced deep linear networks on random low-rank data: integrated ends, the theorem's, and their angle to β₀."""

    name = "kun24-depth-bias"
    title = "Depth holds on to the direction of the start"
    statement = (
        "In the rich limit a deep linear network ends at a balance between the solution of least norm and the "
        "direction of its start, and depth emphasises the direction."
    )
    places = (KUN24["Theorem B.9"], KUN24["Sec. 4"], KUN24["App. B.2"])
    presets = {
        "smoke": {"problems": 2, "scales": (1e-2, 0.1, 8.0), "depths": (2, 3, 5)},
        "laptop": {},
        "paper": {"problems": 60},
    }
    depths: tuple[int, ...] = setting((2, 3, 4, 5, 6), "layers of weights", symbol="l + 1", low=2, high=12)
    scales: tuple[float, ...] = setting(
        (1e-3, 1e-2, 0.1, 0.5, 8.0),
        "sizes of the start in units of the least-norm solution",
        symbol="‖β₀‖",
        low=1e-4,
        high=10,
    )
    problems: int = setting(10, "random problems", low=2, high=1000)
    seed: int = setting(0, "seed of the problems", low=0)

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Ends by integration of all layers and by the theorem, and their KKT residuals with the printed exponents."""
        import xarray as xr

        scales = np.array(self.scales)
        names = ("gap", "angle", "kkt", "printed", "loss")
        made = np.empty((len(names), scales.size, len(self.depths), self.problems))
        for k in range(self.problems):
            rng = np.random.default_rng([self.seed, k])
            rows = np.linalg.qr(rng.standard_normal((INPUTS, EXAMPLES)))[0].T
            X = rng.uniform(0.8, 1.3, (EXAMPLES, 1)) * rows
            shortest = rows.T @ rng.standard_normal(EXAMPLES)
            shortest /= np.linalg.norm(shortest)
            direction = rng.standard_normal(INPUTS)
            direction *= np.sign(direction @ shortest) / np.linalg.norm(direction)
            for i, scale in enumerate(scales):
                for j, depth in enumerate(self.depths):
                    done = (k * scales.size + i) / (self.problems * scales.size)
                    progress(f"problem {k + 1}, {depth} layers", done)
                    beta0 = scale * direction
                    end = _integrated(X, X @ shortest, beta0, depth, rng)
                    theory = minimiser(rows, shortest, beta0, depth - 1)
                    made[:, i, j, k] = (
                        np.linalg.norm(end - theory) / np.linalg.norm(theory), _angle(theory, beta0),
                        _residual(rows, end, beta0, depth - 1, -(depth - 1) / depth),
                        _residual(rows, end, beta0, depth - 1, -(depth + 1) / depth),
                        np.linalg.norm(X @ (end - shortest)),
                    )  # fmt: skip
        says = {
            "gap": "distance of the integrated end from the theorem's, relative", "angle": "angle of the end to β₀ (°)",
            "kkt": "KKT residual with ‖β₀‖^(−l/(l+1))", "printed": "KKT residual with ‖β₀‖^(−(l+2)/(l+1))",
            "loss": "‖Xβ − y‖ left",
        }  # fmt: skip
        dims = ("scale", "depth", "problem")
        return xr.Dataset(
            {name: (dims, made[n], {"long_name": words}) for n, (name, words) in enumerate(says.items())},
            {"scale": ("scale", scales, {"symbol": "‖β₀‖"}), "depth": list(self.depths)},
        )

    @claim("β(∞) = argmin (l+1)/(l+2)‖β‖^((l+2)/(l+1)) − (β₀/‖β₀‖^(l/(l+1)))·β among interpolating solutions",
           KUN24["Theorem B.9"])  # fmt: skip
    def theorem(self, ds: xr.Dataset) -> Verdict:
        """K11: integrated ends against the minimiser, and the KKT residual."""
        gap, kkt = float(ds.gap.max()), float(ds.kkt.max())
        return Verdict.of(
            gap < 1e-6 and kkt < 1e-6,
            f"largest relative distance {gap:.1e}, largest KKT residual {kkt:.1e}",
            "0 to the tolerance of the integration (1e-6)",
            self._scale(ds),
        )

    @claim("Q(β) = (l+1)/(l+2)‖β‖^((l+2)/(l+1)) − ‖β₀‖^(−(l+2)/(l+1)) β₀·β", KUN24["Sec. 4"])
    def main_text(self, ds: xr.Dataset) -> Verdict:
        """K11: the exponent as the main text prints it."""
        least = float(ds.printed.min())
        return Verdict.of(least < 1e-6, f"KKT residual at least {least:.2g}", "0", self._scale(ds))

    @claim("with increased depth the inductive bias emphasises preserving the initialization direction",
           KUN24["Sec. 4"], KUN24["App. B.2"])  # fmt: skip
    def depth_keeps(self, ds: xr.Dataset) -> Verdict:
        """K11: the angle to β₀ falls with every layer from a start shorter than the solutions; others are told."""
        falls = ds.angle.diff("depth") < 0
        short, long = falls.where(ds.scale < 1), falls.where(ds.scale >= 1)
        if not (ds.scale < 1).any():
            return Verdict.undecided("no start is shorter than the solutions", "‖β₀‖ < 1", self._scale(ds))
        share, other = float(short.mean()), float(long.mean())
        said = ", ".join(
            f"{float(ds.angle.isel(scale=0).sel(depth=d).median('problem')):.1f}° at {d}" for d in self.depths
        )
        extra = "" if np.isnan(other) else f"; from starts longer than the least-norm solution in {other:.0%}"
        return Verdict.of(
            share == 1,
            f"the angle falls in {share:.0%} of the steps{extra}; medians from the first size: {said} layers",
            "all, from starts shorter than the solutions",
            self._scale(ds),
        )

    known_failures = {
        "main_text": "The exponent printed in Section 4, −(l+2)/(l+1), is that of no solution; the appendix's "
        "−l/(l+1) is right."
    }

    def figure(self, ds: xr.Dataset) -> Figure:
        """Angle against depth for every size of the start."""
        marks = []
        for scale in ds.scale.values:
            row, label = ds.angle.sel(scale=scale), f"‖β₀‖ = {number(float(scale))}"
            colour = float(np.log10(scale))
            low, high = row.quantile(0.25, "problem"), row.quantile(0.75, "problem")
            marks.append(mark("band", ds.depth, low, high=high, role="exact", colour=colour, group=label))
            marks.append(
                mark("line", ds.depth, row.median("problem"), role="exact", colour=colour, label=label, group=label)
            )
        return Figure(
            (Panel(tuple(marks), x="number of weight layers, l + 1", y="angle between β(∞) and β₀ (°)",
                   title="End of balanced deep linear networks", colours=scale_of(marks, "log₁₀‖β₀‖")),),
            "Depth holds on to the direction of the start",
            f"Angle of the end to the start, {INPUTS} inputs, {EXAMPLES} examples, least-norm solution of length 1: "
            f"median and quartiles of {ds.sizes['problem']} random problems. After KUN24 Theorem B.9.",
        )  # fmt: skip

    def _scale(self, ds: xr.Dataset) -> str:
        return (
            f"{ds.sizes['problem']} random problems of {EXAMPLES} examples in {INPUTS} inputs, "
            f"{min(self.depths)} to {max(self.depths)} layers, ‖β₀‖ from {min(self.scales):g} to {max(self.scales):g}"
        )


def minimiser(rows: Floats, shortest: Floats, beta0: Floats, hidden: int) -> Floats:
    """The solution of Theorem B.9: its part in the null space is Nβ₀ (‖β‖/‖β₀‖)^(l/(l+1)).

    >>> minimiser(np.array([[1.0, 0.0]]), np.array([1.0, 0.0]), np.array([1.0, 1.0]), 1).round(6).tolist()
    [1.0, 1.0]
    """
    null = beta0 - rows.T @ (rows @ beta0)
    least, power = float(shortest @ shortest), hidden / (hidden + 1)
    weight = float(null @ null) / float(beta0 @ beta0) ** power
    low, high = least, least + 1.0
    over = lambda square: square - least - weight * square**power  # one root: power < 1
    while over(high) < 0:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if over(middle) < 0 else (low, middle)
    return np.asarray(shortest + null * (low / float(beta0 @ beta0)) ** (power / 2))


def _integrated(X: Floats, y: Floats, beta0: Floats, depth: int, rng: np.random.Generator) -> Floats:
    """β at the end of gradient flow of all layers from a balanced start of rank one in random hidden directions."""
    d, l = len(beta0), depth - 1
    size = np.linalg.norm(beta0) ** (1 / depth)
    unit = rng.standard_normal((l, d))
    unit /= np.linalg.norm(unit, axis=1)[:, None]
    before = np.concatenate([beta0[None] / np.linalg.norm(beta0), unit[:-1]])
    W = size * unit[:, :, None] * before[:, None, :]
    start = np.concatenate([W.ravel(), size * unit[-1]])
    gram, pull = X.T @ X, X.T @ y

    def flow(x: Floats) -> Floats:
        W, a = x[: l * d * d].reshape(l, d, d), x[l * d * d :]
        below, above = [np.eye(d)], [a]
        for i in range(l):
            below.append(W[i] @ below[-1])
            above.append(above[-1] @ W[l - 1 - i])
        force = pull - gram @ (a @ below[-1])
        dW = [np.outer(above[l - 1 - i], below[i] @ force) for i in range(l)]
        return np.concatenate([np.ravel(dW), below[-1] @ force])

    state, span = start, 20.0
    while np.abs(flow(state)).max() > GONE and span < LATE:
        state = integrate(flow, state, np.array([span]), method="LSODA", rtol=1e-10, atol=1e-13)[:, -1]
        span *= 2
    beta = state[l * d * d :]
    for matrix in state[: l * d * d].reshape(l, d, d)[::-1]:
        beta = beta @ matrix
    return np.asarray(beta)


def _residual(rows: Floats, beta: Floats, beta0: Floats, hidden: int, power: float) -> float:
    """Size of ∇Q in the null space, relative to its terms, with ‖β₀‖ to a power."""
    beyond = lambda v: v - rows.T @ (rows @ v)
    pull = beta * np.linalg.norm(beta) ** (-hidden / (hidden + 1))
    keep = beta0 * np.linalg.norm(beta0) ** power
    return float(np.linalg.norm(beyond(pull - keep)) / (np.linalg.norm(pull) + np.linalg.norm(keep)))


def _angle(x: Floats, y: Floats) -> float:
    along = float(x @ y) / float(y @ y) * y
    return float(np.degrees(np.arctan2(np.linalg.norm(x - along), x @ y / np.linalg.norm(y))))
