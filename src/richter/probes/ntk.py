"""The empirical neural tangent kernel of any torch model."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message
from richter.probes.blocks import pieces
from richter.probes.contract import Kind, Piece, inner
from richter.probes.observe import inputs, torch_library
from richter.probes.tangent import Changed, Plan, Positions, Rates, examine

if TYPE_CHECKING:
    import xarray as xr
    from torch import Tensor, nn

Precision = Literal["model", "float64"]
DIMS = {
    "full": ("example", "example_2", "output", "output_2"),
    "trace": ("example", "example_2"),
    "diagonal": ("example", "example_2", "output"),
}
SAYS = {
    "full": "empirical neural tangent kernel, every pair of outputs",
    "trace": "empirical neural tangent kernel, summed over equal outputs",
    "diagonal": "empirical neural tangent kernel, equal outputs",
}


def ntk(
    model: nn.Module,
    x: Tensor,
    x2: Tensor | None = None,
    outputs: Kind = "full",
    rates: Rates = None,
    *,
    precision: Precision = "model",
    positions: Positions = None,
) -> xr.DataArray:
    r"""$K_{ij}(x,x')=\sum_p\eta_p\,\partial_pf_i(x)\,\partial_pf_j(x')$, without a loss factor.

    Args:
        model: a torch model in the mode it is to be measured in; it is left as it was.
        x: inputs, the examples on the first axis.
        x2: inputs of the other side; without them x.
        outputs: "full" all pairs of outputs (N, N2, C, C); "trace" their sum over i = j (N, N2), not the mean;
            "diagonal" i = j (N, N2, C).
        rates: learning rates ≥ 0 by names of parameters or layers or by patterns ("*.bias"); one not named has
            rate 1. A parameter with `requires_grad=False` does not learn.
        precision: "model": gradients as the model computes them, sums over layers in float64. "float64": all of it,
            on a copy of the model.
        positions: which positions of a sequence's outputs (example, position, output) to take; all without it.

    Returns:
        a float64 DataArray `ntk_full`, `ntk_trace` or `ntk_diagonal`, whose attributes say the `kind` and which
        parameters had to go through torch.func, and why (`fallback`).
    """
    if outputs not in get_args(Kind):
        raise ParameterError(message("`outputs`", f"be one of {', '.join(get_args(Kind))}", outputs))
    model, x, other = _prepared(model, x, x2, precision)
    plan = examine(model, x, rates, positions)
    try:
        K = _kernel(model, x, other, plan, outputs, positions)
    except Changed:
        plan = all_by_functions(plan)
        K = _kernel(model, x, other, plan, outputs, positions)
    return labelled(K, outputs, plan, precision)


def all_by_functions(plan: Plan) -> Plan:
    """The same question with nothing taken apart."""
    reason = "the model takes another way for other examples"
    return replace(
        plan, axes={}, alive=frozenset(), groups=(), fallback={name: reason for name in plan.rates}, followed={}
    )


def labelled(K: NDArray[np.float64], kind: Kind, plan: Plan, precision: str) -> xr.DataArray:
    """The kernel with its kind in name and attributes."""
    import xarray as xr

    attrs = {
        "long_name": SAYS[kind], "units": "1", "kind": kind, "precision": precision,
        "fallback": "; ".join(f"{name}: {why}" for name, why in plan.fallback.items()),
    }  # fmt: skip
    return xr.DataArray(K, dims=DIMS[kind], name=f"ntk_{kind}", attrs=attrs)


def _prepared(
    model: nn.Module, x: Tensor, x2: Tensor | None, precision: Precision
) -> tuple[nn.Module, Tensor, Tensor | None]:
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


def _kernel(
    model: nn.Module, x: Tensor, x2: Tensor | None, plan: Plan, kind: Kind, positions: Positions
) -> NDArray[np.float64]:
    first = pieces(model, x, plan, kind, positions)
    second = first if x2 is None else pieces(model, x2, plan, kind, positions)
    return _joined(first, second, kind, (x.shape[0], (x if x2 is None else x2).shape[0], plan.outputs))


def _joined(first: list[Piece], second: list[Piece], kind: Kind, sizes: tuple[int, int, int]) -> NDArray[np.float64]:
    n, m, C = sizes
    shape = {"full": (n, C, m, C), "trace": (n, m), "diagonal": (C, n, m)}[kind]
    K = np.zeros(shape)
    for p, q in zip(first, second, strict=True):
        K += inner(p, q, kind).cpu().numpy()
    return K.transpose(0, 2, 1, 3) if kind == "full" else K.transpose(1, 2, 0) if kind == "diagonal" else K
