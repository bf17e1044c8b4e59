"""What the engine reads off its networks at the chosen moments, in JAX and one network at a time: bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from richter.training.engine_step import Layers, Rule, activate, forward, losses

OBSERVABLES = {
    "train_loss": "loss on the training examples",
    "test_loss": "loss on the test examples",
    "train_accuracy": "share of right classes among the training examples",
    "test_accuracy": "share of right classes among the test examples",
    "kernel_distance": "1 − cosine of the tangent kernels at the start and now, layer rates included",
    "hamming": "share of (hidden unit, example) activations that changed since the start",
    "parameter_distance": "‖θ − θ(0)‖ over all parameters",
    "parameters": "weights and biases of every layer",
}


@dataclass(frozen=True)
class Look:
    """What is read: names of `OBSERVABLES`, the kind of kernel, and functions of one network's layers by name."""

    names: tuple[str, ...]
    kernel: str = "trace"
    functions: tuple[tuple[str, Callable[[Layers], Any]], ...] = ()


def observe(rule: Rule, look: Look, data: Any, factors: Any, scale: Any, before: Layers, layers: Layers) -> Any:
    """Every observable of every network, each with a leading start axis; `factors` (layer, start) of the rates."""
    from jax import lax

    own = {name: value for name, value in data.items() if value.ndim == 3}
    shared = {name: value for name, value in data.items() if value.ndim == 2}

    def one(item: Any) -> Any:
        mine, at_start, now, gamma, factor = item
        return _of_one(rule, look, {**shared, **mine}, factor, gamma, at_start, now)

    return lax.map(one, (own, before, layers, scale, factors.T))


def _of_one(rule: Rule, look: Look, data: Any, factor: Any, gamma: Any, before: Layers, layers: Layers) -> Any:
    import jax.numpy as jnp

    made: dict[str, Any] = {}
    batch = [(w[None], None if b is None else b[None]) for w, b in layers]
    for part, x, y in (("train", "x", "y"), ("test", "x_test", "y_test")):
        wanted = [n for n in (f"{part}_loss", f"{part}_accuracy") if n in look.names]
        if not wanted:
            continue
        f = forward(rule, batch, gamma[None], data[x])
        if f"{part}_loss" in wanted:
            made[f"{part}_loss"] = losses(rule.loss, f, data[y], f.shape[-1])[0]
        if f"{part}_accuracy" in wanted:
            said = f[0].argmax(axis=0) if f.shape[1] > 1 else f[0, 0] > 0
            true = data[y].argmax(axis=0) if f.shape[1] > 1 else data[y][0] > 0.5
            made[f"{part}_accuracy"] = (said == true).mean(dtype=gamma.dtype)
    if {"kernel_distance", "hamming"} & set(look.names):
        then, now = (_backward(rule, net, gamma, data["points"]) for net in (before, layers))
        if "kernel_distance" in look.names:
            made["kernel_distance"] = _kernel_distance(then, now, factor, look.kernel)
        if "hamming" in look.names:
            flips = [(a > 0) != (b > 0) for a, b in zip(then[2], now[2], strict=True)]
            made["hamming"] = sum(f.sum(dtype=gamma.dtype) for f in flips) / sum(f.size for f in flips)
    if "parameter_distance" in look.names:
        moved = [
            ((p - q) ** 2).sum()
            for pair, old in zip(layers, before, strict=True)
            for p, q in zip(pair, old, strict=True)
            if p is not None
        ]
        made["parameter_distance"] = jnp.sqrt(sum(moved))
    if "parameters" in look.names:
        for number, (w, b) in enumerate(layers, 1):
            made[f"weight{number}"] = w
            if b is not None:
                made[f"bias{number}"] = b
    for name, function in look.functions:
        made[name] = function(layers)
    return made


def _backward(rule: Rule, layers: Layers, gamma: Any, x: Any) -> tuple[list[Any], list[Any], list[Any], bool]:
    """Of one network: each layer's inputs (in, N), its deltas (output, out, N), pre-activations; and whether biased."""
    import jax
    import jax.numpy as jnp

    act = activate(rule.activation, rule.leak)
    inputs, before, slopes = [x.T], [], []
    for w, b in layers[:-1]:
        z = w @ inputs[-1] if b is None else w @ inputs[-1] + b[:, None]
        h, slope = jax.jvp(act, (z,), (jnp.ones_like(z),))
        inputs.append(h)
        before.append(z)
        slopes.append(slope)
    outputs = layers[-1][0].shape[0]
    eye = gamma * jnp.eye(outputs, dtype=x.dtype)
    deltas = [jnp.broadcast_to(eye[:, :, None], (outputs, outputs, len(x)))]
    for (w, _), slope in zip(layers[:0:-1], slopes[::-1], strict=True):
        deltas.append(jnp.einsum("oi,con->cin", w, deltas[-1]) * slope)
    return inputs, deltas[::-1], before, layers[0][1] is not None


def _kernel_distance(then: Any, now: Any, factor: Any, kind: str) -> Any:
    r"""$1-\cos(K_0,K)$ as $\tfrac12\|K_0/\|K_0\|-K/\|K\|\|^2$, which does not cancel where K has hardly moved.

    "trace": Σ over outputs of the blocks $K_{cc}$. "full": all blocks $K_{cc'}$, one pair at a time.
    """
    import jax.numpy as jnp
    from jax import lax

    outputs = now[1][0].shape[0]

    def block(net: Any, pair: Any) -> Any:
        inputs, deltas, _, biased = net
        total: Any = 0.0
        for rate, h, delta in zip(factor, inputs, deltas, strict=True):
            seen = h.T @ h + (1.0 if biased else 0.0)
            if kind == "trace":
                inner = jnp.einsum("con,com->nm", delta, delta)
            else:
                inner = delta[pair // outputs].T @ delta[pair % outputs]
            total = total + rate * seen * inner
        return total

    if kind == "trace" or outputs == 1:
        before, after = block(then, 0), block(now, 0)
        unit = lambda k: k / jnp.sqrt((k * k).sum())
        return 0.5 * ((unit(before) - unit(after)) ** 2).sum()
    pairs = jnp.arange(outputs**2)
    sizes = jnp.sqrt(
        lax.map(lambda p: jnp.stack([(block(net, p) ** 2).sum() for net in (then, now)]), pairs).sum(axis=0)
    )
    gap = lambda p: ((block(then, p) / sizes[0] - block(now, p) / sizes[1]) ** 2).sum()
    return 0.5 * lax.map(gap, pairs).sum()
