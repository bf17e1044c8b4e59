r"""The coordinate check: train a few steps at several widths, and see what goes with the width.

In a feature-learning limit a step moves hidden values and outputs by amounts that do not depend on the width; in a
kernel limit hidden values move by $d^{-1/2}$ while the output still moves; where the output's movement vanishes the
limit is frozen, where anything grows it is unstable, and the learning rate of one width is wrong at another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from richter.errors import ParameterError, message
from richter.maths.power_fit import fit_power
from richter.moves.base import Record
from richter.moves.rates import groups
from richter.probes.observe import first_tensor, undisturbed
from richter.probes.trace import watch
from richter.regime import WIDTH_POWER, Evidence, Regime
from richter.training.losses import check_loss, loss_value

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
OUTPUT = "output"
KINDS: dict[str, Any] = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


def width_check(
    make: Callable[[int, int], nn.Module | Record],
    batch: tuple[Tensor, Tensor],
    *,
    widths: Sequence[int] = (64, 128, 256, 512, 1024),
    steps: int = 20,
    rate: float = 0.05,
    optimiser: str = "sgd",
    loss: str = "mse",
    seeds: int = 4,
) -> xr.Dataset:
    """Sizes and movements of every layer's values against the width.

    Args:
        make: (width, seed) → a network, or the record of a move, whose layer rates are then used.
        batch: (inputs, targets), the same for every width. Under a squared loss every network is trained towards its
            start's output + targets, so that all of them begin with the same residual.
        widths: three at least.
        steps: of full-batch training.
        rate: learning rate of a layer with factor 1.
        optimiser: sgd, adam or adamw.
        loss: see `richter.training.LOSSES`.
        seeds: networks at each width.

    Returns:
        `size` and `change` (width, seed, layer): root mean squares over examples and units at the start and of what
        the steps have added; `moved` (width, seed, weight): ‖ΔW‖/‖W‖; `exponent`, `low`, `high` (layer): the fitted
        power of `change`/`size`, for the output that of `change`. The layers are the weight layers in the order of
        execution, and "output". `width_verdict` judges it.

    >>> from richter.moves import parametrise
    >>> from richter.training import mlp
    >>> batch = torch.randn(16, 4), torch.ones(16, 1)
    >>> make = lambda width, seed: parametrise(mlp(4, [width], rng=seed), "mean-field+")
    >>> width_verdict(width_check(make, batch, widths=(64, 256, 1024))).label
    'feature-learning'
    """
    import xarray as xr

    wide = sorted({int(w) for w in widths})
    if len(wide) < 3:
        raise ParameterError(message("`widths`", "be at least three", list(widths), "Use widths=(64, 256, 1024)."))
    if optimiser not in KINDS:
        raise ParameterError(message("`optimiser`", f"be one of {', '.join(KINDS)}", optimiser))
    check_loss(loss)
    layers: list[str] = []
    size, change, moved = [], [], []
    for width in wide:
        for seed in range(seeds):
            made = make(width, seed)
            model, rates = (made.model, made.rates) if isinstance(made, Record) else (made, {})
            names = _layers(model, batch[0])
            if layers and names != layers:
                got = f"{', '.join(layers)} and {', '.join(names)}"
                raise ParameterError(message("the networks of all widths", "have the same layers", got))
            layers = names
            before, weights = _values(model, batch[0], names), _weights(model, names)
            targets = batch[1] if loss == "cross-entropy" else batch[1] + before[-1].to(batch[1].dtype)
            trained = KINDS[optimiser](groups(model, optimiser, rate, rates), lr=rate)
            for _ in range(steps):
                trained.zero_grad(set_to_none=True)
                loss_value(loss, first_tensor(model(batch[0]), "the model"), targets).backward()
                trained.step()
            after = _values(model, batch[0], names)
            size.append([_rms(v) for v in before])
            change.append([_rms(b - a) for a, b in zip(before, after, strict=True)])
            now = _weights(model, names)
            moved.append([float((b - a).norm() / a.norm()) for a, b in zip(weights, now, strict=True)])
    grid = (len(wide), seeds, -1)
    shown = [*layers, OUTPUT]
    fits = [
        _fit(wide, np.reshape(change, grid)[..., i], np.reshape(size, grid)[..., i] if name != OUTPUT else None)
        for i, name in enumerate(shown)
    ]
    return xr.Dataset(
        {
            "size": (("width", "seed", "layer"), np.reshape(size, grid)),
            "change": (("width", "seed", "layer"), np.reshape(change, grid)),
            "moved": (("width", "seed", "weight"), np.reshape(moved, grid)),
            "exponent": (("layer",), [f[0] for f in fits]),
            "low": (("layer",), [f[1] for f in fits]),
            "high": (("layer",), [f[2] for f in fits]),
        },
        {"width": wide, "seed": np.arange(seeds), "layer": shown, "weight": layers},
        {"steps": steps, "rate": rate, "optimiser": optimiser, "loss": loss},
    )


def width_verdict(ds: xr.Dataset) -> Regime:
    """Feature-learning, kernel, frozen or unstable, from the fitted powers of what a few steps move."""
    exponent = {str(layer): float(ds.exponent.sel(layer=layer)) for layer in ds.layer.values}
    limit = WIDTH_POWER
    last = str(ds.weight.values[-1])
    hidden = {name: e for name, e in exponent.items() if name not in (OUTPUT, last)}
    fastest = max(hidden, key=lambda name: hidden[name] if not math.isnan(hidden[name]) else -math.inf)
    top, out = hidden[fastest], exponent[OUTPUT]
    if not np.isfinite(ds.change.values).all():
        label, why = "unstable", "a network has left the finite numbers"
    elif out > limit or top > limit:
        grows = "the output" if out > limit else f"`{fastest}`"
        label, why = "unstable", f"the movement of {grows} grows with the width"
    elif out < -limit:
        label, why = "frozen", "the output's movement vanishes as the width grows"
    elif top < -limit:
        label, why = "kernel", "the output moves, the hidden values' movement vanishes as the width grows"
    else:
        label, why = "feature-learning", "hidden values and output move alike at all widths"
    near = [name for name in (OUTPUT, fastest) if _straddles(ds, name, limit)]
    reasons = [f"{why}."]
    if near:
        reasons.append(f"Undecided at 95 %: the interval of {' and '.join(near)} holds ±{limit:g}; use more widths.")
    widths = f"{int(ds.width.min())} to {int(ds.width.max())}"
    return Regime(label, {
        "output_exponent": Evidence(out, f"power of the width with which the output moves, widths {widths}", limit),
        "hidden_exponent": Evidence(top, f"the same for the values of `{fastest}`, relative to their size", -limit),
    }, tuple(reasons))  # fmt: skip


def _straddles(ds: xr.Dataset, layer: str, limit: float) -> bool:
    low, high = float(ds.low.sel(layer=layer)), float(ds.high.sel(layer=layer))
    return any(low < edge < high for edge in (-limit, limit))


def _layers(model: nn.Module, x: Tensor) -> list[str]:
    """Weight layers that are modules, in the order of execution."""
    modules = dict(model.named_modules())
    names = [name for name in watch(model, x).weights if name in modules]
    if len(names) < 2:
        raise ParameterError(message("the network", "have at least two weight layers that are modules", len(names)))
    return names


def _values(model: nn.Module, x: Tensor, names: list[str]) -> list[Tensor]:
    """What every layer gives, and the output."""
    with _seen(model, names) as made, undisturbed(model):
        out = first_tensor(model(x), "the model")
    return [made[name] for name in names] + [out.detach().double()]


@contextmanager
def _seen(model: nn.Module, names: list[str]) -> Iterator[dict[str, Tensor]]:
    made: dict[str, Tensor] = {}
    keep = lambda name: lambda _m, _i, out: made.__setitem__(name, first_tensor(out, name).detach().double())
    handles = [model.get_submodule(name).register_forward_hook(keep(name)) for name in names]
    try:
        yield made
    finally:
        for handle in handles:
            handle.remove()


def _weights(model: nn.Module, names: list[str]) -> list[Tensor]:
    return [next(model.get_submodule(name).parameters()).detach().double().clone() for name in names]


def _rms(values: Tensor) -> float:
    return float(values.square().mean().sqrt())


def _fit(widths: Sequence[int], change: Floats, size: Floats | None) -> tuple[float, float, float]:
    """Power of the width and its interval, from the seeds' root mean squares; NaN if nothing moved."""
    middle = np.sqrt((change**2).mean(1))
    if size is not None and (size > 0).all():
        middle = middle / np.sqrt((size**2).mean(1))
    if not (np.isfinite(middle).all() and (middle > 0).all()):
        return math.nan, math.nan, math.nan
    fit = fit_power(widths, middle)
    return fit.exponent, *fit.exponent_interval
