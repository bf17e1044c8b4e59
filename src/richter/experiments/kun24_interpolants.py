"""KUN24 Fig. 4, right, and Theorem 3.1: where the single neuron ends on low-rank data, by the imbalance."""

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
from richter.figure.data import Mark, mark, scale_of
from richter.maths.interpolation import kkt_residual
from richter.refs import KUN24
from richter.theory import IsotropicNetwork, SingleNeuron
from richter.theory.interpolants import interpolant

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
START = np.array([0.5, 0.05])  # β₀
X = np.array([[0.6, 0.8]])  # one example
Y = np.array([1.0])
FREE = np.array([0.8, -0.6])  # the null space of X
FAR, SMALL = 1e6, 1e-6  # the imbalance and the size of a start that stand for their limits
LATE = 2e4  # when the random problems have ended
NULLS = 6  # dimensions of the null spaces of the random problems


@dataclass(frozen=True, kw_only=True)
class Interpolants(AbstractExperiment):
    """Paths of β to the interpolating line, their ends over δ, and random problems of many null dimensions."""

    name = "kun24-interpolants"
    title = "Balance decides which interpolating solution is found"
    statement = (
        "On low-rank data the end of gradient flow is a tradeoff, decided by δ, between the solution of least norm and "
        "the direction of β₀."
    )
    places = (KUN24["Fig. 4"], KUN24["Theorem 3.1"], KUN24["App. A.4.4"])
    presets = {
        "smoke": {"moments": 60, "points": 8, "problems": 12},
        "laptop": {},
        "paper": {"moments": 600, "points": 60, "problems": 600},
    }
    deltas: tuple[float, ...] = setting(
        (-16.0, -4.0, -1.0, 0.0, 1.0, 4.0, 16.0), "imbalances of the drawn paths", symbol="δ", low=-300, high=300
    )
    moments: int = setting(200, "times on each path", low=30)
    points: int = setting(24, "imbalances on each side for the ends", low=6, high=500)
    problems: int = setting(120, "random low-rank problems", low=6, high=5000)
    seed: int = setting(0, "seed of the problems", low=0)

    def start(self, deltas: Floats, size: float = 1.0) -> SingleNeuron:
        """β₀ times `size` at each imbalance."""
        return SingleNeuron.from_imbalance(beta0=size * START, delta=deltas, beta_star=START, batch=("imbalance",))

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Paths, ends of full and of small starts, and the random problems."""
        import xarray as xr

        deltas, side = np.array(self.deltas), np.geomspace(0.1, 1e3, self.points)
        grid = np.concatenate([-side[::-1], [0.0], side])
        t = np.concatenate([[0.0], np.geomspace(1e-4, 60, self.moments - 1)])
        progress("paths", 0.0)
        drawn = self.start(deltas)
        end = lambda net: interpolant(X, Y, net.a0, net.w0)
        full, small = end(self.start(grid)), end(self.start(grid, SMALL))
        far = end(self.start(np.array([-FAR, FAR])))
        found = []
        for k in range(self.problems):
            progress(f"random problem {k + 1}", 0.1 + 0.9 * k / self.problems)
            found.append(self._problem(k))
        names = ("null", "gap", "kkt", "printed_kkt", "crossed")
        return xr.Dataset(
            {
                "path": (("imbalance", "t", "input"), _integrated(X, Y, drawn, t)),
                "drawn_end": (("imbalance", "input"), end(drawn).beta.values),
                "end": (("delta", "input"), full.beta.values), "end_kkt": ("delta", full.kkt_residual.values),
                "small_end": (("delta", "input"), small.beta.values), "far_end": (("side", "input"), far.beta.values),
                **{f"problem_{n}": ("problem", row) for n, row in zip(names, np.array(found).T, strict=True)},
            },
            {"imbalance": ("imbalance", deltas, {"symbol": "δ"}), "delta": grid, "side": [-FAR, FAR], "t": t},
        )  # fmt: skip

    def _problem(self, k: int) -> tuple[float, ...]:
        """Null dimensions; gap to integration; certificates with sgn(a₀a_∞) and as printed; whether a crossed 0."""
        rng = np.random.default_rng([self.seed, k])
        null, rank = k % NULLS + 1, int(rng.integers(1, 4))
        rows = np.linalg.qr(rng.standard_normal((rank + null, rank)))[0].T
        inputs = rng.uniform(0.7, 1.4, (rank, 1)) * rows
        y = inputs @ rng.standard_normal(rank + null)
        a0, w0 = 0.4 * rng.standard_normal(), rng.standard_normal(rank + null) * rng.choice([0.3, 1.5])
        made = interpolant(inputs, y, a0, w0)
        net = SingleNeuron(a0=a0, w0=w0, beta_star=np.linalg.pinv(inputs) @ y)
        gap = np.abs(_integrated(inputs, y, net, np.array([0.0, LATE]))[-1] - made.beta.values).max()
        beyond, one = np.eye(rank + null) - rows.T @ rows, np.array(1.0)
        printed = kkt_residual(beyond, made.beta.values, a0 * w0, np.asarray(a0**2 - w0 @ w0), one, one)
        return null, float(gap), float(made.kkt_residual), float(printed), float(made.sign) != np.sign(a0)

    @claim("if the null space is one-dimensional, we can solve for the solution in terms of δ exactly",
           KUN24["Fig. 4"], KUN24["Eq. 72"])  # fmt: skip
    def ends(self, ds: xr.Dataset) -> Verdict:
        """K8: closed form against integration; it holds for null spaces of any dimension."""
        gap = float(ds.problem_gap.max())
        one = float(ds.problem_gap.where(ds.problem_null == 1).max())
        return Verdict.of(
            gap < 1e-8,
            f"largest gap to integration {one:.1e} in one dimension, {gap:.1e} in up to {int(ds.problem_null.max())}",
            "the integrator's tolerance, 1e-8",
            self._scale(ds),
        )

    @claim("if X β(∞) = y, then β(∞) = argmin Ψ_δ(β) − ψ_δ β̂₀·β among all solutions", KUN24["Theorem 3.1"])
    def theorem(self, ds: xr.Dataset) -> Verdict:
        """K8: KKT residuals as printed where a keeps its sign, and with the sign of a₀a_∞ everywhere."""
        crossed = ds.problem_crossed.values > 0
        kept = float(ds.problem_printed_kkt.values[~crossed].max(initial=0.0))
        always = float(max(ds.problem_kkt.max(), ds.end_kkt.max()))
        printed = ds.problem_printed_kkt.values[crossed]
        extra = f"at least {printed.min():.2g} as printed" if crossed.any() else "not drawn"
        return Verdict.of(
            kept < 1e-10 and always < 1e-10,
            f"largest residual {kept:.1e} in the {int((~crossed).sum())} runs where a keeps its sign; where it changes "
            f"({int(crossed.sum())} runs) {extra}, {always:.1e} with ψ_δ sgn(a₀a_∞)",
            "0 to rounding (1e-10)",
            self._scale(ds),
        )

    @claim("for vanishing initializations there is functionally no difference between the inductive bias of the "
           "upstream and balanced settings", KUN24["Sec. 3"])  # fmt: skip
    def small(self, ds: xr.Dataset) -> Verdict:
        """K8: both end at the solution of least norm."""
        shortest = np.linalg.pinv(X)[:, 0] * Y
        off = np.abs(ds.small_end - shortest).max("input").where(ds.delta >= 0, drop=True)
        return Verdict.of(
            float(off.max()) < 10 * SMALL**0.5,
            f"at most {float(off.max()):.1e} from the minimum-norm solution, δ from 0 to {float(ds.delta.max()):g}",
            f"0 as ‖β₀‖ → 0: below {10 * SMALL**0.5:g}", f"‖β₀‖ of order {SMALL:g}",
        )  # fmt: skip

    @claim("downstream (δ ≪ 0) it is the second term, preserving the direction of the initialization, that dominates",
           KUN24["Sec. 3"])  # fmt: skip
    def direction(self, ds: xr.Dataset) -> Verdict:
        """K8: angle between the end and β₀ in the limit, from a full and a small start, and the opposite limit."""
        down, small = _angle(ds.far_end.sel(side=-FAR).values), _angle(ds.small_end.isel(delta=0).values)
        nearest = START + np.linalg.pinv(X)[:, 0] * (Y - X @ START)
        off = float(np.abs(ds.far_end.sel(side=FAR).values - nearest).max())
        return Verdict.of(
            down < 0.01 and small < 0.5 and off < 1e-3,
            f"at δ = −{FAR:g} the end is {down:.1e}° from β₀'s direction (a small start at δ = "
            f"{float(ds.delta[0]):g}: {small:.1e}°); at δ = {FAR:g} it is {off:.1e} from the solution nearest to β₀",
            "0 in both limits",
            "two inputs, one example",
        )

    def figure(self, ds: xr.Dataset) -> Figure:
        """Paths in the plane, and the end against δ."""
        marks: list[Mark] = []
        for delta in self.deltas:
            here, words = ds.sel(imbalance=delta), f"δ = {number(delta)}"
            x, y = here.path.values.T
            marks.append(mark("line", x, y, role="simulated", colour=delta, label=words, group=words))
            end = here.drawn_end.values
            marks.append(mark("points", end[:1], end[1:], role="target", label="exact end"))
        line = Y * X[0] + np.outer([-0.25, 1.15], FREE)
        marks.append(mark("line", line[:, 0], line[:, 1], role="guide", label="interpolating solutions"))
        marks.append(mark("text", START[:1] - 0.08, START[1:], role="guide", label="β₀"))
        panels = [
            Panel(tuple(marks), x="β₁", y="β₂", equal=True, title="(a) one example, two inputs",
                  colours=scale_of(marks, "δ"))
        ]  # fmt: skip
        squashed = np.arcsinh(ds.delta.values)
        lines = [
            mark("line", squashed, ds[name].values @ FREE, role="exact", label=words, colour=words, group=words)
            for name, words in (("end", "β₀ as drawn"), ("small_end", f"β₀ times {number(SMALL)}"))
        ]
        for side in (-FAR, FAR):
            limit = float(ds.far_end.sel(side=side).values @ FREE)
            lines.append(mark("hline", y=limit, role="guide", label="limits δ → ±∞ of β₀ as drawn"))
        panels.append(
            Panel(tuple(lines), x="sinh⁻¹ δ: imbalance", y="component of β(∞) in the null space of X",
                  title="(b) where it ends")
        )  # fmt: skip
        return Figure(
            tuple(panels),
            "Balance decides which interpolating solution is found",
            "(a) Integrated paths of β = a w from one β₀ at different imbalances; they end on the line of "
            "interpolating solutions, at the exact ends (dots). (b) The end against δ: from the direction of β₀ to its "
            "projection; from a small start to the shortest solution (0). After KUN24 Fig. 4, right.",
        )

    def _scale(self, ds: xr.Dataset) -> str:
        return f"{ds.sizes['problem']} random problems, null spaces of 1 to {int(ds.problem_null.max())} dimensions"


def _integrated(inputs: Floats, targets: Floats, net: SingleNeuron, t: Floats) -> Floats:
    """β (…, t, input) of the neuron's starts on any data, by integration of the layers."""
    shortest = np.linalg.pinv(inputs) @ targets
    wide = IsotropicNetwork(
        A0=np.asarray(net.a0)[..., None, None], W0=np.asarray(net.w0)[..., None, :], beta_star=shortest[:, None],
        input_gram=inputs.T @ inputs,
    )  # fmt: skip
    return np.asarray(wide.simulate(t, only=("beta",), method="LSODA", rtol=1e-12, atol=1e-14).beta.values[..., 0])


def _angle(beta: Floats) -> float:
    """Between β and β₀, in degrees."""
    across = START[0] * beta[1] - START[1] * beta[0]
    return float(np.degrees(np.arctan2(abs(across), beta @ START)))
