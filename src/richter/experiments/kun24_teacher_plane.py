"""KUN24 Fig. 1a: neurons of a ReLU student in the plane, and the teacher's directions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.experiments.teacher_student_runs import interval, students
from richter.figure import Figure, Panel
from richter.figure.build import number
from richter.figure.data import mark
from richter.refs import KUN24
from richter.tasks import TeacherStudent, teacher_student
from richter.training import Networks, log_moments, train_many

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
CELLS = {"small": (0.1, 0.0), "large": (2.0, 0.0), "upstream": (0.1, 1.0), "downstream": (0.1, -1.0)}


@dataclass(frozen=True, kw_only=True)
class TeacherPlane(AbstractExperiment):
    """Scale and geometry of the start decide whether the neurons turn to the teacher's directions."""

    name = "kun24-teacher-plane"
    title = "Neurons align to the teacher, or stay where they are"
    statement = (
        "In the plane, a student with a small start turns its neurons to the teacher's directions and one with a large "
        "start does not; among small starts an upstream one aligns and a downstream one does not."
    )
    places = (KUN24["Fig. 1"], KUN24["App. D.1"])
    presets = {
        "smoke": {"seeds": 8, "steps": 10_000, "rate": 1e-2},
        "laptop": {"seeds": 8},
        "paper": {"seeds": 32},
    }
    width: int = setting(50, "the student's neurons", symbol="h", low=2, high=1000)
    examples: int = setting(20, "training examples", symbol="n", low=3)
    steps: int = setting(1_000_000, "steps of gradient descent", low=100, high=10**8)
    rate: float = setting(1e-4, "learning rate", symbol="η", low=1e-6, high=0.1)
    seeds: int = setting(16, "teachers, starts and data", low=2, high=1000)
    moments: int = setting(60, "steps looked at", low=10, high=1000)
    seed: int = setting(0, "first seed", low=0)

    def world(self, seed: int) -> TeacherStudent:
        """Teacher, base start and data of a seed."""
        return teacher_student(self.examples, d=2, width=2 * (self.width // 2), n_test=500, rng=seed)

    def run(self, progress: Progress = silent, store: Path | None = None) -> xr.Dataset:
        """All four students of all seeds, in float64: the steps are too small for single precision."""
        worlds = [self.world(self.seed + k) for k in range(self.seeds)]
        made = train_many(
            Networks.together([students(world, list(CELLS.values())) for world in worlds]),
            [world.task for world in worlds for _ in CELLS],
            steps=self.steps, rate=self.rate, loss="square", dtype="float64",
            moments=log_moments(self.steps, self.moments),
            see=("train_loss", "test_loss", "kernel_distance", "parameters"),
            progress=lambda share: progress("gradient descent", share), checkpoints=store,
        ).dataset  # fmt: skip
        shape = (self.seeds, len(CELLS))
        fold = lambda name: made[name].values.reshape(*shape, *made[name].shape[1:])
        import xarray as xr

        dims = ("seed", "kind", "step")
        a, w = fold("weight2")[..., 0, :], fold("weight1")
        angle, turned = zip(
            *(_angles(a[k], w[k], world) for k, world in enumerate(worlds)), strict=True
        )  # fmt: skip
        return xr.Dataset(
            {
                "a": ((*dims, "neuron"), a.astype(np.float32)), "w": ((*dims, "neuron", "input"), w.astype(np.float32)),
                "angle": (dims, np.array(angle)), "turned": (dims, np.array(turned)),
                **{name: (dims, fold(name)) for name in ("train_loss", "test_loss", "kernel_distance")},
            },
            {"seed": self.seed + np.arange(self.seeds), "kind": list(CELLS), "step": made.step.values},
        )  # fmt: skip

    @claim("small scale leads to rich and large scale to lazy", KUN24["Fig. 1"])
    def scale_decides(self, ds: xr.Dataset) -> Verdict:
        """K13, left: how far the neurons turn, and the kernel moves."""
        end = ds.isel(step=-1)
        small, large = (end.turned.sel(kind=kind).values for kind in ("small", "large"))
        kernel = [float(end.kernel_distance.sel(kind=kind).median()) for kind in ("small", "large")]
        return Verdict.of(
            np.median(large) < 0.1 * np.median(small) and kernel[1] < 0.1 * kernel[0],
            f"neurons turn by {_degrees(small)} at τ = 0.1 and {_degrees(large)} at τ = 2; kernel distance "
            f"{kernel[0]:.2g} and {kernel[1]:.2g}",
            "less than a tenth at the large scale, both", self._scale(ds), "medians, ranges over seeds",
        )  # fmt: skip

    @claim("an upstream start shows striking alignment to the teacher", KUN24["Fig. 1"])
    def upstream_aligns(self, ds: xr.Dataset) -> Verdict:
        """K13, right: the angle of the neurons to the nearest teacher's direction of their sign."""
        first, last = (ds.angle.sel(kind="upstream").isel(step=i).values for i in (0, -1))
        rival = ds.angle.sel(kind="downstream").isel(step=-1).values
        low, high = np.degrees(interval(rival - last, np.median))
        measured = (
            f"from {_degrees(first)} to {_degrees(last)}; nearer than the downstream start in "
            f"{float((last < rival).mean()):.0%} of the seeds, by {np.degrees(np.median(rival - last)):.1f}° "
            f"[{low:.1f}°, {high:.1f}°]"
        )
        expected = "median falls below a quarter; nearer than downstream, with its interval"
        if np.median(last) < 0.25 * np.median(first) and low <= 0 <= high:
            return Verdict.undecided(measured, expected, self._scale(ds))
        return Verdict.of(
            np.median(last) < 0.25 * np.median(first) and low > 0, measured, expected, self._scale(ds),
            "medians, ranges over seeds, 95 % bootstrap interval of the gain",
        )  # fmt: skip

    @claim("a downstream start shows no alignment", KUN24["Fig. 1"])
    def downstream_stays(self, ds: xr.Dataset) -> Verdict:
        """K13, right: the neurons keep their directions, whatever weight they have in the end."""
        up, down = (ds.turned.sel(kind=kind).isel(step=-1).values for kind in ("upstream", "downstream"))
        return Verdict.of(
            np.median(down) < 0.1 * np.median(up),
            f"neurons turn by {_degrees(down)}, upstream by {_degrees(up)}",
            "less than a tenth of the upstream turn", self._scale(ds), "medians, ranges over seeds",
        )  # fmt: skip

    def figure(self, ds: xr.Dataset) -> Figure:
        """Paths of |aᵢ|wᵢ for the four starts of the first seed."""
        here = ds.isel(seed=0)
        teacher = self.world(int(here.seed)).teacher
        panels = []
        for letter, (kind, (tau, delta)) in zip("abcd", CELLS.items(), strict=True):
            now = here.sel(kind=kind)
            path = np.abs(now.a.values)[..., None] * now.w.values  # (step, neuron, input)
            reach = 1.1 * max(float(np.abs(path).max()), 1e-9)
            marks = []
            for sign, words in ((1, "a > 0"), (-1, "a < 0")):
                for i in np.flatnonzero(np.sign(now.a.values[-1]) == sign):
                    marks.append(
                        mark("line", path[:, i, 0], path[:, i, 1], role="simulated", colour=words, group=words)
                    )
                ends = path[-1][np.sign(now.a.values[-1]) == sign]
                if len(ends):
                    marks.append(
                        mark("points", ends[:, 0], ends[:, 1], role="simulated", colour=words, label=words, group=words)
                    )
            for k, w in enumerate(teacher.w):
                label = "teacher's directions" if k == 0 else ""
                marks.append(mark("line", [0, reach * w[0]], [0, reach * w[1]], role="target", label=label))
            panels.append(
                Panel(
                    tuple(marks), x="|a| w₁", y="|a| w₂", equal=True, x_range=(-reach, reach), y_range=(-reach, reach),
                    title=f"({letter}) τ = {number(tau)}, δ = {number(delta)}",
                )
            )  # fmt: skip
        return Figure(
            tuple(panels),
            "Neurons align to the teacher, or stay where they are",
            f"Paths of |aᵢ|wᵢ of {2 * (self.width // 2)} ReLU neurons in the plane, one seed; dots are where they end "
            f"after {self.steps:,} steps, coloured by the sign of aᵢ. (a, b) a small and a large balanced start; "
            "(c, d) an upstream and a downstream one of the small scale. After KUN24 Fig. 1a.",
        )

    def _scale(self, ds: xr.Dataset) -> str:
        size = 2 * (self.width // 2)
        steps = f"{self.steps:,} steps of {self.rate:g}"
        return f"d = 2, {size} neurons, n = {self.examples}, {ds.sizes['seed']} seeds, {steps}"


def _angles(a: Floats, w: Floats, world: TeacherStudent) -> tuple[Floats, Floats]:
    """Mean angles over (kind, step), in radians, each neuron weighing as much as its function ‖aᵢwᵢ‖.

    To the nearest teacher's direction of the neuron's sign (π if there is none), and to the neuron's own start.
    """
    size = np.linalg.norm(w, axis=-1)
    unit = w / size[..., None]
    weight = np.abs(a) * size
    near = np.where(np.sign(a)[..., None] == np.sign(world.teacher.a), unit @ world.teacher.w.T, -1.0)
    angle = np.arccos(np.clip(near, -1, 1)).min(axis=-1)
    turned = 2 * np.arcsin(np.minimum(np.linalg.norm(unit - unit[:, :1], axis=-1) / 2, 1.0))
    mean = lambda x: (weight * x).sum(axis=-1) / weight.sum(axis=-1)
    return mean(angle), mean(turned)


def _degrees(radians: Floats) -> str:
    low, middle, high = np.degrees([radians.min(), np.median(radians), radians.max()])
    return f"{middle:.1f}° [{low:.1f}°, {high:.1f}°]"
