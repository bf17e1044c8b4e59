"""One step of gradient descent of many small networks, in JAX: forward, loss, gradient, optimiser.

Layers are lists of (W (start, out, in), b (start, out) or None). Hidden units have shape (start, unit, example), so
that the first layer of all networks on shared inputs (example, input) is one matrix product, and its gradient another.
Nothing is differentiated by hand.
Functions of this file are called while JAX traces; `jax` is imported in them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

Layers: TypeAlias = list[tuple[Any, Any]]
OPTIMISERS = ("sgd", "momentum", "adam")
BETA1, BETA2, TINY = 0.9, 0.999, 1e-8  # Adam's


@dataclass(frozen=True)
class Rule:
    """What the compiled step depends on besides its arrays."""

    activation: str
    leak: float
    loss: str
    optimiser: str
    momentum: float
    examples: int  # that a batch stands for
    batch: int  # 0: all of them
    draw: Callable[[Any, int], tuple[Any, Any]] | None


def activate(name: str, leak: float) -> Callable[[Any], Any]:
    """The activation by its name; the slope of the piecewise-linear ones at 0 is that of z < 0."""
    import jax
    import jax.numpy as jnp

    known: dict[str, Callable[[Any], Any]] = {
        "linear": lambda z: z,
        "relu": jax.nn.relu,
        "leaky-relu": lambda z: jnp.where(z > 0, z, leak * z),
        "tanh": jnp.tanh,
        "sigmoid": jax.nn.sigmoid,
        "swish": jax.nn.swish,
    }
    return known[name]


def forward(rule: Rule, layers: Layers, scale: Any, x: Any) -> Any:
    """Outputs (start, output, example) at inputs (example, input), or (start, example, input) if not shared."""
    import jax.numpy as jnp

    act = activate(rule.activation, rule.leak)
    h = x
    for number, (w, b) in enumerate(layers):
        if number:
            z = w @ h
        elif x.ndim == 2:
            starts, out, fan_in = w.shape
            z = jnp.einsum("ki,ni->kn", w.reshape(starts * out, fan_in), x).reshape(starts, out, len(x))
        else:
            z = jnp.einsum("soi,sni->son", w, x)
        z = z if b is None else z + b[:, :, None]
        h = act(z) if number < len(layers) - 1 else z
    return scale[:, None, None] * h


def losses(name: str, f: Any, y: Any, stands_for: int) -> Any:
    """The loss of each network (start,) from outputs (start, output, example)."""
    import jax
    import jax.numpy as jnp

    examples = f.shape[-1]
    if name == "cross-entropy":
        return (jax.nn.logsumexp(f, axis=1) - (f * y).sum(axis=1)).mean(axis=-1)
    if name == "binary-cross-entropy":
        return (jnp.logaddexp(0.0, f) - f * y).sum(axis=1).mean(axis=-1)
    factor = {"mse": 0.5 / examples, "half-sum": 0.5 * stands_for / examples, "square": 1.0 / examples}[name]
    return factor * ((f - y) ** 2).sum(axis=(1, 2))


def order_of(rule: Rule, key: Any, step: Any) -> Any:
    """The permutation of the epoch that a step lies in."""
    import jax

    epoch = step // (rule.examples // rule.batch)
    return jax.random.permutation(jax.random.fold_in(key, epoch), rule.examples)


def examples_of(rule: Rule, data: Any, key: Any, state: Any) -> tuple[Any, Any, Any]:
    """Inputs and targets of the state's step, and the order that the next step begins with."""
    import jax
    from jax import lax

    step, order = state["step"], state["order"]
    if rule.draw is not None:
        x, y = rule.draw(jax.random.fold_in(key, step), rule.batch)
        return x.astype(data["x_test"].dtype), y.astype(data["y_test"].dtype).T, order
    if not rule.batch:
        return data["x"], data["y"], order
    place = step % (rule.examples // rule.batch)
    order = lax.cond(place == 0, lambda: order_of(rule, key, step), lambda: order)
    rows = lax.dynamic_slice(order, (place * rule.batch,), (rule.batch,))
    return data["x"][..., rows, :], data["y"][..., rows], order


def take_step(rule: Rule, data: Any, rates: Any, scale: Any, key: Any, state: Any) -> Any:
    """The state after one more step; `rates` (layer, start) are the rate times each layer's factor."""
    import jax
    import jax.numpy as jnp

    x, y, order = examples_of(rule, data, key, state)
    total = lambda layers: losses(rule.loss, forward(rule, layers, scale, x), y, rule.examples).sum()
    gradient = jax.grad(total)(state["layers"])  # of a sum over networks that share nothing: each its own
    step = state["step"] + 1
    first, second = state["first"], state["second"]
    if rule.optimiser == "sgd":
        move = gradient
    elif rule.optimiser == "momentum":
        first = jax.tree.map(lambda m, g: rule.momentum * m + g, first, gradient)
        move = first
    else:
        first = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, first, gradient)
        second = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, second, gradient)
        k = step.astype(rates.dtype)
        bias1, bias2 = 1 - BETA1**k, 1 - BETA2**k
        move = jax.tree.map(lambda m, v: m / bias1 / (jnp.sqrt(v / bias2) + TINY), first, second)
    shaped = lambda rate, p: rate.reshape((-1,) + (1,) * (p.ndim - 1))
    layers = [
        jax.tree.map(lambda p, g, rate=rate: p - shaped(rate, p) * g, layer, moved)
        for rate, layer, moved in zip(rates, state["layers"], move, strict=True)
    ]
    return {"step": step, "layers": layers, "first": first, "second": second, "order": order}


def begin(rule: Rule, layers: Layers, key: Any) -> Any:
    """The state before the first step."""
    import jax
    import jax.numpy as jnp

    nothing: list[Any] = []
    zeros = lambda: jax.tree.map(jnp.zeros_like, layers)
    return {
        "step": jnp.zeros((), jnp.int32),
        "layers": layers,
        "first": zeros() if rule.optimiser != "sgd" else nothing,
        "second": zeros() if rule.optimiser == "adam" else nothing,
        "order": order_of(rule, key, jnp.zeros((), jnp.int32))
        if rule.batch and rule.draw is None
        else jnp.zeros((0,), jnp.int32),
    }
