from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

from richter.advice import predict
from richter.advice.two_layers import exact_or_simulated, readings, two_layers
from richter.errors import OutsideTheoryError
from richter.moves import balance, downstream, upstream
from richter.theory import WideScalar
from richter.training import mlp, two_layer


def line(n: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    t = torch.linspace(-1, 1, n, dtype=torch.float64)[:, None]
    direction = torch.tensor([[0.6, 0.8]], dtype=torch.float64)
    return t * direction, 1.5 * t


def test_every_number_has_a_theory_and_says_whether_it_holds() -> None:
    net = two_layer(torch.randn(8).tolist(), torch.randn(8, 2).tolist(), activation="linear").double()
    before = {name: p.clone() for name, p in net.state_dict().items()}
    made = predict(net, line())
    assert {"kernel_movement", "kernel_turn", "leads", "P", "Q", "growth_end", "growth_bound", "feature_share",
            "learning_time", "phase", "feature_exponent"} <= {n.name for n in made.numbers}  # fmt: skip
    assert all(n.theory and n.says for n in made.numbers)
    assert all(n.assumes for n in made.numbers if n.holds is False)
    assert made["P"].holds and made["growth_end"].holds
    json.dumps(made.plain(), allow_nan=False)
    assert "growth_end" in str(made) and all(torch.equal(p, before[name]) for name, p in net.state_dict().items())


def test_the_leading_layer_follows_the_move() -> None:
    net = mlp(3, [20], start="torch")
    x = torch.randn(10, 3)
    data = x, x[:, :1]
    balance(net, 0.0, batch=x)
    assert predict(net, data)["leads"].value == "neither"
    upstream(net, 2.0, x)
    made = predict(net, data)
    assert made["leads"].value == "upstream" and made.value("delta layer1 → layer2") > 0
    downstream(net, 4.0, x)
    assert predict(net, data)["leads"].value == "downstream"


def test_what_theory_does_not_cover_is_said() -> None:
    net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
    made = predict(net, (torch.randn(10, 3), torch.randint(0, 2, (10,))), loss="cross-entropy")
    assert any("exact theories have nothing to say" in note for note in made.notes)
    assert sum("no conserved imbalance" in note for note in made.notes) == 2
    assert made["fastest_rate"].holds is False and np.isnan(made.value("P"))
    relu = predict(two_layer([1.0] * 4, torch.randn(4, 2).tolist()).double(), line())
    assert relu["P"].holds is False and "ReLU" in relu["P"].assumes


def test_a_linear_network_on_a_line_is_the_wide_scalar() -> None:
    x, y = line()
    u, w = torch.randn(6, dtype=torch.float64), torch.randn(6, 2, dtype=torch.float64)
    net = two_layer(u.tolist(), w.tolist(), activation="linear").double()
    seen = two_layers(net, x)
    assert seen is not None and seen.activation == "linear"
    found = {n.name: n.value for n in readings(seen, x.numpy(), y.numpy())}
    theory = WideScalar.from_data(inputs=x.numpy(), targets=y.numpy()[:, 0], u0=seen.a[0], w0=seen.w)
    ds = theory.solve([0.0])
    assert found["P"] == pytest.approx(float((ds.p.values[0] ** 2).mean()), rel=1e-6)
    assert found["growth_end"] == pytest.approx(float(theory.limit().growth), rel=1e-6)
    assert float(str(found["growth_bound"])) <= float(str(found["growth_end"])) * (1 + 1e-9)


@pytest.mark.parametrize("activation", ["linear", "relu"])
def test_exact_or_simulated_is_where_gradient_descent_goes(activation: str) -> None:
    """First order in the step: halving it halves the gap."""
    x, y = line()
    if activation == "relu":
        x = torch.randn(6, 2, dtype=torch.float64)
        y = x[:, :1].relu()
    a, w = (0.5 * torch.randn(4)).tolist(), (0.5 * torch.randn(4, 2)).tolist()
    name = "linear" if activation == "linear" else "relu"
    ds = exact_or_simulated(two_layer(a, w, activation=name).double(), x, y, [0.0, 1.0])
    assert ds.attrs["theory"].startswith("WideScalar" if activation == "linear" else "PiecewiseNetwork")
    gaps = []
    for steps in (400, 800):
        net = two_layer(a, w, activation=name).double()
        for _ in range(steps):
            net.zero_grad()
            gap = net(x) - y
            (gap.square().mean() if activation == "linear" else 0.5 * gap.square().sum()).backward()
            with torch.no_grad():
                for p in net.parameters():
                    assert p.grad is not None
                    p.sub_(p.grad / steps)
        gap = (net(x) - y).detach()
        loss = float(gap.square().mean() if activation == "linear" else 0.5 * gap.square().sum())
        gaps.append(abs(loss - float(ds.loss[-1])))
    assert gaps[1] < 0.65 * gaps[0] or gaps[1] < 1e-9  # first order


def test_networks_outside_of_both_are_told_what_to_use() -> None:
    x, y = line()
    with pytest.raises(OutsideTheoryError, match="be two layers with one output"):
        exact_or_simulated(mlp(2, [4, 4]).double(), x, y, [0.0])
    with pytest.raises(OutsideTheoryError, match="tanh|piecewise"):
        exact_or_simulated(mlp(2, [4], activation="tanh").double(), x, y, [0.0])
    spread = torch.randn(8, 2, dtype=torch.float64)
    with pytest.raises(OutsideTheoryError, match="be on one line"):
        exact_or_simulated(two_layer([1.0], [[1.0, 0.0]], activation="linear").double(), spread, y[:8], [0.0])
    wide = two_layer([1.0] * 600, [[1.0, 0.0]] * 600).double()
    with pytest.raises(OutsideTheoryError, match="neurons × examples"):
        exact_or_simulated(wide, x, y, [0.0])
