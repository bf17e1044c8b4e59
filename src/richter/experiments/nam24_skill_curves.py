"""NAM24 Fig. 4.1b and App. C.2: skills rise one after another, but not in the linear model with the same skills."""

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
from richter.maths.multilinear import (
    linear_loss,
    linear_strength,
    multilinear_loss,
    multilinear_strength,
    one_shot_loss,
)
from richter.maths.power_fit import fit_power
from richter.maths.scaling_laws import scaling_exponents
from richter.maths.skills import skill_frequencies
from richter.refs import NAM24
from richter.tasks.sparse_parity import SparseParity

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
MODELS = ("multilinear", "linear")


@dataclass(frozen=True, kw_only=True)
class SkillCurves(AbstractExperiment):
    """Both models trained example by example on the sparse parity task, beside their exact curves and laws."""

    name = "nam24-skill-curves"
    title = "Skills emerge in layers, not in a linear model"
    statement = (
        "The multilinear model's skills rise sigmoidally, rarer ones later; a linear model with the same skills has "
        "the "
        "same scaling laws of time, data and parameters and the same one-shot learning, but no emergence in time."
    )
    places = (NAM24["Fig. 4.1"], NAM24["App. C.2"], NAM24["Eq. 4.11"])
    presets = {"smoke": {"runs": 12, "step": 0.02, "draws": 100}, "laptop": {}, "paper": {"runs": 100, "step": 5e-4}}
    alpha: float = setting(0.6, "exponent of the frequencies, less one", symbol="α", low=0.05, high=3)
    skills: int = setting(5, "skills", symbol="n_s", low=2, high=8)
    target: float = setting(5.0, "target scale", symbol="S", low=0.1)
    initial: float = setting(1e-2, "skill strength at the start", symbol="R(0)", low=1e-9)
    step: float = setting(2e-3, "2ηS times the step of the stochastic gradient descent", low=1e-5, high=0.1)
    runs: int = setting(40, "training runs", low=4)
    draws: int = setting(400, "data sets drawn at each size", low=20)
    seed: int = setting(0, "seed", low=0)

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Strengths over time by stochastic gradient descent and exactly; both models' losses over all resources."""
        import xarray as xr

        P = skill_frequencies(self.alpha, self.skills)
        r = self.target / self.initial - 1
        span = 1.6 * np.log(r) / (2 * P[-1] * self.target)  # at η = 1
        t = np.linspace(0.0, span, 600)
        exact = np.stack([
            multilinear_strength(t[:, None], P, self.target, self.initial), linear_strength(t[:, None], P, self.target),
        ])  # fmt: skip
        trained, times = self._train(span, progress)
        at = np.stack([
            multilinear_strength(times[:, None], P, self.target, self.initial), linear_strength(times[:, None], P,
                self.target),
        ])  # fmt: skip
        progress("laws", 0.9)
        x = np.geomspace(1e4, 1e8, 9)
        laws = np.stack([
            multilinear_loss(x, self.alpha, self.target, self.initial), linear_loss(x, self.alpha, self.target),
        ])  # fmt: skip
        counts = np.array([1, 2, 4, 8, 16, 32, 64, 128])
        dims = ("model", "t", "skill")
        return xr.Dataset(
            {
                "strength": (dims, exact, {"long_name": "skill strength", "symbol": "R"}),
                "trained": (("model", "run", "look", "skill"), trained, {"long_name": "strength by stochastic "
                    "gradient descent"}),
                "expected": (("model", "look", "skill"), at, {"long_name": "exact strength at the same times"}),
                "law_loss": (("model", "time"), laws, {"long_name": "loss of endlessly many skills"}),
                "learned": (("model", "samples", "skill"), self._one_shot(counts, progress),
                    {"long_name": "mean R/S after endless training on D examples"}),
                "chance": (("samples", "skill"), 1 - (1 - P) ** counts[:, None],
                    {"long_name": "chance to have seen the skill"}),
                "size_loss": (("model", "n_basis"), [
                    [float(loss(np.inf, n)) for n in counts]
                    for loss in (
                        lambda t, n: multilinear_loss(t, self.alpha, self.target, self.initial, n_basis=int(n)),
                        lambda t, n: linear_loss(t, self.alpha, self.target, n_basis=int(n)),
                    )
                ]),
            },
            {"model": list(MODELS), "t": t, "look_time": ("look", times), "time": x, "samples": counts,
                "n_basis": counts,
             "skill": np.arange(1, self.skills + 1)},
        )  # fmt: skip

    def _train(self, span: float, progress: Progress) -> tuple[Floats, Floats]:
        """One example at a time from the task; the models know the skills' functions, nothing else."""
        task = SparseParity.draw(
            n_tasks=self.skills, n_bits=3 * self.skills, alpha=self.alpha, target=self.target, rng=self.seed
        )
        h = self.step / (2 * self.target)
        steps = int(np.ceil(span / h))
        looks = np.unique(np.linspace(0, steps, 25).round().astype(int))
        a = np.full((self.runs, self.skills), np.sqrt(self.initial))
        b, w = a.copy(), np.zeros_like(a)
        rows: list[Floats] = []
        every, chunk = np.arange(self.runs), 2048
        rng = np.random.default_rng([self.seed, 1])
        for k in range(steps + 1):
            if k == looks[len(rows)]:
                rows.append(np.stack([a * b, w]))
                progress("stochastic gradient descent", 0.8 * k / steps)
            if k == steps:
                break
            if k % chunk == 0:
                data = task.sample(chunk * self.runs, rng)
                skill = data.skill.reshape(chunk, self.runs)
                g = task.basis(data)[data.skill, np.arange(len(data))].reshape(chunk, self.runs)
                y = data.targets.reshape(chunk, self.runs)
            i, own, aim = skill[k % chunk], g[k % chunk], y[k % chunk]
            p, q, v = a[every, i], b[every, i], w[every, i]
            off = own * (p * q * own - aim)
            a[every, i], b[every, i] = p - h * q * off, q - h * p * off
            w[every, i] = v - h * own * (v * own - aim)
        return np.stack(rows, axis=2), looks * h

    def _one_shot(self, counts: NDArray[np.int64], progress: Progress) -> Floats:
        """Mean strength over S of both models at t = ∞ on drawn data sets: a skill is learned if it was seen."""
        P = skill_frequencies(self.alpha, self.skills)
        made = []
        for D in counts:
            rng = np.random.default_rng([self.seed, 2, int(D)])
            d = rng.multinomial(D, P / P.sum(), size=self.draws)
            share = d / D
            both = (
                multilinear_strength(np.inf, share, self.target, self.initial),
                linear_strength(np.inf, share, self.target),
            )
            made.append([row.mean(axis=0) / self.target for row in both])
        return np.array(made).swapaxes(0, 1)

    @claim("the dynamics of the multilinear model are decoupled and each skill strength shows a sigmoidal growth in "
           "time",
           NAM24["Fig. 4.1"], NAM24["Eq. 4.11"])  # fmt: skip
    def sigmoidal(self, ds: xr.Dataset) -> Verdict:
        """N30: training on examples against the exact curves, in standard errors; the growth starts slowly."""
        off = (ds.trained.mean("run") - ds.expected) / (ds.trained.std("run", ddof=1) / np.sqrt(ds.sizes["run"]))
        mid = (ds.expected > 0.05 * self.target) & (ds.expected < 0.95 * self.target)
        seen = off.where(mid)
        inside = float((abs(seen) <= 3).sum() / mid.sum())
        gap = float(abs(ds.trained.mean("run") - ds.expected).max()) / self.target
        error = float((ds.trained.std("run", ddof=1) / np.sqrt(ds.sizes["run"])).where(mid).median()) / self.target
        first = ds.strength.sel(model="multilinear").transpose("skill", "t").values
        speed = np.diff(first, axis=1)
        slow = speed[:, 0] / speed.max(axis=1)
        return Verdict.of(
            inside >= 0.9 and gap < 0.1 and slow.max() < 0.05,
            f"{inside:.0%} of {int(mid.sum())} means of training runs on the way lie within 3 standard errors of the "
            "exact curves, "
            f"the furthest {gap:.1%} of S off; the growth starts at {slow.max():.1%} of its largest speed",
            "at least 90 % (the step's own error is of its first order), within 10 % of S; below 5 %", self._scale(ds),
            f"median standard error {error:.1%} of S",
        )  # fmt: skip

    def _half(self, ds: xr.Dataset, model: str) -> Floats:
        rows = ds.strength.sel(model=model).transpose("skill", "t").values
        return np.array([np.interp(self.target / 2, row, ds.t.values) for row in rows])

    @claim("less frequent skills have a more delayed growth", NAM24["Fig. 4.1"])
    def rarer(self, ds: xr.Dataset) -> Verdict:
        """N30: half-times against the rank: k^(α+1)."""
        half = self._half(ds, "multilinear")
        fit = np.polyfit(np.log(ds.skill), np.log(half), 1)[0]
        return Verdict.of(bool((np.diff(half) > 0).all()) and abs(fit - self.alpha - 1) < 0.05,
                          f"half-times {np.round(half, 2).tolist()}, ∝ k^{fit:.3f}", "rising, power "
                              f"{self.alpha + 1:g} ± 0.05",
                          self._scale(ds))  # fmt: skip

    @claim("the linear model results in the same scaling laws", NAM24["App. C.2"])
    def same_laws(self, ds: xr.Dataset) -> Verdict:
        """N30: time exponents of both; data and parameters: the same losses."""
        told = float(scaling_exponents(self.alpha)["time"])
        fits = [fit_power(ds.time[4:], row[4:]).exponent for row in ds.law_loss.values]
        both = ds.size_loss.values
        size = float(np.abs(both[0] / both[1] - 1).max())
        data = float(abs(ds.learned.isel(model=0) - ds.learned.isel(model=1)).max())
        start = self.initial / self.target
        shot = float(one_shot_loss(0, self.target, self.initial) / one_shot_loss(0, self.target)) - (1 - start) ** 2
        return Verdict.of(
            max(abs(f - told) for f in fits) < 2e-3 and size < 1e-9 and data <= start + 1e-12 and abs(shot) < 1e-12,
            f"time exponents {fits[0]:.4f} and {fits[1]:.4f} (law {told:.4f}); losses over parameters differ by "
            f"{size:.0e}, strengths "
            f"over data by {data:.1e} S (the multilinear model's start, {start:g} S)",
            "within 2e-3; equal; equal up to the start", f"α = {self.alpha:g}, endlessly many skills for time and "
                                                         "parameters",
        )  # fmt: skip

    @claim("both models are one-shot learners: data emergence needs no layers", NAM24["App. C.2"], NAM24["Eq. 4.26"])
    def one_shot(self, ds: xr.Dataset) -> Verdict:
        """N30: mean strength after endless training against the chance to have seen the skill."""
        start = self.initial / self.target
        told = ds.chance + (1 - ds.chance) * start * (ds.model == "multilinear")
        error = np.sqrt(np.maximum(ds.chance * (1 - ds.chance), 1e-12) / self.draws)
        off = abs(ds.learned - told) / error
        loose = off.where(error > 1e-3)
        worst = float(loose.max())
        return Verdict.of(worst < 4.5, f"means lie within {worst:.1f} standard errors of 1 − (1 − P(k))^D for both "
                                       "models",
                          "4.5, for the furthest of them", f"{self.draws} data sets at each of {ds.sizes['samples']} "
                                                           "sizes")  # fmt: skip

    @claim(
        "the linear model follows an exponential saturation: no emergence in time", NAM24["App. C.2"], NAM24["Eq. C.4"]
    )
    def no_emergence(self, ds: xr.Dataset) -> Verdict:
        """N30: how far skill k + 1 is when skill k is half learned, in both models."""
        said, values = [], []
        for model in MODELS:
            rows = ds.strength.sel(model=model).transpose("skill", "t").values
            after = [
                float(np.interp(t, ds.t, row)) / self.target
                for t, row in zip(self._half(ds, model)[:-1], rows[1:], strict=True)
            ]
            values.append(after)
            said.append(f"{model} {np.round(after, 3).tolist()}")
        line = ds.strength.sel(model="linear").transpose("skill", "t").values
        fastest = bool((np.diff(line, axis=1).argmax(axis=1) == 0).all())
        return Verdict.of(
            fastest and values[0][0] < 0.05 and min(values[1]) > 0.15,
            "the next skill, when one is half learned: " + "; ".join(said) + ("; linear skills are fastest at the "
                "start" if fastest else ""),
            "multilinear below 5 % for the first pair, linear above 15 % for all; fastest at t = 0", self._scale(ds),
        )  # fmt: skip

    def figure(self, ds: xr.Dataset) -> Figure:
        """Skill strengths of both models with training runs, and their losses."""
        panels = []
        for letter, model in zip("ab", MODELS, strict=True):
            marks: list[Mark] = []
            for k in ds.skill.values:
                words = f"k = {k}"
                row = ds.strength.sel(model=model, skill=k) / self.target
                seen = ds.trained.sel(model=model, skill=k).mean("run") / self.target
                marks.append(mark("line", ds.t, row, role="exact", colour=words, label=words, group=words))
                marks.append(mark("points", ds.look_time, seen, role="simulated", colour=words, group=words))
            panels.append(Panel(tuple(marks), x="ηt: time", y="R/S: skill strength", title=f"({letter}) {model}"))
        lines = tuple(
            mark(
                "line",
                ds.time,
                ds.law_loss.sel(model=model),
                role="simulated",
                colour=f"{model} model",
                label=f"{model} model",
            )
            for model in MODELS
        )
        panels.append(Panel(lines, x="ηT: training time", y="L: loss", x_log=True, y_log=True, title="(c) Loss"))
        return Figure(
            tuple(panels), self.title,
            f"(a, b) Lines: exact. Points: mean of {self.runs} runs of stochastic gradient descent on single examples "
            "of the sparse "
            f"parity task, α = {number(self.alpha)}, S = {number(self.target)}. (c) Endlessly many skills: the same "
            "exponent. After "
            "NAM24 Fig. 4.1b and Appendix C.2.",
        )  # fmt: skip

    def _scale(self, ds: xr.Dataset) -> str:
        return (f"{self.skills} skills, α = {self.alpha:g}, R(0) = {self.initial:g}, {ds.sizes['run']} runs on single "
                "examples, "
                f"2ηS · step = {self.step:g}")  # fmt: skip
