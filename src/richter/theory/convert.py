r"""Between the papers' conventions: loss (½, mean or sum), time, learning rates, steps.

Every squared loss is $L=s\sum_jr_j^2$ over the examples; gradient flow under it runs s times as fast.

| convention | loss | s |
|---|---|---|
| KUN24 | ½ Σ r² | ½ |
| XU24 | mean r² | 1/n |
| NAM24 | ½ mean r² | 1/2n |
| torch | mean over examples and outputs (`MSELoss`) | 1/(n·outputs) |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, UnknownNameError, message, nearest

Floats = NDArray[np.float64]

CONVENTIONS: dict[str, Callable[[int, int], float]] = {
    "KUN24": lambda n, outputs: 0.5,
    "XU24": lambda n, outputs: 1 / n,
    "NAM24": lambda n, outputs: 0.5 / n,
    "torch": lambda n, outputs: 1 / (n * outputs),
}


def loss_scale(convention: str, examples: int = 1, outputs: int = 1) -> float:
    r"""The factor s of $L=s\sum r^2$.

    >>> loss_scale("NAM24", examples=10)
    0.05
    """
    if convention not in CONVENTIONS:
        raise UnknownNameError(f"No loss convention `{convention}`. {nearest(convention, list(CONVENTIONS))}")
    for name, count in (("examples", examples), ("outputs", outputs)):
        if count < 1:
            raise ParameterError(message(f"`{name}`", "be a whole number ≥ 1", count))
    return CONVENTIONS[convention](examples, outputs)


def convert_loss(value: Any, source: str, to: str, *, examples: int = 1, outputs: int = 1) -> Any:
    """The same residuals' loss in another convention.

    >>> convert_loss(3.0, "KUN24", "XU24", examples=6)
    1.0
    """
    return _number(value) * (loss_scale(to, examples, outputs) / loss_scale(source, examples, outputs))


def convert_time(t: Any, source: str, to: str, *, examples: int = 1, outputs: int = 1) -> Any:
    """The time at which gradient flow with the same learning rates is at the same point under another loss.

    >>> convert_time(1.0, "XU24", "NAM24")
    2.0
    """
    return _number(t) * (loss_scale(source, examples, outputs) / loss_scale(to, examples, outputs))


def convert_rate(rate: Any, source: str, to: str, *, examples: int = 1, outputs: int = 1) -> Any:
    """The learning rate that gives the same flow in the same time under another loss.

    >>> convert_rate(0.1, "XU24", "KUN24", examples=100)
    0.002
    """
    return convert_time(rate, source, to, examples=examples, outputs=outputs)


def steps_to_time(steps: Any, rate: float) -> Any:
    """t = steps × rate: where gradient descent is, on the clock of the flow with learning rate 1.

    >>> steps_to_time(500, 0.01)
    5.0
    """
    return np.multiply(steps, _positive(rate)) if np.ndim(steps) else steps * _positive(rate)


def time_to_steps(t: Any, rate: float) -> Any:
    """The number of steps of gradient descent that ends nearest to t.

    >>> int(time_to_steps(5.0, 0.01))
    500
    """
    times = np.asarray(t, dtype=float)
    if not np.isfinite(times).all():
        raise ParameterError(message("a time in steps", "be finite", t))
    return np.rint(times / _positive(rate)).astype(int)


def _number(value: Any) -> Any:
    return np.asarray(value, dtype=float) if isinstance(value, (list, tuple)) else value


def _positive(rate: float) -> float:
    if not rate > 0:
        raise ParameterError(message("the rate of a step", "be > 0", rate))
    return rate
