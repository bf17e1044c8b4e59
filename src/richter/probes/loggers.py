"""Where scalars go besides the record: TensorBoard, Weights & Biases, MLflow, each through its own API.

Each function gives a logger, a function of (step, scalars), for `richter.watch(…, loggers=[…])`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from richter.errors import MissingExtraError, ParameterError, message

Logger: TypeAlias = Callable[[int, Mapping[str, float]], None]
PREFIX = "richter/"


def to_tensorboard(writer: Any) -> Logger:
    """Scalars into a `torch.utils.tensorboard.SummaryWriter`, which stays the caller's to close."""

    def tensorboard(step: int, scalars: Mapping[str, float]) -> None:
        for name, value in scalars.items():
            writer.add_scalar(PREFIX + name, value, global_step=step)

    return tensorboard


def to_wandb(run: Any = None) -> Logger:
    """Scalars into a Weights & Biases run; without one, into the run that is active.

    The step is logged as `richter/step`, the axis of all that begins with `richter/`, because the run's own counter
    must never go back and belongs to the training loop.
    """
    if run is None:
        run = _library("wandb").run
        if run is None:
            raise ParameterError(message("a Weights & Biases run", "be active", "none", "Call wandb.init() first."))
    run.define_metric(PREFIX + "step")
    run.define_metric(PREFIX + "*", step_metric=PREFIX + "step")

    def wandb(step: int, scalars: Mapping[str, float]) -> None:
        run.log({PREFIX + "step": step, **{PREFIX + name: value for name, value in scalars.items()}})

    return wandb


def to_mlflow(mlflow: Any = None, run_id: str | None = None) -> Logger:
    """Scalars by `mlflow.log_metrics`, into the run `run_id` or the active one; `mlflow` is the module."""
    library = _library("mlflow") if mlflow is None else mlflow
    where = {} if run_id is None else {"run_id": run_id}

    def log(step: int, scalars: Mapping[str, float]) -> None:
        library.log_metrics({PREFIX + name: value for name, value in scalars.items()}, step=step, **where)

    log.__name__ = "mlflow"
    return log


def _library(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise MissingExtraError(f"Logging to {name} needs it installed: pip install {name}") from None
