"""The kernel is the explicit product of Jacobians, for every way in which parameters meet data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from richter.errors import ParameterError, UnknownNameError
from richter.probes import kernel_distance, ntk
from richter.training.networks import lenet5, mlp
from richter.training.transformers import gpt2
from tests.probes.tangent_nets import by_definition, zoo

NAMES = list(zoo(0))
FALLBACK = {
    "recurrent": ["head.parametrizations.weight.original0", "head.parametrizations.weight.original1"]
    + [f"inner.{kind}_{side}h_l0" for kind in ("weight", "bias") for side in "ih"],
    "unusual": [
        "act.weight",
        *(f"{layer}.{kind}" for layer in ("pair", "up", "volume") for kind in ("bias", "weight")),
    ],
}


def _off(K: Any, L: Any) -> float:
    return float(np.abs(np.asarray(K) - L).max() / np.abs(L).max())


@pytest.mark.parametrize("name", NAMES)
def test_the_kernel_is_the_product_of_jacobians(name: str, seed: int) -> None:
    model, x = zoo(seed)[name]
    state = {key: value.clone() for key, value in model.state_dict().items()}
    K = by_definition(model, x)
    full = ntk(model, x)
    assert full.shape == K.shape and full.dtype == np.float64
    assert _off(full, K) < 1e-12
    assert _off(ntk(model, x, outputs="trace"), np.einsum("nmcc->nm", K)) < 1e-12
    assert _off(ntk(model, x, outputs="diagonal"), np.einsum("nmcc->nmc", K)) < 1e-12
    assert _off(ntk(model, x[:3], x[1:]), K[:3, 1:]) < 1e-12
    assert _off(ntk(model, x[:1], x, outputs="trace"), np.einsum("nmcc->nm", K)[:1]) < 1e-12
    listed = sorted(part.split(":")[0] for part in full.attrs["fallback"].split("; ") if part)
    assert listed == sorted(FALLBACK.get(name, []))
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("name", NAMES)
def test_single_precision_is_good_to_five_digits(name: str, seed: int) -> None:
    model, x = zoo(seed)[name]
    K = by_definition(model, x)
    model.float()
    x = x.float() if x.dtype.is_floating_point else x
    assert _off(ntk(model, x), K) < 1e-5
    assert _off(ntk(model, x, outputs="trace"), np.einsum("nmcc->nm", K)) < 1e-5
    exact = ntk(model, x, precision="float64")
    assert _off(exact, by_definition(model.double(), x.double() if x.dtype.is_floating_point else x)) < 1e-12
    assert exact.attrs["precision"] == "float64" and all(p.dtype == torch.float64 for p in model.parameters())


def test_the_sum_over_outputs_is_another_kernel_control(seed: int) -> None:
    """The kernel of Σ_c f_c, which some software returns, is not the trace."""
    model, x = zoo(seed)["lenet5"]
    K = by_definition(model, x)
    trace = ntk(model, x, outputs="trace")
    summed = K.sum((2, 3))
    assert _off(trace, summed) > 0.05
    assert kernel_distance(np.asarray(trace), summed) > 1e-3


def test_rates_weigh_parameters_by_name_layer_and_pattern(seed: int) -> None:
    model, x = zoo(seed)["lenet5"]
    rates = {"*": 0.5, "*.bias": 2.0, "conv2": 3.0, "layer3.weight": 0.0, "layer5.bias": 7.0}
    each = {name: 0.5 for name, _ in model.named_parameters()}
    each |= {name: 2.0 for name in each if name.endswith("bias")}
    each |= {"conv2.weight": 3.0, "conv2.bias": 3.0, "layer3.weight": 0.0, "layer5.bias": 7.0}
    assert _off(ntk(model, x, rates=rates), by_definition(model, x, rates=each)) < 1e-12
    assert (
        _off(ntk(model, x, rates={"conv2": 3.0}) - ntk(model, x), 2 * ntk(model, x, rates={"*": 0, "conv2": 1})) < 1e-10
    )
    model.conv2.requires_grad_(False)
    each |= {"conv2.weight": 0.0, "conv2.bias": 0.0}
    assert _off(ntk(model, x, rates=rates), _with_all(model, lambda: by_definition(model, x, rates=each))) < 1e-12
    tied, tokens = zoo(seed)["tied transformer"]
    each = {name: 0.25 if name == "tokens.weight" else 1.0 for name, _ in tied.named_parameters()}
    assert _off(ntk(tied, tokens, rates={"tokens": 0.25}), by_definition(tied, tokens, rates=each)) < 1e-12
    with pytest.raises(UnknownNameError, match=r"no layer or parameter `conv9`\. Did you mean conv"):
        ntk(model, x, rates={"conv9": 1.0})
    with pytest.raises(ParameterError, match=r"the learning rate of conv2 must be finite and ≥ 0\. Got -1\.0\."):
        ntk(model, x, rates={"conv2": -1.0})


def _with_all(model: nn.Module, work: Any) -> Any:
    frozen = [p for p in model.parameters() if not p.requires_grad]
    for p in frozen:
        p.requires_grad_(True)
    try:
        return work()
    finally:
        for p in frozen:
            p.requires_grad_(False)


class _At(nn.Module):
    def __init__(self, model: nn.Module, positions: list[int]) -> None:
        super().__init__()
        self.model, self.positions = model, positions

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x)[:, self.positions]


def test_outputs_of_a_sequence_at_chosen_positions(seed: int) -> None:
    model, x = zoo(seed)["tied transformer"]
    assert ntk(model, x).shape == (4, 4, 21, 21)
    for positions in (-1, [0], [0, 2]):
        K = by_definition(_At(model, [positions] if isinstance(positions, int) else positions), x)
        found = ntk(model, x, positions=positions)
        assert found.shape == K.shape and _off(found, K) < 1e-12
    with pytest.raises(ParameterError, match=r"`positions` must be whole numbers from -3 to 2\. Got 3\."):
        ntk(model, x, positions=3)
    with pytest.raises(ParameterError, match=r"must have positions, .* Leave out positions\."):
        ntk(*zoo(seed)["mlp"], positions=0)


def test_the_kernel_drives_the_outputs(seed: int) -> None:
    """A small step of gradient descent changes the outputs by −step · K · residual."""
    model, x = zoo(seed)["convolutions"]
    y = torch.randn(4, 2, dtype=torch.float64)
    f = model(x)
    K = np.asarray(ntk(model, x))
    expected = -np.einsum("nmcd,md->nc", K, (f - y).detach().numpy())
    (0.5 * ((f - y) ** 2).sum()).backward()
    changes = []
    for sign in (1, -1):
        with torch.no_grad():
            for p in model.parameters():
                p.sub_(sign * 1e-6 * p.grad)
        changes.append(model(x).detach().numpy())
        with torch.no_grad():
            for p in model.parameters():
                p.add_(sign * 1e-6 * p.grad)
    assert _off((changes[0] - changes[1]) / 2e-6, expected) < 1e-6


def test_the_kind_is_part_of_the_kernel(seed: int) -> None:
    model, x = zoo(seed)["mlp"]
    full, trace = ntk(model, x), ntk(model, x, outputs="trace")
    assert (full.name, trace.name, trace.attrs["kind"]) == ("ntk_full", "ntk_trace", "trace")
    assert full.dims == ("example", "example_2", "output", "output_2")
    with pytest.raises(ParameterError, match=r"must be of one kind\. Got full and trace\."):
        kernel_distance(full, trace)
    with pytest.raises(ParameterError, match=r"`outputs` must be one of full, trace, diagonal, sketch\. Got sum\."):
        ntk(model, x, outputs="sum")  # type: ignore[arg-type]


def test_errors_name_the_layer() -> None:
    x = torch.randn(3, 4)
    dropout = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5)).train()
    with pytest.raises(ParameterError, match=r"whose layer `1` draws at random in training, must be in evaluation"):
        ntk(dropout, x)
    norm = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).train()
    with pytest.raises(ParameterError, match=r"layer `1`, which takes its statistics from the batch, must be in eval"):
        ntk(norm, x)
    net = mlp(4, [3, 3], 2)
    with pytest.raises(
        ParameterError, match=r"batch must be of the model's type, torch\.float32\. Got torch\.float64\."
    ):
        ntk(net, x.double())
    with pytest.raises(ParameterError, match=r"batch must be on the model's device, cpu\. Got meta\."):
        ntk(net, x.to("meta"))
    with torch.no_grad():
        net.get_parameter("layer2.weight")[0, 0] = float("nan")
    with pytest.raises(ParameterError, match=r"values of layer `layer2` must be finite\. Got NaN or ∞\."):
        ntk(net, x)
    with pytest.raises(ParameterError, match=r"^the input must be finite\."):
        ntk(mlp(4, [3], 2), x * float("inf"))
    with pytest.raises(ParameterError, match=r"output of `the model` must be a tensor\. Got str\."):
        ntk(_Returns("text"), x)
    with pytest.raises(ParameterError, match=r"output must have 2 examples first\. Got shape \(\)\."):
        ntk(_Returns(None), x)


class _Returns(nn.Module):
    def __init__(self, what: Any) -> None:
        super().__init__()
        self.w, self.what = nn.Linear(4, 2), what

    def forward(self, x: torch.Tensor) -> Any:
        return self.what or self.w(x).sum()


def test_examples_that_mix_are_refused(seed: int) -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.w(x - x.mean(0))

    with pytest.raises(ParameterError, match=r"for one example must not depend on the others in the batch\."):
        ntk(Mixed(), torch.randn(5, 4))


def test_any_surroundings_give_the_same_kernel(seed: int) -> None:
    model, x = zoo(seed)["mlp"]
    K = np.asarray(ntk(model, x))
    with torch.no_grad():
        assert _off(ntk(model, x), K) == 0
    with torch.inference_mode():
        assert _off(ntk(model, x.clone()), K) == 0


def test_a_model_that_changes_its_way_falls_back_as_a_whole(seed: int) -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 2), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.a(x) if x.shape[0] < 4 else self.a(x) + 0 * self.b(x)

    model, x = Branches().double(), torch.randn(5, 4).double()
    found = ntk(model, x)
    assert "takes another way" in found.attrs["fallback"]
    assert _off(found, by_definition(model, x)) < 1e-12


def test_large_pieces_of_the_library_run_at_their_types(seed: int) -> None:
    model = gpt2(layers=1, d=16, heads=2, context=8, vocabulary=11, rng=seed)
    assert ntk(model, torch.randint(0, 11, (5, 8)), outputs="trace", positions=-1).shape == (5, 5)
    half = lenet5(rng=seed).to(torch.bfloat16)
    coarse = ntk(half, torch.randn(3, 1, 28, 28, dtype=torch.bfloat16), outputs="trace")
    assert np.isfinite(coarse.values).all()
