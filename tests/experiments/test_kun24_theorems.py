"""Every claim about potentials, aligned networks, depth and random layers can fail."""

from __future__ import annotations

import numpy as np
import pytest

from richter.experiments.kun24_depth_bias import DepthBias, minimiser
from richter.experiments.kun24_hessian_map import HessianMap
from richter.experiments.kun24_hyperbolic_entropy import HyperbolicEntropy
from richter.experiments.kun24_random_balance import RandomBalance
from richter.maths.potentials import deep_potential
from tests.experiments.test_kun24_neuron import fails, findings, smoke


def test_hessian_map_control() -> None:
    run = _, ds = smoke(HessianMap)
    assert fails(run, "no_hessian", asymmetry=ds.warped_asymmetry)
    assert fails(run, "warped", warped_asymmetry=ds.asymmetry)
    assert fails(run, "potential", hessian_gap=ds.hessian_gap + 1e-3)


def test_hyperbolic_entropy_control() -> None:
    run = experiment, ds = smoke(HyperbolicEntropy)
    assert fails(run, "mirror", mirror_gap=ds.mirror_gap + 1e-6)
    assert fails(run, "mirror", off_frame=ds.off_frame + 1e-6)
    assert fails(run, "exponents", exponent=ds.exponent - 0.5)
    assert fails(run, "same_end", end_gap=ds.end_gap + 1e-6)
    assert fails(run, "symmetric", modes=ds.modes * (1 + 1e-6 * (ds.delta > 0)))
    narrow, there = smoke(HyperbolicEntropy, deltas=[10.0], draws=1, moments=10)
    assert findings(narrow, there)["exponents"] == "undecided"


def test_depth_bias_control() -> None:
    run = experiment, ds = smoke(DepthBias)
    assert findings(experiment, ds) == {"theorem": "holds", "main_text": "fails", "depth_keeps": "holds"}
    assert findings(experiment, ds.assign(printed=ds.kkt))["main_text"] == "holds"
    assert fails(run, "theorem", gap=ds.gap + 1e-3) and fails(run, "theorem", kkt=ds.printed)
    assert fails(run, "depth_keeps", angle=-ds.angle)
    long, there = smoke(DepthBias, scales=[8.0], depths=[2, 3], problems=2)
    assert findings(long, there)["depth_keeps"] == "undecided"


def test_the_minimiser_has_the_smallest_potential(seed: int) -> None:
    rng = np.random.default_rng([seed, 20])
    for hidden in (1, 2, 4):
        rows = np.linalg.qr(rng.standard_normal((4, 2)))[0].T
        shortest, beta0 = rows.T @ rng.standard_normal(2), rng.standard_normal(4) * 10 ** rng.uniform(-2, 1)
        end = minimiser(rows, shortest, beta0, hidden)
        null = np.linalg.svd(rows)[2][2:]
        around = end + 0.1 * np.linalg.norm(end) * rng.standard_normal((200, 2)) @ null
        assert (deep_potential(around, beta0, hidden) > deep_potential(end, beta0, hidden)).all()
        np.testing.assert_allclose(rows @ end, rows @ shortest, atol=1e-12)  # of size 1


def test_random_balance_control() -> None:
    experiment, ds = smoke(RandomBalance)
    assert findings(experiment, ds) == {"balanced": "fails"}
    # Were the gaps to shrink as the entries do, the claim would hold.
    entries = ds.gap.sel(measure="entry", drop=True) + 0 * ds.gap
    assert findings(experiment, ds.assign(gap=entries))["balanced"] == "holds"
    wide = ds.gap.sel(measure="frobenius").isel(width=-1).mean("draw")
    assert float(wide.sel(part="hidden")) == pytest.approx(1.0, abs=0.05)  # free probability: 1 and √½
    assert float(wide.sel(part="last")) == pytest.approx(0.5**0.5, abs=0.05)
