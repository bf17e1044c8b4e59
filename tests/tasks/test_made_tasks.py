"""The tasks that are made, and the digits that are shipped."""

from __future__ import annotations

import hashlib
import math
from importlib.resources import files

import numpy as np
import pytest
from scipy.stats import norm

from richter.errors import ParameterError
from richter.maths.piecewise import layer_scale
from richter.refs import KUN24
from richter.tasks import digits, gaussian_classes, step, teacher_student
from richter.tasks.digits import read
from richter.testing.tolerances import IDENTITY, STANDARD_ERRORS, assert_close, assert_within_errors


def test_the_digits_are_the_published_ones() -> None:
    images, labels = read()
    assert images.shape == (1797, 8, 8) and images.dtype == labels.dtype == np.uint8
    # The counts of the test part in UCI's own description.
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert images.min() == 0 and images.max() == 16
    rows = np.concatenate([images.reshape(-1, 64), labels[:, None]], axis=1)
    # Of the 1797 rows of 65 bytes in the distributed text file.
    assert hashlib.sha256(rows.tobytes()).hexdigest().startswith("68aea062d35a1277")
    assert images[0, 0].tolist() == [0, 0, 5, 13, 9, 1, 0, 0]


def test_the_digits_are_small_and_say_whose_they_are() -> None:
    folder = files("richter.tasks")
    assert len((folder / "digits.npz").read_bytes()) < 100_000
    note = (folder / "digits.txt").read_text(encoding="utf-8")
    assert "Attribution 4.0" in note and "Alpaydin" in note


def test_the_digits_split_without_loss(seed: int) -> None:
    task = digits(test=300, rng=seed)
    images, labels = read()
    assert task.inputs.shape == (1497, 1, 8, 8) and task.test_inputs.shape == (300, 1, 8, 8)
    assert task.inputs.dtype == np.float32 and task.inputs.max() == 1 and task.outputs == 10
    both = np.concatenate([task.targets, task.test_targets])
    np.testing.assert_array_equal(np.bincount(both), np.bincount(labels))
    known = {(image.tobytes(), int(label)) for image, label in zip(images, labels, strict=True)}
    back = (np.concatenate([task.inputs, task.test_inputs])[:, 0] * 16).astype(np.uint8)
    assert {(image.tobytes(), int(label)) for image, label in zip(back, both, strict=True)} == known
    assert (digits(rng=seed).targets == digits(rng=seed).targets).all()
    assert (digits(rng=seed).targets != digits(rng=seed + 1).targets).any()
    assert len(digits(test=0).test_inputs) == 0
    with pytest.raises(ParameterError, match="`test` must be a whole number from 0 to 1796. Got 1797."):
        digits(test=1797)


def test_nearest_neighbours_read_the_digits() -> None:
    task = digits().flat()
    gap = ((task.test_inputs[:, None] - task.inputs[None]) ** 2).sum(-1)
    assert (task.targets[gap.argmin(1)] == task.test_targets).mean() > 0.97


@pytest.mark.place(KUN24["App. D.1"])
def test_scaled_layers_have_the_imbalance_and_the_scale(seed: int) -> None:
    rng = np.random.default_rng([seed, 2])
    tau, delta = 10 ** rng.uniform(-1.5, 0.5, 50), rng.uniform(-3, 3, 50)
    alpha = layer_scale(tau, delta)
    # |a| = τα and ‖w‖ = τ/α: a² − ‖w‖² is δ, the product is τ². The subtraction costs max(a, w)²/δ digits.
    a, w = tau * alpha, tau / alpha
    assert_close(a * a - w * w, delta, IDENTITY, scale=a * a + w * w)
    assert_close(a * w, tau**2, IDENTITY)
    # Another route to α: the quadratic in α², solved for the positive root.
    root = np.array([max(np.roots([1, -d / t**2, -1]).real) for d, t in zip(delta, tau, strict=True)])
    assert_close(alpha, np.sqrt(root), IDENTITY, times=1e4)  # the quadratic cancels for δ ≪ −τ²
    assert layer_scale(0.3, 0.0) == 1.0


@pytest.mark.place(KUN24["App. D.1"])
@pytest.mark.parametrize(("scale", "delta"), [(0.1, 0.0), (2.0, 0.0), (0.1, 1.0), (0.1, -1.0)])
def test_the_student_starts_at_zero_with_the_wanted_imbalance(seed: int, scale: float, delta: float) -> None:
    made = teacher_student(rng=seed)
    start = made.student(scale, delta)
    assert start.a.shape == (50,) and start.w.shape == (50, 2)
    size = start.a**2 + (start.w**2).sum(1)
    assert_close(start.delta, np.full(50, delta), IDENTITY, scale=size)
    assert_close(np.abs(start.a) * np.linalg.norm(start.w, axis=1), np.full(50, scale**2), IDENTITY)
    assert_close(start(made.task.inputs), np.zeros((20, 1)), IDENTITY, scale=scale**2)
    # One base start for the whole sweep: directions and signs do not depend on τ and δ.
    np.testing.assert_array_equal(np.sign(start.a), made.base.a)
    assert_close(start.w / np.linalg.norm(start.w, axis=1, keepdims=True), made.base.w, IDENTITY, scale=1.0)
    assert_close(start.w[25:], start.w[:25], IDENTITY)
    np.testing.assert_array_equal(start.a[25:], -start.a[:25])


def test_the_teacher_labels_points_on_the_sphere(seed: int) -> None:
    made = teacher_student(30, d=7, teacher_width=4, n_test=11, rng=seed)
    task, teacher = made.task, made.teacher
    assert task.inputs.shape == (30, 7) and task.test_inputs.shape == (11, 7) and task.targets.shape == (30, 1)
    assert_close(np.linalg.norm(task.inputs, axis=1), np.ones(30), IDENTITY)
    assert_close(np.linalg.norm(teacher.w, axis=1), np.ones(4), IDENTITY)
    assert set(np.abs(teacher.a)) == {1.0}
    by_hand = [sum(a * max(0.0, float(w @ x)) for a, w in zip(teacher.a, teacher.w, strict=True)) for x in task.inputs]
    assert_close(task.targets[:, 0], by_hand, IDENTITY, scale=1.0)


def test_one_seed_draws_independent_teacher_student_and_data(seed: int) -> None:
    made, again, more = (teacher_student(n, d=3, rng=seed) for n in (20, 20, 40))
    np.testing.assert_array_equal(made.task.targets, again.task.targets)
    np.testing.assert_array_equal(made.teacher.w, more.teacher.w)
    np.testing.assert_array_equal(made.base.w, more.base.w)
    first = [x[0] for x in (made.teacher.w, made.base.w, made.task.inputs, made.task.test_inputs)]
    assert len({tuple(row) for row in first}) == 4
    assert (teacher_student(rng=seed + 1).teacher.w != teacher_student(rng=seed).teacher.w).all()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: teacher_student(width=5), r"`width` must be even \(each neuron has a mirror copy\). Got 5."),
        (lambda: teacher_student(0), "`n` must be a whole number ≥ 1. Got 0."),
        (lambda: teacher_student().student(0.0), "`scale` must be finite and > 0. Got 0.0. Use scale=0.1"),
        (lambda: teacher_student().student(1.0, math.nan), "`delta` must be finite. Got nan."),
        (lambda: step(noise=-1), "`noise` must be finite and ≥ 0. Got -1."),
        (lambda: gaussian_classes(classes=5, d=3), "`classes` must be a whole number from 2 to 3. Got 5."),
        (lambda: gaussian_classes(separation=math.inf), "`separation` must be finite and ≥ 0. Got inf."),
    ],
)
def test_wrong_tasks_are_one_line(call: object, text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        call()  # type: ignore[operator]


def test_the_step_is_where_it_should_be(seed: int) -> None:
    task = step(2000, n_test=201, noise=0.1, rng=seed)
    assert task.inputs.min() >= -1 and task.inputs.max() <= 1
    assert_within_errors(task.inputs[:, 0], 0.0)
    clean = (task.inputs[:, 0] >= 0).astype(float)
    assert_within_errors((task.targets[:, 0] - clean) ** 2, 0.01, says="variance of the noise")
    assert task.test_targets[:, 0].tolist() == [0.0] * 100 + [1.0] * 101
    assert set(step(50, rng=seed).targets.ravel()) <= {0.0, 1.0}


def test_the_clouds_are_as_far_apart_as_they_say(seed: int) -> None:
    task = gaussian_classes(20_000, classes=3, d=5, separation=6.0, rng=seed)
    means = np.array([task.inputs[task.targets == k].mean(0) for k in range(3)])
    for i, j in ((0, 1), (0, 2), (1, 2)):
        gap = np.linalg.norm(means[i] - means[j])
        assert abs(gap - 6.0) < STANDARD_ERRORS * math.sqrt(2 / 6000)
    spread = task.inputs - means[task.targets]
    assert_within_errors((spread**2).sum(1), 5.0)


def test_two_clouds_have_the_known_best_error(seed: int) -> None:
    task = gaussian_classes(1, classes=2, d=4, separation=2.0, n_test=20_000, rng=seed)
    means = np.array([task.test_inputs[task.test_targets == k].mean(0) for k in range(2)])
    gap = ((task.test_inputs[:, None] - means) ** 2).sum(-1)
    wrong = (gap.argmin(1) != task.test_targets).astype(float)
    assert_within_errors(wrong, float(norm.cdf(-1.0)))
