"""The container of every task: its checks, and what it does with its arrays."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pytest

from richter.errors import MissingExtraError, OutsideTheoryError, ParameterError
from richter.tasks import Task, digits, gaussian_classes
from richter.tasks.randomness import count, stream
from richter.testing.tolerances import IDENTITY, assert_close


def made(seed: int, n: int = 12, d: int = 3, **changes: Any) -> Task:
    rng = np.random.default_rng([seed, 1])
    given: dict[str, Any] = {
        "inputs": rng.standard_normal((n, d)) @ np.diag(10.0 ** np.arange(d)),
        "targets": rng.standard_normal((n, 2)),
        "test_inputs": rng.standard_normal((5, d)),
        "test_targets": rng.standard_normal((5, 2)),
        "name": "made",
    }
    return Task(**{**given, **changes})


def test_whitened_inputs_have_the_promised_second_moments(seed: int) -> None:
    task = made(seed)
    total, mean = task.whiten(), task.whiten("mean")
    assert_close(total.inputs.T @ total.inputs, np.eye(3), IDENTITY, scale=1.0)
    assert_close(mean.inputs.T @ mean.inputs / len(task), np.eye(3), IDENTITY, scale=1.0)
    # The same symmetric, positive matrix acts on both parts.
    matrix, *_ = np.linalg.lstsq(task.inputs, total.inputs)
    assert_close(task.test_inputs @ matrix, total.test_inputs, IDENTITY, scale=1.0)
    assert_close(matrix @ task.inputs.T @ task.inputs @ matrix, np.eye(3), IDENTITY, scale=1.0, times=100)  # cond 1e2
    assert_close(matrix, matrix.T, IDENTITY, scale=np.abs(matrix).max())
    assert np.linalg.eigvalsh(matrix).min() > 0


def test_whitening_refuses_inputs_without_full_rank() -> None:
    with pytest.raises(
        OutsideTheoryError, match=r"must have rank 3 to be whitened\. Got rank 2 from 2 examples\. Take"
    ):
        made(0, n=2).whiten()
    inputs = np.random.default_rng(0).standard_normal((9, 3)).astype(np.float32)
    inputs[:, 2] = inputs[:, 0] - inputs[:, 1]
    with pytest.raises(OutsideTheoryError, match="Got rank 2 from 9 examples"):
        made(0, n=9, inputs=inputs).whiten()
    with pytest.raises(ParameterError, match=r"shape \(example, input\)\. Got shape .* Use task\.flat\(\)\.whiten\(\)"):
        digits().whiten()
    with pytest.raises(OutsideTheoryError, match="must have rank 64"):  # some pixels are never inked
        digits().flat().whiten()
    with pytest.raises(ParameterError, match="`convention` must be sum or mean. Got total."):
        made(0).whiten("total")  # type: ignore[arg-type]


def test_subsets_are_nested_unrepeated_and_keep_pairs_together(seed: int) -> None:
    task = made(
        seed,
        n=40,
        inputs=np.arange(40.0)[:, None],
        targets=np.arange(40.0),
        test_inputs=np.arange(5.0)[:, None],
        test_targets=np.arange(5.0),
    )
    small, large = task.subset(10, seed), task.subset(25, seed, test=3)
    np.testing.assert_array_equal(large.inputs[:10], small.inputs)
    np.testing.assert_array_equal(large.inputs, large.targets)
    assert len(np.unique(large.inputs)) == 25 and len(small.test_inputs) == 5 and len(large.test_inputs) == 3
    assert set(task.subset(40, seed + 1).inputs.ravel()) == set(range(40))
    assert (task.subset(40, seed + 1).inputs != task.subset(40, seed).inputs).any()
    with pytest.raises(ParameterError, match="`n` must be a whole number from 1 to 40. Got 41."):
        task.subset(41)


def test_standardised_images_have_mean_0_and_variance_1_in_each_channel(seed: int) -> None:
    rng = np.random.default_rng(seed)
    images = rng.uniform(size=(50, 2, 4, 4)) * np.array([1.0, 9.0])[:, None, None] + 5
    task = made(0, n=50, inputs=images, targets=np.zeros(50), test_inputs=images[:5] * 2, test_targets=np.zeros(5))
    scaled = task.standardise()
    assert_close(scaled.inputs.mean((0, 2, 3)), [0, 0], IDENTITY, scale=1.0)
    assert_close(scaled.inputs.std((0, 2, 3)), [1, 1], IDENTITY)
    # The test images are moved by the training images' numbers, not by their own.
    by_hand = (task.test_inputs[:, 1] - images[:, 1].mean()) / images[:, 1].std()
    assert_close(scaled.test_inputs[:, 1], by_hand, IDENTITY, scale=1.0)
    with pytest.raises(OutsideTheoryError, match="must vary. Got a constant."):
        made(0, inputs=np.ones((12, 3))).standardise()
    with pytest.raises(ParameterError, match="must be floating numbers to standardise. Got an array of int64."):
        made(0, inputs=np.ones((12, 3), dtype=int), test_inputs=np.ones((5, 3), dtype=int)).standardise()


def test_one_hot_targets_are_indicators(seed: int) -> None:
    task = gaussian_classes(20, classes=3, rng=seed)
    hot = task.one_hot()
    assert hot.kind == "regression" and hot.outputs == task.outputs == 3
    np.testing.assert_array_equal(hot.targets.sum(1), 1)
    np.testing.assert_array_equal(hot.targets.argmax(1), task.targets)
    with pytest.raises(ParameterError, match="must be a classification. Got a regression."):
        hot.one_hot()


def test_tensors_have_the_wanted_type_and_are_copies(torch: Any) -> None:
    task = gaussian_classes(6)
    tensors = task.torch(torch.float64, "cpu")
    assert [t.dtype for t in tensors] == [torch.float64, torch.int64] * 2
    assert task.torch().inputs.dtype == torch.float32
    np.testing.assert_array_equal(tensors.inputs.numpy(), task.inputs)
    tensors.inputs.zero_()
    assert np.abs(task.inputs).min() > 0


def test_tensors_without_torch_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "torch":
            raise ImportError(name=name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r'Tensors need torch. Type: pip install "richter\[torch\]"'):
        made(0).torch()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"kind": "other"}, "`kind` of a task must be regression or classification. Got other."),
        ({"targets": np.zeros((3, 2))}, "`targets` of made must be 12, one for each input. Got 3."),
        ({"inputs": np.zeros(12)}, r"`inputs` of made must have the shape \(example, …\). Got shape \(12,\)."),
        ({"inputs": np.full((12, 3), np.nan)}, "`inputs` of made must be finite. Got nan or inf."),
        ({"test_targets": np.full((5, 2), np.inf)}, "`test_targets` of made must be finite."),
        ({"inputs": np.full((12, 3), "x")}, "`inputs` of made must be numbers. Got an array of <U1."),
        ({"test_inputs": np.zeros((5, 4))}, r"`test_inputs` of made must have examples of shape \(3,\). Got \(4,\)."),
        ({"targets": np.zeros((12, 2, 2))}, r"`targets` of made must have the shape \(example, output\)."),
        ({"kind": "classification"}, "`classes` of made must name at least two classes."),
        (
            {"kind": "classification", "classes": ("a", "b"), "targets": np.full(12, 2)},
            "`targets` of made must be class numbers from 0 to 1",
        ),
        (
            {"kind": "classification", "classes": ("a", "b"), "targets": np.zeros(12)},
            "`targets` of made must be class numbers from 0 to 1",
        ),
    ],
)
def test_a_wrong_task_is_one_clear_line(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError, match=text) as caught:
        made(0, **changes)
    assert "\n" not in str(caught.value)


def test_seeds_of_two_purposes_do_not_meet(seed: int) -> None:
    draws = [stream(seed, purpose).random() for purpose in ("a", "b", "a")]
    assert draws[0] == draws[2] != draws[1]
    given = np.random.default_rng(seed)
    assert stream(given, "a") is given
    for wrong in (-1, 1.5, True, "x"):
        with pytest.raises(ParameterError, match="`rng` must be a whole number ≥ 0 or a numpy Generator"):
            stream(wrong, "a")  # type: ignore[arg-type]
    for wrong in (0, True, 2.0, 5):
        with pytest.raises(ParameterError, match="`n` must be a whole number from 1 to 4"):
            count("`n`", wrong, 1, 4)
