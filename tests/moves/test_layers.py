from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from richter.errors import OutsideTheoryError, ParameterError, UnknownNameError
from richter.moves import (
    Multiply,
    NeuronBalance,
    OverallScale,
    ScaleLayers,
    SmallEmbeddings,
    Upstream,
    balance,
    downstream,
    scale_layers,
    scale_overall,
    shrink_embeddings,
    upstream,
)
from richter.moves.change import largest_change, output
from richter.moves.homogeneity import flow
from richter.probes import conserved
from richter.refs import KUN24
from richter.tasks import teacher_student
from richter.training import mlp, modular_transformer, resnet8, two_layer
from tests.moves.models import KEPT, REFUSED, ResidualBlock, apart, made, rows, state, tokens

PROMISED = {torch.float32: 1e-6, torch.float64: 1e-13}


@pytest.mark.parametrize("dtype", PROMISED, ids=str)
@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("alpha", [0.1, 3.0])
def test_a_layer_scale_keeps_the_function(name: str, dtype: torch.dtype, alpha: float) -> None:
    model, x, (first, last) = made(name, dtype)
    before, start = output(model, x), state(model)
    record = Upstream(alpha=alpha, first=first, last=last).apply(model, x)
    assert record.exact and largest_change(before, output(model, x)) < PROMISED[dtype]
    assert apart(state(model), start) > 0.5  # something was moved
    record.inverse.apply(model)
    assert apart(state(model), start) < 4 * torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", PROMISED, ids=str)
@pytest.mark.parametrize("name", KEPT)
def test_balancing_keeps_the_function_and_gives_the_wanted_imbalance(name: str, dtype: torch.dtype) -> None:
    model, x, _ = made(name, dtype)
    before, start = output(model, x), state(model)
    for delta in (0.0, 0.7, -0.4):
        record = balance(model, delta, x)
        assert record.exact and largest_change(before, output(model, x)) < PROMISED[dtype]
        found = conserved(model, batch=x)
        assert found.delta
        for pair, value in found.delta.items():
            size = float(found.size[pair].max()) + abs(delta)
            np.testing.assert_allclose(value, delta, atol=100 * torch.finfo(dtype).eps * size, rtol=0)
    again = state(model)
    back = NeuronBalance(delta=1.3).apply(model, x).inverse
    back.apply(model)
    assert apart(state(model), again) < 8 * torch.finfo(dtype).eps
    assert apart(state(model), start) > 0.01


@pytest.mark.parametrize("name", KEPT)
def test_leaving_the_context_puts_everything_back(name: str) -> None:
    model, x, (first, last) = made(name, torch.float32)
    start = state(model)
    with pytest.raises(RuntimeError, match="stop"), Upstream(alpha=3.0, first=first, last=last).applied(model, x):
        assert apart(state(model), start) > 0.5
        raise RuntimeError("stop")
    assert all(torch.equal(t, start[name]) for name, t in model.state_dict().items())


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_homogeneous_is_refused_with_the_place(name: str) -> None:
    model, x, why = REFUSED[name]()
    x = x.float() if x.is_floating_point() else x
    start = state(model)
    with pytest.raises(OutsideTheoryError, match="would change the function") as problem:
        upstream(model, 3.0, x)
    assert why in str(problem.value)
    assert all(torch.equal(t, start[key]) for key, t in model.state_dict().items())
    record = upstream(model, 3.0, x, approximate=True)
    assert not record.exact and record.change > 1e-3 and why in " ".join(record.notes)


def test_biases_that_stay_make_it_an_approximation() -> None:
    net, x = mlp(4, [7], 2, start="torch"), rows(4).float()
    with pytest.raises(OutsideTheoryError, match="`layer1.bias`, which does not follow"):
        upstream(net, 2.0, x, biases="stay")
    record = upstream(net, 2.0, x, biases="stay", approximate=True)
    assert not record.exact and record.change > 1e-3 and "layer1.bias" not in record.factors
    zero = mlp(4, [7], 2)  # biases that are 0 need not follow
    assert upstream(zero, 2.0, x, biases="stay").exact


def test_where_the_function_changes_anyway_biases_stay_as_they_are() -> None:
    net, x = mlp(4, [7], 2, activation="tanh", start="torch"), rows(4).float()
    record = upstream(net, 2.0, x, approximate=True)
    assert sorted(record.factors) == ["layer1.weight", "layer2.weight"]


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_scale_that_does_not_cancel_is_refused_either_way(factor: float) -> None:
    net, x = mlp(4, [7], 2), rows(4).float()
    with pytest.raises(OutsideTheoryError, match=f"the output is multiplied by {factor:g}"):
        scale_layers(net, {"layer1": factor}, x)


def test_a_layer_named_twice_is_multiplied_twice() -> None:
    net, x = mlp(4, [7], 2), rows(4).float()
    before = state(net)
    record = scale_layers(net, {"layer1": 2.0, 0: 3.0}, x, function="change")
    assert record.factors["layer1.weight"] == 6.0
    torch.testing.assert_close(net.get_parameter("layer1.weight").detach(), 6 * before["layer1.weight"])


def test_embeddings_are_divided_and_come_back() -> None:
    model, x = modular_transformer(7, d=8, heads=2, hidden=16), tokens()
    before, move = state(model), SmallEmbeddings(alpha=4.0)
    move.apply(model, x)
    for name in ("tokens.weight", "positions.weight"):
        torch.testing.assert_close(model.get_parameter(name).detach(), before[name] / 4)
    move.inverse.apply(model, x)
    assert apart(state(model), before) == 0.0  # powers of 2


def test_embeddings_are_not_function_preserving_and_the_record_says_so() -> None:
    model, x = modular_transformer(113, start="lecun"), torch.randint(0, 113, (16, 3))
    before = output(model, x)
    record = shrink_embeddings(model, 4.0, x)
    assert not record.exact and record.change > 0.1
    assert record.change == pytest.approx(largest_change(before, output(model, x)), rel=1e-12)
    said = " ".join(record.notes)
    assert "Not function-preserving" in said and "scaled_dot_product_attention" in said and "6.6% of all" in said
    tokens_only = SmallEmbeddings(alpha=4.0, layers=("tokens",)).apply(model, x)
    assert "6.4% of all parameters" in " ".join(tokens_only.notes)
    # nor can a later layer make up for it
    with pytest.raises(OutsideTheoryError, match="scaled_dot_product_attention"):
        scale_layers(model, {"tokens": 0.25, "positions": 0.25, "unembed": 4.0}, x)


@pytest.mark.place(KUN24["App. D.1"])
@pytest.mark.parametrize("delta", [-3.0, 0.0, 0.5])
def test_scale_and_imbalance_give_the_papers_starts(delta: float, seed: int) -> None:
    tau = 0.3
    setting = teacher_student(d=3, width=6, rng=seed)
    wanted = setting.student(tau, delta)
    student = two_layer(setting.base.a, setting.base.w, dtype=torch.float64)
    scale_overall(student, tau)
    balance(student, delta)
    w, a = (p.detach().numpy() for p in student.parameters())
    np.testing.assert_allclose(w, wanted.w, rtol=1e-12)
    np.testing.assert_allclose(a[0], wanted.a, rtol=1e-12)
    # and by layers, with the paper's α
    from richter.maths.piecewise import layer_scale

    other = two_layer(setting.base.a, setting.base.w, dtype=torch.float64)
    scale_overall(other, tau)
    Upstream(alpha=float(layer_scale(tau, delta))).apply(other)
    np.testing.assert_allclose(next(other.parameters()).detach().numpy(), wanted.w, rtol=1e-12)


def test_downstream_is_the_inverse_of_upstream() -> None:
    net, x = mlp(3, [5]), rows(3).float()
    start = state(net)
    upstream(net, 3.0, x)
    downstream(net, 3.0, x)
    assert apart(state(net), start) < 1e-6
    move = Upstream(alpha=3.0)
    move.apply(net, x)
    move.inverse.apply(net, x)
    assert apart(state(net), start) < 1e-6
    scaled = ScaleLayers(factors={"layer1": 0.5, 1: 2.0})
    scaled.apply(net, x)
    scaled.inverse.apply(net, x)
    assert apart(state(net), start) < 1e-6


@pytest.mark.parametrize("tau", [0.5, 2.0])
def test_the_overall_scale_multiplies_output_and_imbalance(tau: float) -> None:
    net, x = mlp(4, [6, 5], 2, start="torch").double(), rows(4)
    before, start, deltas = output(net, x), state(net), conserved(net).delta
    record = OverallScale(tau=tau).apply(net, x)
    torch.testing.assert_close(output(net, x), tau**3 * before, rtol=1e-12, atol=0)
    assert f"{tau**3:.6g}" in record.preserves
    weights = [n for n, p in net.named_parameters() if p.ndim == 2]
    for name in weights:
        torch.testing.assert_close(net.state_dict()[name], tau * start[name], rtol=1e-15, atol=0)
    # without biases each δ is multiplied by τ²
    plain, _ = mlp(4, [6, 5], 2, bias=False).double(), None
    deltas = conserved(plain).delta
    scale_overall(plain, tau)
    for pair, value in conserved(plain).delta.items():
        np.testing.assert_allclose(value, tau**2 * deltas[pair], rtol=1e-12)
    OverallScale(tau=tau).inverse.apply(net, x)
    assert apart(state(net), start) < 1e-15
    staying = OverallScale(tau=tau, biases="stay")
    staying.apply(net, x)
    assert torch.equal(net.state_dict()["layer1.bias"], start["layer1.bias"])
    staying.inverse.apply(net, x)
    assert apart(state(net), start) < 1e-15


def test_balance_per_neuron_with_rates_and_biases() -> None:
    net, x = mlp(3, [4], 2, start="torch").double(), rows(3)
    wanted, rates = [0.1, -2.0, 3.0, 0.0], {"layer1": 0.3, "layer2": 2.0, "layer1.bias": 0.7}
    NeuronBalance(delta=wanted, rates=rates).apply(net, x)
    np.testing.assert_allclose(conserved(net, rates, x).delta["layer1", "layer2"], wanted, atol=1e-13)
    w, b, a = (net.get_parameter(n).detach().numpy() for n in ("layer1.weight", "layer1.bias", "layer2.weight"))
    by_hand = 0.3 * (a**2).sum(0) - 2.0 * (w**2).sum(1) - 2.0 * 0.3 / 0.7 * b**2
    np.testing.assert_allclose(by_hand, wanted, atol=1e-13)


def test_balance_of_chosen_pairs_leaves_the_others() -> None:
    net, x = mlp(3, [5, 4], 2).double(), rows(3)
    before = net.get_parameter("layer1.weight").detach().clone()
    balance(net, 0.5, x, pairs=(("layer2", "layer3"),))
    assert torch.equal(net.get_parameter("layer1.weight"), before)
    np.testing.assert_allclose(conserved(net).delta["layer2", "layer3"], 0.5, atol=1e-13)
    with pytest.raises(UnknownNameError, match="no pair of layers.*Known: \\('layer1', 'layer2'\\)"):
        balance(net, 0.5, x, pairs=(("layer1", "layer3"),))


def test_an_imbalance_that_no_rescaling_gives_is_refused() -> None:
    net = two_layer([1.0, 0.0], [[1.0, 0.0], [1.0, 1.0]])
    with pytest.raises(ParameterError, match="δ = 0 for neuron 1, whose outgoing weights are 0"):
        balance(net, 0.0)
    balance(net, -1.0)
    with pytest.raises(OutsideTheoryError, match="`tanh` is not positively homogeneous"):
        balance(mlp(2, [3], activation="tanh"), 0.0)
    with pytest.raises(ParameterError, match="be one number, or 2"):
        balance(net, [0.0, 1.0, 2.0])


def test_a_balance_that_is_not_reached_is_refused_and_leaves_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = mlp(3, [5, 4], 2).double(), rows(3)
    before = state(net)
    monkeypatch.setattr(import_module("richter.moves.balance"), "SWEEPS", 1)
    with pytest.raises(ParameterError, match="be ones that a rescaling can give.*Balance one pair at a time"):
        balance(net, 0.7, x)
    assert apart(state(net), before) == 0.0


def test_a_tied_weight_and_a_skipped_function_are_seen() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.once, self.head = nn.Linear(3, 3, bias=False), nn.Linear(3, 1, bias=False)

        def forward(self, x: Any) -> Any:
            return self.head(torch.relu(self.once(torch.relu(self.once(x)))))

    net, x = Tied().double(), rows(3)
    assert flow(net, {"once.weight": 1.0}, x).output == 2.0  # used twice
    assert scale_layers(net, {"once": 0.5, "head": 4.0}, x).exact

    class Hidden(Tied):
        def forward(self, x: Any) -> Any:
            # numpy is out of sight: the pass shows a constant that is not one
            seen = self.once(x)
            return self.head(torch.relu(seen)) + float(seen.detach().numpy().mean())

    with pytest.raises(OutsideTheoryError, match="adds what is multiplied by|must stay as it is"):
        scale_layers(Hidden().double(), {"once": 0.5, "head": 2.0}, x)


def test_a_promise_that_measuring_breaks_is_taken_back() -> None:
    class Branching(nn.Module):
        """Doubles what is large: a pass on one side of the branch looks homogeneous."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(3, 3, bias=False), nn.Linear(3, 1, bias=False)

        def forward(self, x: Any) -> Any:
            h = self.first(x)
            return self.last(2 * h if h.abs().max().item() > self.edge else h)

    net, x = Branching().double(), rows(3)
    net.edge = 0.9 * net.first(x).abs().max().item()
    before = state(net)
    with pytest.raises(OutsideTheoryError, match="the function under scale-layers must stay as it is. Got a change"):
        scale_layers(net, {"first": 0.5, "last": 2.0}, x)
    assert apart(state(net), before) == 0.0
    assert scale_layers(net, {"first": 2.0, "last": 0.5}, x).exact  # the control: on the same side of the branch


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_the_promise_is_measured_in_16_bits_too(dtype: torch.dtype) -> None:
    class Flipping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(3, 3, bias=False), nn.Linear(3, 1, bias=False)

        def forward(self, x: Any) -> Any:
            h = self.first(x)
            return self.last(h if h.abs().max().item() > self.edge else 0.5 * h)

    net, x = Flipping().to(dtype), rows(3).to(dtype)
    net.edge = 0.9 * net.first(x).abs().max().item()
    with pytest.raises(OutsideTheoryError, match="must stay as it is"):
        scale_layers(net, {"first": 0.5, "last": 2.0}, x)
    plain = mlp(3, [8], 2, start="torch").to(dtype)
    assert balance(plain, 0.3, x).change < 0.05  # rounding, to 8 or 11 bits


def test_a_layer_that_the_pass_does_not_use_is_refused() -> None:
    net, x = ResidualBlock(), rows(2, 6, 6).float()
    net.add_module("spare", nn.Linear(3, 3))
    with pytest.raises(OutsideTheoryError, match="`spare.weight` was not seen to be used"):
        scale_layers(net, {"spare": 2.0}, x)


@pytest.mark.parametrize(
    ("forward", "exponent"),
    [
        (lambda h: h * h, 2.0),
        (lambda h: h.pow(3), 3.0),
        (lambda h: torch.cat([h, 2 * h], 1)[:, :4], 1.0),
        (lambda h: h / h.norm(dim=1, keepdim=True), 0.0),
        (lambda h: torch.where(h > 0, h, 0.1 * h), 1.0),
        (lambda h: h.clamp(min=0), 1.0),
        (lambda h: torch.sqrt(h.square()), 1.0),
        (lambda h: torch.maximum(h, -h), 1.0),
        (lambda h: torch.einsum("ij,kj->ik", h, h), 2.0),
        (lambda h: h.masked_fill(h > 0, 0.0), 1.0),
        (lambda h: torch.softmax(h, 1), math.nan),
        (lambda h: h + 1.0, math.nan),
        (lambda h: torch.sigmoid(h), math.nan),
        (lambda h: h.clamp(min=-1), math.nan),
        (lambda h: h.masked_fill(h > 0, 2.0), math.nan),
        (lambda h: torch.where(h > 1, h, 0.1 * h), math.nan),
        (lambda h: h + h * h, math.nan),
        (lambda h: torch.exp(h), math.nan),
    ],
)
def test_exponents_are_those_of_the_function(forward: Any, exponent: float) -> None:
    """What the pass says is what the numbers do, and it is silent only where they do."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 4, bias=False)

        def forward(self, x: Any) -> Any:
            return forward(self.layer(x))

    net, x = Net().double(), 5 * rows(3)
    found = flow(net, {"layer.weight": math.log(2.0)}, x)
    before = output(net, x)
    Multiply(factors={"layer.weight": 2.0}).apply(net)
    after = output(net, x)
    if math.isnan(exponent):
        assert found.conflicts and math.isnan(found.output)
        assert min(largest_change(after, before * 2.0**p) for p in (0, 1, 2, 3)) > 1e-6
    else:
        assert found.output == pytest.approx(exponent * math.log(2.0), abs=1e-12) and not found.conflicts
        torch.testing.assert_close(after, before * 2.0**exponent, rtol=1e-12, atol=1e-14)


def test_batch_norm_statistics_follow() -> None:
    """In training and in evaluation mode a scaled layer in front of a batch norm changes nothing but by its ε."""
    x = 10 * rows(3, 16, 16).float()
    for training in (True, False):
        net = resnet8(width=4).train(training)
        for m in net.modules():
            if isinstance(m, nn.BatchNorm2d):
                m.get_buffer("running_mean").normal_()
                m.get_buffer("running_var").uniform_(1, 2)
        before = output(net, x)
        record = scale_layers(net, {"conv": 2.0}, x)
        assert not record.exact and "up to the ε of norms" in record.preserves
        assert record.factors["norm.running_var"] == pytest.approx(4.0)
        assert largest_change(before, output(net, x)) < 1e-3


def test_names_and_settings_that_are_wrong_are_told() -> None:
    net = mlp(2, [3])
    with pytest.raises(UnknownNameError, match="no layer `layer9`. Did you mean layer"):
        scale_layers(net, {"layer9": 2.0})
    with pytest.raises(ParameterError, match="place of a layer must be below 2. Got 5"):
        scale_layers(net, {5: 2.0})
    with pytest.raises(ParameterError, match="must be finite and > 0. Got -1.0"):
        scale_layers(net, {"layer1": -1.0})
    with pytest.raises(ParameterError, match="two different layers"):
        upstream(net, 2.0, first="layer1", last="layer1")
    with pytest.raises(ParameterError, match="hold an embedding"):
        shrink_embeddings(net, 2.0)
    with pytest.raises(ParameterError, match="Give inputs: batch=x"):
        upstream(modular_transformer(5, d=8, heads=2, hidden=16), 2.0)
    with pytest.raises(ParameterError, match="parameter or buffer"):
        Multiply(factors={"nothing": 2.0}).apply(net)


def test_a_record_is_text_and_data() -> None:
    import json

    net, x = ResidualBlock(), rows(2, 6, 6).float()
    record = upstream(net, 2.0, x, first="stem", last="head")
    plain = json.loads(json.dumps(record.plain()))
    assert plain["move"] == "upstream" and plain["factors"]["head.weight"] == 2.0 and plain["exact"] is True
    assert "stem.weight × 0.5" in str(record) and "keeps the function, exactly" in str(record)
    json.dumps(balance(net, 0.0, x).plain())
    assert tokens().shape == (8, 3)
