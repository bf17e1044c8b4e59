"""NAM24 Fig. C.1: with finitely many skills the loss falls faster, by a known correction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.figure import Figure, Panel
from richter.figure.build import number
from richter.figure.data import Mark, Role, mark
from richter.maths.multilinear import multilinear_loss
from richter.maths.scaling_laws import corrected_slope, missing_loss, time_slope
from richter.refs import NAM24
from richter.theory.scaling import scaling

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, kw_only=True)
class FiniteSkills(AbstractExperiment):
    """The exact loss of finitely many skills, the pure power law and the law with the missing skills' loss."""

    name = "nam24-finite-skills"
    title = "Finitely many skills bend the law"
    statement = (
        "With N skills the loss of the multilinear model decays faster than the power law; adding the loss L_C of the "
        "skills that are not there corrects the law, above all for small α."
    )
    places = (NAM24["Fig. C.1"], NAM24["Eq. C.2"], NAM24["App. C.1"])
    presets = {"smoke": {"points": 15}, "laptop": {}, "paper": {"points": 101}}
    alphas: tuple[float, ...] = setting(
        (0.1, 0.3, 0.6, 0.9), "exponents of the frequencies, less one", symbol="α", low=0.02, high=2
    )
    skills: int = setting(50_000, "skills", symbol="N", low=100)
    target: float = setting(5.0, "target scale", symbol="S", low=0.01)
    initial: float = setting(1e-2, "skill strength at the start", symbol="R(0)", low=1e-12)
    eta: float = setting(0.05, "learning rate", symbol="η", low=1e-6)
    points: int = setting(41, "times, 1e2 to 1e7", low=8)

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Exact loss, both laws, and the slopes at every time."""
        t, shared = (
            np.geomspace(1e2, 1e7, self.points),
            {"target": self.target, "initial": self.initial, "eta": self.eta},
        )
        progress("exact sums", 0.2)
        ds = scaling("time", t, alpha=list(self.alphas), n_skills=self.skills, **shared)
        made = ds[["loss", "law", "corrected", "room", "lead", "missing"]]
        a, h = np.array(self.alphas)[:, None], 1e-3 * t
        exact = lambda x: multilinear_loss(x, a, self.target, self.initial, self.eta, self.skills)
        progress("slopes", 0.6)
        slope = (exact(t - 2 * h) - 8 * exact(t - h) + 8 * exact(t + h) - exact(t + 2 * h)) / (12 * h)
        dims = ("alpha", "time")
        made["slope"] = (dims, slope, {"long_name": "dL/dT of the exact loss"})
        made["plain_slope"] = (dims, time_slope(t, made.loss.values, a))
        told = [
            corrected_slope(t, row, alpha, self.target, self.skills)
            for alpha, row in zip(self.alphas, made.loss.values, strict=True)
        ]
        made["corrected_slope"] = (dims, np.array(told))
        made["opposite_slope"] = (dims, np.array([
            time_slope(t, row - missing_loss(alpha, self.target, self.skills), alpha)
            for alpha, row in zip(self.alphas, made.loss.values, strict=True)
        ]))  # fmt: skip
        made.attrs = {}
        return made

    def _valid(self, ds: xr.Dataset) -> xr.DataArray:
        """Where the first skills are learned and the last are untouched: 2ηAST > 30 ln r and N^(α+1) > 30 · 2ηAST."""
        return (ds.lead > 30) & (ds.room > 30)

    @claim(
        "the finite-N corrected scaling law better predicts the dynamics, especially for smaller α", NAM24["Fig. C.1"]
    )
    def better(self, ds: xr.Dataset) -> Verdict:
        """N14: largest error of either law where the correction applies, by α."""
        valid = self._valid(ds)
        error = lambda name: abs(ds[name] / ds.loss - 1).where(valid).max("time").values
        plain, right = error("law"), error("corrected")
        if not np.isfinite(right).all():
            return Verdict.undecided(
                "for some α no time lies in the range of the correction", "one for each", self._scale(ds)
            )
        said = ", ".join(f"{a:g}: {p:.1%} and {c:.2%}" for a, p, c in zip(self.alphas, plain, right, strict=True))
        return Verdict.of(
            bool((right < plain).all()) and float(right.max()) < 0.03 and int(np.argmax(plain)) == 0 and plain[0] > 0.3,
            f"largest errors of the pure and of the corrected law by α: {said}",
            "corrected smaller, below 3 %; the pure law worst for the smallest α, above 30 %", self._scale(ds),
        )  # fmt: skip

    @claim("dL/dT ≈ −α/(α+1) (L + L_C)/T, L_C ≈ S²A N^(−α)/2α", NAM24["Eq. C.2"])
    def slope(self, ds: xr.Dataset) -> Verdict:
        """N14: the slope itself, with the correction, without, and with the other sign."""
        valid = self._valid(ds) & (ds["time"] > 1e3)
        error = lambda name: float(abs(ds[name] / ds.slope - 1).where(valid).isel(alpha=0).max())
        worst = float(abs(ds.corrected_slope / ds.slope - 1).where(valid).max())
        return Verdict.of(
            worst < 0.05 and error("plain_slope") > 0.2 and error("opposite_slope") > 0.5,
            f"largest error {worst:.2%}; at α = {self.alphas[0]:g} without L_C {error('plain_slope'):.0%}, with a "
            "minus sign "
            f"{error('opposite_slope'):.0%}", "below 5 % with L_C, far more without (the sign is plus)",
                self._scale(ds),
        )  # fmt: skip

    @claim("N^−α is not negligibly small", NAM24["App. C.1"])
    def missing_share(self, ds: xr.Dataset) -> Verdict:
        """L_C over the loss: what the missing skills would add."""
        valid = self._valid(ds)
        share = ds.missing.where(valid).min("time").values
        return Verdict.of(
            share[0] > 0.3, "L_C/L at least " + ", ".join(f"{x:.2g} (α = {a:g})" for a, x in zip(self.alphas, share,
                strict=True)),
            "above 0.3 for the smallest α", self._scale(ds), f"N^−α = {self.skills ** -self.alphas[0]:.2f} there",
        )  # fmt: skip

    def figure(self, ds: xr.Dataset) -> Figure:
        """Exact loss and both laws, and their errors."""
        left: list[Mark] = []
        right: list[Mark] = []
        for alpha in self.alphas:
            here, words = ds.sel(alpha=alpha), f"α = {number(alpha)}"
            x = ds["time"].values
            left.append(mark("line", x, here.loss, role="simulated", colour=words, label=words, group=words))
            laws: tuple[tuple[str, Role, str], ...] = (
                ("law", "guide", "scaling law"), ("corrected", "exact", "corrected for finite N"),
            )  # fmt: skip
            for name, role, label in laws:
                row = here[name].values
                good = (row > here.loss.values.min()) & (row < 3 * here.loss.values.max())
                left.append(mark("line", x[good], row[good], role=role, label=label, group=f"{name} {words}"))
            off = abs(here.corrected / here.loss - 1).where(self._valid(here)).values
            plain = abs(here.law / here.loss - 1).where(self._valid(here)).values
            for row, kind in ((plain, "law"), (off, "corrected")):
                look: Role = "simulated" if kind == "law" else "exact"
                good = np.isfinite(row) & (row > 1e-7)  # 0 where the correction starts
                if good.any():
                    right.append(
                        mark("line", x[good], row[good], role=look, colour=words, label=words, group=f"{words}, {kind}")
                    )
        return Figure(
            (
                Panel(tuple(left), x="T: training time", y="L: loss", x_log=True, y_log=True, title="(a) Loss",
                      y_range=(float(ds.loss.where(self._valid(ds)).min()) / 10, 2 * float(ds.loss.max()))),
                Panel(tuple(right), x="T: training time", y="relative error", x_log=True, y_log=True,
                    title="(b) Errors: law solid, corrected dashed"),
            ),
            self.title,
            f"Exact loss of {self.skills:,} skills, the power law for endlessly many, and its correction, in (b) "
            "where the first "
            "skills are learned and the last untouched. After NAM24 Fig. C.1.",
        )  # fmt: skip

    def _scale(self, ds: xr.Dataset) -> str:
        return f"N = {self.skills}, α = {list(self.alphas)}, {self.points} times from 1e2 to 1e7, exact sums"
