r"""Gradient descent beside gradient flow: what steps of finite size do to an exact solution.

A step of size h is $x\leftarrow x+h\,F(x)$ with F the theory's flow (its learning rates included).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from richter.errors import OutsideTheoryError, ParameterError, message
from richter.maths.integrate import integrate
from richter.theory.base import AbstractTheory
from richter.theory.layout import Floats, Packing, State, check_times

if TYPE_CHECKING:
    import xarray as xr

TINY_STEP = 1e-30  # complex steps have no rounding error, so any tiny size will do


def descend(theory: AbstractTheory, step: float, steps: Iterable[int]) -> xr.Dataset:
    """Gradient descent from the theory's start, read at the given step numbers.

    The result has the schema of `solve`, with t = step × size and the coordinate `step`.

    >>> from richter.theory import SingleNeuron
    >>> ds = descend(SingleNeuron(a0=1.0, w0=[1.0], beta_star=[2.0]), 0.1, [0, 1])
    >>> ds.a.values.tolist()
    [1.0, 1.1]
    """
    size = _step_size(step)
    moments = np.asarray(list(steps) if isinstance(steps, Iterable) else [])
    whole = moments.ndim == 1 and moments.size > 0 and moments.dtype.kind in "iu"
    if not whole or (np.diff(moments) < 0).any() or moments[0] < 0:
        raise ParameterError(message("the steps", "be increasing whole numbers ≥ 0", moments))
    packing = Packing(theory.begin(theory.layout), max(1, int(np.prod(theory.batch_shape))))
    now = packing.pack(packing.start)
    path = np.empty((now.size, moments.size))
    done = 0
    for column, moment in enumerate(moments):
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(int(moment) - done):
                now = now + size * packing.pack(theory.flow(theory.layout, packing.unpack(now)))
        done = int(moment)
        if not np.isfinite(now).all():
            raise OutsideTheoryError(
                f"Gradient descent diverged before step {moment} at step size {size:g}. "
                f"Use less than largest_stable_step(theory) = {np.min(largest_stable_step(theory)):.3g}."
            )
        path[:, column] = now
    arrays = theory.read(packing.unpack(path), moments * size)
    return theory.labelled(arrays, f"gradient descent, step {size:g}").assign_coords(step=("t", moments))


def drift_per_step(theory: AbstractTheory, t: object, step: float) -> xr.Dataset:
    r"""The exact change of each conserved quantity in one step of gradient descent from the flow's state at t.

    A conserved quantity Q is a quadratic form with $Q(x,F(x))=0$, so one step changes it by $h^2Q(F(x))$: for the
    single neuron $h^2\eta_a\eta_w(\eta_ag_a^2-\eta_w\|g_w\|^2)$.
    """
    size, times = _step_size(step), check_times(t)
    layout, only = theory.layout, [v for v in theory.variables if v.role == "invariant"]
    state = _exact_state(theory, times)
    speed = theory.flow(layout, state)
    drift = {name: size**2 * value for name, value in theory.invariants(layout, speed).items()}
    return theory.labelled(theory.shaped(times, only, drift), f"drift per step of size {size:g}")


def largest_stable_step(theory: AbstractTheory) -> Floats:
    r"""$2/(f\,\lambda_{\max})$: f the loss factor, λ the largest eigenvalue of the kernel on the whole path.

    Below it gradient descent cannot be thrown out along the kernel's top direction. Shape of the batch.

    >>> from richter.theory import LinearModel
    >>> float(largest_stable_step(LinearModel(eigenvalues=[4.0, 1.0], coefficients=[1.0, 1.0])))
    0.5
    """
    times = np.concatenate([[0.0], np.geomspace(1e-9, 1e9, 400), [np.inf]])
    if "kernel" in {v.name for v in theory.variables}:
        dims, kernel = theory.arrays(times, only=("kernel",))["kernel"]
        if dims[-2:] == ("input", "input_2"):
            kernel = np.asarray(np.linalg.eigvalsh(kernel), dtype=np.float64)
    else:  # η_w AᵀA ⊗ G + I ⊗ η_a G^½WᵀWG^½ with G = XᵀX: its top lies where AᵀA has its own
        grams = theory.arrays(times, only=("gram_a", "gram_w"))
        rate = lambda name: np.asarray(theory.params[name])[..., None, None, None]
        inputs = np.asarray(theory.params["input_gram"])[..., None, :, :]
        values, vectors = np.linalg.eigh(inputs)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        first = np.linalg.eigvalsh(grams["gram_a"][1])[..., -1, None, None] * inputs
        both = rate("eta_w") * first + rate("eta_a") * (root @ grams["gram_w"][1] @ root)
        kernel = np.linalg.eigvalsh(both)[..., -1]
    top = kernel.reshape(*theory.batch_shape, -1).max(axis=-1)
    with np.errstate(divide="ignore"):
        return np.asarray(2 / (theory.loss_factor * top))


def descent_gap(theory: AbstractTheory, t: object, step: float, only: Iterable[str] | None = None) -> xr.Dataset:
    r"""Gradient descent minus gradient flow to first order in the step: the bar to draw around an exact curve.

    Descent follows $x(t)+h\,e(t)$ with $\dot e=DF(x)\,(e-\tfrac12F(x))$, $e(0)=0$; the error is O(h²).
    """
    size, times = _step_size(step), check_times(t)
    if not np.isfinite(times).all():
        raise ParameterError(message("the times of descent_gap()", "be finite", "inf"))
    layout = theory.layout
    packing = Packing(theory.begin(layout), max(1, int(np.prod(theory.batch_shape))))
    start = packing.pack(packing.start)
    flow = lambda flat: packing.pack(theory.flow(layout, packing.unpack(flat)))

    def both(flat: Floats) -> Floats:
        x, e = flat[: start.size], flat[start.size :]
        speed = flow(x)
        turn = flow(x + 1j * TINY_STEP * (e - speed / 2)).imag / TINY_STEP
        return np.concatenate([speed, turn])

    order = np.argsort(times, kind="stable")
    path = integrate(both, np.concatenate([start, np.zeros_like(start)]), times[order])
    path = path[:, np.argsort(order)]
    state, error = packing.unpack(path[: start.size]), packing.unpack(path[start.size :])
    chosen = theory.select(only)
    moved: State = {name: x + size * error[name] for name, x in state.items()}
    with_step, without = theory.read(moved, times, chosen), theory.read(state, times, chosen)
    gap = {name: (dims, value - without[name][1]) for name, (dims, value) in with_step.items() if name != "t"}
    return theory.labelled({"t": without["t"], **gap}, f"gradient descent minus flow, step {size:g}")


def _exact_state(theory: AbstractTheory, times: Floats) -> State:
    with np.errstate(all="ignore"):
        return theory.exact_state(theory.prepare(theory.layout), times)


def _step_size(step: float) -> float:
    if not (np.isfinite(step) and step > 0):
        raise ParameterError(message("the step size", "be > 0", step))
    return float(step)
