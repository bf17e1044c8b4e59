"""NAM24 Fig. 3.4: small starts make a multilinear model learn its skills in stages."""

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
from richter.maths.logistic import stage_overlap
from richter.maths.skills import skill_frequencies
from richter.refs import NAM24
from richter.theory import MultilinearSkills

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Stages(AbstractExperiment):
    """Emergence and saturation of skills, read off their curves for starts of many sizes."""

    name = "nam24-stages"
    title = "Stage-like training from small starts"
    statement = (
        "For a sufficiently small start the multilinear model finishes one skill before the next one emerges, with an "
        "overlap that the start decides; each stage lowers the loss by the skill's share."
    )
    places = (NAM24["Fig. 3.4"], NAM24["Eq. 3.13"], NAM24["Eq. 3.14"])
    presets = {"smoke": {"moments": 1500}, "laptop": {}, "paper": {"moments": 20000}}
    known_failures = {
        "printed": "Eq. 3.13 as printed has the ratio of frequencies as a factor, with the wrong sign; it is an "
        "exponent.",
    }
    alpha: float = setting(0.6, "exponent of the frequencies, less one", symbol="α", low=0.05, high=5)
    target: float = setting(5.0, "target scale", symbol="S", low=0.01)
    starts: tuple[float, ...] = setting(
        (1e-1, 1e-2, 1e-4, 1e-6, 1e-9, 1e-12),
        "strengths at the start, over the target",
        symbol="R(0)/S",
        low=1e-30,
        high=0.4,
    )
    skills: int = setting(5, "skills", symbol="n_s", low=3, high=8)
    eta: float = setting(1.0, "learning rate", symbol="η", low=1e-6)
    epsilon: float = setting(0.05, "share at which a skill has emerged", symbol="ε", low=1e-3, high=0.3)
    moments: int = setting(4000, "times looked at", low=500)

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Strengths and loss over log-spaced times, and the intervals read off them."""
        import xarray as xr

        n, S = self.skills, self.target
        P = skill_frequencies(self.alpha, n)
        slow = np.log(1 / min(self.starts)) / (2 * self.eta * P[-1] * S)
        t = np.concatenate([[0.0], np.geomspace(1e-4 * slow, 3 * slow, self.moments)])
        parts, first, wait, overlap = [], [], [], []
        for i, share in enumerate(self.starts):
            progress(f"R(0) = {share:g} S", i / len(self.starts))
            model = MultilinearSkills(alpha=self.alpha, n_skills=n, target=S, initial=share * S, eta=self.eta)
            ds = model.solve(t, only=("skill_strength", "loss"))
            rows = ds.skill_strength.values.T / S
            hit = np.array([[_cross(t, row, level) for level in (self.epsilon, 1 - self.epsilon)] for row in rows])
            first.append(hit[:, 0])
            wait.append(hit[:, 1] - hit[:, 0])
            overlap.append([_meeting(a, b) for a, b in zip(rows[:-1], rows[1:], strict=True)])
            parts.append(ds)
        made = xr.concat(parts, "start", combine_attrs="drop")
        made["emergence"] = (("start", "skill"), first, {"long_name": "time at which ε S is reached"})
        made["saturation"] = (("start", "skill"), wait, {"long_name": "time from ε S to (1 − ε) S"})
        made["overlap"] = (
            ("start", "pair"),
            overlap,
            {"long_name": "share of the next skill when as much is left of one"},
        )
        made["frequency"] = ("skill", P)
        return made.assign_coords(start=("start", list(self.starts), {"symbol": "R(0)/S"}), skill=np.arange(1, n + 1))

    def _told(self, ds: xr.Dataset) -> Floats:
        P = ds.frequency.values
        return np.array([stage_overlap(s * self.target, self.target, P[:-1], P[1:]) for s in self.starts])

    @claim("for sufficiently small initialisation we get stage-like training, with infinitesimal ε", NAM24["Eq. 3.14"])
    def stages(self, ds: xr.Dataset) -> Verdict:
        """N9: τˢ < Δτᵉ for all pairs at the smallest start, for none at the largest; the overlap falls as a power."""
        gap = ds.emergence.diff("skill").values
        staged = (ds.saturation.values[:, :-1] < gap).sum(axis=1)
        P = ds.frequency.values
        power = (P[:-1] - P[1:]) / (P[:-1] + P[1:])
        odds = ds.overlap.values / (1 - ds.overlap.values)
        fits = np.polyfit(np.log(np.array(self.starts)), np.log(odds), 1)[0]
        off = float(np.abs(fits / power - 1).max())
        return Verdict.of(
            staged[-1] == self.skills - 1 and staged[0] == 0 and off < 0.05,
            f"stage-like pairs of {self.skills - 1} at R(0)/S = {', '.join(f'{s:g}' for s in self.starts)}: "
            f"{staged.tolist()}; the "
            f"overlap's odds go like (R(0)/S) to the power {np.round(fits, 3).tolist()}",
            f"none at the largest start, all at the smallest; powers {np.round(power, 3).tolist()}", self._scale(ds),
        )  # fmt: skip

    @claim("the overlap ε = 1/(1 + (S/R(0) − 1)^r), r = (P_k − P_{k+1})/(P_k + P_{k+1})", NAM24["Eq. 3.13"])
    def corrected(self, ds: xr.Dataset) -> Verdict:
        """N9: the corrected equation against the curves."""
        off = float(np.abs(ds.overlap.values / self._told(ds) - 1).max())
        return Verdict.of(
            off < 1e-2,
            f"largest relative difference {off:.1e}",
            "below 1e-2: interpolation of the curves",
            self._scale(ds),
        )

    @claim("ε as printed: 1/(1 + (S/R(0) − 1)·(E[x²]_{i+1} − E[x²]_i)/(E[x²]_{i+1} + E[x²]_i))", NAM24["Eq. 3.13"])
    def printed(self, ds: xr.Dataset) -> Verdict:
        """The print, with the frequencies for E[x²]."""
        P = ds.frequency.values
        r = (P[1:] - P[:-1]) / (P[1:] + P[:-1])
        told = 1 / (1 + (1 / np.array(self.starts)[:, None] - 1) * r)
        inside = (told > 0) & (told < 1)
        off = np.abs(told / ds.overlap.values - 1)
        return Verdict.of(
            bool(inside.all()) and float(off.max()) < 1e-2,
            f"{int(inside.sum())} of {inside.size} values lie between 0 and 1; they range from {told.min():.2g} to "
            f"{told.max():.2g}",
            "the overlaps, between 0 and ½", self._scale(ds),
        )  # fmt: skip

    @claim("the change in the loss for the k-th emergence is E[x²]L + O(ε)", NAM24["Fig. 3.4"])
    def drops(self, ds: xr.Dataset) -> Verdict:
        """At the emergence of skill k the loss is that of the skills from k on."""
        here = ds.isel(start=-1)
        P = ds.frequency.values
        left = np.array([float(np.interp(x, ds.t, here.loss)) for x in here.emergence.values])
        told = self.target**2 / 2 * P[::-1].cumsum()[::-1]
        off = np.abs(left - told) / (self.target**2 / 2 * P)
        return Verdict.of(
            bool((off < 3 * self.epsilon).all()),
            f"plateaus are {np.round(left / told, 3).tolist()} of Σ_(j≥k) P(j) S²/2; off by at most "
            f"{off.max() / self.epsilon:.1f} ε of "
            "the next drop", "within 3 ε of the next drop", f"{self._scale(ds)}; R(0)/S = {self.starts[-1]:g}",
        )  # fmt: skip

    def figure(self, ds: xr.Dataset) -> Figure:
        """Strengths with the two intervals of the first skill, the loss, and the overlap against the start."""
        at = min(3, len(self.starts) - 1)
        here = ds.isel(start=at)
        late = float(here.emergence[-1] + 1.3 * here.saturation[-1])
        left: list[Mark] = []
        for k, row in enumerate(here.skill_strength.transpose("skill", "t").values):
            left.append(
                mark("line", ds.t, row / self.target, role="simulated", colour=f"k = {k + 1}", label=f"k = {k + 1}")
            )
        e, s = float(here.emergence[0]), float(here.saturation[0])
        left += [mark("vline", x=[e, e + s], role="guide", label="τᵉ and τᵉ + τˢ of k = 1"),
                 mark("hline", y=self.epsilon, role="target", label="ε")]  # fmt: skip
        middle = [mark("line", ds.t, here.loss, role="simulated", label="loss"),
                  mark("vline", x=here.emergence.values, role="guide", label="emergence times τᵉ")]  # fmt: skip
        right: list[Mark] = []
        for i in range(self.skills - 1):
            words = f"k = {i + 1}, {i + 2}"
            right.append(
                mark("line", ds.start, self._told(ds)[:, i], role="exact", colour=words, label=words, group=words)
            )
            right.append(mark("points", ds.start, ds.overlap[:, i], role="simulated", colour=words, group=words))
        return Figure(
            (
                Panel(tuple(left), x="t: time", y="R/S: skill strength", x_range=(0.0, late), title="(a) Strengths"),
                Panel(tuple(middle), x="t: time", y="L: loss", x_range=(0.0, late), title="(b) Loss"),
                Panel(tuple(right), x="R(0)/S: start", y="ε: overlap of neighbours", x_log=True, y_log=True,
                    title="(c) Overlap"),
            ),
            self.title,
            f"(a, b) α = {self.alpha:g}, S = {self.target:g}, R(0) = {number(self.starts[at])} S. (c) Points are read "
            "off the "
            "curves, lines are Eq. 3.13 corrected. After NAM24 Fig. 3.4.",
        )  # fmt: skip

    def _scale(self, ds: xr.Dataset) -> str:
        return (
            f"{self.skills} skills, α = {self.alpha:g}, {len(self.starts)} starts from {self.starts[0]:g} to "
            f"{self.starts[-1]:g} S, exact"
        )


def _cross(t: Floats, row: Floats, level: float) -> float:
    """When a rising curve crosses a level: by interpolation of the odds, in which a logistic is a straight line."""
    odds = np.log(np.maximum(row, 1e-300)) - np.log(np.maximum(1 - row, 1e-16))
    return float(np.interp(np.log(level / (1 - level)), odds, t))


def _meeting(here: Floats, after: Floats) -> float:
    """The share of the next skill when a skill has as much left."""
    both = np.log(np.maximum(after, 1e-300)) - np.log(np.maximum(1 - here, 1e-16))
    return float(np.exp(np.interp(0.0, both, np.log(np.maximum(after, 1e-300)))))
