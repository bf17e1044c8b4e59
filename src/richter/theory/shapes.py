"""Which regime a two-layer linear network of a given shape enters far from balance and at balance (KUN24 §4, B.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message, nearest
from richter.maths.shapes import leading_gram, rank_bound, unreached
from richter.params import Given, numbers
from richter.regime import Evidence, Regime

if TYPE_CHECKING:
    from collections.abc import Sequence

Floats = NDArray[np.float64]
LIMITS = ("downstream", "balanced", "upstream")
REACHED = 1e-8  # share of the target that lies outside the span before it counts


def shape_of(inputs: int, neurons: int, outputs: int) -> str:
    """The paper's name of a shape (d, h, c).

    >>> shape_of(5, 3, 2), shape_of(2, 3, 5), shape_of(3, 3, 3), shape_of(4, 1, 1), shape_of(2, 9, 2)
    ('funnel', 'inverted funnel', 'square', 'single neuron', 'wide')
    """
    d, h, c = _sizes(inputs, neurons, outputs)
    if d == h == c:
        return "square" if d > 1 else "single neuron"
    if h == 1 and 1 in (d, c):
        return "single neuron"
    if d > h >= c:
        return "funnel"
    if d <= h < c:
        return "inverted funnel"
    return "bottleneck" if h < min(d, c) else "wide"


def shape_regime(
    inputs: int,
    neurons: int,
    outputs: int,
    limit: str,
    *,
    A0: Given = None,
    W0: Given = None,
    beta_star: Given = None,
) -> Regime:
    r"""Lazy, rich or delayed-rich as all δᵢ → ∞ (`upstream`), 0 (`balanced`) or −∞ (`downstream`).

    Upstream M tends to $\eta_wA^TA\otimes I$, fixed while the network learns: it spans every function if h ≥ c, and the
    network is lazy. If h < c it reaches only the targets in the span of A's rows at the start; any other is learned
    late, when A turns: delayed-rich. Downstream the same holds with W and the inputs d. At balance the network is rich.
    Without a start and a target the answer holds for all but special ones; with them it is decided by the share of
    β* outside the span.

    Args:
        inputs: d.
        neurons: h.
        outputs: c.
        limit: one of `downstream`, `balanced`, `upstream`.
        A0: second layer at the start (neuron, output); with `W0` and `beta_star` it decides special cases.
        W0: first layer at the start (neuron, input).
        beta_star: target (input, output).

    >>> [shape_regime(5, 3, 2, limit).label for limit in ("downstream", "balanced", "upstream")]
    ['delayed-rich', 'rich', 'lazy']
    """
    d, h, c = _sizes(inputs, neurons, outputs)
    if limit not in LIMITS:
        raise ParameterError(
            message("`limit`", f"be one of {', '.join(LIMITS)}", limit, nearest(str(limit), [*LIMITS]))
        )
    start = _start(d, h, c, A0, W0, beta_star)
    evidence = {
        "shape": Evidence(shape_of(d, h, c), f"d = {d} inputs, h = {h} neurons, c = {c} outputs"),
        "rank_bound": Evidence(rank_bound(d, h, c, limit), f"largest rank of M in the limit (Lemma B.2), of {d * c}"),
    }
    if limit == "balanced":
        reason = "At balance M grows and turns with the function itself, in both of its terms: the kernel moves early."
        return Regime("rich", evidence, (reason,))
    side, layer = (c, "outputs") if limit == "upstream" else (d, "inputs")
    full = h >= side
    if start is None:
        lazy = full
        reason = (
            f"h ≥ {layer} ({h} ≥ {side}): in general M spans every function and the target is reached with M fixed."
            if full
            else f"h < {layer} ({h} < {side}): M spans only part of the functions; a target outside is learned late. "
            "Exception: a target inside the span of the start, such as β₀ ∝ β* for one neuron, is learned lazily."
        )
    else:
        first, second, target = start
        gram = leading_gram(first, second, limit)
        rest = unreached(gram, target, limit)
        lazy = rest <= REACHED
        evidence["rank"] = Evidence(int(np.linalg.matrix_rank(gram)), f"rank of the layer's Gram matrix, of {side}")
        evidence["unreached"] = Evidence(rest, "share of β* outside the span of M at the start", REACHED)
        reason = (
            "The target lies in the span of M at the start: it is reached with M fixed."
            if lazy
            else f"A share {rest:.2g} of the target lies outside the span of M: first the rest is fitted, then M turns."
        )
    return Regime("lazy" if lazy else "delayed-rich", evidence, (reason,))


def shape_table(shapes: Sequence[tuple[int, int, int]]) -> list[dict[str, object]]:
    """Name and regimes of several shapes (d, h, c), one row each.

    >>> shape_table([(3, 3, 3)])[0]["downstream"]
    'lazy'
    """
    return [
        {"shape": shape_of(*s), "d": s[0], "h": s[1], "c": s[2], **{k: shape_regime(*s, k).label for k in LIMITS}}
        for s in shapes
    ]


def _sizes(*sizes: int) -> tuple[int, int, int]:
    for name, size in zip(("inputs", "neurons", "outputs"), sizes, strict=True):
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
            raise ParameterError(message(f"`{name}`", "be a whole number ≥ 1", size))
    d, h, c = sizes
    return d, h, c


def _start(d: int, h: int, c: int, A0: Given, W0: Given, beta_star: Given) -> tuple[Floats, Floats, Floats] | None:
    given = {"A0": (A0, (h, c)), "W0": (W0, (h, d)), "beta_star": (beta_star, (d, c))}
    if all(value is None for value, _ in given.values()):
        return None
    made = []
    for name, (value, shape) in given.items():
        if value is None:
            raise ParameterError(message(f"`{name}`", "be given together with A0, W0 and beta_star", "nothing"))
        array = numbers(f"`{name}`", value)
        if array.shape != shape:
            raise ParameterError(message(f"`{name}`", f"have the shape {shape}", f"shape {array.shape}"))
        made.append(array)
    if not made[2].any():
        raise ParameterError(message("`beta_star`", "not be all 0", 0.0))
    return made[0], made[1], made[2]
