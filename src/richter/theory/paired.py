"""What the three theories of a pair of layers have in common."""

from __future__ import annotations

import numpy as np

from richter.errors import ParameterError, message
from richter.maths.pair import LayerPair
from richter.theory.layout import Floats

TINY = 1e-140  # squares of smaller combinations underflow


def refuse_near_saddle(pair: LayerPair, owner: str) -> None:
    """A start on the saddle's axis is fine, one so near it that its squares underflow is not."""
    lead = np.abs(pair.lead).max(axis=0)
    near = (lead > 0) & (lead < TINY)
    if near.any():
        raise ParameterError(
            message(
                f"the start of {owner}",
                f"be on the saddle's axis or at least {TINY:g} away from it",
                float(lead[near].flat[0]),
                "Set the tiny entries to 0 or rescale the problem.",
            )
        )


def combinations(u: Floats, v: Floats, eta_u: Floats, eta_v: Floats) -> tuple[Floats, Floats]:
    """(p, q) = (√η_u v ± √η_v u)/2."""
    grown, other = np.sqrt(eta_u) * v, np.sqrt(eta_v) * u
    return (grown + other) / 2, (grown - other) / 2


def growth_of_path(now: tuple[Floats, Floats], start: tuple[Floats, Floats], eta_u: Floats, eta_v: Floats) -> Floats:
    """The growth factor read off a path of (p, q): by p or by q, whichever is larger at the start."""
    inner = lambda x, y: (x * y).sum(axis=0)
    by_p = inner(start[0], start[0]) >= inner(start[1], start[1])
    rise = inner(now[0], start[0]) / inner(start[0], start[0])
    fall = inner(start[1], start[1]) / inner(now[1], start[1])
    return np.where((eta_u == 0) | (eta_v == 0), 1.0, np.where(by_p, rise, fall) ** 2)


def largest_kernel_change(pair: LayerPair, end: Floats) -> Floats:
    """The largest |K − K₀|/K₀ on the way: at the end, or where the kernel turns (α = √(B/A))."""
    rates = pair.rates
    turn = rates.q / np.where(rates.p > 0, rates.p, 1.0)
    ends = end**2
    passed = (rates.p > 0) & (rates.q > 0) & ((turn - 1) * (turn - ends) < 0) & ~pair.frozen
    weight = rates.p + rates.q
    dip = 1 - 2 * np.sqrt(rates.p * rates.q) / np.where(weight > 0, weight, 1.0)
    grown = np.where(rates.p > 0, rates.p * end, 0.0) + np.where(rates.q > 0, rates.q / end, 0.0)
    final = np.where(pair.frozen, 0.0, np.abs(grown / np.where(weight > 0, weight, 1.0) - 1))
    return np.where(weight > 0, np.fmax(final, np.where(passed, dip, 0.0)), np.nan)
