r"""Two consecutive layers W (hidden, input) and A (output, hidden): alignment, and what gradient flow conserves.

A network f = A σ(Wx + b) with a positively homogeneous σ does not change when a hidden neuron's incoming weights
are multiplied by a number and its outgoing ones divided by it; the conserved quantities follow from that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message
from richter.refs import KUN24, XU24, implements

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rates:
    """Learning rates of a pair: of A, of W, and of W's bias."""

    a: float = 1.0
    w: float = 1.0
    bias: float = 1.0


@implements(XU24["Fig. 2"])
def alignment_of(second: ArrayLike, first: ArrayLike) -> float:
    r"""$\zeta=\|UW\|_F/(\|U\|_F\|W\|_F)$ for U (output, hidden), W (hidden, input); 0 to 1. A layer of zeros: NaN.

    >>> alignment_of([[1.0, 0.0]], [[0.0], [2.0]]), alignment_of([[1.0, 0.0]], [[2.0], [0.0]])
    (0.0, 1.0)
    """
    U, W = (np.asarray(x, dtype=np.float64) for x in (second, first))
    if U.ndim != 2 or W.ndim != 2 or U.shape[1] != W.shape[0]:
        must = "be matrices (output, hidden) and (hidden, input) of one hidden size"
        raise ParameterError(message("two consecutive layers", must, f"shapes {U.shape} and {W.shape}"))
    sizes = np.abs(U).max(initial=0.0), np.abs(W).max(initial=0.0)
    if not sizes[0] or not sizes[1]:
        return float("nan")
    U, W = U / sizes[0], W / sizes[1]
    hidden = W.shape[0]
    # An orthogonal change of the outer sides leaves every norm: at most (hidden, hidden) is left of each.
    U = _triangle(U) if U.shape[0] > hidden else U
    W = _triangle(W.T).T if W.shape[1] > hidden else W
    return float(np.linalg.norm(U @ W) / (np.linalg.norm(U) * np.linalg.norm(W)))


def _triangle(matrix: Floats) -> Floats:
    return np.asarray(np.linalg.qr(matrix, mode="r"))


@implements(KUN24["Sec. 5, imbalance"])
def neuron_imbalance(
    second: ArrayLike, first: ArrayLike, bias: ArrayLike | None = None, rates: Rates | None = None
) -> Floats:
    r"""$\delta_i=\eta_w\|a_i\|^2-\eta_a\|w_i\|^2-\frac{\eta_a\eta_w}{\eta_b}b_i^2$ (hidden,).

    Conserved by gradient flow on any loss for linear, ReLU and leaky ReLU neurons. The bias enters because
    scaling a neuron up scales it too: $a_i\cdot g_{a_i}=w_i\cdot g_{w_i}+b_ig_{b_i}$; with η_b = η_w its term is
    $\eta_ab_i^2$. A bias with rate 0 breaks the law and is refused.

    >>> neuron_imbalance([[2.0]], [[1.0]], [1.0]).tolist()
    [2.0]
    """
    A, W, r = np.asarray(second, dtype=np.float64), np.asarray(first, dtype=np.float64), rates or Rates()
    made = r.w * (A**2).sum(axis=0) - r.a * (W**2).sum(axis=1)
    return made if bias is None else made - _bias_share(r) * np.asarray(bias, dtype=np.float64) ** 2


def layer_imbalance(
    second: ArrayLike, first: ArrayLike, bias: ArrayLike | None = None, rates: Rates | None = None
) -> Floats:
    r"""$\Delta=\eta_wA^TA-\eta_aWW^T-\frac{\eta_a\eta_w}{\eta_b}bb^T$ (hidden, hidden), conserved for linear neurons.

    KUN24 App. B.1 writes A as (hidden, output), hence AAᵀ; its diagonal is `neuron_imbalance`.

    >>> layer_imbalance([[1.0, 0.0]], [[0.0], [1.0]]).tolist()
    [[1.0, 0.0], [0.0, -1.0]]
    """
    A, W, r = np.asarray(second, dtype=np.float64), np.asarray(first, dtype=np.float64), rates or Rates()
    made = r.w * (A.T @ A) - r.a * (W @ W.T)
    if bias is None:
        return made
    b = np.asarray(bias, dtype=np.float64)
    return made - _bias_share(r) * np.outer(b, b)


def _bias_share(r: Rates) -> float:
    if r.bias == 0:
        advice = "A frozen bias that is not 0 breaks the conservation law."
        raise ParameterError(message("the rate of the bias", "be > 0", r.bias, advice))
    return r.a * r.w / r.bias


def predicted_drift(gradients: Mapping[str, ArrayLike], rates: Rates | None = None, step: float = 1.0) -> Floats:
    r"""What finite steps of gradient descent add to δ (hidden,).

    $h^2\eta_a\eta_w(\eta_a\|g_a\|^2-\eta_w\|g_w\|^2-\eta_bg_b^2)$, exact step by step, summed over any leading axes
    of the gradients. Momentum, weight decay and adaptive rates are other dynamics.

    Args:
        gradients: "second" (…, output, hidden), "first" (…, hidden, input), and "bias" (…, hidden) if there is one.
        rates: of the layers.
        step: h, so that a weight moves by −h·η·gradient.

    >>> predicted_drift({"second": [[1.0]], "first": [[0.0]]}, step=0.1).round(12).tolist()
    [0.01]
    """
    r = rates or Rates()
    unknown = set(gradients) - {"second", "first", "bias"}
    if unknown or not {"second", "first"} <= set(gradients):
        got = ", ".join(gradients) or "nothing"
        raise ParameterError(message("the gradients", 'be "second" and "first", and "bias" if there is one', got))
    A, W = (np.asarray(gradients[name], dtype=np.float64) for name in ("second", "first"))
    made = r.a * (A**2).sum(axis=-2) - r.w * (W**2).sum(axis=-1)
    if "bias" in gradients:
        made = made - r.bias * np.asarray(gradients["bias"], dtype=np.float64) ** 2
    return step**2 * r.a * r.w * made.reshape(-1, made.shape[-1]).sum(axis=0)
