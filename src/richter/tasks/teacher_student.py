"""A narrow ReLU teacher, a wide ReLU student, and the student's start by scale and imbalance (KUN24 App. D.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message
from richter.maths.piecewise import layer_scale
from richter.tasks.randomness import Rng, count, stream
from richter.tasks.task import Task

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ReluNetwork:
    r"""$f(x)=\sum_ia_i\max(0,w_i^Tx)$; `a` has shape (neuron,), `w` (neuron, input).

    >>> ReluNetwork(np.array([2.0]), np.array([[1.0, 0.0]]))([[3.0, 5.0], [-3.0, 5.0]]).tolist()
    [[6.0], [0.0]]
    """

    a: Floats
    w: Floats

    def __call__(self, x: ArrayLike) -> Floats:
        """The output for inputs (example, input), shape (example, 1)."""
        return (np.maximum(np.asarray(x) @ self.w.T, 0.0) @ self.a)[:, None]

    @property
    def delta(self) -> Floats:
        """The imbalance a² − ‖w‖² of each neuron, shape (neuron,)."""
        length = np.linalg.norm(self.w, axis=1)
        return (np.abs(self.a) - length) * (np.abs(self.a) + length)


@dataclass(frozen=True, eq=False)
class TeacherStudent:
    """A task, the teacher that labels it, and the student's base start, from which every start is rescaled."""

    task: Task
    teacher: ReluNetwork
    base: ReluNetwork

    def student(self, scale: float = 1.0, delta: float = 0.0) -> ReluNetwork:
        """The student's start with scale τ and imbalance δ in every neuron; its output is 0 everywhere.

        The base start has |a| = ‖w‖ = 1; here |a| = τα and ‖w‖ = τ/α with α from `layer_scale`.

        >>> start = teacher_student(width=4).student(scale=0.1, delta=1.0)
        >>> start.delta.round(12).tolist()
        [1.0, 1.0, 1.0, 1.0]
        """
        if not (math.isfinite(scale) and scale > 0):
            raise ParameterError(message("`scale`", "be finite and > 0", scale, "Use scale=0.1 for a small start."))
        if not math.isfinite(delta):
            raise ParameterError(message("`delta`", "be finite", delta))
        alpha = float(layer_scale(scale, delta))
        return ReluNetwork(self.base.a * (scale * alpha), self.base.w * (scale / alpha))


def teacher_student(
    n: int = 20,
    *,
    d: int = 2,
    width: int = 50,
    teacher_width: int = 3,
    n_test: int = 1000,
    rng: Rng = 0,
) -> TeacherStudent:
    """Inputs on the unit sphere, labelled without noise by a teacher of `teacher_width` neurons.

    Teacher and base student: w on the unit sphere, a = ±1. The student's second half repeats the first with
    a → −a, so that its output is 0. One seed draws teacher, student and data, as the paper's sweeps have it; with
    the same seed the teacher and the student do not depend on how many examples there are.

    Args:
        n: training examples; the defaults are those of KUN24 Fig. 1a, Fig. 1b has n=1000, d=100, n_test=10000.
        d: inputs.
        width: the student's neurons, an even number.
        teacher_width: the teacher's neurons.
        n_test: test examples.
        rng: seed or generator.
    """
    size = count("`d`", d)
    if count("`width`", width, 2) % 2:
        raise ParameterError(message("`width`", "be even (each neuron has a mirror copy)", width))
    teacher = _on_sphere(stream(rng, "teacher"), count("`teacher_width`", teacher_width), size)
    half = _on_sphere(stream(rng, "student"), width // 2, size)
    base = ReluNetwork(np.concatenate([half.a, -half.a]), np.concatenate([half.w, half.w]))
    x = _directions(stream(rng, "inputs"), count("`n`", n), size)
    x_test = _directions(stream(rng, "test inputs"), count("`n_test`", n_test, 0), size)
    task = Task(
        inputs=x,
        targets=teacher(x),
        test_inputs=x_test,
        test_targets=teacher(x_test),
        name="teacher-student",
        says=f"a ReLU teacher of {teacher_width} neurons on the unit sphere in {size} dimensions",
    )
    return TeacherStudent(task, teacher, base)


def _directions(generator: np.random.Generator, rows: int, d: int) -> Floats:
    x = generator.standard_normal((rows, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _on_sphere(generator: np.random.Generator, neurons: int, d: int) -> ReluNetwork:
    w = _directions(generator, neurons, d)
    return ReluNetwork(generator.choice([-1.0, 1.0], neurons), w)
