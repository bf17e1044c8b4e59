"""NAM24 §3.5: a linear network from a small start ends with as many features as classes, and collapses."""

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
from richter.maths.linear_network import descend, layer_difference
from richter.probes import neural_collapse
from richter.refs import NAM24

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
INPUTS = {"free features": "X = I, the unconstrained feature model", "random inputs": "Gaussian inputs, random labels"}
METRICS = {
    "within_quotient": "NC1, Tr Σ_W/Tr Σ_B", "equiangle": "NC2, angles", "duality": "NC3, centred weights",
    "orthogonal": "largest cosine of two class means",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LinearCollapse(AbstractExperiment):
    """Gradient descent of linear networks on one-hot labels, from starts of several sizes."""

    name = "nam24-linear-collapse"
    title = "Neural collapse of linear networks"
    statement = (
        "A linear network that starts small and balanced ends with features of rank C, the number of classes, each "
        "direction for a class; the labels need no structure for it, only the start must be small."
    )
    places = (NAM24["Sec. 3.5.2"], NAM24["Eq. 3.16"])
    presets = {
        "smoke": {"seeds": 2, "scales": (1.0, 1e-2, 1e-3), "examples": 6},
        "laptop": {},
        "paper": {"seeds": 30, "examples": 50, "neurons": 400},
    }
    classes: int = setting(4, "classes", symbol="C", low=2, high=20)
    examples: int = setting(10, "examples of each class", low=2, high=200)
    neurons: int = setting(60, "hidden neurons", symbol="p", low=4, high=2000)
    scales: tuple[float, ...] = setting(
        (1.0, 0.3, 0.1, 3e-2, 1e-2, 1e-3), "size of the weights at the start, falling", low=1e-8, high=3
    )
    seeds: int = setting(8, "random starts of each size", low=2)
    step: float = setting(0.01, "step of gradient descent", symbol="η", low=1e-5, high=0.05)
    seed: int = setting(0, "first seed", low=0)

    def _problem(self, kind: str, seed: int) -> tuple[Floats, NDArray[np.intp]]:
        """Inputs (example, input) with singular values near 1, and balanced labels."""
        n = self.classes * self.examples
        labels = np.arange(n) % self.classes
        if kind == "free features":
            return np.eye(n), labels
        rng = np.random.default_rng([self.seed, seed, 1])
        return rng.standard_normal((n, 6 * n)) / np.sqrt(6 * n), rng.permutation(labels)

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Singular values of the features XW₁ and of the map, and the metrics of collapse, at the end."""
        import xarray as xr

        shape = (len(INPUTS), len(self.scales), self.seeds)
        n = self.classes * self.examples
        kept = min(3 * self.classes, n, self.neurons)
        values, maps = np.empty((*shape, kept)), np.empty(shape)
        metrics = {name: np.empty(shape) for name in (*METRICS, "residual", "drift", "difference")}
        for i, kind in enumerate(INPUTS):
            for j, scale in enumerate(self.scales):
                for k in range(self.seeds):
                    done = ((i * len(self.scales) + j) * self.seeds + k) / np.prod(shape)
                    progress(f"{kind}, starts of size {scale:g}", float(done))
                    X, labels = self._problem(kind, k)
                    Y = np.eye(self.classes)[labels]
                    rng = np.random.default_rng([self.seed, k])
                    size = scale / np.sqrt(self.neurons)
                    W = (
                        size * rng.standard_normal((X.shape[1], self.neurons)),
                        size * rng.standard_normal((self.neurons, self.classes)),
                    )
                    span = (2 * np.log(1 / min(scale, 0.5)) + 12) / np.sqrt(self.examples) + 8
                    _, first, second = descend(*W, X.T @ X, X.T @ Y, self.step, int(span / self.step), np.zeros(0, int))
                    features = X @ first
                    s = np.linalg.svd(features, compute_uv=False)
                    values[i, j, k] = s[:kept] / s[0]
                    product = np.linalg.svd(first @ second, compute_uv=False)
                    maps[i, j, k] = (product > 1e-3 * product[0]).sum()
                    # Without a bias the rows of W₂ᵀ are orthogonal; what points to μ_i − μ_g is w_i less their mean.
                    weight = second.T - second.T.mean(axis=0)
                    found = neural_collapse(features, labels, weight) | {"orthogonal": _cosine(features, labels)}
                    for name in METRICS:
                        metrics[name][i, j, k] = found[name]
                    metrics["residual"][i, j, k] = np.abs(features @ second - Y).max()
                    start, end = layer_difference(*W), layer_difference(first, second)
                    metrics["drift"][i, j, k] = np.linalg.norm(end - start) / np.linalg.norm(first) ** 2
                    metrics["difference"][i, j, k] = np.linalg.norm(end) / np.linalg.norm(first) ** 2
        dims = ("inputs", "scale", "seed")
        says = {**METRICS, "residual": "largest |f − y|", "drift": "change of W₁ᵀW₁ − W₂W₂ᵀ over ‖W₁‖²",
                "difference": "‖W₁ᵀW₁ − W₂W₂ᵀ‖ over ‖W₁‖² at the end"}  # fmt: skip
        return xr.Dataset(
            {
                "singular_value": ((*dims, "mode"), values, {"long_name": "singular values of XW₁ over the largest"}),
                "map_rank": (dims, maps, {"long_name": "singular values of W₁W₂ above 1e-3 of the largest"}),
                **{name: (dims, value, {"long_name": says[name]}) for name, value in metrics.items()},
            },
            {"inputs": list(INPUTS), "scale": list(self.scales), "mode": np.arange(1, kept + 1)},
        )

    @claim("the feature matrix XW₁ has rank c instead of min(n, p)", NAM24["Sec. 3.5.2"], NAM24["Eq. 3.16"])
    def rank(self, ds: xr.Dataset) -> Verdict:
        """N11: singular value C + 1 of the features over the C-th, and its power against the size of the start."""
        ratio = ds.singular_value.isel(mode=self.classes) / ds.singular_value.isel(mode=self.classes - 1)
        small, large = float(ratio.isel(scale=-1).max()), float(ratio.isel(scale=0).min())
        few = ratio.where(ds.scale <= 0.1, drop=True).mean("seed")
        powers = (
            [float(np.polyfit(np.log(few.scale), np.log(row), 1)[0]) for row in few.values]
            if few.sizes["scale"] > 1
            else []
        )
        fitted = float(ds.residual.isel(scale=-1).max())
        return Verdict.of(
            small < 0.01 and large > 0.1 and fitted < 1e-2 and all(abs(p - 1) < 0.1 for p in powers),
            f"σ_(C+1)/σ_C: at most {small:.1e} from the smallest start, at least {large:.2f} from the largest; ∝ scale^"
            f"{', '.join(f'{p:.2f}' for p in powers)}; rank of W₁W₂ {int(ds.map_rank.isel(scale=-1).max())}",
            "below 0.01, above 0.1 without a small start; power 1: the start's other directions never move",
                self._scale(ds),
        )  # fmt: skip

    @claim("XW₁ collapses into c directions, each mapping to a class: neural collapse", NAM24["Sec. 3.5.2"])
    def collapse(self, ds: xr.Dataset) -> Verdict:
        """N11: NC1 and, for free features, NC2 and NC3, from the smallest start; not from the largest."""
        last, first = ds.isel(scale=-1), ds.isel(scale=0)
        nc1, before = float(last.within_quotient.max()), float(first.within_quotient.min())
        free = last.sel(inputs="free features")
        others = {name: float(free[name].max()) for name in ("equiangle", "duality", "orthogonal")}
        said = [f"Tr Σ_W/Tr Σ_B at most {nc1:.1e} (largest start: at least {before:.2f})"]
        said += [f"{METRICS[name]} {value:.1e}" for name, value in others.items()]
        return Verdict.of(
            nc1 < 1e-2 and before > 0.1 and max(others.values()) < 0.02, "; ".join(said),
            "all below 0.01 or 0.02 from the smallest start, the last three for free features; Tr Σ_W/Tr Σ_B above "
            "0.1 from "
            "the largest", self._scale(ds), "class means are orthogonal before centring, a simplex after it",
        )  # fmt: skip

    @claim(
        "the phenomenon is a by-product of layerwise dynamics, not of internal structure in the data",
        NAM24["Sec. 3.5.3"],
    )
    def labels(self, ds: xr.Dataset) -> Verdict:
        """Inputs and labels without any relation: rank and NC1."""
        here = ds.sel(inputs="random inputs").isel(scale=-1)
        ratio = float(
            (here.singular_value.isel(mode=self.classes) / here.singular_value.isel(mode=self.classes - 1)).max()
        )
        nc1 = float(here.within_quotient.max())
        return Verdict.of(ratio < 0.01 and nc1 < 1e-2,
                          f"random labels: σ_(C+1)/σ_C at most {ratio:.1e}, Tr Σ_W/Tr Σ_B at most {nc1:.1e}",
                          "below 0.01 both", self._scale(ds))  # fmt: skip

    @claim("W₁ᵀW₁ − W₂W₂ᵀ is conserved, so that a small start stays balanced", NAM24["Eq. A.29"], NAM24["Sec. 3.5.2"])
    def balanced(self, ds: xr.Dataset) -> Verdict:
        """Its change by gradient descent, of first order in the step, and its size at the end."""
        drift, left = float(ds.drift.max()), float(ds.difference.isel(scale=-1).max())
        return Verdict.of(
            drift < 2 * self.step and left < 2 * self.step + max(0.0, float(self.scales[-1]) ** 2),
            f"change at most {drift:.1e} of ‖W₁‖²; at the end ‖W₁ᵀW₁ − W₂W₂ᵀ‖ is {left:.1e} of it from the smallest "
            "start",
            f"below twice the step, {2 * self.step:g}", self._scale(ds),
        )  # fmt: skip

    def figure(self, ds: xr.Dataset) -> Figure:
        """Singular values of the features for every start, and the metrics against its size."""
        panels = []
        for letter, kind in zip("ab", INPUTS, strict=True):
            marks: list[Mark] = []
            for scale in self.scales:
                row = ds.singular_value.sel(inputs=kind, scale=scale).median("seed")
                words = f"start {number(scale)}"
                marks += [mark(shape, ds["mode"], row, colour=words, label=words if shape == "line" else "",
                    group=words)
                          for shape in ("line", "points")]  # fmt: skip
            marks.append(mark("vline", x=[self.classes + 0.5], role="guide", label="C classes"))
            panels.append(Panel(tuple(marks), x="singular value of XW₁", y="size over the largest", y_log=True,
                                title=f"({letter}) {kind}"))  # fmt: skip
        lines: list[Mark] = []
        for name, words in METRICS.items():
            row = ds[name].sel(inputs="free features")
            lines.append(mark("band", ds.scale, row.min("seed"), high=row.max("seed"), colour=words, group=words))
            lines.append(mark("line", ds.scale, row.median("seed"), colour=words, label=words, group=words))
        panels.append(Panel(tuple(lines), x="size of the weights at the start", y="distance from collapse", x_log=True,
                            y_log=True, title="(c) free features: collapse"))  # fmt: skip
        return Figure(
            tuple(panels), self.title,
            f"Linear networks of {self.neurons} neurons fitted to one-hot labels of {self.classes} classes with "
            f"{self.examples} "
            f"examples each; {'; '.join(f'{k}: {v}' for k, v in INPUTS.items())}. Medians of {self.seeds} starts. "
            "After NAM24 "
            "Section 3.5.2.",
        )  # fmt: skip

    def _scale(self, ds: xr.Dataset) -> str:
        return (f"C = {self.classes}, {self.examples} examples each, p = {self.neurons}, {ds.sizes['seed']} starts of "
                "each of "
                f"{len(self.scales)} sizes from {self.scales[0]:g} to {self.scales[-1]:g}")  # fmt: skip


def _cosine(features: Floats, labels: NDArray[np.intp]) -> float:
    """The largest cosine between two class means, not centred."""
    means = np.array([features[labels == k].mean(axis=0) for k in np.unique(labels)])
    unit = means / np.linalg.norm(means, axis=1, keepdims=True)
    return float(np.abs(unit @ unit.T - np.eye(len(unit))).max())
