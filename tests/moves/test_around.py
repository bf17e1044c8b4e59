from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from richter.errors import OutsideTheoryError, ParameterError, UnknownNameError
from richter.moves import (
    InputScale,
    LastLayerOnly,
    LayerRates,
    OutputScale,
    Scaled,
    TargetScale,
    ZeroOutput,
    groups,
    last_layer_only,
    layer_rates,
    linearised,
    scale_input,
    scale_output,
    scale_targets,
    zero_output,
)
from richter.moves.change import output
from richter.moves.linearised import LinearisedNetwork
from richter.moves.rates import scaled_rates
from richter.probes import conserved
from richter.training import lenet5, mlp, modular_transformer, resnet8, two_layer
from tests.moves.models import apart, rows, state, tokens


def kernel(model: nn.Module, x: Tensor) -> Tensor:
    """J Jᵀ over the parameters that learn, written out."""
    learned = [p for p in model.parameters() if p.requires_grad]
    rows = [torch.autograd.grad(f, learned, retain_graph=True) for f in model(x).flatten()]
    flat = torch.stack([torch.cat([g.flatten() for g in row]) for row in rows])
    return flat @ flat.T


def descend(
    model: nn.Module, optimiser: torch.optim.Optimizer, x: Tensor, y: Tensor, steps: int, factor: float = 1.0
) -> None:
    for _ in range(steps):
        optimiser.zero_grad()
        (factor * 0.5 * (model(x) - y).square().sum() / len(x)).backward()
        optimiser.step()


def test_output_scale_with_its_rate_moves_the_function_as_before_and_the_parameters_less() -> None:
    tau, lr, x = 7.0, 1e-4, rows(3)
    plain = mlp(3, [6], 2, start="torch").double()
    f0 = output(plain, x)
    y = f0 + torch.randn_like(f0)
    record = OutputScale(tau=tau).apply(copy.deepcopy(plain), x)
    assert record.rate == pytest.approx(tau**-2) and record.change == pytest.approx(tau - 1)
    torch.testing.assert_close(output(record.model, x), tau * f0, rtol=1e-12, atol=0)
    # the same residual for both: then the first step moves the functions alike
    shifted = y + (tau - 1) * f0
    descend(plain, torch.optim.SGD(plain.parameters(), lr), x, y, 1)
    start = state(record.model)
    descend(record.model, torch.optim.SGD(record.model.parameters(), lr * record.rate), x, shifted, 1)
    moved, expected = output(record.model, x) - tau * f0, output(plain, x) - f0
    assert float((moved - expected).norm() / expected.norm()) < 0.02  # equal to first order in the step
    weight = "inner.layer1.weight"
    ratio = (record.model.state_dict()[weight] - start[weight]).norm() / (
        plain.state_dict()["layer1.weight"] - start[weight]
    ).norm()
    assert float(ratio) == pytest.approx(1 / tau, rel=1e-9)


def test_target_scale_is_the_output_scale_turned_round(seed: int) -> None:
    c, lr, x = 5.0, 1e-2, rows(3)
    base = mlp(3, [6], 1, start="torch").double()
    y = torch.randn(8, 1, dtype=torch.float64)
    record = TargetScale(factor=c).apply(copy.deepcopy(base))
    scaled = OutputScale(tau=1 / c).apply(copy.deepcopy(base), x)
    descend(record.model, torch.optim.SGD(record.model.parameters(), lr), x, record.targets * y, 50)
    descend(scaled.model, torch.optim.SGD(scaled.model.parameters(), lr * scaled.rate), x, y, 50)
    torch.testing.assert_close(output(record.model, x) / c, output(scaled.model, x), rtol=1e-10, atol=1e-12)
    assert record.exact and record.inverse.apply(record.model).targets == pytest.approx(1 / c)


def test_wrappers_come_off_and_travel_with_their_factors() -> None:
    net, x = mlp(3, [4], 2), rows(3).float()
    record = scale_input(net, 0.5, x)
    torch.testing.assert_close(output(record.model, x), output(net, 0.5 * x))
    assert record.inverse.apply(record.model).model is net
    twice = Scaled(mlp(3, [4], 2, rng=1), output=3.0, input=2.0)
    record.model.load_state_dict(twice.state_dict())
    torch.testing.assert_close(output(record.model, x), output(twice, x))
    back = OutputScale(tau=4.0).inverse.apply(scale_output(net, 4.0).model, x)
    torch.testing.assert_close(output(back.model, x), output(net, x))
    assert InputScale(kappa=4.0).inverse.kappa == 0.25

    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Any:
            return {"loss": x.sum(), "logits": self.layer(x)}

    class Two(Named):
        def forward(self, x: Tensor) -> Any:
            return self.layer(x), x

    two = Two()
    scores, rest = scale_output(two, 2.0, x).model(x)
    torch.testing.assert_close(scores, 2 * two(x)[0])
    assert torch.equal(rest, x)
    named = Named()
    torch.testing.assert_close(scale_output(named, 2.0, x).model(x)["logits"], 2 * named(x)["logits"])
    with pytest.raises(ParameterError, match="`tau` must be finite and > 0"):
        scale_output(net, 0.0)
    with pytest.raises(ParameterError, match="Use factor=10 to go richer"):
        scale_targets(net, -1.0)


@pytest.mark.parametrize("how", ["copies", "frozen"])
@pytest.mark.parametrize("name", ["mlp", "cnn", "transformer"])
def test_a_zero_output_start_keeps_the_kernel(how: Any, name: str) -> None:
    nets: dict[str, Any] = {
        "mlp": lambda: (mlp(3, [5, 4], 2, activation="tanh"), rows(3)),
        "cnn": lambda: (lenet5(size=16), rows(1, 16, 16)),
        "transformer": lambda: (modular_transformer(7, d=8, heads=2, hidden=16), tokens()),
    }
    net, x = nets[name]()
    net = net.double()
    wanted = kernel(net, x[:3])
    record = zero_output(net, how, x)
    assert not output(record.model, x).any() and record.change == pytest.approx(1.0)
    torch.testing.assert_close(kernel(record.model, x[:3]), wanted, rtol=1e-10, atol=1e-12)
    assert record.inverse.apply(record.model).model is net
    learns = sum(p.numel() for p in record.model.parameters() if p.requires_grad)
    assert learns == sum(p.numel() for p in net.parameters()) * (2 if how == "copies" else 1)


def test_a_mirrored_start_is_zero_in_place() -> None:
    net, x = mlp(3, [8, 6], 2, start="torch"), rows(3).float()
    record = zero_output(net, "mirror", x)
    assert record.model is net and float(output(net, x).abs().max()) < 1e-6 and record.change > 0.5
    w = net.get_parameter("layer2.weight")
    assert torch.equal(w[:3], w[3:]) and bool((w != 0).all())
    with pytest.raises(OutsideTheoryError, match="even number of neurons"):
        zero_output(mlp(3, [5]), "mirror")
    with pytest.raises(OutsideTheoryError, match="be without dropout"):
        zero_output(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).eval())
    with pytest.raises(ParameterError, match="be copies, frozen or mirror"):
        ZeroOutput(how="twice")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["tanh", "relu", "cnn", "norm", "transformer"])
def test_the_tangent_is_exact_at_the_start_and_linear_away_from_it(name: str) -> None:
    nets: dict[str, Any] = {
        "tanh": lambda: (mlp(3, [5, 4], 2, activation="tanh"), rows(3)),
        "relu": lambda: (mlp(3, [5], 2), rows(3)),
        "cnn": lambda: (lenet5(size=16), rows(1, 16, 16)),
        "norm": lambda: (resnet8(width=2), rows(3, 8, 8)),
        "transformer": lambda: (modular_transformer(7, d=8, heads=2, hidden=16), tokens()),
    }
    net, x = nets[name]()
    net = net.double().eval()
    tangent: Any = linearised(net, x)
    torch.testing.assert_close(tangent(x), net(x), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(kernel(tangent, x[:2]), kernel(net, x[:2]), rtol=1e-9, atol=1e-12)
    # linear: f(θ₀ + v) − f(θ₀) doubles with v, and is the derivative of the network along v
    f0, steps = output(tangent, x), [torch.randn_like(p) for p in tangent.offset]

    def at(size: float, model: Any, parameters: Any) -> Tensor:
        with torch.no_grad():
            for p, s in zip(parameters, steps, strict=True):
                p.add_(size * s)
            made = output(model, x)
            for p, s in zip(parameters, steps, strict=True):
                p.sub_(size * s)
        return made

    one = at(1.0, tangent, list(tangent.offset)) - f0
    torch.testing.assert_close(at(2.0, tangent, list(tangent.offset)) - f0, 2 * one, rtol=1e-9, atol=1e-10)
    h = 1e-6
    slope = (at(h, net, list(net.parameters())) - at(-h, net, list(net.parameters()))) / (2 * h)
    # a central difference, in which a few of many ReLUs may turn on the way
    assert float((slope - one).norm() / one.norm()) < 1e-3


def test_training_the_tangent_never_moves_its_kernel_and_settling_writes_it_back() -> None:
    net, x = mlp(2, [6], 1, activation="tanh").double(), rows(2)
    y, before = torch.randn(8, 1, dtype=torch.float64), kernel(mlp(2, [6], 1, activation="tanh").double(), x)
    tangent = linearised(net, x)
    assert isinstance(tangent, LinearisedNetwork)
    tangent.train()
    optimiser = torch.optim.SGD(tangent.parameters(), 0.2)
    descend(tangent, optimiser, x, y, 100)
    torch.testing.assert_close(kernel(tangent, x), before, rtol=1e-10, atol=1e-12)
    learned = [p.detach().clone() for p in tangent.offset]
    moved = tangent.settle()
    for p, old, offset in zip(moved.parameters(), net.parameters(), learned, strict=True):
        torch.testing.assert_close(p, old + offset)
    assert all(p.requires_grad for p in moved.parameters())
    torch.testing.assert_close(output(tangent, x), output(moved, x))  # the tangent is at its new θ₀
    descend(net, torch.optim.SGD(net.parameters(), 0.2), x, y, 100)
    assert float((kernel(net, x) - before).norm() / before.norm()) > 0.01  # the control: the network's own moves


def test_the_tangent_of_a_network_in_training_mode_is_taken_in_evaluation() -> None:
    x = rows(3, 8, 8).float()
    net = resnet8(width=2)
    for m in net.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.get_buffer("running_mean").normal_()
            m.get_buffer("running_var").uniform_(1, 2)
    tangent = linearised(net.train(), x)
    torch.testing.assert_close(tangent(x), output(net.eval(), x).float())
    before = state(net)
    linearised(net.train(), x).train()(x)
    assert apart(state(net), before) == 0.0


def test_what_was_frozen_stays_frozen_in_the_last_layer() -> None:
    net, x = mlp(3, [4], 2), rows(3).float()
    net.get_parameter("layer2.bias").requires_grad_(False)
    last_layer_only(net, batch=x)
    assert [n for n, p in net.named_parameters() if p.requires_grad] == ["layer2.weight"]


def test_last_layer_only_freezes_and_thaws() -> None:
    net, x = lenet5(size=16), rows(1, 16, 16).float()
    net.get_parameter("conv1.bias").requires_grad_(False)
    record = LastLayerOnly().apply(net, x)
    assert [n for n, p in net.named_parameters() if p.requires_grad] == ["layer5.weight", "layer5.bias"]
    assert "850 numbers learn" in record.notes[0]
    record.inverse.apply(net)
    assert [n for n, p in net.named_parameters() if not p.requires_grad] == ["conv1.bias"]
    with LastLayerOnly(layer="layer4").applied(net, x):
        assert [n for n, p in net.named_parameters() if p.requires_grad] == ["layer4.weight", "layer4.bias"]
    assert sum(not p.requires_grad for p in net.parameters()) == 1
    with pytest.raises(UnknownNameError, match="no layer `layer6`"):
        last_layer_only(net, "layer6")


KINDS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_layer_rates_are_the_change_of_variables_they_stand_for(name: str, decay: float) -> None:
    """θ = √r φ trained in φ at rate 1 gives the same weights as θ trained with its group of rate r."""
    r, lr, x, y = 9.0, 0.01, rows(3), torch.randn(8, 1, dtype=torch.float64)
    net = mlp(3, [5], 1, start="torch").double()
    other = copy.deepcopy(net)
    kind: Any = KINDS[name]
    descend(net, kind(groups(net, name, lr, {"layer1": r}, eps=1e-3, weight_decay=decay), lr=lr), x, y, 25)

    class InPhi(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.phi = nn.ParameterDict(
                {
                    n.replace(".", "_"): p.detach() / (r**0.5 if "layer1" in n else 1.0)
                    for n, p in other.named_parameters()
                }
            )

        def forward(self, x: Tensor) -> Tensor:
            theta = {
                n: self.phi[n.replace(".", "_")] * (r**0.5 if "layer1" in n else 1.0)
                for n, _ in other.named_parameters()
            }
            made: Tensor = functional_call(other, theta, (x,))
            return made

    slow = InPhi()
    options = {} if name == "sgd" else {"eps": 1e-3}
    descend(slow, kind(slow.parameters(), lr=lr, weight_decay=decay, **options), x, y, 25)
    torch.testing.assert_close(output(net, x), output(slow, x), rtol=1e-10, atol=1e-12)
    # the control: without the groups it is another function
    plain = copy.deepcopy(other)
    descend(plain, kind(plain.parameters(), lr=lr, weight_decay=decay, **options), x, y, 25)
    assert float((output(plain, x) - output(net, x)).abs().max()) > 1e-3


def test_rates_conserve_the_imbalance_that_the_probe_reports() -> None:
    rates, x = {"layer1": 0.2, "layer2": 3.0}, rows(3)
    net = two_layer(torch.randn(1, 5), torch.randn(5, 3), dtype=torch.float64)
    before = conserved(net, rates, x).delta["layer1", "layer2"]
    descend(
        net, torch.optim.SGD(groups(net, "sgd", 1e-3, rates), lr=1e-3), x, torch.randn(8, 1, dtype=torch.float64), 200
    )
    after = conserved(net, rates, x).delta["layer1", "layer2"]
    assert abs(after - before).max() < 1e-3 * abs(before).max()
    moved = conserved(net, 1.0, x).delta["layer1", "layer2"]
    assert moved.shape == before.shape


def test_a_faster_early_layer_is_upstream_as_the_move_says() -> None:
    r"""$\delta=\eta_w a^2-\eta_a\|w\|^2$: the larger the first layer's rate, the larger the imbalance."""
    net, x = two_layer(torch.randn(1, 5), torch.randn(5, 3), dtype=torch.float64), rows(3)
    at = lambda **rates: conserved(net, rates, x).delta["layer1", "layer2"]
    assert (at(layer1=4.0, layer2=1.0) > at(layer1=1.0, layer2=1.0)).all()
    assert (at(layer1=1.0, layer2=4.0) < at(layer1=1.0, layer2=1.0)).all()
    assert "a faster early layer is upstream" in LayerRates.says


def test_rates_as_a_record_and_on_an_optimiser() -> None:
    net = mlp(3, [5], 1)
    record = layer_rates(net, {"layer1": 4.0, "layer2": 0.0})
    assert record.exact and record.rates == {"layer1": 4.0, "layer2": 0.0}
    with pytest.raises(OutsideTheoryError, match="have an inverse"):
        _ = record.inverse
    assert LayerRates(rates={"layer1": 4.0}).inverse.rates == {"layer1": 0.25}
    made = torch.optim.SGD(groups(net, "sgd", 0.1, {"layer1": 1.0}), lr=0.1)
    with scaled_rates(made, net, {"layer1": 4.0}):
        assert sorted(g["lr"] for g in made.param_groups) == [0.1, 0.4]
    assert [g["lr"] for g in made.param_groups] == [0.1, 0.1]
    with pytest.raises(ParameterError, match="a parameter group must have one rate"):
        with scaled_rates(torch.optim.SGD(net.parameters(), 0.1), net, {"layer1": 4.0}):
            pass
    with pytest.raises(ParameterError, match="must be SGD. Got Adam"):
        with scaled_rates(torch.optim.Adam(net.parameters(), 0.1), net, {"layer1": 4.0}):
            pass
    with pytest.raises(UnknownNameError, match="begins with `layer7`. Did you mean layer"):
        layer_rates(net, {"layer7": 2.0})
    with pytest.raises(UnknownNameError, match="No optimiser named `rmsprop`"):
        groups(net, "rmsprop", 0.1, {})
    assert apart(state(net), state(net)) == 0.0
