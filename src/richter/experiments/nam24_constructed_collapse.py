"""NAM24 §2.5 and App. D: features of a minimum-projection operator are collapsed, and only those."""

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
from richter.maths.projections import (
    class_indicators,
    collapsed_products,
    minimum_projection,
    minimum_projection_distance,
)
from richter.probes import neural_collapse
from richter.refs import NAM24

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
METRICS = {
    "within_over_between": "NC1", "equinorm": "NC2, lengths", "equiangle": "NC2, angles", "duality": "NC3",
        "disagreement": "NC4"
}  # fmt: skip
DRAWN = {"projection_distance": "κ_CKA", "within_quotient": "NC1: Tr Σ_W/Tr Σ_B", "equiangle": "NC2, angles"}


@dataclass(frozen=True, kw_only=True)
class ConstructedCollapse(AbstractExperiment):
    """Features built from a minimum-projection operator, bent away from it step by step, or of another operator."""

    name = "nam24-constructed-collapse"
    title = "Minimum features are collapsed features"
    statement = (
        "If the features' operator is a minimum-projection operator on the span of the classes, the features of the "
        "last "
        "layer show neural collapse, NC1 to NC4; both distances vanish together."
    )
    places = (
        NAM24["Sec. 2.5"],
        NAM24["Proposition 2.5.1"],
        NAM24["Proposition 2.5.2"],
        NAM24["Proposition 2.5.3"],
        NAM24["App. D"],
    )
    presets = {"smoke": {"draws": 6}, "laptop": {}, "paper": {"draws": 1000}}
    most_classes: int = setting(12, "classes of the operators, from 2 to this many", symbol="C", low=2, high=100)
    examples: int = setting(15, "examples of each class", low=2, high=500)
    extra: int = setting(40, "features beyond the classes", low=1, high=500)
    draws: int = setting(60, "random operators", low=3)
    bends: tuple[float, ...] = setting(
        (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0), "sizes of other features, over the classes'", low=1e-9
    )
    seed: int = setting(0, "seed of the operators", low=0)

    def _features(
        self, rng: np.random.Generator, classes: int, spread: float = 0.0
    ) -> tuple[Floats, Floats, NDArray[np.intp], float]:
        """Features with operator a₁|1⟩⟨1| + a₂P, in a random basis; their indicators, labels and a₂.

        `spread` > 0 gives the directions of the classes different intensities: no minimum-projection operator.
        """
        labels = rng.permutation(np.arange(classes * self.examples) % classes)
        f = class_indicators(labels, classes)
        a1, a2 = 10 ** rng.uniform(-2, 2, 2)
        values, vectors = np.linalg.eigh(minimum_projection(f, a1, a2) / labels.size)
        phi = vectors * np.sqrt(np.maximum(values, 0.0) * labels.size)
        phi = phi[:, -classes:]
        if spread:
            turn, _ = np.linalg.qr(rng.standard_normal((classes, classes)))
            phi = phi @ turn * (1 + spread * np.arange(classes))
        wide = np.concatenate([phi, np.zeros((labels.size, self.extra))], axis=1)
        rotation, _ = np.linalg.qr(rng.standard_normal((wide.shape[1],) * 2))
        return wide @ rotation, f, labels, float(a2)

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Collapse of constructed, bent and unequal features, last layers fitted by least squares."""
        import xarray as xr

        made = {name: np.empty(self.draws) for name in METRICS}
        gram, kappa, control = np.empty(self.draws), np.empty(self.draws), np.empty((2, self.draws))
        bent = {name: np.empty((self.draws, len(self.bends))) for name in DRAWN}
        for i in range(self.draws):
            progress("operators", i / self.draws)
            rng = np.random.default_rng([self.seed, i])
            classes = int(rng.integers(2, self.most_classes + 1))
            phi, f, labels, a2 = self._features(rng, classes)
            found = neural_collapse(phi, labels, *_last_layer(phi, labels))
            for name in METRICS:
                made[name][i] = found[name]
            means = np.array([phi[labels == k].mean(axis=0) for k in range(classes)])
            centred = means - means.mean(axis=0)
            told = collapsed_products(classes, a2)
            gram[i] = np.abs(centred @ centred.T - told).max() / np.abs(told).max()
            kappa[i] = minimum_projection_distance(phi, f)
            other = rng.standard_normal(phi.shape)
            size = np.linalg.norm(centred[labels]) / np.linalg.norm(other)
            for j, bend in enumerate(self.bends):
                here = phi + bend * size * other
                metrics = neural_collapse(here, labels)
                metrics["projection_distance"] = minimum_projection_distance(here, f)
                for name in DRAWN:
                    bent[name][i, j] = metrics[name]
            unequal, _, sorted_labels, _ = self._features(rng, max(3, classes), spread=0.5)
            there = neural_collapse(unequal, sorted_labels)
            control[:, i] = there["within_over_between"], there["equiangle"]
        return xr.Dataset(
            {
                **{name: ("draw", row, {"long_name": METRICS[name]}) for name, row in made.items()},
                "gram_gap": ("draw", gram, {"long_name": "class means' products against a₂(Cδ − 1), relative"}),
                "projection_distance": ("draw", kappa, {"long_name": "κ_CKA"}),
                **{f"bent_{name}": (("draw", "bend"), row, {"long_name": DRAWN[name]}) for name, row in bent.items()},
                "unequal": (("metric", "draw"), control, {"long_name": "features of rank C with unequal intensities"}),
            },
            {"bend": ("bend", list(self.bends)), "metric": ["NC1", "NC2, angles"]},
        )  # fmt: skip

    @claim("a minimum-projection operator implies NC1 and NC2", NAM24["Proposition 2.5.1"], NAM24["Proposition 2.5.2"])
    def collapses(self, ds: xr.Dataset) -> Verdict:
        """N8: all metrics of constructed features; the class means' products are those of a simplex."""
        worst = {
            words: float(ds[name].max())
            for name, words in METRICS.items()
            if name in ("within_over_between", "equinorm", "equiangle")
        }
        gram, kappa = float(ds.gram_gap.max()), float(ds.projection_distance.max())
        return Verdict.of(
            max(*worst.values(), gram, kappa) < 1e-8,
            "; ".join(f"{words} {value:.0e}" for words, value in worst.items()) + f"; products off by {gram:.0e}; "
                f"κ_CKA {kappa:.0e}",
            "0, to rounding (1e-8)", self._scale(ds),
        )  # fmt: skip

    @claim("NC3 and NC4 follow", NAM24["Sec. 2.5"], NAM24["App. D"])
    def follows(self, ds: xr.Dataset) -> Verdict:
        """N8: a last layer with bias fitted to the one-hot labels by least squares of minimum norm."""
        dual, wrong = float(ds.duality.max()), float(ds.disagreement.max())
        return Verdict.of(
            dual < 1e-6 and wrong == 0, f"NC3 at most {dual:.0e}, NC4 at most {wrong:g}", "0 both", self._scale(ds)
        )

    @claim("κ_CKA and neural collapse vanish together", NAM24["Sec. 2.5"])
    def together(self, ds: xr.Dataset) -> Verdict:
        """N8: powers of the size of other features: 2 for Tr Σ_W/Tr Σ_B, at least 1 for the angles; κ_CKA with them."""
        small = ds.isel(bend=np.flatnonzero((ds.bend.values >= 1e-5) & (ds.bend.values <= 1e-2)))
        if small.sizes["bend"] < 3:
            return Verdict.undecided("fewer than three sizes between 1e-5 and 1e-2", "three", self._scale(ds))
        x = np.log(small.bend.values)
        powers = {}
        for name, words in DRAWN.items():
            row = small[f"bent_{name}"].median("draw").values
            good = row > 1e-14
            powers[words] = float(np.polyfit(x[good], np.log(row[good]), 1)[0]) if good.sum() > 1 else np.nan
        quotient, angle = powers[DRAWN["within_quotient"]], powers[DRAWN["equiangle"]]
        last = float(ds.bent_projection_distance.isel(bend=-1).median())
        rising = bool((ds.bent_projection_distance.median("draw").diff("bend").isel(bend=slice(2, None)) > 0).all())
        return Verdict.of(
            abs(quotient - 2) < 0.1 and angle > 0.9 and rising and last > 0.1,
            "powers of the size of the other features: " + ", ".join(f"{words} {power:.2f}" for words,
                power in powers.items())
            + f"; at size {self.bends[-1]:g} κ_CKA = {last:.2f}",
            "2 ± 0.1 for NC1, at least 0.9 for the angles, κ_CKA rising to above 0.1", self._scale(ds),
        )  # fmt: skip

    @claim("not every operator of rank C will do: the intensities must be equal", NAM24["Eq. 2.8"])
    def unequal(self, ds: xr.Dataset) -> Verdict:
        """Rank C with unequal intensities: NC1, but no simplex (control)."""
        nc1, angle = float(ds.unequal.sel(metric="NC1").max()), float(ds.unequal.sel(metric="NC2, angles").min())
        return Verdict.of(
            nc1 < 1e-8 and angle > 1e-3,
            f"NC1 at most {nc1:.0e}; NC2, angles at least {angle:.2g}",
            "0; not 0",
            self._scale(ds),
        )

    def figure(self, ds: xr.Dataset) -> Figure:
        """κ_CKA and the metrics of collapse against the size of other features."""
        marks: list[Mark] = []
        for name, words in DRAWN.items():
            row = ds[f"bent_{name}"].clip(min=1e-17)
            marks.append(
                mark(
                    "band",
                    ds.bend,
                    row.quantile(0.05, "draw"),
                    high=row.quantile(0.95, "draw"),
                    colour=words,
                    group=words,
                )
            )
            marks.append(mark("line", ds.bend, row.median("draw"), colour=words, label=words, group=words))
            marks.append(mark("points", ds.bend, row.median("draw"), colour=words, group=words))
        panel = Panel(
            tuple(marks),
            x="size of other features, over the class means'",
            y="distance from collapse",
            x_log=True,
            y_log=True,
        )
        return Figure(
            (panel,), self.title,
            f"Features of minimum-projection operators with 2 to {self.most_classes} classes and random other "
            "features added: median, 5 % "
            f"and 95 % of {self.draws} operators. After NAM24 Section 2.5.",
        )  # fmt: skip

    def _scale(self, ds: xr.Dataset) -> str:
        return (
            f"{ds.sizes['draw']} random operators, C from 2 to {self.most_classes}, {self.examples} examples of "
            "each class"
        )


def _last_layer(phi: Floats, labels: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Weight (class, feature) and bias fitted to one-hot labels: least squares of minimum norm on centred features."""
    Y = np.eye(labels.max() + 1)[labels]
    centre, level = phi.mean(axis=0), Y.mean(axis=0)
    weight = (np.linalg.pinv(phi - centre, rcond=1e-9) @ (Y - level)).T
    return weight, level - weight @ centre
