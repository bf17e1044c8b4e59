"""Alignment and conservation of consecutive layers against definitions written out, and along training."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from richter.errors import ParameterError, UnknownNameError
from richter.maths.layer_pairs import Rates, neuron_imbalance
from richter.probes import conserved, conserved_drift, layer_alignment, predicted_drift
from richter.testing.tolerances import IDENTITY, assert_close, assert_slope
from tests.probes.nets import Attention, ByHand, OutOfOrder, Residual, mlp, small_cnn, train


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().double().numpy()


def _zeta(product: np.ndarray, U: torch.Tensor, W: torch.Tensor) -> float:
    return float(np.linalg.norm(product) / (np.linalg.norm(_array(U)) * np.linalg.norm(_array(W))))


def test_alignment_of_linear_layers_is_the_definition(seed: int) -> None:
    net = mlp(seed)
    found = layer_alignment(net)
    assert list(found) == [("0", "2"), ("2", "4")] and found.excluded == {} and found.opaque == ()
    for first, second in found:
        W, U = net[int(first)].weight, net[int(second)].weight
        assert found[first, second] == pytest.approx(_zeta(_array(U @ W), U, W), rel=IDENTITY.rtol)
        assert found.between[first, second] == ("relu",)


def test_alignment_of_convolutions_sums_over_their_channels(seed: int) -> None:
    net = small_cnn(seed)
    found = layer_alignment(net)
    first, second, head = net[0].weight, net[2].weight, net[6].weight
    inner = np.einsum("omij,mckl->oijckl", _array(second), _array(first))
    assert found["0", "2"] == pytest.approx(_zeta(inner, second, first), rel=IDENTITY.rtol)
    outer = np.einsum("oms,mcij->oscij", _array(head).reshape(3, 4, 4), _array(second))
    assert found["2", "6"] == pytest.approx(_zeta(outer, head, second), rel=IDENTITY.rtol)
    assert found.between["2", "6"] == ("leaky_relu", "max_pool2d", "flatten")


def test_grouped_and_transposed_convolutions_and_views_are_matched(seed: int) -> None:
    torch.manual_seed(seed)
    net: Any = nn.Sequential(
        nn.Linear(3, 8), nn.ReLU(), nn.Unflatten(1, (4, 2)), nn.Conv1d(4, 6, 1, groups=2), nn.ReLU(),
        nn.ConvTranspose1d(6, 5, 2),
    ).double()  # fmt: skip
    found = layer_alignment(net)
    W, G, T = _array(net[0].weight), _array(net[3].weight), _array(net[5].weight)
    full = np.zeros((6, 4, 1))
    full[:3, :2], full[3:, 2:] = G[:3], G[3:]
    product = np.einsum("omk,msd->oksd", full, W.reshape(4, 2, 3))
    assert found["0", "3"] == pytest.approx(
        np.linalg.norm(product) / np.linalg.norm(full) / np.linalg.norm(W), rel=IDENTITY.rtol
    )
    product = np.einsum("mok,mcl->okcl", T, full)
    assert found["3", "5"] == pytest.approx(
        np.linalg.norm(product) / np.linalg.norm(full) / np.linalg.norm(T), rel=IDENTITY.rtol
    )


def test_the_order_is_that_of_execution(seed: int) -> None:
    found = layer_alignment(OutOfOrder(seed), torch.zeros(2, 3, dtype=torch.float64))
    assert list(found) == [("first", "middle"), ("middle", "last")] and found.opaque == ("idle.weight (not seen)",)
    with pytest.raises(
        ParameterError, match=r"of a shape that its first layer tells\. Give a batch of inputs: batch=x\."
    ):
        layer_alignment(OutOfOrder(seed))


def test_weights_used_by_hand_are_layers_too(seed: int) -> None:
    net, x = ByHand(seed), torch.ones(3, 4, dtype=torch.float64)
    found = layer_alignment(net, x)
    assert found["W", "a"] == pytest.approx(_zeta(_array(net.a @ net.W.T), net.a, net.W), rel=IDENTITY.rtol)
    law = conserved(net, batch=x)
    expected = _array((net.a**2).sum(0) - (net.W**2).sum(0) - net.b**2)
    assert_close(law.delta["W", "a"], expected, IDENTITY, scale=10.0)


def test_what_cannot_be_compared_is_named_with_its_reason(seed: int) -> None:
    found = layer_alignment(Residual(seed).eval())
    assert list(found) == [("inner", "outer"), ("shared", "shared#2"), ("shared#2", "head")]
    assert found.excluded == {("outer", "shared"): "`add` joins input, outer"}
    blocks = layer_alignment(Attention(seed).eval(), torch.arange(6).reshape(2, 3))
    assert list(blocks) == [("up", "down")]
    assert blocks.opaque == ("block (multi_head_attention_forward)",)
    assert blocks.excluded == {("embed", "up"): "`multi_head_attention_forward` holds weights of its own"}
    turned = nn.Sequential(nn.Linear(3, 3), nn.Unflatten(1, (1, 3)), _Turn(), nn.Linear(1, 2))
    assert layer_alignment(turned).excluded == {("0", "3"): "`transpose` changes the order of the neurons"}
    part = nn.Sequential(nn.Linear(3, 6), nn.GLU(), nn.Linear(3, 2))
    assert layer_alignment(part).excluded == {("0", "2"): "`glu` takes a part of the layer"}
    odd = nn.Sequential(nn.Linear(3, 4), nn.Unflatten(1, (2, 2)), nn.Linear(2, 2))
    assert layer_alignment(odd).excluded == {("0", "2"): "the layer gives 4 values, the next takes 2"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, and still in use
        script = torch.jit.trace(mlp(seed), torch.zeros(2, 4).double())
    assert layer_alignment(script, torch.zeros(2, 4).double()).opaque == tuple(
        f"{k}.weight (not seen)" for k in (0, 2, 4)
    )
    with pytest.raises(ParameterError, match=r"the model must have at least one weight matrix\. Got ReLU\."):
        layer_alignment(nn.ReLU())


class _Turn(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2)


def test_alignment_is_one_and_zero_where_it_must_be_control() -> None:
    net: Any = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 2.0], [0, 0], [0, 0]]))
        net[1].weight.copy_(torch.tensor([[5.0, 0, 0]]))
        assert layer_alignment(net)["0", "1"] == pytest.approx(1, abs=1e-15)
        net[1].weight.copy_(torch.tensor([[0.0, 3, 4]]))
        assert layer_alignment(net)["0", "1"] == 0


def _task(seed: int, shape: tuple[int, ...], outputs: int) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(12, *shape, generator=g).double(), torch.randn(12, outputs, generator=g).double()


@pytest.mark.parametrize("kind", ["mlp", "cnn", "by hand", "linear"])
def test_the_drift_of_gradient_descent_is_the_predicted_one(seed: int, kind: str) -> None:
    net: Any = {
        "mlp": lambda: mlp(seed),
        "cnn": lambda: small_cnn(seed),
        "by hand": lambda: ByHand(seed),
        "linear": lambda: mlp(seed, activation=nn.Identity),
    }[kind]()
    x, y = _task(seed, (2, 8, 8) if kind == "cnn" else (4,), 3 if kind == "cnn" else 2)
    step = 1e-2
    rates = {name: 0.4 + 0.2 * i for i, (name, _) in enumerate(net.named_parameters())}
    origin = conserved(net, rates, x)
    assert origin.excluded == {} and len(origin.delta) == {"mlp": 2, "cnn": 2, "by hand": 1, "linear": 2}[kind]
    assert bool(origin.matrix) == (kind == "linear")
    predicted: dict[Any, Any] = dict.fromkeys(origin.delta, 0.0)
    for _ in range(10):
        net.zero_grad()
        (0.5 * ((net(x) - y) ** 2).sum() / len(x)).backward()
        for pair in predicted:
            predicted[pair] = predicted[pair] + predicted_drift(origin.gradients(net, pair), origin.rates[pair], step)
        with torch.no_grad():
            for name, p in net.named_parameters():
                p -= step * rates[name] * p.grad
    now = conserved(net, rates, x)
    for pair, before in origin.delta.items():
        moved = now.delta[pair] - before
        np.testing.assert_allclose(moved, predicted[pair], rtol=1e-8, atol=1e-12)  # δ of size 10
        assert np.abs(moved).max() > 1e-9
        if kind == "linear":
            assert_close(np.diag(now.matrix[pair]), now.delta[pair], IDENTITY, scale=10.0)
            assert np.abs(now.matrix[pair] - origin.matrix[pair]).max() < 1e-2
    absolute, relative = conserved_drift(now, origin)[pair]
    assert absolute == np.abs(moved).max() and relative == absolute / origin.size[pair].max()


def test_the_drift_vanishes_at_first_order_in_the_step(seed: int) -> None:
    x, y = _task(seed, (4,), 2)
    steps, drifts = [4e-3, 2e-3, 1e-3], []
    for step in steps:
        net = mlp(seed)
        origin = conserved(net)
        train(net, x, y, step, round(0.2 / step))
        drifts.append(conserved_drift(conserved(net), origin)["2", "4"][0])
    assert_slope(steps, drifts, 1)


def test_what_is_not_conserved_is_left_out_and_does_drift_control(seed: int) -> None:
    net = mlp(seed, activation=nn.Tanh)
    law = conserved(net)
    assert law.delta == {} and law.excluded["0", "2"] == "`tanh` is not positively homogeneous"
    assert law.norms["0"] == pytest.approx(np.linalg.norm(_array(net[0].weight)))
    x, y = _task(seed, (4,), 2)
    delta = lambda: neuron_imbalance(_array(net[2].weight), _array(net[0].weight), _array(net[0].bias))
    before = delta()
    train(net, x, y, 1e-3, 200)
    assert np.abs(delta() - before).max() > 1e-3
    found = conserved(Residual(seed).eval()).excluded
    assert found["outer", "shared"] == "`add` joins input, outer"
    assert found["shared", "shared#2"] == "`shared.weight` is used 2 times"
    assert found["shared#2", "head"] == "`shared.weight` is used 2 times"
    assert ("inner", "outer") not in found
    normed = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)).eval()
    assert conserved(normed).excluded == {("0", "3"): "`batch_norm` is not positively homogeneous"}
    weighted = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)), nn.Linear(4, 2))
    assert conserved(weighted).excluded == {("0", "1"): "the weight of `0` is computed from other parameters"}
    fork = _Fork()
    assert conserved(fork).excluded == {("a", "b"): "`a` is also read by c", ("a", "c"): "`a` is also read by b"}


class _Fork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(2, 3), nn.Linear(3, 2), nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.a(x)
        return self.b(h) * self.c(h)


HARD = {
    "detached": (lambda n, x: n.b(torch.relu(n.a(x)).detach()), ("a", "b"), "`detach` is not positively homogeneous"),
    "by data": (lambda n, x: n.b(F.linear(x, n.a.weight.data)), ("a", "b"), "the weight of `a` is computed from other parameters"),
    "assigned": (lambda n, x: n.b(_assigned(n.a(x))), ("a", "b"), "`setitem` joins a"),
    "in part": (lambda n, x: n.b(_in_part(n.a(x))), ("a", "b"), "`relu` changes a part in place"),
    "added in place": (lambda n, x: n.b(n.a(x).add_(x)), ("a", "b"), "`add` joins a, input"),
    "gated": (lambda n, x: n.b(n.a(x) * torch.sigmoid(x)), ("a", "b"), "`mul` joins a, input"),
    "also out": (lambda n, x: (n.b(h := n.a(x)), h), ("a", "b"), "`a` is also read by output"),
    "out of sight": (lambda n, x: n.b(torch.from_numpy(n.a(x).numpy())), ("unknown", "b"), "what `b` reads cannot be followed"),
    "einsum": (lambda n, x: n.b(torch.einsum("hd,nd->nh", n.a.weight, x)), ("input", "b"), "`einsum` holds weights of its own"),
    "normalised": (lambda n, x: n.b(F.normalize(n.a(x))), ("a", "b"), "`normalize` is not positively homogeneous"),
    "clamped": (lambda n, x: n.b(n.a(x).clamp(max=1)), ("a", "b"), "`clamp` is not positively homogeneous"),
    "shifted": (lambda n, x: n.b(n.a(x) + 1), ("a", "b"), "`add` is not positively homogeneous"),
}  # fmt: skip


def _assigned(h: torch.Tensor) -> torch.Tensor:
    made = torch.zeros_like(h)
    made[:, :2] = h[:, :2]
    return made


def _in_part(h: torch.Tensor) -> torch.Tensor:
    h[:, :2].relu_()
    return h


class _Hard(nn.Module):
    def __init__(self, run: Any) -> None:
        super().__init__()
        self.a, self.b, self.run = nn.Linear(4, 4), nn.Linear(4, 2), run

    def forward(self, x: torch.Tensor) -> Any:
        return self.run(self, x)


@pytest.mark.parametrize("kind", HARD)
def test_no_broken_law_is_claimed_and_no_layer_is_skipped_in_silence(kind: str) -> None:
    run, pair, reason = HARD[kind]
    found = conserved(_Hard(run), batch=torch.ones(3, 4))
    assert found.delta == {} and found.excluded == {pair: reason}


@pytest.mark.parametrize("run", [
    lambda n, x: n.b(torch.relu_(n.a(x)).mul_(2)),
    lambda n, x: -n.b(F.relu(n.a(x)) / 3).view(-1),
    lambda n, x: {"logits": n.b(n.a(x).view(-1, 2, 2).flatten(1).relu())},
])  # fmt: skip
def test_what_is_homogeneous_is_conserved_however_it_is_written_control(run: Any) -> None:
    assert list(conserved(_Hard(run), batch=torch.ones(3, 4)).delta) == [("a", "b")]


def test_rates_are_given_by_layer_or_parameter(seed: int) -> None:
    net = mlp(seed, (3, 4, 2))
    law = conserved(net, {"0": 0.5, "0.bias": 2.0, "2.weight": 3.0})
    assert law.rates["0", "2"] == Rates(3.0, 0.5, 2.0)
    frozen = conserved(net, {"0.bias": 0.0})
    assert frozen.excluded == {("0", "2"): "`0.bias` has learning rate 0 and is not 0"}
    with torch.no_grad():
        net[0].bias.zero_()
    assert list(conserved(net, {"0.bias": 0.0}).delta) == [("0", "2")]
    with pytest.raises(UnknownNameError, match=r"no layer or parameter `3`\."):
        conserved(net, {"3": 1.0})
    with pytest.raises(ParameterError, match=r"learning rate of all layers must be finite and ≥ 0\. Got -1\.0\."):
        conserved(net, -1.0)
    with pytest.raises(
        ParameterError, match=r"gradient of `0\.weight` must be there\. Got None\. Call loss\.backward\(\)\."
    ):
        law.gradients(net, ("0", "2"))
    with pytest.raises(ParameterError, match=r"two measurements must have the same pairs and rates"):
        conserved_drift(law, frozen)


def test_looking_changes_nothing(seed: int) -> None:
    net = Residual(seed).train()
    before, state = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    layer_alignment(net, torch.randn(4, 4, generator=torch.Generator().manual_seed(1)).double())
    assert all(torch.equal(v, net.state_dict()[k]) for k, v in before.items())
    assert torch.equal(state, torch.get_rng_state()) and net.training
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in net.modules())
