"""NAM24 Fig. 4.3: the best split of compute between time and parameters."""

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
from richter.maths.compute_optimal import best_exponent
from richter.maths.multilinear import multilinear_loss
from richter.maths.power_fit import fit_power
from richter.maths.scaling_laws import scaling_exponents
from richter.refs import NAM24
from richter.theory.scaling import learning_curves, scaling

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, kw_only=True)
class Compute(AbstractExperiment):
    """Learning curves of models of many sizes against compute, the frontier below them, and its law."""

    name = "nam24-compute"
    title = "The optimal use of compute"
    statement = (
        "At fixed compute C = T·N the loss is lowest with T ∝ C^((α+1)/(α+2)) and N ∝ C^(1/(α+2)), and falls as "
        "C^(−α/(α+2)): the model then has time to learn most of its skills."
    )
    places = (NAM24["Fig. 4.3"], NAM24["Table 4.1"], NAM24["Sec. 4.3.4"])
    presets = {
        "smoke": {"alphas": (0.6,), "points": 9, "curve_points": 60, "searched": 1e5},
        "laptop": {},
        "paper": {"points": 49, "searched": 1e8},
    }  # fmt: skip
    known_failures = {
        "added": "the printed sum T^−s + N^−α counts the skills k > N twice: its minimum lies at another N, with a "
        "loss far too "
        "large; the exponents are right.",
    }
    alphas: tuple[float, ...] = setting(
        (0.3, 0.6, 0.9), "exponents of the frequencies, less one", symbol="α", low=0.1, high=2
    )
    target: float = setting(5.0, "target scale", symbol="S", low=0.01)
    initial: float = setting(1e-2, "skill strength at the start", symbol="R(0)", low=1e-12)
    eta: float = setting(0.05, "learning rate", symbol="η", low=1e-6)
    sizes: tuple[int, ...] = setting(
        (10, 30, 100, 300, 1000, 3000, 10000), "models whose curves are drawn", symbol="N", low=1
    )
    points: int = setting(25, "values of compute, 1e4 to 1e13", low=6)
    curve_points: int = setting(150, "points of each learning curve", low=20)
    searched: float = setting(1e7, "largest compute at which every N is tried", low=1e3, high=1e9)

    def _shared(self) -> dict[str, float]:
        return {"target": self.target, "initial": self.initial, "eta": self.eta}

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Frontier by whole-number search and by the law, every N tried at a few computes, and learning curves."""
        import xarray as xr

        C = np.geomspace(1e4, 1e13, self.points)
        fine = np.geomspace(1e3, 1e13, self.curve_points)
        tried = np.geomspace(1e4, self.searched, 3)
        fronts, curves, brute = [], [], []
        for i, alpha in enumerate(self.alphas):
            progress(f"α = {alpha:g}", i / len(self.alphas))
            fronts.append(scaling("compute", C, alpha=alpha, **self._shared()).isel(alpha=0))
            curves.append(
                learning_curves(fine, list(self.sizes), alpha=alpha, **self._shared()).loss.rename(compute="curve")
            )
            there = scaling("compute", tried, alpha=alpha, **self._shared()).isel(alpha=0)
            for j, c in enumerate(tried):
                middle = float(there.best_parameters[j])
                sizes = np.arange(1, int(3 * middle) + 10)
                losses = [float(multilinear_loss(c / n, alpha, n_basis=int(n), **self._shared())) for n in sizes]
                brute.append((sizes[np.argmin(losses)], float(there.whole_parameters[j]), middle))
        made = xr.concat(fronts, "alpha")[["loss", "law", "valid", "best_time", "best_parameters", "whole_parameters",
            "added",
                                           "added_parameters"]]  # fmt: skip
        made["curves"] = xr.concat(curves, "alpha")
        kinds = ("tried", "searched", "law")
        made["brute"] = (
            ("alpha", "kind", "tried"),
            np.reshape(brute, (len(self.alphas), tried.size, 3)).swapaxes(1, 2),
        )
        made = made.assign_coords(alpha=("alpha", list(self.alphas), {"symbol": "α"}), kind=list(kinds), tried=tried)
        made.attrs = {}
        return made

    @claim("L ∝ C^(−α/(α+2)), T ∝ C^((α+1)/(α+2)), N ∝ C^(1/(α+2))", NAM24["Table 4.1"], NAM24["Eq. 4.44"])
    def exponents(self, ds: xr.Dataset) -> Verdict:
        """N13: fitted to the exact optimum over whole N, from 1e7 on."""
        late = ds.where(ds["compute"] >= 1e7, drop=True)
        C = late["compute"].values
        told = scaling_exponents(np.array(self.alphas))
        said, worst, widest = [], 0.0, 0.0
        for name, rows in (
            ("compute", late.loss),
            ("best_time", C / late.whole_parameters),
            ("best_parameters", late.whole_parameters),
        ):
            fits = [fit_power(C, row) for row in rows.transpose("alpha", "compute").values]
            got = np.array([fit.exponent for fit in fits])
            worst = max(worst, float(np.abs(got - told[name]).max()))
            widest = max(widest, max(fit.exponent_interval[1] - fit.exponent_interval[0] for fit in fits) / 2)
            said.append(
                f"{name.replace('_', ' ')} {np.round(got, 4).tolist()} (law {np.round(told[name], 4).tolist()})"
            )
        return Verdict.of(
            worst < 5e-3, "; ".join(said), "within 5e-3", self._scale(ds), f"widest 95 % interval ±{widest:.0e}"
        )

    @claim("the optimal tradeoff between T and N", NAM24["Eq. 4.43"], NAM24["Fig. 4.3"])
    def optimum(self, ds: xr.Dataset) -> Verdict:
        """N13: the N found by search equals the best of all N tried; the law's N is its limit."""
        tried, searched, law = (ds.brute.sel(kind=kind).values for kind in ("tried", "searched", "law"))
        equal = int((tried == searched).sum())
        gap = float(np.abs(law - tried).max())
        late = ds.where(ds["compute"] >= 1e9, drop=True)
        off = float(abs(late.law / late.loss - 1).max())
        return Verdict.of(
            equal == tried.size and gap < 2 and off < 1e-3,
            f"{equal} of {tried.size} optima equal the best of all N; the law's N* is off by at most {gap:.1f} (of "
            f"{tried.max():.0f}); "
            f"L* within {off:.0e} from C = 1e9 on", "all equal; less than 2; below 1e-3",
            f"every N up to 3 N* tried at C = {', '.join(f'{c:.0e}' for c in ds.tried.values)}, α = "
            f"{list(self.alphas)}",
        )  # fmt: skip

    @claim(
        "optimal compute means the model has sufficient time to learn most of the given basis functions",
        NAM24["Sec. 4.3.4"],
    )
    def learned(self, ds: xr.Dataset) -> Verdict:
        """The share of the model's skills that are half learned at the optimum, and how far the rarest one is."""
        r = self.target / self.initial - 1
        alpha = np.array(self.alphas)
        u = best_exponent(alpha, r)
        share = (u / np.log(r)) ** (1 / (alpha + 1))  # u falls as k^-(α+1)
        rarest = 1 / (1 + r * np.exp(-u))
        return Verdict.of(
            bool((np.minimum(share, 1) > 0.7).all()),
            f"{', '.join(f'{min(x, 1):.0%}' for x in share)} of the skills are learned; the rarest at "
            f"{', '.join(f'{x:.0%}' for x in rarest)} of its target", "more than 70 %", f"α = {list(self.alphas)}, "
                "exact, large C",
        )  # fmt: skip

    @claim("L = T^(−α/(α+1)) + N^(−α), minimised at fixed T·N", NAM24["Eq. 4.39"])
    def added(self, ds: xr.Dataset) -> Verdict:
        """The printed sum with exact prefactors, against the exact optimum."""
        late = ds.isel(compute=-1)
        loss, size = (late.added / late.loss).values, (late.added_parameters / late.whole_parameters).values
        return Verdict.of(
            bool((np.abs(loss - 1) < 0.05).all()),
            f"the sum's minimum is {', '.join(f'{x:.2f}' for x in loss)} times the exact loss, at "
            f"{', '.join(f'{x:.2f}' for x in size)} "
            "times the best N", "within 5 % of the exact loss", f"C = {float(late['compute']):.0e}, α = "
                f"{list(self.alphas)}",
        )  # fmt: skip

    def figure(self, ds: xr.Dataset) -> Figure:
        """Learning curves of all sizes with the law, a panel for each α."""
        panels = []
        for letter, alpha in zip("abcdef", self.alphas, strict=False):
            here = ds.sel(alpha=alpha)
            marks: list[Mark] = [
                mark("line", ds.curve, row, role="simulated", colour=float(n), label=f"N = {n:g}", group=f"N = {n:g}")
                for n, row in zip(here.n_basis.values, here.curves.transpose("n_basis", "curve").values, strict=True)
            ]
            marks.append(mark("line", ds["compute"], here.law, role="exact", label="optimal compute"))
            panels.append(Panel(tuple(marks), x="C = T·N: compute", y="L: loss", x_log=True, y_log=True,
                                title=f"({letter}) α = {number(alpha)}"))  # fmt: skip
        return Figure(
            tuple(panels), self.title,
            "Exact learning curves of models with N basis functions and endlessly many skills (S = "
            f"{number(self.target)}, R(0) = {number(self.initial)}, η = {number(self.eta)}), and the law of the best "
            "split with its "
            "prefactor, exponent −α/(α+2). After NAM24 Fig. 4.3.",
        )  # fmt: skip

    def _scale(self, ds: xr.Dataset) -> str:
        return f"endlessly many skills, exact sums, C from 1e4 to 1e13, α = {list(self.alphas)}"
