"""Starts of a two-layer linear network with an isotropic imbalance, Δ = δI."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message
from richter.params import Given, numbers

Floats = NDArray[np.float64]
ORTHOGONAL = 1e-8  # largest deviation of a given frame from an orthogonal one


def isotropic_start(
    beta_star: Given,
    values: Given,
    neurons: int,
    delta: float = 0.0,
    left: Given = None,
    right: Given = None,
    rotation: Given = None,
    eta_a: float = 1.0,
    eta_w: float = 1.0,
) -> tuple[Floats, Floats]:
    """(A₀, W₀) with Δ = δI whose function β₀ = W₀ᵀA₀ has the given singular values and, if given, singular vectors.

    Args:
        beta_star: the target (input, output); it fixes the shape and the default singular vectors.
        values: singular values of β₀; at most min(inputs, outputs, neurons) of them, the rest is 0.
        neurons: their number h; h ≤ outputs for δ > 0, h ≤ inputs for δ < 0.
        delta: the imbalance.
        left: orthogonal (input, input), left singular vectors of β₀; default: the target's.
        right: orthogonal (output, output), right singular vectors of β₀; default: the target's.
        rotation: orthogonal (neuron, neuron); default: the identity.
        eta_a: learning rate of A.
        eta_w: learning rate of W.

    >>> A0, W0 = isotropic_start(np.eye(2), [0.1, 0.2], 2, delta=1.0)
    >>> (A0 @ A0.T - W0 @ W0.T).round(12).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    target = numbers("`beta_star`", beta_star)
    for name, rate in (("eta_a", eta_a), ("eta_w", eta_w)):
        if not rate > 0:
            raise ParameterError(message(f"`{name}` of an isotropic start", "be > 0", rate))
    if not np.isfinite(delta):
        raise ParameterError(message("`delta` of an isotropic start", "be finite", delta))
    if target.ndim != 2:
        raise ParameterError(message("`beta_star`", "be (input, output)", f"shape {target.shape}"))
    d, c = target.shape
    s = numbers("`values`", values).ravel()
    if delta > 0 and neurons > c:
        raise ParameterError(message("`neurons`", f"be at most the {c} outputs for δ > 0 (Δ = δI)", neurons))
    if delta < 0 and neurons > d:
        raise ParameterError(message("`neurons`", f"be at most the {d} inputs for δ < 0 (Δ = δI)", neurons))
    if neurons < 1 or s.size > min(d, c, neurons) or (s < 0).any():
        must = f"be at most {min(d, c, max(neurons, 0))} numbers ≥ 0"
        raise ParameterError(message("`values`", must, s))
    U, _, V = np.linalg.svd(target)
    U, V = (U if left is None else numbers("`left`", left)), (V.T if right is None else numbers("`right`", right))
    O = np.eye(neurons) if rotation is None else numbers("`rotation`", rotation)
    for name, frame, size in (("left", U, d), ("right", V, c), ("rotation", O, neurons)):
        if frame.shape != (size, size) or np.abs(frame.T @ frame - np.eye(size)).max() > ORTHOGONAL:
            raise ParameterError(message(f"`{name}`", f"be an orthogonal ({size}, {size}) matrix", frame))
    product = 2 * np.sqrt(eta_a * eta_w) * np.pad(s, (0, neurons - s.size))
    kappa = np.hypot(delta, product)
    big = (kappa + abs(delta)) / 2
    small = product**2 / (4 * np.where(big > 0, big, 1.0))
    a2, w2 = (big, small) if delta >= 0 else (small, big)
    n_a, n_w = min(neurons, c), min(neurons, d)
    A0 = O[:, :n_a] * np.sqrt(a2[:n_a] / eta_w) @ V[:, :n_a].T
    W0 = O[:, :n_w] * np.sqrt(w2[:n_w] / eta_a) @ U[:, :n_w].T
    return A0, W0
