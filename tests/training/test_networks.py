"""The networks: their sizes, what they compute, and that their starts come from the seed alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")

import torch  # noqa: E402

from richter.errors import ParameterError  # noqa: E402
from richter.tasks import teacher_student  # noqa: E402
from richter.testing.tolerances import IDENTITY, assert_close, assert_within_errors  # noqa: E402
from richter.training import (  # noqa: E402
    gpt2,
    lenet5,
    mlp,
    modular_transformer,
    parameters,
    resnet8,
    resnet18,
    two_layer,
)
from richter.training.starts import torch_generator  # noqa: E402
from richter.training.transformers import Attention  # noqa: E402

SMALL: dict[str, Callable[..., Any]] = {
    "mlp": lambda rng: mlp(3, [4, 5], 2, rng=rng),
    "mlp, torch": lambda rng: mlp(3, [4], 2, start="torch", rng=rng),
    "lenet5": lambda rng: lenet5(rng=rng),
    "resnet8": lambda rng: resnet8(width=2, rng=rng),
    "resnet18": lambda rng: resnet18(width=2, rng=rng),
    "modular": lambda rng: modular_transformer(5, d=8, heads=2, hidden=8, rng=rng),
    "gpt2": lambda rng: gpt2(layers=2, d=8, heads=2, context=6, vocabulary=11, rng=rng),
}


def test_the_networks_have_the_published_sizes() -> None:
    assert parameters(lenet5()) == 61_706
    assert parameters(resnet18(width=64)) == 11_173_962  # the usual one for CIFAR-10
    assert parameters(resnet18()) == 701_466
    assert parameters(resnet8()) == 78_042
    p, d, hidden = 113, 128, 512
    assert parameters(modular_transformer()) == (p + 1 + 3) * d + 4 * d * d + 2 * d * hidden + hidden + d + d * p


def test_gpt2_has_its_size_and_a_sensible_start() -> None:
    model = gpt2()
    assert parameters(model) == 124_439_808
    with torch.no_grad():
        scores = model(torch.tensor([[1, 50256, 7]]))
        assert scores.shape == (1, 3, 50257)
        # Normed streams of 768 numbers against weights of 0.02: scores of variance 768 · 0.02².
        assert float(scores.std()) == pytest.approx(0.02 * math.sqrt(768), rel=0.05)


@pytest.mark.parametrize("name", SMALL)
def test_a_start_comes_from_its_seed_and_leaves_the_global_state(seed: int, name: str) -> None:
    before = torch.random.get_rng_state()
    one, same, other = SMALL[name](seed), SMALL[name](seed), SMALL[name](seed + 1)
    drawn = SMALL[name](np.random.default_rng(seed))
    assert torch.equal(torch.random.get_rng_state(), before)
    for key, value in one.state_dict().items():
        assert torch.equal(value, same.state_dict()[key])
    first = next(iter(one.parameters()))
    assert not torch.equal(first, next(iter(other.parameters()))) and drawn is not None
    torch.manual_seed(seed + 7)  # whatever the global state is
    again = SMALL[name](seed)
    torch.random.set_rng_state(before)
    assert all(torch.equal(v, again.state_dict()[k]) for k, v in one.state_dict().items())


@pytest.mark.parametrize(("rule", "gain"), [("he", 2.0), ("lecun", 1.0), ("torch", 1 / 3)])
def test_weights_have_the_variance_of_their_rule(seed: int, rule: Any, gain: float) -> None:
    layer = mlp(200, [50], 1, start=rule, scale=3.0, rng=seed).get_submodule("layer1")
    assert isinstance(layer, torch.nn.Linear)
    weights = layer.weight.detach().double().numpy().ravel() / 3
    assert_within_errors(weights, 0.0)
    assert_within_errors(weights**2, gain / 200)
    assert bool((layer.bias == 0).all()) == (rule != "torch")
    convolution = lenet5(start=rule, rng=seed).get_parameter("conv2.weight").detach().double().numpy().ravel()
    assert_within_errors(convolution**2, gain / (6 * 25))


def test_an_mlp_computes_its_formula(seed: int) -> None:
    model = mlp(6, [5, 4], 3, activation="tanh", start="torch", dtype=torch.float64, rng=seed)
    images = np.random.default_rng(seed).standard_normal((7, 1, 2, 3))
    w = {name: p.detach().numpy() for name, p in model.named_parameters()}
    h = np.tanh(images.reshape(7, 6) @ w["layer1.weight"].T + w["layer1.bias"])
    h = np.tanh(h @ w["layer2.weight"].T + w["layer2.bias"])
    expected = h @ w["layer3.weight"].T + w["layer3.bias"]
    assert_close(model(torch.tensor(images)).detach().numpy(), expected, IDENTITY, scale=1.0)
    assert not any(name.endswith("bias") for name, _ in mlp(6, [5], bias=False).named_parameters())


def test_a_two_layer_network_is_the_student(seed: int) -> None:
    made = teacher_student(9, d=4, width=6, rng=seed)
    start = made.student(0.5, 1.0)
    model = two_layer(np.abs(start.a), start.w, dtype=torch.float64)
    x = torch.tensor(made.task.inputs)
    expected = np.maximum(made.task.inputs @ start.w.T, 0) @ np.abs(start.a)
    assert_close(model(x).detach().numpy()[:, 0], expected, IDENTITY)
    assert_close(two_layer(start.a, start.w)(x.float()).detach().numpy(), np.zeros((9, 1)), IDENTITY, scale=1e6)  # f32
    assert two_layer(np.ones((3, 6)), start.w).get_parameter("layer2.weight").shape == (3, 6)


def test_lenet_and_resnets_take_their_images() -> None:
    for size in (28, 32):
        assert lenet5(channels=2, size=size, outputs=4)(torch.zeros(3, 2, size, size)).shape == (3, 4)
    shapes: list[tuple[int, ...]] = []
    model = resnet18(width=4).eval()
    for name, module in model.named_children():
        if name.startswith("stage"):
            module.register_forward_hook(lambda m, x, y: shapes.append(tuple(y.shape[1:])))
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert shapes == [(4, 32, 32)] * 2 + [(8, 16, 16)] * 2 + [(16, 8, 8)] * 2 + [(32, 4, 4)] * 2


def test_a_residual_block_without_its_inner_path_is_its_shortcut(seed: int) -> None:
    block = resnet8(width=3, rng=seed).get_submodule("stage1_block1").eval()
    torch.nn.init.zeros_(block.get_parameter("norm2.weight"))
    x = torch.rand(2, 3, 5, 5, generator=torch_generator(seed, "test"))
    assert torch.equal(block(x), x)


def test_attention_is_the_softmax_over_what_came_before(seed: int) -> None:
    generator = torch_generator(seed, "test")
    layer = Attention(6, 2, bias=False).double()
    for p in layer.parameters():
        torch.nn.init.normal_(p, generator=generator)
    x = torch.randn(1, 4, 6, generator=generator, dtype=torch.float64)
    query, key, value = (x[0] @ w.T for w in layer.query_key_value.weight.split(6))
    rows = torch.zeros(4, 6, dtype=torch.float64)
    for head in (slice(0, 3), slice(3, 6)):
        for i in range(4):
            weights = torch.softmax(query[i, head] @ key[: i + 1, head].T / math.sqrt(3), 0)
            rows[i, head] = weights @ value[: i + 1, head]
    expected = (rows @ layer.out.weight.T).detach().numpy()
    assert_close(layer(x)[0].detach().numpy(), expected, IDENTITY, scale=np.abs(expected).max())


def test_gpt2_does_not_look_ahead_and_its_output_weights_are_tied(seed: int) -> None:
    model = SMALL["gpt2"](seed)
    one, other = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[1, 2, 9, 10]])
    torch.testing.assert_close(model(one)[:, :2], model(other)[:, :2])
    assert not torch.allclose(model(one)[:, 2:], model(other)[:, 2:])
    alike = model(torch.tensor([[4, 4, 4]]))  # only the positions tell these tokens apart
    assert not torch.allclose(alike[:, 0], alike[:, 1]) and not torch.allclose(alike[:, 1], alike[:, 2])
    loss = model(one)[0, 0, 8]  # token 8 is not among the inputs: its gradient comes through the output weights
    loss.backward()
    assert float(model.tokens.weight.grad[8].abs().sum()) > 0


def test_the_modular_transformer_reads_every_token(seed: int) -> None:
    model = SMALL["modular"](seed)
    outputs = [model(torch.tensor([row])) for row in ([1, 2, 5], [3, 2, 5], [1, 3, 5], [2, 1, 5])]
    assert outputs[0].shape == (1, 5)
    assert all(not torch.allclose(outputs[0], other) for other in outputs[1:])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: mlp(3, [0]), "each of `widths` must be a whole number ≥ 1. Got 0."),
        (lambda: mlp(3, [4], activation="sine"), "`activation` must be one of relu, tanh, gelu, linear. Got sine."),
        (lambda: mlp(3, [4], scale=0.0), "`scale` of the start must be finite and > 0. Got 0.0."),
        (lambda: mlp(3, [4], start="xavier"), "`start` must be one of he, lecun, torch, gpt2. Got xavier."),  # type: ignore[arg-type]
        (lambda: two_layer([1.0], [[1.0], [2.0]]), r"must have a \(output, neuron\) and w \(neuron, input\). Got a of"),
        (lambda: lenet5(size=15), "`size` of LeNet-5 must be at least 16 pixels. Got 15."),
        (lambda: lenet5(activation="sine"), "`activation` must be one of"),
        (lambda: gpt2(d=10, heads=4), "`d` must be a multiple of the 4 heads. Got 10."),
        (lambda: gpt2(layers=0), "`layers` must be a whole number ≥ 1. Got 0."),
        (lambda: modular_transformer(1), "`modulus` must be a whole number ≥ 2. Got 1."),
        (lambda: resnet8(width=0), "`width` must be a whole number ≥ 1. Got 0."),
    ],
)
def test_wrong_networks_are_one_line(call: Callable[[], object], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        call()
