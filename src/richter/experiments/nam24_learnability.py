"""NAM24 Eq. 1.35: what kernel regression learns of each feature from n examples."""

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
from richter.refs import NAM24
from richter.theory import learnability, sample_learnability

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
ERRORS = {"test_error": "on noisy labels", "clean_error": "on the target"}


@dataclass(frozen=True, kw_only=True)
class Learnability(AbstractExperiment):
    """Minimum-norm fits of drawn data sets beside the eigenlearning prediction."""

    name = "nam24-learnability"
    title = "Learnability predicts what is learned"
    statement = (
        "The mean fraction of the target that a linear model learns along a feature is ρ/(ρ + κ) with one κ for all "
        "features, so that features of larger intensity are learned first; the error follows."
    )
    places = (NAM24["Eq. 1.35"], NAM24["Sec. 1.6"])
    presets = {
        "smoke": {"modes": 150, "examples": (10, 30, 80), "draws": 60},
        "laptop": {},
        "paper": {"modes": 2000, "examples": (10, 30, 100, 300, 1000), "draws": 200},
    }  # fmt: skip
    modes: int = setting(600, "features", symbol="p", low=20)
    examples: tuple[int, ...] = setting((10, 30, 100, 300), "numbers of examples, rising", symbol="n", low=2)
    decay: float = setting(1.2, "exponent of the falling intensities", low=0.1, high=5)
    noise: float = setting(0.3, "standard deviation of the labels' noise", symbol="σ", low=0)
    draws: int = setting(200, "data sets", low=20)
    seed: int = setting(0, "seed of the data sets", low=0)

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Prediction and Monte Carlo mean with its standard error, for every number of examples."""
        import xarray as xr

        k, rho, v = self._task()
        told = learnability(rho, list(self.examples), 0.0, v, self.noise)
        rows = []
        for i, n in enumerate(self.examples):
            progress(f"{self.draws} data sets of {n} examples", i / len(self.examples))
            rng = np.random.default_rng([self.seed, n])
            rows.append(sample_learnability(rho, n, 0.0, v, self.noise, draws=self.draws, rng=rng))
        seen = xr.concat(rows, "n", combine_attrs="drop")
        pick = lambda name, which: seen[name].sel(statistic=which, drop=True)
        made = told[["kappa", "learnability", *ERRORS]].assign_coords(mode=k)
        for name in ("learnability", *ERRORS):
            made[f"measured_{name}"] = pick(name, "mean")
            made[f"error_of_{name}"] = pick(name, "standard error")
        made.attrs = {}
        return made

    @claim("L_k = ρ_k/(ρ_k + κ) is the mean fraction that is learned along e_k", NAM24["Eq. 1.35"])
    def fractions(self, ds: xr.Dataset) -> Verdict:
        """N2: every mode within three standard errors, but for the share that chance takes out."""
        off = abs(ds.measured_learnability - ds.learnability) / ds.error_of_learnability
        inside = (off <= 3).mean("mode").values
        relative = abs(ds.measured_learnability.isel(mode=0) / ds.learnability.isel(mode=0) - 1).values
        said = ", ".join(f"n = {n}: {share:.1%}" for n, share in zip(self.examples, inside, strict=True))
        return Verdict.of(
            inside[-1] >= 0.97, f"modes within 3 standard errors: {said}",
            "at least 97 % at the largest n (chance: 99.7 %; the equation is asymptotic in n)", self._scale(ds),
            f"the first mode's fraction is off by {relative[0]:.1%} at the smallest n, {relative[-1]:.2%} at the "
            "largest",
        )  # fmt: skip

    @claim("Σ L_k = n: the examples are shared out among the features", NAM24["Eq. 1.35"])
    def conserved(self, ds: xr.Dataset) -> Verdict:
        """The theory's sum and that of every drawn fit, a projector of rank n."""
        told = float(abs(ds.learnability.sum("mode") / ds.n - 1).max())
        seen = float(abs(ds.measured_learnability.sum("mode") / ds.n - 1).max())
        return Verdict.of(
            max(told, seen) < 1e-9, f"largest |ΣL/n − 1|: theory {told:.1e}, drawn data {seen:.1e}", "0, to rounding",
            self._scale(ds),
        )  # fmt: skip

    @claim("the larger eigenvalues lead to larger learnability", NAM24["Sec. 1.6"])
    def preference(self, ds: xr.Dataset) -> Verdict:
        """Rank correlation of intensity and measured fraction, over the modes in falling order."""
        from scipy.stats import spearmanr

        rank = [float(spearmanr(-ds["mode"], row).statistic) for row in ds.measured_learnability.values]
        # Where almost nothing is learned the order of neighbours is noise.
        return Verdict.of(
            min(rank) > 0.9, f"rank correlations {np.round(rank, 3).tolist()}", "above 0.9", self._scale(ds)
        )

    @claim("the same κ predicts the generalisation error", NAM24["Sec. 1.6.1"])
    def errors(self, ds: xr.Dataset) -> Verdict:
        """N2: on noisy labels and on the target itself."""
        said, holds = [], True
        for name, words in ERRORS.items():
            last = ds.isel(n=-1)
            gap = float(last[f"measured_{name}"] - last[name])
            errors = gap / float(last[f"error_of_{name}"])
            holds &= abs(errors) <= 3
            said.append(
                f"{words} {float(last[f'measured_{name}']):.4f}, predicted {float(last[name]):.4f} ({errors:+.1f} s.e.)"
            )
        first = float(ds.measured_clean_error[0] / ds.clean_error[0] - 1)
        return Verdict.of(
            holds, f"n = {self.examples[-1]}: " + "; ".join(said), "within 3 standard errors at the largest n",
            self._scale(ds), f"at n = {self.examples[0]} the error is off by {first:+.1%}",
        )  # fmt: skip

    def figure(self, ds: xr.Dataset) -> Figure:
        """Learnability against the mode, and the errors against n."""
        left: list[Mark] = []
        for n in ds.n.values:
            here, words = ds.sel(n=n), f"n = {n:g}"
            left.append(
                mark("line", ds["mode"], here.learnability, role="exact", colour=words, label=words, group=words)
            )
            shown = np.unique(np.geomspace(1, ds.sizes["mode"], 25).astype(int)) - 1
            points = here.measured_learnability.isel(mode=shown)
            left.append(mark("points", ds["mode"][shown], points, role="measured", colour=words, group=words))
        right: list[Mark] = []
        _, rho, v = self._task()
        fine = learnability(rho, np.geomspace(self.examples[0], self.examples[-1], 60), 0.0, v, self.noise)
        for name, words in ERRORS.items():
            right.append(mark("line", fine.n, fine[name], role="exact", colour=words, label=words, group=words))
            right.append(mark("points", ds.n, ds[f"measured_{name}"], role="measured", colour=words, group=words))
        return Figure(
            (
                Panel(tuple(left), x="k: feature, by falling intensity", y="L: learned fraction", x_log=True,
                    title="(a)"),
                Panel(tuple(right), x="n: examples", y="mean square error", x_log=True, y_log=True, title="(b)"),
            ),
            self.title,
            f"Lines: eigenlearning equations. Points: mean over {self.draws} drawn data sets with {self.modes} "
            "Gaussian "
            f"features, ρ = k^−{self.decay:g}, σ = {self.noise:g}; standard errors are smaller than the points, but "
            "for "
            "the smallest fractions. After NAM24 Eq. 1.35.",
        )  # fmt: skip

    def _task(self) -> tuple[Floats, Floats, Floats]:
        """k, intensities and the target's coefficients."""
        k = np.arange(1.0, self.modes + 1)
        return k, k**-self.decay, np.where(k % 3 == 0, -1.0, 1.0) * k**-0.8

    def _scale(self, ds: xr.Dataset) -> str:
        sizes = ", ".join(f"{n:g}" for n in ds.n.values)
        return f"p = {self.modes}, n = {sizes}, {self.draws} data sets each, Gaussian features"
