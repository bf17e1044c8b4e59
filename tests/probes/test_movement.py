"""Distances from a snapshot that are known by construction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from richter.errors import ParameterError
from richter.probes import (
    activation_regions,
    features,
    hamming_distance,
    parameter_distance,
    representation_drift,
    start,
)
from tests.probes.nets import ByHand, mlp, small_cnn, train


def _x(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def test_at_the_origin_nothing_has_moved_control(seed: int) -> None:
    for net, x in ((mlp(seed), _x(seed, 9, 4)), (small_cnn(seed), _x(seed, 9, 2, 8, 8))):
        origin = start(net, x)
        moved = parameter_distance(net, origin)
        assert moved.absolute == moved.relative == 0 and set(moved.layers.values()) == {(0.0, 0.0)}
        assert hamming_distance(net, x, origin).total == 0
        drifted = representation_drift(net, x, origin)
        assert abs(drifted.turned) < 1e-12 and drifted.changed == 0


def test_training_moves_everything_control(seed: int) -> None:
    net, x = mlp(seed), _x(seed, 30, 4)
    origin = start(net, (x, None))
    train(net, x, _x(seed + 1, 30, 2) * 5, 1e-2, 300)
    assert parameter_distance(net, origin).relative > 0.05
    assert hamming_distance(net, x, origin).total > 0.01
    drifted = representation_drift(net, x, origin)
    assert drifted.turned > 0.01 < drifted.changed


def test_parameter_distance_is_the_norm_of_the_difference_by_layer(seed: int) -> None:
    net, x = mlp(seed, (3, 4, 2)), _x(seed, 5, 3)
    origin = start(net, x)
    with torch.no_grad():
        net[0].weight += 2.0
        net[2].bias.copy_(net[2].bias + 1)
    moved = parameter_distance(net, origin)
    before = np.concatenate([p.ravel() for p in origin.parameters.values()])
    assert moved.absolute == pytest.approx(np.sqrt(12 * 4 + 2), rel=1e-13)
    assert moved.relative == pytest.approx(np.sqrt(12 * 4 + 2) / np.linalg.norm(before), rel=1e-13)
    assert list(moved.layers) == ["0", "2"]
    assert moved.layers["0"][0] == pytest.approx(np.sqrt(48), rel=1e-13)
    assert moved.layers["2"][0] == pytest.approx(np.sqrt(2), rel=1e-13)
    with pytest.raises(
        ParameterError, match=r"must have the parameters of the origin\. Got a difference in 0\.weight\."
    ):
        parameter_distance(mlp(seed, (4, 4, 2)), origin)
    zero: Any = nn.Linear(2, 1, bias=False).double()
    nn.init.zeros_(zero.weight)
    blank = start(nn.Sequential(nn.Linear(2, 2).double(), nn.ReLU(), zero), _x(seed, 4, 2))
    assert np.isnan(parameter_distance(nn.Sequential(nn.Linear(2, 2).double(), nn.ReLU(), zero), blank).layers["2"][1])


def test_a_flipped_neuron_is_counted_once_per_example() -> None:
    net: Any = nn.Sequential(nn.Linear(2, 4), nn.ReLU(inplace=True), nn.Linear(4, 3), nn.LeakyReLU(), nn.Linear(3, 1))
    x = torch.tensor([[1.0, 2.0], [3.0, 1.0], [0.5, 0.5]])
    with torch.no_grad():
        net[0].weight.fill_(1)
        net[0].bias.fill_(0)
    origin = start(net, x)
    with torch.no_grad():
        net[0].weight[1] = -1  # the output of neuron 1 falls to 0 on every example
        net[2].weight[:, 1] = 0
    found = hamming_distance(net, x, origin)
    assert found.layers["1"] == 3 / 12
    per_example = hamming_distance(net, x, origin, "neurons")
    assert per_example.layers["1"] == 1
    assert per_example.total == pytest.approx(found.total * 7) and per_example.normalised == "neurons"
    assert per_example.total == pytest.approx(sum(per_example.layers.values()))
    with pytest.raises(ParameterError, match=r'`normalised` must be "bits" or "neurons"\. Got units\.'):
        hamming_distance(net, x, origin, "units")  # type: ignore[arg-type]
    with pytest.raises(
        ParameterError, match=r"of the origin's examples\. Measure on the batch that `start` was given\."
    ):
        hamming_distance(net, x[:2], origin)
    with pytest.raises(ParameterError, match=r"of the origin's examples, shape \(3, 3\)\. Got \(2, 3\)\. Measure on"):
        representation_drift(net, x[:2], origin)


class _Functional(nn.Module):
    def __init__(self, net: Any) -> None:
        super().__init__()
        self.first, self.second, self.third = net[0], net[2], net[4]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.third(F.leaky_relu(self.second(F.relu(self.first(x)).clone()), 0.01))


def test_functional_activations_count_like_modules(seed: int) -> None:
    torch.manual_seed(seed)
    net: Any = nn.Sequential(nn.Linear(2, 9), nn.ReLU(), nn.Linear(9, 8), nn.LeakyReLU(), nn.Linear(8, 1)).double()
    x = _x(seed, 20, 2)
    same = _Functional(net)
    origins = start(net, x), start(same, x, "second")
    with torch.no_grad():
        net[0].weight += 0.5
    found = [hamming_distance(n, x, o) for n, o in zip((net, same), origins, strict=True)]
    assert found[0].total == found[1].total > 0
    assert list(found[1].layers) == ["model", "model#2"]


def test_a_turned_representation_has_not_drifted_but_changed(seed: int) -> None:
    net, x = mlp(seed, (4, 6, 2), nn.Identity), _x(seed, 40, 4)
    origin = start(net, x, "0")
    turn = torch.linalg.qr(_x(seed + 1, 6, 6))[0]
    with torch.no_grad():
        net[0].weight.copy_(turn @ net[0].weight)
        net[0].bias.copy_(turn @ net[0].bias)
    drifted = representation_drift(net, x, origin)
    assert abs(drifted.turned) < 1e-12 and drifted.changed > 0.1


def test_regions_of_neurons_through_a_plane_are_counted() -> None:
    net: Any = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU(), nn.Linear(2, 1))
    with torch.no_grad():
        net[0].weight.copy_(torch.eye(2))
    plane = torch.eye(2)
    found = activation_regions(net, torch.zeros(2), plane, resolution=10)
    assert found.at_least == 4 == found.labels.max() + 1
    expected = np.add.outer(2 * (np.arange(10) >= 5), np.arange(10) >= 5)
    np.testing.assert_array_equal(found.labels, expected)
    # A finer grid finds at least as much; one region far from every boundary.
    wide = mlp(3, (2, 30, 1))
    counts = [activation_regions(wide, torch.zeros(2).double(), plane.double(), 2.0, n).at_least for n in (5, 9, 33)]
    assert 1 < counts[0] <= counts[1] <= counts[2]
    assert activation_regions(net, torch.full((2,), 5.0), plane, resolution=5).at_least == 1
    with pytest.raises(ParameterError, match=r"directions must be two inputs, shape \(2, 2\)\. Got shape \(2,\)\."):
        activation_regions(net, torch.zeros(2), torch.ones(2))
    with pytest.raises(ParameterError, match=r"grid must have at least 2 points and extent > 0\. Got 1, 1\.0\."):
        activation_regions(net, torch.zeros(2), plane, resolution=1)
    with pytest.raises(
        ParameterError, match=r"have ReLU-like neurons\. Got none of them\. Linear networks have one region"
    ):
        activation_regions(nn.Linear(2, 1), torch.zeros(2), plane)
    with pytest.raises(ParameterError, match=r"the model must have ReLU-like neurons\. Got none of them\. Hamming"):
        hamming_distance(linear := nn.Linear(2, 1), torch.ones(4, 2), start(linear, torch.ones(4, 2)))


def test_a_network_without_modules_has_patterns(seed: int) -> None:
    net, x = ByHand(seed), _x(seed, 6, 4)
    origin = start(net, x)
    with torch.no_grad():
        net.b.add_(1)
    assert hamming_distance(net, x, origin).total > 0
    assert parameter_distance(net, origin).layers["b"][0] == pytest.approx(np.sqrt(6))
    with pytest.raises(ParameterError, match=r"origin must hold a representation\. Got none\. Name the layer: start\("):
        representation_drift(net, x, origin)
    with pytest.raises(ParameterError, match=r"last layer must be one module\. Got none\. Name the layer: layer='…'\."):
        features(net, x, x[:, 0])


def test_many_examples_pass_in_chunks_and_are_the_same(seed: int) -> None:
    net, x = mlp(seed), _x(seed, 1100, 4)
    origin, part = start(net, x), start(net, x[:100])
    assert all(np.array_equal(origin.patterns[k][:100], v) for k, v in part.patterns.items())
    assert origin.features is not None and origin.features.shape == (1100, 5)
