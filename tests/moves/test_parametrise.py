from __future__ import annotations

import numpy as np
import pytest
import torch

from richter.errors import OutsideTheoryError, UnknownNameError
from richter.maths.scaling_limits import trained_scales
from richter.moves import groups, parametrise
from richter.moves.change import output
from richter.moves.parametrise import rule
from richter.refs import XU24
from richter.theory.phases import table_1
from richter.training import lenet5, mlp, modular_transformer
from tests.moves.models import apart, rows, state

NAMES = {
    "NTK": "ntk",
    "mean field": "mean-field",
    "Kaiming+": "kaiming+",
    "Kaiming-": "kaiming-",
    "Xavier+": "xavier+",
    "Xavier-": "xavier-",
}


@pytest.mark.place(XU24["App. B.3"], XU24["Table 1"])
@pytest.mark.parametrize("paper", NAMES)
@pytest.mark.parametrize("width", [64, 100, 1000])
def test_the_six_trained_networks_are_those_of_the_paper_with_its_misprint_corrected(paper: str, width: int) -> None:
    gamma, eta = (float(v) for v in trained_scales(width)[paper])
    record = parametrise(mlp(5, [width], 2, bias=False), NAMES[paper])
    lr = 0.05 * (width / 100 if paper == "mean field" else 1.0)  # the frozen column is printed with its stable rate
    assert float(record.model.get_buffer("output_scale")) == pytest.approx(gamma, rel=1e-6)
    for group in groups(record.model, "sgd", lr, record.rates):
        assert group["lr"] == pytest.approx(eta, rel=1e-12)


def test_every_rule_has_the_phase_of_table_1() -> None:
    for row in table_1()[:4]:
        stem = str(row["scaling"]).lower().replace(" ", "-")
        assert rule(stem).phase == row["phase"]
        for sign in "+-":
            found = rule(stem + sign)
            assert found.phase == row[f"phase{sign}"]
            assert (found.c_eta, found.c_gamma) == (row[f"c_eta{sign}"], row[f"c_gamma{sign}"])
    assert (rule("feature-learning").phase, rule("kernel").phase) == ("feature-learning", "kernel")


@pytest.mark.parametrize(("name", "last", "first"), [
    ("ntk", 1.0, 1 / 5), ("mean-field", 1.0, 1 / 5), ("kaiming+", 1 / 300, 1 / 5), ("xavier", 2 / 102 / 3, 2 / 105 / 3),
])  # fmt: skip
def test_the_start_has_the_rules_variances_and_every_weight_its_direction(name: str, last: float, first: float) -> None:
    net = mlp(5, [300], 2)
    before = state(net)
    record = parametrise(net, name)
    w, u = net.get_parameter("layer1.weight"), net.get_parameter("layer2.weight")
    assert float(w.detach().double().square().mean()) == pytest.approx(first, rel=1e-6)
    assert float(u.detach().double().square().mean()) == pytest.approx(last, rel=1e-6)
    ratio = w.detach() / before["layer1.weight"]
    torch.testing.assert_close(ratio, torch.full_like(ratio, float(ratio[0, 0])), rtol=1e-5, atol=0)
    inner = record.inverse.apply(record.model).model
    assert inner is net and apart(state(net), before) < 1e-6


def test_feature_learning_and_kernel_keep_the_weights_and_scale_the_output() -> None:
    net, x = mlp(5, [400], 2), rows(5).float()
    before, f0 = state(net), output(net, x)
    made = parametrise(net, "feature-learning", x, base=100)
    assert apart(state(net), before) == 0.0 and not made.factors
    torch.testing.assert_close(output(made.model, x), f0 / 40, rtol=1e-6, atol=0)
    assert made.rates["inner.layer2.weight"] == pytest.approx(400) and made.rates["inner.layer2.bias"] == pytest.approx(
        1600
    )
    kernel = parametrise(mlp(5, [400], 2), "kernel", x)
    assert float(kernel.model.get_buffer("output_scale")) == 0.5 and kernel.rates["inner.layer1.weight"] == 1.0
    assert any("zero_output" in note for note in kernel.notes)


def test_xavier_is_the_formula_at_the_base_and_falls_with_the_width_whatever_the_inputs() -> None:
    at_base = mlp(200, [100], 2)
    parametrise(at_base, "xavier", base=100)
    torch.testing.assert_close(
        at_base.get_parameter("layer1.weight").square().mean().item(), 2 / 300, rtol=1e-5, atol=0
    )
    deep = mlp(200, [100, 400], 2)
    parametrise(deep, "xavier", base=100)
    found = [deep.get_parameter(f"layer{i}.weight").detach().double().square().mean().item() for i in (1, 2, 3)]
    assert found == pytest.approx([2 / 300, 2 / 500, 2 / 102 / 4], rel=1e-5)
    # between wide layers a variance of 1/width needs no slower rate: both layers around it are small too
    rates = parametrise(mlp(5, [200, 400], 2), "xavier+").rates
    assert rates["inner.layer2.weight"] == rates["inner.layer1.weight"] == pytest.approx(1.0)
    words = modular_transformer(7, d=8, heads=2, hidden=16)
    parametrise(words, "kaiming+", torch.randint(0, 7, (4, 3)))
    assert float(words.get_parameter("tokens.weight").detach().square().mean()) == pytest.approx(1.0)  # fan-in 1


def test_matrices_between_wide_layers_learn_by_their_own_fan_in() -> None:
    made = parametrise(mlp(5, [200, 400], 2), "feature-learning")
    assert made.rates["inner.layer1.weight"] == pytest.approx(400.0)  # speed 100; the last fan-in over the base
    assert made.rates["inner.layer2.weight"] == pytest.approx(400.0 / 2.0)
    assert any("extension of XU24" in note for note in made.notes)
    adam = parametrise(mlp(5, [200, 400], 2), "feature-learning", optimiser="adam")
    lrs = {g["name"]: g["lr"] for g in groups(adam.model, "adam", 0.01, adam.rates)}
    assert lrs["inner.layer1.weight"] == pytest.approx(0.01) and lrs["inner.layer2.weight"] == pytest.approx(0.005)
    with pytest.raises(OutsideTheoryError, match="feature-learning one for Adam"):
        parametrise(mlp(5, [20]), "ntk", optimiser="adam")


def test_other_architectures_and_what_is_refused() -> None:
    made = parametrise(lenet5(size=16), "feature-learning", rows(1, 16, 16).float())
    assert made.rates["inner.conv1.weight"] == pytest.approx(84)
    tokens = torch.randint(0, 7, (4, 3))
    words = parametrise(modular_transformer(7, d=8, heads=2, hidden=16), "feature-learning", tokens)
    assert words.rates["inner.block.up.weight"] == pytest.approx(100)
    with pytest.raises(UnknownNameError, match="No parametrisation named `kayming`. Did you mean kaiming"):
        parametrise(mlp(2, [3]), "kayming")
    with pytest.raises(OutsideTheoryError, match="at least two weight layers"):
        parametrise(torch.nn.Linear(2, 1))
    zero = mlp(2, [3])
    torch.nn.init.zeros_(zero.get_parameter("layer2.weight"))
    with pytest.raises(OutsideTheoryError, match="not be 0"):
        parametrise(zero, "ntk")


@pytest.mark.parametrize(("name", "slope"), [("mean-field+", 0.0), ("kaiming-", -1.5), ("ntk", -0.5)])
def test_one_step_moves_hidden_values_by_the_powers_of_the_phases(name: str, slope: float) -> None:
    r"""A step of W gives $\Delta h\sim\gamma\eta_wu_i$: κ^{c_γ+c_η+c_u/2}, once the residual is of order 1."""
    found = rule(name)
    assert found.c_gamma + found.c_eta + found.c_u / 2 == slope
    widths, moved = [100, 400, 1600], []
    x = torch.randn(8, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for width in widths:
        squares = []
        for draw in range(6):
            record = parametrise(mlp(5, [width], 1, bias=False, rng=draw).double(), name)
            hidden = record.model.get_submodule("inner.layer1")
            start, y = output(hidden, x), output(record.model, x) + 1.0
            optimiser = torch.optim.SGD(groups(record.model, "sgd", 0.01, record.rates), lr=0.01)
            for _ in range(60):
                optimiser.zero_grad()
                (0.5 * (record.model(x) - y).square().mean()).backward()
                optimiser.step()
            squares.append(float((output(hidden, x) - start).square().mean()))
        moved.append(float(np.mean(squares)) ** 0.5)
    fitted = np.polyfit(np.log(widths), np.log(moved), 1)[0]
    assert fitted == pytest.approx(slope, abs=0.2)  # three widths, six draws each
