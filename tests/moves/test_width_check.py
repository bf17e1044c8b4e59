from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from richter.errors import ParameterError, UnknownNameError
from richter.figure.width import width_figure
from richter.moves import parametrise
from richter.moves.width_check import width_check, width_verdict
from richter.training import mlp

WIDTHS = (64, 128, 256, 512)


@pytest.fixture
def batch() -> tuple[Tensor, Tensor]:
    """One batch: the powers of four networks at four widths scatter by a tenth from batch to batch."""
    x = torch.randn(24, 6, generator=torch.Generator().manual_seed(7))
    return x, torch.sin(2 * x[:, :1])


@pytest.mark.parametrize(("name", "label", "hidden", "out"), [
    ("mean-field+", "feature-learning", 0.0, 0.0), ("feature-learning", "feature-learning", 0.0, 0.0),
    ("ntk", "kernel", -0.5, 0.0), ("kaiming-", "kernel", -1.5, 0.0), ("xavier+", "feature-learning", 0.0, 0.0),
    ("mean-field", "frozen", -1.0, -1.0), ("standard", "unstable", None, None),
])  # fmt: skip
def test_the_verdict_is_the_phase_and_the_powers_are_theirs(
    name: str, label: str, hidden: float | None, out: float | None, batch: Any
) -> None:
    """Two layers. At the frozen column's rate the narrowest fit: a smaller one shows the power of the movement."""
    rate = 0.01 if name == "mean-field" else 0.05
    ds = width_check(lambda w, s: parametrise(mlp(6, [w], rng=s), name, base=64), batch, widths=WIDTHS, rate=rate)
    verdict = width_verdict(ds)
    assert verdict.label == label
    if hidden is not None and out is not None:
        assert float(ds.exponent[0]) == pytest.approx(hidden, abs=0.2)  # four widths, four networks each
        assert float(ds.exponent[-1]) == pytest.approx(out, abs=0.2)


@pytest.mark.parametrize(("name", "label"), [("xavier+", "feature-learning"), ("xavier-", "kernel")])
def test_many_inputs_change_no_phase(name: str, label: str) -> None:
    """Widths below and above the number of inputs: the variances are powers of the width alone."""
    draw = torch.Generator().manual_seed(7)
    x = torch.randn(24, 200, generator=draw) * 0.2
    make = lambda w, s: parametrise(mlp(200, [w], rng=s), name, base=64)
    ds = width_check(make, (x, torch.sin(2 * x[:, :1])), widths=WIDTHS, steps=10)
    assert width_verdict(ds).label == label
    hidden = 0.0 if label == "feature-learning" else -1.0
    assert float(ds.exponent[0]) == pytest.approx(hidden, abs=0.2)  # four widths, four networks each


def test_deep_networks_keep_the_phase_and_adam_has_its_own_rule(batch: Any) -> None:
    deep = lambda name, **o: lambda w, s: parametrise(mlp(6, [w, w], rng=s), name, base=64, **o)
    for name, label in (("feature-learning", "feature-learning"), ("ntk", "kernel"), ("xavier+", "feature-learning")):
        assert width_verdict(width_check(deep(name), batch, widths=WIDTHS)).label == label
    adam: Any = {"optimiser": "adam", "rate": 0.01, "widths": WIDTHS}
    ds = width_check(deep("feature-learning", optimiser="adam"), batch, **adam)
    assert width_verdict(ds).label == "feature-learning"
    plain = width_check(lambda w, s: mlp(6, [w, w], rng=s), batch, **adam)  # the control: no parametrisation
    assert width_verdict(plain).label == "unstable"


def test_what_was_measured_and_its_figure(batch: Any) -> None:
    ds = width_check(lambda w, s: parametrise(mlp(6, [w], rng=s), "ntk"), batch, widths=(32, 64, 128), seeds=2)
    assert dict(ds.sizes) == {"width": 3, "seed": 2, "layer": 3, "weight": 2}
    assert list(ds.layer.values) == ["inner.layer1", "inner.layer2", "output"]
    assert bool((ds["size"] > 0).all()) and bool((ds.change > 0).all())
    assert bool((ds.low <= ds.exponent).all()) and bool((ds.exponent <= ds.high).all())
    # all start with the same residual: the output moves towards start + targets
    assert float(ds.change.sel(layer="output").max()) < float(batch[1].square().mean().sqrt()) * 1.5
    figure = width_figure(ds, width_verdict(ds))
    assert len(figure.panels) == 3 and "kernel" in figure.caption
    np.testing.assert_array_equal(figure.panels[0].marks[0].x, [32, 64, 128])


def test_wrong_requests_are_told(batch: Any) -> None:
    make = lambda w, s: mlp(6, [w], rng=s)
    with pytest.raises(ParameterError, match="`widths` must be at least three"):
        width_check(make, batch, widths=(32, 64))
    with pytest.raises(ParameterError, match="be one of sgd, adam, adamw"):
        width_check(make, batch, optimiser="lion")
    with pytest.raises(UnknownNameError, match="No loss named"):
        width_check(make, batch, widths=(8, 16, 32), loss="l2")
    with pytest.raises(ParameterError, match="have the same layers"):
        width_check(lambda w, s: mlp(6, [w] * (w // 8), rng=s), batch, widths=(8, 16, 24))
