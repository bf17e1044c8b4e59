"""When a theory has done its work: the natural span of times to look at."""

from __future__ import annotations

import numpy as np

from richter.theory.base import AbstractTheory

ALMOST = 1e-3  # of the loss that training can remove


def horizon(theory: AbstractTheory) -> float:
    """A round time by which all but 0.1 % of the removable loss is gone, for every start.

    >>> from richter.theory import LinearModel
    >>> horizon(LinearModel(eigenvalues=[1.0], coefficients=[1.0]))
    4.0
    """
    span = np.concatenate([[0.0], np.geomspace(1e-30, 1e30, 3000), [np.inf]])
    loss = theory.arrays(span, only=("loss",))["loss"][1].reshape(-1, span.size)
    left = loss - loss[:, -1:]
    over = left > ALMOST * left[:, :1]
    last = int(np.where(over.any(axis=1), span.size - 1 - np.argmax(over[:, ::-1], axis=1), 0).max())
    end = span[min(last + 1, span.size - 2)]
    if last == 0:
        return 1.0
    size = 10.0 ** np.floor(np.log10(end))
    return float(np.ceil(end / size) * size)
