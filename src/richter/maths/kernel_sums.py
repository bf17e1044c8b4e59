r"""Two kernels compared from sums over their tiles, so that neither is ever held; exact, or sketched with an error.

A tile holds the values of some pairs of examples as (sketch, row, column, output pair). An exact kernel is one
"sketch". A sketch is $K_v=\sum_{ij}v_iv_jK_{ij}$ for independent signs $v_i=\pm1$ of the outputs: its mean over v is
$\sum_iK_{ii}$, but $\|K_v\|^2$ is too large by the variance of $K_v$. Products of *different* sketches have no such
bias, $\mathbf E\langle K_v,L_w\rangle=\langle\mathrm{tr}K,\mathrm{tr}L\rangle$ for $v\ne w$, so that every quadratic
number here is a mean over pairs v ≠ w. What ratios and roots of such means add, and the error, is the jackknife's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message
from richter.maths.kernels import distance_from_sums, unbiased_hsic

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
LEAST_SKETCHES = 3  # fewer leave no error bar
FEW = 4  # products of rows that are summed one by one
WITHIN = 0.975  # of both tails, 0.95 is between them


@dataclass(frozen=True)
class Places:
    """Where a tile's output pairs (i, j) are among all, and where their opposites (j, i) are."""

    pairs: Ints
    turned: Ints


@dataclass(frozen=True)
class Estimate:
    """A number; `error` is the standard error of a sketched one, None of an exact one."""

    value: float
    error: float | None = None


def cross_mean(products: Floats) -> float:
    """The mean over v ≠ w of a table of products (sketch, sketch); the one product of an exact kernel.

    >>> cross_mean(np.array([[9.0, 1.0], [3.0, 9.0]])), cross_mean(np.array([[9.0]]))
    (2.0, 9.0)
    """
    m = products.shape[0]
    if m == 1:
        return float(products[0, 0])
    return float((products.sum() - np.trace(products)) / (m * (m - 1)))


def jackknife(of: Callable[[Ints], float], sketches: int) -> Estimate:
    """A number of all sketches without its bias of order 1/m, and its error; of one sketch, which is exact, neither.

    The jackknife's standard error is widened so that ± 2 errors are as wide as Student's t says for 95 %.

    >>> x = np.array([1.0, 2.0, 3.0])
    >>> found = jackknife(lambda kept: float(x[kept].mean()), 3)
    >>> found.value, round(float(found.error / (x.std(ddof=1) / 3**0.5)), 3)  # 4.303 / 1.96
    (2.0, 2.195)
    """
    every = np.arange(sketches)
    value = of(every)
    if sketches == 1:
        return Estimate(value)
    from scipy.special import ndtri, stdtrit

    left = np.array([of(np.delete(every, v)) for v in every])
    error = np.sqrt((sketches - 1) / sketches * ((left - left.mean()) ** 2).sum())
    wide = float(stdtrit(sketches - 1, WITHIN) / ndtri(WITHIN))
    return Estimate(sketches * value - (sketches - 1) * float(left.mean()), wide * float(error))


def estimated_distance(now: Floats, gap: Floats, growth: Floats) -> Estimate:
    """The cosine distance from tables of products (sketch, sketch); what is found below 0 is 0.

    >>> estimated_distance(np.array([[9.0]]), np.array([[4.0]]), np.array([[8.0]]))
    Estimate(value=0.0, error=None)
    """

    def of(kept: Ints) -> float:
        a, b, c = (cross_mean(x[np.ix_(kept, kept)]) for x in (now, gap, growth))
        return distance_from_sums(a, b, c, clipped=False)

    found = jackknife(of, len(now))
    return Estimate(max(found.value, 0.0) if found.value == found.value else found.value, found.error)


@dataclass
class Sums:
    """What the tiles of two kernels on the same examples leave behind: K now and L before, both symmetric.

    Held are tables (sketch, sketch) and, of both, the sums over rows and the diagonal (sketch, example, output pair);
    of outputs that come in parts the diagonal has only one half, which is enough for the trace.
    """

    sketches: int
    examples: int
    pairs: int  # of outputs: C² of a full kernel, C of a diagonal one, else 1
    now: Floats = field(init=False)  # ⟨K_v, K_w⟩
    gap: Floats = field(init=False)  # ⟨K_v − L_v, K_w − L_w⟩
    growth: Floats = field(init=False)  # ⟨K_v − L_v, K_w + L_w⟩, the mean of both orders: ⟨K_v, K_w⟩ − ⟨L_v, L_w⟩
    rows: Floats = field(init=False)  # (kernel, sketch, example, output pair)
    diagonal: Floats = field(init=False)
    crossed: Floats = field(init=False)  # (kernel, kernel): ⟨X, Yᵀ⟩ with the examples exchanged, of a full kernel
    whole: bool = field(default=True, init=False)  # whether every tile had all its outputs
    towards: Floats = field(init=False)  # (kernel, sketch): ⟨K_v, T⟩ with the target's kernel T
    target: float = field(default=0.0, init=False)  # ‖T‖²

    def __post_init__(self) -> None:
        """Nothing has been seen yet."""
        m = self.sketches
        self.now, self.gap, self.growth = (np.zeros((m, m)) for _ in range(3))
        self.rows, self.diagonal = (np.zeros((2, m, self.examples, self.pairs)) for _ in range(2))
        self.towards, self.crossed = np.zeros((2, m)), np.zeros((2, 2))

    def add(self, both: Floats, rows: slice, columns: slice, at: Places, mirrored: bool, T: Floats | None) -> None:
        """Count a tile (kernel, sketch, row, column, output pair); `mirrored`: its transpose counts too.

        `T` (row, column, output pair): the centred target's kernel there.
        """
        twice = 2.0 if mirrored else 1.0
        k, l = both.reshape(2, self.sketches, -1)
        d, s = k - l, k + l
        grown = _products(d, s)
        self.now += twice * _products(k, k)
        self.gap += twice * _products(d, d)
        self.growth += twice / 2 * (grown + grown.T)
        self.rows[:, :, rows, at.pairs] += both.sum(3)
        if mirrored:
            self.rows[:, :, columns, at.turned] += both.sum(2)
        low, high = max(rows.start, columns.start), min(rows.stop, columns.stop)
        if low < high:
            own = both[:, :, np.arange(low, high) - rows.start, np.arange(low, high) - columns.start]
            self.diagonal[:, :, low:high, at.pairs] += own
        if at.turned is not at.pairs:
            self.whole = self.whole and len(at.pairs) == self.pairs
            if self.whole:
                flat = both.reshape(2, -1)
                self.crossed += twice * _products(flat, both[..., at.turned].reshape(2, -1))
        if T is not None:
            flat = both.reshape(2 * self.sketches, -1)
            self.towards += twice * _products(flat, T.reshape(1, -1)).reshape(2, self.sketches)
            self.target += twice * float((T * T).sum())

    @property
    def before(self) -> Floats:
        """⟨L_v, L_w⟩."""
        return self.now - self.growth

    def distance(self) -> Estimate:
        """The cosine distance S; what a sketch finds below 0 is 0."""
        return estimated_distance(self.now, self.gap, self.growth)

    def change(self) -> Estimate:
        r"""$\|K-L\|/\|L\|$."""
        return self._estimate(lambda kept: _root(_ratio(self._mean(self.gap, kept), self._mean(self.before, kept))))

    def norm(self, kernel: int) -> Estimate:
        r"""$\|K\|$ of kernel 0, now, or 1, before."""
        return self._estimate(lambda kept: _root(self._mean(self._square(kernel), kept)))

    def trace(self, kernel: int, of: NDArray[np.bool_]) -> Estimate:
        """The trace; `of` says which output pairs are of equal outputs."""
        every = self.diagonal[kernel][:, :, of].sum((1, 2))
        return self._estimate(lambda kept: float(every[kept].mean()))

    def rank(self, kernel: int, of: NDArray[np.bool_]) -> Estimate:
        r"""The participation ratio $(\mathrm{Tr}K)^2/\|K\|^2$, an effective rank that needs no eigenvalues."""
        every, square = self.diagonal[kernel][:, :, of].sum((1, 2)), self._square(kernel)
        # The trace's square, too, is one of different sketches.
        squares = np.outer(every, every)
        return self._estimate(lambda kept: _ratio(self._mean(squares, kept), self._mean(square, kept)))

    def alignment(self, debiased: bool = False) -> Estimate:
        """Centred kernel alignment of the two, biased or debiased; NaN if one does not vary."""
        tables = [self._centred(*which, debiased) for which in ((0, 0), (1, 1), (0, 1))]

        def of(kept: Ints) -> float:
            kk, ll, kl = (self._mean(table, kept) for table in tables)
            return kl / float(np.sqrt(kk) * np.sqrt(ll)) if kk > 0 and ll > 0 else float("nan")

        return self._estimate(of)

    def target_alignment(self, kernel: int) -> Estimate:
        r"""Centred alignment with the target's kernel, $\langle K,T\rangle/(\|HKH\|\|T\|)$."""
        size, table = float(np.sqrt(self.target)), self._centred(kernel, kernel, debiased=False)

        def of(kept: Ints) -> float:
            kk = self._mean(table, kept)
            return float(self.towards[kernel][kept].mean()) / (size * float(np.sqrt(kk))) if kk > 0 < size else np.nan

        return self._estimate(of)

    def _estimate(self, of: Callable[[Ints], float]) -> Estimate:
        return jackknife(of, self.sketches)

    def _mean(self, table: Floats, kept: Ints) -> float:
        return cross_mean(table[np.ix_(kept, kept)])

    def _square(self, kernel: int) -> Floats:
        return self.before if kernel else self.now

    def _centred(self, a: int, b: int, debiased: bool) -> Floats:
        """HSIC of every two sketches: n² times the plain one, or the unbiased one over distinct examples."""
        n, table = self.examples, self._square(a) if a == b else (self.now + self.before - self.gap) / 2
        if debiased:
            made = self._unbiased(a, b, table)
        else:
            over, whole = _both_orders(self.rows[a], self.rows[b]), _both_orders(*(self.rows[k].sum(1) for k in (a, b)))
            made = table + whole / n**2 - 2 * over / n
        # What is left of a kernel that does not vary is rounding.
        floor = (np.finfo(float).eps * n) ** 2 * np.abs(table).max()
        return np.where(np.abs(made) > floor, made, 0.0) if a == b else made

    def _unbiased(self, a: int, b: int, table: Floats) -> Floats:
        n, side = self.examples, round(self.pairs**0.5)
        if n < 4:
            raise ParameterError(message("the debiased alignment", "have at least 4 examples", n))
        if not self.whole:
            return np.full_like(table, np.nan)
        rows, own = self.rows - self.diagonal, self.diagonal
        product = table - _both_orders(own[a], own[b])
        over, whole = _both_orders(rows[a], rows[b]), _both_orders(*(rows[k].sum(1) for k in (a, b)))
        turned, across = product, over
        if self.crossed.any():  # a full kernel: exchanging its examples is exchanging its outputs
            turn = lambda x: x.reshape(*x.shape[:-1], side, side).swapaxes(-1, -2).reshape(x.shape)
            turned = (self.crossed[a, b] + self.crossed[b, a]) / 2 - _both_orders(own[a], turn(own[b]))
            across = _both_orders(rows[a], turn(rows[b]))
        hsic = lambda p, t, s, c, w: unbiased_hsic(n, p, t, [[s, c], [c, s]], w)
        return np.vectorize(hsic)(product, turned, over, across, whole)


def _products(x: Floats, y: Floats) -> Floats:
    """x yᵀ. Of few rows without BLAS, whose threads go on waiting for more and slow down those of the gradients."""
    return np.einsum("is,js->ij", x, y) if len(x) * len(y) <= FEW else x @ y.T


def _both_orders(x: Floats, y: Floats) -> Floats:
    """Products of every two sketches' arrays, the mean of both orders."""
    made = x.reshape(len(x), -1) @ y.reshape(len(y), -1).T
    return (made + made.T) / 2


def _ratio(a: float, b: float) -> float:
    return a / b if b > 0 else float("nan")


def _root(x: float) -> float:
    return float(np.sqrt(max(x, 0.0))) if x == x else x
