"""`richter.watch`: three lines around a training loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from richter.errors import ParameterError, message
from richter.params import count
from richter.probes.moments import AbstractMoments
from richter.probes.observe import inputs, torch_library, tried, unwrapped
from richter.probes.observe import layer as named_layer
from richter.probes.probe import AbstractProbe
from richter.probes.recorder import Logger, Rate, Recorder
from richter.probes.standard import POINTS, chosen_probes, kernel_kind, kernel_probe, standard

if TYPE_CHECKING:
    import xarray as xr
    from torch import nn
    from torch.optim import Optimizer


@dataclass(frozen=True, eq=False)
class Watch:
    """A recorder bound to a model: call it after every step, leave it to look for the last time."""

    model: nn.Module
    recorder: Recorder

    def __call__(self, step: int | None = None, loss: Any = None) -> bool:
        """Tell that so many steps have been taken in all; without a number, one more. Whether it was looked at."""
        if step is None:
            if self.recorder.record.open_end:
                raise ParameterError(message("`step`", "be given when a record is taken up", "None", "Use see(step)."))
            step = self.recorder.now + 1
        return self.recorder.see(step, self.model, loss)

    def dataset(self) -> xr.Dataset:
        """What has been seen so far."""
        return self.recorder.dataset()

    def close(self) -> None:
        """Look for the last time and write the file, for loops that do without `with`."""
        self.recorder.close(self.model)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.recorder.close(self.model, problem)
        except Exception as second:
            if problem is None:
                raise
            problem.add_note(f"What was recorded could not be saved: {second}")  # the loop's own error comes first


def watch(
    model: nn.Module,
    probe: Any,
    *,
    rate: Rate = None,
    optimiser: Optimizer | None = None,
    loss: str | Callable[[Any, Any], Any] | None = None,
    measure: Iterable[str | AbstractProbe] | None = None,
    moments: AbstractMoments | Iterable[int] | int | None = None,
    step: int = 0,
    steps: int | None = None,
    budget: float | None = 0.05,
    file: str | os.PathLike[str] | None = None,
    resume: bool = True,
    loggers: Iterable[Logger] = (),
    rates: Mapping[str, float] | float | None = None,
    layer: str | None = None,
    kernel: str | None = "auto",
    kernel_points: int | None = POINTS,
    strict: bool = False,
) -> Watch:
    """Watch a model while your own loop trains it; the model is left as it is at every look.

    Everything is measured on `probe` in evaluation mode: at the start, at log-spaced steps and loss levels, at the end.
    Looks in between are left out when the budget is spent. Leaving the `with` block, an exception included, writes
    what was seen. Called again with the same `file` after an interruption, and the model as your checkpoint has it,
    the record goes on where the loop does: looks at steps that are taken again are replaced.

    Args:
        model: a torch module; a compiled or data-parallel one is looked at through its wrapper.
        probe: inputs, or an (inputs, targets) pair, on the model's device; a few hundred examples are enough.
        rate: the learning rate, or a function of the step. Gives `t` and, for plain descent, `predicted_drift`.
        optimiser: takes rate and relative layer rates from it instead, and sees whether it is plain gradient descent.
        loss: on the probe: mse, half-sum, square, cross-entropy or a function of (outputs, targets); by default
            cross-entropy for whole numbers as targets, else mse.
        measure: names of probes, or probes of your own; by default all that the model and the targets allow.
        moments: steps, how many of `steps`, or a rule of `richter.probes.moments`.
        step: how many steps have been taken already.
        steps: how many steps there will be in all, if you know.
        budget: largest share of training time for watching, from 30 s on; None is no limit.
        file: where the record goes, for instance "run.nc"; the start is kept beside it to resume from.
        resume: take up a record that is there; False starts over.
        loggers: functions of (step, scalars), such as `to_tensorboard(writer)`.
        rates: learning rates by layer or parameter, relative to `rate`, where they differ.
        layer: whose output the features are; by default what the last weight layer reads.
        kernel: whose movement is measured: full (every pair of outputs), trace (summed over outputs), auto (full where
            it is small enough), or None.
        kernel_points: of how many of the probe's examples the kernel is; its cost grows with their square.
        strict: raise when a probe fails in the middle of the run, instead of noting it and warning.

    >>> import torch
    >>> x, net = torch.randn(20, 3), torch.nn.Linear(3, 1)
    >>> optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    >>> with watch(net, probe=(x, x[:, :1]), optimiser=optimiser) as see:
    ...     for step in range(10):
    ...         optimiser.zero_grad()
    ...         loss = (net(x) - x[:, :1]).square().mean()
    ...         loss.backward()
    ...         optimiser.step()
    ...         _ = see(step + 1, loss)
    >>> ds = see.dataset()
    >>> int(ds.step[-1]), round(float(ds.t[-1]), 12), bool(ds.loss[-1] < ds.loss[0])
    (10, 1.0, True)
    """
    torch = torch_library("watch")
    if not isinstance(model, torch.nn.Module):
        raise ParameterError(message("the model", "be a torch module", type(model).__name__))
    batch = _batch(unwrapped(model), probe)
    outputs = tried(unwrapped(model), batch[0]).numel()
    if layer is not None:
        named_layer(unwrapped(model), layer)
    explain, pace = "", 1.0
    if optimiser is not None:
        if rate is not None or rates is not None:
            raise ParameterError(message("`rate` and `rates`", "be left to the optimiser, or it to them", "both"))
        rate, rates, explain = _of_optimiser(unwrapped(model), optimiser)
        pace = _pace(optimiser)
    relative = 1.0 if rates is None else rates
    known = standard(loss=loss, rates=relative, layer=layer)
    if kernel is not None:
        count("`kernel_points`", len(batch[0]) if kernel_points is None else kernel_points)
        if kernel == "auto":
            kernel = kernel_kind(outputs, len(batch[0][:kernel_points]))
        moved = kernel_probe(kernel, relative, loss, kernel_points)
        known[moved.name] = moved
    recorder = Recorder(
        chosen_probes(measure, known), batch, rate=rate, explain=explain, moments=moments, steps=steps, budget=budget,
        file=file, resume=resume, loggers=loggers, optional=measure is None, strict=strict,
    )  # fmt: skip
    recorder.attrs |= {"clock": "flow" if rate is not None and pace else "steps", "pace": pace}
    recorder.start(model, step)
    return Watch(model, recorder)


def _batch(model: nn.Module, probe: Any) -> tuple[Any, Any]:
    """(inputs, targets) as tensors that fit the model, or one line that says why not."""
    torch = torch_library("watch")
    pair = isinstance(probe, (tuple, list))
    if pair and len(probe) != 2:
        raise ParameterError(message("`probe`", "be inputs or an (inputs, targets) pair", f"{len(probe)} things"))
    x, y = probe if pair else (probe, None)
    x = inputs(model, x).detach()
    own = {p.dtype for p in model.parameters() if p.is_floating_point()}
    if x.is_floating_point() and own and x.dtype not in own:
        wanted = str(next(iter(own)))
        do = f"Use x.to({wanted})."
        raise ParameterError(message("the probe's inputs", f"be of the model's type, {wanted}", str(x.dtype), do))
    if y is None:
        return x, None
    y = y.detach() if isinstance(y, torch.Tensor) else torch.as_tensor(np.asarray(y))
    if y.ndim == 0 or len(y) != len(x):
        raise ParameterError(message("the probe's targets", f"be one per example, {len(x)}", f"shape {tuple(y.shape)}"))
    return x, y.to(x.device)


def _of_optimiser(model: nn.Module, optimiser: Optimizer) -> tuple[Rate, Mapping[str, float] | float, str]:
    """Its rate as a function of the step, the layers' rates relative to it, and why it is no plain descent."""
    torch = torch_library("watch")
    groups = optimiser.param_groups

    def optimiser_rate(step: int) -> float:
        return float(groups[0]["lr"])

    first = float(groups[0]["lr"])
    names = {id(p): name for name, p in model.named_parameters()}
    relative = {names[id(p)]: float(g["lr"]) / first for g in groups for p in g["params"] if id(p) in names and first}
    frozen = {name: 0.0 for name in names.values() if name not in relative}
    rates: Mapping[str, float] | float = {**relative, **frozen} if frozen or set(relative.values()) != {1.0} else 1.0
    if not isinstance(optimiser, torch.optim.SGD):
        return optimiser_rate, rates, f"{type(optimiser).__name__} is not plain gradient descent"
    extra = [key for key in ("momentum", "weight_decay") if any(g.get(key) for g in groups)]
    return optimiser_rate, rates, f"the optimiser has {' and '.join(extra)}" if extra else ""


def _pace(optimiser: Optimizer) -> float:
    """How much faster than t = Σ rate the flow goes along: 1/(1 − momentum); 0 if its steps are no time."""
    torch = torch_library("watch")
    found = {float(g.get("momentum", 0.0)) for g in optimiser.param_groups}
    if not isinstance(optimiser, torch.optim.SGD) or len(found) != 1 or max(found) >= 1:
        return 0.0
    return 1 / (1 - found.pop())


def on_device(probe: Any, device: Any) -> Any:
    """The tensors of a probe where the model is."""
    if isinstance(probe, (tuple, list)):
        return tuple(on_device(item, device) for item in probe)
    return probe.to(device) if hasattr(probe, "to") else probe


def recorded(seen: Watch | None) -> xr.Dataset:
    """The Dataset of a watch that has begun."""
    if seen is None:
        raise ParameterError(message("the training", "have begun in this process", "nothing seen"))
    return seen.dataset()
