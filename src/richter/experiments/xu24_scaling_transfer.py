"""XU24 §3.4 and 4: the bound on the alignment, norms in the kernel phase, and what carries over to other widths."""

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
from richter.refs import XU24
from richter.theory import WideScalar
from richter.theory.finite_size import finite_size, fitted_exponents, gaussian_pair
from richter.theory.phases import SCALINGS, phase, table_1

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
WIDE = [s for s in SCALINGS if s.c_d]
SIGNS = ("+", "−")
LARGE = 1.0  # c, the exponent of a large initialisation


@dataclass(frozen=True, kw_only=True)
class ScalingTransfer(AbstractExperiment):
    """Wide networks of Table 1 in both phases over the width, and fixed ones over the size of their start; exact."""

    name = "xu24-scaling-transfer"
    title = "What carries over from width to width"
    statement = (
        "In the feature learning phase the alignment has a lower bound and training looks the same at any width; in "
        "the kernel phase the alignment vanishes while the norm diverges. A large start can be turned into either."
    )
    places = (XU24["Sec. 3.4"], XU24["Sec. 4"], XU24["Sec. 4.1"], XU24["Sec. 4.2"])
    presets = {
        "smoke": {"widths": (100.0, 1000.0, 10_000.0), "draws": 1000},
        "laptop": {},
        "paper": {"widths": (1e2, 1e3, 1e4, 1e5, 1e6), "draws": 50_000},
    }
    widths: tuple[float, ...] = setting((1e2, 1e3, 1e4, 1e5), "widths", symbol="d = κ", low=10, high=1e9)
    draws: int = setting(5000, "networks drawn at each width", low=50)
    moments: int = setting(60, "times at which training is compared", low=10)
    seed: int = setting(0, "seed of the draws", low=0)

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Ends and paths over the width; the two choices for a large start at a fixed width."""
        import xarray as xr

        rows = {str(row["scaling"]): row for row in table_1()}
        kappa, shape = np.array(self.widths), (len(WIDE), len(SIGNS), len(self.widths), self.draws)
        end, norm, least, bound, square = (np.empty(shape) for _ in range(5))
        path = np.empty((len(SIGNS), len(WIDE), kappa.size, self.moments))
        t = np.linspace(0.0, 4.0, self.moments)
        for i, column in enumerate(WIDE):
            for j, sign in enumerate("+-"):
                progress(f"{column.name}{SIGNS[j]}", (2 * i + j) / (2 * len(WIDE) + 1))
                rate, scale = (float(str(rows[column.name][f"{what}{sign}"])) for what in ("c_eta", "c_gamma"))
                for k, d in enumerate(kappa):
                    rng = np.random.default_rng([self.seed, i, int(d)])
                    u, w = gaussian_pair(rng, self.draws, round(d))
                    u, w = u * d ** (column.c_u / 2), w * d ** (column.c_w / 2)
                    gamma = d**scale
                    net = WideScalar(
                        u0=u, w0=w[..., None], x=[1.0], y=1.0, gamma=gamma, eta_u=d**rate, eta_w=d**rate
                    )  # fmt: skip
                    limit = net.limit(only=("u", "w", "alignment"))
                    end[i, j, k] = limit.alignment.values
                    square[i, j, k] = (limit.u**2).sum("neuron") + (limit.w**2).sum(("neuron", "input"))
                    norm[i, j, k], least[i, j, k] = square[i, j, k], 2 / gamma
                    # K of Sec. 4: √(η_uη_w)γρy = 2Kρ²γ²dP, where dP is the sum of the squares of p.
                    P = d**rate * ((u + w) ** 2).sum(axis=1) / 4
                    K = d**rate / (2 * gamma * P)
                    bound[i, j, k] = ((K + 1) ** 2 - 1) / ((K + 1) ** 2 + 1)
                    few = WideScalar(
                        u0=u[:200], w0=w[:200, :, None], x=[1.0], y=1.0, gamma=gamma, eta_u=d**rate, eta_w=d**rate
                    )  # fmt: skip
                    path[j, i, k] = np.median(few.solve(t, only=("alignment",)).alignment.values, axis=0)
        progress("large starts", 0.95)
        labels, fits = [], []
        for c_gamma, c_eta in ((-LARGE, LARGE), (0.0, -LARGE)):
            given = {"c_d": 0.0, "c_gamma": c_gamma, "c_u": LARGE, "c_w": LARGE, "c_eta_u": c_eta, "c_eta_w": c_eta}
            for zero in (False, True):
                labels.append(str(phase(**given, balanced_output=zero or None).label))
                made = finite_size(given, (1e2, 1e3, 1e4), self.draws, rng=self.seed, zero_output=zero)
                found = fitted_exponents(made, self.seed).exponent
                fits.append([float(found.sel(quantity=name)) for name in ("t_c", "growth_end")])
        dims = ("column", "variant", "width", "draw")
        return xr.Dataset(
            {
                "end": (dims, end, {"long_name": "ζ(∞)"}), "bound": (dims, bound, {"long_name": "lower bound of ζ(∞)"}),
                "norm": (dims, norm, {"long_name": "‖u‖² + ‖v‖² at the end"}),
                "excess": (dims, norm / least, {"long_name": "that over the least that fits, 2|y|/γρ"}),
                "path": (("variant", "column", "width", "t"), path, {"long_name": "median ζ(t)"}),
                "large_phase": (("choice", "start"), np.reshape(labels, (2, 2))),
                "large_fit": (("choice", "start", "quantity"), np.reshape(fits, (2, 2, 2))),
            },
            {"column": [s.name for s in WIDE], "variant": list(SIGNS), "width": kappa, "t": t,
             "choice": ["c_γ = −c, c_η = c", "c_γ = 0, c_η = −c"], "start": ["Gaussian", "zero output"],
             "quantity": ["t_c", "growth_end"]},
        )  # fmt: skip

    @claim("the alignment has the non-zero bound ζ(∞) ≥ ((K+1)² − 1)/((K+1)² + 1), in clear contrast to the kernel "
           "phase, where it remains asymptotically zero", XU24["Sec. 4"])  # fmt: skip
    def bounded(self, ds: xr.Dataset) -> Verdict:
        """X10: draws below the bound at the largest width, and the power of the alignment in the kernel phase."""
        plus, last = ds.sel(variant="+"), ds.sel(variant="+").isel(width=-1)
        short = float((last.bound - last.end).max())
        first = float((plus.bound - plus.end).isel(width=0).max())
        powers = [self._power(abs(ds.end).sel(variant="−", column=name)) for name in ds.column.values]
        least = float(plus.bound.median("draw").min())
        return Verdict.of(
            short < 5 / self.widths[-1] ** 0.5 and least > 0.1 and max(powers) < -0.4,
            f"bound {least:.2f} or more in the median; the draw farthest below its own misses it by "
            f"{max(first, 0.0):.2g} at d = {self.widths[0]:g} and {max(short, 0.0):.2g} at d = {self.widths[-1]:g}; "
            f"kernel phase: powers {', '.join(f'{p:.2f}' for p in powers)}",
            "none below, up to P/Q ≠ 1 (5/√d); power −½",
            self._scale(ds),
        )

    @claim("in the kernel phase, the model norm diverges and the model alignment is always zero", XU24["Sec. 3.4"])
    def norms(self, ds: xr.Dataset) -> Verdict:
        """X15: powers of the final norm in the width, in itself and over the least norm that fits."""
        kernel = ds.sel(variant="−")
        plain = {str(n): self._power(kernel.norm.sel(column=n)) for n in ds.column.values}
        excess = {str(n): self._power(kernel.excess.sel(column=n)) for n in ds.column.values}
        return Verdict.of(
            min(plain.values()) > 0.4,
            "powers of ‖u‖² + ‖v‖²: " + ", ".join(f"{name} {p:.2f}" for name, p in plain.items())
            + "; over the least that fits: " + ", ".join(f"{name} {p:.2f}" for name, p in excess.items()),
            "a positive power in every column",
            self._scale(ds),
        )  # fmt: skip

    @claim("any valid learning regimes transfer well when the model gets larger", XU24["Sec. 4.1"])
    def transfers(self, ds: xr.Dataset) -> Verdict:
        """X16: largest difference of the median ζ(t) from that at the largest width."""
        gap = abs(ds.path - ds.path.isel(width=-1)).max(("t", "column"))
        plus, minus = gap.sel(variant="+"), gap.sel(variant="−")
        first, last = float(plus[0]), float(plus[-2])
        return Verdict.of(
            last < 0.1 * first + 0.02 and float(minus[-2]) < 0.1,
            f"feature learning: {first:.3f} at d = {self.widths[0]:g}, {last:.4f} at d = {self.widths[-2]:g}; kernel: "
            f"{float(minus[0]):.3f} and {float(minus[-2]):.4f}",
            "vanishing with the width: a tenth of that at the smallest, and below 0.1 in the kernel phase",
            self._scale(ds),
        )

    @claim("c_η = c and c_γ = −c lead to a feature learning phase: γ cancels out the scaling of the initialization",
           XU24["Sec. 4.2"])  # fmt: skip
    def cancelled(self, ds: xr.Dataset) -> Verdict:
        """X16: label and measured exponents at a fixed width."""
        label, fit = str(ds.large_phase[0, 0].item()), ds.large_fit[0, 0].values
        return Verdict.of(
            label == "feature-learning" and bool((np.abs(fit) < 0.02).all()),
            f"{label}; measured exponents of t_c {fit[0]:.3f} and of |α₊ − 1| {fit[1]:.3f}",
            "feature-learning, 0 and 0 ± 0.02",
            self._large(),
        )

    @claim("if we choose γ = 1 as commonly done, we have to choose c_η = −c, leading to a kernel phase",
           XU24["Sec. 4.2"])  # fmt: skip
    def made_kernel(self, ds: xr.Dataset) -> Verdict:
        """X16: the same from a Gaussian start; and from one with zero output, as lazy training has it."""
        label, fit = str(ds.large_phase[1, 0].item()), ds.large_fit[1, 0].values
        zero, other = str(ds.large_phase[1, 1].item()), ds.large_fit[1, 1].values
        return Verdict.of(
            label == "kernel" and fit[1] < -0.4,
            f"{label} from a Gaussian start: t_c with power {fit[0]:.3f}, |α₊ − 1| with {fit[1]:.3f}; from one with "
            f"zero output: {zero}, {other[0]:.3f} and {other[1]:.3f}",
            "kernel: |α₊ − 1| with a negative power",
            self._large(),
        )

    known_failures = {
        "norms": "With Xavier's scaling (variances 1/d) the final norm stays of order 1. What diverges in every "
        "kernel phase is the norm over the least that fits, 2|y|/γρ, which is 1/ζ for equal layers.",
        "made_kernel": "At a fixed width with c_u = c_w the ratio P/Q of a Gaussian start does not tend to 1, as "
        "Theorem 2 asks: α₊ − 1 stays of order 1 and the kernel moves. It needs a start with zero output.",
    }

    def figure(self, ds: xr.Dataset) -> Figure:
        """Alignment with its bound, norms over the least, and training at each width."""
        panels, marks = [], []
        for name in ds.column.values:
            here = ds.sel(column=name, variant="+")
            words = "NTK, mean field" if name in ("NTK", "mean field") else str(name)
            marks.append(mark("line", ds.width, here.end.median("draw"), role="exact", colour=words, label=words,
                              group=words))  # fmt: skip
            marks.append(mark("line", ds.width, here.bound.median("draw"), role="target", label="bound of Section 4"))
        panels.append(Panel(tuple(marks), x="d: width", y="ζ(∞): median", x_log=True, title="(a) feature learning"))
        lines: list[Mark] = []
        for name in ds.column.values:
            here = ds.sel(column=name, variant="−")
            words = "NTK, mean field" if name in ("NTK", "mean field") else str(name)
            lines.append(mark("line", ds.width, here.norm.median("draw"), role="exact", colour=words, label=words,
                              group=words))  # fmt: skip
        panels.append(Panel(tuple(lines), x="d: width", y="‖u‖² + ‖v‖² at the end: median", x_log=True, y_log=True,
                            title="(b) kernel"))  # fmt: skip
        paths = []
        for sign, words in zip(SIGNS, ("feature learning", "kernel"), strict=True):
            for d in ds.width.values:
                row = ds.path.sel(variant=sign, width=d, column="NTK")
                label = f"d = {number(float(d))}"
                paths.append(mark("line", ds.t, row, role="exact", colour=float(np.log10(d)), label=label, group=label))
            paths.append(
                mark("text", [2.5], [float(row[-1]) - 0.09 if sign == "+" else 0.16], role="guide", label=words)
            )
        panels.append(Panel(tuple(paths), x="t: time", y="ζ(t): median", title="(c) NTK's start, both phases"))
        return Figure(
            tuple(panels),
            "What carries over from width to width",
            f"Exact ends and paths of Gaussian networks, {ds.sizes['draw']} draws. (a) The alignment under Corollary "
            "2, with the bound of XU24 Section 4 (the upper is Kaiming's). (b) The final norm under Corollary 3. "
            "(c) Training at each width.",
        )

    def _power(self, row: xr.DataArray) -> float:
        return float(np.polyfit(np.log(row.width), np.log(row.median("draw")), 1)[0])

    def _scale(self, ds: xr.Dataset) -> str:
        widths = ", ".join(f"{d:g}" for d in self.widths)
        return f"widths {widths}; {ds.sizes['draw']} draws each of 4 columns of Table 1 in both phases, exact"

    def _large(self) -> str:
        return f"64 neurons, variances ∝ κ^{LARGE:g}, κ from 1e2 to 1e4, {self.draws} draws"
