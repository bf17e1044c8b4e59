"""What the exact theories of two layers say about a two-layer network, and how far their assumptions are met."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.advice.prediction import Number
from richter.errors import OutsideTheoryError, message
from richter.maths.scalar_limits import growth_bound
from richter.maths.scaling_limits import classify, halves_balance, speed_exponents
from richter.probes.pairs import dense, structure
from richter.theory import WideScalar
from richter.theory.piecewise_network import PiecewiseNetwork

if TYPE_CHECKING:
    import xarray as xr
    from torch import nn

Floats = NDArray[np.float64]
ON_A_LINE = 0.99  # share of the inputs' variance along the data's direction that counts as a line
MOST = 4096  # neurons × examples that are simulated across every change of the pattern


@dataclass(frozen=True)
class TwoLayers:
    """A network Σ a σ(w·x + b) read off a torch model: `a` (output, neuron), `w` (neuron, input)."""

    a: Floats
    w: Floats
    bias: Floats | None
    leak: float | None  # slope of σ below 0; 1 for linear neurons, None for others
    rates: tuple[float, float]
    last_bias: bool

    @property
    def activation(self) -> str:
        """In words."""
        return {None: "not piecewise linear", 0.0: "ReLU", 1.0: "linear"}.get(self.leak, f"leak {self.leak}")


def two_layers(model: nn.Module, x: Any, rates: Mapping[str, float] | None = None) -> TwoLayers | None:
    """The model as two full layers with one function between, or None if it is anything else."""
    from torch import nn

    found = structure(model, x)
    if len(found.record.weights) != 2 or len(found.pairs) != 1 or found.opaque:
        return None
    pair = found.pairs[0]
    if {pair.first.kind, pair.second.kind} != {"linear"} or not (pair.first.parameter and pair.second.parameter):
        return None
    between = [step for step in pair.between if step not in ("flatten", "view", "reshape", "contiguous")]
    leak: float | None = 1.0 if not between else 0.0 if between == ["relu"] else None
    if between == ["leaky_relu"]:
        leak = next((float(m.negative_slope) for m in model.modules() if isinstance(m, nn.LeakyReLU)), None)
    known = dict(model.named_parameters())
    given = rates or {}
    rate = lambda name: float(given.get(name, given.get(name.rpartition(".")[0], 1.0)))
    bias = dense(known[pair.first.bias]) if pair.first.bias else None
    W, A = pair.matched(pair.first.value, pair.second.value)
    both = rate(pair.second.parameter), rate(pair.first.parameter)
    last = bool(pair.second.bias) and bool((known[pair.second.bias] != 0).any())
    return TwoLayers(A, W, bias, leak, both, last)


def on_a_line(net: TwoLayers, x: Floats, y: Floats) -> tuple[WideScalar, float]:
    """The wide network on the data's line (XU24 Prop. 1), and the share of the inputs' variance on that line.

    The line is that of Xᵀy, for the output of the largest correlation.
    """
    correlation = x.T @ y / len(x)
    j = int(np.argmax(np.linalg.norm(correlation, axis=0)))
    direction = correlation[:, j] / np.linalg.norm(correlation[:, j])
    along = x @ direction
    power = float((along**2).mean())
    share = power / float((x**2).sum(1).mean())
    theory = WideScalar(
        u0=net.a[j], w0=net.w, x=np.sqrt(power) * direction, y=float((along * y[:, j]).mean()) / np.sqrt(power),
        eta_u=net.rates[0], eta_w=net.rates[1],
    )  # fmt: skip
    return theory, share


def readings(net: TwoLayers, x: Floats, y: Floats) -> list[Number]:
    """P, Q, γ₊ and its bound, the split of the learning time, and the exponents of the phase."""
    theory, share = on_a_line(net, x, y)
    reasons = [] if net.leak == 1.0 else [f"its neurons are {net.activation}, not linear"]
    reasons += [] if share >= ON_A_LINE else [f"{share:.0%} of the inputs' variance is on the line of Xᵀy"]
    reasons += ["it has biases"] if net.bias is not None and net.bias.any() or net.last_bias else []
    reasons += [] if y.shape[1] == 1 else [f"it has {y.shape[1]} outputs, of which one is looked at"]
    holds, assumes = not reasons, "; ".join(reasons)
    ds, end = theory.solve([0.0], ["p", "q"]), theory.limit()
    p, q = ds.p.values[0], ds.q.values[0]
    d, rho = p.size, float(np.linalg.norm(theory.x))
    P, Q = float((p**2).mean()), float((q**2).mean())
    eta_u, eta_w, target = net.rates[0], net.rates[1], float(theory.y)
    features = eta_u * eta_w * rho**2 * target**2
    kernel = 4 * rho**4 * d**2 * P * Q
    v = net.w @ (np.asarray(theory.x) / rho)
    sign = np.sign(target) or 1.0
    bound = float(growth_bound(np.asarray(theory.u0), v * sign, abs(target) / rho, 1.0, eta_u, eta_w))
    number = lambda name, value, says, place: Number(name, float(value), says, place, holds, assumes)
    made = [
        number("P", P, "mean square of the aligned halves of the neurons", "XU24 Eq. 4"),
        number("Q", Q, "mean square of the anti-aligned halves; P = Q at zero output", "XU24 Eq. 4"),
        number("growth_end", end.growth.values.item(), "γ₊: factor on the aligned halves' square at the end; 1 is lazy",
               "XU24 Eq. 6, NAM24 Eq. 6.13"),
        number("growth_bound", bound, "lower bound S/Σ₀ of γ₊", "NAM24 Sec. 6.3.1"),
        number("feature_share", features / (features + kernel),
               "share of the feature part in 1/t_c²; the rest is the kernel's", "XU24 Eq. 7"),
        number("learning_time", (features + kernel) ** -0.5, "t_c, of gradient flow on E(f − y)²", "XU24 Eq. 7"),
    ]  # fmt: skip
    return made + _phase(net, y)


def _phase(net: TwoLayers, y: Floats) -> list[Number]:
    """The exponents that this one width suggests: logarithms of the sizes to the base of the width."""
    d = net.w.shape[0]
    if d < 4:
        return []
    log = lambda value: float(np.log(max(value, 1e-300)) / np.log(d))
    c_u = log(float((net.a**2).mean()))
    c_w = log(float((net.w**2).sum(1).mean()))  # the data are of order 1: fan-in drops out
    c_eta = [log(r) for r in net.rates]
    F, K = speed_exponents(1, 0, c_u, c_w, *c_eta)
    label = str(classify(F - max(F, K), K - max(F, K), halves_balance(1, c_u, c_w, *c_eta)))
    says = f"phase of κ = {d} read off this one width, once the common rate is stable; width_check measures it"
    return [
        Number("feature_exponent", float(F), "F of 1/t_c², to the base of the width, γ = 1", "XU24 Eq. 15", None),
        Number("kernel_exponent", float(K), "K of 1/t_c, to the base of the width, γ = 1", "XU24 Eq. 15", None),
        Number("phase", label, says, "XU24 Theorem 2", None),
    ]


def exact_or_simulated(
    model: nn.Module, x: Any, y: Any, times: Any, rates: Mapping[str, float] | None = None
) -> xr.Dataset:
    """What a two-layer network will do under gradient flow, from theory: exact where it is solved, else simulated.

    Linear neurons on a line: `WideScalar`, exact, on E(f − y)². ReLU or leaky neurons, any data:
    `PiecewiseNetwork`, integrated across every change of the activation pattern, on ½Σ(f − y)². The attribute
    `theory` says which, `loss_says` on what loss the times run (`richter.theory.convert` changes them).

    >>> import torch
    >>> from richter.training import two_layer
    >>> net = two_layer([1.0, -1.0], [[0.5], [0.2]], activation="linear")
    >>> ds = exact_or_simulated(net, [[1.0], [2.0]], [2.0, 4.0], [0, 9])
    >>> ds.attrs["theory"], round(float(ds.loss[-1]), 6)
    ('WideScalar, exact', 0.0)
    """
    import torch

    own = next(p for p in model.parameters() if p.is_floating_point())
    given = torch.as_tensor(x).to(own.device, own.dtype)
    net = two_layers(model, given, rates)
    if net is None or net.leak is None or net.a.shape[0] != 1 or net.last_bias:
        got = "another network" if net is None else f"{net.a.shape[0]} outputs, {net.activation} neurons"
        do = "Use advise(…, pilot=10), which tries it."
        raise OutsideTheoryError(
            message("the model", "be two layers with one output and linear, ReLU or leaky neurons", got, do)
        )
    X = given.detach().double().cpu().numpy().reshape(len(given), -1)
    targets = np.asarray(torch.as_tensor(y), dtype=float).reshape(len(X), -1)
    if net.leak == 1.0:
        theory, share = on_a_line(net, X, targets)
        if share < 1 - 1e-9 or net.bias is not None:
            do = "Project the inputs on Xᵀy, or use IsotropicNetwork if AAᵀ − WWᵀ is a multiple of 1."
            got = f"{share:.1%} of their variance on it" + (", and biases" if net.bias is not None else "")
            raise OutsideTheoryError(message("the inputs of a linear network", "be on one line", got, do))
        ds = theory.solve(times)
        ds.attrs.update(theory="WideScalar, exact", loss_says=theory.loss_says)
        return ds
    if net.w.shape[0] * len(X) > MOST:
        do = "Give fewer examples, or use advise(…, pilot=10)."
        got = f"{net.w.shape[0]} × {len(X)}"
        raise OutsideTheoryError(message("neurons × examples of the simulation", f"be at most {MOST}", got, do))
    w = net.w
    if net.bias is not None:
        w, X = np.column_stack([w, net.bias]), np.column_stack([X, np.ones(len(X))])
    network = PiecewiseNetwork(
        a0=net.a[0], w0=w, X=X, y=targets[:, 0], leak=net.leak, eta_a=net.rates[0], eta_w=net.rates[1]
    )
    ds = network.simulate(times)
    ds.attrs.update(theory="PiecewiseNetwork, simulated", loss_says=network.loss_says)
    return ds
