"""Many small networks of one shape, as plain arrays: what the engine trains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, UnknownNameError, message, nearest
from richter.tasks.randomness import Rng, count, stream

Array = NDArray[Any]
GAINS = {"he": 2.0, "lecun": 1.0, "unit": None}  # "unit": variance 1 whatever the fan-in


def _sigmoid(z: Array) -> Array:
    return np.asarray(0.5 * (1 + np.tanh(z / 2)))


ACTIVATIONS = {
    "linear": lambda z, leak: z,
    "relu": lambda z, leak: np.maximum(z, 0.0),
    "leaky-relu": lambda z, leak: np.where(z > 0, z, leak * z),
    "tanh": lambda z, leak: np.tanh(z),
    "sigmoid": lambda z, leak: _sigmoid(z),
    "swish": lambda z, leak: z * _sigmoid(z),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Networks:
    r"""Fully connected networks $f=\gamma\,W_L\sigma(\dots\sigma(W_1x+b_1))+b_L$; every array begins with `start`.

    `weights[l]` has shape (start, out, in); `biases` is empty, or holds one (start, out) per layer. The output scale γ
    multiplies the last layer's output, its bias included.

    >>> nets = Networks.two_layer([[1.0, -1.0]], [[[1.0, 0.0], [0.0, 2.0]]])
    >>> nets([[3.0, 1.0]]).tolist(), len(nets)
    ([[[1.0]]], 1)
    """

    weights: tuple[Array, ...]
    biases: tuple[Array, ...] = ()
    activation: str = "relu"
    leak: float = 0.01
    output_scale: ArrayLike = 1.0

    def __post_init__(self) -> None:
        """Check and store the arrays."""
        if self.activation not in ACTIVATIONS:
            raise UnknownNameError(
                f"No activation named `{self.activation}`. {nearest(self.activation, [*ACTIVATIONS])}"
            )
        weights = tuple(np.asarray(w) for w in self.weights)
        biases = tuple(np.asarray(b) for b in self.biases)
        shapes = [w.shape for w in weights]
        fits = len(weights) > 0 and all(w.ndim == 3 and w.shape[0] == weights[0].shape[0] for w in weights)
        if not fits or any(a[1] != b[2] for a, b in zip(shapes, shapes[1:], strict=False)):
            raise ParameterError(
                message("`weights`", "have shapes (start, out, in) that follow each other", f"{shapes}")
            )
        if biases and [b.shape for b in biases] != [s[:2] for s in shapes]:
            raise ParameterError(
                message("`biases`", f"have shapes {[s[:2] for s in shapes]}", [b.shape for b in biases])
            )
        scale = np.broadcast_to(np.asarray(self.output_scale, dtype=np.float64), shapes[0][:1])
        if not np.isfinite(scale).all():
            raise ParameterError(message("`output_scale`", "be finite", self.output_scale))
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "biases", biases)
        object.__setattr__(self, "output_scale", scale)

    @classmethod
    def two_layer(cls, a: ArrayLike, w: ArrayLike, **options: Any) -> Self:
        """Σ aᵢ σ(wᵢ·x): `a` (start, neuron) or (start, output, neuron), `w` (start, neuron, input)."""
        second = np.asarray(a)
        return cls(weights=(np.asarray(w), second[:, None] if second.ndim == 2 else second), **options)

    @classmethod
    def drawn(
        cls,
        inputs: int,
        widths: Sequence[int],
        outputs: int = 1,
        *,
        starts: int = 1,
        start: str = "he",
        scale: float = 1.0,
        bias: bool = False,
        rng: Rng = 0,
        **options: Any,
    ) -> Self:
        """Gaussian weights of variance gain/fan-in (he: 2, lecun: 1) or 1 (unit), times `scale`; biases start at 0.

        >>> [w.shape for w in Networks.drawn(3, [5, 4], starts=2).weights]
        [(2, 5, 3), (2, 4, 5), (2, 1, 4)]
        """
        if start not in GAINS:
            raise ParameterError(message("`start`", f"be one of {', '.join(GAINS)}", start))
        if not (math.isfinite(scale) and scale > 0):
            raise ParameterError(message("`scale` of the start", "be finite and > 0", scale))
        sizes = [
            count("`inputs`", inputs),
            *(count("each of `widths`", w) for w in widths),
            count("`outputs`", outputs),
        ]
        generator, number = stream(rng, "network"), count("`starts`", starts)
        gain = GAINS[start]
        made = []
        for fan_in, out in zip(sizes, sizes[1:], strict=False):
            spread = scale * (1.0 if gain is None else math.sqrt(gain / fan_in))
            made.append(spread * generator.standard_normal((number, out, fan_in)))
        biases = tuple(np.zeros((number, out)) for out in sizes[1:]) if bias else ()
        return cls(weights=tuple(made), biases=biases, **options)

    @classmethod
    def together(cls, parts: Sequence[Networks]) -> Self:
        """Networks of one shape side by side."""
        first = parts[0]
        for other in parts:
            if other.sizes != first.sizes or (other.activation, other.leak) != (first.activation, first.leak):
                raise ParameterError(message("the networks", "have one shape and activation", f"{other.sizes}"))
        join = lambda name: tuple(np.concatenate(x) for x in zip(*(getattr(p, name) for p in parts), strict=True))
        scale = np.concatenate([np.asarray(p.output_scale) for p in parts])
        return cls(
            weights=join("weights"), biases=join("biases"), activation=first.activation, leak=first.leak,
            output_scale=scale,
        )  # fmt: skip

    def __len__(self) -> int:
        """How many networks."""
        return int(self.weights[0].shape[0])

    def __getitem__(self, starts: slice) -> Networks:
        """Some of the networks."""
        part = lambda xs: tuple(x[starts] for x in xs)
        scale = np.asarray(self.output_scale)[starts]
        return replace(self, weights=part(self.weights), biases=part(self.biases), output_scale=scale)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Inputs, widths, outputs; and whether there are biases is `bool(self.biases)`."""
        return (self.weights[0].shape[2], *(w.shape[1] for w in self.weights))

    def features(self, x: ArrayLike) -> Array:
        """The last hidden layer at inputs (example, input), shape (start, example, unit)."""
        h = np.broadcast_to(np.asarray(x).T, (len(self), self.sizes[0], len(np.asarray(x))))
        act = ACTIVATIONS[self.activation]
        for l, w in enumerate(self.weights[:-1]):
            h = act(w @ h + (self.biases[l][:, :, None] if self.biases else 0.0), self.leak)
        return np.asarray(np.swapaxes(h, 1, 2))

    def __call__(self, x: ArrayLike) -> Array:
        """The outputs at inputs (example, input), shape (start, example, output)."""
        out = self.features(x) @ np.swapaxes(self.weights[-1], 1, 2)
        if self.biases:
            out = out + self.biases[-1][:, None]
        return np.asarray(np.asarray(self.output_scale)[:, None, None] * out)
