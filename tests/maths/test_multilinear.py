"""Skills of the multilinear model: logistics, sums over any number of skills, finite data."""

from __future__ import annotations

import math
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest
from mpmath import mp

from richter.maths.integrate import integrate
from richter.maths.multilinear import (
    basis_end,
    basis_loss,
    counted_loss,
    expected_data_loss,
    expected_skill_losses,
    linear_loss,
    linear_strength,
    multilinear_loss,
    multilinear_skill_loss,
    multilinear_strength,
    observed_probability,
    one_shot_loss,
    pair_flow,
    strength_flow,
)
from richter.maths.skill_sums import power_sum, summation_nodes
from richter.maths.skills import aligned_skill_loss, skill_frequencies, zipf_constant
from richter.refs import NAM24
from richter.tasks.sparse_parity import SparseParity
from richter.testing.tolerances import IDENTITY, SOLVED, assert_close, assert_within_errors
from richter.theory import MultilinearSkills

TIMES = np.array([0.0, 1.0, 30.0, 1e3, 1e5, 3e6, 1e8, 1e9])


def random_model(seed: int, key: int) -> dict[str, float]:
    rng = np.random.default_rng([seed, key])
    target = 10 ** rng.uniform(-0.5, 0.8)
    return {
        "alpha": rng.uniform(0.1, 2.0), "target": target, "initial": target * 10 ** rng.uniform(-8, 0.3),
        "eta": 10 ** rng.uniform(-1.5, 0.5),
    }  # fmt: skip


@pytest.mark.place(
    NAM24["Eq. 4.11"], NAM24["Eq. B.1"], NAM24["Eq. B.10"], NAM24["Eq. 4.18"], NAM24["Eq. B.2"], NAM24["Eq. B.5"],
    NAM24["Eq. B.6"], NAM24["Eq. B.7"], NAM24["Eq. B.8"], NAM24["Eq. B.9"], NAM24["Eq. 4.10"],
)  # fmt: skip
def test_training_on_drawn_examples_follows_each_skills_logistic(seed: int) -> None:
    # The witness knows the examples and the model's output only: gradients of the empirical loss by hand.
    task = SparseParity.draw(n_tasks=4, n_bits=8, sparse=2, target=1.4, rng=seed)
    data = task.sample(40, rng=np.random.default_rng([seed, 2]))
    g, eta = task.basis(data), 0.7
    start = np.sqrt(np.array([0.02, 0.1, 0.3, 1.9]))

    def flow(flat: np.ndarray) -> np.ndarray:
        a, b = flat[:4], flat[4:]
        error = (a * b) @ g - data.targets
        slope = g @ error / 40
        return -eta * np.concatenate([b * slope, a * slope])

    t = np.array([0.0, 1.0, 5.0, 20.0])
    path = integrate(flow, np.concatenate([start, start]), t)
    share = np.bincount(data.skill, minlength=4)[:, None] / 40
    strength = multilinear_strength(t, share, 1.4, start[:, None] ** 2, eta)
    assert_close(strength, path[:4] * path[4:], SOLVED, scale=1.0)
    losses = multilinear_skill_loss(t, share, 1.4, start[:, None] ** 2, eta)
    assert_close(losses, aligned_skill_loss(path[:4] * path[4:], 1.4), SOLVED, scale=1.0)
    a, b = path[:4], path[4:]
    assert_close(np.concatenate(pair_flow(a, b, share, 1.4, eta))[:, 0], flow(path[:, 0]), IDENTITY, scale=1.0)
    da, db = pair_flow(a, a, share, 1.4, eta)
    assert_close(strength_flow(a * a, share, 1.4, eta), da * a + a * db, IDENTITY, scale=1.0)


def test_the_loss_of_a_learned_skill_keeps_its_digits() -> None:
    with mp.workdps(400):
        for t, start in ((0.5, 1e-30), (40.0, 1e-3), (150.0, 1.0)):
            r, x = 2 / mp.mpf(start) - 1, 2 * 2 * mp.mpf(t)
            exact = float(2 * (1 - 1 / (1 + r * mp.e**-x)) ** 2)
            assert_close(multilinear_skill_loss(np.array(t), 1.0, 2.0, start), exact, IDENTITY)
    assert multilinear_skill_loss(np.array([0.0, np.inf]), 1.0, 2.0, 0.0).tolist() == [2.0, 2.0]
    assert multilinear_strength(np.array([0.0, np.inf]), 1.0, 2.0, 0.0).tolist() == [0.0, 0.0]
    assert multilinear_strength(np.array([0.0, np.inf]), 0.0, 2.0, 0.3).tolist() == pytest.approx([0.3, 0.3])


@pytest.mark.parametrize("count", [1, 7, 400, 3000, 60_000])
def test_nodes_sum_powers_and_logistics_to_rounding(seed: int, count: int) -> None:
    k = np.arange(1.0, count + 1)
    rng = np.random.default_rng([seed, count])
    s, scale = rng.uniform(1.05, 3.0), 10 ** rng.uniform(0, 2)
    assert_close(power_sum(s, 1, count), math.fsum(k**-s), IDENTITY)
    nodes, weights = summation_nodes(1, count)
    smooth = lambda x: 1 / (1 + np.exp(scale * x**-0.8 - 3))
    fine = summation_nodes(1, count, 1 / (2 * (scale + 40)))
    assert_close((fine[1] * smooth(fine[0])).sum(), math.fsum(smooth(k)), IDENTITY)
    assert weights.sum() == pytest.approx(count, rel=1e-14) and (weights > 0).all() and (nodes >= 1).all()
    assert power_sum(s, 5, 4).item() == 0.0


def test_endless_sums_agree_with_fifty_digits() -> None:
    with mp.workdps(50):
        for s in (1.1, 1.6, 3.0):
            assert_close(power_sum(s, 17), float(mp.zeta(mp.mpf(s), 17)), IDENTITY)
            assert_close(zipf_constant(s - 1), float(1 / mp.zeta(mp.mpf(s))), IDENTITY)


@pytest.mark.place(NAM24["Eq. 4.17"])
@pytest.mark.parametrize("n_skills", [1, 30, 5000, 80_000])
def test_the_loss_of_many_skills_is_their_sum(seed: int, n_skills: int) -> None:
    p = random_model(seed, n_skills)
    P = skill_frequencies(p["alpha"], n_skills)
    N = max(1, (2 * n_skills) // 3)
    losses = lambda t: multilinear_skill_loss(np.asarray(t), P, p["target"], p["initial"], p["eta"])
    known = np.arange(n_skills) < N
    whole = np.array([math.fsum(P * losses(t)) for t in TIMES])
    few = np.array([math.fsum(P * np.where(known, losses(t), p["target"] ** 2 / 2)) for t in TIMES])
    assert_close(multilinear_loss(TIMES, **p, n_skills=n_skills), whole, IDENTITY, times=10, scale=whole + 1e-280)
    assert_close(multilinear_loss(TIMES, **p, n_skills=n_skills, n_basis=N), few, IDENTITY)
    assert multilinear_loss(np.inf, **p, n_skills=n_skills).item() == 0.0
    still = p["target"] - p["initial"]  # nothing learns at rate 0
    assert_close(multilinear_loss(TIMES, **{**p, "eta": 0.0}, n_skills=n_skills), still**2 / 2, IDENTITY)


def test_endless_skills_are_ten_to_the_seven_and_a_hurwitz_tail(seed: int) -> None:
    p = random_model(seed, 3)
    p["alpha"] = 0.1 + p["alpha"] / 3
    p["initial"] = min(p["initial"], p["target"] / 10)
    count = 10**6  # 10⁷ gives the same: the untouched tail makes the difference
    P = np.arange(1.0, count + 1) ** -(p["alpha"] + 1) * zipf_constant(p["alpha"])
    for t in (1.0, 1e2, 1e3):
        plain = (P * multilinear_skill_loss(np.asarray(t), P, p["target"], p["initial"], p["eta"])).sum()
        tail = zipf_constant(p["alpha"]) * power_sum(p["alpha"] + 1, count + 1)
        whole = plain + tail * (p["target"] - p["initial"]) ** 2 / 2
        got = multilinear_loss(t, **p)
        assert abs(got / whole - 1) < 1e-4
        if p["alpha"] < 0.4:
            assert plain / got < 0.999  # without the tail the sum is too small (control)


def test_each_case_has_its_own_parameters(seed: int) -> None:
    cases = [random_model(seed, key) for key in range(4)]
    together = {name: np.array([case[name] for case in cases])[:, None] for name in cases[0]}
    whole = multilinear_loss(TIMES, **together, n_skills=20_000, n_basis=15_000)
    for row, case in zip(whole, cases, strict=True):
        alone = multilinear_loss(TIMES, **case, n_skills=20_000, n_basis=15_000)
        assert_close(row, alone, IDENTITY, scale=alone + 1e-280)


def test_a_million_skills_at_a_thousand_times_are_quick_and_small() -> None:
    t = np.geomspace(1, 1e8, 1000)
    theory = MultilinearSkills(alpha=0.6, n_skills=10**6, target=1.3, initial=1e-3, eta=0.8)
    theory.solve(t[:2], only=("loss",))
    tracemalloc.start()
    begin = time.process_time()
    loss = theory.solve(t, only=("loss",)).loss
    seconds, peak = time.process_time() - begin, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seconds < 2.0 and peak < 64e6  # the bar; the sum as written would hold 8 GB
    assert_close(loss[500], multilinear_loss(t[500], 0.6, 1.3, 1e-3, 0.8, n_skills=10**6), IDENTITY)
    # Skills with starts of their own are summed one by one, in blocks.
    starts = np.geomspace(1e-9, 1.29, 200_000)
    starts[7] = 0.0
    own = theory.with_(n_skills=200_000, initial=starts)
    few = np.append(t[::100], np.inf)
    tracemalloc.start()
    each = own.solve(few, only=("loss",)).loss
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64e6  # in one piece every temporary would hold 16 MB
    share = skill_frequencies(0.6, 200_000)
    for moment, got in zip(few, each, strict=True):
        plain = (share * multilinear_skill_loss(moment, share, 1.3, starts, 0.8)).sum()
        assert_close(got, plain, IDENTITY)
    # Alike, they are summed together.
    assert_close(own.with_(initial=np.full(200_000, 1e-3)).solve(few, only=("loss",)).loss,
                 own.with_(initial=1e-3).solve(few, only=("loss",)).loss, IDENTITY)  # fmt: skip


@pytest.mark.place(NAM24["Eq. 4.26"], NAM24["Eq. B.11"], NAM24["Eq. B.12"], NAM24["Eq. 4.35"], NAM24["Eq. B.13"])
def test_one_example_or_one_basis_function_is_enough() -> None:
    counts = np.array([0.0, 1.0, 30.0])
    end = multilinear_skill_loss(np.asarray(np.inf), counts / 31, 2.0, 0.1)
    assert_close(one_shot_loss(counts, 2.0, 0.1), end, IDENTITY)
    k = np.arange(1, 6)
    whole = multilinear_loss(np.inf, 0.6, 2.0, 0.1, n_skills=5, n_basis=3)
    assert_close((skill_frequencies(0.6, 5) * basis_loss(k, 3, 2.0)).sum(), whole, IDENTITY)
    assert basis_loss(k, 3, 2.0).tolist() == [0, 0, 0, 2, 2]


@pytest.mark.place(NAM24["Eq. 4.27"], NAM24["Eq. 4.28"], NAM24["Eq. 4.29"])
def test_the_mean_loss_over_data_sets_is_the_exact_expectation(seed: int) -> None:
    p = random_model(seed, 8)
    n, D = 300, 150
    P = skill_frequencies(p["alpha"], n)
    rng = np.random.default_rng([seed, 9])
    counts = rng.multinomial(D, P / P.sum(), size=2000)
    drawn = one_shot_loss(counts, p["target"], p["initial"]) @ P
    exact = expected_data_loss(D, p["alpha"], p["target"], p["initial"], n_skills=n)
    assert_within_errors(drawn, float(exact))
    seen = observed_probability(P, D)
    assert_close(exact, (P * (1 - seen)).sum() * (p["target"] - p["initial"]) ** 2 / 2, IDENTITY, times=10)
    assert_within_errors((counts[:, 5] > 0).astype(float), float(seen[5]))
    # At a finite time, the mean over binomial counts.
    t = 20 / (p["eta"] * p["target"])
    drawn = multilinear_skill_loss(np.asarray(t), counts / D, p["target"], p["initial"], p["eta"]) @ P
    losses = expected_skill_losses(t, P, D, p["target"], p["initial"], p["eta"])
    assert_within_errors(drawn, float((P * losses).sum()))
    losses = expected_skill_losses(np.inf, P, D, p["target"], p["initial"], p["eta"])
    assert_close((P * losses).sum(), exact, IDENTITY, times=100)  # the binomial's own digits


@pytest.mark.parametrize("n_skills", [3, 40_000, math.inf])
def test_the_expected_loss_of_data_in_many_digits(seed: int, n_skills: float) -> None:
    p = random_model(seed, 21)
    alpha = max(0.3, p["alpha"])
    D = np.array([0.0, 1.0, 50.0, 3000.0])
    count = int(min(n_skills, 300_000))
    P = np.arange(1.0, count + 1) ** -(alpha + 1) * zipf_constant(alpha, n_skills)
    whole = np.array([math.fsum(P * np.exp(d * np.log1p(-P))) for d in D])
    if math.isinf(n_skills):
        unseen = zipf_constant(alpha) * power_sum(alpha + 1, count + 1)
        later = D * zipf_constant(alpha) ** 2 * power_sum(2 * (alpha + 1), count + 1)
        whole += unseen - later
    got = expected_data_loss(D, alpha, 2.0, 0.0, n_skills=n_skills)
    assert_close(got, 2 * whole, IDENTITY, times=1e3, scale=2 * whole + 1e-200)  # (D P)² of the tail is left out


@pytest.mark.place(NAM24["Eq. C.3"], NAM24["Eq. C.4"])
def test_the_model_with_one_weight_per_skill_relaxes_exponentially(seed: int) -> None:
    p = random_model(seed, 30)
    P = skill_frequencies(p["alpha"], 3000)
    flow = lambda w: -p["eta"] * P[:4] * (w - p["target"])
    t = np.array([0.0, 0.3, 2.0, 9.0]) / p["eta"]
    path = integrate(flow, np.zeros(4), t)
    assert_close(linear_strength(t, P[:4, None], p["target"], p["eta"]), path, SOLVED, scale=p["target"])
    whole = [math.fsum(P * np.exp(-2 * p["eta"] * P * x)) * p["target"] ** 2 / 2 for x in TIMES[:-2]]
    got = linear_loss(TIMES[:-2], p["alpha"], p["target"], p["eta"], n_skills=3000)
    assert_close(got, whole, IDENTITY, times=10, scale=np.array(whole) + 1e-280)


def test_torch_gives_the_same_skills(seed: int, torch: Any) -> None:
    rng = np.random.default_rng([seed, 31])
    t, share, start = rng.uniform(0, 9, 5), rng.uniform(0, 1, 5), np.array([0.0, 1e-9, 0.1, 1.3, 2.0])
    given = [torch.as_tensor(x) for x in (t, share, start)]
    functions: tuple[Any, ...] = (multilinear_strength, multilinear_skill_loss)
    for function in functions:
        got = function(given[0], given[1], 1.3, given[2])
        assert_close(got.numpy(), function(t, share, 1.3, start), IDENTITY)


@pytest.mark.place(NAM24["Eq. B.3"], NAM24["Eq. B.4"], NAM24["Eq. 4.19"])
def test_the_loss_on_examples_is_a_sum_over_counted_skills(seed: int) -> None:
    task = SparseParity.draw(n_tasks=4, n_bits=8, sparse=2, target=1.4, rng=seed)
    data = task.sample(60, rng=np.random.default_rng([seed, 5]))
    strength = np.random.default_rng([seed, 6]).normal(size=4)
    by_example = ((data.targets - strength @ task.basis(data)) ** 2).mean() / 2
    assert_close(counted_loss(np.bincount(data.skill, minlength=4), strength, 1.4), by_example, IDENTITY)
    # Endless data: the share of skill k is A k^-(α+1).
    k, A, t = 3.0, float(zipf_constant(0.6, 4)), np.array([0.0, 2.0, 9.0])
    printed = 1.4**2 / 2 / (1 + np.exp(2 * 0.5 * A * k**-1.6 * 1.4 * t) / (1.4 / 0.1 - 1)) ** 2
    assert_close(multilinear_skill_loss(t, A * k**-1.6, 1.4, 0.1, 0.5), printed, IDENTITY)


@pytest.mark.place(NAM24["Eq. B.14"])
def test_skills_that_the_model_has_not_end_without_strength(seed: int) -> None:
    theory = MultilinearSkills(alpha=0.6, n_skills=6, n_basis=4, target=1.3, initial=0.2, eta=1.0)
    end = theory.limit()
    k = np.arange(1, 7)
    assert_close(basis_end(k, 4, 1.3), end.skill_strength, IDENTITY)
    assert_close(basis_loss(k, 4, 1.3), aligned_skill_loss(basis_end(k, 4, 1.3), 1.3), IDENTITY)
    printed = np.where(k > 4, 0.2, 1.3)  # R(0) would contradict Eq. B.13
    assert np.abs(aligned_skill_loss(printed, 1.3) - basis_loss(k, 4, 1.3)).max() > 0.1
