"""The preconditioner of deep linear networks against the weights it summarises, and a against its sign changes."""

from __future__ import annotations

import numpy as np
import pytest

from richter.maths import deep_preconditioner as deep
from richter.maths import potentials
from richter.maths.neuron import neuron_modes, neuron_path
from richter.maths.neuron_crossing import crossing_times
from richter.refs import KUN24
from richter.testing.tolerances import DERIVATIVE, IDENTITY, SOLVED, assert_close
from tests.maths.ode import Floats, follow

Layers = tuple[Floats, list[Floats]]


def isotropic_layers(rng: np.random.Generator, d: int, l: int, size: float) -> Layers:
    """(a, W₁ … W_l) by Definition B.7: a = 0, Wᵢ = size · orthogonal, and δ = −size²."""
    frames = [np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(l)]
    return np.zeros(d), [size * frame for frame in frames]


def unpack(x: Floats, d: int, l: int) -> Layers:
    return x[:d], list(x[d:].reshape(l, d, d))


def beta_of(layers: Layers) -> Floats:
    a, weights = layers
    for W in reversed(weights):
        a = W.T @ a
    return a


def velocity(x: Floats, d: int, l: int, gram: Floats, target: Floats) -> Floats:
    """Gradient flow of every layer, by the chain rule alone."""
    a, weights = unpack(x, d, l)
    pull = gram @ (target - beta_of((a, weights)))
    below = [pull]  # W_i ⋯ W₁ · pull
    for W in weights:
        below.append(W @ below[-1])
    above, made = a, []
    for i in reversed(range(l)):
        made.append(np.outer(above, below[i]))
        above = weights[i].T @ above
    return np.concatenate([below[-1], np.array(made[::-1]).ravel()])


@pytest.mark.place(KUN24["Eq. 116"], KUN24["Eq. 117"], KUN24["Lemma B.8"], KUN24["Eq. 118"])
@pytest.mark.parametrize("l", [1, 2, 3, 4])
def test_deep_networks_keep_their_polynomials_and_move_by_m(l: int, seed: int) -> None:
    rng = np.random.default_rng([seed, l])
    d, size = 3, rng.uniform(0.5, 1.1)
    X = rng.standard_normal((5, d))
    gram, target, delta = X.T @ X, rng.standard_normal(d), -(size**2)
    a0, weights = isotropic_layers(rng, d, l, size)
    start = np.concatenate([a0, np.array(weights).ravel()])
    flow = lambda x: velocity(x, d, l, gram, target)
    for x in follow(flow, start, np.array([0.0, 0.02, 0.1, 0.4])).T[1:]:
        a, (first, *_) = unpack(x, d, l)
        beta, G = beta_of(unpack(x, d, l)), first.T @ first
        assert_close(deep.squared_size(a @ a, delta, l), beta @ beta, SOLVED, says="Eq. 116")
        outer = np.outer(beta, beta)
        assert_close(deep.outer_product(G, delta, l), outer, SOLVED, scale=np.abs(G).max() ** (l + 1), says="Eq. 117")
        h = 1e-5 / np.abs(flow(x)).max()  # central differences of β along the flow
        moved = (beta_of(unpack(x + h * flow(x), d, l)) - beta_of(unpack(x - h * flow(x), d, l))) / (2 * h)
        M = deep.deep_preconditioner(G, float(a @ a), delta, l)
        assert_close(M @ gram @ (target - beta), moved, DERIVATIVE, scale=np.abs(moved).max(), says="dβ/dt")


@pytest.mark.place(KUN24["Eq. 120"], KUN24["Eq. 121"], KUN24["Eq. 122"])
def test_at_balance_m_is_a_function_of_beta_and_its_printed_inverse_is_wrong(seed: int) -> None:
    beta = np.random.default_rng(seed).standard_normal((6, 3))
    for l in (1, 2, 5):
        first, grams = deep.rich_layers(beta, l)
        M, inverse = deep.rich_preconditioner(beta, l), deep.rich_preconditioner_inverse(beta, l)
        for k in range(len(beta)):
            assert_close(deep.deep_preconditioner(grams[k], float(first[k]), 0.0, l), M[k], IDENTITY, scale=M[k].max(), times=10)  # fmt: skip # sums of l + 1 terms
            size = np.linalg.norm(beta[k])
            outer = np.outer(beta[k], beta[k])
            printed = size ** (-2 * l / (l + 1)) * np.eye(3) + l / (l + 1) * size ** (-(4 * l + 2) / (l + 1)) * outer
            assert np.abs(printed @ M[k] - np.eye(3)).max() > 0.1
        assert_close(M @ inverse, np.eye(3) + 0 * M, IDENTITY, scale=1.0, times=10, says="M M⁻¹")  # condition l + 1


@pytest.mark.place(KUN24["App. B.2"])
def test_the_warped_inverse_is_the_deep_potentials_hessian(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for l in (1, 2, 4):
        beta, h = rng.standard_normal(3), 1e-3
        Q = lambda b, l=l: potentials.deep_potential(b, np.ones(3), l)  # a linear term has no Hessian
        hessian = np.empty((3, 3))
        for i, j in np.ndindex(3, 3):
            e, f = h * np.eye(3)[i], h * np.eye(3)[j]
            hessian[i, j] = (Q(beta + e + f) - Q(beta + e - f) - Q(beta - e + f) + Q(beta - e - f)) / (4 * h * h)
        warped = deep.rich_time_warp(np.linalg.norm(beta), l) * deep.rich_preconditioner_inverse(beta, l)
        # Second differences with step 1e-3: errors of order h² times the fourth derivative.
        assert_close(
            warped, hessian, DERIVATIVE, scale=np.abs(hessian).max(), times=1e2 / min(1.0, float(beta @ beta)) ** 2
        )


@pytest.mark.place(KUN24["Lemma A.1"])
def test_a_crosses_zero_at_most_once_and_when_it_says(seed: int) -> None:
    rng = np.random.default_rng([seed, 7])
    count = 4000
    a0, w0, target = rng.standard_normal(count), 1.5 * rng.standard_normal((3, count)), rng.standard_normal((3, count))
    eta_a, eta_w = 10 ** rng.uniform(-0.5, 0.5, (2, count))
    column = lambda x: x[..., None]
    modes = neuron_modes(column(a0), column(w0), column(target), column(eta_a), column(eta_w))
    of_a, of_w = (x[:, 0] for x in crossing_times(modes))
    assert not (np.isfinite(of_a) & np.isfinite(of_w)).any()
    late = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 4000), [np.inf]])
    path = neuron_path(modes, late, only=("a", "w"))
    for name, value, times in (
        ("a", path["a"], of_a),
        ("w·β*", (path["w"] * column(target)).sum(axis=0), of_w),
    ):
        sign = np.sign(value)
        changes = (np.diff(sign, axis=1) != 0).sum(axis=1)
        assert changes.max() == 1 and (changes == np.isfinite(times)).all(), name
        crossed = np.isfinite(times)
        assert crossed.sum() > 50
        there = neuron_path(modes, column(np.where(crossed, times, 0.0)), only=("a", "w"))
        zero = there["a"] if name == "a" else (there["w"] * column(target)).sum(axis=0)
        size = np.abs(value).max(axis=1)
        assert_close(
            zero[crossed, 0] / size[crossed], 0 * size[crossed], IDENTITY, scale=1.0, times=100, says=name
        )  # the slope there is steep


def test_a_start_on_the_crossing_crosses_at_once() -> None:
    times = crossing_times(neuron_modes(0.0, np.array([1.0, 0.5]), np.array([1.0, 0.0])))
    assert [float(t) for t in times] == [0.0, np.inf]
