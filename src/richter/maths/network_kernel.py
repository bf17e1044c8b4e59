r"""How far the wide network's kernel has moved, from Gram matrices alone.

$K=(I\otimes X)M(I\otimes X^T)$ has the inner products of $\eta_wA^TA\otimes G+I_c\otimes\eta_aG^{1/2}W^TWG^{1/2}$ with
$G=X^TX$: it is given by its two blocks, dimensions first, and never formed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Blocks = tuple[Floats, Floats]


def network_kernel_movement(start: Blocks, now: Blocks, gram: Floats | None) -> tuple[Floats, Floats]:
    r"""$S(0,t)=1-\cos(K_0,K_t)$ and $\|K_t-K_0\|/\|K_0\|$.

    Args:
        start: $\eta_wA^TA$ (output, output, …) and $\eta_aW^TW$ (input, input, …) at the start.
        now: the same at t.
        gram: $X^TX$ (input, input, …); None: the identity.

    >>> one, two = np.ones((1, 1)), 2 * np.ones((1, 1))
    >>> [float(x) for x in network_kernel_movement((one, one), (two, one), None)]
    [0.0, 0.5]
    """
    root = None if gram is None else _root(gram)
    seen = lambda x: x if root is None else np.einsum("de...,ef...,fg...->dg...", root, x, root)
    first, kernel = (start[0], seen(start[1])), (now[0], seen(now[1]))
    unit = 1 / (np.einsum("ii...->...", first[0]) + np.einsum("ii...->...", first[1]))
    first, kernel = (first[0] * unit, first[1] * unit), (kernel[0] * unit, kernel[1] * unit)
    moved = (kernel[0] - first[0], kernel[1] - first[1])
    product = lambda x, y: _kernel_inner(x, y, gram)
    square = product(first, first)
    along = product(moved, first) / square
    across = (moved[0] - along * first[0], moved[1] - along * first[1])
    size = np.sqrt(square * product(kernel, kernel))
    distance = square * product(across, across) / (size * (size + product(kernel, first)))
    return distance, np.sqrt(product(moved, moved) / square)


def layer_product(x: Floats, y: Floats) -> Floats:
    """xᵀy over the neurons."""
    return np.einsum("hi...,hj...->ij...", x, y)


def _kernel_inner(x: Blocks, y: Blocks, gram: Floats | None) -> Floats:
    r"""$\langle P\otimes G+I_c\otimes Q,\,P'\otimes G+I_c\otimes Q'\rangle$ without the kernels; None: G = I."""
    (P, Q), (R, S) = x, y
    c, d = len(P), len(Q)
    trace = lambda m: np.einsum("ii...->...", m)
    inner = lambda m, n: (m * n).sum(axis=(0, 1))
    square, on = (d, trace) if gram is None else (inner(gram, gram), lambda m: inner(gram, m))
    return square * inner(P, R) + c * inner(Q, S) + trace(P) * on(S) + on(Q) * trace(R)


def _root(gram: Floats) -> Floats:
    """The square root of positive matrices that lie in the first two axes."""
    values, vectors = np.linalg.eigh(np.moveaxis(gram, (0, 1), (-2, -1)))
    made = (vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return np.moveaxis(made, (-2, -1), (0, 1))
