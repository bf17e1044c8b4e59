"""How far the single neuron's kernel has moved, from sizes and angles alone."""

from __future__ import annotations

from collections.abc import Callable

from richter.maths.arrays import Array, namespace, safe_root
from richter.refs import KUN24, implements


@implements(KUN24["Sec. 1"])
def kernel_movement(
    delta: Array,
    m1: Array,
    m2: Array,
    n1: Array,
    n2: Array,
    gap: Array,
    turned: tuple[Array, Array],
    met: Array,
    inputs: int,
) -> tuple[Array, Callable[[], Array]]:
    r"""$S(0,t)=1-\cos(K_0,K_t)$ and $\|K_t-K_0\|/\|K_0\|$, no difference of near-equal numbers in either.

    Args:
        delta: the conserved $m_1-m_2=n_1-n_2$.
        m1: $\eta_wa^2$ at the start.
        m2: $\eta_a\|w\|^2$ at the start.
        n1: $\eta_wa^2$ at t.
        n2: $\eta_a\|w\|^2$ at t.
        gap: $n_1-m_1=n_2-m_2$.
        turned: two factors, of the start's and of the end's scale, of $m_2n_2\sin^2$ of the angle w has turned by.
        met: $\sqrt{m_2n_2}\cos$ of it.
        inputs: their number d.
    """
    xp, d = namespace(m1, n1), float(inputs)
    before, after = m1 + m2, n1 + n2
    exists = (before > 0) & (after > 0)
    one = xp.ones_like(after)
    # Both kernels in units of their scale, so that no product of small numbers underflows.
    root_before, root_after = (
        1 / xp.sqrt(xp.where(before > 0, before, one)),
        1 / xp.sqrt(xp.where(exists, after, one)),
    )
    per_before, per_after = root_before * root_before, root_after * root_after
    m1, m2, n1, n2 = m1 * per_before, m2 * per_before, n1 * per_after, n2 * per_after
    mixed = d * m1 * n1 + m1 * n2 + m2 * n1
    turn_square = (turned[0] * per_before) * (turned[1] * per_after)
    met_square = (met * root_before * root_after) ** 2
    size0 = safe_root(xp, d * m1 * m1 + 2 * m1 * m2 + m2 * m2)
    size = safe_root(xp, d * n1 * n1 + 2 * n1 * n2 + n2 * n2)
    both = size0 * size
    moved = (gap * per_after) * (delta * per_before)
    numerator = (d - 1) * moved * moved + turn_square * (2 * (mixed + met_square) + turn_square)
    distance = xp.where(exists, numerator / xp.where(exists, both * (both + mixed + met_square), one), xp.nan)

    def change() -> Array:
        grew = xp.where(before > 0, after, 1.0) * per_before
        ratio = grew * size / xp.where(before > 0, size0, 1.0)
        grown = gap * per_before * ((d + 1) * (m1 + grew * n1) + 2 * (m2 + grew * n2))
        grown = grown / xp.where(before > 0, size0 * size0 * (1 + ratio), 1.0)
        turn = xp.where(exists, distance, 0.0)
        return xp.where(before > 0, safe_root(xp, grown * grown + 2 * ratio * turn), xp.nan)

    return distance, change
