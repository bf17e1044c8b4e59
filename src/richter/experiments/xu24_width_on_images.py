"""XU24 Fig. 4: any start of a two-layer network can be put into either phase, on real images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.image_runs import SETS, VARIANTS, Variant, drawn, image_task, interval, minus, relative, slope
from richter.experiments.settings import setting
from richter.experiments.teacher_student_runs import part
from richter.figure import Figure, Panel
from richter.figure.data import Mark, mark
from richter.maths.power_fit import PowerFit, fit_power
from richter.refs import XU24
from richter.regime import WIDTH_POWER
from richter.training import Networks, train_many

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
KERNEL = tuple(v.name for v in VARIANTS.values() if v.phase == "kernel")
FEATURES = tuple(v.name for v in VARIANTS.values() if v.phase == "feature-learning")
PAIRS = (("Kaiming+", "Kaiming-"), ("Xavier+", "Xavier-"))
SEEN = ("train_loss", "train_accuracy", "test_accuracy", "kernel_distance", "parameter_distance")
PUBLISHED = (5.0, 10.0)  # points of test accuracy: Kaiming, Xavier
MOVED = ("kernel_distance", "parameter_distance")
NEAR = 0.2  # between a fitted and a theoretical power: the widths are finite, and the narrow ones far from the limit


@dataclass(frozen=True, kw_only=True)
class WidthOnImages(AbstractExperiment):
    """Two-layer ReLU networks of many widths in six parametrisations, trained by SGD with cross-entropy on images."""

    name = "xu24-width-on-images"
    title = "Width and phase on real images"
    statement = (
        "Any start of a two-layer network can be put into the kernel or the feature-learning phase by its output scale "
        "and learning rate: as the width grows, kernel and weights stay where they started in the one and go on moving "
        "in the other."
    )
    places = (XU24["Fig. 4"], XU24["Sec. 4.1"], XU24["App. B.3"])
    presets = {
        "smoke": {
            "images": "digits", "pool": 1, "widths": (32, 128, 512), "base": 8, "train": 512, "test": 200,
            "steps": 150, "draws": 2, "points": 20,
        },
        "laptop": {},
        "paper": {
            "pool": 1, "base": 100, "widths": (100, 200, 400, 800, 1600, 3200), "train": 50_000, "test": 10_000,
            "steps": 3_900_000,
        },
    }  # fmt: skip
    known_failures = {
        "because": "with 2000 images all that Xavier⁻ loses is its first output, which grows like √d: from zero output "
        "it does as well as Xavier⁺.",
    }
    images: str = setting("cifar10", "image set", choices=SETS)
    pool: int = setting(2, "side of the squares of pixels that are averaged", low=1, high=16)
    train: int = setting(2000, "training images", low=100)
    test: int = setting(2000, "test images", low=50)
    widths: tuple[int, ...] = setting((64, 128, 256, 512, 1024, 2048), "hidden neurons", symbol="d", low=8)
    base: int = setting(16, "width at which all variants are the same network", low=1)
    rate: float = setting(20.0, "learning rate at the base width, where the kernel is of size 1", symbol="η", low=1e-3)
    batch: int = setting(128, "images per step", low=1)
    steps: int = setting(500, "steps of SGD", low=10, high=10**8)
    draws: int = setting(4, "networks of each variant and width", low=2)
    points: int = setting(100, "images that the kernel is taken on, all its outputs", low=2)
    seed: int = setting(0, "seed of networks and images", low=0)

    def networks(
        self, width: int, inputs: int, outputs: int, names: Sequence[str] = tuple(VARIANTS), mirrored: bool = False
    ) -> tuple[Networks, Floats]:
        """Variants and draws of one width, the variants one after another; and their rates."""
        scales = [VARIANTS[name].scales(width, self.base) for name in names]
        nets, factors = drawn(scales, (inputs, width, outputs), self.draws, self.seed, mirrored)
        return nets, self.rate * factors

    def run(self, progress: Progress = silent, store: Path | None = None) -> xr.Dataset:
        """Losses, accuracies, and how far kernel and weights have moved, over variant, width and draw."""
        import xarray as xr

        task = image_task(self.images, self.train, self.test, self.pool, self.seed)
        shape = task.inputs.shape[1], task.outputs
        looks = [0, *np.unique(np.geomspace(self.steps / 16, self.steps, 9).round().astype(int))]
        folder = lambda name: None if store is None else store / name
        train = partial(
            train_many, task=task, steps=self.steps, batch=self.batch, loss="cross-entropy", moments=looks,
            kernel="full", points=self.points, seed=self.seed,
        )  # fmt: skip
        ahead = 0.9 * np.cumsum([0, *self.widths]) / sum(self.widths)
        made = []
        for k, width in enumerate(self.widths):
            nets, rates = self.networks(width, *shape)
            run = train(
                nets, rate=rates, checkpoints=folder(f"width-{width}"), see=SEEN,
                progress=part(progress, f"width {width}", ahead[k], ahead[k + 1]),
            )  # fmt: skip
            ds = run.dataset.drop_vars(["rate", "t"]).rename(kernel_distance_full="kernel_distance")
            size = np.sqrt(sum((x.astype(float) ** 2).sum(axis=(1, 2)) for x in nets.weights))
            ds["parameter_distance"] = ds.parameter_distance / xr.DataArray(size, dims="start")
            for name, before, after in zip(("w", "u"), nets.weights, run.networks.weights, strict=True):
                ds[f"moved_{name}"] = ("start", relative(before, after))
            seen = nets(task.inputs[: self.points].reshape(-1, shape[0]))
            ds["output_start"] = ("start", np.sqrt((seen**2).mean(axis=(1, 2))))
            made.append(ds)
        nets, rates = self.networks(max(self.widths), *shape, names=("Xavier-",), mirrored=True)
        zero = train(
            nets, rate=rates, checkpoints=folder("zero-output"), see=("train_loss", "test_accuracy"),
            progress=part(progress, "Xavier⁻ from zero output", 0.9, 1.0),
        ).dataset  # fmt: skip
        both = xr.concat(made, "width", combine_attrs="drop")
        grid = (len(VARIANTS), self.draws)
        folded = {
            name: (("variant", "width", "draw", *values.dims[2:]), np.moveaxis(
                values.transpose("width", "start", ...).values.reshape(len(self.widths), *grid, *values.shape[2:]), 0, 1
            ))
            for name, values in both.data_vars.items()
        }  # fmt: skip
        out = xr.Dataset(folded, {"variant": list(VARIANTS), "width": list(self.widths), "step": both.step})
        for name in ("train_loss", "test_accuracy"):
            out[f"zero_{name}"] = (("draw", "step"), zero[name].values)
        says = {
            "output_start": "root mean square of the output at the start",
            "zero_test_accuracy": "test accuracy of the widest Xavier- network from a start of zero output",
            "kernel_distance": "1 − cosine of the kernel, all outputs, to its start",
            "parameter_distance": "‖θ − θ₀‖/‖θ₀‖", "moved_w": "‖ΔW‖/‖W‖, first layer",
            "moved_u": "‖ΔU‖/‖U‖, last layer",
        }  # fmt: skip
        for name, words in says.items():
            out[name].attrs["long_name"] = words
        return out

    @claim("both types of initialization can be turned into the kernel phase: the weights stay where they started as "
           "the width grows, the kernel is fixed", XU24["Fig. 4"])  # fmt: skip
    def kernel(self, ds: xr.Dataset) -> Verdict:
        """X11: powers of the width of both distances, each with its interval below −1/4 (kernel limits: −1/2)."""
        fits = {(name, v): self.power(ds, name, v) for name in MOVED for v in KERNEL}
        return self._powers(ds, fits, vanish=True)

    @claim("both types of initialization can be turned into the feature learning phase: the weights move as far at any "
           "width", XU24["Fig. 4"])  # fmt: skip
    def features(self, ds: xr.Dataset) -> Verdict:
        """X11: powers of the width of the weights' distance, nearer to 0 than −1/4."""
        fits = {("parameter_distance", v): self.power(ds, "parameter_distance", v) for v in FEATURES}
        return self._powers(ds, fits, vanish=False)

    @claim("in the feature learning phase the kernel evolves by an amount of order 1 at any width", XU24["Sec. 4"])
    def evolves(self, ds: xr.Dataset) -> Verdict:
        """X11: powers of the width of the kernel's distance, above −1/4 on the wider half of the widths.

        A part of it goes like 1/d in every variant: the kernel of few neurons is a draw that training draws again.
        """
        wide = _wider_half(ds)
        fits = {("kernel_distance", v): self.power(wide, "kernel_distance", v) for v in FEATURES}
        return self._powers(wide, fits, vanish=False)

    @claim("any initialisation's phase is decided by the exponents of γ and η", XU24["Theorem 2"])
    def theory(self, ds: xr.Dataset) -> Verdict:
        """Each layer's movement against the power that the exponents give, on the wider half of the widths.

        It is that of a residual of order 1. Where the first output grows with the width, as Xavier⁻'s, there is up to
        that power more to learn.
        """
        wide = _wider_half(ds)
        gaps, said = [], []
        for v in VARIANTS.values():
            more = max(v.output, 0.0)
            for name, power in zip(("moved_u", "moved_w"), v.movement, strict=True):
                fit = self.power(wide, name, v.name).exponent
                gaps.append(max(power - fit, fit - power - more, 0.0))
                theory = f"{power:+.1f}" + (f" to {power + more:+.1f}" if more else "")
                said.append(f"{v.name} {name[-1]} {fit:+.2f} ({theory})")
        measured = f"largest gap {max(gaps):.2f}: {', '.join(said)}"
        return Verdict.of(max(gaps) <= NEAR, minus(measured), f"theory, in brackets, ± {NEAR:g}", self._scale(wide))

    @claim(
        "turning the Kaiming model into the feature learning phase improves the test accuracy by approximately 5 %, "
        "turning the Xavier model into the kernel phase decreases it by approximately 10 %",
        XU24["Sec. 4.1"],
    )
    def accuracy(self, ds: xr.Dataset) -> Verdict:
        """X11: differences of the best test accuracies of the widest networks, draw by draw."""
        best = ds.test_accuracy.max("step").isel(width=-1)
        gaps = [interval((best.sel(variant=plus) - best.sel(variant=minus)).values) for plus, minus in PAIRS]
        said = [
            f"{p} over {m} {100 * gap:+.1f} ± {100 * reach:.1f}"
            for (p, m), (gap, reach) in zip(PAIRS, gaps, strict=True)
        ]
        measured = f"points: {'; '.join(said)}"
        expected = "+5 and +10 points on CIFAR-10, within a factor of 2"
        close = all(size / 2 <= 100 * gap <= 2 * size for (gap, _), size in zip(gaps, PUBLISHED, strict=True))
        if self.images != "cifar10":
            return Verdict.undecided(f"other images; {measured}", expected, self._scale(ds))
        if not close and self.train < 50_000 and all(gap + reach > 0 for gap, reach in gaps):
            return Verdict.undecided(f"too few images to compare sizes; {measured}", expected, self._scale(ds))
        return Verdict.of(close, measured, expected, self._scale(ds), "95 % intervals over networks")

    @claim(
        "this is because the fixed kernel restricts the generalization ability in the kernel phase", XU24["Sec. 4.1"]
    )
    def because(self, ds: xr.Dataset) -> Verdict:
        """X11: what Xavier⁻ loses by its kernel, from a start of zero output, as a share of what it loses in all.

        As printed its first output grows like √d, and stays in what is learned, kernel or not.
        """
        best = ds.test_accuracy.max("step").isel(width=-1)
        plus, minus, zero = best.sel(variant="Xavier+"), best.sel(variant="Xavier-"), ds.zero_test_accuracy.max("step")
        whole, reach = interval((plus - minus).values)
        kernel, around = interval((plus - zero).values)
        first = ds.output_start.sel(variant="Xavier-").mean("draw").isel(width=[0, -1]).values
        measured = (
            f"Xavier+ over Xavier- {100 * whole:+.1f} ± {100 * reach:.1f} points, over Xavier- from zero output "
            f"{100 * kernel:+.1f} ± {100 * around:.1f}; first output of Xavier- {first[0]:.2g} to {first[1]:.2g}"
        )
        expected = "most of the loss is left from a start of zero output"
        if whole <= reach:
            return Verdict.undecided(f"nothing is lost; {measured}", expected, self._scale(ds))
        if kernel - around < whole / 2 < kernel + around:
            return Verdict.undecided(f"an interval holds the half; {measured}", expected, self._scale(ds))
        return Verdict.of(kernel > whole / 2, measured, expected, self._scale(ds), "95 % intervals over networks")

    @claim("in the feature learning phase, a larger model generally leads to better performance", XU24["Sec. 4.1"])
    def larger(self, ds: xr.Dataset) -> Verdict:
        """X16: slopes of the best test accuracy per doubling of the width, over all networks."""
        best = ds.test_accuracy.max("step").transpose("variant", "width", "draw")
        doublings = np.repeat(np.log2(ds.width.values), ds.sizes["draw"])
        found = {v: slope(doublings, best.sel(variant=v).values.ravel()) for v in VARIANTS}
        said = ", ".join(f"{v} {100 * a:+.2f} ± {100 * b:.2f}" for v, (a, b) in found.items())
        measured = minus(f"points per doubling: {said}")
        expected = f"the intervals of {', '.join(FEATURES)} above 0"
        lows = [found[v][0] - found[v][1] for v in FEATURES]
        highs = [found[v][0] + found[v][1] for v in FEATURES]
        if min(lows) <= 0 <= min(highs):
            return Verdict.undecided(f"an interval holds 0; {measured}", expected, self._scale(ds))
        return Verdict.of(min(lows) > 0, measured, expected, self._scale(ds), "95 % intervals over networks")

    def power(self, ds: xr.Dataset, name: str, variant: str) -> PowerFit:
        """The power of the width with which a distance at the end goes: a fit to all networks, each a point."""
        last = ds[name].isel(step=-1) if "step" in ds[name].dims else ds[name]
        rows = last.sel(variant=variant).transpose("width", "draw").values
        return fit_power(np.repeat(ds.width.values, rows.shape[1]), rows.ravel())

    def figure(self, ds: xr.Dataset) -> Figure:
        """Both distances and the accuracy against the width, feature learning and kernel variants apart."""
        panels = []
        for letter, name, words in (
            ("a", "kernel_distance", "1 − cosine of the kernel to its start"),
            ("b", "parameter_distance", "‖θ − θ₀‖/‖θ₀‖: relative distance of the weights"),
        ):
            marks: list[Mark] = []
            for v in VARIANTS.values():
                fit = self.power(ds, name, v.name)
                low, high = fit.exponent_interval
                label = minus(f"{v.shown}: {fit.exponent:+.2f} [{low:+.2f}, {high:+.2f}]")
                marks += _curve(ds, ds[name].isel(step=-1), v, label)
            panels.append(Panel(tuple(marks), x="d: width", y=words, x_log=True, y_log=True, title=f"({letter})"))
        best = ds.test_accuracy.max("step")
        marks = [m for v in VARIANTS.values() for m in _curve(ds, best, v, v.shown)]
        zero, words = float(ds.zero_test_accuracy.max("step").mean()), "Xavier⁻ from zero output"
        marks.append(mark("points", [float(ds.width[-1])], [zero], role="measured", colour=words, label=words))
        panels.append(Panel(tuple(marks), x="d: width", y="best test accuracy", x_log=True, title="(c)"))
        return Figure(
            tuple(panels),
            "Width and phase on real images",
            f"Two-layer ReLU networks: {self._scale(ds)}. With dots: variants whose limit learns features; without: "
            f"kernels. At d = {self.base} all six are one network. Mean field and Xavier⁺ are one in other units, "
            "and coincide. Numbers: fitted powers of the width with 95 % intervals. Bands: all networks. "
            "After XU24 Fig. 4.",
        )

    def _powers(self, ds: xr.Dataset, fits: dict[tuple[str, str], PowerFit], *, vanish: bool) -> Verdict:
        """Whether all powers lie below −1/4, or all above; undecided where an interval holds it and none is wrong."""
        said: dict[str, list[str]] = {}
        right, wrong = [], []
        for (name, v), f in fits.items():
            low, high = f.exponent_interval
            said.setdefault(name, []).append(f"{v} {f.exponent:+.2f} [{low:+.2f}, {high:+.2f}]")
            below, above = high < -WIDTH_POWER, low > -WIDTH_POWER
            right.append(below if vanish else above)
            wrong.append(above if vanish else below)
        measured = "; ".join(f"{name.replace('_', ' ')}: {', '.join(row)}" for name, row in said.items())
        measured = minus(f"powers of the {measured}")
        expected = f"every interval {'below' if vanish else 'above'} −{WIDTH_POWER:g}"
        if not (all(right) or any(wrong)):
            return Verdict.undecided(f"an interval holds −{WIDTH_POWER:g}; {measured}", expected, self._scale(ds))
        return Verdict.of(all(right), measured, expected, self._scale(ds), "95 % intervals over networks")

    def _scale(self, ds: xr.Dataset) -> str:
        widths = ", ".join(str(int(d)) for d in ds.width.values)
        pooled = f", {self.pool} × {self.pool} pixels averaged" if self.pool > 1 else ""
        return (
            f"{self.train} images of {self.images}{pooled}; {self.steps:,} steps of SGD, batch {self.batch}; widths "
            f"{widths}; {ds.sizes['draw']} networks each"
        )


def _wider_half(ds: xr.Dataset) -> xr.Dataset:
    return ds.isel(width=slice(-max(3, ds.sizes["width"] // 2), None))


def _curve(ds: xr.Dataset, values: xr.DataArray, v: Variant, label: str) -> list[Mark]:
    """Mean over the draws with the band that holds all of them; feature learning with points."""
    row = values.sel(variant=v.name)
    word = v.shown
    made = [
        mark("band", ds.width, row.min("draw"), high=row.max("draw"), role="measured", colour=word, group=word),
        mark("line", ds.width, row.mean("draw"), role="measured", colour=word, label=label, group=word),
    ]
    if v.phase == "feature-learning":
        made.append(mark("points", ds.width, row.mean("draw"), role="measured", colour=word, group=word))
    return made
