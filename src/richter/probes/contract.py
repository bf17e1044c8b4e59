"""Per-example gradients of one block of examples, as factors or written out, and their inner products.

Kinds of product: "full" (n, C, m, C) all pairs of outputs; "trace" (n, m) summed over equal outputs; "diagonal"
(C, n, m) equal outputs, not summed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from richter.probes.memory import alone
from richter.probes.observe import torch_library

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["full", "trace", "diagonal"]
SCRATCH = 2**22  # entries of one block of intermediate products
HALVES = 4  # parts in which a block meets itself, so that only the lower half of them is computed
LEAST = 64  # rows of such a part


@dataclass(frozen=True)
class Written:
    """Gradients themselves: (n, C, entry)."""

    values: Tensor

    def __getitem__(self, part: slice) -> Written:
        return Written(self.values[part])


@dataclass(frozen=True)
class Term:
    """One use of a matrix: Σ_t δ_t x_tᵀ, δ (n, C, t, b), x (n, t, a) or, for a table, the row's index (n, t).

    `flipped`: the matrix is stored as (a, b), so that the gradient is Σ_t x_t δ_tᵀ.
    """

    delta: Tensor
    data: Tensor
    flipped: bool

    @property
    def spread(self) -> bool:
        """Whether δ is the same for all examples, as it is behind a last layer, and is kept only once."""
        return self.delta.shape[0] > 1 and self.delta.stride(0) == 0

    def __getitem__(self, part: slice) -> Term:
        return Term(self.delta[part], self.data[part], self.flipped)


@dataclass(frozen=True)
class Factors:
    """The gradient of one matrix, (n, C, row, column), as a sum over its uses; never written out as a whole."""

    terms: tuple[Term, ...]
    shape: tuple[int, int]

    def __getitem__(self, part: slice) -> Factors:
        return Factors(tuple(term[part] for term in self.terms), self.shape)


Piece = Written | Factors


def pairs(kind: Kind, outputs: int) -> int:
    """Products of outputs that a pair of examples needs."""
    return outputs**2 if kind == "full" else outputs


def cost_written(kind: Kind, outputs: int, size: int) -> float:
    """Operations per pair of examples from gradients that are written out."""
    return 2 * pairs(kind, outputs) * size


def cost_of_places(kind: Kind, outputs: int, t: int, a: int, b: int, uses: int = 1) -> float:
    """The same from factors, over pairs of places.

    A multiplication in a matrix product is cheap; one entry by entry goes through memory.
    """
    return uses**2 * (
        2 * t**2 * a + min(_cost_multiplied(kind, outputs, t, t, b), _cost_spread(kind, outputs, t, t, b))
    )


def _cost_multiplied(kind: Kind, outputs: int, t: int, s: int, b: int) -> float:
    """Of δδ′ for every pair of places, entry by entry with what is alike."""
    products = 1 if kind == "trace" else pairs(kind, outputs)
    return t * s * (2 * pairs(kind, outputs) * b + 12 * products)


def _cost_spread(kind: Kind, outputs: int, t: int, s: int, b: int) -> float:
    """Of δ spread over the other's places by what is alike, then multiplied: for all pairs of outputs alone."""
    if kind != "full":
        return float("inf")
    return 2 * outputs * b * t * s + 2 * outputs**2 * b * s + 8 * outputs * b * s


def inner(p: Piece, q: Piece, kind: Kind) -> Tensor:
    """The inner products of the gradients in two blocks; of a block with itself one half of them is computed."""
    if isinstance(p, Written) and isinstance(q, Written):
        return _dot(p.values, q.values, kind)
    assert isinstance(p, Factors) and isinstance(q, Factors)
    (n, C, t), (m, _, s) = p.terms[0].delta.shape[:3], q.terms[0].delta.shape[:3]
    if len(p.terms) == 1 and t == s == 1:
        over = _dot(p.terms[0].delta[:, :, 0], q.terms[0].delta[:, :, 0], kind)
        alike = _alike(p.terms[0].data, q.terms[0].data, over.dtype)[:, 0, :, 0]
        return over.mul_(alike[:, None, :, None] if kind == "full" else alike)
    rows, columns = p.shape
    forming = 2 * C * rows * columns * sum(x.data.shape[1] for x in p.terms) * (1 / n + 1 / m)
    by_rows = cost_written(kind, C, rows * columns) + forming
    if by_rows < sum(_cost_by_places(x, y, kind) for x in p.terms for y in q.terms):
        return _by_rows(p, q, kind)
    torch = torch_library("The kernel")
    outer = C * C if kind == "full" else C
    first = p.terms[0].delta
    made = torch.empty(_shape(kind, n, C, m), dtype=first.dtype, device=first.device)
    step = max(1, SCRATCH // max(1, m * t * s * outer))
    step = min(step, -(-n // HALVES)) if p is q else step
    for i in range(0, n, step):
        a = slice(i, min(i + step, n))
        b = slice(0, a.stop) if p is q else slice(0, m)
        got = _by_places(p[a], q[b], kind)
        if kind == "full":
            made[a, :, b] = got
        else:
            made[..., a, b] = got
        if p is q and i:  # the other half
            old = slice(0, i)
            if kind == "full":
                made[old, :, a] = got[:, :, old].permute(2, 3, 0, 1)
            else:
                made[..., old, a] = got[..., old].transpose(-1, -2)
    return made


def _shape(kind: Kind, n: int, outputs: int, m: int) -> tuple[int, ...]:
    return {"full": (n, outputs, m, outputs), "trace": (n, m), "diagonal": (outputs, n, m)}[kind]


def _cost_by_places(p: Term, q: Term, kind: Kind) -> float:
    """`cost_of_places` of one pair of uses."""
    (C, t, b), s, D = p.delta.shape[1:], q.delta.shape[2], q.delta.shape[1]
    width = p.data.shape[-1] if p.data.ndim == 3 else 1
    if p.flipped != q.flipped:  # rows of one are columns of the other
        return t * s * (2 * C * (q.data.shape[-1] if q.data.ndim == 3 else 1) + 2 * D * width + 2 * pairs(kind, C))
    shared = p.spread and q.spread
    spread = float("inf") if shared else _cost_spread(kind, C, t, s, b)
    return 2 * t * s * width + min(_cost_multiplied(kind, C, t, s, 0 if shared else b), spread)


def _dot(p: Tensor, q: Tensor, kind: Kind) -> Tensor:
    """Products of (n, C, entry) with (m, C, entry)."""
    n, C, m = p.shape[0], p.shape[1], q.shape[0]
    if kind == "diagonal":
        return p.transpose(0, 1) @ q.permute(1, 2, 0)
    lead = (n * C, m * C) if kind == "full" else (n, m)
    left = p.reshape(lead[0], -1)
    made = _with_itself(left) if p is q else left @ q.reshape(lead[1], -1).T
    return made.view(_shape(kind, n, C, m))


def _with_itself(x: Tensor) -> Tensor:
    """x xᵀ, of which one half is computed."""
    torch = torch_library("The kernel")
    if alone(x):
        plain = x.numpy(force=True)
        return torch.from_numpy(plain @ plain.T)
    n = len(x)
    step = max(LEAST, -(-n // HALVES))
    if n <= step:
        return x @ x.T
    made = x.new_empty(n, n)
    for low in range(0, n, step):
        high = min(low + step, n)
        made[low:high, :high] = x[low:high] @ x[:high].T
        made[:low, low:high] = made[low:high, :low].T
    return made


def _alike(x: Tensor, y: Tensor, dtype: object) -> Tensor:
    """Products of data, (n, t, m, s); for indices 1 where they are equal."""
    if x.ndim == 2:
        return (x[:, :, None, None] == y[None, None]).to(dtype)  # type: ignore[call-overload]
    return (x.reshape(-1, x.shape[-1]) @ y.reshape(-1, y.shape[-1]).T).view(*x.shape[:2], *y.shape[:2])


def _by_places(p: Factors, q: Factors, kind: Kind) -> Tensor:
    """Σ over pairs of places of the product of what is alike on both sides of the matrix."""
    made = None
    for x in p.terms:
        for y in q.terms:
            got = _same_side(x, y, kind) if x.flipped == y.flipped else _across(x, y, kind)
            made = got if made is None else made.add_(got)
    assert made is not None
    return made


def _same_side(p: Term, q: Term, kind: Kind) -> Tensor:
    alike = _alike(p.data, q.data, p.delta.dtype)
    # δ that all examples share is multiplied once, and spread over them by the product with what is alike.
    shared = p.spread and q.spread
    left, right = (x.delta[:1] if shared else x.delta for x in (p, q))
    times = lambda over, alike: over * alike if shared else over.mul_(alike)
    n, C, t, b = left.shape
    m, D, s, _ = right.shape
    if not shared and _cost_spread(kind, C, t, s, b) < _cost_multiplied(kind, C, t, s, b):
        return _spread_over_places(left, right, alike)
    if kind == "full":
        over = (left.reshape(-1, b) @ right.reshape(-1, b).T).view(n, C, t, m, D, s)
        return times(over, alike[:, None, :, :, None]).sum((2, 5))
    if kind == "trace":
        left, right = (x.transpose(1, 2).reshape(-1, C * b) for x in (left, right))
        return times((left @ right.T).view(n, t, m, s), alike).sum((1, 3))
    left, right = (x.transpose(0, 1).reshape(C, -1, b) for x in (left, right))
    return times((left @ right.transpose(1, 2)).view(C, n, t, m, s), alike).sum((2, 4))


def _spread_over_places(left: Tensor, right: Tensor, alike: Tensor) -> Tensor:
    """Σ_st alike_ts δ_t·δ′_s for all pairs of outputs, without a product for every pair of places."""
    n, C, t, b = left.shape
    m, D, s, _ = right.shape
    over = alike.view(n, 1, t, m * s).transpose(2, 3).expand(n, C, m * s, t).reshape(n * C, m * s, t)
    over = (over @ left.reshape(n * C, t, b)).view(n * C, m, s * b)
    made = over.transpose(0, 1) @ right.reshape(m, D, s * b).transpose(1, 2)
    return made.view(m, n, C, D).permute(1, 2, 0, 3)


def _across(p: Term, q: Term, kind: Kind) -> Tensor:
    """Two uses of one matrix from opposite sides, as a token table that is also the last layer."""
    if p.flipped:
        turned = _across(q, p, kind)
        return turned.permute(2, 3, 0, 1) if kind == "full" else turned.transpose(-1, -2)
    torch = torch_library("The kernel")
    n, C, t, _ = p.delta.shape
    m, D, s, b = q.delta.shape
    if q.data.ndim == 2:
        rows = p.delta.index_select(-1, q.data.flatten()).view(n, C, t, m, s)
    else:
        rows = (p.delta.reshape(n * C * t, -1) @ q.data.reshape(m * s, -1).T).view(n, C, t, m, s)
    columns = (p.data.reshape(n * t, -1) @ q.delta.reshape(m * D * s, b).T).view(n, t, m, D, s)
    result = {"full": "nctms,ntmds->ncmd", "trace": "nctms,ntmcs->nm", "diagonal": "nctms,ntmcs->cnm"}[kind]
    return torch.einsum(result, rows, columns)


def _by_rows(p: Factors, q: Factors, kind: Kind) -> Tensor:
    """The gradients written out a few rows of the matrix at a time."""
    n, C, m = p.terms[0].delta.shape[0], p.terms[0].delta.shape[1], q.terms[0].delta.shape[0]
    rows, columns = p.shape
    step = max(1, SCRATCH // max(1, max(n, m) * C * columns))
    made = None
    for first in range(0, rows, step):
        block = _rows(p, first, min(first + step, rows))
        other = block if q is p else _rows(q, first, min(first + step, rows))
        left = block.flatten(2)
        got = _dot(left, left if q is p else other.flatten(2), kind)
        made = got if made is None else made.add_(got)
    assert made is not None
    return made


def _rows(p: Factors, first: int, last: int) -> Tensor:
    """Rows of the gradients: (n, C, row, column)."""
    torch = torch_library("The kernel")
    made = None
    for term in p.terms:
        n, C, t, b = term.delta.shape
        if not term.flipped:
            part = term.delta[..., first:last].transpose(2, 3).reshape(n, -1, t)
            got = (part @ term.data).view(n, C, last - first, -1)
        elif term.data.ndim == 3:
            got = term.data[:, None, :, first:last].transpose(2, 3) @ term.delta
        else:
            inside = (term.data >= first) & (term.data < last)
            index = torch.where(inside, term.data - first, 0)[:, None, :, None].expand(n, C, t, b)
            got = torch.zeros(n, C, last - first, b, dtype=term.delta.dtype, device=term.delta.device)
            got.scatter_add_(2, index, term.delta * inside[:, None, :, None])
        made = got if made is None else made.add_(got)
    assert made is not None
    return made
