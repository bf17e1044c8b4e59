"""Eigenlearning against 50 digits, its conservation law and its limits."""

from __future__ import annotations

import time

import mpmath as mp
import numpy as np
import pytest

from richter.maths.eigenlearning import (
    Eigenlearning,
    eigenlearning,
    learned_fraction,
    power_law_eigenlearning,
    unlearned_fraction,
)
from richter.refs import NAM24
from richter.testing.tolerances import IDENTITY, SOLVED, assert_close
from richter.theory import learnability

Problem = tuple[np.ndarray, np.ndarray, float, float]


def _problems(rng: np.random.Generator, count: int) -> list[Problem]:
    """Spectra over up to 30 decades with multiplicities; n on both sides of p and 1e-9 from it; with and without ridge."""
    made: list[Problem] = []
    while len(made) < count:
        p = int(rng.integers(1, 40))
        rho = 10 ** rng.uniform(-30 * rng.random(), 4, p)
        m = rng.integers(1, 2 + 500 * int(rng.integers(2)), p).astype(float)
        n = float(rng.choice([rng.uniform(0.01, 1.3 * m.sum()), rng.integers(1, m.sum() + 5), m.sum() * (1 - 1e-9)]))
        ridge = float(rng.choice([0.0, 10 ** rng.uniform(-20, 4)]))
        if ridge > 0 or n < m.sum():
            made.append((rho, m, n, ridge))
    return made


def _exact_kappa(problem: Problem) -> mp.mpf:
    """κ to 60 digits, by halving an interval of ln κ."""
    rho, m, n, ridge = problem
    with mp.workdps(60):
        R, M, N, S = [mp.mpf(x) for x in rho.tolist()], [int(x) for x in m], mp.mpf(n), mp.mpf(ridge)
        total = lambda k: mp.fsum(c * r / (r + k) for c, r in zip(M, R, strict=True)) + S / k
        low, high = mp.mpf(-400), mp.log((mp.fsum(c * r for c, r in zip(M, R, strict=True)) + S) / N) + 1
        for _ in range(210):
            middle = (low + high) / 2
            low, high = (middle, high) if total(mp.exp(middle)) > N else (low, middle)
        return mp.exp(low)


def _exact(problem: Problem) -> tuple[float, float, float, float]:
    """κ, E₀, ΣL²/n and (ridge/nκ)²E₀ to 60 digits."""
    rho, m, n, ridge = problem
    kappa = _exact_kappa(problem)
    with mp.workdps(60):
        R, M, N, S = [mp.mpf(x) for x in rho.tolist()], [int(x) for x in m], mp.mpf(n), mp.mpf(ridge)
        square = mp.fsum(c * (r / (r + kappa)) ** 2 for c, r in zip(M, R, strict=True))
        factor = N / (N - square)
        return tuple(float(x) for x in (kappa, factor, square / N, (S / (N * kappa)) ** 2 * factor))  # type: ignore[return-value]


@pytest.mark.place(NAM24["Eq. 1.35"])
def test_kappa_and_what_follows_agree_with_many_digits(seed: int) -> None:
    for problem in _problems(np.random.default_rng([seed, 1]), 60):
        rho, m, n, ridge = problem
        made = eigenlearning(rho, n, ridge, m)
        values = (made.kappa, made.overfitting, made.fitted, made.train)
        for name, got, want in zip(("κ", "E₀", "ΣL²/n", "train"), values, _exact(problem), strict=True):
            assert_close(got, want, IDENTITY, says=f"{name} of {problem}")


def test_the_errors_agree_with_many_digits(seed: int) -> None:
    """Of the labelled result, with a target, noise, ridge and multiplicities; the clean error without its subtraction."""
    rng = np.random.default_rng([seed, 4])
    for rho, m, n, ridge in _problems(rng, 15):
        v, sigma = rng.normal(size=rho.size) * 10 ** rng.uniform(-3, 3, rho.size), 10 ** rng.uniform(-4, 1)
        ds = learnability(rho, n, ridge, v, sigma, m)
        kappa = _exact_kappa((rho, m, n, ridge))
        with mp.workdps(60):
            R, M, V = [mp.mpf(x) for x in rho.tolist()], [int(x) for x in m], [mp.mpf(x) for x in v.tolist()]
            N, noise = mp.mpf(n), mp.mpf(sigma) ** 2
            square = mp.fsum(c * (r / (r + kappa)) ** 2 for c, r in zip(M, R, strict=True))
            bias = mp.fsum((kappa / (r + kappa) * x) ** 2 for r, x in zip(R, V, strict=True))
            test = N / (N - square) * (bias + noise)
            train = (mp.mpf(ridge) / (N * kappa)) ** 2 * test
        for name, want in (("test_error", test), ("clean_error", test - noise), ("train_error", train)):
            assert_close(ds[name], float(want), IDENTITY, says=name)


def test_learnability_is_conserved(seed: int) -> None:
    for rho, m, n, ridge in _problems(np.random.default_rng([seed, 2]), 100):
        kappa = eigenlearning(rho, n, ridge, m).kappa
        learned, left = learned_fraction(rho, kappa), unlearned_fraction(rho, kappa)
        assert_close((m * learned).sum() + ridge / kappa, n, IDENTITY, says="ΣL + ridge/κ")
        assert_close(learned + left, 1.0, IDENTITY)
        assert_close(left * rho, learned * kappa, IDENTITY)


def test_many_at_once_are_one_at_a_time(seed: int) -> None:
    rng = np.random.default_rng([seed, 3])
    rho, n, ridge = 10 ** rng.uniform(-6, 1, (3, 1, 50)), np.array([1.0, 7.5, 49.0, 50.0, 60.0]), np.zeros((3, 1))
    ridge[1] = 0.3
    together = eigenlearning(rho, n, ridge)
    for i in range(3):
        for j in range(5):
            alone = eigenlearning(rho[i, 0], n[j], ridge[i, 0])
            for name in ("kappa", "overfitting", "fitted", "train"):
                assert_close(getattr(together, name)[i, j], getattr(alone, name), IDENTITY, says=name)
    doubled = eigenlearning(np.repeat(rho, 3, axis=-1), n, ridge)
    assert_close(eigenlearning(rho, n, ridge, 3.0).kappa, doubled.kappa, IDENTITY)


def test_equal_eigenvalues_have_a_closed_form() -> None:
    p, n = 1000.0, np.array([1.0, 10.0, 500.0, 999.0])
    made = eigenlearning(np.array([2.0]), n, 0.0, p)
    assert_close(made.kappa, 2 * (p - n) / n, IDENTITY)
    assert_close(made.overfitting, p / (p - n), IDENTITY)
    assert_close(made.fitted, n / p, IDENTITY)


def test_all_modes_are_learned_from_as_many_examples() -> None:
    rho = np.array([3.0, 1e-5, 0.0])  # two modes that can be learned
    made = eigenlearning(rho, np.array([2.0, 5.0]))
    assert made.kappa.tolist() == [0.0, 0.0] and made.overfitting.tolist() == [np.inf, 5 / 3]
    assert learned_fraction(rho, made.kappa).tolist() == [[1.0, 1.0, 0.0]] * 2
    assert unlearned_fraction(rho, made.kappa).tolist() == [[0.0, 0.0, 1.0]] * 2
    # The classical least squares: noise σ² leaves σ²(n − p)/n on the examples and adds σ²p/(n − p) to the test.
    train, test, clean = made.errors(np.zeros(2), np.full(2, 0.25))
    assert_close(train, [0.0, 0.25 * 3 / 5], IDENTITY)
    assert_close(clean, [np.inf, 0.25 * 2 / 3], IDENTITY)
    assert_close(test, [np.inf, 0.25 * 5 / 3], IDENTITY)
    # Without noise and within reach nothing is left, even at n = p.
    assert made.errors(np.zeros(2), np.zeros(2))[2].tolist() == [0.0, 0.0]
    # Nothing to learn: every feature is 0.
    empty = eigenlearning(np.zeros(2), 3.0)
    assert [float(x) for x in (empty.kappa, empty.overfitting, empty.fitted, empty.train)] == [0.0, 1.0, 0.0, 1.0]


def test_the_ridgeless_limit_is_reached_from_small_ridges() -> None:
    rho, bias = np.array([2.0, 1.0, 0.3]), np.array(0.0)
    for n in (2.0, 5.0):
        limit, near = eigenlearning(rho, n), eigenlearning(rho, n, 1e-11)
        for name in ("kappa", "overfitting", "fitted", "train"):
            assert abs(getattr(near, name) - getattr(limit, name)) < 1e-8, name
        assert_close(near.errors(bias, np.array(1.0))[1], limit.errors(bias, np.array(1.0))[1], SOLVED)


@pytest.mark.parametrize("ridge", [1e-300, 1e-40, 1.0, 1e40])
@pytest.mark.parametrize("rho", [1e-100, 1.0, 1e150])
def test_as_many_examples_as_equal_modes_and_a_ridge_of_any_size(rho: float, ridge: float) -> None:
    """pκ² = ridge·(ρ + κ): κ may lie hundreds of decades from where the search begins."""
    p = 7
    kappa = ridge / (2 * p) + np.hypot(ridge / (2 * p), np.sqrt(ridge / p) * np.sqrt(rho))
    assert_close(eigenlearning(np.full(p, rho), float(p), ridge).kappa, kappa, IDENTITY)


def test_a_large_ridge_learns_nothing() -> None:
    made = eigenlearning(np.array([1.0, 0.5]), 10.0, 1e12)
    train, test, clean = made.errors(np.array(4.0), np.array(1.0))
    assert_close([train, test, clean], [5.0, 5.0, 4.0], SOLVED)


def _power_law_excess(made: Eigenlearning, alpha: float, n: float, ridge: float) -> float:
    """Relative error of ΣL + ridge/κ = n; the tail by a hypergeometric integral and Euler–Maclaurin at 40 digits."""
    with mp.workdps(40):
        s, k, K = 1 + mp.mpf(alpha), mp.mpf(float(made.kappa)), 60
        f = lambda x: 1 / (1 + k * x**s)
        z = -1 / (k * mp.mpf(K) ** s)
        integral = mp.mpf(K) ** (1 - s) / (k * (s - 1)) * mp.hyp2f1(1, 1 - 1 / s, 2 - 1 / s, z)
        bends = [mp.diff(f, K, order) for order in (1, 3, 5, 7)]
        ends = -bends[0] / 12 + bends[1] / 720 - bends[2] / 30240 + bends[3] / 1209600
        total = mp.fsum(f(mp.mpf(i)) for i in range(1, K)) + integral + f(mp.mpf(K)) / 2 + ends + mp.mpf(ridge) / k
        return float(total / n - 1)


@pytest.mark.parametrize("alpha", [0.02, 0.3, 1.0, 4.0])
def test_the_infinite_power_law_is_summed_to_the_last_digits(alpha: float) -> None:
    for n, ridge in ((0.3, 0.0), (3.0, 0.2), (150.0, 0.0), (4000.0, 1e-3)):
        made = power_law_eigenlearning(alpha, n, ridge)
        assert abs(_power_law_excess(made, alpha, n, ridge)) < IDENTITY.rtol


def test_the_infinite_power_law_has_a_closed_form_for_squares() -> None:
    made = power_law_eigenlearning(1.0, np.array([0.5, 5.0, 300.0, 1e5]))
    with mp.workdps(40):
        for i, n in enumerate((0.5, 5.0, 300.0, 1e5)):
            total = lambda k: (mp.pi / mp.sqrt(k) * mp.coth(mp.pi / mp.sqrt(k)) - 1) / 2
            kappa = mp.findroot(lambda x, n=n, total=total: total(mp.exp(x)) - n, mp.log(made.kappa[i]))
            kappa = mp.exp(kappa)
            square = total(kappa) + kappa * mp.diff(total, kappa)  # ΣL² = ΣL + κ dΣL/dκ
            assert_close(made.kappa[i], float(kappa), IDENTITY)
            assert_close(made.fitted[i], float(square / n), IDENTITY)
            assert_close(made.overfitting[i], float(n / (n - square)), IDENTITY)


def test_a_long_finite_power_law_tends_to_the_infinite_one() -> None:
    alpha, n = 1.5, np.array([3.0, 50.0])
    infinite = power_law_eigenlearning(alpha, n).kappa
    gaps = [np.abs(eigenlearning(np.arange(1.0, p + 1) ** -2.5, n).kappa / infinite - 1).max() for p in (10**4, 10**5)]
    # The modes left out weigh p^-α.
    assert gaps[1] < 1e-4 and gaps[0] / gaps[1] == pytest.approx(10**alpha, rel=0.05)


def test_a_million_eigenvalues_take_less_than_a_second(seed: int) -> None:
    rng = np.random.default_rng([seed, 5])
    spectra = np.arange(1.0, 1e6 + 1) ** -1.2, 10 ** rng.uniform(-20, 4, 10**6)
    for rho, n, ridge in ((spectra[0], 1e5, 0.0), (spectra[1], 9e5, 1e-3)):
        v = rng.normal(size=rho.size)
        seconds = []
        for _ in range(2):
            begin = time.process_time()  # of this process: others use the machine as well
            ds = learnability(rho, n, ridge, v, 0.3)
            seconds.append(time.process_time() - begin)
        assert_close(ds.learnability.sum() + ridge / ds.kappa, n, IDENTITY)
        assert min(seconds) < 1.0  # the bar
