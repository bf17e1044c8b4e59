"""The pilot: candidates on copies of the model for a few steps each, and what their kernels did.

All take the same number of steps over the same batches in the same order, each at the rate that keeps the speed of its
start's kernel. Goals about what is learned compare movements at the same loss, the goal about speed at the same step.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.advice.forecast import EXAMPLES, copied, examples, trace_kernel
from richter.advice.norms import settle
from richter.advice.objective import objective
from richter.errors import ParameterError, RichterError, message
from richter.probes import kernel_distance, layer_alignment

if TYPE_CHECKING:
    from torch import Tensor, nn

Floats = NDArray[np.float64]
LOOKED_AT = 256  # examples on which the loss is read
LOOKS = 9  # moments at which a run is looked at, the start among them
FEWEST, MOST = 10, 2000  # steps of a run
ADVISED = 1.5  # by how much the movement has to differ for the goal to count as reached
FALLEN = 0.02  # share of the loss that has to be gone for a comparison to say anything
KEEPS_UP = 0.5  # of the present start's fall of the loss that a candidate must manage


@dataclass(frozen=True, eq=False)
class Course:
    """A run of the pilot at its moments: loss, ‖K − K₀‖/‖K₀‖, 1 − cosine, mean layer alignment; seconds a step."""

    step: NDArray[np.int64]
    loss: Floats
    movement: Floats
    turn: Floats
    alignment: Floats
    seconds: float
    diverged: bool = False

    def at_loss(self, level: float) -> float:
        """The kernel's movement when the loss has first fallen to a level; NaN if it never does."""
        below = np.flatnonzero(self.loss <= level)
        if not below.size or below[0] == 0:
            return float(self.movement[0]) if below.size else math.nan
        k = int(below[0])
        share = (self.loss[k - 1] - level) / (self.loss[k - 1] - self.loss[k])
        return float(self.movement[k - 1] + share * (self.movement[k] - self.movement[k - 1]))


@dataclass(frozen=True, eq=False)
class Job:
    """A network to run, and how."""

    model: nn.Module
    rate: float
    rates: Mapping[str, float]
    targets: float = 1.0
    fixed: bool = False  # its kernel cannot move
    weight: float = 1.0  # how long one of its steps takes, in those of the present start


@dataclass(frozen=True, eq=False)
class Plan:
    """What all runs of a pilot share."""

    x: Tensor
    y: Tensor
    loss: str
    optimiser: str
    batches: Sequence[Any]
    looks: tuple[int, ...]
    seed: int = 0
    number: int = EXAMPLES  # of examples whose kernel is looked at


@dataclass(frozen=True)
class Outcome:
    """A candidate against the present start: movements of both where they are compared, and whether it got there."""

    movement: float
    before: float
    ratio: float
    loss: float
    turn: float
    alignment: float
    learned: bool
    reached: bool
    says: str

    def plain(self) -> dict[str, object]:
        """As plain data."""
        clean = lambda v: None if isinstance(v, float) and not math.isfinite(v) else v
        return {name: clean(value) for name, value in vars(self).items()}


def plan(
    jobs: Sequence[Job], x: Tensor, y: Tensor, loss: str, optimiser: str, *, seconds: float, batch: int, seed: int,
    steps: int | None, number: int = EXAMPLES,
) -> tuple[Plan, int]:  # fmt: skip
    """As many steps as fit into the time for all jobs, and for how many jobs there is time."""
    one = lambda looks, count_: Plan(x, y, loss, optimiser, _batches(len(x), batch, count_, seed), looks, seed, number)
    if steps is None:
        whole = time.monotonic()
        run(_fresh(jobs[0]), one((0, 1), 1))  # the first time everything is slower
        begun = time.monotonic()
        trial = run(_fresh(jobs[0]), one((0, 2), 2))
        looking = max((time.monotonic() - begun - 2 * trial.seconds) / 2, 1e-4)
        seconds -= time.monotonic() - whole
        per_job = 0.8 * seconds / sum(job.weight for job in jobs)
        left = per_job - LOOKS * looking
        steps = int(min(MOST, left / max(trial.seconds, 1e-6)))
        if steps < FEWEST:
            need = LOOKS * looking + FEWEST * trial.seconds
            few = int(0.8 * seconds / need)
            if few < 2:
                do = f"Give it {math.ceil(2 * need / 0.8)} seconds or more."
                raise ParameterError(message("the time for the pilot", "suffice for two runs", f"{seconds:g} s", do))
            jobs, steps = jobs[:few], FEWEST
    looks = np.unique(np.round(np.geomspace(1, steps, LOOKS - 1)).astype(int))
    return one((0, *(int(k) for k in looks)), steps), len(jobs)


def run(job: Job, plan: Plan, tell: Callable[[int], None] = lambda step: None) -> Course:
    """Train in place as the plan says, and look at the moments."""
    import torch

    from richter.moves import groups

    net, start = job.model, None
    maker: Any = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[plan.optimiser]
    made = maker(groups(net, plan.optimiser, job.rate, job.rates), lr=job.rate)
    targets = plan.y * job.targets if job.targets != 1 else plan.y
    rows: list[tuple[float, ...]] = []
    spent, last, diverged = 0.0, plan.looks[-1], False
    devices = [plan.x.device] if plan.x.device.type == "cuda" else []
    generators = [torch.default_generator, *(torch.cuda.default_generators[d.index or 0] for d in devices)]
    with torch.random.fork_rng(devices=devices):
        for step in range(last + 1):
            if step in plan.looks:
                kernel, seen = _look(net, plan, targets, job)
                start = kernel if start is None else start
                rows.append((step, seen[0] / job.targets**2, *_movement(kernel, start), seen[1]))
                diverged = not math.isfinite(seen[0])
            if step == last or diverged:
                break
            begun = time.monotonic()
            for generator in generators:
                generator.manual_seed(plan.seed + step)
            keep = plan.batches[step]
            net.train()
            made.zero_grad(set_to_none=True)
            objective(net(plan.x[keep]), targets[keep], plan.loss, len(plan.x)).backward()
            made.step()
            spent += time.monotonic() - begun
            tell(step + 1)
    table = np.array(rows, dtype=float)
    steps = max(int(table[-1, 0]), 1)
    loss, movement, turn, alignment = table[:, 1:].T
    return Course(table[:, 0].astype(int), loss, movement, turn, alignment, spent / steps, diverged)


def judge(goal: str, one: Course, base: Course) -> Outcome:
    """A candidate's course against the present start's."""
    fall = float(base.loss[0] - base.loss.min())
    learned = not one.diverged and bool(one.loss.min() <= base.loss[0] - KEEPS_UP * fall)
    if one.diverged:
        before = after = math.nan
        says = f"it diverged by step {one.step[-1]}"
    elif goal == "faster-features":
        after, before = float(one.movement[-1]), float(base.movement[-1])
        says = f"at step {one.step[-1]}"
    else:
        level = max(float(one.loss.min()), float(base.loss.min()))
        says = f"at the loss {level:.4g}"
        share = 1.0
        if one.loss[0] <= level:  # it starts from where the present start ends
            share = max(float(one.loss[0] / base.loss[0]), 1e-12)
            level = max(float(one.loss.min()) / share, float(base.loss.min()))
            says = f"at {level / base.loss[0]:.3g} of each start's own loss"
        after, before = one.at_loss(share * level), base.at_loss(level)
        if base.loss[0] - level < FALLEN * base.loss[0]:
            says += ", which is too near to the start's to tell"
            learned = False
    ratio = (after + 1e-9) / (before + 1e-9)
    there = ratio <= 1 / ADVISED if goal == "lazier" else ratio >= ADVISED
    reached = bool(learned and math.isfinite(ratio) and there)
    if not learned and not one.diverged:
        says += "; it learns less than half as much in these steps"
    last = lambda values: float(values[-1])
    return Outcome(after, before, ratio, last(one.loss), last(one.turn), last(one.alignment), learned, reached, says)


def failed(problem: Exception) -> Outcome:
    """What is said of a candidate that cannot be trained."""
    says = f"it could not be trained: {' '.join(str(problem).split())[:120]}"
    return Outcome(*(math.nan,) * 6, learned=False, reached=False, says=says)


def _look(net: nn.Module, plan: Plan, targets: Tensor, job: Job) -> tuple[Any, tuple[float, float]]:
    import torch

    points, _ = examples(net, (plan.x, plan.y), plan.loss, plan.number)
    x, y = examples(net, (plan.x, targets), plan.loss, LOOKED_AT)
    with _as_trained(net, x), torch.no_grad():
        loss = float(objective(net(x), y, plan.loss))
    if not math.isfinite(loss):
        return None, (loss, math.nan)
    with _as_trained(net, points):
        try:
            zeta = list(layer_alignment(net, points).values())
        except (RichterError, RuntimeError):  # a tangent network has no layers to watch
            zeta = []
        kernel = None if job.fixed else trace_kernel(net, points, job.rates or None)
    return kernel, (loss, float(np.mean(zeta)) if zeta else math.nan)


def _movement(kernel: Any, start: Any) -> tuple[float, float]:
    if kernel is None or start is None:
        return 0.0, 0.0
    size = float(np.linalg.norm(start.values))
    if size == 0:
        return math.nan, math.nan
    return float(np.linalg.norm(kernel.values - start.values)) / size, float(kernel_distance(kernel, start))


@contextmanager
def _as_trained(net: nn.Module, x: Tensor) -> Iterator[None]:
    """Evaluation mode with the batch's statistics inside; modes and buffers are back on the way out."""
    import torch

    modes = {module: module.training for module in net.modules()}
    buffers = [(b, b.detach().clone()) for b in net.buffers()]
    try:
        net.eval()
        settle(net, x)
        yield
    finally:
        with torch.no_grad():
            for b, before in buffers:
                b.copy_(before)
        for module, training in modes.items():
            module.training = training


def _fresh(job: Job) -> Job:
    return Job(copied(job.model), job.rate, job.rates, job.targets, job.fixed)


def _batches(n: int, size: int, steps: int, seed: int) -> list[Any]:
    """Rows of every step: epochs of new permutations, the rest that fills no batch left out."""
    import torch

    if size >= n:
        return [torch.arange(n)] * steps
    rng = np.random.default_rng(seed)
    made: list[Any] = []
    while len(made) < steps:
        rows = rng.permutation(n)
        made += [torch.as_tensor(rows[k : k + size]) for k in range(0, n - size + 1, size)]
    return made[:steps]
