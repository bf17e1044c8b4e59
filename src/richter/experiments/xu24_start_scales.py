"""XU24 Fig. 5: at one width, the scale of the start alone leads from feature learning to the kernel phase."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.image_runs import SETS, drawn, image_task, interval, minus
from richter.experiments.settings import setting
from richter.experiments.teacher_student_runs import part
from richter.figure import Figure, Panel
from richter.figure.data import Mark, mark
from richter.maths.power_fit import PowerFit, fit_power
from richter.maths.scaling_limits import start_scaling
from richter.refs import XU24
from richter.regime import WIDTH_POWER
from richter.training import train_many

if TYPE_CHECKING:
    import xarray as xr

WAYS = ("drawn", "zero output")
SEEN = ("train_loss", "train_accuracy", "test_accuracy", "kernel_distance", "parameter_distance")
PUBLISHED = 5.0  # points of test accuracy
FULL = 0.99  # a training accuracy that counts as all of them
STILL = 0.005  # accuracy gained between the last two looks, above which a network is still learning


@dataclass(frozen=True, kw_only=True)
class StartScales(AbstractExperiment):
    """Two-layer ReLU networks of one width whose start and output scale are powers κ^c, trained on images."""

    name = "xu24-start-scales"
    title = "The scale of the start on real images"
    statement = (
        "At a fixed width the scale of the start decides the phase: with σ_w² = κ^c, σ_u² = κ^max(c, 0) and γ = "
        "κ^min(−c/2, 0) a network learns features for c ≤ 0 and is a kernel for c > 0."
    )
    places = (XU24["Fig. 5"], XU24["Sec. 4.2"], XU24["App. B.4"])
    presets = {
        "smoke": {
            "images": "digits", "pool": 1, "width": 128, "powers": (-1.0, 0.0, 0.5, 1.0, 1.5), "train": 512,
            "test": 200, "steps": 150, "draws": 2, "points": 20,
        },
        "laptop": {},
        "paper": {"pool": 1, "width": 2000, "train": 50_000, "test": 10_000, "steps": 3_900_000},
    }  # fmt: skip
    known_failures = {
        "fits": "a fixed kernel too fits a few hundred or thousand images, given the time: it is of full rank on them.",
    }
    images: str = setting("cifar10", "image set", choices=SETS)
    pool: int = setting(2, "side of the squares of pixels that are averaged", low=1, high=16)
    train: int = setting(2000, "training images", low=100)
    test: int = setting(2000, "test images", low=50)
    width: int = setting(512, "hidden neurons, even", symbol="d", low=8)
    kappa: float = setting(10.0, "what the powers are taken of", symbol="κ", low=1.5)
    powers: tuple[float, ...] = setting((-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5), "exponents", symbol="c", low=-4, high=4)
    base: int = setting(16, "neurons of the network that the mean-field scaling of c = 0 begins with", low=1)
    rate: float = setting(20.0, "learning rate of that network, where the kernel is of size 1", symbol="η", low=1e-3)
    batch: int = setting(128, "images per step", low=1)
    steps: int = setting(500, "steps of SGD", low=10, high=10**8)
    draws: int = setting(3, "networks of each exponent", low=2)
    points: int = setting(100, "images that the kernel is taken on, all its outputs", low=2)
    seed: int = setting(0, "seed of networks and images", low=0)

    def scales(self) -> list[tuple[float, float, float, float]]:
        """Standard deviations of u and w, γ and the rate's factor for every c; c = 0 is mean field at this width."""
        made = []
        for c in self.powers:
            c_u, c_gamma, _ = (float(x) for x in start_scaling(c))
            gamma = self.base**0.5 / self.width * self.kappa**c_gamma
            made.append((self.kappa ** (c_u / 2), self.kappa ** (c / 2), gamma, self.width / self.base))
        return made

    def run(self, progress: Progress = silent, store: Path | None = None) -> xr.Dataset:
        """Losses, accuracies and distances over the way the start is made, c, draw and step."""
        import xarray as xr

        task = image_task(self.images, self.train, self.test, self.pool, self.seed)
        looks = [0, *np.unique(np.geomspace(self.steps / 16, self.steps, 9).round().astype(int))]
        sizes = (task.inputs.shape[1], self.width, task.outputs)
        made = []
        for k, way in enumerate(WAYS):
            nets, factors = drawn(self.scales(), sizes, self.draws, self.seed, mirrored=way == "zero output")
            run = train_many(
                nets, task, steps=self.steps, rate=self.rate * factors, batch=self.batch, loss="cross-entropy",
                moments=looks, see=SEEN, kernel="full", points=self.points, seed=self.seed,
                checkpoints=None if store is None else store / way.replace(" ", "-"),
                progress=part(progress, way, k / len(WAYS), (k + 1) / len(WAYS)),
            )  # fmt: skip
            ds = run.dataset.drop_vars(["rate", "t"]).rename(kernel_distance_full="kernel_distance")
            size = np.sqrt(sum((x.astype(float) ** 2).sum(axis=(1, 2)) for x in nets.weights))
            ds["parameter_distance"] = ds.parameter_distance / xr.DataArray(size, dims="start")
            seen = nets(task.inputs[: self.points])
            ds["output_start"] = ("start", np.sqrt((seen**2).mean(axis=(1, 2))))
            made.append(ds)
        both = xr.concat(made, "way", combine_attrs="drop")
        grid = (len(WAYS), len(self.powers), self.draws)
        fold = lambda v: v.transpose("way", "start", ...).values.reshape(*grid, *v.shape[2:])
        return xr.Dataset(
            {name: (("way", "power", "draw", *v.dims[2:]), fold(v)) for name, v in both.data_vars.items()},
            {"way": list(WAYS), "power": list(self.powers), "step": both.step},
        )

    @claim("the weight matrices evolve significantly in the feature learning phase but not the kernel phase",
           XU24["Fig. 5"])  # fmt: skip
    def weights(self, ds: xr.Dataset) -> Verdict:
        """X12: the relative distance from a start of zero output, as a power of κ^c for c > 0 (theory: −1/2)."""
        return self._falls(ds, "parameter_distance")

    @claim("the network is in the kernel phase if and only if c_w > 0", XU24["Sec. 4.2"])
    def kernel(self, ds: xr.Dataset) -> Verdict:
        """X12: the kernel's distance from a start of zero output, as a power of κ^c for c > 0, and not for c < 0."""
        return self._falls(ds, "kernel_distance")

    @claim("the training accuracy can reach 1.0 in the feature learning phase but not the kernel phase, because the "
           "NTK is fixed", XU24["Fig. 5"])  # fmt: skip
    def fits(self, ds: xr.Dataset) -> Verdict:
        """X12: training accuracies at the end; undecided while the kernel's still grows."""
        part = ds.train_accuracy.sel(way="zero output").mean("draw")
        feature, kernel = part.where(part.power < 0, drop=True), part.sel(power=max(self.powers))
        best, last = float(feature.isel(step=-1).max()), float(kernel.isel(step=-1))
        gained = last - float(kernel.isel(step=-2))
        measured = f"c < 0 up to {best:.3f}; c = {max(self.powers):g} {last:.3f}, {gained:+.3f} since the look before"
        expected = f"above {FULL:g}; below, and no longer growing"
        if best < FULL or (last < FULL and gained > STILL):
            return Verdict.undecided(f"still learning; {minus(measured)}", expected, self._scale(ds))
        return Verdict.of(last < FULL, minus(measured), expected, self._scale(ds))

    @claim("the test accuracy is about 5 % higher in the feature learning phase due to its trainable kernel",
           XU24["Sec. 4.2"])  # fmt: skip
    def accuracy(self, ds: xr.Dataset) -> Verdict:
        """X12: best test accuracies at the smallest c over those at the largest, as drawn and from zero output."""
        best = ds.test_accuracy.max("step")
        ends = best.sel(power=min(self.powers)) - best.sel(power=max(self.powers))
        gaps = [interval(ends.sel(way=way).values) for way in WAYS]
        said = "; ".join(f"{w} {100 * g:+.1f} ± {100 * r:.1f}" for w, (g, r) in zip(WAYS, gaps, strict=True))
        first = ds.output_start.sel(way="drawn", power=max(self.powers)).mean()
        measured = minus(f"points, {said}; first output as drawn at the largest c {float(first):.2g}")
        expected = "+5 points from zero output, within a factor of 2"
        gap, reach = gaps[1]
        close = PUBLISHED / 2 <= 100 * gap <= 2 * PUBLISHED
        if self.images != "cifar10":
            return Verdict.undecided(f"other images; {measured}", expected, self._scale(ds))
        if not close and self.train < 50_000 and gap + reach > 0:
            return Verdict.undecided(f"too few images to compare sizes; {measured}", expected, self._scale(ds))
        return Verdict.of(close, measured, expected, self._scale(ds), "95 % intervals over networks")

    def power(self, ds: xr.Dataset, name: str) -> PowerFit:
        """The power of κ^c with which a distance from zero output goes for c > 0: every network is a point."""
        last = ds[name].isel(step=-1).sel(way="zero output").transpose("power", "draw")
        last = last.where(last.power > 0, drop=True)
        return fit_power(np.repeat(self.kappa**last.power.values, last.sizes["draw"]), last.values.ravel())

    def _falls(self, ds: xr.Dataset, name: str) -> Verdict:
        fit = self.power(ds, name)
        low, high = fit.exponent_interval
        last = ds[name].isel(step=-1).sel(way="zero output").mean("draw")
        least = float((last.where(last.power < 0, drop=True) / last.sel(power=0.0)).min())
        measured = (
            f"power {fit.exponent:+.2f} [{low:+.2f}, {high:+.2f}] for c > 0; at c < 0 at least {least:.2f} of c = 0"
        )
        expected = f"an interval below −{WIDTH_POWER:g}; at least half"
        if low < -WIDTH_POWER <= high:
            return Verdict.undecided(
                f"the interval holds −{WIDTH_POWER:g}; {minus(measured)}", expected, self._scale(ds)
            )
        return Verdict.of(high < -WIDTH_POWER and least > 0.5, minus(measured), expected, self._scale(ds))

    def figure(self, ds: xr.Dataset) -> Figure:
        """Distances and accuracies against c, as drawn and from zero output."""
        panels = []
        for letter, name, words, log in (
            ("a", "kernel_distance", "1 − cosine of the kernel to its start", True),
            ("b", "parameter_distance", "‖θ − θ₀‖/‖θ₀‖: relative distance of the weights", True),
            ("c", "train_accuracy", "training accuracy at the end", False),
            ("d", "test_accuracy", "best test accuracy", False),
        ):
            rows = ds[name].max("step") if name == "test_accuracy" else ds[name].isel(step=-1)
            marks: list[Mark] = []
            for way in WAYS:
                row = rows.sel(way=way)
                low, high = row.min("draw"), row.max("draw")
                marks.append(mark("band", ds.power, low, high=high, role="measured", colour=way, group=way))
                for kind, label in (("line", f"start: {way}"), ("points", "")):
                    mean = row.mean("draw")
                    marks.append(mark(kind, ds.power, mean, role="measured", colour=way, label=label, group=way))  # type: ignore[arg-type]
            panels.append(Panel(tuple(marks), x="c", y=words, y_log=log, title=f"({letter})"))
        return Figure(
            tuple(panels),
            self.title,
            f"Two-layer ReLU networks: {self._scale(ds)}. σ_w² = κ^c, σ_u² = κ^max(c, 0), γ ∝ κ^min(−c/2, 0), κ = "
            f"{self.kappa:g}: feature learning for c ≤ 0, a kernel for c > 0. As drawn the first output grows like "
            "κ^(c/2), which the paper takes for of order 1. Bands: all networks. After XU24 Fig. 5.",
        )

    def _scale(self, ds: xr.Dataset) -> str:
        powers = ", ".join(f"{c:g}" for c in ds.power.values)
        return (
            f"{self.train} images of {self.images}; {self.width} neurons, {self.steps:,} steps of SGD, batch "
            f"{self.batch}; c = {minus(powers)}; {ds.sizes['draw']} networks each"
        )
