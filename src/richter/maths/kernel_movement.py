"""How far the single neuron's kernel has moved, from sizes and angles alone."""

from __future__ import annotations

from collections.abc import Callable

from richter.maths.arrays import Array, namespace
from richter.refs import KUN24, implements


@implements(KUN24["Sec. 1"])
def kernel_movement(
    delta: Array, m1: Array, m2: Array, n1: Array, n2: Array, gap: Array, turned: Array, met: Array, inputs: int
) -> tuple[Array, Callable[[], Array]]:
    r"""$S(0,t)=1-\cos(K_0,K_t)$ and $\|K_t-K_0\|/\|K_0\|$, no difference of near-equal numbers in either.

    Args:
        delta: the conserved $m_1-m_2=n_1-n_2$.
        m1: $\eta_wa^2$ at the start.
        m2: $\eta_a\|w\|^2$ at the start.
        n1: $\eta_wa^2$ at t.
        n2: $\eta_a\|w\|^2$ at t.
        gap: $n_1-m_1=n_2-m_2$.
        turned: $m_2n_2\sin^2$ of the angle by which w has turned.
        met: $m_2n_2\cos^2$ of it.
        inputs: their number d.
    """
    xp, d = namespace(m1, n1), float(inputs)
    before, after = m1 + m2, n1 + n2
    exists = (before > 0) & (after > 0)
    one = xp.ones_like(after)
    # Both kernels in units of their scale, so that no product of four small numbers underflows.
    per_before, per_after = 1 / xp.where(before > 0, before, one), 1 / xp.where(exists, after, one)
    inverse = per_before * per_after
    mixed = (d * m1 * n1 + m1 * n2 + m2 * n1) * inverse
    turned, met = turned * inverse, met * inverse
    size0 = xp.sqrt(d * m1 * m1 + 2 * m1 * m2 + m2 * m2) * per_before
    size = xp.sqrt(d * n1 * n1 + 2 * n1 * n2 + n2 * n2) * per_after
    both = size0 * size
    moved = gap * (delta * inverse)
    numerator = (d - 1) * moved * moved + turned * (2 * (mixed + met) + turned)
    distance = xp.where(exists, numerator / xp.where(exists, both * (both + mixed + met), one), xp.nan)

    def change() -> Array:
        ratio = xp.where(before > 0, after, 1.0) * per_before * size / xp.where(before > 0, size0, 1.0)
        grown = gap * per_before * ((d + 1) * (m1 + n1) + 2 * (m2 + n2)) * per_before
        grown = grown / (size0 * size0 * (1 + ratio))
        turn = xp.where(exists, distance, 0.0)
        return xp.where(before > 0, xp.sqrt(grown * grown + 2 * ratio * turn), xp.nan)

    return distance, change
