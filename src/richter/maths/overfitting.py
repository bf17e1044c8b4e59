r"""Benign and malignant overfitting: a few strong features and many weak ones, fitted to noisy labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from richter.maths.linear import flow_weights
from richter.refs import NAM24, implements

Floats = NDArray[np.float64]


def two_block_spectrum(p: int, d: int, tail_weight: float) -> Floats:
    r"""$\rho_k=1$ for k ≤ d and $T/(p-d)$ above, so that the tail's weight $\sum_{k>d}\rho_k$ is T; shape (mode,).

    >>> two_block_spectrum(4, 2, 1.0).tolist()
    [1.0, 1.0, 0.5, 0.5]
    """
    return np.concatenate([np.ones(d), np.full(p - d, tail_weight / (p - d))])


@implements(
    NAM24["Eq. 1.36"].misprint(
        printed="ρ_{k>d} = n/(p − d), and L ≈ 1 if d ≤ n, (n − d)/(p − d) if d > n",
        right="the cases are k ≤ d and k > d; the printed tail has the weight n, so that κ ≈ 1 and L_{k≤d} ≈ 1/2. "
        "L_{k≤d} ≈ n/(n + T) for a tail of weight T: 1 only if T ≪ n",
        how="d = 5, n = 100, p = 2000: theory 0.5061, drawn data 0.5064; with T = 1 0.9901",
    )
)
def two_block_learnability(n: Floats, p: Floats, d: Floats, tail_weight: Floats) -> tuple[Floats, Floats]:
    r"""L of the first d modes and of the others, without ridge and for n < p: κ solves a quadratic.

    With $r=T/(p-d)$: $n\kappa^2+b\kappa=r(p-n)$, $b=n(1+r)-d-T$, its positive root by the conjugate. Roughly
    $\kappa\approx T/n$, $L_{k\le d}\approx n/(n+T)$ and $L_{k>d}\approx(n-d)/(p-d)$ for d ≪ n ≪ p.

    Args:
        n: examples.
        p: modes.
        d: strong modes.
        tail_weight: T.

    >>> head, tail = two_block_learnability(100.0, 2000.0, 5.0, 100.0)
    >>> round(float(head), 4), round(float(tail), 4)
    (0.5061, 0.0489)
    """
    n, p, d, T = (np.asarray(x, dtype=np.float64) for x in (n, p, d, tail_weight))
    r = T / (p - d)
    b, c = n * (1 + r) - d - T, r * (p - n)
    root = np.sqrt(b * b + 4 * n * c)
    kappa = np.where(b >= 0, 2 * c / (root + np.abs(b)), (root + np.abs(b)) / (2 * n))
    return np.asarray(1 / (1 + kappa)), np.asarray(r / (r + kappa))


def tail_weight(eigenvalues: Floats, d: int) -> Floats:
    r"""$\sum_{k>d}\rho_k$: the ridge that the weak features act as. The first d modes are learned if it is ≪ nρ_d.

    >>> tail_weight(np.array([1.0, 0.5, 0.25]), 1).item()
    0.75
    """
    return np.asarray(eigenvalues[..., d:].sum(axis=-1))


def effective_ranks(eigenvalues: Floats, d: int) -> tuple[Floats, Floats]:
    r"""$r_d=\sum_{k>d}\rho_k/\rho_{d+1}$ and $R_d=(\sum_{k>d}\rho_k)^2/\sum_{k>d}\rho_k^2$ of a falling spectrum.

    Interpolation is benign where $d\ll n\ll R_d$: $E_0-1\approx d/n+n/R_d$.

    >>> [x.item() for x in effective_ranks(two_block_spectrum(100, 5, 1.0), 5)]
    [95.0, 95.0]
    """
    tail = eigenvalues[..., d:]
    peak = tail.max(axis=-1)
    unit = tail / np.where(peak > 0, peak, 1.0)[..., None]
    first = unit.sum(axis=-1)
    square = (unit * unit).sum(axis=-1)
    return np.asarray(first), np.asarray(first**2 / np.where(square > 0, square, 1.0))


@implements(
    NAM24["Sec. 1.6.1"].misprint(
        printed="gradient flow learns only the first d features while 1 ≪ ηt ≪ (p − d)/n",
        right="on n examples the p − d weak features fit noise together, at the rate T/n (mean loss; T the tail's "
        "weight): the window is 1 ≪ ηt ≪ n/T. The printed tail has T = n and no window; (p − d)/n is 1/ρ_{k>d}, "
        "which is the time of one weak feature on infinitely many examples",
        how="flow on sine features, d = 5, n = 100, p = 2000: half of the noise's amplitude is fitted at ηt = 0.71 n/T "
        "for T = 0.1, 1, 10 and 100",
    )
)
def signal_window(n: Floats | float, tail_weight: Floats | float) -> tuple[Floats, Floats]:
    r"""The times ηt between which the signal is fitted and the noise is not: $1\ll\eta t\ll n/T$, mean loss.

    >>> [float(x) for x in signal_window(100.0, 1.0)]
    [1.0, 100.0]
    """
    end = np.asarray(n, dtype=np.float64) / np.asarray(tail_weight, dtype=np.float64)
    return np.ones_like(end), end


def sine_basis(x: Floats, p: int) -> Floats:
    r"""$e_k(x)=\sqrt2\sin(2\pi kx)$, k = 1 … p, orthonormal for x uniform on [0, 1]; shape (mode, example).

    >>> sine_basis(np.array([0.25]), 2).round(6).tolist()
    [[1.414214], [0.0]]
    """
    k = np.arange(1, p + 1)[:, None]
    # kx is taken modulo 1, in which a double keeps more digits than 2πkx does.
    return np.asarray(np.sqrt(2) * np.sin(2 * np.pi * np.mod(k * x, 1.0)))


def fitted_coefficients(
    intensities: Floats, basis: Floats, targets: Floats, t: float | Floats = np.inf, eta: float = 1.0
) -> Floats:
    r"""Coefficients (…, mode) of the function that gradient flow from 0 on the *mean* loss has learned at time t.

    The model is $f=\sum_kw_k\sqrt{\rho_k}e_k$; at t = ∞ it is the minimum-norm fit. Linear in the targets, so that
    the fits of signal and noise add up to the fit of the labels.

    Args:
        intensities: ρ (mode,).
        basis: e (mode, example).
        targets: (example,).
        t: a time or several.
        eta: learning rate.

    >>> fitted_coefficients(np.array([1.0, 0.25]), np.array([[1.0], [1.0]]), np.array([1.0])).round(12).tolist()
    [0.8, 0.2]
    """
    scale = np.sqrt(intensities)
    return np.asarray(scale * flow_weights(scale[:, None] * basis, targets, t, eta / basis.shape[1]))


def spike_width(p: int) -> float:
    r"""Full width at half height, in x, of the spike that p equal sine features fit to one noisy label.

    Near the example the minimum-norm function is the Dirichlet kernel $\sum_{k\le p}\cos2\pi ku\approx
    \sin(2\pi pu)/(2\pi u)$, which is half its height at $2\pi pu=1.8955$: the width is 0.6034/p for p ≫ 1.

    >>> round(2000 * spike_width(2000), 4)
    0.6031
    """
    from scipy.optimize import brentq

    m = np.arange(1, p + 1)
    half = lambda u: float(np.cos(2 * np.pi * m * u).mean() - 0.5)
    return 2 * float(brentq(half, 0.0, 1 / (2 * p), xtol=1e-15 / p))
