"""The empirical neural tangent kernel of any torch model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message
from richter.probes.blocks import Combinations, Gradients
from richter.probes.contract import Kind
from richter.probes.memory import bytes_of
from richter.probes.observe import inputs, torch_library
from richter.probes.tangent import Changed, Plan, Positions, Rates, examine
from richter.probes.tiles import at_once, tiles

if TYPE_CHECKING:
    import xarray as xr
    from torch import Tensor, nn

Precision = Literal["model", "float64"]
Outputs = Literal["full", "trace", "diagonal", "sketch"]
SKETCHES = 8  # combinations of outputs in a sketch
BUDGET = 2**30  # bytes that a kernel may take
T = TypeVar("T")
DIMS = {
    "full": ("example", "example_2", "output", "output_2"),
    "trace": ("example", "example_2"),
    "diagonal": ("example", "example_2", "output"),
    "sketch": ("example", "example_2", "combination"),
}
SAYS = {
    "full": "empirical neural tangent kernel, every pair of outputs",
    "trace": "empirical neural tangent kernel, summed over equal outputs",
    "diagonal": "empirical neural tangent kernel, equal outputs",
    "sketch": "empirical neural tangent kernel of random combinations of the outputs; their mean estimates the trace",
}


def ntk(
    model: nn.Module,
    x: Tensor,
    x2: Tensor | None = None,
    outputs: Outputs = "full",
    rates: Rates = None,
    *,
    memory: int | float | str = "1 GiB",
    precision: Precision = "model",
    positions: Positions = None,
    sketches: int = SKETCHES,
    seed: int = 0,
) -> xr.DataArray:
    r"""$K_{ij}(x,x')=\sum_p\eta_p\,\partial_pf_i(x)\,\partial_pf_j(x')$, without a loss factor.

    Args:
        model: a torch model in the mode it is to be measured in; it is left as it was.
        x: inputs, the examples on the first axis.
        x2: inputs of the other side; without them x.
        outputs: "full" all pairs of outputs (N, N2, C, C); "trace" their sum over i = j (N, N2), not the mean;
            "diagonal" i = j (N, N2, C); "sketch" $\sum_{ij}v_iv_jK_{ij}$ for `sketches` draws of signs v
            (N, N2, sketch), for nets of many outputs: one backward pass each, and their mean is the trace up to noise.
        rates: learning rates ≥ 0 by names of parameters or layers or by patterns ("*.bias"); one not named has
            rate 1. A parameter with `requires_grad=False` does not learn.
        memory: bytes, or a text such as "2 GiB", for all but the result; more examples are taken in more blocks.
        precision: "model": gradients as the model computes them, sums over layers in float64. "float64": all of it,
            on a copy of the model.
        positions: which positions of a sequence's outputs (example, position, output) to take; all without it.
        sketches: how many of them a sketch has.
        seed: of a sketch's signs; kernels can be compared if they have the same.

    Returns:
        a float64 DataArray `ntk_full`, `ntk_trace`, `ntk_diagonal` or `ntk_sketch`, whose attributes say the `kind` and
        which parameters had to go through torch.func, and why (`fallback`).
    """
    K, plan = kernel_values(model, x, x2, outputs, rates, bytes_of(memory), precision, positions, sketches, seed)
    made = labelled(K, outputs, plan, precision)
    return made.assign_attrs(seed=seed) if outputs == "sketch" else made


def kernel_values(
    model: nn.Module,
    x: Tensor,
    x2: Tensor | None = None,
    outputs: Outputs = "full",
    rates: Rates = None,
    budget: int = BUDGET,
    precision: Precision = "model",
    positions: Positions = None,
    sketches: int = SKETCHES,
    seed: int = 0,
) -> tuple[NDArray[np.float64], Plan]:
    """The kernel in a plain array, without loading what labels need, and how its gradients were found."""
    check_kind(outputs)
    if sketches < 1:
        raise ParameterError(message("`sketches`", "be at least 1", sketches))
    model, x, other = prepared(model, x, x2, precision)

    def make(plan: Plan) -> NDArray[np.float64]:
        combinations = Combinations(sketches, seed) if outputs == "sketch" else Combinations(plan.outputs)
        side = lambda x: Gradients(model, x, plan, contraction(outputs), positions, combinations)
        K = whole_kernel(side(x), None if other is None else side(other), budget)
        return K.transpose({"full": (0, 2, 1, 3), "trace": (0, 1), "diagonal": (1, 2, 0)}[contraction(outputs)])

    return with_plan(examine(model, x, rates, positions), make)


def contraction(outputs: Outputs) -> Kind:
    """How the gradients of the outputs, or of a sketch's combinations of them, are contracted."""
    return "diagonal" if outputs == "sketch" else outputs


def check_kind(outputs: str) -> None:
    """An error if there is no such kind of kernel."""
    if outputs not in get_args(Outputs):
        raise ParameterError(message("`outputs`", f"be one of {', '.join(get_args(Outputs))}", outputs))


def with_plan(plan: Plan, work: Callable[[Plan], T]) -> tuple[T, Plan]:
    """What `work` gives with a plan, or with nothing taken apart if the model takes another way than planned."""
    try:
        return work(plan), plan
    except Changed:
        plan = all_by_functions(plan)
        return work(plan), plan


def all_by_functions(plan: Plan) -> Plan:
    """The same question with nothing taken apart."""
    reason = "the model takes another way for other examples"
    return replace(
        plan, axes={}, alive=frozenset(), groups=(), fallback={name: reason for name in plan.rates}, followed={}
    )


def labelled(K: NDArray[np.float64], kind: Outputs, plan: Plan, precision: str) -> xr.DataArray:
    """The kernel with its kind in name and attributes."""
    import xarray as xr

    attrs = {
        "long_name": SAYS[kind], "units": "1", "kind": kind, "precision": precision,
        "fallback": "; ".join(f"{name}: {why}" for name, why in plan.fallback.items()),
    }  # fmt: skip
    return xr.DataArray(K, dims=DIMS[kind], name=f"ntk_{kind}", attrs=attrs)


def prepared(
    model: nn.Module, x: Tensor, x2: Tensor | None, precision: Precision
) -> tuple[nn.Module, Tensor, Tensor | None]:
    """The model and the inputs of both sides, checked, in the precision asked for."""
    torch = torch_library("The kernel")
    if precision not in get_args(Precision):
        raise ParameterError(message("`precision`", f"be one of {', '.join(get_args(Precision))}", precision))
    made: list[Any] = []
    first = next(model.parameters(), None)
    for batch in (x, x2):
        if batch is None:
            made.append(None)
            continue
        t = inputs(model, batch).detach()
        if t.is_inference():
            with torch.inference_mode(False):
                t = t.clone()
        if first is not None and t.dtype.is_floating_point and t.dtype != first.dtype:
            advice = f"Use batch.to({first.dtype})."
            raise ParameterError(message("the batch", f"be of the model's type, {first.dtype}", str(t.dtype), advice))
        made.append(t.double() if precision == "float64" and t.dtype.is_floating_point else t)
    if precision == "float64" and any(p.dtype != torch.float64 for p in model.parameters()):
        model = copy.deepcopy(model).double()
    return model, made[0], made[1]


def whole_kernel(of: Gradients, other: Gradients | None, budget: int) -> NDArray[np.float64]:
    """The kernel as its tiles are: (n, C, m, C) full, (n, m) trace, (C, n, m) diagonal."""
    n, m, C = len(of.x), len((other or of).x), of.combinations.count
    kind = of.kind
    K = np.zeros({"full": (n, C, m, C), "trace": (n, m), "diagonal": (C, n, m)}[kind])
    for part in of.combinations.parts(at_once(of, other, budget)):
        sides = [None if side is None else replace(side, combinations=part) for side in (of, other)]
        for tile in tiles(sides[0] or of, sides[1], budget):
            r, c, i, j = tile.rows, tile.columns, tile.outputs, tile.outputs_2
            values = tile.values
            if kind == "full":
                K[r, i, c, j] = values
                if tile.mirrored:
                    K[c, j, r, i] = values.transpose(2, 3, 0, 1)
            elif kind == "trace":
                K[r, c] += values
                if tile.mirrored:
                    K[c, r] += values.T
            else:
                i = slice(i.start + part.first, i.stop + part.first)
                K[i, r, c] = values
                if tile.mirrored:
                    K[i, c, r] = values.transpose(0, 2, 1)
    return K
