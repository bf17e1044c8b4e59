"""One plain training loop: the same call gives the same numbers, also when it was killed and taken up again."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from richter.errors import DivergenceError, ParameterError, message
from richter.tasks.randomness import Rng, count, stream
from richter.tasks.task import Task
from richter.training.checkpoints import Checkpoints, describe_rate, fingerprint
from richter.training.losses import examples, loss_of_zero, loss_value
from richter.training.moments import chosen
from richter.training.optimisers import make_optimiser, set_rate
from richter.training.progress import bar

Rate: TypeAlias = float | Callable[[int], float]
HUGE = 1e6  # how many times the loss of the zero network counts as divergence
LOOK = 50  # steps between two looks at the losses, which on a GPU wait for it


@dataclass(frozen=True, eq=False)
class Run:
    """What came out: the model, the loss of each step's batch before the step, and how it went."""

    model: nn.Module
    losses: NDArray[np.float64]
    seconds: float
    resumed_from: int = 0
    diverged_at: int | None = None


def train(
    model: nn.Module,
    task: Task,
    *,
    steps: int,
    rate: Rate,
    optimiser: str = "sgd",
    batch: int | None = None,
    loss: str = "mse",
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    layer_rates: Mapping[str, float] | None = None,
    moments: Iterable[int] | int | None = None,
    on_moment: Callable[[int, nn.Module], object] | None = None,
    checkpoints: str | os.PathLike[str] | None = None,
    every: int | None = None,
    resume: bool = True,
    progress: bool | None = None,
    go_on: bool = False,
    rng: Rng = 0,
) -> Run:
    """Train a network in place.

    The same model, task and `rng` give the same numbers bit by bit on one machine with one number of threads (on a
    GPU as far as torch's kernels are deterministic), whether or not the run was interrupted. Torch's global random
    state is neither used nor changed; networks that draw numbers themselves (dropout) draw from (rng, step).

    Args:
        model: any torch module; it is trained on its own device and in its own type.
        task: the examples.
        steps: how many steps in all, those before an interruption included.
        rate: the learning rate, or a function of the step 0, 1, ….
        optimiser: sgd (plain), momentum, adam or adamw.
        batch: examples per step; None takes all. Each epoch goes through a new permutation and leaves out the rest
            that fills no batch.
        loss: mse (½ mean), half-sum (½ sum), square (mean without ½) or cross-entropy; see `LOSSES`.
        momentum: for the optimiser "momentum".
        weight_decay: as torch's optimisers define it.
        layer_rates: factors on the rate of the parameters whose names begin so, such as {"layer1": 0.5}.
        moments: steps at which `on_moment` is called, or how many; by default 30, evenly spread in log step.
        on_moment: called with the step and the model in evaluation mode, before the step of that number is taken.
            After an interruption every moment from the last checkpoint on is seen, perhaps a second time.
        checkpoints: a folder for the run's state; it is written whole or not at all.
        every: steps between checkpoints; by default a tenth of `steps`.
        resume: take up the run in `checkpoints`; it must be the same one. False starts over.
        progress: show a bar; by default if standard error is a terminal.
        go_on: record a divergence in the result instead of raising.
        rng: decides the order of the examples.

    >>> from richter.tasks import step
    >>> from richter.training import mlp
    >>> run = train(mlp(1, [16]), step(64), steps=20, rate=0.1)
    >>> len(run.losses), bool(run.losses[-1] < run.losses[0])
    (20, True)
    """
    count("`steps`", steps, 0)
    if not callable(rate) and not (math.isfinite(rate) and rate > 0):
        raise ParameterError(message("`rate`", "be finite and > 0, or a function of the step", rate))
    data = examples(model, task, loss)
    n = len(data.inputs)
    size = n if batch is None else count("`batch`", batch, 1, n)
    looks = chosen(moments, steps) if on_moment else ()
    seed = int(stream(rng, "training").integers(2**62))
    maker = make_optimiser(model, optimiser, momentum, weight_decay, layer_rates)
    losses = torch.zeros(steps, dtype=torch.float64, device=data.inputs.device)
    begun, first = time.monotonic(), 0
    store: Checkpoints | None = None
    if checkpoints is not None:
        facts = {
            "loss": loss, "optimiser": optimiser, "rate": describe_rate(rate), "batch": size, "momentum": momentum,
            "weight_decay": weight_decay, "layer_rates": dict(layer_rates or {}), "seed": seed, "task": task.name,
            "examples": fingerprint(data[:2]), "start": fingerprint(model.state_dict().values()),
            "parameters": {name: list(p.shape) for name, p in model.named_parameters()},
        }  # fmt: skip
        store = Checkpoints(Path(checkpoints), facts)
        first = store.load(model, maker, losses) if resume else 0
    gap = max(1, steps // 10) if every is None else count("`every`", every)
    watch = _Watch(losses, loss_of_zero(loss, data, task.outputs), first, rate, go_on)
    order = _Order(n, size, seed, data.inputs.device)
    modes = {module: module.training for module in model.modules()}
    devices = [data.inputs.device] if data.inputs.device.type == "cuda" else []
    generators = [torch.default_generator, *(torch.cuda.default_generators[d.index] for d in devices)]
    with (
        torch.random.fork_rng(devices=devices),
        bar(f"training on {task.name}", steps, first, progress) as tell,
    ):
        model.train()
        for step in range(first, steps + 1):
            if step in looks and on_moment is not None:
                watch.look(step)
                model.eval()
                on_moment(step, model)
                model.train()
            if step == steps:
                break
            for generator in generators:
                generator.manual_seed(seed + step)
            rows = order.rows(step)
            x, y = (data.inputs, data.targets) if rows is None else (data.inputs[rows], data.targets[rows])
            maker.zero_grad(set_to_none=True)
            value = loss_value(loss, model(x), y, n)
            value.backward()
            set_rate(maker, rate, step)
            maker.step()
            losses[step] = value.detach()
            done = step + 1
            if done % LOOK == 0 or done == steps:
                watch.look(done)
            if store is not None and (done % gap == 0 or done == steps):
                watch.look(done)
                store.save(done, model, maker, losses)
            tell(done)
    for module, training in modes.items():
        module.training = training
    return Run(model, losses.cpu().numpy(), time.monotonic() - begun, first, watch.diverged_at)


class _Order:
    """Which examples each step takes: a function of the step alone, so that nothing has to be remembered."""

    def __init__(self, n: int, size: int, seed: int, device: torch.device) -> None:
        self.n, self.size, self.seed, self.device = n, size, seed, device
        self.per_epoch = n // size
        self.epoch, self.permutation = -1, torch.empty(0, dtype=torch.int64)

    def rows(self, step: int) -> Tensor | None:
        """The rows of a step; None for all of them in their order."""
        if self.size == self.n:
            return None
        epoch, place = divmod(step, self.per_epoch)
        if epoch != self.epoch:
            mixed = int(np.random.SeedSequence([self.seed, epoch]).generate_state(1, np.uint64)[0] >> 1)
            generator = torch.Generator().manual_seed(mixed)
            self.permutation = torch.randperm(self.n, generator=generator).to(self.device)
            self.epoch = epoch
        return self.permutation[place * self.size : (place + 1) * self.size]


class _Watch:
    """Looks for losses that are not finite or far above the zero network's."""

    def __init__(self, losses: Tensor, zero: float, first: int, rate: Rate, go_on: bool) -> None:
        self.losses, self.zero, self.seen, self.rate, self.go_on = losses, zero, first, rate, go_on
        self.diverged_at: int | None = None

    def look(self, done: int) -> None:
        """Judge the losses of the steps since the last look."""
        part, start = self.losses[self.seen : done], self.seen
        self.seen = done
        if not len(part) or self.diverged_at is not None:
            return
        limit = HUGE * max(self.zero, float(self.losses[0]))
        wrong = ~(part <= limit) if math.isfinite(limit) else torch.ones_like(part, dtype=torch.bool)
        if not bool(wrong.any()):
            return
        step = start + int(wrong.nonzero()[0])
        self.diverged_at = step
        if self.go_on:
            return
        got = f"{float(self.losses[step]):.3g} at step {step} (at the start {float(self.losses[0]):.3g})"
        rate = self.rate(step) if callable(self.rate) else self.rate
        do = f"Lower rate={rate:g}, for example to {rate / 10:.3g}, or make the start smaller; go_on=True records it."
        raise DivergenceError(message("the loss", "stay finite and bounded", got, do))
