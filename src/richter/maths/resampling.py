"""How sure a kernel's movement is: the same numbers for other draws of the examples they were read on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Draws:
    """Bootstrap draws of n examples: how often each is taken, (draw, example); the first row takes each once."""

    counts: Floats

    @classmethod
    def make(cls, examples: int, number: int, rng: np.random.Generator | int = 0) -> Draws:
        """The examples themselves and `number` draws of as many with repetition.

        >>> Draws.make(3, 2).counts.sum(axis=1).tolist()
        [3.0, 3.0, 3.0]
        """
        generator = np.random.default_rng(rng)
        drawn = generator.multinomial(examples, np.full(examples, 1 / examples), size=number)
        return cls(np.concatenate([np.ones((1, examples)), drawn]).astype(np.float64))

    def total(self, pairs: ArrayLike) -> Floats:
        r"""$\sum_{ij}$ of a matrix over pairs of examples, for every draw.

        A drawn example meets itself once, however often it was drawn: pairs of its copies are left out and the
        others weighed by n/(n − 1), so that the mean over draws is the sum over the examples.

        >>> Draws(np.array([[1.0, 1.0], [2.0, 0.0]])).total([[1.0, 3.0], [3.0, 5.0]]).tolist()
        [12.0, 2.0]
        """
        G = np.asarray(pairs, dtype=np.float64)
        n = self.counts.shape[1]
        if G.shape != (n, n):
            raise ParameterError(message("the matrix over pairs of examples", f"have shape {(n, n)}", f"{G.shape}"))
        own = self.counts @ np.diag(G)
        across = np.einsum("bi,ij,bj->b", self.counts, G, self.counts, optimize=True) - self.counts**2 @ np.diag(G)
        weight = np.full(len(self.counts), n / (n - 1) if n > 1 else 1.0)
        weight[0] = 1.0  # the examples themselves
        return np.asarray(own + weight * across)


def pair_products(kernel: ArrayLike, other: ArrayLike) -> Floats:
    r"""$\sum_{cc'}K_{ij,cc'}K'_{ij,cc'}$ per pair of examples, of kernels (N, N), (N, N, C) or (N, N, C, C)."""
    K, L = (np.asarray(x, dtype=np.float64) for x in (kernel, other))
    if K.shape != L.shape or K.ndim not in (2, 3, 4) or K.shape[0] != K.shape[1]:
        must = "have one shape (N, N), (N, N, C) or (N, N, C, C)"
        raise ParameterError(message("the two kernels", must, f"{K.shape} and {L.shape}"))
    return np.asarray((K * L).reshape(*K.shape[:2], -1).sum(axis=2))


def movement(kernel: ArrayLike, start: ArrayLike, draws: Draws) -> tuple[Floats, Floats]:
    r"""$\|K-K_0\|/\|K_0\|$ and $1-\cos(K,K_0)$ for every draw of the examples; NaN where a kernel is 0.

    >>> K0, K = np.eye(2), np.diag([2.0, 2.0])
    >>> [x.tolist() for x in movement(K, K0, Draws.make(2, 0))]
    [[1.0], [0.0]]
    """
    K, K0 = np.asarray(kernel, dtype=np.float64), np.asarray(start, dtype=np.float64)
    peak = float(np.abs(K0).max(initial=0.0))
    if peak > 0:  # squares of tiny kernels underflow
        K, K0 = K / peak, K0 / peak
    first, now = draws.total(pair_products(K0, K0)), draws.total(pair_products(K, K))
    moved = draws.total(pair_products(K - K0, K - K0))
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.where(first > 0, np.sqrt(moved / first), np.nan)
        sizes = np.sqrt(first * now)
        # ‖K − K₀‖² − (‖K‖ − ‖K₀‖)² = 2 (‖K‖‖K₀‖ − ⟨K, K₀⟩)
        turned = (moved - (np.sqrt(now) - np.sqrt(first)) ** 2) / (2 * sizes)
        return change, np.where(sizes > 0, np.maximum(turned, 0.0), np.nan)


def interval(values: ArrayLike, covered: float) -> tuple[float, float]:
    """The central interval that holds the share `covered` of the values, undefined ones left out.

    >>> interval([0.0, 1.0, 2.0, float("nan")], 0.5)
    (0.5, 1.5)
    """
    found = np.asarray(values, dtype=np.float64)
    found = found[~np.isnan(found)]
    if not found.size:
        return float("nan"), float("nan")
    low, high = np.quantile(found, [(1 - covered) / 2, (1 + covered) / 2])
    return float(low), float(high)
