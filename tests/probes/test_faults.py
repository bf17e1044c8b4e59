"""Every probe of a model says in one line what is wrong with it, and where."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from richter.errors import ParameterError, RichterError, UnknownNameError
from richter.probes import (
    activation_regions,
    compare_kernels,
    conserved,
    features,
    filter_smoothness,
    hamming_distance,
    layer_alignment,
    ntk,
    representation_drift,
    start,
)
from richter.training.networks import lenet5, mlp

LABELS = torch.arange(6) % 3
PROBES: dict[str, Callable[[Any, Any], Any]] = {
    "ntk": lambda model, x: ntk(model, x),
    "compare_kernels": lambda model, x: compare_kernels(model, model, x),
    "features": lambda model, x: features(model, x, LABELS),
    "start": lambda model, x: start(model, x),
    "hamming_distance": lambda model, x: hamming_distance(model, x, start(net(), torch.ones(6, 4))),
    "representation_drift": lambda model, x: representation_drift(model, x, start(net(), torch.ones(6, 4))),
    "activation_regions": lambda model, x: activation_regions(model, x[0], x[:2]),
    "layer_alignment": lambda model, x: layer_alignment(model, x),
    "conserved": lambda model, x: conserved(model, batch=x),
}
OF_WEIGHTS = ("layer_alignment", "conserved")  # the batch only tells them in which order layers run


def net() -> Any:
    return mlp(4, [5, 5], 3)


def diverged(layer: str, to: float) -> Any:
    model = net()
    with torch.no_grad():
        model.get_parameter(f"{layer}.weight")[0] = to
    return model


class Text(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> str:
        return str(self.inner(x))


def said(probe: str, model: Any, x: Any) -> str:
    with pytest.raises(RichterError) as caught:
        PROBES[probe](model, x)
    text = str(caught.value)
    assert "\n" not in text and len(text) < 300
    return text


@pytest.mark.parametrize("probe", PROBES)
def test_a_layer_that_has_diverged_is_named(probe: str) -> None:
    x = torch.ones(6, 4)
    pattern = r"`(layer2|layer2\.weight|act2)` must be finite\. Got (NaN|∞|1 of|5 of|\d of \d+)"
    assert re.search(pattern, said(probe, diverged("layer2", float("nan")), x))
    if probe not in OF_WEIGHTS:
        assert "must be finite" in said(probe, net(), x * float("nan"))
        # 10³⁸ twice: finite weights whose values are not.
        large = diverged("layer1", 3e38)
        with torch.no_grad():
            large.get_parameter("layer2.weight").fill_(3e38)
        assert re.search(r"`(layer1|layer2|act1|act2)` must be finite", said(probe, large, x))


@pytest.mark.parametrize("probe", PROBES)
def test_models_and_batches_that_cannot_be_measured_are_refused(probe: str) -> None:
    x = torch.ones(6, 4)
    noisy = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 3)).train()
    assert "whose layer `2` draws at random in training, must be in evaluation mode. Got training mode. Call" in said(
        probe, noisy, x
    )
    assert said(probe, net(), x.to("meta")) == (
        "the batch must be on the model's device, cpu. Got meta. Use batch.to('cpu')."
    )
    assert "the output of `the model` must be a tensor. Got str." in said(probe, Text(), x)
    assert re.search(r"must be a tensor.*\. Got ndarray\.", said(probe, net(), x.numpy()))


def test_a_layer_that_does_not_exist_is_refused_with_near_names() -> None:
    x = torch.ones(6, 4)
    for call in (
        lambda: features(net(), x, LABELS, layer="layr2"),
        lambda: start(net(), x, "layr2"),
        lambda: ntk(net(), x, rates={"layr2": 1.0}),
        lambda: conserved(net(), {"layr2": 1.0}),
    ):
        with pytest.raises(UnknownNameError, match=r"no layer (or parameter )?`layr2`\. Did you mean layer2\? Known: "):
            call()
    with pytest.raises(UnknownNameError, match=r"no layer `convv1`\. Did you mean conv1\?"):
        filter_smoothness(lenet5(), "convv1")


def test_features_that_are_zero_are_refused() -> None:
    model = net()
    with torch.no_grad():
        model.get_parameter("layer2.weight").zero_()
        model.get_parameter("layer2.bias").fill_(-1)
    with pytest.raises(ParameterError, match=r"the features must not all be 0\. Got 5 features that are 0 on every"):
        features(model, torch.ones(6, 4), LABELS)
