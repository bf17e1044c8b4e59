"""Shapes of two-layer linear networks: what M spans far from balance, and what networks of these shapes then do."""

from __future__ import annotations

import numpy as np
import pytest

from richter.errors import ParameterError
from richter.maths import shapes
from richter.maths.preconditioner import sum_of_neurons, wide_preconditioner
from richter.refs import KUN24
from richter.testing.tolerances import IDENTITY, assert_close
from richter.theory import IsotropicNetwork, LinearModel, SingleNeuron
from richter.theory.conditioning import conditioning_path
from richter.theory.shapes import LIMITS, shape_of, shape_regime, shape_table

Floats = np.ndarray
SHAPES = ((5, 3, 2), (4, 1, 1), (2, 3, 5), (1, 1, 4), (3, 3, 3), (4, 2, 3), (2, 4, 2), (3, 3, 2))


def layers(rng: np.random.Generator, d: int, h: int, c: int, delta: float, size: float = 0.5) -> tuple[Floats, Floats]:
    """Rows in random directions, none too near the others' span, with ‖aᵢ‖‖wᵢ‖ = size and every δᵢ = δ."""

    def rows(n: int) -> Floats:
        while True:
            made = rng.standard_normal((h, n))
            made /= np.linalg.norm(made, axis=1, keepdims=True)
            if np.linalg.svd(made)[1].min() > 0.4:
                return made

    kappa = np.hypot(delta, 2 * size)
    large = np.sqrt((kappa + abs(delta)) / 2)
    a, w = (large, size / large) if delta >= 0 else (size / large, large)
    return a * rows(c), w * rows(d)


@pytest.mark.place(KUN24["Lemma B.2"], KUN24["Eq. 88"], KUN24["Eq. 91"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_rank_of_m_is_its_bound_for_random_directions(shape: tuple[int, int, int], seed: int) -> None:
    d, h, c = shape
    for limit, delta in (("upstream", 1e9), ("downstream", -1e9), ("balanced", 0.0)):
        A, W = layers(np.random.default_rng([seed, 1]), d, h, c, delta)
        values = np.linalg.eigvalsh(wide_preconditioner(A, W))
        assert (values > 1e-6 * values[-1]).sum() == shapes.rank_bound(d, h, c, limit)


@pytest.mark.place(KUN24["App. B.1.1"], KUN24["App. B.1"], KUN24["Theorem 4.1"])
def test_at_balance_m_has_the_sizes_inside_its_sum(seed: int) -> None:
    rng = np.random.default_rng([seed, 2])
    A, W = layers(rng, 4, 3, 2, 0.0)
    A, W = A * [[1], [2], [3]], W * [[1], [2], [3]]
    eta_a, eta_w = 0.4, 1.9
    A = A * np.sqrt(eta_a / eta_w)  # balanced for these rates: η_w‖a‖² = η_a‖w‖²
    betas = W[:, :, None] * A[:, None, :]
    M = shapes.balanced_sum(betas, eta_a, eta_w)
    assert_close(M, wide_preconditioner(A, W, eta_a, eta_w), IDENTITY, scale=M.max())
    assert_close(M, sum_of_neurons(betas, np.zeros(3), eta_a, eta_w), IDENTITY, scale=M.max())
    size = np.sqrt((betas**2).sum(axis=(1, 2)))
    unit = betas / size[:, None, None]
    printed = np.sqrt(eta_a * eta_w) * size.sum() * shapes.balanced_sum(unit)
    assert np.abs(printed - M).max() > 0.1 * M.max()


def test_names_and_regimes_of_shapes() -> None:
    rows = {tuple(row[k] for k in "dhc"): row for row in shape_table(SHAPES)}
    assert [rows[s]["shape"] for s in SHAPES] == [
        "funnel", "single neuron", "inverted funnel", "single neuron", "square", "bottleneck", "wide", "wide",
    ]  # fmt: skip
    expected = {  # KUN24 Sec. 4: downstream, upstream
        (5, 3, 2): ("delayed-rich", "lazy"), (4, 1, 1): ("delayed-rich", "lazy"),
        (2, 3, 5): ("lazy", "delayed-rich"), (1, 1, 4): ("lazy", "delayed-rich"), (3, 3, 3): ("lazy", "lazy"),
    }  # fmt: skip
    for shape, (down, up) in expected.items():
        assert (rows[shape]["downstream"], rows[shape]["balanced"], rows[shape]["upstream"]) == (down, "rich", up)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("limit", LIMITS)
def test_networks_do_what_their_shape_says(shape: tuple[int, int, int], limit: str, seed: int) -> None:
    """KUN24 Sec. 4 at |δ| = 25 and at balance with small weights: when the kernel moves, simulated."""
    d, h, c = shape
    rng = np.random.default_rng([seed, *shape])
    delta = {"downstream": -25.0, "balanced": 0.0, "upstream": 25.0}[limit]
    A0, W0 = layers(rng, d, h, c, delta, size=0.5 if delta else 0.05)
    rank = min(h, d, c)  # what h neurons can learn
    target = rng.standard_normal((d, rank)) @ rng.standard_normal((rank, c))
    target *= 1.5 / np.linalg.norm(target)
    said = shape_regime(d, h, c, limit, A0=A0, W0=W0, beta_star=target)
    assert said.label == shape_regime(d, h, c, limit).label
    net = IsotropicNetwork(A0=A0, W0=W0, beta_star=target)
    fit = 4.0 / abs(delta) if delta else 1.0
    late = {"lazy": 20 * fit, "rich": 60.0, "delayed-rich": 40 * abs(delta)}[said.label]
    ds = net.simulate([0.0, fit, late], only=("kernel_change", "loss"), rtol=1e-6, atol=1e-9)  # labels need no digits
    early, moved = ds.kernel_change.values[1:]
    if said.label == "lazy":
        assert moved < 0.3 and ds.loss.values[-1] < 1e-3
    elif said.label == "rich":
        assert moved > 1.0
    elif ds.loss.values[1] > 0.02:  # otherwise this target happens to lie almost within the span
        assert early < 0.3 * moved


def test_a_target_inside_the_span_is_learned_lazily(seed: int) -> None:
    rng = np.random.default_rng([seed, 5])
    A0, W0 = layers(rng, 4, 1, 1, -25.0)
    inside = W0.T @ np.array([[0.7]])
    assert shape_regime(4, 1, 1, "downstream", A0=A0, W0=W0, beta_star=inside).label == "lazy"
    outside = shape_regime(4, 1, 1, "downstream", A0=A0, W0=W0, beta_star=np.ones((4, 1)))
    assert outside.label == "delayed-rich" and 0 < outside.evidence["unreached"].value < 1
    net = IsotropicNetwork(A0=A0, W0=W0, beta_star=inside)
    assert net.regime().label == "lazy"


def test_bad_shapes_are_refused() -> None:
    with pytest.raises(ParameterError, match="`inputs` must be a whole number ≥ 1. Got 0"):
        shape_of(0, 1, 1)
    with pytest.raises(ParameterError, match="be one of downstream, balanced, upstream.*Did you mean upstream"):
        shape_regime(1, 1, 1, "upstrem")
    with pytest.raises(ParameterError, match="`W0` must be given together"):
        shape_regime(2, 1, 1, "upstream", A0=[[1.0]])
    with pytest.raises(ParameterError, match=r"`A0` must have the shape \(1, 1\)"):
        shape_regime(2, 1, 1, "upstream", A0=[1.0], W0=[[1.0, 2.0]], beta_star=[[1.0], [0.0]])


def test_conditioning_along_a_path_is_that_of_m(seed: int) -> None:
    rng = np.random.default_rng([seed, 6])
    t = np.array([0.0, 0.5, 2.0, np.inf])
    net = SingleNeuron(a0=[0.7, -0.2], w0=rng.standard_normal((2, 3)), beta_star=[1.0, 0.0, 0.5], eta_a=0.4, eta_w=[1.0, 2.0])  # fmt: skip
    made, kernel = conditioning_path(net, t), net.solve(t, only=("kernel",)).kernel
    expected = np.linalg.eigvalsh(kernel.values)
    assert made.eigenvalues.dims == ("start", "t", "mode")
    assert_close(made.eigenvalues.values, expected, IDENTITY, scale=expected.max())
    assert_close(made.condition.values, expected[..., -1] / expected[..., 0], IDENTITY, times=1e3)  # conditions to 1e3
    wide = IsotropicNetwork.random(inputs=3, neurons=2, outputs=2, beta_star=np.ones((3, 2)), delta=0.5, rng=seed, eta_a=0.5)  # fmt: skip
    end = wide.simulate([0.0, 1.0], only=("gram_a", "gram_w"))
    M = [
        np.kron(1.0 * end.gram_a.values[i], np.eye(3)) + np.kron(np.eye(2), 0.5 * end.gram_w.values[i]) for i in (0, 1)
    ]
    values = conditioning_path(wide, [0.0, 1.0]).eigenvalues.values
    assert_close(values, np.linalg.eigvalsh(np.array(M)), IDENTITY, scale=values.max(), times=1e3)  # simulated at 1e-11
    with pytest.raises(ParameterError, match="must be a SingleNeuron or an IsotropicNetwork. Got LinearModel"):
        conditioning_path(LinearModel(eigenvalues=[1.0], coefficients=[1.0]), t)
