"""A step on a line: the toy on which a network learns its one feature (NAM24 Fig. 2.2)."""

from __future__ import annotations

import math

import numpy as np

from richter.errors import ParameterError, message
from richter.tasks.randomness import Rng, count, stream
from richter.tasks.task import Task


def step(n: int = 1000, *, n_test: int = 1000, noise: float = 0.0, rng: Rng = 0) -> Task:
    """The Heaviside step: 1 for x ≥ 0, else 0, on [−1, 1].

    Training inputs are uniform draws, test inputs an even grid with both ends; `noise` is the standard deviation
    of what is added to the training targets.

    >>> task = step(5, n_test=3)
    >>> task.test_inputs[:, 0].tolist(), task.test_targets[:, 0].tolist()
    ([-1.0, 0.0, 1.0], [0.0, 1.0, 1.0])
    """
    if not (math.isfinite(noise) and noise >= 0):
        raise ParameterError(message("`noise`", "be finite and ≥ 0", noise))
    generator = stream(rng, "step")
    x = generator.uniform(-1, 1, (count("`n`", n), 1))
    grid = np.linspace(-1, 1, count("`n_test`", n_test, 2))[:, None]
    return Task(
        inputs=x,
        targets=np.heaviside(x, 1.0) + noise * generator.standard_normal(x.shape),
        test_inputs=grid,
        test_targets=np.heaviside(grid, 1.0),
        name="step",
        says="the Heaviside step on [−1, 1]",
    )
