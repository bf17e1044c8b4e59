"""The losses' conventions, the moments, the scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")

import torch  # noqa: E402

from richter.errors import ParameterError, UnknownNameError  # noqa: E402
from richter.tasks import Task, gaussian_classes, step  # noqa: E402
from richter.testing.tolerances import IDENTITY, assert_close  # noqa: E402
from richter.training import LOSSES, log_moments, mlp, score  # noqa: E402
from richter.training.losses import examples, loss_of_zero, loss_value  # noqa: E402
from richter.training.moments import chosen  # noqa: E402


def test_the_gradient_by_the_output_is_the_residual_with_the_losses_factor(seed: int) -> None:
    rng = np.random.default_rng(seed)
    f, y = (torch.tensor(rng.standard_normal((5, 3))) for _ in range(2))
    for name, factor in (("mse", 1 / 5), ("half-sum", 1.0), ("square", 2 / 5)):
        outputs = f.clone().requires_grad_()
        loss_value(name, outputs, y).backward()
        assert outputs.grad is not None
        assert_close(outputs.grad.numpy(), factor * (f - y).numpy(), IDENTITY, scale=1.0)
    labels = torch.tensor(rng.integers(3, size=5))
    outputs = f.clone().requires_grad_()
    loss_value("cross-entropy", outputs, labels).backward()
    assert outputs.grad is not None
    share = np.exp(f.numpy()) / np.exp(f.numpy()).sum(1, keepdims=True)
    assert_close(outputs.grad.numpy(), (share - np.eye(3)[labels.numpy()]) / 5, IDENTITY, scale=1.0)


def test_a_batch_of_the_half_sum_stands_for_all_examples() -> None:
    f, y = torch.ones(2, 1), torch.zeros(2, 1)
    assert float(loss_value("half-sum", f, y)) == 1.0 and float(loss_value("half-sum", f, y, 10)) == 5.0
    assert float(loss_value("mse", f, y, 10)) == 0.5


def test_classes_become_indicators_for_squared_losses(seed: int) -> None:
    task = gaussian_classes(8, classes=3, rng=seed)
    model = mlp(10, [4], 3, dtype=torch.float64)
    data = examples(model, task, "mse")
    assert data.targets.dtype == data.inputs.dtype == torch.float64 and data.targets.shape == (8, 3)
    assert examples(model, task, "cross-entropy").targets.dtype == torch.int64
    assert loss_of_zero("mse", data, 3) == 0.5 and loss_of_zero("half-sum", data, 3) == 4.0
    assert loss_of_zero("cross-entropy", data, 3) == pytest.approx(math.log(3), rel=1e-15)


def test_wrong_losses_are_one_line() -> None:
    model = mlp(1, [4])
    with pytest.raises(UnknownNameError, match="No loss named `mean-square`. Did you mean"):
        examples(model, step(4), "mean-square")
    with pytest.raises(ParameterError, match='for the regression step. Got cross-entropy. Use loss="mse".'):
        examples(model, step(4), "cross-entropy")
    # Without this check (n, 1) targets would broadcast against (n,) outputs and train on nonsense.
    with pytest.raises(ParameterError, match=r"output must have the shape \(4, 1\). Got shape \(4,\)."):
        loss_value("mse", torch.zeros(4), torch.zeros(4, 1))
    with pytest.raises(ParameterError, match=r"must have the \(example, class\) for 4 examples. Got shape \(3, 2\)."):
        loss_value("cross-entropy", torch.zeros(3, 2), torch.zeros(4, dtype=torch.int64))
    assert len(LOSSES) == 4


def test_the_score_is_the_whole_loss_in_evaluation_mode(seed: int) -> None:
    task = gaussian_classes(25, classes=3, n_test=7, rng=seed)
    dropping = torch.nn.Sequential(torch.nn.BatchNorm1d(10), torch.nn.Dropout(0.5), torch.nn.Linear(10, 3))
    before = {name: value.clone() for name, value in dropping.state_dict().items()}
    dropping[1].eval()
    for loss in LOSSES:
        data = examples(dropping, task, loss)
        small, whole = score(dropping, task, loss=loss, batch=4), score(dropping, task, loss=loss)
        assert [m.training for m in dropping] == [True, False, True]
        assert_close(small, whole, IDENTITY, times=1e7)  # float32
        dropping.eval()
        expected = float(loss_value(loss, dropping(data.test_inputs), data.test_targets).detach())
        right = (dropping(data.inputs).argmax(1) == torch.tensor(task.targets)).double().mean()
        dropping.train()
        dropping[1].eval()
        assert whole.test_loss == pytest.approx(expected, rel=1e-6)
        assert whole.accuracy == pytest.approx(float(right), rel=1e-12)
    assert all(torch.equal(value, before[name]) for name, value in dropping.state_dict().items())
    assert math.isnan(score(mlp(1, [2]), step(5)).accuracy)
    empty = Task(
        inputs=np.ones((1, 1)), targets=np.ones(1), test_inputs=np.zeros((0, 1)), test_targets=np.zeros(0), name="one"
    )
    assert math.isnan(score(mlp(1, [2]), empty).test_loss)


def test_moments_are_spread_in_the_logarithm() -> None:
    made = log_moments(10_000, 9)
    assert made[0] == 0 and made[1] == 1 and made[-1] == 10_000 and len(made) == 9
    ratios = np.diff(np.log(made[1:]))
    assert ratios.max() / ratios.min() < 1.2  # rounding to whole steps
    assert log_moments(0) == (0,) and log_moments(1, 2) == (0, 1) and log_moments(3, 50) == (0, 1, 2, 3)
    assert chosen([5, 0, 5], 5) == (0, 5) and chosen(2, 7) == (0, 7) and len(chosen(None, 10**6)) == 30
    with pytest.raises(ParameterError, match="each of `moments` must be at most 4, the last step. Got 5."):
        chosen([5], 4)
    wrong: list[Any] = [[-1], [0.5]]
    for moments in wrong:
        with pytest.raises(ParameterError, match="each of `moments` must be a whole number ≥ 0"):
            chosen(moments, 4)
