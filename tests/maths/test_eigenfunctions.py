"""Spectra of features that are known by construction, and functions projected on them."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from richter.errors import ParameterError
from richter.maths.eigenfunctions import (
    GRAM_FLOOR,
    Method,
    effective_dimension,
    effective_dimension_of_intensity,
    eigenfunctions,
    in_chunks,
    moments,
    spectrum,
    spectrum_of_features,
)
from richter.maths.projections import (
    basis,
    class_indicators,
    class_mean_products,
    collapsed_products,
    cumulative,
    minimum_projection,
    minimum_projection_distance,
    minimum_projection_distance_from_moments,
    quality,
    shares_from_moments,
    utilisation,
)
from richter.refs import NAM24
from richter.testing.tolerances import IDENTITY, assert_close, assert_within_errors

EPS = float(np.finfo(float).eps)


def known_features(
    rng: np.random.Generator, n: int, rho: np.ndarray, p: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Features with intensities `rho` and the eigenfunctions (example, k) that they have, mean square 1."""
    p = rho.size if p is None else p
    e = np.linalg.qr(rng.normal(size=(n, rho.size)))[0] * np.sqrt(n)
    O = np.linalg.qr(rng.normal(size=(p, p)))[0][:, : rho.size]
    return (e * np.sqrt(rho)) @ O.T, e


@pytest.mark.place(NAM24["Eq. 1.16"], NAM24["Eq. 2.6"])
def test_the_effective_dimension_is_the_exponential_of_the_entropy(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    rho = np.sort(10 ** rng.uniform(-8, 3, (5, 12)))[:, ::-1]
    with mp.workdps(50):
        for row in rho:
            entropy = lambda values: mp.e ** -sum(v / sum(values) * mp.log(v / sum(values)) for v in values)
            exact = [mp.mpf(float(v)) for v in row]
            assert effective_dimension(row) == pytest.approx(float(entropy(exact)), rel=IDENTITY.rtol, abs=0)
            assert effective_dimension_of_intensity(row) == pytest.approx(
                1 + float(entropy(exact[1:])), rel=IDENTITY.rtol, abs=0
            )
    assert_close(effective_dimension(rho * 1e-250), effective_dimension(rho), IDENTITY)
    assert_close(effective_dimension([7.0] * 4 + [0.0] * 3), 4, IDENTITY)
    assert np.isnan(effective_dimension([0.0, 0.0])) and np.isnan(effective_dimension_of_intensity([0.0, 0.0]))
    assert effective_dimension_of_intensity([3.0]) == 1 == effective_dimension_of_intensity([3.0, 0.0])
    with pytest.raises(ParameterError, match=r"weights of an effective dimension must be finite and ≥ 0\. Got -1\.0\."):
        effective_dimension([2.0, -1.0])


@pytest.mark.place(NAM24["Algorithm 1"], NAM24["Eq. 1.33"])
@pytest.mark.parametrize("method", ["gram", "svd"])
def test_the_algorithm_finds_the_features_it_was_given(seed: int, method: Method) -> None:
    rng = np.random.default_rng([seed, 2])
    rho = np.array([9.0, 4.0, 1.0, 0.25, 1e-3])
    phi, e = known_features(rng, 300, rho, p=9)
    found = spectrum_of_features(phi, method)
    assert found.meaningful == 5
    np.testing.assert_allclose(found.intensity[:5], rho, rtol=1e-10)  # 1e-3/9 of the top in a Gram of 1e-16
    made = eigenfunctions(found, phi)
    signs = np.sign((made * e).mean(axis=0))
    np.testing.assert_allclose(made * signs, e, rtol=0, atol=1e-9)  # entries of size 1, gaps of size 1e-3
    # As printed (no √n) the mean square is 1/n.
    assert_close((made**2).mean(axis=0), np.ones(5), IDENTITY, times=1e3)  # smallest direction: 1e-4 of the top
    # Nyström: the same map on other points is the same function.
    again = eigenfunctions(found, phi[::-1][:7], count=2)
    np.testing.assert_array_equal(again.shape, (7, 2))
    np.testing.assert_allclose(again, made[::-1][:7, :2], rtol=0, atol=1e-12)  # entries of size 1


def test_the_algorithm_on_fresh_samples_converges_to_the_population() -> None:
    # Φ = (√3·2 x, 1) for x uniform on [−1, 1]: ρ = 4, 1, e = √3 x, 1.
    rng = np.random.default_rng(3)
    tops = []
    for _ in range(40):
        x = rng.uniform(-1, 1, 400)
        tops.append(spectrum_of_features(np.stack([2 * np.sqrt(3) * x, np.ones(400)], axis=1)).intensity.sum())
    assert_within_errors(np.array(tops), 5.0)


def test_a_stream_of_chunks_is_the_whole(seed: int) -> None:
    rng = np.random.default_rng([seed, 4])
    phi, y = rng.normal(size=(101, 7)), rng.normal(size=(101, 2))
    whole, parts = moments([(phi, y)]), moments(in_chunks(phi, y, 13))
    for name in ("gram", "total", "cross", "targets"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=0, atol=1e-12)  # sums of size 100
    assert parts.examples == 101


def test_where_the_tail_is_rounding_it_is_said_or_the_singular_values_take_over(seed: int) -> None:
    rng = np.random.default_rng([seed, 5])
    rho = np.logspace(0, -24, 25)
    phi, _ = known_features(rng, 400, rho)
    gram = spectrum_of_features(phi, "gram")
    assert gram.meaningful in (14, 15)  # the 15th is at the floor itself
    assert gram.floor == pytest.approx(GRAM_FLOOR, rel=1e-6)
    auto = spectrum_of_features(phi, "auto")
    assert auto.meaningful >= 24
    np.testing.assert_allclose(auto.intensity[:22], rho[:22], rtol=1e-4)  # 1e-21: 3e-11 of the top singular value
    assert spectrum_of_features(phi, "auto", work=0).meaningful == gram.meaningful


def test_features_without_rank_have_no_more_eigenfunctions_than_rank_control(seed: int) -> None:
    rng = np.random.default_rng([seed, 6])
    phi = rng.normal(size=(500, 3)) @ rng.normal(size=(3, 120)) + 0.0
    phi[:, 7] = 0
    methods: tuple[Method, ...] = ("gram", "svd", "auto")
    for method in methods:
        found = spectrum_of_features(phi, method)
        assert found.meaningful == 3
        assert found.directions[7].tolist() == [0, 0, 0]
    assert spectrum_of_features(rng.normal(size=(20, 50))).meaningful == 20
    assert spectrum(np.eye(50), 20).meaningful == 20
    assert spectrum_of_features(rng.normal(size=(50, 20))).meaningful == 20


def test_errors_of_spectra_say_what_to_do() -> None:
    with pytest.raises(ParameterError, match=r"the features must not all be 0\. Got 3 features that are 0"):
        spectrum_of_features(np.zeros((4, 3)))
    with pytest.raises(ParameterError, match=r"the features must not all be 0"):
        spectrum(np.zeros((3, 3)), 4)
    with pytest.raises(ParameterError, match=r"the features must be finite\. Got 1 of 2 entries that are not\."):
        spectrum_of_features([[1.0, np.nan]])
    with pytest.raises(ParameterError, match=r'`method` must be "auto", "gram" or "svd"\. Got lu\.'):
        spectrum_of_features([[1.0]], "lu")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"at least one example. Got none\."):
        moments([])
    with pytest.raises(ParameterError, match=r"one row per example, 2\. Got shape \(3, 1\)\."):
        moments([(np.ones((2, 2)), np.ones((3, 1)))])
    with pytest.raises(ParameterError, match=r"be an array \(example, feature\)"):
        spectrum_of_features(np.ones((2, 2, 2)))


@pytest.mark.place(NAM24["Eq. 2.1"], NAM24["Eq. 2.2"], NAM24["Eq. 2.3"], NAM24["Eq. 2.4"])
def test_quality_is_the_sum_of_squared_overlaps_and_adds_to_one_over_a_basis(seed: int) -> None:
    rng = np.random.default_rng([seed, 7])
    n, C = 60, 4
    f = class_indicators(np.arange(n) % C, C)
    np.testing.assert_allclose(f.T @ f / n, np.eye(C) / C, rtol=0, atol=1e-15)  # of size ¼
    _, e = known_features(rng, n, np.ones(n))
    Q = quality(e, f)
    np.testing.assert_allclose(Q, ((e.T @ f / n) ** 2).sum(axis=1), rtol=1e-9, atol=1e-14)  # of size 1/60
    assert cumulative(Q)[-1] == pytest.approx(1, abs=1e-13)
    # Unbalanced classes keep the sum; the sum of squared overlaps alone does not.
    g = class_indicators(np.minimum(np.arange(n) // 10, C - 1), C)
    assert quality(e, g).sum() == pytest.approx(1, abs=1e-13)
    assert quality(e, g) != pytest.approx(((e.T @ g / n) ** 2).sum(axis=1), rel=1e-3)
    with pytest.raises(ParameterError, match=r"labels must be whole numbers from 0 to 3, one per example\. Got"):
        class_indicators([4], 4)
    with pytest.raises(ParameterError, match=r"labels must be whole numbers .* Got float64 of shape"):
        class_indicators([0.5], 4)


@pytest.mark.place(NAM24["Eq. 1.30"], NAM24["Eq. 1.31"], NAM24["Eq. 1.32"], NAM24["Eq. 1.34"])
def test_quality_and_utilisation_of_one_function_are_its_squared_cosines(seed: int) -> None:
    rng = np.random.default_rng([seed, 21])
    _, e = known_features(rng, 50, np.ones(50))
    bent = e * rng.uniform(0.5, 2.0, 50)  # of any size, as on a test sample
    for shares in (quality, utilisation):
        f = rng.normal(size=50)
        by_hand = [(u @ f) ** 2 / ((u @ u) * (f @ f)) for u in bent.T]
        assert_close(shares(bent, f), by_hand, IDENTITY, scale=1.0)
        assert_close(shares(e, f), (e.T @ f / 50) ** 2 / np.mean(f**2), IDENTITY, scale=1.0)
        assert_close(cumulative(shares(bent, f)), np.cumsum(by_hand), IDENTITY, scale=1.0)


@pytest.mark.place(NAM24["Eq. 2.5"])
def test_utilisation_of_functions_that_are_not_orthogonal_adds_to_one(seed: int) -> None:
    rng = np.random.default_rng([seed, 8])
    n = 50
    _, e = known_features(rng, n, np.ones(n))
    f = rng.normal(size=(n, 3)) @ np.diag([1.0, 1e-6, 1e3])
    f[:, 2] += 1e6 * f[:, 0]
    G = f.T @ f / n
    with mp.workdps(60):
        exact = mp.matrix(f.tolist())
        G_inverse = np.array((mp.inverse(exact.T * exact) * n).tolist(), dtype=float)
    printed = ((e.T @ f / n) ** 2 / np.diag(G)).sum(axis=1) / 3  # "analogous to Eq. 2.3"
    right = np.einsum("ki,ij,kj->k", e.T @ f / n, G_inverse, e.T @ f / n) / 3
    made = utilisation(e, f)
    np.testing.assert_allclose(made, right, rtol=0, atol=1e-5)  # the witness' terms are 1e6 times larger than their sum
    assert made.sum() == pytest.approx(1, abs=1e-9)
    assert abs(printed.sum() - 1) < 1e-12 and np.abs(printed - made).max() > 1e-3
    assert (made**2).sum() < 0.9  # the printed square
    # Dependent components lower the dimension instead of dividing by zero.
    assert basis(np.stack([f[:, 0], 3 * f[:, 0], np.zeros(n)], axis=1)).shape == (n, 1)
    assert np.isnan(utilisation(np.zeros((n, 1)), f)).all()
    with pytest.raises(ParameterError, match=r"functions to project on must be finite and not all 0"):
        basis(np.zeros((3, 2)))


def test_streamed_shares_are_the_held_ones(seed: int) -> None:
    rng = np.random.default_rng([seed, 9])
    train, test = rng.normal(size=(200, 12)) + 1, rng.normal(size=(150, 12)) + 1
    f, g = class_indicators(rng.integers(0, 3, 150), 3), rng.normal(size=(150, 2))
    found = spectrum_of_features(train)
    e = eigenfunctions(found, test)
    seen = moments(in_chunks(test, np.concatenate([f, g], axis=1), 40))
    np.testing.assert_allclose(
        shares_from_moments(found, seen, slice(0, 3)), quality(e, f), rtol=1e-9, atol=1e-14
    )  # of size 0.1
    np.testing.assert_allclose(
        shares_from_moments(found, seen, slice(3, None)), utilisation(e, g), rtol=1e-9, atol=1e-14
    )  # of size 0.1
    held = minimum_projection_distance(test, g)
    assert minimum_projection_distance_from_moments(seen, slice(3, None)) == pytest.approx(held, abs=1e-12)


@pytest.mark.place(NAM24["Eq. 2.8"], NAM24["Definition 1"])
def test_the_minimum_projection_operator_has_its_two_eigenvalues(seed: int) -> None:
    rng = np.random.default_rng([seed, 10])
    n, C, a1, a2 = 40, 4, 2.5, 0.7
    f = class_indicators(np.arange(n) % C, C)
    T = minimum_projection(f @ rng.normal(size=(C, C)), a1, a2) / n
    np.testing.assert_allclose(T @ np.ones(n), (a1 + a2) * np.ones(n), rtol=1e-10)  # a random mixture of condition 1e3
    values = np.sort(np.linalg.eigvalsh(T))[::-1]
    np.testing.assert_allclose(values[: C + 1], [a1 + a2, a2, a2, a2, 0], rtol=0, atol=1e-10)  # of size 1


@pytest.mark.place(NAM24["Eq. 2.9"], NAM24["Definition 2"])
def test_the_distance_is_the_definition_by_centred_operators(seed: int) -> None:
    rng = np.random.default_rng([seed, 11])
    n, C = 48, 4
    f = class_indicators(np.arange(n) % C, C)
    c = np.eye(n) - np.ones((n, n)) / n

    def defined(kernel: np.ndarray, learned: np.ndarray, a1: float, a2: float) -> float:
        A, B = c @ kernel @ c, c @ minimum_projection(learned, a1, a2) @ c
        return float(1 - np.trace(A @ B) / (np.linalg.norm(A) * np.linalg.norm(B)))

    for p in (9, 90):
        phi = rng.normal(size=(n, p)) + 2
        learned = f + 0.1 * rng.normal(size=(n, C))
        for a1, a2 in ((0.0, 1.0), (5.0, 0.3)):
            assert minimum_projection_distance(phi, learned) == pytest.approx(
                defined(phi @ phi.T, learned, a1, a2), abs=1e-12
            )
    assert np.isnan(minimum_projection_distance(np.ones((n, 2)), f))


@pytest.mark.place(
    NAM24["Eq. 2.15"], NAM24["Eq. 2.16"], NAM24["Eq. 2.17"], NAM24["Eq. 2.18"], NAM24["Eq. D.14"], NAM24["Eq. D.17"]
)
def test_products_of_class_means_follow_from_the_kernel(seed: int) -> None:
    rng = np.random.default_rng([seed, 12])
    n, C = 30, 3
    labels = np.arange(n) % C
    phi, f = rng.normal(size=(n, 5)), class_indicators(labels, C)
    means = np.stack([phi[labels == i].mean(axis=0) for i in range(C)])
    K = phi @ phi.T
    np.testing.assert_allclose(class_mean_products(K, f), means @ means.T, rtol=1e-11, atol=1e-13)  # of size 1
    operator = f.T @ (K / n) @ f / n
    np.testing.assert_allclose(
        C**2 * operator, means @ means.T, rtol=1e-11, atol=1e-13
    )  # of size 1; printed: without C²


@pytest.mark.place(NAM24["Proposition 2.5.3"], NAM24["Eq. 2.19"], NAM24["Eq. D.12"], NAM24["Eq. D.23"])
def test_the_minimum_projection_operator_makes_a_simplex_of_the_class_means(seed: int) -> None:
    rng = np.random.default_rng([seed, 13])
    C, n = int(rng.integers(2, 8)), 120 * 7
    n -= n % C
    a1, a2 = rng.uniform(0.1, 3, 2)
    f = class_indicators(np.arange(n) % C, C)
    K = minimum_projection(f, a1, a2)
    T = lambda u: K @ u / n
    inner = lambda u, v: u.T @ v / n
    left = inner(C * f, T(C * f - 1))
    np.testing.assert_allclose(left, collapsed_products(C, a2), rtol=0, atol=1e-11)  # of size C a₂
    np.testing.assert_allclose(inner(np.ones((n, 1)), T(C * f - 1)), 0, rtol=0, atol=1e-12)  # of size a₁
    centring = np.eye(C) - 1 / C
    centred = centring @ class_mean_products(K, f) @ centring
    np.testing.assert_allclose(centred, collapsed_products(C, a2), rtol=0, atol=1e-11)  # of size C a₂
