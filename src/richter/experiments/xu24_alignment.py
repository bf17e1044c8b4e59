"""XU24 Fig. 1, linear network: the alignment of the layers of 10 000 neurons, exact lines through descent's points."""

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
from richter.refs import XU24
from richter.theory import WideScalar
from richter.theory.discrete import descend

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
KINDS = {
    "kernel": "γ = 1/√d",
    "feature learning": "γ = 1/d",
    "orthogonal": "u = w",
    "near orthogonal": "u ∼ N(0, 10), w ∼ N(u, 0.1)",
}
UPPER, LOWER = ("kernel", "feature learning"), ("orthogonal", "near orthogonal")
TARGET = 2.0  # y at x = 1, as in the paper
POINTS = 16  # of descent that are drawn


@dataclass(frozen=True, kw_only=True)
class Alignment(AbstractExperiment):
    """ζ over time in four settings, by gradient descent and exactly; its end against the width; random members."""

    name = "xu24-alignment"
    title = "Alignment and disalignment of linear layers"
    statement = (
        "In the kernel scaling the layers stay orthogonal, in the feature learning scaling they align, an orthogonal "
        "start stays aligned, and a nearly orthogonal one with a large output disaligns; theory is exact at any width."
    )
    places = (XU24["Fig. 1"], XU24["Theorem 1"], XU24["Sec. 3.2"])
    presets = {
        "smoke": {"width": 1000, "steps": 200, "draws": 30, "members": 20, "widths": (100, 300, 1000)},
        "laptop": {},
        "paper": {"steps": 20_000, "draws": 1000, "members": 1000},
    }
    width: int = setting(10_000, "neurons", symbol="d", low=10, high=10_000_000)
    steps: int = setting(4000, "steps of gradient descent", low=50)
    widths: tuple[int, ...] = setting((100, 300, 1000, 3000, 10_000, 30_000), "widths for the ends", low=10)
    draws: int = setting(100, "networks drawn at each width", low=10)
    members: int = setting(120, "random networks, inputs and rates for the check of exactness", low=5)
    seed: int = setting(0, "seed of the draws", low=0)

    def network(self, kind: str, rng: np.random.Generator, width: int, draws: int = 1) -> WideScalar:
        """Starts of a kind, x = 1, y = 2; rates with which learning takes a time of order 1."""
        if kind in UPPER:
            u, w = rng.standard_normal((2, draws, width))
            gamma, rate = (width**-0.5, 1.0) if kind == "kernel" else (1 / width, float(width))
        else:  # γ = 1/d: the output at the start is about 10, that asked for is 2
            u = np.sqrt(10) * rng.standard_normal((draws, width))
            noise = 0.0 if kind == "orthogonal" else np.sqrt(0.1)
            w, gamma, rate = u + noise * rng.standard_normal((draws, width)), 1 / width, float(width)
        return WideScalar(u0=u, w0=w[..., None], x=[1.0], y=TARGET, gamma=gamma, eta_u=rate, eta_w=rate)

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Four runs of descent beside the exact solution, ends against width, and gaps of random members."""
        import xarray as xr

        looks = np.unique(np.geomspace(1, self.steps, 60).astype(int))
        looks = np.concatenate([[0], looks])
        lines, points = [], []
        for k, kind in enumerate(KINDS):
            progress(f"descent: {kind}", 0.4 * k / len(KINDS))
            net = self.network(kind, np.random.default_rng([self.seed, k]), self.width)
            span = 3.0 if kind in UPPER else 0.5
            step = span / self.steps
            got = descend(net, step, looks.tolist())
            exact = net.solve(looks * step, only=("alignment", "loss"))
            points.append(got[["alignment", "loss"]].isel(start=0, drop=True).drop_vars(("t", "step")))
            lines.append(exact.isel(start=0, drop=True).drop_vars("t").assign(time=("t", looks * step)))
        join = lambda parts: xr.concat(parts, "kind", combine_attrs="drop").assign_coords(kind=list(KINDS))
        ds = join(lines)
        found = join(points)
        ds["descent_alignment"], ds["descent_loss"] = found.alignment, found.loss
        ends = np.empty((2, len(self.widths), self.draws))
        for j, width in enumerate(self.widths):
            for i, kind in enumerate(UPPER):
                progress(f"ends: width {width}", 0.4 + 0.3 * j / len(self.widths))
                rng = np.random.default_rng([self.seed, 100 + i, width])
                ends[i, j] = [
                    float(self.network(kind, rng, width).limit(only=("alignment",)).alignment[0])
                    for _ in range(self.draws)
                ]
        ds["end"] = (("scaling", "width", "draw"), ends)
        gaps = []
        for k in range(self.members):
            progress(f"random member {k + 1}", 0.7 + 0.3 * k / self.members)
            gaps.append(self._member(np.random.default_rng([self.seed, 7, k])))
        ds["member_gap"], ds["member_width"] = (("member", row) for row in np.array(gaps).T)
        return ds.assign_coords(scaling=list(UPPER), width=list(self.widths))

    def _member(self, rng: np.random.Generator) -> tuple[float, float]:
        """Relative gap between exact and integrated u and w of a random network; its width."""
        width, inputs = int(10 ** rng.uniform(0, 2.5)), int(rng.integers(1, 4))
        scale, rates = 10 ** rng.uniform(-1, 0.5, 2), 10 ** rng.uniform(-0.7, 0.7, 2)
        net = WideScalar(
            u0=scale[0] * rng.standard_normal(width), w0=scale[1] * rng.standard_normal((width, inputs)),
            x=rng.standard_normal(inputs), y=rng.normal(), gamma=width**-0.5, eta_u=rates[0], eta_w=rates[1],
        )  # fmt: skip
        t = np.array([0.1, 1.0])
        exact, simulated = (made(t, only=("u", "w")) for made in (net.solve, net.simulate))
        size = max(float(abs(exact.u).max()), float(abs(exact.w).max()))
        gap = max(float(abs(exact.u - simulated.u).max()), float(abs(exact.w - simulated.w).max()))
        return gap / size, width

    @claim("the following theorem gives a precise characterization of the dynamics for arbitrary initialization and "
           "hyperparameter choices", XU24["Theorem 1"])  # fmt: skip
    def exact(self, ds: xr.Dataset) -> Verdict:
        """X1: random widths, inputs, starts and layer rates against integration."""
        gap = float(ds.member_gap.max())
        return Verdict.of(
            gap < 1e-8, f"largest relative gap of u and w {gap:.1e}", "the integrator's tolerance, 1e-8",
            f"{ds.sizes['member']} networks of 1 to {int(ds.member_width.max())} neurons, 1–3 inputs, rates 0.2 to 5",
        )  # fmt: skip

    @claim("we show the theoretical predictions as lines and experimental results as points", XU24["Fig. 1"])
    def lines_through_points(self, ds: xr.Dataset) -> Verdict:
        """X1: gradient descent of the wide network against the exact ζ."""
        gap = float(abs(ds.descent_alignment - ds.alignment).max())
        allowed = 20 / self.steps
        return Verdict.of(
            gap < allowed,
            f"ζ of descent is within {gap:.1e} of the line",
            f"{allowed:g}: of first order in the step",
            f"d = {self.width}, {self.steps} steps in each of {len(KINDS)} settings",
        )

    @claim("ζ(t) monotonically increases, but the increase is negligible in the kernel phase", XU24["Sec. 3.2"])
    def kernel(self, ds: xr.Dataset) -> Verdict:
        """X4: the end at the largest width and its power in the width."""
        here = abs(ds.end.sel(scaling="kernel")).median("draw")
        power = float(np.polyfit(np.log(ds.width), np.log(here), 1)[0])
        last = float(here[-1])
        return Verdict.of(abs(power + 0.5) < 0.1 and last < 3 * TARGET / self.widths[-1] ** 0.5,
                          f"median ζ(∞) {last:.4f} at d = {self.widths[-1]}, power {power:.3f} of d",
                          "vanishing, with power −½ ± 0.1", self._ends(ds))  # fmt: skip

    @claim("in the feature learning phase the model learns features by alignment", XU24["Sec. 3.2"])
    def feature(self, ds: xr.Dataset) -> Verdict:
        """X4: ζ(∞) against width, with the limit (α₊² − 1)/(α₊² + 1), α₊ = s + √(s² + 1), s = b/2cP."""
        here = ds.end.sel(scaling="feature learning")
        s = TARGET / (2 * 0.5)  # P → ½ for unit variances, in units of the rates
        growth = s + np.hypot(s, 1)
        limit = (growth**2 - 1) / (growth**2 + 1)
        middle = here.median("draw")
        error = float(here.isel(width=-1).std("draw") / np.sqrt(self.draws))
        off = abs(float(here.isel(width=-1).mean("draw")) - limit)
        least = float(here.min())
        return Verdict.of(
            off < 5 * error + 2e-3 and least > 0.5,
            f"median ζ(∞) from {float(middle[0]):.3f} at d = {self.widths[0]} to {float(middle[-1]):.4f} at "
            f"d = {self.widths[-1]}, limit {limit:.4f}; least of all {least:.2f}",
            "of order 1 at every width, the limit of infinite width",
            self._ends(ds),
            f"standard error of the mean {error:.1e}",
        )

    @claim("in the orthogonal initialization ζ is initialized to be 1, so it remains 1 as predicted", XU24["Sec. 3.2"])
    def orthogonal(self, ds: xr.Dataset) -> Verdict:
        """X5: ζ of descent and of theory, while the loss is learned by rescaling."""
        here = ds.sel(kind="orthogonal")
        off = float(max(abs(here.alignment - 1).max(), abs(here.descent_alignment - 1).max()))
        left = float(here.loss[-1] / here.loss[0])
        return Verdict.of(off < 1e-12 and left < 1e-3, f"|ζ − 1| at most {off:.1e} while the loss falls to {left:.1e}",
                          "0 to rounding, with the loss learned", f"d = {self.width}")  # fmt: skip

    @claim("in the near orthogonal case we set ζ(0) ≈ 1 and the initial model output to be large: as predicted, ζ(t) "
           "monotonically decreases", XU24["Sec. 3.2"])  # fmt: skip
    def disalignment(self, ds: xr.Dataset) -> Verdict:
        """X5: the fall of ζ and its steps."""
        here = ds.sel(kind="near orthogonal")
        falls = bool((np.diff(here.alignment) < 1e-12).all() and (np.diff(here.descent_alignment) < 1e-12).all())
        first, last = float(here.alignment[0]), float(here.alignment[-1])
        return Verdict.of(
            falls and first - last > 1e-3,
            f"ζ goes from {first:.4f} to {last:.4f}, falling in every step: {falls}",
            "a fall in every step",
            f"d = {self.width}",
        )

    def figure(self, ds: xr.Dataset) -> Figure:
        """Upper and lower panel of ζ, the losses, and ends against width."""
        every = max(1, ds.sizes["t"] // POINTS)
        panels = []
        for letter, kinds, words in zip("ab", (UPPER, LOWER), ("alignment", "disalignment"), strict=True):
            marks: list[Mark] = []
            for kind in kinds:
                here, label = ds.sel(kind=kind), f"{kind}: {KINDS[kind]}"
                marks.append(
                    mark("line", here.time, here.alignment, role="exact", colour=label, label=label, group=kind)
                )
                seen = here.isel(t=slice(None, None, every))
                marks.append(
                    mark("points", seen.time, seen.descent_alignment, role="measured", colour=label, group=kind)
                )
            panels.append(Panel(tuple(marks), x="t: time", y="ζ: alignment of u and w", title=f"({letter}) {words}"))
        marks = []
        for kind in UPPER:
            row = abs(ds.end.sel(scaling=kind))
            label = f"{kind}: {KINDS[kind]}"
            low, high = row.quantile(0.05, "draw"), row.quantile(0.95, "draw")
            marks.append(mark("band", ds.width, low, high=high, role="exact", colour=label, group=kind))
            marks.append(
                mark("line", ds.width, row.median("draw"), role="exact", colour=label, label=label, group=kind)
            )
        panels.append(Panel(tuple(marks), x="d: width", y="|ζ(∞)|", x_log=True, y_log=True, title="(c) ends"))
        return Figure(
            tuple(panels),
            "Alignment and disalignment of linear layers",
            f"Two linear layers of {self.width} neurons on x = 1, y = 2: exact (dashed) and gradient descent (points). "
            "(a) Gaussian starts. (b) Aligned starts whose output is too large. (c) Median and 90 % range of the exact "
            f"end over {ds.sizes['draw']} draws. After the linear panels of XU24 Fig. 1.",
        )

    def _ends(self, ds: xr.Dataset) -> str:
        return f"widths {', '.join(str(d) for d in self.widths)}, {ds.sizes['draw']} draws each, exact ends"
