"""Train and measure in one call: the plain loop of `richter.training`, watched at its moments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from richter.measurement.measured import Kind, Measured, recorder_for
from richter.measurement.points import POINTS, as_batch
from richter.probes.probe import AbstractProbe, Reading, Snapshot
from richter.probes.verdict import verdict
from richter.regime import RESAMPLES
from richter.schema import Variable

if TYPE_CHECKING:
    from torch import nn

    from richter.tasks.task import Task


@dataclass(frozen=True)
class Scores(AbstractProbe):
    """Loss and accuracy on all of a task's training and test examples, not on the probe."""

    task: Task
    loss: str = "mse"

    name: ClassVar[str] = "scores"
    variables: ClassVar[tuple[Variable, ...]] = (
        Variable("train_loss", (), "loss on the training examples", "loss", "L"),
        Variable("train_accuracy", (), "share of training examples classified right"),
        Variable("test_loss", (), "loss on the test examples", "loss", "L"),
        Variable("test_accuracy", (), "share of test examples classified right"),
    )

    def start(self, model: nn.Module, batch: Any) -> Snapshot:
        """Nothing."""
        return Snapshot()

    def measure(self, model: nn.Module, batch: Any, origin: Snapshot) -> Mapping[str, Reading]:
        """The scores now."""
        from richter.training.scores import score

        found = score(model, self.task, loss=self.loss)
        return dict(zip((v.name for v in self.variables), map(float, found), strict=True))


def record(
    model: nn.Module,
    task: Task,
    *,
    steps: int,
    rate: float,
    loss: str = "mse",
    optimiser: str = "sgd",
    momentum: float = 0.9,
    batch: int | None = None,
    layer_rates: Mapping[str, float] | None = None,
    moments: Iterable[int] | int | None = None,
    kernel: Kind = "auto",
    points: int | None = POINTS,
    draws: int = RESAMPLES,
    scores: bool = False,
    only: Iterable[str] | None = None,
    more: Iterable[AbstractProbe] = (),
    progress: bool | None = None,
    rng: int = 0,
) -> Measured:
    """Train a model in place, measure it at the moments on examples of the task, and name its regime.

    Args:
        model: any torch module.
        task: what it learns; the probe is drawn from its training examples.
        steps: of training.
        rate: the learning rate.
        loss: mse, half-sum, square or cross-entropy.
        optimiser: sgd (plain), momentum, adam or adamw; of the last two the steps are no time.
        momentum: for the optimiser "momentum".
        batch: examples per step; None takes all.
        layer_rates: factors on the rate of the parameters whose names begin so.
        moments: steps at which to measure, or how many.
        kernel: full, trace or auto, as in `measure`.
        points: probe points at most.
        draws: resamples of the probe points.
        scores: measure loss and accuracy on the whole task too.
        only: names of the probes besides the kernel's; all by default.
        more: further probes.
        progress: show a bar; by default if standard error is a terminal.
        rng: seed of the order of the examples and of the draws.

    >>> from richter.tasks import step
    >>> from richter.training import mlp
    >>> record(mlp(1, [16]), step(32), steps=20, rate=0.01, moments=4, draws=0).dataset.sizes["step"]
    4
    """
    from richter.training import train

    shown = task.one_hot() if task.kind == "classification" and loss != "cross-entropy" else task
    data = as_batch(model, (shown.inputs, shown.targets), points, rng)
    # Gradients are seen at the moments only, which is not enough to add up what finite steps do to δ.
    explain = "the gradients between the moments are not seen"
    clock = rate if optimiser == "sgd" else rate / (1 - momentum) if optimiser == "momentum" else None
    recorder = recorder_for(
        model, data, rate=clock, explain=explain, loss=loss,
        rates=layer_rates or 1.0, examples=len(task), kernel=kernel, draws=draws, seed=rng, only=only,
        more=[*more, *([Scores(task, loss)] if scores else [])],
    )  # fmt: skip
    recorder.record.attrs |= {"task": task.name, "optimiser": optimiser, "learning_rate": rate, "training_loss": loss}
    run = train(
        model, task, steps=steps, rate=rate, optimiser=optimiser, batch=batch, loss=loss, momentum=momentum,
        layer_rates=layer_rates, moments=moments, on_moment=lambda step, seen: recorder.see(step, seen),
        progress=progress, rng=rng,
    )  # fmt: skip
    recorder.record.attrs["ended"] = "done" if run.diverged_at is None else f"diverged at step {run.diverged_at}"
    ds = recorder.dataset()
    return Measured((ds,), verdict(ds))
