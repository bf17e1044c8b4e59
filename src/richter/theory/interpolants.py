"""Where gradient flow of a single neuron ends on data of any rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message
from richter.maths.branch import below_the_saddle, final_signs
from richter.maths.interpolation import final_output_weight, kkt_residual
from richter.maths.neuron import basin_margin
from richter.maths.neuron_law import neuron_delta
from richter.params import Given, Param, resolve

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
EQUAL = 1e-10  # singular values this near to each other, relatively, are equal
_PARAMS = {
    "X": Param("inputs", "X", ("example", "input")),
    "y": Param("targets", "y", ("example",)),
    "a0": Param("output weight at the start", "a₀"),
    "w0": Param("input weights at the start", "w₀", ("input",)),
    "eta_a": Param("learning rate of a", "η_a", low=0, open_low=True),
    "eta_w": Param("learning rate of w", "η_w", low=0, open_low=True),
}


def interpolant(X: Given, y: Given, a0: Given, w0: Given, eta_a: Given = 1.0, eta_w: Given = 1.0) -> xr.Dataset:
    r"""Where gradient flow on ½‖Xβ − y‖², β = a w, ends: exactly, for any rank of X.

    $\beta(\infty)=\beta_{mn}+a_\infty Nw_0$ with β_mn the minimum-norm least-squares solution and N the projector on
    the null space of X. The sign of $a_\infty$ is that of a₀ where the conserved $m=\delta+\eta_a\|Nw_0\|^2>0$
    forbids a crossing (`sign_source` "conserved"), or the loss is already below that of β = 0 and never rises
    ("loss"); it follows from the basin where the nonzero singular values of X are equal ("basin"); else the flow
    is integrated until its loss is below that of β = 0 ("integration").

    Args:
        X: inputs (example, input); no batch dimensions.
        y: targets (example,).
        a0: output weight at the start, with any batch dimensions.
        w0: input weights at the start (…, input).
        eta_a: learning rate of a.
        eta_w: learning rate of w.

    >>> ds = interpolant(X=[[1.0, 2.0]], y=[1.0], a0=1.0, w0=[1.0, 0.0])
    >>> (np.array([[1.0, 2.0]]) @ ds.beta.values).round(12).tolist(), ds.sign_source.item()
    ([1.0], 'conserved')
    """
    import xarray as xr

    given = {"X": X, "y": y, "a0": a0, "w0": w0, "eta_a": eta_a, "eta_w": eta_w}
    resolved = resolve("interpolant", _PARAMS, given)
    v, batch = resolved.values, resolved.batch
    if v["X"].ndim != 2 or v["y"].ndim != 1:
        raise ParameterError(message("`X` and `y` of interpolant", "have no batch dimensions", f"{v['X'].shape}"))
    flat = lambda name, own: np.broadcast_to(v[name], (*batch, *own)).reshape(-1, *own)
    inputs, targets, d = v["X"], v["y"], resolved.sizes["input"]
    a, w, ea, ew = flat("a0", ()), flat("w0", (d,)), flat("eta_a", ()), flat("eta_w", ())
    _, s, V = np.linalg.svd(inputs, full_matrices=False)
    alive = s > (s[0] if s.size else 0.0) * max(inputs.shape) * np.finfo(float).eps
    rows, strength = V[alive], s[alive]
    solution = np.linalg.pinv(inputs) @ targets
    solution = rows.T @ (rows @ solution)
    null = np.eye(d) - rows.T @ rows
    silent = w @ null
    delta = neuron_delta(a, w.T, ea, ew)
    null_square = (silent * silent).sum(axis=-1)
    size = final_output_weight(null_square, delta, np.full(a.shape, solution @ solution), ea, ew)
    problem = _Problem(
        a, w, ea, ew, delta + ea * null_square, np.sqrt(ew) * a, np.sqrt(ea)[:, None] * (w @ rows.T), strength**2,
        np.sqrt(ea * ew)[:, None] * (rows @ solution),
    )  # fmt: skip
    sign, source = _signs(problem, rows, solution, size)
    end = sign * size
    # At the saddle a = 0, and with it the function.
    beta = np.where((sign == 0)[:, None], 0.0, solution + end[:, None] * silent)
    same = np.where(a == 0, 1.0, np.sign(a)) * sign
    residual = kkt_residual(null, beta, a[:, None] * w, delta, same, ea * ew, w)
    shape = lambda value: value.reshape((*batch, *value.shape[1:]))
    names = ("start",) if len(batch) == 1 else tuple(f"start_{i + 1}" for i in range(len(batch)))
    say = lambda words: {"long_name": words}
    return xr.Dataset(
        {
            "beta": ((*names, "input"), shape(beta), say("function at t = ∞")),
            "a": (names, shape(end), say("output weight at t = ∞")),
            "sign": (names, shape(sign), say("sign of a at t = ∞")),
            "sign_source": (names, shape(source), say("how the sign is known: conserved, loss, basin or integration")),
            "kkt_residual": (names, shape(residual), say("residual of Theorem 3.1's optimality, 0 certifies it")),
        },
        attrs={"model": "interpolant", "rank": int(alive.sum())},
    )


@dataclass(frozen=True)
class _Problem:
    a: Floats
    w: Floats
    eta_a: Floats
    eta_w: Floats
    conserved: Floats
    alpha: Floats  # the start, strengths and goal in the units of `final_signs`
    z: Floats
    strength: Floats
    goal: Floats


def _signs(problem: _Problem, rows: Floats, solution: Floats, size: Floats) -> tuple[Floats, NDArray[np.str_]]:
    """The sign of a(∞) of every start, and how it is known."""
    p, a = problem, problem.a
    sign, source = np.sign(a), np.full(a.shape, "conserved", dtype="<U11")
    sign[size == 0] = 0.0
    open_ = ~((p.conserved > 0) & (a != 0)) & (size > 0)
    sure = open_ & (a != 0) & below_the_saddle(p.alpha, p.z, p.strength, p.goal)
    source[sure] = "loss"
    open_ &= ~sure
    if open_.any() and p.strength[0] - p.strength[-1] <= 2 * EQUAL * p.strength[0]:
        moving = p.w @ rows.T @ rows
        margin = basin_margin(a, moving.T, solution[:, None], p.eta_a, p.eta_w)
        sign[open_], source[open_] = np.sign(margin)[open_], "basin"
    elif open_.any():
        sign[open_] = final_signs(p.alpha[open_], p.z[open_], p.strength, p.goal[open_])
        source[open_] = "integration"
    return sign, source
