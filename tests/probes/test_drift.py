"""The drift of δ that finite steps explain, against the drift that happened."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from richter.probes import conserved, predicted_drift, watch
from richter.probes.balance import Balance, Ledger, squares
from tests.probes.loops import loop
from tests.probes.nets import ByHand, mlp, small_cnn


class _Grouped(nn.Module):
    """A linear layer viewed as channels, a grouped and a transposed convolution, flattened into a linear layer."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.a, self.b = nn.Linear(4, 36).double(), nn.Conv2d(4, 6, 2, groups=2).double()
        self.c, self.d = nn.ConvTranspose2d(6, 3, 2).double(), nn.Linear(27, 2).double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.a(x)).view(-1, 4, 3, 3)
        h = torch.relu(self.c(torch.relu(self.b(h))))
        return self.d(h.flatten(1))


NETS: dict[str, Any] = {
    "mlp": (mlp, (4,)), "cnn": (small_cnn, (2, 8, 8)), "by hand": (ByHand, (4,)), "grouped": (_Grouped, (4,)),
}  # fmt: skip


def _data(seed: int, shape: tuple[int, ...], outputs: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(20, *shape, generator=g).double(), torch.randn(20, outputs, generator=g).double()


@pytest.mark.parametrize("kind", NETS)
def test_seen_at_every_step_plain_descent_explains_its_drift_to_rounding(kind: str, seed: int) -> None:
    make, shape = NETS[kind]
    net = make(seed)
    x, y = _data(seed, shape, 3 if kind == "cnn" else 2)
    with watch(net, probe=(x, y), rate=0.05, budget=None) as see:
        loop(net, x, y, see, 40)
    ds = see.dataset()
    assert ds.attrs["gradients_seen"] == 40
    assert (ds.conserved_drift[-1] > 1e-5).all()
    assert float(ds.unexplained_drift.max()) < 1e-12
    np.testing.assert_allclose(ds.delta_predicted, ds.delta, rtol=0, atol=1e-12)
    assert float(ds.predicted_drift[0].max()) == 0


def test_other_steps_do_not_explain_it_control(seed: int) -> None:
    net = mlp(seed)
    x, y = _data(seed, (4,))
    with watch(net, probe=(x, y), rate=0.05, budget=None) as see:
        loop(net, x, y, see, 40, optimiser=torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9))
    ds = see.dataset()
    assert (ds.unexplained_drift[-1] > 0.2 * ds.conserved_drift[-1]).all()


@pytest.mark.parametrize("kind", NETS)
def test_the_squares_per_neuron_are_those_of_the_prediction(kind: str, seed: int) -> None:
    make, shape = NETS[kind]
    net = make(seed)
    x, y = _data(seed, shape, 3 if kind == "cnn" else 2)
    (net(x) - y).square().sum().backward()
    found = conserved(net, batch=x)
    parameters = dict(net.named_parameters())
    assert found.pairs
    for names, pair in found.pairs.items():
        given = found.gradients(net, names)
        first, second = squares(pair, *(parameters[w.parameter].grad for w in (pair.first, pair.second)))
        np.testing.assert_allclose(first, (given["first"] ** 2).sum(1), rtol=1e-12)
        np.testing.assert_allclose(second, (given["second"] ** 2).sum(0), rtol=1e-12)
    ledger = Ledger(found, Balance().start(net, (x, None)))
    assert ledger.add(1, net, 0.1) and not ledger.add(1, net, 0.1)
    for names in found.pairs:
        expected = predicted_drift(found.gradients(net, names), found.rates[names], step=0.1)
        np.testing.assert_allclose(ledger.total[names], expected, rtol=1e-12, atol=1e-18)


def test_between_gradients_seen_the_sum_follows_a_straight_line(seed: int) -> None:
    net = mlp(seed, (4, 6, 2))
    x, y = _data(seed, (4,))
    ledger = Ledger(conserved(net, batch=x), Balance().start(net, (x, None)))
    (net(x) - y).square().sum().backward()
    grads = [p.grad.clone() for p in net.parameters()]
    pair = ("0", "2")
    # Gradients whose squares grow in proportion to the step: every fifth is as good as all.
    for step in (1, 6, 11, 21):
        for p, g in zip(net.parameters(), grads, strict=True):
            p.grad = g * step**0.5
        ledger.add(step, net, 0.1)
    one = predicted_drift(conserved(net, batch=x).gradients(net, pair), step=0.1) / 21
    np.testing.assert_allclose(ledger.total[pair], one * sum(range(1, 22)), rtol=1e-12)
    assert ledger.seen == 4 and ledger.step == 21


def test_without_gradients_nothing_is_predicted(seed: int) -> None:
    net = mlp(seed)
    x, y = _data(seed, (4,))
    see = watch(net, probe=(x, y), rate=0.05, budget=None, moments=[0, 1, 2])
    see(1)
    ds = see.dataset()
    assert np.isnan(ds.predicted_drift[1]).all() and ds.attrs["gradients_seen"] == 0
    for more, why in (({}, "no rate was given"), ({"rate": 0.1, "measure": ["loss"]}, "nothing is conserved")):
        ds = watch(net, probe=(x, y), **more).dataset()  # type: ignore[arg-type]
        assert "predicted_drift" not in ds and f"predicted_drift: {why}" in ds.attrs["left_out"]


def test_a_budget_sees_fewer_gradients_and_predicts_nearly_the_same(seed: int) -> None:
    net = mlp(seed)
    x, y = _data(seed, (4,))
    with watch(net, probe=(x, y), rate=0.05, budget=None) as see:
        see.recorder.stride = 10**9  # only at the moments of a look
        see.recorder.budget.stride = lambda steps, name: 10**9  # type: ignore[method-assign]
        loop(net, x, y, see, 100)
    ds = see.dataset()
    assert ds.attrs["gradients_seen"] < 40
    np.testing.assert_allclose(ds.predicted_drift[-1], ds.conserved_drift[-1], rtol=0.1)
