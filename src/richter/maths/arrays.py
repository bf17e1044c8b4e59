"""What every closed form needs: the array library at hand, and forms that neither cancel nor overflow."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any
"""A numpy, jax or torch array (array-API standard)."""


def namespace(*arrays: Array) -> Any:
    """The array library of the arguments; Python numbers follow the others."""
    if all(isinstance(a, (np.ndarray, np.generic, float, int)) for a in arrays):
        return np
    from array_api_compat import array_namespace

    return array_namespace(*(a for a in arrays if not isinstance(a, (float, int))))


def alike(*arrays: Array) -> tuple[Any, list[Array]]:
    """The library of the arguments, and all of them as floating arrays of it."""
    xp = namespace(*arrays)
    if isinstance(xp, types.ModuleType) and xp is np:
        # Complex numbers stay: derivatives by complex steps pass through here.
        return np, [np.asarray(a, dtype=complex if np.iscomplexobj(a) else float) for a in arrays]
    like = next(a for a in arrays if not isinstance(a, (float, int, np.ndarray)))
    device = getattr(like, "device", None)
    place = {"device": device} if device is not None and not callable(device) else {}
    dtypes = [a.dtype for a in arrays if hasattr(a, "dtype") and not isinstance(a, np.ndarray)]
    dtype = xp.result_type(*dtypes)
    made = [
        a if hasattr(a, "dtype") and not isinstance(a, np.ndarray) else xp.asarray(a, dtype=dtype, **place)
        for a in arrays
    ]
    return xp, made


def possible(mask: Array) -> bool:
    """Whether any entry is true; under a tracing compiler, where that is unknown, yes."""
    try:
        return bool(mask.any())
    except Exception as problem:
        if type(problem).__module__.startswith("jax"):
            return True
        raise


def huge(t: Array) -> float:
    """A number of the precision of `t` that stands for t = ∞ where ∞ itself would give 0·∞.

    Outside numpy its square must be finite as well, for derivatives.
    """
    if isinstance(t, (np.ndarray, np.generic)):
        return 1e300
    return 1e15 if t.dtype.itemsize == 4 else 1e150


def finite_time(xp: Any, t: Array) -> Array:
    """Times with ∞ replaced by a number that is as good as infinite and multiplies 0 to 0."""
    return xp.where(t > huge(t), huge(t), t)


def integral_of_decay(xp: Any, rate: Array, t: Array, t_finite: Array | None = None) -> Array:
    r"""$\int_0^t e^{-rs}\,ds = (1-e^{-rt})/r$ for rate r ≥ 0, which is t at r = 0.

    Differentiable through r = 0, where the two-sided derivative is $-t^2/2$.
    """
    t_finite = finite_time(xp, t) if t_finite is None else t_finite
    if xp is np:
        still = rate == 0
        if not still.any():
            return np.expm1(-rate * t) / -rate
        moving = np.expm1(-np.where(still, 1.0, rate) * t) / -np.where(still, 1.0, rate)
        return np.where(still, t_finite, moving)
    x = rate * t_finite
    small = xp.abs(x) < 1e-2
    safe_rate = xp.where(small, xp.ones_like(x), rate + xp.zeros_like(x))
    series = t_finite * decay_series(xp.where(small, x, xp.zeros_like(x)))
    return xp.where(small, series, -xp.expm1(-safe_rate * t_finite) / safe_rate)


def decay_series(x: Array) -> Array:
    """(1 − e^{−x})/x for |x| ≤ 1e-2, to machine precision."""
    return 1 - x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5 * (1 - x / 6 * (1 - x / 7)))))


def early_bend(x: Array, y: Array) -> Array:
    r"""$x[\phi(x)-e^{-x}\phi(y)]$ with $\phi(x)=(1-e^{-x})/x$, to machine precision for x + y ≤ 0.03.

    The bracket is the sum of $\phi(x)-e^{-x}=\frac x2-\frac{x^2}3+\dots$ and $e^{-x}(1-\phi(y))$, both ≥ 0.
    """
    first = 1 - 2 * x / 3 * (1 - 3 * x / 8 * (1 - 4 * x / 15 * (1 - 5 * x / 24 * (1 - 6 * x / 35))))
    second = 1 - y / 3 * (1 - y / 4 * (1 - y / 5 * (1 - y / 6 * (1 - y / 7))))
    decay = 1 - x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5 * (1 - x / 6)))))
    return x / 2 * (x * first + y * decay * second)


def only_where(xp: Any, mask: Array, value: Array) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """(pick, put): the entries of an array where `mask` holds, and `value` with those entries replaced.

    With numpy only these entries are computed; elsewhere all are, from 0 where `mask` does not hold.
    """
    if xp is np and np.ndim(value):
        where = np.broadcast_to(mask, value.shape)

        def put(entries: Array) -> Array:
            made = np.array(value)
            made[where] = entries
            return made

        return lambda x: np.broadcast_to(x, value.shape)[where], put
    return lambda x: xp.where(mask, x, xp.zeros_like(x)), lambda entries: xp.where(mask, entries, value)


def norm(xp: Any, vector: Array) -> Array:
    """Euclidean norm over the first axis, with gradient 0 at 0."""
    square = xp.sum(vector * vector, axis=0)
    if xp is np:
        return np.sqrt(square)
    positive = square > 0
    return xp.where(positive, xp.sqrt(xp.where(positive, square, xp.ones_like(square))), square)


def safe_root(xp: Any, x: Array) -> Array:
    """√x for x ≥ 0, with gradient 0 at 0."""
    if xp is np:
        return np.sqrt(x)
    positive = x > 0
    return xp.where(positive, xp.sqrt(xp.where(positive, x, xp.ones_like(x))), xp.zeros_like(x))


def plus_and_minus(xp: Any, root: Array, h: Array, square: Array) -> tuple[Array, Array]:
    r"""$(R+h, R-h)$ for $R=\sqrt{h^2+s}$, $s\ge0$, the smaller one as $s/(R+|h|)$."""
    up = h >= 0
    size = xp.where(up, h, -h)  # not abs(h): its derivative at 0 would be neither side's
    large = root + size
    positive = large > 0
    small = xp.where(positive, square / xp.where(positive, large, xp.ones_like(large)), root - size)
    return xp.where(up, large, small), xp.where(up, small, large)
