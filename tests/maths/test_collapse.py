"""Neural collapse on simplices that are constructed, and off them."""

from __future__ import annotations

import numpy as np
import pytest

from richter.errors import ParameterError
from richter.maths import collapse
from richter.maths.eigenfunctions import spectrum_of_features
from richter.maths.projections import class_indicators, minimum_projection, minimum_projection_distance
from richter.refs import NAM24

SMALL = 1e-14  # what is 0 on a collapsed network


def simplex(rng: np.random.Generator, C: int, p: int) -> np.ndarray:
    """C unit vectors (class, feature) with cosines −1/(C − 1)."""
    frame = np.linalg.qr(rng.normal(size=(p, C)))[0].T
    return np.sqrt(C / (C - 1)) * (np.eye(C) - 1 / C) @ frame


def collapsed(rng: np.random.Generator, C: int, p: int, each: int) -> tuple[collapse.Classes, np.ndarray]:
    M = simplex(rng, C, p)
    labels = rng.permutation(np.repeat(np.arange(C), each))
    return collapse.sort_into_classes((M + rng.normal(size=p))[labels], labels), M


@pytest.mark.place(NAM24["Eq. D.2"], NAM24["Eq. D.3"], NAM24["Eq. D.4"], NAM24["Eq. D.5"])
def test_means_and_scatters_are_their_definitions(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    labels = rng.permutation(np.repeat([3, 5, 9], [4, 7, 11]))
    h = rng.normal(size=(22, 6))
    of = collapse.sort_into_classes(h, labels)
    means = np.stack([h[labels == k].mean(axis=0) for k in (3, 5, 9)])
    np.testing.assert_allclose(of.means, means, rtol=0, atol=1e-14)  # of size 1
    np.testing.assert_allclose(of.centre, means.mean(axis=0), rtol=0, atol=1e-14)  # not the mean of the examples
    within = sum(np.outer(d, d) for k, m in zip((3, 5, 9), means, strict=True) for d in h[labels == k] - m) / 22
    between = sum(np.outer(m - of.centre, m - of.centre) for m in means) / 3
    np.testing.assert_allclose(collapse.within_scatter(of), within, rtol=0, atol=1e-14)  # of size 1
    np.testing.assert_allclose(collapse.between_scatter(of), between, rtol=0, atol=1e-14)  # of size 1
    assert of.imbalance == 11 / 4


@pytest.mark.place(NAM24["Eq. D.6"], NAM24["Eq. 2.10"], NAM24["Eq. D.24"])
def test_the_first_condition_is_its_definition_by_matrices(seed: int) -> None:
    rng = np.random.default_rng([seed, 2])
    labels = np.arange(40) % 4
    of = collapse.sort_into_classes(rng.normal(size=(40, 9)) + 3 * rng.normal(size=(4, 9))[labels], labels)
    W, B = collapse.within_scatter(of), collapse.between_scatter(of)
    defined = np.trace(W @ np.linalg.pinv(B, rcond=1e-10)) / 4
    assert collapse.within_over_between(of) == pytest.approx(defined, rel=1e-10)
    assert collapse.within_quotient(of) == pytest.approx(np.trace(W) / np.trace(B), rel=1e-12)
    assert collapse.within_times_between(of) == pytest.approx(np.trace(W @ B) / np.trace(B) ** 2, rel=1e-12)


def test_the_nearest_mean_and_the_duality_are_their_definitions(seed: int) -> None:
    rng = np.random.default_rng([seed, 7])
    labels = np.arange(90) % 3
    of = collapse.sort_into_classes(
        rng.normal(size=(90, 4)) + 7 + rng.normal(size=(3, 4))[labels] * [[1, 2, 3, 4]], labels
    )
    weight, bias = rng.normal(size=(3, 4)), 5 * rng.normal(size=3)
    nearest = np.linalg.norm(of.features[:, None] - of.means[None], axis=2).argmin(axis=1)
    said = (of.features @ weight.T + bias).argmax(axis=1)
    assert collapse.disagreement(of, weight, bias) == pytest.approx((nearest != said).mean(), abs=1e-15)
    assert collapse.disagreement(of, of.means, -(of.means**2).sum(axis=1) / 2) == 0
    unit = lambda v: v / np.linalg.norm(v)
    gaps = [np.linalg.norm(unit(weight[i]) - unit(of.means[i] - of.centre)) for i in range(3)]
    np.testing.assert_allclose(collapse.duality_gap(of, weight), gaps, rtol=1e-12)


@pytest.mark.place(NAM24["Eq. D.7"], NAM24["Eq. D.8"], NAM24["Eq. D.9"])
@pytest.mark.parametrize("C", [2, 3, 10, 100])
def test_a_constructed_simplex_is_collapsed(seed: int, C: int) -> None:
    rng = np.random.default_rng([seed, 3, C])
    of, M = collapsed(rng, C, 128, 5)
    assert collapse.within_over_between(of) < SMALL
    assert collapse.within_quotient(of) < SMALL
    assert collapse.within_times_between(of) < SMALL
    assert collapse.equinorm(of) < SMALL
    assert collapse.equiangle(of) < SMALL
    assert collapse.duality_gap(of, 7 * M).max() < SMALL
    assert collapse.disagreement(of, M, -M @ of.centre) == 0


def test_features_off_the_simplex_are_not_collapsed_control(seed: int) -> None:
    rng = np.random.default_rng([seed, 4])
    of, M = collapsed(rng, 5, 20, 8)
    spread = collapse.sort_into_classes(of.features + 0.1 * rng.normal(size=of.features.shape), of.labels)
    assert collapse.within_over_between(spread) > 1e-3 < collapse.within_quotient(spread)
    assert collapse.within_times_between(spread) > 1e-3
    bent = collapse.sort_into_classes(of.features * np.linspace(1, 2, 20), of.labels)
    assert collapse.equinorm(bent) > 1e-3 < collapse.equiangle(bent)
    assert collapse.duality_gap(of, M[::-1]).max() > 0.1
    assert collapse.disagreement(of, M[[1, 0, 2, 3, 4]], None) > 0.1
    # Spread across the means is invisible to the product (2.10), not to the quotient: they are three numbers.
    across = np.linalg.svd(of.centred)[2][-1]
    wide = collapse.sort_into_classes(of.features + rng.normal(size=(40, 1)) * across, of.labels)
    wide = collapse.Classes(
        wide.features - wide.centred[wide.labels] @ np.outer(across, across),
        of.labels,
        *(lambda o: (o.means, o.centre, o.counts))(of),
    )
    assert collapse.within_times_between(wide) < 1e-6 < 0.01 < collapse.within_quotient(wide)


@pytest.mark.place(NAM24["Proposition 2.5.1"], NAM24["Proposition 2.5.2"], NAM24["Eq. 2.11"], NAM24["Eq. D.34"])
def test_minimum_projection_features_are_collapsed(seed: int) -> None:
    # Features whose kernel is T_MP, in any basis: NC1 and NC2 follow, and with a dual last layer NC3 and NC4.
    rng = np.random.default_rng([seed, 5])
    C, each, p = int(rng.integers(2, 12)), 6, 40
    labels = np.arange(C * each) % C
    K = minimum_projection(class_indicators(labels, C), *rng.uniform(0.1, 4, 2))
    values, vectors = np.linalg.eigh(K)
    phi = (vectors[:, -C:] * np.sqrt(values[-C:])) @ np.linalg.qr(rng.normal(size=(p, C)))[0].T
    assert minimum_projection_distance(phi, class_indicators(labels, C)) < SMALL
    of = collapse.sort_into_classes(phi, labels)
    assert collapse.within_over_between(of) < SMALL
    assert collapse.within_times_between(of) < SMALL
    assert collapse.equinorm(of) < 2 * SMALL and collapse.equiangle(of) < 2 * SMALL  # behind an eigendecomposition
    # The last layer that makes the indicators with least norm on centred features is dual to the means.
    weight = np.linalg.lstsq(phi - of.centre, class_indicators(labels, C) - 1 / C, rcond=1e-8)[0].T
    assert collapse.duality_gap(of, weight).max() < 1e-12
    assert collapse.disagreement(of, weight, 1 / C - weight @ of.centre) == 0
    assert spectrum_of_features(phi).meaningful == C


def test_features_that_use_more_than_the_minimum_are_not_collapsed_control(seed: int) -> None:
    rng = np.random.default_rng([seed, 6])
    labels = np.arange(60) % 3
    phi = np.concatenate([class_indicators(labels, 3), 0.3 * rng.normal(size=(60, 5))], axis=1)
    assert minimum_projection_distance(phi, class_indicators(labels, 3)) > 1e-3
    assert collapse.within_over_between(collapse.sort_into_classes(phi, labels)) > 1e-3


def test_errors_and_undefined_values_of_collapse() -> None:
    same = collapse.sort_into_classes([[1.0], [1.0]], [0, 1])
    assert np.isnan(collapse.within_over_between(same)) and np.isnan(collapse.within_quotient(same))
    assert np.isnan(collapse.within_times_between(same)) and np.isnan(collapse.equinorm(same))
    assert collapse.within_quotient(collapse.sort_into_classes([[1.0], [3.0], [2.0]], [0, 0, 1])) == np.inf
    with pytest.raises(ParameterError, match=r"labels must name at least two classes\. Got only class 4\."):
        collapse.sort_into_classes([[1.0]], [4])
    with pytest.raises(ParameterError, match=r"labels must be 1 whole numbers, one per example\. Got float64"):
        collapse.sort_into_classes([[1.0]], [0.5])
    with pytest.raises(ParameterError, match=r"features must be finite numbers \(example, feature\)\. Got NaN or ∞\."):
        collapse.sort_into_classes([[np.nan]], [0])
    with pytest.raises(ParameterError, match=r"weight of the last layer must have the shape \(2, 1\)\. Got \(3, 1\)\."):
        collapse.duality_gap(same, np.ones((3, 1)))
