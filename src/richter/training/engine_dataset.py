"""The engine's observables as a labelled Dataset, in the names of the schema."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.training.engine_networks import Networks
from richter.training.engine_observables import OBSERVABLES, Look
from richter.training.engine_step import Rule

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[Any]


def dataset(
    seen: dict[str, Array],
    looks: tuple[int, ...],
    rates: Array,
    factors: Array,
    rule: Rule,
    look: Look,
    networks: Networks,
    dtype: str,
) -> xr.Dataset:
    """Variables over (start, step) with the coordinate t = step × rate; parameters over their units behind them."""
    import xarray as xr

    made: dict[str, Any] = {}
    for name, values in seen.items():
        stored, attrs = name, {"long_name": OBSERVABLES.get(name, name), "units": "1"}
        rest = [f"{name}_{i}" for i in range(values.ndim - 2)]
        if name == "kernel_distance":
            attrs["kernel"] = "the only block" if networks.sizes[-1] == 1 else look.kernel
            stored = name if networks.sizes[-1] == 1 else f"{name}_{look.kernel}"
        parameter = re.fullmatch(r"(weight|bias)(\d+)", name)
        if parameter:
            number = int(parameter[2])
            attrs["long_name"] = f"{parameter[1]} of layer {number}"
            rest = [_units(number, networks), _units(number - 1, networks)][: values.ndim - 2]
        made[stored] = (("start", "step", *rest), values, attrs)
    t = rates[:, None] * np.asarray(looks, dtype=np.float64)
    common = (rates == rates[0]).all()
    coordinates = {
        "step": ("step", np.asarray(looks, dtype=np.int64), {"long_name": "steps of gradient descent"}),
        "t": (("step",) if common else ("start", "step"), t[0] if common else t, {"long_name": "time: step × rate"}),
        "rate": ("start", np.array(rates), {"long_name": "learning rate"}),
    }
    attrs = {
        "loss": rule.loss, "activation": rule.activation, "optimiser": rule.optimiser, "dtype": dtype,
        "batch": str(rule.batch or "all"), "layer_rates": np.array2string(factors[0]) if len(factors) else "",
    }  # fmt: skip
    return xr.Dataset(made, coordinates, attrs)


def _units(layer: int, networks: Networks) -> str:
    """The dimension of a layer's units."""
    last = len(networks.weights)
    if layer in (0, last):
        return "input" if layer == 0 else "output"
    return "neuron" if last == 2 else f"neuron_{layer}"
