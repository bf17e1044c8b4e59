"""When the single neuron's output weight, or its alignment with the target, changes sign: at most once."""

from __future__ import annotations

from typing import Any

from richter.maths.arrays import Array
from richter.maths.neuron import NeuronModes
from richter.refs import KUN24, implements


@implements(KUN24["Lemma A.1"])
def crossing_times(modes: NeuronModes) -> tuple[Array, Array]:
    r"""The times at which a = 0 and at which w·β* = 0; ∞ where that never happens. At most one of them is finite.

    Both follow from the unified solution, whose numerators are linear in $E=e^{-2Rt}$:
    $a=0$ at $E=1+\tilde a_0/(\sin\theta\,y_-)$ and $w\cdot\beta_*=0$ at $E=1-\omega_0/(\cos\theta\,y_-)$, if that
    lies in (0, 1]. Both layers must learn.

    >>> import numpy as np
    >>> from richter.maths.neuron import neuron_modes
    >>> modes = neuron_modes(1.0, np.array([-2.0, 0.0]), np.array([1.0, 0.0]))
    >>> [round(float(t), 6) for t in crossing_times(modes)]
    [0.315967, inf]
    """
    m, xp = modes, modes.xp
    of_a = _time(xp, m.a0, m.sin * m.y_minus, m.cos * m.y_plus, m.root)
    of_w = _time(xp, m.along, -m.cos * m.y_minus, m.sin * m.y_plus, m.root)
    return of_a, of_w


def _time(xp: Any, start: Array, down: Array, up: Array, root: Array) -> Array:
    """When `up` − `down`·E is 0, with `start` = `up` − `down`; the gap 1 − E keeps its digits near t = 0."""
    one = xp.ones_like(start * down)
    some = (down != 0) & (start * down <= 0) & (up * down > 0)
    safe = xp.where(some, down, one)
    gap, share = xp.where(some, -start / safe, 0.0 * one), xp.where(some, up / safe, one)
    late = share < 0.5
    logarithm = xp.where(late, xp.log(xp.where(late, share, one)), xp.log1p(-xp.where(late, 0.0 * one, gap)))
    never = xp.where(start == 0, 0.0 * one, xp.inf * one)
    return xp.where(some, -logarithm / (2 * root), never)
