"""The single neuron's function as a time-warped mirror flow: a witness of where it ends that knows no weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from richter.errors import OutsideTheoryError, ParameterError, message
from richter.maths.integrate import integrate
from richter.maths.mirror import bregman, dual, mirror_velocity, primal
from richter.params import Given, Param, resolve
from richter.theory.layout import check_times

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
_PARAMS = {
    "X": Param("inputs", "X", ("example", "input")),
    "y": Param("targets", "y", ("example",)),
    "beta0": Param("function at the start", "β₀", ("input",)),
    "delta": Param("imbalance η_w a² − η_a‖w‖²", "δ"),
    "eta_a": Param("learning rate of a", "η_a", low=0, open_low=True),
    "eta_w": Param("learning rate of w", "η_w", low=0, open_low=True),
}


def mirror_flow(
    X: Given, y: Given, beta0: Given, delta: Given, t: object, eta_a: Given = 1.0, eta_w: Given = 1.0
) -> xr.Dataset:
    r"""β at times t, integrated in the dual variable $\nabla\Phi_\delta(\beta)$ of KUN24 App. A.4; one start.

    Only β₀, δ and the data enter: what gradient flow does to the function needs no weights, as long as β does not
    cross 0. `bregman` is the distance from β₀ that the end minimises among all solutions.

    Args:
        X: inputs (example, input).
        y: targets (example,).
        beta0: function at the start (input,), not 0.
        delta: imbalance.
        t: times ≥ 0, finite.
        eta_a: learning rate of a.
        eta_w: learning rate of w.

    >>> ds = mirror_flow(X=[[1.0, 2.0]], y=[1.0], beta0=[0.4, 0.05], delta=0.0, t=[0.0, 40.0])
    >>> (np.array([[1.0, 2.0]]) @ ds.beta.values[-1]).round(9).tolist()
    [1.0]
    """
    import xarray as xr

    given = {"X": X, "y": y, "beta0": beta0, "delta": delta, "eta_a": eta_a, "eta_w": eta_w}
    v = resolve("mirror_flow", _PARAMS, given).values
    if v["X"].ndim != 2 or v["beta0"].ndim != 1 or v["delta"].ndim or v["eta_a"].ndim or v["eta_w"].ndim:
        got = f"shapes {', '.join(str(v[name].shape) for name in v)}"
        raise ParameterError(message("the parameters of mirror_flow", "be one problem without batch dimensions", got))
    if not v["beta0"].any():
        raise ParameterError(message("`beta0` of mirror_flow", "not be 0: the potential has no slope there", 0.0))
    times = check_times(t)
    if not np.isfinite(times).all() or (np.diff(times) < 0).any():
        raise ParameterError(message("the times of mirror_flow", "be finite and increasing", times))
    # In units in which both rates are 1 the function and its target are √(η_a η_w) times as large.
    unit = float(np.sqrt(v["eta_a"] * v["eta_w"]))
    inputs, targets, imbalance = v["X"], unit * v["y"], float(v["delta"])
    first = dual(unit * v["beta0"], imbalance)
    floor = -2 * imbalance if imbalance < 0 else 0.0

    def velocity(theta: Floats) -> Floats:
        if theta @ theta <= floor:
            raise OutsideTheoryError(
                "The function crosses 0 on its way, where it is no mirror flow. Use interpolant(…), which follows the "
                "weights, or SingleNeuron on whitened inputs."
            )
        return mirror_velocity(theta, lambda beta: inputs.T @ (inputs @ beta - targets), imbalance)

    path = integrate(velocity, first, times).T
    beta = primal(path, imbalance)
    loss = ((beta @ inputs.T - targets) ** 2).sum(axis=-1) / (2 * unit**2)
    say = lambda words: {"long_name": words, "units": "1"}
    return xr.Dataset(
        {
            "beta": (("t", "input"), beta / unit, say("function learned")),
            "dual": (("t", "input"), path, say("∇Φ_δ(β), which moves in the row space of X only")),
            "bregman": (("t",), bregman(beta, unit * v["beta0"], imbalance), say("Bregman distance from the start")),
            "loss": (("t",), loss, say("½‖Xβ − y‖²")),
        },
        {"t": times},
        {"model": "mirror-flow", "delta": imbalance},
    )
