"""A plain float64 loop of gradient descent for one small network, with every gradient by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LEAK = 0.1


def sigmoid(z: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-z)))


ACTIVATIONS: dict[str, tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]] = {
    "linear": (lambda z: z, lambda z: np.ones_like(z)),
    "relu": (lambda z: np.where(z > 0, z, 0.0), lambda z: np.where(z > 0, 1.0, 0.0)),
    "leaky-relu": (lambda z: np.where(z > 0, z, LEAK * z), lambda z: np.where(z > 0, 1.0, LEAK)),
    "tanh": (np.tanh, lambda z: 1 - np.tanh(z) ** 2),
    "sigmoid": (sigmoid, lambda z: sigmoid(z) * (1 - sigmoid(z))),
    "swish": (lambda z: z * sigmoid(z), lambda z: sigmoid(z) * (1 + z * (1 - sigmoid(z)))),
}


def loss_and_slope(loss: str, f: Floats, y: Floats, examples: int) -> tuple[float, Floats]:
    """The loss of outputs (example, output) and its derivative by them."""
    n = len(f)
    if loss == "cross-entropy":
        p = np.exp(f - f.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        return float(-np.log((p * y).sum(axis=1)).mean()), (p - y) / n
    if loss == "binary-cross-entropy":
        return float((np.log1p(np.exp(f)) - y * f).mean()), (sigmoid(f) - y) / n
    factor = {"mse": 0.5 / n, "half-sum": 0.5 * examples / n, "square": 1 / n}[loss]
    return float(factor * ((f - y) ** 2).sum()), 2 * factor * (f - y)


def descend(
    weights: list[Floats],
    biases: list[Floats],
    activation: str,
    loss: str,
    rows: Callable[[int], tuple[Floats, Floats]],
    examples: int,
    steps: int,
    rates: list[float],
    optimiser: str = "sgd",
    scale: float = 1.0,
    momentum: float = 0.9,
) -> tuple[list[Floats], list[Floats], list[float]]:
    """Weights, biases and losses after so many steps on `rows(step)`."""
    act, slope = ACTIVATIONS[activation]
    parameters = [w.copy() for w in weights] + [b.copy() for b in biases]
    depth, losses = len(weights), []
    first = [np.zeros_like(p) for p in parameters]
    second = [np.zeros_like(p) for p in parameters]
    for step in range(steps):
        x, y = rows(step)
        hidden, before = [x], []
        for l in range(depth):
            z = hidden[-1] @ parameters[l].T + (parameters[depth + l] if biases else 0.0)
            before.append(z)
            hidden.append(act(z) if l < depth - 1 else z)
        value, delta = loss_and_slope(loss, scale * hidden[-1], y, examples)
        losses.append(value)
        delta = scale * delta
        gradient: list[Floats] = [np.empty(0)] * len(parameters)
        for l in reversed(range(depth)):
            gradient[l] = delta.T @ hidden[l]
            if biases:
                gradient[depth + l] = delta.sum(axis=0)
            if l:
                delta = (delta @ parameters[l]) * slope(before[l - 1])
        for i, g in enumerate(gradient):
            if optimiser == "momentum":
                first[i] = momentum * first[i] + g
                g = first[i]
            elif optimiser == "adam":
                first[i] = 0.9 * first[i] + 0.1 * g
                second[i] = 0.999 * second[i] + 0.001 * g * g
                g = first[i] / (1 - 0.9 ** (step + 1)) / (np.sqrt(second[i] / (1 - 0.999 ** (step + 1))) + 1e-8)
            parameters[i] = parameters[i] - rates[i % depth] * g
    return parameters[:depth], parameters[depth:], losses
