"""numpy, jax and torch arrays go in, arrays of the same library come out, with the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from richter.maths import logistic, scalar_limits, wide_law
from richter.maths.balance import split_by_imbalance
from richter.maths.growth import growth, growth_rates, time_to_output
from richter.maths.linear import linear_modes
from richter.maths.neuron import basin_margin, solve_neuron
from richter.maths.neuron_law import neuron_delta, neuron_flow, neuron_kernel
from richter.maths.pair import layer_pair, solve_pair
from richter.testing.tolerances import DERIVATIVE, IDENTITY, assert_close
from tests.maths.judge import assert_digits, judge_outputs
from tests.maths.starts import neuron_starts, wide_starts
from tests.references import networks
from tests.references.neuron import neuron

Numbers = dict[str, Any]
positive = lambda rng, *shape: 10 ** rng.uniform(-1, 0.7, shape)


def simple(names: str) -> Callable[[np.random.Generator], Numbers]:
    return lambda rng: {name: positive(rng, 5) for name in names.split()}


def wide_inputs(rng: np.random.Generator) -> Numbers:
    w = rng.standard_normal((3, 2, 5))
    return {"u": rng.standard_normal((3, 5)), "w": w, "x": rng.standard_normal((2, 5)), "y": positive(rng, 5)}


def vectors(rng: np.random.Generator) -> Numbers:
    return {
        "a": rng.standard_normal(5), "w": rng.standard_normal((3, 5)), "b": rng.standard_normal((3, 5)),
        "eta_a": positive(rng, 5), "eta_w": positive(rng, 5),
    }  # fmt: skip


def as_list(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, tuple) else [value]


def the_growth(p: Any, q: Any, target: Any, tau: Any) -> tuple[Any, ...]:
    made = growth(growth_rates(p, q, target), tau)
    return made.factor, made.less_one, made.left, made.done, made.shrink, made.shrink_less_one, made.stretch


FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[np.random.Generator], Numbers]]] = {
    "growth": (the_growth, simple("p q target tau")),
    "time_to_output": (lambda p, q, b, o: time_to_output(growth_rates(p, q, b), o), simple("p q b o")),
    "basin_margin": (lambda a, w, b, **rates: basin_margin(a, w, b, **rates), vectors),
    "neuron_delta": (lambda a, w, b, **rates: neuron_delta(a, w, **rates), vectors),
    "neuron_kernel": (lambda a, w, b, **rates: neuron_kernel(a, w, **rates), vectors),
    "neuron_flow": (neuron_flow, lambda rng: dict(zip(("a", "w", "beta_star"), vectors(rng).values(), strict=False))),
    "split_by_imbalance": (lambda a, w, b, **rates: split_by_imbalance(w, a, **rates), vectors),
    "linear_modes": (linear_modes, simple("t eigenvalues coefficients eta initial")),
    "diagonal_flow": (logistic.diagonal_flow, simple("a b target variance")),
    "logistic_mode": (logistic.logistic_mode, simple("t start target variance")),
    "linear_mode": (logistic.linear_mode, simple("t variance")),
    "stage_times": (
        lambda e, s, t, v: logistic.stage_times(e / 20, s / 100, t, v), simple("e s t v")
    ),
    "stage_overlap": (lambda s, t, v, n: logistic.stage_overlap(s / 100, t, v, n), simple("s t v n")),
    "growth_bound": (
        lambda a, w, b, eta_a, eta_w: scalar_limits.growth_bound(w, b, a, 1.0, eta_a, eta_w), vectors
    ),
    "linear_limit": (scalar_limits.linear_limit, simple("t output0 sigma0 target normalisation")),
    "greedy_limit": (scalar_limits.greedy_limit, simple("t aligned0 target normalisation")),
    "mode_flow": (scalar_limits.mode_flow, simple("theta gap target normalisation")),
    "aligned_factor": (scalar_limits.aligned_factor, simple("theta gap theta0 gap0")),
    "anti_aligned_factor": (scalar_limits.anti_aligned_factor, simple("theta gap theta0 gap0")),
    "wide_flow": (wide_law.wide_flow, wide_inputs),
    "wide_kernel": (lambda u, w, x, y: wide_law.wide_kernel(u, w, x, 2 * x), wide_inputs),
    "conserved_product": (wide_law.conserved_product, simple("u v eta_u eta_v")),
    "alignment_slope": (
        lambda growth, P, Q, o: wide_law.alignment_slope(growth, P, Q, o * (P * Q) ** 0.5 / 6), simple("growth P Q o")
    ),
    "alignment_rises": (wide_law.alignment_rises, simple("P Q width y gamma rho eta_u eta_w")),
    "norm_case": (wide_law.norm_case, simple("p q final")),
}  # fmt: skip


def compare(name: str, seed: int, convert: Callable[[Any], Any]) -> None:
    function, make = FUNCTIONS[name]
    given = make(np.random.default_rng([seed, 60]))
    with np.errstate(all="ignore"):
        expected = as_list(function(**given))
    got = as_list(function(**{k: convert(v) for k, v in given.items()}))
    kind = type(convert(np.zeros(1)))
    assert len(got) == len(expected)
    for x, want in zip(got, expected, strict=True):
        assert isinstance(x, kind), f"{name} returns {type(x)}"
        value, want = np.asarray(x, dtype=float), np.asarray(want, dtype=float)
        assert value.shape == want.shape
        assert_close(value, want, IDENTITY, times=0.1, scale=np.maximum(np.abs(want), 1e-2), says=name)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_torch_gives_the_same_numbers(name: str, seed: int, torch: Any) -> None:
    compare(name, seed, lambda x: torch.as_tensor(x, dtype=torch.float64))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jax_gives_the_same_numbers(name: str, seed: int, jax: Any) -> None:
    compare(name, seed, jax.numpy.asarray)


def neuron_by(convert: Callable[[Any], Any], seed: int) -> None:
    """solve_neuron in another library, on extreme and frozen starts, at 0, ∞ and between, against 50 digits."""
    given, t = neuron_starts(seed, 2, 80)
    arrays = {
        "a0": given["a0"][:, None], "w0": given["w0"].T[..., None], "beta_star": given["beta_star"].T[..., None],
        "eta_a": given["eta_a"][:, None], "eta_w": given["eta_w"][:, None],
    }  # fmt: skip
    out = solve_neuron(convert(t), **{k: convert(v) for k, v in arrays.items()})
    full = {k: np.broadcast_to(np.asarray(v), (*v.shape[:-2], *t.shape)) for k, v in out.items()}
    residual = full.pop("residual")  # judged as a vector: its entries may cancel
    size = (np.abs(full["beta"]) + np.abs(arrays["beta_star"])).max(axis=0)
    assert_close(residual, full["beta"] - arrays["beta_star"], IDENTITY, times=0.1, scale=size, says="residual")
    assert_close((residual**2).sum(0) / 2, full["loss"], IDENTITY, times=0.1, scale=np.maximum(full["loss"], 1e-280))
    assert_digits(judge_outputs(full, neuron, given, t, ("phi", "kernel_distance", "kernel_change")))


def pair_by(convert: Callable[[Any], Any], seed: int) -> None:
    """solve_pair in another library: the wide network with x = 1."""
    given, t = wide_starts(seed, 2, 1, 80)
    given["x"] = np.ones_like(given["x"])
    arrays = {
        "u0": given["u0"].T[..., None], "v0": given["w0"][..., 0].T[..., None], "target": given["y"][:, None],
        "scale": given["gamma"][:, None], "clock": np.full((80, 1), 2.0),
        "eta_u": given["eta_u"][:, None], "eta_v": given["eta_w"][:, None],
    }  # fmt: skip
    solve = lambda t, **pair: solve_pair(layer_pair(**pair), t)
    out = {k: np.asarray(v) for k, v in solve(convert(t), **{k: convert(v) for k, v in arrays.items()}).items()}
    made = {k: out[k] for k in ("u", "p", "q", "alignment", "kernel", "kernel_change", "growth")}
    made |= {"w": out["v"], "output": arrays["scale"] * out["meeting"], "loss": out["residual"] ** 2}
    full = {k: np.broadcast_to(v, (*v.shape[:-2], *t.shape)) for k, v in made.items()}
    reference = lambda numbers: networks.wide(numbers, 2, 1)
    assert_digits(judge_outputs(full, reference, given, t, ("alignment", "kernel_change")))


@pytest.mark.parametrize("solution", [neuron_by, pair_by])
def test_torch_gives_the_same_solution(solution: Callable[..., None], seed: int, torch: Any) -> None:
    solution(lambda x: torch.as_tensor(x, dtype=torch.float64), seed)


@pytest.mark.parametrize("solution", [neuron_by, pair_by])
def test_jax_gives_the_same_solution(solution: Callable[..., None], seed: int, jax: Any) -> None:
    solution(jax.numpy.asarray, seed)


@pytest.mark.parametrize("name", ["solve_neuron", "solve_pair"])
def test_jax_compiles_and_maps(name: str, seed: int, jax: Any) -> None:
    rng = np.random.default_rng([seed, 61])
    t_: Any = np.array([0.0, 0.3, 2.0, np.inf])
    draws = 5
    if name == "solve_neuron":
        solve = lambda a0, w0, target: solve_neuron(t_, a0, w0[:, None], target[:, None], 0.7, 1.3)
        starts = rng.standard_normal(draws), rng.standard_normal((draws, 3)), rng.standard_normal((draws, 3))
    else:
        solve = lambda y, u0, v0: solve_pair(layer_pair(u0[:, None], v0[:, None], y, 0.6, 2.0, 0.7, 1.3), t_)
        starts = rng.standard_normal(draws), rng.standard_normal((draws, 3)), rng.standard_normal((draws, 3))
    expected = [solve(*(s[i] for s in starts)) for i in range(draws)]
    t_ = jax.numpy.asarray(t_)
    mapped = jax.jit(jax.vmap(solve))(*(jax.numpy.asarray(s) for s in starts))
    for i, want in enumerate(expected):
        for key, value in want.items():
            size = max(float(np.abs(value).max()), 1e-2)
            assert_close(np.asarray(mapped[key])[i], value, IDENTITY, scale=size, times=10, says=f"{key}, fused")


@pytest.mark.parametrize("name", ["solve_neuron", "solve_pair"])
def test_single_precision_works(name: str, seed: int, torch: Any) -> None:
    rng = np.random.default_rng([seed, 62])
    a0, w0, target = rng.standard_normal(4), rng.standard_normal((3, 4)), rng.standard_normal((3, 4))
    t = np.array([0.0, 1e-3, 0.5, np.inf])
    if name == "solve_neuron":
        solve = lambda kind: solve_neuron(kind(t), kind(a0), kind(w0), kind(target))
    else:
        solve = lambda kind: solve_pair(layer_pair(kind(w0), kind(target), kind(a0)), kind(t))
    want = solve(lambda x: x)
    for key, value in solve(lambda x: torch.as_tensor(x, dtype=torch.float32)).items():
        assert value.dtype == torch.float32
        size = np.maximum(np.abs(want[key]), 0.1)
        assert_close(value.numpy(), want[key], DERIVATIVE, scale=size, times=50, says=f"{key} in single precision")
