"""NAM24 Fig. 4.2 and Table 4.1: the loss of many skills is a power law of time, data and parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.figure import Figure, Panel
from richter.figure.build import number
from richter.figure.data import Mark, mark
from richter.maths.multilinear import multilinear_skill_loss
from richter.maths.power_fit import fit_power
from richter.maths.scaling_laws import scaling_exponents, time_law
from richter.maths.skill_sums import power_sum
from richter.maths.skills import skill_frequencies, zipf_constant
from richter.refs import NAM24
from richter.theory.scaling import scaling

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
LAWS = ("time", "data", "parameters")
SPANS = {"time": (3e2, 1e8), "data": (1e1, 1e7), "parameters": (1e0, 1e5)}
BLOCK = 1 << 20  # skills summed at once
WORDS = {"time": "T: training time", "data": "D: examples", "parameters": "N: basis functions"}


@dataclass(frozen=True, kw_only=True)
class ScalingLaws(AbstractExperiment):
    """Exact losses of endlessly many skills beside the laws with their prefactors, plain sums and drawn data sets."""

    name = "nam24-scaling-laws"
    title = "Scaling laws of the multilinear model"
    statement = (
        "The loss of the multilinear model falls as T^(−α/(α+1)) with time, D^(−α/(α+1)) with data and N^(−α) with "
        "parameters, when the other resources are endless; the prefactors are known exactly."
    )
    places = (NAM24["Fig. 4.2"], NAM24["Table 4.1"], NAM24["Sec. 4.3"])
    presets = {
        "smoke": {"points": 13, "summed": 10**6, "draws": 40},
        "laptop": {},
        "paper": {"alphas": (0.3, 0.5, 0.6, 0.7, 0.8, 0.9), "points": 49, "summed": 10**8, "draws": 2000},
    }  # fmt: skip
    alphas: tuple[float, ...] = setting(
        (0.3, 0.6, 0.9), "exponents of the frequencies, less one", symbol="α", low=0.05, high=3
    )
    target: float = setting(5.0, "target scale", symbol="S", low=0.01)
    initial: float = setting(1e-2, "skill strength at the start", symbol="R(0)", low=1e-12)
    eta: float = setting(0.05, "learning rate", symbol="η", low=1e-6)
    points: int = setting(25, "values of each resource", low=8)
    summed: int = setting(10**7, "skills summed one by one, as a check", low=1000)
    drawn: int = setting(20_000, "skills of the model trained on drawn data sets", symbol="n_s", low=100)
    draws: int = setting(200, "data sets drawn at each size", low=10)
    seed: int = setting(0, "seed of the data sets", low=0)

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """The three laws, sums over skills with a Hurwitz tail, and mean losses over drawn data sets."""
        import xarray as xr

        shared = {"target": self.target, "initial": self.initial, "eta": self.eta}
        made = xr.Dataset()
        for i, over in enumerate(LAWS):
            progress(f"law of {over}", i / 10)
            ds = scaling(over, np.geomspace(*SPANS[over], self.points), alpha=list(self.alphas), **shared)
            for name in ("loss", "law", "valid", "exponent"):
                made[f"{over}_{name}"] = ds[name]
        times = np.array([1e5, 1e6])
        sums = [self._sum(float(alpha), times, partial(self._tell, progress, i))
                for i, alpha in enumerate(self.alphas)]  # fmt: skip
        made["sum_time"] = times
        made["plain_sum"] = (
            ("alpha", "sum_time"),
            [row[0] for row in sums],
            {"long_name": f"sum over {self.summed:g} skills"},
        )
        made["whole_sum"] = (
            ("alpha", "sum_time"),
            [row[1] for row in sums],
            {"long_name": "the same and the Hurwitz tail"},
        )
        law = [time_law(times, alpha, **shared) for alpha in self.alphas]
        made["sum_law"] = (("alpha", "sum_time"), law, {"long_name": "time law"})
        progress("drawn data sets", 0.7)
        sizes = np.unique(np.geomspace(10, 10_000, 7).round())
        drawn = np.array([[self._drawn(float(a), int(D)) for D in sizes] for a in self.alphas])
        exact = [scaling("data", sizes, alpha=a, n_skills=self.drawn, **shared).loss.values[0] for a in self.alphas]
        made["drawn_size"] = sizes
        for k, name in enumerate(("drawn_loss", "drawn_error")):
            made[name] = (("alpha", "drawn_size"), drawn[..., k])
        made["drawn_exact"] = (("alpha", "drawn_size"), np.array(exact))
        made.attrs = {}
        return made

    def _tell(self, progress: Progress, row: int, share: float) -> None:
        progress("plain sums", 0.3 + 0.4 * (row + share) / len(self.alphas))

    def _sum(self, alpha: float, times: Floats, progress: Callable[[float], None]) -> tuple[Floats, Floats]:
        """The loss by a plain sum, in blocks, without and with the untouched skills beyond."""
        A, plain = zipf_constant(alpha), np.zeros(times.size)
        for at in range(0, self.summed, BLOCK):
            progress(at / self.summed)
            P = A * np.arange(at + 1.0, min(at + BLOCK, self.summed) + 1) ** -(alpha + 1)
            plain += [(P * multilinear_skill_loss(t, P, self.target, self.initial, self.eta)).sum() for t in times]
        tail = A * power_sum(alpha + 1, self.summed + 1) * (self.target - self.initial) ** 2 / 2
        return plain, plain + tail

    def _drawn(self, alpha: float, samples: int) -> tuple[float, float]:
        """Mean loss and its standard error over data sets, after endless training on each."""
        P = skill_frequencies(alpha, self.drawn)
        rng = np.random.default_rng([self.seed, samples])
        left = (self.target - self.initial) ** 2 / 2
        rows = np.array([(P[rng.multinomial(samples, P / P.sum()) == 0]).sum() * left for _ in range(self.draws)])
        return float(rows.mean()), float(rows.std(ddof=1) / np.sqrt(rows.size))

    @claim(
        "time, data and parameter scaling laws: exponents −α/(α+1), −α/(α+1), −α", NAM24["Table 4.1"], NAM24["Fig. 4.2"]
    )
    def exponents(self, ds: xr.Dataset) -> Verdict:
        """N13: exponents fitted to the exact losses where the law is valid, with intervals."""
        said, holds = [], True
        for over in LAWS:
            told = scaling_exponents(np.array(self.alphas))[over]
            fits, widest = [], 0.0
            for i in range(len(self.alphas)):
                # The last two decades: a pure power is the limit of every law.
                x, y = ds[over].values, ds[f"{over}_loss"].values[i]
                good = (x >= x[-1] / 100) & (y > 0) & ds[f"{over}_valid"].values[i]
                if good.sum() < 3:
                    return Verdict.undecided(
                        f"the law of {over} is not valid in the last two decades", "three points", self._scale(ds)
                    )
                fit = fit_power(x[good], y[good])
                fits.append(fit.exponent)
                widest = max(widest, fit.exponent_interval[1] - fit.exponent_interval[0])
            off = float(np.abs(np.array(fits) - told).max())
            holds &= off < 2e-3
            said.append(
                f"{over} {np.round(fits, 4).tolist()} (law {np.round(told, 4).tolist()}, 95 % ±{widest / 2:.0e})"
            )
        return Verdict.of(
            holds, f"α = {list(self.alphas)}: " + "; ".join(said), "within 2e-3 of the law's", self._scale(ds)
        )

    @claim("we can also calculate the prefactor constants of all scaling laws", NAM24["Sec. 4.4"])
    def prefactors(self, ds: xr.Dataset) -> Verdict:
        """N13: law over exact loss where the law is valid; where it is not is said."""
        said, holds = [], True
        for over in LAWS:
            valid = ds[f"{over}_valid"].values
            off = float(np.abs(ds[f"{over}_law"].values / ds[f"{over}_loss"].values - 1)[valid].max(initial=0.0))
            first = [float(ds[over].values[np.argmax(row)]) for row in valid]
            holds &= off <= 1e-4 and bool(valid[:, -1].all())
            said.append(f"{over}: valid from {', '.join(number(x, 2) for x in first)} on, there within {off:.0e}")
        early = not ds.time_valid.values[:, 0].any()
        return Verdict.of(
            holds and early, "; ".join(said) + ("; not before" if early else "; always"),
            "within 1e-4 where valid, at the end for every α, and not at the earliest times", self._scale(ds),
        )  # fmt: skip

    @claim("the law is the sum over all skills", NAM24["Eq. 4.17"], NAM24["Eq. 4.21"])
    def sums(self, ds: xr.Dataset) -> Verdict:
        """N13: a plain sum, with the Hurwitz tail of the skills beyond, against the time law's prefactor."""
        off = float(abs(ds.sum_law / ds.whole_sum - 1).max())
        short = (1 - ds.plain_sum / ds.sum_law).max("sum_time").values
        return Verdict.of(
            off < 1e-4, f"largest difference {off:.1e}; without the tail the sums are low by "
                        f"{', '.join(f'{x:.2%}' for x in short)}",
            "below 1e-4", f"{self.summed:g} skills one by one, α = {list(self.alphas)}, T = 1e5 and 1e6",
        )  # fmt: skip

    @claim("the data law is the mean loss over data sets", NAM24["Sec. 4.3.2"], NAM24["Eq. 4.28"])
    def sampling(self, ds: xr.Dataset) -> Verdict:
        """N13: drawn data sets against the expectation, in standard errors."""
        off = (ds.drawn_loss - ds.drawn_exact) / ds.drawn_error
        inside = float((abs(off) <= 3).mean())
        return Verdict.of(
            inside >= 0.95 and float(abs(off).max()) < 4.5,
            f"{inside:.0%} of {off.size} means lie within 3 standard errors, the furthest {float(abs(off).max()):.1f} "
            "off",
            "at least 95 % (chance: 99.7 %), none beyond 4.5",
            f"{self.draws} data sets at each of {ds.sizes['drawn_size']} sizes, {self.drawn} skills, α = "
            f"{list(self.alphas)}",
        )  # fmt: skip

    def figure(self, ds: xr.Dataset) -> Figure:
        """Exact loss and law for time, data and parameters."""
        panels = []
        for letter, over in zip("abc", LAWS, strict=True):
            marks: list[Mark] = []
            x = ds[over].values
            for i, alpha in enumerate(self.alphas):
                words = f"α = {number(alpha)}"
                y, law = ds[f"{over}_loss"].values[i], ds[f"{over}_law"].values[i]
                marks.append(mark("line", x, y, role="simulated", colour=words, label=words, group=words))
                shown = law < 3 * y.max()
                marks.append(
                    mark("line", x[shown], law[shown], role="exact", label="scaling law", group=f"law {words}")
                )
            panels.append(Panel(tuple(marks), x=WORDS[over], y="L: loss", x_log=True, y_log=True, title=f"({letter})"))
        return Figure(
            tuple(panels), self.title,
            f"Exact loss of endlessly many skills (S = {number(self.target)}, R(0) = {number(self.initial)}, η = "
            f"{number(self.eta)}) "
            "and the laws with their prefactors: exponents −α/(α+1), −α/(α+1) and −α. After NAM24 Fig. 4.2.",
        )  # fmt: skip

    def _scale(self, ds: xr.Dataset) -> str:
        spans = ", ".join(f"{over} {SPANS[over][0]:g} to {SPANS[over][1]:g}" for over in LAWS)
        return f"endlessly many skills, exact sums; {spans}; {self.points} values each"
