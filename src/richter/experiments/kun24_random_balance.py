"""KUN24 App. B.2: whether Gaussian layers become isotropically balanced as the width grows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.figure import Figure, Panel
from richter.figure.data import Mark, mark
from richter.refs import KUN24

if TYPE_CHECKING:
    import xarray as xr

MEASURES = {
    "frobenius": "Frobenius norm, relative",
    "spectral": "spectral norm, relative",
    "entry": "largest entry over the diagonal's mean",
}
GAPS = {"hidden": "W₂ᵀW₂ − W₁W₁ᵀ", "last": "aaᵀ − WWᵀ − δI, last layer", "fan": "W Wᵀ − I, √d neurons"}
LIMITS = {("hidden", "frobenius"): 1.0, ("last", "frobenius"): np.sqrt(0.5)}  # free probability, d → ∞


@dataclass(frozen=True, kw_only=True)
class RandomBalance(AbstractExperiment):
    """Relative size of what keeps Gaussian layers of variance 1/width from Definition B.7."""

    name = "kun24-random-balance"
    title = "Gaussian layers are not isotropically balanced"
    statement = (
        "The isotropic, balanced structure of Definition B.7 is naturally achieved in the high-dimensional limit under "
        "a standard Gaussian initialization with a variance inversely proportional with width."
    )
    places = (KUN24["Definition B.7"], KUN24["App. B.2"])
    presets = {
        "smoke": {"widths": (16, 32, 64, 128), "draws": 6},
        "laptop": {},
        "paper": {"widths": (32, 64, 128, 256, 512, 1024, 2048), "draws": 20},
    }
    widths: tuple[int, ...] = setting((32, 64, 128, 256, 512, 1024), "widths, all layers alike", symbol="d", low=8)
    draws: int = setting(8, "networks at each width", low=2, high=1000)
    seed: int = setting(0, "seed of the draws", low=0)

    known_failures = {
        "balanced": "W Wᵀ of a square Gaussian layer keeps the Marchenko–Pastur spread of its eigenvalues, 0 to 4, at "
        "any width: the relative gaps tend to 1 and √½, not to 0. Only single entries do, with 1/√d, and whole layers "
        "if they have many more inputs than neurons."
    }

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Two successive hidden layers and the last one, and a layer of √d neurons on d inputs."""
        import xarray as xr

        made = np.empty((len(GAPS), len(MEASURES), len(self.widths), self.draws))
        for j, d in enumerate(self.widths):
            progress(f"width {d}", j / len(self.widths))
            for k in range(self.draws):
                rng = np.random.default_rng([self.seed, d, k])
                first, second, third = rng.standard_normal((3, d, d)) / np.sqrt(d)
                a, few = rng.standard_normal(d) / np.sqrt(d), round(np.sqrt(d))
                top = np.outer(a, a) - third @ third.T
                narrow = rng.standard_normal((few, d)) / np.sqrt(d)
                gaps = (
                    (second.T @ second - first @ first.T, first @ first.T),
                    (top - np.trace(top) / d * np.eye(d), third @ third.T),
                    (narrow @ narrow.T - np.eye(few), narrow @ narrow.T),
                )
                for i, (gap, size) in enumerate(gaps):
                    made[i, :, j, k] = (
                        np.linalg.norm(gap) / np.linalg.norm(size), np.linalg.norm(gap, 2) / np.linalg.norm(size, 2),
                        np.abs(gap).max() / (np.trace(size) / len(size)),
                    )  # fmt: skip
        return xr.Dataset(
            {"gap": (("part", "measure", "width", "draw"), made, {"long_name": "relative gap from isotropic balance"})},
            {"part": list(GAPS), "measure": list(MEASURES), "width": list(self.widths)},
        )

    @claim("this parameterization is naturally achieved in the high-dimensional limit as d → ∞ under a standard "
           "Gaussian initialization with a variance inversely proportional with width", KUN24["App. B.2"])  # fmt: skip
    def balanced(self, ds: xr.Dataset) -> Verdict:
        """K24: powers of the gaps in d, in norm and entry by entry, with their spread over draws."""
        power = {(part, measure): self._power(ds, part, measure) for part in ("hidden", "last") for measure in MEASURES}
        last = ds.gap.isel(width=-1).mean("draw")
        norm = {part: float(last.sel(part=part, measure="frobenius")) for part in ("hidden", "last")}
        spread = float(ds.gap.isel(width=-1).sel(measure="frobenius").std("draw").max())
        shrinks = all(
            power[part, measure] < -0.25 for part in ("hidden", "last") for measure in ("frobenius", "spectral")
        )
        return Verdict.of(
            shrinks,
            f"relative to W Wᵀ the gap is {norm['hidden']:.3f} between hidden layers, {norm['last']:.3f} at the last "
            f"(power {power['hidden', 'frobenius']:.3f} and {power['last', 'frobenius']:.3f} of d), in spectral norm "
            f"{float(last.sel(part='hidden', measure='spectral')):.2f} and "
            f"{float(last.sel(part='last', measure='spectral')):.2f}; the largest entry falls with power "
            f"{power['hidden', 'entry']:.2f} and {power['last', 'entry']:.2f}; √d neurons on d inputs do become "
            f"isotropic (power {self._power(ds, 'fan', 'frobenius'):.2f})",
            "gaps that vanish with the width: a negative power in norm",
            self._scale(ds),
            f"standard deviation over draws at the largest width {spread:.1e}",
        )

    def figure(self, ds: xr.Dataset) -> Figure:
        """Gaps against width, one panel per measure."""
        panels = []
        for letter, (measure, words) in zip("abc", MEASURES.items(), strict=True):
            marks: list[Mark] = []
            for part, what in GAPS.items():
                row = ds.gap.sel(part=part, measure=measure)
                marks.append(mark("band", ds.width, row.min("draw"), high=row.max("draw"), role="measured", colour=what,
                                  group=what))  # fmt: skip
                marks.append(mark("line", ds.width, row.mean("draw"), role="measured", colour=what, label=what,
                                  group=what))  # fmt: skip
                if (part, measure) in LIMITS:
                    marks.append(mark("hline", y=float(LIMITS[part, measure]), role="exact", label="limit"))
            panels.append(Panel(tuple(marks), x="d: width", y=words, x_log=True, y_log=True, title=f"({letter})"))
        return Figure(
            tuple(panels),
            "Gaussian layers are not isotropically balanced",
            "What keeps Gaussian layers of variance 1/width from isotropic balance, relative to W Wᵀ: mean and range "
            f"over {ds.sizes['draw']} draws, with the limits of free probability. Between square layers it does not "
            "shrink with the width in norm, only entry by entry. On KUN24 App. B.2.",
        )

    def _power(self, ds: xr.Dataset, part: str, measure: str) -> float:
        row = ds.gap.sel(part=part, measure=measure).mean("draw")
        return float(np.polyfit(np.log(ds.width), np.log(row), 1)[0])

    def _scale(self, ds: xr.Dataset) -> str:
        return f"widths {', '.join(str(d) for d in self.widths)}, {ds.sizes['draw']} draws each"
