"""Feature metrics of networks whose features are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from richter.errors import ParameterError
from richter.maths.projections import class_indicators
from richter.probes import (
    feature_metrics,
    features,
    filter_smoothness,
    minimum_projection_distance,
    neural_collapse,
    skill_strength,
)
from richter.testing.tolerances import assert_within_errors
from tests.probes.nets import mlp, small_cnn


def _x(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def test_a_streamed_model_has_the_metrics_of_its_arrays(seed: int) -> None:
    net, train, test = mlp(seed, (4, 9, 3)), _x(seed, 1300, 4), _x(seed + 1, 700, 4)
    y, z = np.arange(1300) % 3, (np.arange(700) + 1) % 3
    made = features(net, train, y, test, z)
    with torch.no_grad():
        phi, phi_test, out, out_test = (t.numpy() for t in (net[:2](train), net[:2](test), net(train), net(test)))
    held = feature_metrics(phi, class_indicators(y, 3), out, (phi_test, class_indicators(z, 3), out_test))
    for name in held.data_vars:
        np.testing.assert_allclose(made[name], held[name], rtol=1e-8, atol=1e-12)  # shares of size 0.1
    assert made.attrs == {"examples": 1300, "test_examples": 700, "inner_products": "test"}
    # A loader of batches is the same stream; the layer can be named.
    loader = [(train[i : i + 100], None) for i in range(0, 1300, 100)]
    again = features(net, loader, torch.tensor(y), test, z, layer="1")
    np.testing.assert_allclose(again.quality, made.quality, rtol=1e-6, atol=1e-12)  # sums in another order
    assert features(net, train, y).attrs["inner_products"] == "train"
    assert features(net, train, np.minimum(y, 1)).imbalance == pytest.approx(2, rel=0.01)


def test_on_its_own_examples_the_shares_of_a_complete_basis_add_to_one(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    phi = rng.normal(size=(12, 12))
    made = feature_metrics(phi, class_indicators(np.arange(12) % 3, 3), rng.normal(size=(12, 3)))
    assert made.cumulative_quality[-1] == pytest.approx(1, abs=1e-9)
    assert made.cumulative_utilisation[-1] == pytest.approx(1, abs=1e-9)
    # The network is linear in its features: they express all that is learned.
    narrow = mlp(seed, (4, 5, 2))
    with torch.no_grad():
        narrow[2].bias.zero_()
    made = features(narrow, _x(seed, 60, 4), _x(seed + 1, 60, 1))
    assert made.cumulative_utilisation[-1] == pytest.approx(1, abs=1e-9)
    assert np.isnan(made.imbalance) and made.dimension == 1


def test_minimum_features_are_seen_as_such_and_random_ones_are_not_control(seed: int) -> None:
    rng = np.random.default_rng([seed, 2])
    C, n, p = 5, 400, 64
    y = np.arange(n) % C
    f = class_indicators(y, C)
    frame = np.linalg.qr(rng.normal(size=(p, C)))[0].T
    tight = feature_metrics(f @ frame, f, f)
    assert tight.minimum_projection_distance < 1e-12
    assert tight.effective_dimension_utilisation == pytest.approx(C, rel=1e-9)
    assert tight.effective_dimension_intensity == pytest.approx(C, rel=1e-9)
    assert tight.meaningful == C and tight.cumulative_quality[C - 1] == pytest.approx(1, abs=1e-12)
    wide = feature_metrics(rng.normal(size=(n, p)), f, f)
    assert wide.minimum_projection_distance > 0.5
    assert wide.effective_dimension_intensity > 5 * C
    mixed = f @ frame + 3.0 + 0.0 * rng.normal(size=(n, p))
    assert feature_metrics(mixed, f, f).constant_overlap > 0.95
    assert minimum_projection_distance(mixed, f) < 1e-12


def test_the_raw_dimension_counts_the_first_feature_by_its_size() -> None:
    phi = np.sqrt(4) * np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0] * np.sqrt([100.0, 1, 1, 1e-30])
    made = feature_metrics(phi, np.ones(4), np.ones(4))
    assert made.effective_dimension_intensity == pytest.approx(3, rel=1e-6)
    assert made.effective_dimension_intensity_raw < 1.2


def test_errors_of_features_name_the_layer(seed: int) -> None:
    net, x = mlp(seed, (4, 3, 2)), _x(seed, 10, 4)
    with pytest.raises(ParameterError, match=r"the targets must have one row per example\. Got 9 rows for 10 examples"):
        features(net, x, np.arange(9) % 2)
    with pytest.raises(ParameterError, match=r"`test` and `test_targets` must be given together\. Got one of them\."):
        features(net, x, np.arange(10) % 2, x)
    with torch.no_grad():
        net[0].weight.zero_()
        net[0].bias.fill_(-1)
    with pytest.raises(ParameterError, match=r"the features must not all be 0\. Got 3 features that are 0"):
        features(net, x, np.arange(10) % 2)
    with torch.no_grad():
        net[0].weight[0] = np.nan
    for layer in (None, "1"):
        with pytest.raises(ParameterError, match=r"the values of layer `0` must be finite\. Got NaN or ∞\. Look for"):
            features(net, x, np.arange(10) % 2, layer=layer)


def test_collapse_is_given_per_layer(seed: int) -> None:
    rng = np.random.default_rng([seed, 3])
    y = np.arange(30) % 3
    simplex = np.eye(3)[y] - 1 / 3
    made = neural_collapse(
        {"early": simplex + rng.normal(size=(30, 3)), "late": simplex}, y, np.eye(3) - 1 / 3, np.zeros(3)
    )
    assert list(made) == ["early", "late"] and "duality" not in made["early"]
    assert {k for k, v in made["late"].items() if v > 1e-14} == {"imbalance"} and made["late"]["imbalance"] == 1
    assert made["early"]["within_over_between"] > 0.1


def test_filters_are_the_first_convolution_control(seed: int) -> None:
    net = small_cnn(seed)
    assert filter_smoothness(net).shape == (3, 2) and (filter_smoothness(net) > 0).all()
    with torch.no_grad():
        net[2].weight.fill_(2.0)
    assert (filter_smoothness(net, "2") < 1e-28).all() and filter_smoothness(net, "2", "same").min() > 0.1
    with pytest.raises(ParameterError, match=r"the model must have a Conv2d\. Got Sequential\."):
        filter_smoothness(mlp(seed))
    with pytest.raises(ParameterError, match=r"the layer `6` must be a Conv2d\. Got Linear\."):
        filter_smoothness(net, "6")


def test_skill_strength_is_an_unbiased_mean_with_its_error(seed: int) -> None:
    rng = np.random.default_rng([seed, 4])
    draws, errors = [], []
    for _ in range(200):
        k = rng.integers(0, 2, 100)
        g = rng.choice([-1.0, 1.0], 100)
        f = np.where(k == 0, 0.7, -0.2) * g + rng.normal(size=100)
        made = skill_strength(f, g, k)
        draws.append(made.value)
        errors.append(made.error)
    assert_within_errors(np.array(draws)[:, 0], 0.7)
    assert_within_errors(np.array(draws)[:, 1], -0.2)
    spread = np.std(draws, axis=0, ddof=1)
    assert np.mean(errors, axis=0) == pytest.approx(spread, rel=0.3)  # six standard errors of a spread over 200 draws
    whole = skill_strength(np.array([1.0, 2.0, 4.0]), np.array([[1.0, 0], [1, 0], [1, 1]]))
    assert whole.value == pytest.approx([7 / 3, 4 / 3]) and whole.error[0] == pytest.approx(np.sqrt(7 / 9))


def test_a_skill_that_is_not_learned_has_strength_zero_control() -> None:
    made = skill_strength([1.0, 1.0, -1.0, -1.0], [1.0, -1.0, 1.0, -1.0])
    assert made.value.tolist() == [0] and made.error[0] > 0
    gap: Any = skill_strength([1.0, 1.0], [1.0, 1.0], [2, 2])
    assert np.isnan(gap.value[:2]).all() and gap.value[2] == 1 and gap.examples.tolist() == [0, 0, 2]
    with pytest.raises(ParameterError, match=r"share their examples, one output each\. Got shapes \(2,\) and \(3,\)\."):
        skill_strength([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ParameterError, match=r"outputs and the basis must be finite\. Got NaN or ∞\."):
        skill_strength([np.nan], [1.0])
    with pytest.raises(ParameterError, match=r"`skill` must be a whole number ≥ 0 per example\. Got float64"):
        skill_strength([1.0], [1.0], [0.5])


class _Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(7, 4), nn.Linear(4, 7, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"hidden": self.embed(tokens), "logits": self.head(self.embed(tokens))}


def test_the_features_of_a_tied_head_are_what_it_reads(seed: int) -> None:
    torch.manual_seed(seed)
    net, tokens = _Tied(), torch.arange(7)
    made = features(net, tokens, np.arange(7))
    held = net.embed.weight.detach().double().numpy()
    assert made.sizes["mode"] == 4 and made.dimension == 7
    np.testing.assert_allclose(made.intensity.sum(), (held**2).mean(axis=0).sum(), rtol=1e-6)  # float32 network


def test_features_of_a_regression_by_one_feature(seed: int) -> None:
    # A last layer of one used feature: utilisation 1 in one mode, whatever the other features do.
    net: Any = nn.Sequential(nn.Linear(1, 3, bias=False), nn.Linear(3, 1, bias=False)).double()
    x = torch.linspace(-1, 1, 50).double()[:, None]
    made = features(net, x, x)
    assert made.meaningful == 1 and made.quality[0] == pytest.approx(1) == made.utilisation[0]
