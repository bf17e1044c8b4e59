"""The multitask sparse parity task: fair bits, Zipf skills, orthonormal skill functions, measured strengths."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from richter.errors import ParameterError
from richter.maths.skills import skill_loss, total_loss
from richter.refs import NAM24
from richter.tasks.sparse_parity import SparseParity
from richter.testing.tolerances import IDENTITY, STANDARD_ERRORS, assert_close


def draw(seed: int, **more: object) -> SparseParity:
    given: dict[str, object] = {"n_tasks": 4, "n_bits": 12, "sparse": 3, "target": 2.0}
    return SparseParity.draw(**{**given, **more}, rng=np.random.default_rng([seed, 1]))  # type: ignore[arg-type]


def test_bits_are_fair_and_independent(seed: int) -> None:
    data = draw(seed).sample(40_000, rng=np.random.default_rng([seed, 2]))
    error = 0.5 / np.sqrt(len(data))
    assert np.abs(data.bits.mean(axis=0) - 0.5).max() < STANDARD_ERRORS * error
    signs = 1 - 2.0 * data.bits
    together = signs.T @ signs / len(data) - np.eye(12)
    assert np.abs(together).max() < STANDARD_ERRORS * 2 * error
    assert len({row.tobytes() for row in data.bits[:, :8]}) == 2**8  # every value occurs, the last one too


@pytest.mark.place(NAM24["Eq. 4.1"])
def test_skills_occur_with_their_frequencies(seed: int) -> None:
    task = draw(seed, alpha=0.7)
    k = np.arange(1.0, 5.0)
    assert_close(task.frequencies, k**-1.7 / (k**-1.7).sum(), IDENTITY)
    data = task.sample(40_000, rng=np.random.default_rng([seed, 3]))
    seen = np.bincount(data.skill, minlength=4) / len(data)
    error = np.sqrt(task.frequencies * (1 - task.frequencies) / len(data))
    assert (np.abs(seen - task.frequencies) < STANDARD_ERRORS * error).all()
    assert (data.inputs[:, :4].argmax(axis=1) == data.skill).all() and (data.inputs[:, :4].sum(axis=1) == 1).all()


@pytest.mark.place(NAM24["Eq. 4.2"], NAM24["Eq. 4.3"], NAM24["Eq. 4.4"])
def test_skill_functions_are_parities_that_exclude_each_other(seed: int) -> None:
    task = draw(seed, disjoint=False, n_bits=5)
    for k in range(4):
        data = task.every(k)
        assert len(data) == 32 and len({row.tobytes() for row in data.bits}) == 32
        g = task.basis(data)
        by_hand = [(-1) ** sum(int(row[j]) for j in task.positions[k]) for row in data.bits]
        assert g[k].tolist() == by_hand
        assert not np.delete(g, k, axis=0).any()
        assert data.targets.tolist() == [2.0 * sign for sign in by_hand]
    mixed = task.sample(500, rng=seed)
    g = task.basis(mixed)
    products = np.einsum("ke,le->kle", g, g)
    expected = np.einsum("ke,kl->kle", (mixed.skill == np.arange(4)[:, None]).astype(float), np.eye(4))
    assert np.array_equal(products, expected)


@pytest.mark.place(NAM24["Eq. 4.7"], NAM24["Eq. 4.8"], NAM24["Eq. 4.5"], NAM24["Eq. 4.6"])
def test_strength_and_loss_of_any_model(seed: int) -> None:
    task = draw(seed, n_bits=12)
    rng = np.random.default_rng([seed, 4])
    weights, bias = rng.normal(size=(16,)), rng.normal()
    planted = rng.uniform(0.1, 1.5, 4)

    def model(inputs: np.ndarray) -> np.ndarray:
        skill = inputs[:, :4].argmax(axis=1)
        signs = (-1) ** np.take_along_axis(inputs[:, 4:], task.positions[skill], axis=1).sum(axis=1)
        return np.tanh(inputs @ weights + bias) * 0.5 + planted[skill] * signs

    exact, losses = np.empty(4), np.empty(4)
    for k in range(4):
        data = task.every(k)
        outputs = model(data.inputs)
        exact[k] = task.strengths(outputs, data)[0][k]
        assert_close(exact[k], np.mean(task.basis(data)[k] * outputs), IDENTITY)
        losses[k] = np.mean((data.targets - outputs) ** 2) / 2
        assert_close(skill_loss(exact[k], np.mean(outputs**2), 2.0), losses[k], IDENTITY)
    measured, error = task.measure(model, examples=2000, rng=np.random.default_rng([seed, 5]))
    assert (np.abs(measured - exact) < STANDARD_ERRORS * error).all() and (error < 0.05).all()
    data = task.sample(40_000, rng=np.random.default_rng([seed, 6]))
    squares = (data.targets - model(data.inputs)) ** 2 / 2
    off = abs(squares.mean() - total_loss(task.frequencies, losses))
    assert off < STANDARD_ERRORS * squares.std() / np.sqrt(len(data))


def test_the_standard_error_is_that_of_repeated_measurements(seed: int) -> None:
    task = draw(seed, n_tasks=2)
    rng = np.random.default_rng([seed, 7])
    noisy = lambda inputs: rng.normal(size=len(inputs))
    found = [task.measure(noisy, examples=100, rng=rng) for _ in range(150)]
    spread = np.std([strength for strength, _ in found], ddof=1)
    claimed = np.sqrt(np.mean([error**2 for _, error in found]))
    assert abs(spread / claimed - 1) < STANDARD_ERRORS / np.sqrt(2 * 300)


def test_disjoint_skills_share_no_bit_and_others_may(seed: int) -> None:
    assert len(set(draw(seed).positions.ravel().tolist())) == 12
    shared = draw(seed, disjoint=False, n_tasks=40)
    assert all(len(set(row)) == 3 for row in shared.positions.tolist())
    assert len(set(itertools.chain(*shared.positions.tolist()))) <= 12


def test_the_seed_decides_and_streams_do_not_repeat(seed: int) -> None:
    task = draw(seed)
    assert np.array_equal(task.sample(50, rng=3).inputs, task.sample(50, rng=3).inputs)
    first, second = itertools.islice(task.stream(50, rng=3), 2)
    assert np.array_equal(first.inputs, task.sample(50, rng=3).inputs)
    assert not np.array_equal(first.inputs, second.inputs)


def test_a_fixed_data_set_is_a_task(seed: int) -> None:
    task = draw(seed)
    data = task.data_set(30, 20, rng=seed)
    assert data.inputs.shape == (30, 16) and data.test_targets.shape == (20, 1) and data.kind == "regression"
    assert np.array_equal(data.inputs, task.sample(30, rng=seed).inputs)
    assert not np.array_equal(data.inputs[:20], data.test_inputs)


def test_a_skill_without_examples_has_no_strength(seed: int) -> None:
    task = draw(seed)
    strength, error = task.strengths(np.ones(1), task.of_skill(1, 1))
    assert np.isnan(strength[[0, 2, 3]]).all() and abs(strength[1]) == 1 and np.isnan(error).all()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: SparseParity.draw(n_tasks=5, n_bits=10), "`n_bits` must be at least n_tasks · sparse = 15 for disjoint"),
        (lambda: SparseParity.draw(n_tasks=0), "`n_tasks` must be a whole number ≥ 1. Got 0."),
        (lambda: SparseParity.draw(sparse=40), "`sparse` must be at most n_bits = 32. Got 40."),
        (lambda: SparseParity.draw(alpha=0.0), "`alpha` must be > 0. Got 0.0."),
        (lambda: SparseParity(positions=np.array([[0, 0]]), n_bits=3), "must be different bits for each skill"),
        (lambda: SparseParity(positions=np.array([[0, 7]]), n_bits=3), "must lie between 0 and n_bits − 1 = 2"),
        (lambda: SparseParity(positions=np.array([0, 7]), n_bits=3), "must be whole numbers (skill, sparse)"),
        (lambda: SparseParity.draw().every(0), "`n_bits` must be at most 20 for all inputs. Got 32. Use of_skill(…)."),
        (lambda: SparseParity.draw(n_bits=15).of([0], [[2] * 15]), "`bits` must be 0 or 1, (1, 15)"),
        (lambda: SparseParity.draw(n_bits=15).of([5], [[1] * 15]), "`skill` must lie between 0 and 4"),
    ],
)  # fmt: skip
def test_wrong_tasks_are_refused(make: object, text: str) -> None:
    assert callable(make)
    with pytest.raises(ParameterError) as caught:
        make()
    assert text in str(caught.value)
