"""The callback in real, tiny runs of the Hugging Face Trainer."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from richter import schema
from richter.probes import trainer_callback

pytest.importorskip("accelerate")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    transformers: Any = pytest.importorskip("transformers")
    Trainer, TrainingArguments = transformers.Trainer, transformers.TrainingArguments

pytestmark = pytest.mark.filterwarnings("ignore")  # the library's own remarks


class Net(nn.Module):
    """A classifier that speaks the Trainer's language."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        logits = self.down(torch.relu(self.up(inputs)))
        made = {"logits": logits}
        return made if labels is None else {"loss": nn.functional.cross_entropy(logits, labels), **made}


def _fit(net: Any, folder: Path, data: list[Any], steps: int, callback: Any, resume: bool = False, **more: Any) -> None:
    arguments = TrainingArguments(
        output_dir=str(folder), max_steps=steps, per_device_train_batch_size=8, report_to=[], disable_tqdm=True,
        logging_strategy="no", use_cpu=True, learning_rate=0.1, lr_scheduler_type="constant",
        max_grad_norm=0.0, **{"save_strategy": "no", "optim": "sgd", **more},
    )  # fmt: skip
    Trainer(model=net, args=arguments, train_dataset=data, callbacks=[callback]).train(resume_from_checkpoint=resume)


def test_a_training_is_watched_and_goes_on_from_a_checkpoint(tmp_path: Path, seed: int) -> None:
    x, y = torch.randn(40, 4), torch.arange(40) % 3
    data = [{"inputs": a, "labels": b} for a, b in zip(x, y, strict=True)]
    file, options = tmp_path / "run.nc", {"budget": None, "moments": range(99)}
    callback = trainer_callback((x, y), file=file, **options)
    net = Net(seed)
    _fit(net, tmp_path / "out", data, 6, callback, save_strategy="steps", save_steps=6)
    ds = callback.dataset()
    assert ds.step.values.tolist() == list(range(7)) and ds.attrs["ended"] == "done" and ds.attrs["model"] == "Net"
    np.testing.assert_allclose(ds.t, 0.1 * np.arange(7), rtol=1e-9)
    expected = nn.functional.cross_entropy(net(x)["logits"], y).detach()
    assert float(ds.loss[-1]) == pytest.approx(float(expected), rel=1e-6)  # a float32 network
    assert ds.pair.values.tolist() == ["up → down"] and ds.attrs["gradients_seen"] == 6
    # Plain descent: the gradients are seen before the Trainer clears them.
    assert float(ds.unexplained_drift.max()) < 1e-5 < 1e-4 < float(ds.conserved_drift[-1].max())
    again = trainer_callback((x, y), file=file, **options)
    _fit(Net(seed + 1), tmp_path / "out", data, 9, again, resume=True)
    made = schema.load(file)
    assert made.step.values.tolist() == list(range(10)) and made.attrs["resumed"] == 1
    np.testing.assert_array_equal(made.loss[:7], ds.loss)
    # Distances go on from the very first start, not from the checkpoint.
    assert (made.parameter_distance[7:] > 0.5 * ds.parameter_distance[-1]).all()


def test_a_language_model_is_read_at_every_position(tmp_path: Path, seed: int) -> None:
    torch.manual_seed(seed)
    config = transformers.GPT2Config(
        vocab_size=11, n_positions=8, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config)
    tokens = torch.randint(0, 11, (16, 6))
    callback = trainer_callback((tokens, tokens.roll(-1, 1)))
    _fit(model, tmp_path, [{"input_ids": row, "labels": row} for row in tokens], 3, callback, optim="adamw_torch")
    ds = callback.dataset()
    assert {0, 3} <= set(ds.step.values.tolist()) and ds.output.shape[1:] == (16, 66)
    with torch.no_grad():
        logits = model.eval()(tokens).logits
    expected = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.roll(-1, 1).flatten())
    assert float(ds.loss[-1]) == pytest.approx(float(expected), rel=1e-6)  # a float32 network
    assert "AdamW is not plain gradient descent" in ds.attrs["left_out"] and ds.representation_drift[-1] > 0
