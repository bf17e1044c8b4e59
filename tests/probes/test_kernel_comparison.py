"""Streamed comparisons are those of held kernels; sketches estimate the trace; kinds are never mixed."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from richter.errors import ParameterError
from richter.maths import kernels as maths
from richter.probes import (
    compare_kernels,
    kernel_alignment,
    kernel_distance,
    kernel_rank,
    kernel_velocity,
    ntk,
    target_alignment,
)
from richter.probes.ntk import Outputs
from richter.testing.tolerances import IDENTITY
from richter.training.networks import mlp
from richter.training.transformers import gpt2
from tests.probes.tangent_nets import by_definition, zoo

KINDS: tuple[Outputs, ...] = ("full", "trace", "diagonal", "sketch")


def moved(model: Any, seed: int, by: float = 0.1) -> Any:
    """The same network with other weights."""
    g = torch.Generator().manual_seed(seed)
    made = copy.deepcopy(model)
    with torch.no_grad():
        for p in made.parameters():
            p.add_(by * torch.randn(p.shape, generator=g).to(p))
    return made


def held(now: Any, before: Any, x: Tensor, y: Tensor, kind: Outputs) -> dict[str, float]:
    """The numbers of a comparison from kernels that are held."""
    K, L = ntk(now, x, outputs=kind), ntk(before, x, outputs=kind)
    made = {
        "distance": kernel_distance(K, L),
        "alignment": kernel_alignment(K, L),
        "alignment_debiased": kernel_alignment(K, L, debiased=True),
        "target": target_alignment(K, y),
        "target before": target_alignment(L, y),
    }
    if kind == "sketch":
        return {**made, "ratio": kernel_rank(K)}
    trace = {"full": "nncc->", "trace": "nn->", "diagonal": "nnc->"}[kind]
    return made | {
        "change": float(np.linalg.norm(K - L) / np.linalg.norm(L)), "norm": float(np.linalg.norm(K)),
        "ratio": maths.participation_ratio(K), "trace": float(np.einsum(trace, L)),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind"), [("lenet5", "trace"), ("recurrent", "full"), *(("tied transformer", kind) for kind in KINDS)]
)
def test_streamed_numbers_are_those_of_whole_kernels(kind: Outputs, name: str, seed: int) -> None:
    model, x = zoo(seed)[name]
    x = torch.cat([x, x.flip(-1)])[:5, : (2 if name == "tied transformer" else None)]
    C = model(x[:1]).numel() if kind in ("full", "diagonal") else 3
    y = torch.randn(5, C, dtype=torch.float64)
    now = moved(model, seed)
    whole = held(now, model, x, y, kind)
    state = {key: value.clone() for key, value in now.state_dict().items()}
    little = {"lenet5": 2e6, "tied transformer": 3e5, "recurrent": 4e4}[name]
    for memory in ("1 GiB", little):  # all at once, and a few examples or outputs at a time
        found = compare_kernels(now, model, x, kind, targets=y, memory=memory)
        made = {
            "distance": found.distance, "alignment": found.alignment, "change": found.change,
            "alignment_debiased": found.alignment_debiased, "target": found.now.target_alignment,
            "target before": found.before.target_alignment, "ratio": found.now.participation_ratio,
            "norm": found.now.norm, "trace": found.before.trace,
        }  # fmt: skip
        for number, value in whole.items():
            if number == "alignment_debiased" and np.isnan(made[number]) and memory != "1 GiB":
                assert kind == "full"  # its outputs did not fit at once, and it says so
                continue
            assert made[number] == pytest.approx(float(value), rel=1e-7, abs=1e-9), number  # centred sums cancel
        assert found.kind == kind and (found.distance.error is not None) == (kind == "sketch")
    assert all(torch.equal(value, now.state_dict()[key]) for key, value in state.items())
    assert ("inner.weight_ih_l0" in found.fallback) == (name == "recurrent")


def test_a_kernel_that_has_not_moved_and_one_that_has_control(seed: int) -> None:
    model, x = zoo(seed)["lenet5"]
    for kind in KINDS:
        same = compare_kernels(model, model, x, kind)
        assert float(same.distance) == float(same.change) == float(same.velocity(3.0)) == 0
        assert same.alignment == pytest.approx(1, rel=IDENTITY.rtol)
        other = compare_kernels(moved(model, seed, 0.3), model, x, kind, sketches=32)
        assert other.distance > 0 < other.change
        if other.distance.error is not None:
            assert other.velocity(0.1).error == pytest.approx(10 * other.distance.error)
    assert (
        other.velocity(0.1) == pytest.approx(10 * other.distance) and other.velocity(1).name == "kernel_velocity_sketch"
    )


def test_a_state_of_the_model_is_as_good_as_the_model(seed: int) -> None:
    model, x = zoo(seed)["mlp"]
    now = moved(model, seed)
    a, b = compare_kernels(now, model, x, "full"), compare_kernels(now, model.state_dict(), x, "full")
    assert (a.distance, a.now.norm, a.before.norm) == (b.distance, b.now.norm, b.before.norm)
    with pytest.raises(ParameterError, match=r"`before` must be a state_dict of the model\. Got another one\. Error"):
        compare_kernels(now, mlp(5, [3], 3).double().state_dict(), x)
    with pytest.raises(ParameterError, match=r"must have the same parameters\. Got a difference in layer1\.weight\."):
        compare_kernels(now, mlp(4, [7, 6], 3).double(), x)
    with pytest.raises(ParameterError, match=r"`sketches` must be at least 3, for an error bar\. Got 2\."):
        compare_kernels(now, model, x, "sketch", sketches=2)
    with pytest.raises(
        ParameterError, match=r"targets of a kernel must have 4 rows and 3 components, one per output\."
    ):
        compare_kernels(now, model, x, "full", targets=torch.zeros(4, 2))
    with pytest.raises(ParameterError, match=r"the time between two kernels must be > 0 and finite\. Got 0\.0\."):
        a.velocity(0.0)


def test_rates_and_positions_reach_the_comparison(seed: int) -> None:
    model, x = zoo(seed)["tied transformer"]
    now, rates = moved(model, seed), {"*": 0.0, "blocks.1": 2.0}
    K, L = (ntk(m, x, outputs="trace", rates=rates, positions=-1) for m in (now, model))
    found = compare_kernels(now, model, x, rates=rates, positions=-1)
    assert found.distance == pytest.approx(float(kernel_distance(K, L)), rel=1e-8)  # sums of size 1 for a small S
    assert found.now.norm == pytest.approx(float(np.linalg.norm(K)), rel=IDENTITY.rtol)
    single = compare_kernels(now.float(), model.float(), x, rates=rates, positions=-1, precision="float64")
    assert single.distance == pytest.approx(found.distance, rel=1e-3)  # weights rounded to single precision


def test_the_names_of_numbers_carry_their_kind(seed: int) -> None:
    model, x = zoo(seed)["mlp"]
    now = moved(model, seed)
    found = compare_kernels(now, model, x, "sketch", targets=torch.arange(4) % 3)
    ds = found.dataset()
    assert ds.kernel_distance_sketch.attrs["kind"] == "sketch" == ds.attrs["kind"]
    assert ds.kernel_distance_sketch.attrs["standard_error"] == found.distance.error
    assert ds.kernel_norm_sketch_before == found.before.norm != found.now.norm
    assert "standard_error" not in compare_kernels(now, model, x).dataset().kernel_distance_trace.attrs
    again = pickle.loads(pickle.dumps(found.distance))
    assert (again, again.name, again.kind, again.error) == (
        found.distance, "kernel_distance_sketch", "sketch", found.distance.error,
    )  # fmt: skip
    with pytest.raises(ParameterError, match=r"two numbers of kernels must be of one kind\. Got sketch and trace\."):
        _ = found.distance < compare_kernels(now, model, x).distance
    with pytest.raises(ParameterError, match=r"two kernels that are compared must be of one kind\. Got sketch and tr"):
        kernel_alignment(ntk(now, x, outputs="sketch"), ntk(now, x, outputs="trace"))


def test_a_sketch_is_the_kernel_of_random_combinations_of_the_outputs(seed: int) -> None:
    model, x = zoo(seed)["lenet5"]
    K = by_definition(model, x)
    S = ntk(model, x, outputs="sketch", sketches=400, seed=seed)
    assert S.shape == (4, 4, 400) and S.name == "ntk_sketch" and S.attrs["seed"] == seed
    trace = np.einsum("nmcc->nm", K)
    error = S.values.std(axis=2) / 20
    assert (np.abs(S.values.mean(axis=2) - trace) < 5 * error).all()
    one = ntk(model, x, outputs="sketch", sketches=1, seed=seed)
    np.testing.assert_allclose(one[..., 0], S[..., 0], rtol=1e-10)  # other blocks, the same signs
    assert not np.allclose(ntk(model, x, outputs="sketch", sketches=1, seed=seed + 1), one)
    other = ntk(model, x, outputs="sketch", sketches=400, seed=seed + 1)
    with pytest.raises(ParameterError, match=r"two sketches that are compared must be of the same signs and examples"):
        kernel_distance(S, other)
    with pytest.raises(ParameterError, match=r"sketches of a kernel that is compared must be at least 3, for an error"):
        kernel_distance(one, one)
    with pytest.raises(ParameterError, match=r"`sketches` must be at least 1\. Got 0\."):
        ntk(model, x, outputs="sketch", sketches=0)


def test_the_error_of_a_networks_sketched_distance_covers_the_trace_distance(seed: int) -> None:
    model = mlp(6, [20], 40, rng=seed).double()
    now, x = moved(model, seed, 0.15), torch.randn(5, 6, dtype=torch.float64)
    truth = float(compare_kernels(now, model, x, "trace").distance)
    inside = 0
    for k in range(40):
        found = compare_kernels(now, model, x, "sketch", sketches=12, seed=k).distance
        assert found.error is not None
        inside += abs(float(found) - truth) < 2 * found.error
    assert inside >= 28  # 0.9 of 40 less four standard errors


def test_a_small_transformer_is_sketched_over_all_its_outputs(seed: int) -> None:
    model = gpt2(layers=2, d=16, heads=2, context=4, vocabulary=30, rng=seed)
    before, x = moved(model, seed, 0.02), torch.randint(0, 30, (6, 4))
    found = compare_kernels(model, before, x, "sketch", sketches=16)
    exact = compare_kernels(model, before, x, "trace", precision="float64")
    assert found.fallback == "" and found.distance.error is not None
    assert abs(float(found.distance) - float(exact.distance)) < 5 * found.distance.error < 1
    assert abs(float(found.now.trace) / float(exact.now.trace) - 1) < 0.2  # 16 sketches of 120 outputs


def test_velocity_of_held_kernels_and_their_targets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = rng.normal(size=8)
    y -= y.mean()
    K, L = np.outer(y, y) + 0.5 * np.eye(8), np.eye(8)
    assert kernel_velocity(K, L, 0.5) == pytest.approx(2 * kernel_distance(K, L))
    assert target_alignment(np.outer(y, y) + 3, y) == pytest.approx(1, rel=IDENTITY.rtol)
    z = rng.normal(size=8)
    z -= z.mean() + y * (z @ y) / (y @ y)
    assert abs(target_alignment(np.outer(z, z), y)) < 1e-14
    labels = np.arange(8) % 2
    assert target_alignment(np.eye(2)[labels] @ np.eye(2)[labels].T, labels) == pytest.approx(1, rel=IDENTITY.rtol)
    assert kernel_rank(np.outer(y, y)) == pytest.approx(1, rel=1e-10)  # eigenvalues of 1e-16 and their logarithms
    with pytest.raises(ParameterError, match=r"targets of a kernel must be finite\. Got NaN or ∞\."):
        target_alignment(K, y * np.nan)
    with pytest.raises(ParameterError, match=r"targets of a kernel must have 8 rows\. Got shape \(3, 1\)\."):
        target_alignment(K, y[:3])


def test_no_kernel_is_held_whatever_the_number_of_examples(seed: int) -> None:
    """The memory that numpy sees, where all sums over tiles are, grows less than the kernels would."""
    model = nn.Sequential(nn.Linear(3, 2, bias=False), nn.Linear(2, 1, bias=False)).double()
    before, x = moved(model, seed), torch.randn(3000, 3, dtype=torch.float64)
    tracemalloc.start()
    compare_kernels(model, before, x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * 8 * 3000**2


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_of_examples_with_all_their_outputs_add_up(kind: Outputs, seed: int) -> None:
    model = zoo(seed)["mlp"][0]
    x, y, now = torch.randn(60, 5).double(), torch.randn(60, 3), moved(model, seed)
    whole = held(now, model, x, y, kind)
    found = compare_kernels(now, model, x, kind, targets=y, memory=100_000)
    assert found.distance == pytest.approx(float(whole["distance"]), rel=1e-8)  # sums of size 1 for a small S
    assert found.alignment_debiased == pytest.approx(float(whole["alignment_debiased"]), rel=1e-9)  # centred sums
    assert found.now.target_alignment == pytest.approx(float(whole["target"]), rel=1e-10)  # centred sums
