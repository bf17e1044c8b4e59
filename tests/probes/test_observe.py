"""Probes leave a model as they found it, and say in one line what is wrong."""

from __future__ import annotations

import copy
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from richter import probes
from richter.errors import ParameterError, RichterError, UnknownNameError
from tests.probes.nets import Attention, Residual, mlp

LABELS = np.arange(8) % 2


class _Draws(nn.Module):
    """Uses random numbers, and breaks if told to."""

    def __init__(self, breaks: bool = False) -> None:
        super().__init__()
        self.layer, self.norm, self.breaks = nn.Linear(3, 4), nn.BatchNorm1d(4), breaks
        self.last = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.norm(self.layer(x)) + torch.rand(1))
        assert not torch.is_grad_enabled(), "a probe needs no graph"
        if self.breaks:
            raise RuntimeError("broken on purpose")
        return self.last(h)


RUNS: dict[str, Callable[[Any, torch.Tensor], object]] = {
    "layer_alignment": lambda net, x: probes.layer_alignment(net, x),
    "conserved": lambda net, x: probes.conserved(net, batch=x),
    "start": lambda net, x: probes.start(net, x),
    "features": lambda net, x: probes.features(net, x, LABELS),
    "named features": lambda net, x: probes.features(net, x, LABELS, layer="layer"),
    "activation_regions": lambda net, x: probes.activation_regions(net, x[0], x[:2], resolution=4),
}


@pytest.mark.parametrize("breaks", [False, True])
@pytest.mark.parametrize("run", RUNS)
def test_the_model_is_left_as_it_was(run: str, breaks: bool) -> None:
    net, x = _Draws(breaks).train(), torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    net.last.eval()
    net.layer.weight.requires_grad_(False)
    before, state, flags = copy.deepcopy(net.state_dict()), torch.get_rng_state(), [m.training for m in net.modules()]
    grads = [p.requires_grad for p in net.parameters()]
    if breaks:
        with pytest.raises(RuntimeError, match="broken on purpose"):
            RUNS[run](net, x)
    else:
        RUNS[run](net, x)
    assert all(torch.equal(v, net.state_dict()[k]) for k, v in before.items())
    assert torch.equal(state, torch.get_rng_state())
    assert flags == [m.training for m in net.modules()] and grads == [p.requires_grad for p in net.parameters()]
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())
    assert torch.is_grad_enabled() and all(p.grad is None for p in net.parameters())


def test_a_network_without_noise_is_not_disturbed_by_its_own_batch_statistics_control() -> None:
    # The pass in training mode does move the running statistics; only the probe puts them back.
    net = _Draws().train()
    before = net.norm.running_mean.clone()  # type: ignore[union-attr]
    with torch.no_grad():
        net(torch.ones(4, 3))
    assert not torch.equal(before, net.norm.running_mean)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "layer", [nn.Dropout(0.5), nn.RReLU(), nn.MultiheadAttention(2, 1, dropout=0.1), nn.LSTM(2, 2, 2, dropout=0.1)]
)
def test_chance_in_training_mode_is_refused_by_name(layer: nn.Module) -> None:
    net: Any = nn.Sequential()
    net.add_module("first", nn.Linear(2, 2))
    net.add_module("noisy", layer)
    for probe in (probes.layer_alignment, probes.start):
        match = r"whose layer `noisy` draws at random in training, must be in evaluation mode\. Got training mode\. Call model\.eval\(\)"
        with pytest.raises(ParameterError, match=match):
            probe(net, torch.ones(4, 2))
    assert probes.layer_alignment(nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.0), nn.Linear(2, 2)).train())


def test_wrong_batches_and_layers_are_one_line() -> None:
    net, x = mlp(0), torch.ones(8, 4).double()
    cases: list[tuple[type[RichterError], str, Callable[[], object]]] = [
        (UnknownNameError, r"The model has no layer `3x`\. (Did you mean 3\? )?Known: 0, 1, 2, 3, 4\.", lambda: probes.start(net, x, "3x")),
        (ParameterError, r"batch must be a tensor or an \(inputs, labels\) pair of tensors\. Got list\.", lambda: probes.layer_alignment(net, [[1.0]])),
        (ParameterError, r"batch must have at least one example on its first axis\. Got shape \(0, 4\)\.", lambda: probes.layer_alignment(net, x[:0])),
        (ParameterError, r"batch must be on the model's device, cpu\. Got meta\. Use batch\.to\('cpu'\)\.", lambda: probes.start(net, x.to("meta"))),
        (ParameterError, r"batch must be a tensor or an \(inputs, labels\) pair of tensors\. Got int\.", lambda: probes.features(net, 3, LABELS)),
        (ParameterError, r"output of `block` must be a tensor\. Got tuple\. Name a layer that returns one tensor\.",
         lambda: probes.features(Attention(0).eval(), torch.arange(8)[:, None], LABELS, layer="block")),
        (ParameterError, r"the layer `idle` must be run by the model\. Got no call of it\.", lambda: probes.features(_idle(), x, LABELS, layer="idle")),
    ]  # fmt: skip
    for error, text, call in cases:
        with pytest.raises(error, match=text) as caught:
            call()
        assert "\n" not in str(caught.value)
    many = nn.Sequential(*[nn.Linear(1, 1) for _ in range(40)])
    with pytest.raises(UnknownNameError, match=r"no layer `3_` *\.") as caught:
        probes.start(many, torch.ones(4, 1), "3_")
    assert len(str(caught.value)) < 120


def _idle() -> nn.Module:
    net = Residual(0).eval()
    net.add_module("idle", nn.Linear(1, 1))
    return net


def test_nan_inside_is_said_with_the_layer() -> None:
    net = mlp(0)
    with torch.no_grad():
        net[2].weight[0, 0] = np.nan
    x = torch.ones(8, 4).double()
    with pytest.raises(ParameterError, match=r"the values of layer `2` must be finite\. Got NaN or ∞\."):
        probes.features(net, x, LABELS)
    with pytest.raises(ParameterError, match=r"the values of `2\.weight` must be finite\. Got 1 of 35"):
        probes.start(net, x)
    with pytest.raises(ParameterError, match=r"what goes into the neurons of `3` must be finite\. Got NaN or ∞\."):
        probes.activation_regions(net, x[0], x[:2], resolution=3)
    with pytest.raises(ParameterError, match=r"the values of layer `2` must be finite"):
        probes.features(net, x, LABELS, layer="1")


def test_without_torch_arrays_still_work_and_the_rest_says_what_is_missing() -> None:
    code = """
import sys
sys.modules["torch"] = None
import numpy as np
from richter import probes
assert not {"scipy", "xarray", "torch.nn"} & set(sys.modules), "something heavy was imported"
assert probes.skill_strength([1.0, 1.0], [1.0, 1.0]).value[0] == 1
assert probes.neural_collapse(np.eye(2), [0, 1])["within_quotient"] == 0
assert probes.feature_metrics(np.eye(2), np.eye(2), np.eye(2)).meaningful == 2
assert probes.minimum_projection_distance(np.eye(3), np.eye(3)) < 1e-14
from richter.errors import MissingExtraError
for call in (lambda: probes.layer_alignment(None), lambda: probes.conserved(None), lambda: probes.start(None, None),
             lambda: probes.features(None, None, [0, 1]), lambda: probes.filter_smoothness(None),
             lambda: probes.activation_regions(None, None, None), lambda: probes.hamming_distance(None, None, None)):
    try:
        call()
    except MissingExtraError as problem:
        assert str(problem).endswith("needs PyTorch: pip install 'richter[torch]'"), problem
    else:
        raise AssertionError("no error")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
