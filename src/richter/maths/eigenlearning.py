r"""What a model of fixed features learns from n examples: the eigenlearning equations.

Minimum-norm (ridge 0) or kernel ridge regression with the eigenvalues $\rho_k$ of the kernel operator learns the
fraction $L_k=\rho_k/(\rho_k+\kappa)$ of mode k in the mean over data sets, asymptotically (1 % at n = 60). The one
unknown $\kappa$ solves $\sum_km_kL_k+\mathrm{ridge}/\kappa=n$, with multiplicities $m_k$.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from richter.refs import NAM24, implements

Floats = NDArray[np.float64]
BLOCK = 1 << 15  # numbers worked on at once, so that temporaries stay in the cache
STEPS = 200  # Newton steps and bisections together; 3 to 13 are usual
PATIENT = 30  # steps after which a step that is not half of the last one is a bisection
CLOSE = 1e-8  # a step in ln κ after which the error is its square, and nothing is left to do
EPS = float(np.finfo(float).eps)
TINY = float(np.finfo(float).tiny)
EASY = 4.0  # κK^s from which on the tail of a power law is summed as a series
TERMS = 27  # of that series: EASY^-27 is below one rounding error
FAR = 4.0  # K over the highest order of ζ, for the Euler–Maclaurin sum
EULER_MACLAURIN = (1 / 12, -1 / 720, 1 / 30240)  # B_2i / (2i)!; the next is below one rounding error


class Sums(NamedTuple):
    """Sums over modes that never cancel, each the shape of κ.

    The learned part of the modes below κ, the unlearned part of those above it, how many these are, ΣL(1 − L)
    and ΣL².
    """

    below: Floats
    above: Floats
    number: Floats
    spread: Floats
    square: Floats


@dataclass(frozen=True)
class Eigenlearning:
    """κ and what follows from it without the target; every array has the shape of the broadcast n and ridge.

    Args:
        kappa: the implicit ridge κ.
        overfitting: overfitting coefficient E₀ = n/(n − ΣL²).
        fitted: ΣL²/n, the part of the labels' noise variance that comes back in the function, before E₀.
        train: (ridge/(nκ))² E₀, finite where E₀ is not: what is left on the training set.
    """

    kappa: Floats
    overfitting: Floats
    fitted: Floats
    train: Floats

    def errors(self, bias: Floats, variance: Floats) -> tuple[Floats, Floats, Floats]:
        r"""Mean square errors, without ½: on the training labels, on noisy test labels, on the target itself.

        $\mathrm{test}=E_0(b+\sigma^2)$, $\mathrm{clean}=\mathrm{test}-\sigma^2=E_0(b+\sigma^2\sum L^2/n)$ and
        $\mathrm{train}=(\mathrm{ridge}/n\kappa)^2\,\mathrm{test}$; 0 where nothing multiplies an infinite E₀.

        Args:
            bias: $b=\sum_k(1-L_k)^2v_k^2$ for the target's coefficients v.
            variance: σ² of the labels' noise.
        """
        source = bias + variance * self.fitted
        clean = np.where(source > 0, self.overfitting, 0.0) * source
        return self.train * (bias + variance), clean + variance, clean


def learned_fraction(eigenvalues: Floats, kappa: Floats) -> Floats:
    r"""$L_k=\rho_k/(\rho_k+\kappa)$ (…, mode); a mode with $\rho_k=0$ is never learned.

    >>> learned_fraction(np.array([1.0, 0.0]), np.array(0.0)).tolist()
    [1.0, 0.0]
    """
    k = np.asarray(kappa)[..., None]
    whole = eigenvalues + k
    return np.asarray(eigenvalues / np.where(whole > 0, whole, 1.0))


def unlearned_fraction(eigenvalues: Floats, kappa: Floats) -> Floats:
    r"""$1-L_k=\kappa/(\rho_k+\kappa)$ (…, mode), without the subtraction.

    >>> unlearned_fraction(np.array([1.0, 0.0]), np.array(0.0)).tolist()
    [0.0, 1.0]
    """
    k = np.asarray(kappa)[..., None]
    whole = eigenvalues + k
    return np.where(whole > 0, k, 1.0) / np.where(whole > 0, whole, 1.0)


def mode_sums(eigenvalues: Floats, multiplicities: Floats, kappa: Floats) -> Sums:
    """The sums over modes at κ > 0, in blocks that fit into the cache."""
    k = kappa[..., None]
    below, above, count, spread, square = (np.zeros(kappa.shape) for _ in range(5))
    modes = eigenvalues.shape[-1]
    width = max(1, BLOCK // max(1, kappa.size))
    for first in range(0, modes, width):
        rho, m = eigenvalues[..., first : first + width], multiplicities[..., first : first + width]
        over = rho > k
        ratio = np.where(over, k / np.where(over, rho, 1.0), rho / k)
        small = ratio / (1.0 + ratio)  # the smaller of L and 1 − L
        part = m * small
        spread += (part / (1.0 + ratio)).sum(axis=-1)
        part_above = np.where(over, part, 0.0)
        above += part_above.sum(axis=-1)
        below += (part - part_above).sum(axis=-1)
        count += (over * m).sum(axis=-1)
        square += (m * np.where(over, 1.0 / (1.0 + ratio), small) ** 2).sum(axis=-1)
    return Sums(below, above, count, spread, square)


def _solve(n: Floats, ridge: Floats, low: Floats, high: Floats, sums: Callable[[Floats], Sums]) -> tuple[Floats, Sums]:
    """κ between the bounds, by Newton steps for ln Σ over ln κ, halving the interval where they leave it.

    The excess compares sums of the smaller of L and 1 − L with the whole number n − number, so that its error is a
    few roundings of ΣL(1 − L), the slope: ln κ is found to the last digits for any spectrum. Where κ is still many
    decades away (n = p and a small ridge) the interval is halved instead.
    """
    low, high = np.maximum(low * (1 - 1e-12), TINY), high * (1 + 1e-12)
    kappa = high.copy()
    last = np.full(kappa.shape, np.inf)
    for count in range(STEPS):
        made = sums(kappa)
        explicit = ridge / kappa
        excess = (made.below + explicit) - (made.above + (n - made.number))
        low, high = np.where(excess > 0, kappa, low), np.where(excess > 0, high, kappa)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            step = (n + excess) * np.log1p(np.maximum(excess / n, -1 + EPS)) / (made.spread + explicit)
            tried = kappa * np.exp(np.clip(step, -50.0, 50.0))
        near = np.abs(step) <= CLOSE
        good = near | ((tried > low) & (tried < high) & ((count < PATIENT) | (np.abs(step) <= last / 2)))
        last = np.where(good, np.abs(step), (np.log(high) - np.log(low)) / 2)
        kappa = np.where(good, tried, np.sqrt(low) * np.sqrt(high))
        if (near | (high <= low * (1 + 4 * EPS))).all():
            break
    return kappa, sums(kappa)


def _follow(n: Floats, ridge: Floats, kappa: Floats, sums: Sums) -> Eigenlearning:
    r"""E₀ through $n-\sum L^2=\mathrm{ridge}/\kappa+\sum L(1-L)$, which does not cancel."""
    explicit = ridge / kappa
    rest = sums.spread + explicit
    return Eigenlearning(kappa, n / rest, sums.square / n, explicit / n * (explicit / rest))


@implements(NAM24["Eq. 1.35"])
def eigenlearning(
    eigenvalues: Floats, n: Floats | float, ridge: Floats | float = 0.0, multiplicities: Floats | float = 1.0
) -> Eigenlearning:
    r"""$\kappa$ from $\sum_km_k\frac{\rho_k}{\rho_k+\kappa}+\frac{\mathrm{ridge}}\kappa=n$, and E₀.

    The ridge is added to the kernel matrix, K + ridge·I. Without ridge, from n = p examples on (p: modes with ρ > 0)
    κ = 0 and everything is learned: E₀ = n/(n − p), and a part (n − p)/n of what no mode can express stays on the
    training set. At n = p E₀ is infinite.

    Args:
        eigenvalues: ρ ≥ 0 (…, mode).
        n: number of examples > 0, broadcasts with the leading dimensions of the eigenvalues.
        ridge: ridge ≥ 0, the same.
        multiplicities: of the eigenvalues, broadcasts with them.

    >>> made = eigenlearning(np.ones(10), 4.0)
    >>> round(float(made.kappa), 12), round(float(made.overfitting), 12)
    (1.5, 1.666666666667)
    """
    rho = np.asarray(eigenvalues, dtype=np.float64)
    m = np.broadcast_to(np.asarray(multiplicities, dtype=np.float64), rho.shape)
    shape = np.broadcast_shapes(rho.shape[:-1], np.shape(n), np.shape(ridge))
    samples, explicit = (np.broadcast_to(np.asarray(x, dtype=np.float64), shape) for x in (n, ridge))
    alive = np.broadcast_to((m * (rho > 0)).sum(axis=-1), shape)
    solved = np.broadcast_to(np.asarray((explicit > 0) | (samples < alive)), shape)
    if not solved.any():
        return _saturated(samples, alive)
    # Where there is nothing to solve a problem that can be solved stands in.
    aim = np.where(solved, samples, np.where(alive > 0, alive / 2, 1.0))
    given = np.where(solved, explicit, np.where(alive > 0, 0.0, 1.0))
    least = np.where((rho > 0) & (m > 0), rho, np.inf).min(axis=-1)
    with np.errstate(invalid="ignore", over="ignore"):
        low = np.maximum(np.where(alive > aim, least * ((alive - aim) / aim), 0.0), given / aim)
    high = ((m * rho).sum(axis=-1) + given) / aim
    kappa, sums = _solve(aim, given, low, high, lambda k: mode_sums(rho, m, k))
    found, full = _follow(aim, given, kappa, sums), _saturated(samples, alive)
    pick = lambda name: np.where(solved, getattr(found, name), getattr(full, name))
    return Eigenlearning(pick("kappa"), pick("overfitting"), pick("fitted"), pick("train"))


def _saturated(n: Floats, alive: Floats) -> Eigenlearning:
    """κ = 0: at least as many examples as modes, and no ridge."""
    left = np.maximum(n - alive, 0.0)
    overfitting = np.where(left > 0, n / np.where(left > 0, left, 1.0), np.inf)
    return Eigenlearning(np.zeros(n.shape), overfitting, np.minimum(alive, n) / n, left / n)


def power_law_eigenlearning(alpha: float, n: Floats | float, ridge: Floats | float = 0.0) -> Eigenlearning:
    r"""The same for the infinite spectrum $\rho_k=k^{-(1+\alpha)}$, k = 1, 2, …, α > 0; it is never exhausted.

    The first K modes are summed; for the rest, with s = 1 + α and $\kappa K^s\ge4$,
    $\sum_{k\ge K}\frac1{1+\kappa k^s}=\sum_{j\ge1}(-1)^{j+1}\kappa^{-j}\zeta(js,K)$ with Hurwitz' ζ.

    >>> made = power_law_eigenlearning(1.0, 20.0)  # Σ1/(1 + κk²) = (π/√κ coth(π/√κ) − 1)/2
    >>> z = np.pi / np.sqrt(made.kappa)
    >>> round(float(z / np.tanh(z) - 1) / 2, 10)
    20.0
    """
    from scipy.special import zeta

    s = 1.0 + alpha
    samples, explicit = np.broadcast_arrays(np.asarray(n, dtype=np.float64), np.asarray(ridge, dtype=np.float64))
    whole = (np.pi / s) / np.sin(np.pi / s)  # ∫dx/(1 + x^s) over x > 0
    low = np.maximum((whole / (samples + 1)) ** s, explicit / samples)
    high = (zeta(s) + explicit) / samples
    first = int(np.ceil(max((EASY / low.min()) ** (1 / s), FAR * TERMS * s)))
    rho, m = np.arange(1.0, first) ** -s, np.ones(first - 1)
    j = np.arange(1.0, TERMS + 1)
    weights = np.where(j % 2 == 1, 1.0, -1.0) * _scaled_zeta(j * s, first)

    def sums(kappa: Floats) -> Sums:
        made = mode_sums(rho, m, kappa)
        terms = weights * np.exp(-j * (np.log(kappa) + s * np.log(first))[..., None])
        learned, spread, square = ((terms * factor).sum(axis=-1) for factor in (1.0, j, 1.0 - j))
        return made._replace(below=made.below + learned, spread=made.spread + spread, square=made.square + square)

    kappa, found = _solve(samples, explicit, low, high, sums)
    return _follow(samples, explicit, kappa, found)


def _scaled_zeta(order: Floats, first: int) -> Floats:
    r"""$K^\sigma\zeta(\sigma,K)=\sum_{i\ge0}(1+i/K)^{-\sigma}$ for K well above σ, by Euler–Maclaurin."""
    made, rising = first / (order - 1) + 0.5, order / first
    for i, coefficient in enumerate(EULER_MACLAURIN):
        made = made + coefficient * rising
        rising = rising * (order + 2 * i + 1) * (order + 2 * i + 2) / first**2
    return np.asarray(made)
