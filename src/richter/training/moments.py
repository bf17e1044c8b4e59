"""When to look at a training run."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from richter.errors import ParameterError, message
from richter.tasks.randomness import count


def log_moments(steps: int, number: int = 30) -> tuple[int, ...]:
    """At most `number` steps from 0 to `steps`, both among them, evenly spread in the logarithm.

    >>> log_moments(100, 5)
    (0, 1, 5, 22, 100)
    """
    count("`steps`", steps, 0)
    count("`number`", number, 2)
    if steps == 0:
        return (0,)
    spread = np.geomspace(1, steps, number - 1) if number > 2 else np.array([steps])
    return tuple(sorted({0, steps, *(int(round(s)) for s in spread)}))


def chosen(moments: Iterable[int] | int | None, steps: int) -> tuple[int, ...]:
    """The moments as sorted steps: given ones, a number of them, or the default 30."""
    if moments is None or isinstance(moments, int):
        return log_moments(steps, 30 if moments is None else count("`moments`", moments, 2))
    made = sorted({count("each of `moments`", step, 0) for step in moments})
    if made and made[-1] > steps:
        raise ParameterError(message("each of `moments`", f"be at most {steps}, the last step", made[-1]))
    return tuple(made)
