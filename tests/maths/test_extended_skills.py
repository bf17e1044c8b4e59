"""The extended multilinear model: its flow, what it conserves, where it ends, how many examples it needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from richter.maths.extended_skills import (
    basis_shares,
    basis_strength,
    effective_strength,
    endless_gram,
    extended_coefficients,
    extended_end,
    extended_flow,
    few_shot_loss,
    few_shot_strength,
    linear_few_shots,
    sample_loss,
    skill_data_loss,
    skill_direction,
    skill_imbalance,
    skill_kernel_change,
    skill_loss_slope,
)
from richter.maths.integrate import integrate
from richter.maths.linear import flow_weights
from richter.refs import NAM24
from richter.testing.tolerances import IDENTITY, SOLVED, assert_close, assert_within_errors

SKILLS, BASIS = 3, 6


def drawn(seed: int, key: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, key])
    features = []
    for count in (9, 4, 1):  # not whitened, but no direction learns more than four times slower than another
        U, s, V = np.linalg.svd(rng.normal(size=(BASIS, count)), full_matrices=False)
        features.append(U * rng.uniform(1.0, 2.0, s.size) @ V)
    return {
        "a": np.array([0.9, -1.1, 0.8]), "B": 0.15 * rng.normal(size=(SKILLS, BASIS)), "features": features,
        "gram": np.array([phi @ phi.T / 14 for phi in features]), "eta": 0.6,
        "aim": np.broadcast_to(skill_direction(BASIS, 1.3), (SKILLS, BASIS)),
    }  # fmt: skip


def by_examples(p: dict[str, Any], a: np.ndarray, B: np.ndarray) -> float:
    """½ mean of (f − f*)² over the 14 examples, from the functions alone."""
    total = 0.0
    for k, phi in enumerate(p["features"]):
        g = phi.sum(axis=0) / np.sqrt(BASIS)
        total += ((a[k] * B[k] @ phi - 1.3 * g) ** 2).sum()
    return total / (2 * 14)


@pytest.mark.place(
    NAM24["Eq. B.17"], NAM24["Eq. B.18"], NAM24["Eq. B.19"], NAM24["Eq. B.20"], NAM24["Eq. B.21"], NAM24["Eq. B.22"],
    NAM24["Eq. B.23"], NAM24["Eq. 5.4"], NAM24["Eq. 5.8"],
)  # fmt: skip
def test_the_flow_descends_the_loss_of_the_examples(seed: int, torch: Any) -> None:
    p = drawn(seed, 50)
    assert_close(sample_loss(p["a"], p["B"], p["gram"], p["aim"]), by_examples(p, p["a"], p["B"]), IDENTITY, times=10)
    a, B = (torch.tensor(p[name], requires_grad=True) for name in ("a", "B"))
    loss = sum(
        ((a[k] * B[k] @ torch.tensor(phi) - 1.3 * torch.tensor(phi).sum(0) / BASIS**0.5) ** 2).sum() / 28
        for k, phi in enumerate(p["features"])
    )
    loss.backward()
    da, dB = extended_flow(p["a"], p["B"], p["gram"], p["aim"], p["eta"])
    assert_close(da, -0.6 * a.grad.numpy(), IDENTITY, scale=1.0)
    assert_close(dB, -0.6 * B.grad.numpy(), IDENTITY, scale=1.0)


@pytest.mark.place(NAM24["Sec. B.1.5"], NAM24["Eq. B.37"], NAM24["Eq. B.39"], NAM24["Eq. B.41"])
def test_the_flow_conserves_the_imbalance_and_ends_where_the_formula_says(seed: int) -> None:
    p = drawn(seed, 51)

    def flow(flat: np.ndarray) -> np.ndarray:
        da, dB = extended_flow(flat[:SKILLS], flat[SKILLS:].reshape(SKILLS, BASIS), gram, p["aim"])
        return np.concatenate([da, dB.ravel()])

    gram = 14 * p["gram"]
    start = np.concatenate([p["a"], p["B"].ravel()])
    path = integrate(flow, start, np.array([0.0, 0.5, 60.0]))
    a, B = path[:SKILLS], path[SKILLS:].reshape(SKILLS, BASIS, 3)
    assert_close(skill_imbalance(a, B), skill_imbalance(a[:, :1], B[..., :1]) * np.ones(3), SOLVED, scale=1.0)
    a_end, B_end = extended_end(p["a"], p["B"], gram, p["aim"])
    assert_close(a[:, -1], a_end, SOLVED, scale=1.0)
    assert_close(B[..., -1], B_end, SOLVED, scale=1.0)
    da, dB = extended_flow(a_end, B_end, gram, p["aim"])
    assert max(np.abs(da).max(), np.abs(dB).max()) < 1e-13
    # The component that the data does not show keeps B, so aB there follows a(∞), not a(0) as printed.
    U = np.linalg.svd(p["features"][2], full_matrices=False)[0]
    outside = lambda x: x - U @ (U.T @ x)
    assert_close(outside(B_end[2] * a_end[2]), outside(p["B"][2]) * a_end[2], IDENTITY, scale=1.0)
    assert np.abs(outside(B_end[2] * a_end[2]) - outside(p["B"][2]) * p["a"][2]).max() > 1e-4


def test_ends_of_special_skills() -> None:
    a0, B0 = np.array([1e-3, 1e-3, -2.0]), np.zeros((3, 4))
    B0[1] = 0.5  # m < 0: the neuron's basin decides the sign
    gram = np.stack([np.zeros((4, 4)), np.eye(4), np.eye(4)])
    a, B = extended_end(a0, B0, gram, np.full((3, 4), 0.5))
    assert a[0] == 1e-3 and not B[0].any()  # no data
    assert_close(a[1:, None] * B[1:], np.full((2, 4), 0.5), IDENTITY)
    assert a[1] > 0 > a[2]
    assert_close(skill_imbalance(a, B), skill_imbalance(a0, B0), IDENTITY, times=10, scale=1.0)
    M = lambda a, B: a**2 * np.eye(4) + np.outer(B, B)
    for k in range(3):
        moved = float(np.linalg.norm(M(a[k], B[k]) - M(a0[k], B0[k])) / np.linalg.norm(M(a0[k], B0[k])))
        assert_close(skill_kernel_change(a, B, a0, B0)[k], moved, IDENTITY, times=10, scale=max(moved, 1e-3))


@pytest.mark.place(NAM24["Eq. 5.5"], NAM24["Eq. B.26"], NAM24["Eq. B.42"])
@pytest.mark.parametrize("count", [6, 15, 30, 48])
def test_few_examples_teach_the_share_that_the_definition_says(seed: int, count: int) -> None:
    needed, draws = 60, 150
    rng = np.random.default_rng([seed, 52, count])
    features = rng.normal(size=(draws, needed, count))
    aim = np.broadcast_to(skill_direction(needed, 1.0), (draws, needed))
    gram = features @ np.swapaxes(features, 1, 2)
    a, B = extended_end(np.full(draws, 1e-4), np.zeros((draws, needed)), gram, aim)
    learned = a[:, None] * B
    strength = learned.sum(axis=1) / np.sqrt(needed)
    expected = float(few_shot_strength(count, needed, 1.0))
    assert_within_errors(strength, expected, says="skill strength")
    losses = ((learned - aim) ** 2).sum(axis=1) / 2
    assert_within_errors(losses, float(few_shot_loss(count, needed, 1.0)), says="loss")
    # The printed strength inverts ½(S − R)², which does not hold here (control).
    printed = float(effective_strength(count, needed, 1.0))
    error = strength.std(ddof=1) / np.sqrt(draws)
    assert abs(strength.mean() - printed) > 5 * error
    assert_close((1 - printed) ** 2 / 2, few_shot_loss(count, needed, 1.0), IDENTITY)
    # From a small start it is the minimum-norm solution of a linear model with the same basis functions.
    linear = flow_weights(features[0], aim[0] @ features[0], np.inf)
    assert_close(learned[0], linear, SOLVED, scale=0.1)


@pytest.mark.place(NAM24["Eq. 5.6"], NAM24["Eq. 5.7"], NAM24["Eq. 5.9"], NAM24["Eq. B.43"], NAM24["Eq. B.44"])
@pytest.mark.parametrize("n_basis", [0, 1, 4, 5, 10, 12, 20])
def test_a_skill_with_some_of_its_basis_functions_is_learned_in_part(n_basis: int) -> None:
    needed, skills = 4, 3
    q, r = (n_basis - 1) // needed + 1, (n_basis - 1) % needed + 1  # as printed
    printed = [2.0 if k < q else 2.0 * r / needed if k == q else 0.0 for k in range(1, skills + 1)]
    assert basis_strength(n_basis, needed, skills, 2.0).tolist() == (printed if n_basis else [0.0] * 3)
    there = np.arange(needed) < basis_shares(n_basis, needed, skills)[:, None]
    aim = np.broadcast_to(skill_direction(needed, 2.0), (skills, needed))
    a, B = extended_end(np.full(skills, 1e-6), np.zeros((skills, needed)), np.eye(needed) * there[:, None], aim)
    strength = (a[:, None] * B).sum(axis=1) / np.sqrt(needed)
    assert_close(strength, basis_strength(n_basis, needed, skills, 2.0), IDENTITY, scale=1.0)
    losses = ((a[:, None] * B - aim) ** 2).sum(axis=1) / 2
    assert_close(losses, 2 * (1 - basis_shares(n_basis, needed, skills) / needed), IDENTITY, scale=1.0)


@pytest.mark.place(
    NAM24["Eq. 5.3"], NAM24["Eq. B.15"], NAM24["Eq. B.16"], NAM24["Eq. B.24"], NAM24["Eq. B.25"], NAM24["Eq. B.27"],
    NAM24["Eq. B.28"], NAM24["Eq. B.29"], NAM24["Eq. B.30"],
)  # fmt: skip
def test_the_loss_of_a_skill_falls_by_its_squared_gradient(seed: int) -> None:
    p = drawn(seed, 53)
    a, B, k = p["a"], p["B"], 1
    phi, aim, share = p["features"][k], p["aim"][k], 4 / 14
    own = lambda a, B: skill_data_loss(a, B, phi, aim)
    by_example = np.mean((extended_coefficients(a, B)[k] @ phi - aim @ phi) ** 2) / 2
    assert_close(own(a[k], B[k]), by_example, IDENTITY)
    # The skills' losses weighted with their shares are the loss on the data.
    whole = sum(
        count / 14 * skill_data_loss(a[i], B[i], p["features"][i], p["aim"][i]) for i, count in enumerate((9, 4, 1))
    )
    assert_close(whole, sample_loss(a, B, p["gram"], p["aim"]), IDENTITY, times=10)
    da, dB = extended_flow(a, B, p["gram"], p["aim"], p["eta"])
    U = np.linalg.svd(phi, full_matrices=False)[0]
    assert_close(U @ (U.T @ dB[k]), dB[k], IDENTITY, scale=np.abs(dB[k]).max(), times=10)  # B.16
    assert_close(a * da, (B * dB).sum(axis=1), IDENTITY, scale=np.abs(a * da).max(), times=10)  # B.24, B.25
    h = 1e-6
    slope_a = (own(a[k] + h, B[k]) - own(a[k] - h, B[k])) / (2 * h)
    slope_B = np.array([(own(a[k], B[k] + h * e) - own(a[k], B[k] - h * e)) / (2 * h) for e in np.eye(BASIS)])
    along = (own(a[k] + h * da[k], B[k] + h * dB[k]) - own(a[k] - h * da[k], B[k] - h * dB[k])) / (2 * h)
    told = skill_loss_slope(share, slope_a, slope_B, p["eta"])
    np.testing.assert_allclose(told, along, rtol=1e-5)  # differences of differences
    assert told < 0 == skill_loss_slope(share, 0.0, np.zeros(BASIS))


@pytest.mark.place(NAM24["Eq. B.35"], NAM24["Eq. B.36"], NAM24["Eq. B.38"], NAM24["Eq. B.40"])
def test_the_end_solves_its_equations(seed: int) -> None:
    p = drawn(seed, 54)
    a, B = extended_end(p["a"], p["B"], p["gram"], p["aim"])
    for k in range(SKILLS):
        U = np.linalg.svd(p["features"][k], full_matrices=False)[0]
        onto = lambda x, U=U: U @ (U.T @ x)
        assert np.abs(a[k] * onto(B[k] * a[k] - p["aim"][k])).max() < 1e-13
        rest = p["B"][k] - onto(p["B"][k])
        conserved = a[k] ** 2 - (onto(p["aim"][k]) ** 2).sum() / a[k] ** 2 - (rest**2).sum()
        assert_close(conserved, p["a"][k] ** 2 - (p["B"][k] ** 2).sum(), IDENTITY, scale=1.0)
        assert a[k] * p["a"][k] > 0


@pytest.mark.place(NAM24["Eq. B.45"], NAM24["Eq. B.47"], NAM24["Eq. B.48"], NAM24["Eq. B.49"])
def test_endless_data_decouple_the_basis_functions(seed: int) -> None:
    p, P = drawn(seed, 55), 0.3
    gram = np.broadcast_to(P * np.eye(BASIS), (SKILLS, BASIS, BASIS))
    _, dB = extended_flow(p["a"], p["B"], gram, p["aim"], p["eta"])
    printed = -p["eta"] * P * p["a"][:, None] * (p["B"] * p["a"][:, None] - 1.3 / np.sqrt(BASIS))
    assert_close(dB, printed, IDENTITY, scale=np.abs(printed).max())
    for r in range(BASIS + 1):  # each of r functions adds S/√N_c · 1/√N_c
        assert_close(basis_strength(r, BASIS, 1, 1.3)[0], r * (1.3 / np.sqrt(BASIS)) / np.sqrt(BASIS), IDENTITY)


@pytest.mark.place(NAM24["Eq. B.46"])
def test_the_gram_matrix_of_many_examples_is_the_endless_one(seed: int) -> None:
    rng = np.random.default_rng([seed, 57])
    P, D, draws = np.array([0.7, 0.3]), 400, 300
    limit = endless_gram(P, np.array([[True] * 3, [True, True, False]]))
    grams = np.zeros((draws, 2, 3, 3))
    for i in range(draws):
        for k, count in enumerate(rng.multinomial(D, P)):
            phi = rng.choice([-1.0, 1.0], (3, count)) * np.array([1.0, 1.0, 1.0 if k == 0 else 0.0])[:, None]
            grams[i, k] = phi @ phi.T / D
    varies = grams.std(axis=0) > 0
    assert (limit[~varies] == 0).all() and varies.sum() == 9 + 4
    for column, told in zip(grams[:, varies].T, limit[varies], strict=True):
        assert_within_errors(column, told)


@pytest.mark.place(NAM24["Eq. C.5"], NAM24["Eq. C.6"])
def test_the_linear_model_with_the_same_functions_is_as_good_a_few_shot_learner(seed: int) -> None:
    rng = np.random.default_rng([seed, 56])
    aim = skill_direction(12, 1.3)
    for count in (3, 12, 20):
        phi = rng.normal(size=(12, count))
        end = linear_few_shots(phi, aim)
        flow = lambda w, phi=phi: -phi @ (w @ phi - aim @ phi) / phi.shape[1]
        if count != 12:  # a square matrix may have a direction that takes too long
            path = integrate(flow, np.zeros(12), np.array([0.0, 3e4]), method="LSODA")[:, 1]
            assert_close(path, end, SOLVED, scale=1.0, times=100)
        a, B = extended_end(np.array([1e-6]), np.zeros((1, 12)), (phi @ phi.T)[None], aim[None])
        assert_close(a[0] * B[0], end, SOLVED, scale=1.0)
        assert (count < 12) == (np.abs(end - aim).max() > 1e-3)
