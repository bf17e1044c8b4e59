r"""Two-layer linear networks $f(x)=x^TW_1W_2$: the flow of their layers, what it conserves, and its modes.

Weights are $W_1$ (input, neuron) and $W_2$ (neuron, output), the data its moments $\mathbf E[xx^T]$ (input, input) and
$\mathbf E[xy^T]$ (input, output). Loss $\tfrac12\mathbf E\|f-y\|^2$.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from richter.refs import NAM24, implements

Floats = NDArray[np.float64]


@implements(NAM24["Eq. 3.4"])
def linear_network(inputs: Floats, first: Floats, second: Floats) -> Floats:
    r"""$f(x)=x^TW_1W_2$ of examples (example, input): (example, output).

    >>> linear_network(np.array([[1.0, 2.0]]), np.eye(2), np.array([[3.0], [1.0]])).tolist()
    [[5.0]]
    """
    return inputs @ first @ second


@implements(
    NAM24["Eq. A.22"], NAM24["Eq. A.24"], NAM24["Eq. A.25"], NAM24["Eq. A.26"], NAM24["Eq. A.27"], NAM24["Eq. A.28"],
    NAM24["Eq. A.33"],
)  # fmt: skip
def layer_flow(first: Floats, second: Floats, moments: Floats, cross: Floats) -> tuple[Floats, Floats]:
    r"""$\dot W_1=-EW_2^T$ and $\dot W_2=-W_1^TE$ with $E=\mathbf E[xx^T]W_1W_2-\mathbf E[xy^T]$.

    >>> one = np.ones((1, 1))
    >>> [float(x[0, 0]) for x in layer_flow(one, 2 * one, one, 3 * one)]
    [2.0, 1.0]
    """
    left = moments @ first @ second - cross
    return -left @ second.T, -first.T @ left


@implements(NAM24["Eq. A.29"], NAM24["Eq. A.31"], NAM24["Eq. A.37"])
def layer_difference(first: Floats, second: Floats) -> Floats:
    r"""$W_1^TW_1-W_2W_2^T$ (neuron, neuron), conserved by the flow for any data; 0 for balanced layers.

    >>> layer_difference(np.eye(2), np.eye(2)).any()
    np.False_
    """
    return first.T @ first - second @ second.T


@implements(NAM24["Eq. A.30"])
def task_modes(cross: Floats) -> tuple[Floats, Floats, Floats]:
    r"""U (input, mode), ρ falling (mode,) and V (output, mode) with $\mathbf E[xy^T]=U\,\mathrm{diag}(\rho)V^T$.

    Singular vectors are columns here; in the print, $U^TPV$, they are rows.

    >>> task_modes(np.diag([1.0, 3.0]))[1].tolist()
    [3.0, 1.0]
    """
    U, rho, V = np.linalg.svd(cross, full_matrices=False)
    return U, rho, V.T


@implements(NAM24["Eq. A.32"])
def in_task_modes(
    first: Floats, second: Floats, modes: tuple[Floats, Floats, Floats], rotation: Floats
) -> tuple[Floats, Floats]:
    r"""$\tilde W_1=U^TW_1R^T$ and $\tilde W_2=RW_2V$ for any orthogonal R (neuron, neuron)."""
    U, _, V = modes
    return U.T @ first @ rotation.T, rotation @ second @ V


@implements(NAM24["Eq. A.34"], NAM24["Eq. A.35"], NAM24["Eq. A.36"])
def rotated_flow(first: Floats, second: Floats, rho: Floats) -> tuple[Floats, Floats]:
    r"""The flow of $\tilde W_1$, $\tilde W_2$ for whitened inputs, $P=\mathrm{diag}(\rho)$.

    $-\tilde W_1\tilde W_2\tilde W_2^T+P\tilde W_2^T$ and $-\tilde W_1^T\tilde W_1\tilde W_2+\tilde W_1^TP$.
    """
    return layer_flow(first, second, np.eye(rho.size), np.diag(rho))


@implements(NAM24["Eq. A.38"])
def mode_weight_flow(weight: Floats, rho: Floats) -> Floats:
    r"""$\dot\alpha_i=-\alpha_i^3+\rho_i\alpha_i$, the equal weights of both layers of a balanced, aligned mode.

    >>> mode_weight_flow(np.array([1.0, 2.0]), np.array([1.0, 1.0])).tolist()
    [0.0, -6.0]
    """
    return np.asarray(-(weight**3) + rho * weight)


@implements(NAM24["Eq. A.40"])
def aligned_product(weight: Floats, modes: tuple[Floats, Floats, Floats]) -> Floats:
    r"""$W_1W_2=U\,\mathrm{diag}(\alpha^2)V^T$ (input, output) of the mode weights α."""
    U, _, V = modes
    return np.asarray((U * weight**2) @ V.T)


def descend(
    first: Floats, second: Floats, moments: Floats, cross: Floats, step: float, steps: int, looks: NDArray[np.intp]
) -> tuple[list[tuple[Floats, Floats]], Floats, Floats]:
    """Gradient descent on the loss: the weights at the steps `looks` (rising, from 0), and at the end."""
    path: list[tuple[Floats, Floats]] = []
    for k in range(steps + 1):
        if len(path) < looks.size and k == looks[len(path)]:
            path.append((first, second))
        if k < steps:
            up, down = layer_flow(first, second, moments, cross)
            first, second = first + step * up, second + step * down
    return path, first, second
