"""KUN24 Fig. 9: the surface of a ReLU network, its convex partition, and two colours for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.figure import Figure
from richter.figure.data import Mark, mark
from richter.figure.space import View, scene
from richter.maths.partition import Partition, partition_slice
from richter.refs import KUN24

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
Layers = list[tuple[Floats, Floats | None]]
BOX = 1.0
HEIGHT = 0.9  # of the surface, in units of the plane
KINDS = ("with biases", "without biases", "duplicated neurons")


@dataclass(frozen=True, kw_only=True)
class ReluSurface(AbstractExperiment):
    """The exact partition of the plane by random three-layer ReLU networks, with and without biases."""

    name = "kun24-relu-surface"
    title = "The surface of a ReLU network"
    statement = (
        "A ReLU network partitions its input space into convex polytopes, or conic sections without biases; the "
        "partition can be coloured with two colours by the parity of active neurons, unless neurons are redundant."
    )
    places = (KUN24["Fig. 9"], KUN24["App. C.1"])
    presets = {"smoke": {"networks": 4}, "laptop": {}, "paper": {"networks": 200}}
    neurons: int = setting(20, "neurons in each of the two hidden layers", symbol="h", low=2, high=100)
    networks: int = setting(25, "random networks of each kind", low=1, high=1000)
    seed: int = setting(0, "seed of the first network", low=0)

    def layers(self, kind: str, seed: int) -> Layers:
        """Weights of order 1/√(fan in), biases of order 0.3; `duplicated neurons`: one hidden layer, rows twice."""
        rng = np.random.default_rng(seed)
        h = self.neurons
        first = rng.standard_normal((h, 2)) / np.sqrt(2)
        second, last = rng.standard_normal((h, h)) / np.sqrt(h), rng.standard_normal((1, h)) / np.sqrt(h)
        if kind == "duplicated neurons":
            return [(np.concatenate([first, first]), None), (np.concatenate([last, -0.5 * last], axis=1), None)]
        biases = [0.3 * rng.standard_normal(h) if kind == "with biases" else None for _ in range(2)]
        return [(first, biases[0]), (second, biases[1]), (last, None)]

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Regions, boundaries, and at how many of them the parity of active neurons changes, network by network."""
        import xarray as xr

        names = ("regions", "boundaries", "flips", "convex", "largest_gap", "cones")
        made = np.zeros((len(names), len(KINDS), self.networks))
        for i, kind in enumerate(KINDS):
            for k in range(self.networks):
                progress(f"{kind}: network {k + 1}", (i * self.networks + k) / (len(KINDS) * self.networks))
                part = partition_slice(self.layers(kind, self.seed + k), BOX)
                pairs, shared = part.boundaries
                parity = (part.signs > 0).sum(axis=1) % 2
                ends = shared[:, 0]
                value = lambda side, part=part, pairs=pairs, ends=ends: (
                    (part.slopes[pairs[:, side], 0] * ends).sum(axis=1) + part.offsets[pairs[:, side], 0]
                )
                flips = int((parity[pairs[:, 0]] != parity[pairs[:, 1]]).sum())
                origin = sum(bool((np.abs(polygon).max(axis=1) < 1e-9).any()) for polygon in part.polygons)
                made[:, i, k] = (
                    part.count, len(pairs), flips, _all_convex(part),
                    np.abs(value(0) - value(1)).max(initial=0), origin,
                )  # fmt: skip
        says = {
            "regions": "activation regions in the box", "boundaries": "pairs of regions with a common boundary",
            "flips": "boundaries at which the parity of active neurons changes",
            "convex": "1 if every region is convex",
            "largest_gap": "largest jump of the output at a boundary", "cones": "regions that touch the origin",
        }  # fmt: skip
        data = {name: (("kind", "network"), made[n], {"long_name": says[name]}) for n, name in enumerate(names)}
        return xr.Dataset(data, {"kind": list(KINDS)})

    @claim("the input–output map is continuous and the regions form a convex partition of input space",
           KUN24["App. C.1"])  # fmt: skip
    def convex(self, ds: xr.Dataset) -> Verdict:
        """Turns of every polygon, and jumps of the output at the boundaries."""
        gap = float(ds.largest_gap.max())
        return Verdict.of(
            bool(ds.convex.all()) and gap < 1e-12, f"all convex: {bool(ds.convex.all())}; largest jump {gap:.1e}",
            "all convex, no jump beyond rounding", self._scale(ds),
        )  # fmt: skip

    @claim("without biases the regions are conic sections emanating from the origin", KUN24["Fig. 9"])
    def conic(self, ds: xr.Dataset) -> Verdict:
        """Regions that touch the origin."""
        share = ds.cones / ds.regions
        bare, biased = float(share.sel(kind="without biases").min()), float(share.sel(kind="with biases").max())
        return Verdict.of(bare == 1 and biased < 1, f"without biases {bare:.0%}, with biases at most {biased:.0%}",
                          "all; not all", self._scale(ds))  # fmt: skip

    @claim("without redundant neurons the parity of active neurons colours the partition with two colours",
           KUN24["Proposition C.2"])  # fmt: skip
    def two_colours(self, ds: xr.Dataset) -> Verdict:
        """K21: boundaries at which the parity flips, and the counter-example of duplicated neurons."""
        rate = ds.flips.sum("network") / ds.boundaries.sum("network")
        good = [float(rate.sel(kind=kind)) for kind in KINDS[:2]]
        twins = float(rate.sel(kind=KINDS[2]))
        total = int(ds.boundaries.sel(kind=list(KINDS[:2])).sum())
        return Verdict.of(
            min(good) == 1 and twins == 0,
            f"the parity flips at {min(good):.2%} of {total} boundaries; with every neuron twice at {twins:.0%}",
            "all; none with duplicated neurons, which are redundant", self._scale(ds),
        )  # fmt: skip

    def figure(self, ds: xr.Dataset) -> Figure:
        """The first network of each kind with three layers."""
        view = View(azimuth=-60, elevation=40)
        panels = []
        for letter, kind in zip("ab", KINDS[:2], strict=True):
            part = partition_slice(self.layers(kind, self.seed), BOX)
            title = f"({letter}) {kind}: {part.count} regions"
            panels.append(scene(view, _surface(view, part), title=title))
        return Figure(
            tuple(panels),
            "The surface of a ReLU network",
            f"Output over the plane of a random network with two hidden layers of {self.neurons} neurons: exact "
            "activation regions, flat on each, coloured by the parity of active neurons. "
            f"{view.words} After KUN24 Fig. 9.",
        )

    def _scale(self, ds: xr.Dataset) -> str:
        return f"{ds.sizes['network']} random networks of each kind, {self.neurons} neurons a layer, exact partitions"


def _surface(view: View, part: Partition) -> list[Mark]:
    parity = (part.signs > 0).sum(axis=1) % 2
    heights = [
        p @ slope + offset
        for p, slope, offset in zip(part.polygons, part.slopes[:, 0], part.offsets[:, 0], strict=True)
    ]
    low, high = min(h.min() for h in heights), max(h.max() for h in heights)
    scale = HEIGHT / (high - low) if high > low else 1.0
    marks = []
    for polygon, height, odd in zip(part.polygons, heights, parity, strict=True):
        corners = np.column_stack([polygon, scale * height])
        seen, near = view.project(corners), float(view.nearness(corners.mean(axis=0)))
        colour = "odd" if odd else "even"
        marks.append(mark("area", seen[:, 0], seen[:, 1], role="simulated", colour=colour, order=near, edge=True))
    return marks


def _all_convex(part: Partition) -> bool:
    """Every corner of every polygon turns left, up to rounding."""
    for polygon in part.polygons:
        ahead = np.roll(polygon, -1, axis=0) - polygon
        after = np.roll(ahead, -1, axis=0)
        turns = ahead[:, 0] * after[:, 1] - ahead[:, 1] * after[:, 0]
        if (turns < -1e-12 * np.abs(ahead).max() ** 2).any():
            return False
    return True
