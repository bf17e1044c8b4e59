"""Scalars reach TensorBoard itself, and doubles of the other services that know only their documented calls."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from richter.errors import MissingExtraError, ParameterError
from richter.probes import to_mlflow, to_tensorboard, to_wandb, watch
from tests.probes.loops import loop
from tests.probes.nets import mlp


class _Run:
    """A Weights & Biases run: `define_metric(name, step_metric)` and `log(data)`, whose own step only grows."""

    def __init__(self) -> None:
        self.axes: dict[str, str | None] = {}
        self.logged: list[dict[str, float]] = []

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self.axes[name] = step_metric

    def log(self, data: dict[str, float]) -> None:
        assert all(isinstance(value, (int, float)) for value in data.values())
        self.logged.append(data)


class _Mlflow:
    """The module's `log_metrics(metrics, step, run_id)`, with its rule for names."""

    def __init__(self) -> None:
        self.logged: list[tuple[dict[str, float], int, str | None]] = []

    def log_metrics(self, metrics: dict[str, float], step: int | None = None, run_id: str | None = None) -> None:
        assert step is not None
        for name, value in metrics.items():
            assert all(c.isalnum() or c in "_-. :/" for c in name) and name.isascii() and math.isfinite(value)
        self.logged.append((metrics, step, run_id))


def _watched(seed: int, *loggers: Any) -> Any:
    net, x = mlp(seed), torch.randn(24, 4).double()
    y = torch.randn(24, 2).double()
    with watch(net, probe=(x, y), rate=0.05, budget=None, moments=[0, 2, 9], loggers=loggers) as see:
        loop(net, x, y, see, 9)
    return see.dataset()


def test_every_service_gets_the_numbers_of_the_record(seed: int) -> None:
    run, mlflow, plain = _Run(), _Mlflow(), dict[int, dict[str, float]]()
    ds = _watched(seed, to_wandb(run), to_mlflow(mlflow, run_id="abc"), lambda step, found: plain.update({step: found}))
    assert list(plain) == [0, 2, 9]
    for i, (step, found) in enumerate(plain.items()):
        assert found["loss"] == float(ds.loss[i]) and math.isfinite(sum(found.values()))
        assert found["layer_alignment/0_to_2"] == float(ds.layer_alignment[i, 0])
        assert found["layer_norm/4"] == float(ds.layer_norm.sel(layer="4")[i])
        assert "delta" not in found and "intensity" not in found  # arrays are not scalars
        named = {f"richter/{name}": value for name, value in found.items()}
        assert run.logged[i] == {"richter/step": step, **named}
        assert mlflow.logged[i] == (named, step, "abc")
    assert run.axes == {"richter/step": None, "richter/*": "richter/step"}
    assert "batch_loss" in plain[2] and "batch_loss" not in plain[0]


def test_tensorboard_files_hold_the_scalars(tmp_path: Path, seed: int) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing import event_accumulator  # type: ignore[import-untyped]
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        ds = _watched(seed, to_tensorboard(writer))
    events = event_accumulator.EventAccumulator(str(tmp_path)).Reload()
    for name, variable in (("loss", ds.loss), ("conserved_drift/2_to_4", ds.conserved_drift[:, 1])):
        found = events.Scalars(f"richter/{name}")
        assert [event.step for event in found] == [0, 2, 9]
        np.testing.assert_allclose([event.value for event in found], variable, rtol=1e-6)  # stored in single precision


def test_a_logger_that_fails_does_not_stop_the_loop(seed: int) -> None:
    def unreachable(step: int, found: Any) -> None:
        raise ConnectionError("no network")

    with pytest.warns(RuntimeWarning, match="not recorded: unreachable at step 0: ConnectionError: no network") as seen:
        ds = _watched(seed, unreachable)
    assert len(seen) == 1 and ds.sizes["step"] == 3 and "unreachable" in ds.attrs["problems"]


def test_services_that_are_not_there_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from types import SimpleNamespace

    for name, logger in (("wandb", to_wandb), ("mlflow", to_mlflow)):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(MissingExtraError, match=f"Logging to {name} needs it installed: pip install {name}"):
            logger()
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(run=None))
    with pytest.raises(ParameterError, match=r"a Weights & Biases run must be active\. Got none\. Call wandb\.init"):
        to_wandb()
    run, mlflow = _Run(), _Mlflow()
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(run=run))
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    to_wandb()(3, {"loss": 1.0})
    to_mlflow()(3, {"loss": 1.0})
    assert run.logged == [{"richter/step": 3, "richter/loss": 1.0}] and mlflow.logged == [
        ({"richter/loss": 1.0}, 3, None)
    ]
