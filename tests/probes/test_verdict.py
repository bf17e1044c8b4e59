"""The regime of recorded runs: the rules one by one on made Datasets, and what is said beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

from richter.errors import ParameterError
from richter.probes.verdict import verdict
from richter.regime import AGREEMENT, DELAYED_BELOW, FIT_TIME, LAZY_BELOW
from richter.theory import IsotropicNetwork, SingleNeuron


def run(
    top: float, *, early: float = 0.9, spread: float = 0.0, end: float = 10.0, loss_end: float = 0.0, kind: str = "full",
    draws: int = 40, **attrs: Any,
) -> xr.Dataset:  # fmt: skip
    """A run whose kernel has moved by `early` of `top` at t = 1, when the start's kernel would fit, then by all."""
    t = np.array([0.0, 0.5, 1.0, end / 2, end])
    change = top * np.array([0.0, early / 2, early, 1.0, 1.0])
    loss = np.array([1.0, 0.5, 0.1, loss_end, loss_end])
    factors = 1 + spread * np.linspace(-1, 1, draws)[:, None] if draws else None
    ds = xr.Dataset(
        {
            f"kernel_change_{kind}": ("step", change, {"fit_rate": str(FIT_TIME), "kind": kind}),
            f"kernel_distance_{kind}": ("step", change**2 / 2),
            "loss": ("step", loss),
        },
        {"step": (t * 10).astype(int), "t": ("step", t)},
        attrs,
    )
    if factors is not None:
        ds[f"kernel_change_{kind}_resampled"] = (("draw", "step"), factors * change)
    return ds


@pytest.mark.parametrize(
    ("top", "early", "label"),
    [(0.9 * LAZY_BELOW, 0.9, "lazy"), (1.1 * LAZY_BELOW, 0.9, "rich"), (1.1 * LAZY_BELOW, 0.9 * DELAYED_BELOW, "delayed-rich"),
     (0.9 * LAZY_BELOW, 0.1, "lazy")],
)  # fmt: skip
def test_a_sure_run_has_the_label_of_its_numbers(top: float, early: float, label: str) -> None:
    regime = verdict(run(top, early=early, spread=0.01))
    assert regime.label == label
    assert regime.evidence["kernel_change"].value == pytest.approx(top)
    assert regime.evidence["early_share"].value == pytest.approx(early)
    assert regime.evidence["agreement"].value == 1.0
    low, high = regime.evidence["kernel_change"].interval or (np.nan, np.nan)
    assert 0.985 * top < low < 0.995 * top and 1.005 * top < high < 1.015 * top


def test_a_run_on_the_border_is_undecided_and_says_between_what() -> None:
    regime = verdict(run(LAZY_BELOW, spread=0.2))
    assert regime.label == "undecided" and regime.evidence["agreement"].value < AGREEMENT
    assert "Resamples and seeds disagree: lazy in 4" in regime.reasons[0] and "rich in 5" in regime.reasons[0]
    assert "more probe points or more seeds" in regime.changes[0]


def test_seeds_that_disagree_are_undecided() -> None:
    runs = [run(0.1, draws=0), run(0.1, draws=0), run(0.6, draws=0)]
    regime = verdict(runs)
    assert regime.label == "undecided" and regime.evidence["agreement"].value == pytest.approx(2 / 3)
    batch = xr.concat(runs, "seed", join="exact")
    again = verdict(batch)
    assert again.label == "undecided" and again.evidence["kernel_change"] == regime.evidence["kernel_change"]
    assert verdict(runs[:2]).label == "lazy"


def test_a_run_that_ended_too_early_is_not_lazy() -> None:
    ds = run(0.1, end=10.0)
    assert verdict(ds).label == "lazy"
    short = ds.isel(step=slice(0, 2))  # ends at t = 0.5
    regime = verdict(short)
    assert regime.label == "undecided" and "before the start's kernel had time to fit, t = 1." in regime.reasons[0]
    assert "training for longer" in regime.changes[0]
    assert verdict(run(0.9).isel(step=slice(0, 3))).label == "rich"  # what has moved has moved


def test_without_a_clock_the_loss_says_whether_the_kernel_was_tested() -> None:
    def timeless(ds: xr.Dataset) -> xr.Dataset:
        return ds.assign_coords(t=("step", np.full(ds.sizes["step"], np.nan)))

    regime = verdict(timeless(run(0.6, early=0.1)))
    assert regime.label == "rich" and "early_share" not in regime.evidence
    assert any("not told apart" in reason for reason in regime.reasons)
    assert verdict(timeless(run(0.1))).label == "lazy"
    still = timeless(run(0.1)).assign(loss=("step", np.linspace(1.0, 0.95, 5)))
    assert verdict(still).label == "undecided" and "The loss fell by 5% only" in verdict(still).reasons[0]
    adam = verdict(run(0.6, early=0.1, clock="steps"))
    assert adam.label == "rich" and "early_share" not in adam.evidence


def test_a_loss_that_still_falls_is_said() -> None:
    ds = run(0.1, loss_end=0.05).assign(loss=("step", [1.0, 0.9, 0.8, 0.6, 0.3]))
    regime = verdict(ds)
    assert any("loss fell by 30% of its start. The label is so far" in reason for reason in regime.reasons)
    assert any(words.startswith("delayed-rich") for words in regime.changes)
    assert not any("had not ended" in reason for reason in verdict(run(0.1)).reasons)
    risen = run(0.1).assign(loss=("step", [1.0, 1.0, 1.0, 1.0, 1.5]))
    assert any("ended above its start" in reason for reason in verdict(risen).reasons)


def test_nothing_that_moves_is_frozen() -> None:
    still = run(0.0).assign(loss=("step", np.ones(5)))
    assert verdict(still).label == "frozen"
    assert verdict(run(0.0)).label == "lazy"  # a linear model learns with a kernel that stays
    fitted = run(0.0).assign(loss=("step", np.zeros(5)))
    assert verdict(fitted).label == "frozen"


def test_the_trace_kernel_comes_with_a_warning_and_kinds_do_not_mix() -> None:
    trace = verdict(run(0.1, kind="trace"))
    assert any("hides what changes between" in words for words in trace.silent)
    assert "trace kernel" in trace.evidence["kernel_change"].says
    assert not any("hides" in words for words in verdict(run(0.1, kind="trace", outputs=1)).silent)
    with pytest.raises(ParameterError, match="the runs must share one kind of kernel"):
        verdict([run(0.1, kind="trace"), run(0.1)])
    both = xr.merge([run(0.1, kind="trace"), run(0.6)], compat="override", join="exact")
    assert verdict(both).label == "rich"  # the full kernel is believed


def test_every_verdict_says_what_it_does_not_say() -> None:
    for regime in (verdict(run(0.1)), verdict(run(0.9))):
        assert any("not generalisation" in words for words in regime.silent)
        assert regime.changes
        text = str(regime)
        assert "What would change it:" in text and "What it does not say:" in text
        plain = regime.plain()
        assert plain["silent"] == list(regime.silent)
        assert "interval" in plain["evidence"]["kernel_change"]  # type: ignore[index]
    assert "3 times as far" in verdict(run(0.1)).changes[0]
    assert "3 times less far" in verdict(run(0.9)).changes[0]


def test_features_and_mechanism_are_words_of_the_evidence() -> None:
    ds = run(0.9).assign(minimum_projection_distance=("step", [0.9, 0.8, 0.5, 0.2, 0.05]))
    assert verdict(ds).evidence["features"].value == "minimum-features"
    assert verdict(ds.isel(step=slice(0, 4))).evidence["features"].value == "extended-features"
    for end, toward, word in ((0.9, 1, "alignment"), (0.1, -1, "disalignment"), (0.5, 1, "rescaling")):
        line = run(0.9, toward=toward).assign(alignment=("step", np.linspace(0.5, end, 5)))
        assert verdict(line).evidence["mechanism"].value == word


def test_a_theorys_solution_is_judged_as_its_own_regime_says() -> None:
    t = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 400)])
    for delta in (-10.0, -1.0, 0.0, 3.0, 10.0):
        start = SingleNeuron.from_imbalance(beta0=[-1.0, 0.0], delta=delta, beta_star=[0.0, 1.0])
        ds = start.solve(t)
        fit = FIT_TIME / float(np.linalg.eigvalsh(ds.kernel.values[0])[-1])
        assert verdict(ds.assign(fit_time=fit)).label == start.regime().label
    net = IsotropicNetwork.random(inputs=3, neurons=2, outputs=2, beta_star=np.ones((3, 2)), delta=6.0)
    assert verdict(net.solve(t)).label == net.regime().label == "lazy"


def test_what_cannot_be_judged_is_said() -> None:
    with pytest.raises(
        ParameterError, match=r"must hold one of kernel_change, .* over t\. Got loss\. Record the run with"
    ):
        verdict(xr.Dataset({"loss": ("t", [1.0])}, {"t": [0.0]}))
    with pytest.raises(ParameterError, match=r"`runs` must be a Dataset of a run, or several of them"):
        verdict([3])  # type: ignore[list-item]
