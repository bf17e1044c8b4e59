"""NAM24 Figs 1.3 and 1.5: interpolating noise is benign if the preferred features are the useful ones."""

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
from richter.maths.overfitting import two_block_spectrum
from richter.refs import NAM24
from richter.theory import sine_fits, two_block
from richter.theory.overfitting import Basis

if TYPE_CHECKING:
    import xarray as xr

TARGETS = {"benign": 1, "malignant": 10}
BASES: tuple[Basis, ...] = ("gaussian", "sine")
SIGNAL = 0.5  # the target's variance


@dataclass(frozen=True, kw_only=True)
class Overfitting(AbstractExperiment):
    """A few strong and many weak sines fitted to noisy labels of a strong or of a weak one."""

    name = "nam24-overfitting"
    title = "Benign and malignant overfitting"
    statement = (
        "A heavily overparameterised linear model interpolates noisy labels and yet generalises if the features it "
        "prefers express the target; if they do not, the same model ignores the signal."
    )
    places = (NAM24["Fig. 1.3"], NAM24["Fig. 1.5"], NAM24["Eq. 1.36"])
    presets = {"smoke": {"draws": 6, "features": 1000}, "laptop": {}, "paper": {"draws": 200}}
    known_failures = {
        "printed_tail": "with the printed tail, ρ = n/(p − d), the strong features learn a half only (L = 0.506): the "
        "tail's weight is n, and L ≈ 1 needs a weight much smaller than n.",
    }
    examples: int = setting(100, "examples", symbol="n", low=20)
    features: int = setting(2000, "sine functions", symbol="p", low=200)
    strong: int = setting(5, "functions of intensity 1", symbol="d", low=1, high=9)
    tail: float = setting(1.0, "summed intensity of all other functions", symbol="T", low=1e-6, high=50)
    noise: float = setting(0.3, "standard deviation of the labels' noise", symbol="σ", low=0.01, high=2)
    draws: int = setting(24, "data sets", low=4)
    grid: int = setting(4001, "points at which the functions are drawn", low=200)
    seed: int = setting(0, "seed of the data sets", low=0)

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Errors of both targets, features and tails, and the learned functions of one data set."""
        import xarray as xr

        n, p, d = self.examples, self.features, self.strong
        tails = {"light": self.tail, "printed": float(n)}
        rows, told = [], []
        for i, mode in enumerate(TARGETS.values()):
            for j, weight in enumerate(tails.values()):
                for k, basis in enumerate(BASES):
                    progress(f"target {mode}, {basis} features", (i * 4 + j * 2 + k) / 8)
                    made = two_block(n, p, d, weight, target_mode=mode, noise=self.noise, times=[np.inf],
                        draws=self.draws,
                                     basis=basis, rng=np.random.default_rng([self.seed, k]))  # fmt: skip
                    rows.append(
                        made[["clean_error", "train_error", "signal_error", "noise_error"]].isel(t=0, drop=True)
                    )
                told.append([float(made[name]) for name in ("expected_clean_error", "learnability_first")])
        dims = ("target", "tail", "basis")
        names = {"target": list(TARGETS), "tail": list(tails), "basis": list(BASES)}
        fold = lambda name: (
            (*dims, "draw"), np.reshape([row[name].values for row in rows], (2, 2, 2, -1)), dict(rows[0][name].attrs),
        )  # fmt: skip
        made = xr.Dataset({str(name): fold(name) for name in rows[0].data_vars}, names)
        both = np.reshape(told, (2, 2, 2))
        made["expected_error"], made["expected_learnability"] = (dims[:2], both[..., 0]), (dims[:2], both[..., 1])
        return xr.merge([made, self._functions()], combine_attrs="drop")

    def _functions(self) -> xr.Dataset:
        """The learned functions of one data set with the light tail, strong and weak features apart."""
        import xarray as xr

        rng = np.random.default_rng([self.seed, 1])
        x, noise = np.sort(rng.uniform(size=self.examples)), self.noise * rng.standard_normal(self.examples)
        rho = two_block_spectrum(self.features, self.strong, self.tail)
        made = []
        for mode in TARGETS.values():
            ds = sine_fits(x, np.sin(2 * np.pi * mode * x), rho, noise, first=self.strong, grid=self.grid)
            made.append(xr.Dataset({
                "fit": ds.fit.sum("part"), "label": ds.label,
                "truth": ("x", np.sin(2 * np.pi * mode * ds.x.values)), "input": ds.input,
            }))  # fmt: skip
        return xr.concat(made, "target", data_vars=["fit", "label", "truth"]).assign_coords(target=list(TARGETS))

    @claim("the learned function interpolates all training samples but closely resembles the target", NAM24["Fig. 1.3"])
    def benign(self, ds: xr.Dataset) -> Verdict:
        """N3: training error 0, clean error far below the noise."""
        here = ds.sel(target="benign", tail="light")
        mean, error = self._mean(here.clean_error.sel(basis="gaussian"))
        told = float(here.expected_error)
        sine = float(here.clean_error.sel(basis="sine").median())
        left = float(here.train_error.max())
        return Verdict.of(
            left < 1e-16 and mean < self.noise**2 / 3 and abs(mean - told) < 3 * error + 0.03 * told,
            f"error on the target {mean:.4f} (predicted {told:.4f}; sines, median {sine:.4f}), on the examples "
            f"{left:.0e}; variance of the noise {self.noise**2:.4f}, of the target {SIGNAL}",
            "examples fitted exactly; error below a third of the noise's variance and as predicted", self._scale(ds),
            f"standard error {error:.4f}; the tail's weight is {self.tail:g} (≪ n), its effective rank "
            f"{self.features - self.strong} (≫ n)",
        )  # fmt: skip

    @claim("the first d features fit the target function", NAM24["Fig. 1.3"])
    def signal(self, ds: xr.Dataset) -> Verdict:
        """Distance of the strong features' share of the function from the target, in the drawn data set."""
        here = ds.sel(target="benign")
        off = float(((here.fit.sel(features="first") - here.truth) ** 2).mean("x")) / SIGNAL
        return Verdict.of(
            off < 0.05, f"{off:.2%} of the target's variance", "below 5 %", f"{self._size()}, one data set"
        )

    @claim("the latter p − d features fit the remaining noise by delta functions", NAM24["Fig. 1.3"], NAM24["Fig. 1.5"])
    def spikes(self, ds: xr.Dataset) -> Verdict:
        """How much of the weak features' variance lies within 1/p of an example or of its mirror image."""
        x = ds.x.values
        centres = np.concatenate([ds.input.values, 1 - ds.input.values])
        near = (np.abs(x[:, None] - centres) < 1 / self.features).any(axis=1)
        share = []
        for target in TARGETS:
            square = ds.fit.sel(target=target, features="rest").values ** 2
            share.append(float(square[near].sum() / square.sum()))
        return Verdict.of(
            min(share) > 0.75,
            f"{share[0]:.0%} and {share[1]:.0%} of the variance on {near.mean():.0%} of the line (sines are odd about "
            "½: "
            "every spike has a mirror image)",
            "more than three quarters", f"{self._size()}, one data set",
        )  # fmt: skip

    @claim("the learned function interpolates all training samples but differs from the target", NAM24["Fig. 1.5"])
    def malignant(self, ds: xr.Dataset) -> Verdict:
        """N3: the error is that of no function at all."""
        here = ds.sel(target="malignant", tail="light")
        mean, error = self._mean(here.clean_error.sel(basis="gaussian"))
        told, left = float(here.expected_error), float(here.train_error.max())
        return Verdict.of(
            left < 1e-16 and mean > 0.8 * SIGNAL and abs(mean - told) < 3 * error + 0.03 * told,
            f"error on the target {mean:.3f} (predicted {told:.3f}), on the examples {left:.0e}; the target's "
            f"variance is {SIGNAL}",
            "above 80 % of the target's variance and as predicted", self._scale(ds), f"standard error {error:.3f}",
        )  # fmt: skip

    @claim("with ρ_{k>d} = n/(p − d) the learnability is near 1 for k ≤ d", NAM24["Eq. 1.36"])
    def printed_tail(self, ds: xr.Dataset) -> Verdict:
        """The printed spectrum: theory, and what the drawn fits leave of the signal, (1 − L)² of it."""
        here = ds.sel(target="benign", tail="printed")
        L, light = float(here.expected_learnability), float(ds.expected_learnability.sel(target="benign", tail="light"))
        left, error = self._mean(here.signal_error.sel(basis="gaussian") / SIGNAL)
        return Verdict.of(
            L > 0.9,
            f"L = {L:.3f}; {left:.0%} of the signal's variance is not learned ((1 − L)² = {(1 - L) ** 2:.0%}). With a "
            "tail "
            f"of weight {self.tail:g} instead of {self.examples}: L = {light:.3f}",
            "L near 1 (above 0.9)", self._scale(ds), f"standard error {error:.1%}",
        )  # fmt: skip

    def figure(self, ds: xr.Dataset) -> Figure:
        """Learned function, share of the strong and of the weak features, for both targets."""
        panels = []
        titles = {"all": "learned function", "first": f"first {self.strong} features", "rest": "all other features"}
        letters = iter("abcdef")
        for target, mode in TARGETS.items():
            here = ds.sel(target=target)
            for part, title in titles.items():
                row = here.fit.sum("features") if part == "all" else here.fit.sel(features=part)
                marks: list[Mark] = [mark("line", ds.x, row, role="simulated", label="learned")]
                if part != "rest":
                    marks.append(mark("line", ds.x, here.truth, role="exact", label="target"))
                if part == "all":
                    marks.append(mark("points", ds.input, here.label, role="measured", label="noisy examples"))
                panels.append(
                    Panel(tuple(marks), x="x", y="f(x)", y_range=(-2.2, 2.2),
                          title=f"({next(letters)}) sin {2 * mode}πx: {title}")
                )  # fmt: skip
        return Figure(
            tuple(panels), self.title,
            f"{self.examples} examples with noise σ = {number(self.noise)} fitted exactly by {self.features} sines, "
            f"{self.strong} "
            f"of intensity 1 and the others of {number(self.tail)} together. Above, the target is one of the strong "
            "functions "
            "and the noise goes into spikes; below it is a weak one. After NAM24 Figs 1.3 and 1.5.",
        )  # fmt: skip

    def _mean(self, draws: xr.DataArray) -> tuple[float, float]:
        return float(draws.mean()), float(draws.std(ddof=1) / np.sqrt(draws.size))

    def _size(self) -> str:
        return f"d = {self.strong}, n = {self.examples}, p = {self.features}, σ = {self.noise:g}"

    def _scale(self, ds: xr.Dataset) -> str:
        return f"{self._size()}, {ds.sizes['draw']} data sets, Gaussian features (means) and sines (medians)"
