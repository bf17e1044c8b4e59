"""The callback in real, tiny runs of Lightning's Trainer."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from richter import schema
from richter.errors import ParameterError
from richter.probes import lightning_callback, parameter_distance, start

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    lightning: Any = pytest.importorskip("lightning.pytorch")

# Lightning's own remarks about loaders without workers and the like.
pytestmark = pytest.mark.filterwarnings("ignore")


class Net(lightning.LightningModule):  # type: ignore[misc]
    def __init__(self, seed: int, breaks_at: int = -1) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.ReLU(), nn.Linear(8, 3)).double()
        self.breaks_at = breaks_at

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        assert self.training
        if self.global_step == self.breaks_at:
            raise ZeroDivisionError("broken")
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def _data(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(40, 4, generator=g).double(), torch.arange(40) % 3


def _fit(net: Net, seed: int, steps: int, *callbacks: Any, checkpoint: str | None = None, **more: Any) -> Any:
    data = torch.utils.data.TensorDataset(*_data(seed))
    trainer = lightning.Trainer(
        max_steps=steps, max_epochs=-1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, accelerator="cpu", callbacks=list(callbacks), **more,
    )  # fmt: skip
    trainer.fit(net, torch.utils.data.DataLoader(data, batch_size=10), ckpt_path=checkpoint)
    return trainer


def test_a_fit_is_watched_and_goes_on_from_a_checkpoint(tmp_path: Path, seed: int) -> None:
    net = Net(seed)
    origin = start(net.eval(), _data(seed)[0])
    options: dict[str, Any] = {"budget": None, "moments": range(99)}
    file = tmp_path / "run.nc"
    callback = lightning_callback(_data(seed), file=file, **options)
    with pytest.raises(ParameterError, match=r"the training must have begun in this process\. Got nothing seen\."):
        callback.dataset()
    trainer = _fit(net.train(), seed, 6, callback)
    ds = callback.dataset()
    assert ds.step.values.tolist() == list(range(7)) and ds.attrs["ended"] == "done" and ds.attrs["model"] == "Net"
    np.testing.assert_allclose(ds.t, 0.1 * np.arange(7), rtol=1e-12)
    assert float(ds.parameter_distance[-1]) == parameter_distance(net, origin).absolute
    assert np.isfinite(ds.batch_loss[1:]).all() and ds.pair.values.tolist() == ["net.0 → net.3"]
    assert float(ds.unexplained_drift.max()) < 1e-12 < float(ds.conserved_drift[-1].max())
    assert ds.attrs["gradients_seen"] == 6
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    again = lightning_callback(_data(seed), file=file, **options)
    _fit(Net(seed + 1), seed, 9, again, checkpoint=str(tmp_path / "last.ckpt"))
    made = schema.load(file)
    assert made.step.values.tolist() == list(range(10)) and made.attrs["resumed"] == 1
    np.testing.assert_array_equal(made.loss[:7], ds.loss)
    # Distances go on from the very first start, not from the checkpoint.
    assert (made.parameter_distance[7:] > 0.5 * ds.parameter_distance[-1]).all()


def test_an_exception_of_the_loop_is_its_own_and_what_was_seen_is_saved(tmp_path: Path, seed: int) -> None:
    callback = lightning_callback(_data(seed), module="net", file=tmp_path / "run.nc", budget=None)
    with pytest.raises(ZeroDivisionError, match="broken"):
        _fit(Net(seed, breaks_at=3), seed, 9, callback)
    ds = schema.load(tmp_path / "run.nc")
    assert ds.attrs["ended"] == "ZeroDivisionError: broken" and ds.step.values.tolist() == [0, 1, 2, 3]
    assert ds.attrs["model"] == "Sequential" and ds.pair.values.tolist() == ["0 → 3"]


def test_accumulated_gradients_are_one_step(seed: int) -> None:
    callback = lightning_callback(_data(seed), budget=None, moments=range(99))
    _fit(Net(seed), seed, 3, callback, accumulate_grad_batches=2)
    assert callback.dataset().step.values.tolist() == [0, 1, 2, 3]
