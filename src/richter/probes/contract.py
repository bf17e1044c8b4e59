"""Per-example gradients of one block of examples, kept as factors or written out, and their inner products.

Kinds of product: "full" (n, C, m, C) all pairs of outputs; "trace" (n, m) summed over equal outputs; "diagonal"
(C, n, m) equal outputs, not summed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from richter.probes.observe import torch_library

if TYPE_CHECKING:
    from torch import Tensor

Kind = Literal["full", "trace", "diagonal"]
PRODUCTS = 2**22  # entries of one block of products over places


@dataclass(frozen=True)
class Written:
    """Gradients themselves: (n, C, entry)."""

    values: Tensor


@dataclass(frozen=True)
class Factors:
    """Gradients Σ_t δ_t x_tᵀ: δ (n, C, t, b), x (n, t, a) or, for a table, the row's index (n, t)."""

    rows: Tensor
    columns: Tensor


Piece = Written | Factors


def cheaper_written(kind: Kind, outputs: int, places: int, a: int, b: int) -> bool:
    """Whether inner products cost less from the gradients themselves than from their factors."""
    pairs = {"full": outputs**2, "trace": outputs, "diagonal": outputs}[kind]
    products = {"full": outputs**2, "trace": 1, "diagonal": outputs}[kind]
    # A multiplication in a matrix product is cheap; one of a product entry by entry goes through memory.
    return pairs * a * b < places**2 * (a + pairs * b + 8 * products)


def inner(p: Piece, q: Piece, kind: Kind) -> Tensor:
    """The inner products of the gradients in two blocks."""
    if isinstance(p, Written) and isinstance(q, Written):
        return _dot(p.values, q.values, kind)
    assert isinstance(p, Factors) and isinstance(q, Factors)
    n, C, t = p.rows.shape[:3]
    m, s = q.rows.shape[0], q.rows.shape[2]
    if t == 1 and s == 1:
        over = _dot(p.rows[:, :, 0], q.rows[:, :, 0], kind)
        alike = _alike(p.columns, q.columns)[:, 0, :, 0]
        return over.mul_(alike[:, None, :, None] if kind == "full" else alike)
    torch = torch_library("The kernel")
    outer = C * C if kind == "full" else C if kind == "diagonal" else 1
    step = max(1, PRODUCTS // max(1, m * t * s * outer))
    parts = [_over_places(Factors(p.rows[i : i + step], p.columns[i : i + step]), q, kind) for i in range(0, n, step)]
    return torch.cat(parts, 1 if kind == "diagonal" else 0)


def _dot(p: Tensor, q: Tensor, kind: Kind) -> Tensor:
    """Products of (n, C, entry) with (m, C, entry)."""
    n, C, m = p.shape[0], p.shape[1], q.shape[0]
    if kind == "full":
        return (p.reshape(n * C, -1) @ q.reshape(m * C, -1).T).view(n, C, m, C)
    if kind == "trace":
        return p.reshape(n, -1) @ q.reshape(m, -1).T
    return p.transpose(0, 1) @ q.permute(1, 2, 0)


def _alike(x: Tensor, y: Tensor) -> Tensor:
    """Products of columns, (n, t, m, s); for indices 1 where they are equal."""
    torch = torch_library("The kernel")
    if x.ndim == 2:
        return (x[:, :, None, None] == y[None, None]).to(torch.get_default_dtype())
    return (x.reshape(-1, x.shape[-1]) @ y.reshape(-1, y.shape[-1]).T).view(*x.shape[:2], *y.shape[:2])


def _over_places(p: Factors, q: Factors, kind: Kind) -> Tensor:
    n, C, t, b = p.rows.shape
    m, _, s, _ = q.rows.shape
    alike = _alike(p.columns, q.columns).to(p.rows.dtype)
    if kind == "full":
        over = (p.rows.reshape(-1, b) @ q.rows.reshape(-1, b).T).view(n, C, t, m, C, s)
        return over.mul_(alike[:, None, :, :, None]).sum((2, 5))
    if kind == "trace":
        left, right = (x.transpose(1, 2).reshape(-1, C * b) for x in (p.rows, q.rows))
        return (left @ right.T).view(n, t, m, s).mul_(alike).sum((1, 3))
    left, right = (x.transpose(0, 1).reshape(C, -1, b) for x in (p.rows, q.rows))
    return (left @ right.transpose(1, 2)).view(C, n, t, m, s).mul_(alike).sum((2, 4))
