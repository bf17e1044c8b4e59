"""Classes that are Gaussian clouds: how far apart they are decides how well they can be told apart."""

from __future__ import annotations

import math

import numpy as np

from richter.errors import ParameterError, message
from richter.tasks.randomness import Rng, count, stream
from richter.tasks.task import Task


def gaussian_classes(
    n: int = 1000,
    *,
    classes: int = 3,
    d: int = 10,
    separation: float = 4.0,
    n_test: int = 1000,
    rng: Rng = 0,
) -> Task:
    """Clouds of variance 1 in d dimensions whose means are pairwise `separation` apart.

    The means are multiples of random orthonormal vectors, so `classes` ≤ d. Classes are equally likely. For two
    of them the best error is Φ(−separation/2).

    >>> gaussian_classes(6, classes=2, d=3).inputs.shape
    (6, 3)
    """
    if not (math.isfinite(separation) and separation >= 0):
        raise ParameterError(message("`separation`", "be finite and ≥ 0", separation))
    size = count("`d`", d, 2)
    kinds = count("`classes`", classes, 2, size)
    generator = stream(rng, "gaussian classes")
    directions, _ = np.linalg.qr(generator.standard_normal((size, kinds)))
    means = separation / math.sqrt(2) * directions.T
    total = count("`n`", n) + count("`n_test`", n_test, 0)
    labels = generator.integers(kinds, size=total)
    x = means[labels] + generator.standard_normal((total, size))
    return Task(
        inputs=x[:n],
        targets=labels[:n],
        test_inputs=x[n:],
        test_targets=labels[n:],
        name="gaussian-classes",
        kind="classification",
        classes=tuple(str(k) for k in range(kinds)),
        says=f"{kinds} Gaussian clouds in {size} dimensions, means {separation:g} apart",
    )
