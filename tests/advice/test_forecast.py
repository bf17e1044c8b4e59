from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from richter.advice import forecast as room
from richter.advice.forecast import fit_time, forecast, trace_kernel
from richter.advice.norms import settle
from richter.advice.objective import objective, paired, residual
from richter.errors import ParameterError
from richter.moves import LayerRates
from richter.training import gpt2, mlp, two_layer


def regression(d: int = 3, n: int = 12) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(n, d, dtype=torch.float64)
    return x, torch.sin(2 * x[:, :1])


def moved(net: nn.Module, x: torch.Tensor, y: torch.Tensor, time: float, steps: int) -> float:
    """‖K − K₀‖/‖K₀‖ after gradient descent on ½ mean (f − y)²."""
    before = trace_kernel(net, x)
    for _ in range(steps):
        net.zero_grad()
        (0.5 * (net(x) - y).square().mean()).backward()
        with torch.no_grad():
            for p in net.parameters():
                assert p.grad is not None
                p.sub_(time / steps * p.grad)
    after = trace_kernel(net, x)
    return float(np.linalg.norm(after.values - before.values) / np.linalg.norm(before.values))


def test_the_stride_is_where_gradient_flow_goes_if_it_is_lazy() -> None:
    """The same residual from larger and larger starts: the movement foretold becomes the one that happens."""
    x, y = regression()
    a, w, gaps = torch.randn(16), torch.randn(16, 3), {}
    for scale in (2.0, 16.0):
        net = two_layer((scale * a).tolist(), (scale * w).tolist()).double()
        targets, time = net(x).detach() + y, 0.5 / scale**2
        seen = forecast(net, (x, targets), time=time)
        assert seen.movement > 0
        gaps[scale] = abs(moved(net, x, targets, time, 100) / seen.movement - 1)
    assert gaps[16.0] < 0.01  # it falls with the square of the scale, and is 0.2 % here for six draws


def test_a_linear_model_never_moves_its_kernel() -> None:
    x, y = regression()
    seen = forecast(nn.Linear(3, 1).double(), (x, y))
    assert seen.movement == seen.turn == 0 and seen.parameters > 0 and 0 < seen.fitted <= 1


def test_the_krylov_space_gives_what_the_eigenvectors_give(monkeypatch: pytest.MonkeyPatch) -> None:
    net, x, y = mlp(4, [16], 3).double(), torch.randn(20, 4, dtype=torch.float64), torch.randint(0, 3, (20,))
    exact = forecast(net, (x, y), loss="cross-entropy", time=5.0)
    monkeypatch.setattr(room, "LARGEST", 1)
    same = forecast(net, (x, y), loss="cross-entropy", time=5.0)
    for name in ("movement", "turn", "fastest", "parameters", "fitted"):
        assert getattr(same, name) == pytest.approx(getattr(exact, name), rel=1e-5), name


def test_layer_rates_enter_and_a_faster_first_layer_is_upstream() -> None:
    x, y = regression()
    net = two_layer(torch.randn(40).tolist(), torch.randn(40, 3).tolist()).double()
    first = LayerRates(rates={"layer1.weight": 16.0}).apply(net).rates
    last = LayerRates(rates={"layer2.weight": 16.0}).apply(net).rates
    movement = {k: forecast(net, (x, y), rates=r).movement for k, r in (("first", first), ("last", last), ("none", {}))}
    assert movement["first"] > movement["none"] > movement["last"]


def test_fit_time_is_that_of_the_modes_that_hold_the_loss() -> None:
    values = np.array([0.1, 1.0, 100.0])
    assert fit_time(values, np.array([0.0, 1.0, 0.1])) == pytest.approx(3.0)
    assert fit_time(values, np.array([0.0, 1.0, 10.0])) == pytest.approx(0.03)
    assert fit_time(values, np.array([1.0, 0.0, 0.0])) == pytest.approx(30.0)
    assert fit_time(np.array([0.0, 1.0]), np.array([1.0, 0.0])) == pytest.approx(3000.0)  # out of reach


def test_batch_norms_are_looked_at_as_in_training() -> None:
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
    x = 5 + torch.randn(16, 1, 8, 8)
    with torch.no_grad():
        wanted = net.train()(x)
    net.eval()
    settle(net, x)
    with torch.no_grad():
        got = net(x)
    assert float((got - wanted).abs().max()) < 0.05  # running variances are unbiased, the batch's are not
    state = {name: t.clone() for name, t in net.state_dict().items()}
    net[1].train()
    seen = forecast(net, (x, torch.randint(0, 2, (16,))), loss="cross-entropy")
    assert np.isfinite(seen.movement) and net[1].training and not net[0].training
    assert all(torch.equal(t, state[name]) for name, t in net.state_dict().items())


SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...], str, int]] = {
    "examples": ((6, 5), (6,), "cross-entropy", 6),
    "positions": ((6, 7, 5), (6, 7), "cross-entropy", 42),
    "classes second": ((6, 5, 7), (6, 7), "cross-entropy", 42),
    "regression": ((6, 5), (6, 5), "mse", 6),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_residual_is_the_push_of_the_loss(name: str) -> None:
    shape, wanted, loss, rows = SHAPES[name]
    out = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    y = torch.randint(0, 5, wanted) if loss == "cross-entropy" else torch.randn(wanted, dtype=torch.float64)
    objective(out, y, loss).backward()
    assert out.grad is not None
    assert torch.allclose(residual(out.detach(), y, loss).reshape(shape), -rows * out.grad, atol=1e-12)
    assert len(paired(out, y, loss)[0]) == rows


@pytest.mark.parametrize(
    ("out", "y", "loss"),
    [((6, 5), torch.zeros(6), "cross-entropy"), ((6, 5), torch.full((6,), 5), "cross-entropy"),
     ((6, 5), torch.zeros(7, dtype=torch.long), "cross-entropy"), ((6, 5), torch.zeros(6, 4), "mse"),
     ((6, 5), torch.full((6,), -1), "mse")],
)  # fmt: skip
def test_targets_that_do_not_fit_are_told(out: Any, y: torch.Tensor, loss: str) -> None:
    with pytest.raises(ParameterError, match="the targets must"):
        objective(torch.zeros(out), y, loss)


def test_a_language_model_with_tied_weights_is_foreseen() -> None:
    net = gpt2(layers=1, d=16, heads=2, context=8, vocabulary=12)
    x = torch.randint(0, 12, (6, 8))
    seen = forecast(net, (x, (x + 1) % 12), loss="cross-entropy")
    assert 0 < seen.movement < 100 and seen.fastest > 0
