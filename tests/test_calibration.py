"""Probes against exact theories: first order in the step, and the regime named where it is known."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from richter.regime import AGREEMENT
from richter.testing.tolerances import IDENTITY, assert_close, assert_slope
from richter.theory import IsotropicNetwork, SingleNeuron, WideScalar
from richter.theory.base import AbstractTheory
from richter.theory.discrete import largest_stable_step

pytest.importorskip("torch", reason="needs the extra torch")

from richter.probes import conserved, conserved_drift, kernel_distance, layer_alignment, ntk, parameter_distance, start  # noqa: E402
from richter.testing.calibration import LineAlignment, Row, build, cases, confusion, name_regime, plan  # noqa: E402
from richter.training import train  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
STEPS = (0.04, 0.02, 0.01)  # shares of the largest stable step
NETS: dict[str, AbstractTheory] = {
    "single neuron, downstream": SingleNeuron(a0=0.4, w0=[-1.0, 0.5, 0.3], beta_star=[0.3, 1.0, 0.0], eta_a=0.5, eta_w=2.0),
    "single neuron, upstream": SingleNeuron(a0=1.2, w0=[-0.5, 0.2, 0.0], beta_star=[0.3, 1.0, 0.4]),
    "wide, uneven rates": WideScalar(
        u0=[1.0, -0.4, 0.8], w0=[[0.5, 0.1], [0.2, -1.0], [-0.3, 0.4]], x=[1.0, -0.5], y=2.0, gamma=0.8, eta_u=2.0, eta_w=0.5
    ),
    "isotropic, two outputs": IsotropicNetwork.random(
        inputs=3, neurons=2, outputs=2, beta_star=[[1.0, 0.2], [-0.5, 0.8], [0.3, 0.1]], delta=0.7, scale=0.6, rng=1
    ),
}  # fmt: skip


def _exact(theory: AbstractTheory, t: float) -> dict[str, Any]:
    """What the probes would read if the network followed the flow."""
    ds = theory.solve([0.0, t])
    now = ds.isel(t=1)
    made = {"kernel change": float(now.kernel_change), "loss": float(now.loss)}
    made["conserved"] = 0.0
    p = theory.params
    if isinstance(theory, SingleNeuron):
        w, a = now.w.values, float(now.a)
        made["alignment"] = 1.0  # ‖a w‖ = |a|‖w‖
        made["moved"] = float(np.sqrt(((w - p["w0"]) ** 2).sum() + (a - float(p["a0"])) ** 2))
        made["kernel distance"] = float(now.kernel_distance)
    elif isinstance(theory, WideScalar):
        w, u = now.w.values, now.u.values
        made["alignment"] = float(np.linalg.norm(u @ w) / np.linalg.norm(u) / np.linalg.norm(w))
        made["moved"] = float(np.sqrt(((w - p["w0"]) ** 2).sum() + ((u - p["u0"]) ** 2).sum()))
        made["line alignment"] = float(now.alignment)
    else:
        sizes = np.trace(now.gram_a.values) * np.trace(now.gram_w.values)
        made["alignment"] = float(np.linalg.norm(now.beta.values) / np.sqrt(sizes))
        made["kernel distance"] = float(now.kernel_distance)
    return made


def _measured(theory: AbstractTheory, t: float, share: float) -> dict[str, float]:
    """The same read by probes off the trained torch network."""
    built = build(theory, 3)
    steps = int(np.ceil(t / (share * float(np.min(largest_stable_step(theory))))))
    rates = dict(built.layer_rates)
    data = built.task.torch(next(built.model.parameters()).dtype)
    batch = (data.inputs, data.targets)
    K0, first = ntk(built.model, batch[0], rates=rates), conserved(built.model, rates, batch)
    origin = start(built.model, batch)
    train(built.model, built.task, steps=steps, rate=t / steps, loss=built.loss, layer_rates=rates, progress=False)
    K, now = ntk(built.model, batch[0], rates=rates), conserved(built.model, rates, batch)
    residual = (built.model(batch[0]) - batch[1]).detach().numpy()
    n = len(residual)
    made = {
        "kernel change": float(np.linalg.norm(K - K0) / np.linalg.norm(K0)),
        "loss": float((residual**2).sum() * {"half-sum": 0.5, "square": 1 / n}[built.loss]),
        "conserved": next(iter(conserved_drift(now, first).values()))[0],
        "alignment": float(next(iter(layer_alignment(built.model, batch).values()))),
        "moved": parameter_distance(built.model, origin).absolute,
        "kernel distance": float(kernel_distance(K, K0)),
    }
    if isinstance(theory, WideScalar):
        made["line alignment"] = LineAlignment().measure(built.model, batch, None)["alignment"]  # type: ignore[arg-type, assignment]
    return made


@pytest.mark.parametrize("name", NETS)
def test_probes_of_trained_networks_converge_to_the_theory_at_first_order(name: str) -> None:
    theory = NETS[name]
    t = 30 * 0.04 * float(np.min(largest_stable_step(theory)))  # 30, 60 and 120 steps, in the middle of learning
    exact = _exact(theory, t)
    seen = [_measured(theory, t, share) for share in STEPS]
    for what, truth in exact.items():
        gaps = [abs(row[what] - truth) for row in seen]
        if what == "alignment" and isinstance(theory, SingleNeuron):
            assert max(gaps) < 1e-12, "the layers of one neuron are aligned whatever the step"
            continue
        assert min(gaps) > 1e-9, f"{what}: nothing left to converge"
        assert_slope(STEPS, gaps, 1.0, says=f"{name}: {what}")


def test_a_probe_that_forgets_the_rates_does_not_converge_control() -> None:
    theory = NETS["wide, uneven rates"]
    t = 30 * 0.04 * float(np.min(largest_stable_step(theory)))
    built = build(theory, 3)
    data = built.task.torch(next(built.model.parameters()).dtype)
    truth = _exact(theory, t)["kernel change"]
    K0 = ntk(built.model, data.inputs)
    train(
        built.model,
        built.task,
        steps=2000,
        rate=t / 2000,
        loss=built.loss,
        layer_rates=built.layer_rates,
        progress=False,
    )
    K = ntk(built.model, data.inputs)
    assert abs(float(np.linalg.norm(K - K0) / np.linalg.norm(K0)) - truth) > 0.05


@pytest.mark.parametrize("name", NETS)
def test_a_built_network_is_the_theory_at_the_start(name: str) -> None:
    theory = NETS[name]
    built = build(theory, 5)
    data = built.task.torch(next(built.model.parameters()).dtype)
    first = theory.solve([0.0]).isel(t=0)
    residual = (built.model(data.inputs) - data.targets).detach().numpy()
    loss = (residual**2).sum() * {"half-sum": 0.5, "square": 1 / len(residual)}[built.loss]
    assert_close(loss, float(first.loss), IDENTITY, times=10)  # sums of 40 terms
    K = ntk(built.model, data.inputs, rates=dict(built.layer_rates)).values
    if isinstance(theory, WideScalar):
        assert_close(np.trace(K[:, :, 0, 0]) / len(K), float(first.kernel), IDENTITY, times=10)
    elif isinstance(theory, SingleNeuron):
        assert_close(np.linalg.norm(K), np.linalg.norm(first.kernel.values), IDENTITY, times=10)


QUICK = 1200  # steps


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return [name_regime(case, 0) for case in cases(0) if plan(case.theory)[1] <= QUICK]


def test_no_regime_is_named_wrong(rows: list[Row]) -> None:
    assert len(rows) > 25
    wrong = [
        (row.case.name, row.case.label, row.named.label)
        for row in rows
        if row.named.label not in (row.case.label, "undecided")
    ]
    assert not wrong
    counts = confusion(rows)
    assert counts["lazy", "lazy"] >= 8 and counts["rich", "rich"] >= 10
    open_ = [row for row in rows if row.named.label == "undecided"]
    assert len(open_) <= 0.15 * len(rows)
    for row in open_:  # only where a number lies on its border
        low, high = row.named.evidence["kernel_change"].interval or (0, 0)
        early = row.named.evidence["early_share"].interval or (0, 0)
        assert low < 0.3 < high or early[0] < 0.3 < early[1]
        assert row.named.evidence["agreement"].value < AGREEMENT


def test_the_numbers_are_the_theorys(rows: list[Row]) -> None:
    for row in rows:
        change = row.named.evidence["kernel_change"]
        # The run ends with 1e-4 of the loss, so up to 1e-2 of the way, left; a tiny movement that is lost again at
        # the end is a difference of large numbers, and finite steps change it by their share of the stable one.
        assert change.value == pytest.approx(row.exact[0], rel=0.08), row.case.name
        if row.case.label != "lazy":
            assert row.named.evidence["early_share"].value == pytest.approx(row.exact[1], abs=0.1), row.case.name


def test_delayed_riches_are_named_too() -> None:
    found = {case.name: case for case in cases(0) if case.theory.name == "single-neuron"}
    for name in ("imbalance δ = -3", "rates η_a = 4, η_w = 0.25"):
        row = name_regime(found[name], 1)
        assert row.case.label == row.named.label == "delayed-rich"


def test_the_mechanism_is_named_right(rows: list[Row]) -> None:
    on_line = [row for row in rows if row.case.mechanism]
    assert {row.case.mechanism for row in on_line} == {"alignment", "disalignment", "rescaling"}
    for row in on_line:
        assert row.mechanism == row.case.mechanism, row.case.name


def test_a_run_stopped_early_is_not_called_lazy_control() -> None:
    from richter.measurement.record import record

    (case,) = [case for case in cases(0) if case.name == "imbalance δ = 4"]
    built, (step, _) = build(case.theory), plan(case.theory)
    stopped = record(
        built.model, built.task, steps=3, rate=step, loss=built.loss, moments=4, only=["loss"], progress=False
    )
    assert case.label == "lazy" and stopped.regime.label == "undecided"


def test_the_page_holds_what_the_test_sees(rows: list[Row]) -> None:
    text = (ROOT / "docs" / "calibration.md").read_text(encoding="utf-8")
    assert re.search(r"\d+ networks: \d+ named right, \d+ undecided, 0 named wrong", text)
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]
    table = {(cells[0], cells[1]): cells[2:] for cells in lines if len(cells) == 8}
    for row in rows:
        cells = table[row.case.theory.name, row.case.name]
        assert cells[:2] == [row.case.label, row.named.label]
        assert cells[2] == f"{row.exact[0]:.3g}"
