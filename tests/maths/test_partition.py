"""Exact partitions of the plane against rational arithmetic, linear programs and the networks themselves."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from richter.errors import OutsideTheoryError, ParameterError
from richter.maths.arrangement import count_regions, distinct_hyperplanes
from richter.maths.colouring import flips, line_parity, neuron_parity, two_colours
from richter.maths.partition import Partition, bounding_polygon, partition_slice
from richter.maths.rays import partition_rays
from richter.refs import KUN24
from richter.testing.tolerances import IDENTITY, assert_close

Floats = NDArray[np.float64]
Layers = list[tuple[Floats, Floats]]


def _network(rng: np.random.Generator, *widths: int) -> Layers:
    return [(rng.normal(size=(n, m)), rng.normal(size=n)) for m, n in zip(widths, widths[1:], strict=False)]


def _forward(layers: Layers, x: Floats, leak: float = 0.0) -> tuple[list[Floats], Floats]:
    """Pre-activations of all hidden layers and the output, one input at a time."""
    hidden = []
    for W, b in layers[:-1]:
        z = W @ x + b
        hidden.append(z)
        x = np.maximum(z, leak * z)
    W, b = layers[-1]
    return hidden, W @ x + b


def _feasible(lines: list[tuple[Floats, float]], half: float) -> bool:
    """Whether a disc fits into {g·x + o > 0 for all lines} within the square."""
    from scipy.optimize import linprog

    A = [[-g[0], -g[1], np.hypot(*g)] for g, _ in lines]
    done = linprog([0, 0, -1], A, [o for _, o in lines], bounds=[(-half, half)] * 2 + [(None, 1.0)])
    assert done.status == 0, done.message
    return bool(done.x[2] > 1e-9)


def _count_by_programs(layers: Layers, half: float, leak: float) -> int:
    """Activation patterns that occur, one linear program for each sign that is tried."""

    def below(k: int, slope: Floats, offset: Floats, lines: list[tuple[Floats, float]]) -> int:
        if k == len(layers) - 1:
            return 1
        W, b = layers[k]
        pre, at = W @ slope, W @ offset + b

        def choose(j: int, signs: list[int], lines: list[tuple[Floats, float]]) -> int:
            if j == len(W):
                c = np.array([1.0 if s > 0 else leak for s in signs])
                return below(k + 1, c[:, None] * pre, c * at, lines)
            found = 0
            for sign in (1, -1):
                # A pre-activation without slope is constant: no line, one sign.
                more = [*lines, (sign * pre[j], sign * float(at[j]))]
                flat = np.hypot(*pre[j]) < 1e-12
                if (sign * at[j] > 0) if flat else _feasible(more, half):
                    found += choose(j + 1, [*signs, sign], lines if flat else more)
            return found

        return choose(0, [], lines)

    return below(0, np.eye(2), np.zeros(2), [])


@pytest.mark.place(KUN24["Definition C.1"], KUN24["Eq. 123"])
def test_as_many_regions_as_patterns_that_a_linear_program_finds(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    shapes = [(2, 4, 1)] * 30 + [(2, 3, 2, 1)] * 16 + [(2, 2, 2, 2, 1)] * 8
    for k, shape in enumerate(shapes):
        layers, leak = _network(rng, *shape), [0.0, 0.2][k % 2]
        made = partition_slice(layers, 3.0, leak=leak)
        assert made.count == _count_by_programs(layers, 3.0, leak), (seed, k)


def test_lines_in_general_position_make_1_plus_n_plus_n_choose_2_regions(seed: int) -> None:
    rng = np.random.default_rng([seed, 2])
    for n in (0, 1, 2, 9, 40):
        w, b = rng.normal(size=(n, 2)), rng.normal(size=n)
        assert count_regions(w, b) == 1 + n + n * (n - 1) // 2
    w, b = rng.normal(size=(12, 2)), rng.normal(size=12)
    corners = [np.linalg.solve(w[[i, j]], -b[[i, j]]) for i, j in combinations(range(12), 2)]
    made = partition_slice([(w, b), (np.ones((1, 12)), None)], 1.1 * float(np.abs(corners).max()))
    assert made.count == 1 + 12 + 66
    pairs, _ = made.boundaries
    # Euler: every line is cut into n pieces.
    assert len(pairs) == 12 * 12


def _count_exactly(lines: list[tuple[int, int, int]]) -> int:
    """1 + n + Σ(lines through a point − 1), in whole numbers."""
    distinct = set()
    for p, q, r in lines:
        if p or q:
            lead = Fraction(p or q)
            distinct.add((Fraction(p) / lead, Fraction(q) / lead, Fraction(r) / lead))
    through: dict[tuple[Fraction, Fraction], set[tuple[Fraction, Fraction, Fraction]]] = {}
    for one, two in combinations(distinct, 2):
        across = one[0] * two[1] - one[1] * two[0]
        if across:
            x = (one[1] * two[2] - two[1] * one[2]) / across
            y = (two[0] * one[2] - one[0] * two[2]) / across
            through.setdefault((x, y), set()).update((one, two))
    return 1 + len(distinct) + sum(len(meeting) - 1 for meeting in through.values())


def test_parallel_equal_and_concurrent_lines_are_counted_exactly(seed: int) -> None:
    rng = np.random.default_rng([seed, 3])
    for _ in range(40):
        n = int(rng.integers(2, 14))
        lines = [tuple(int(v) for v in row) for row in rng.integers(-3, 4, (n, 3))]
        exact = _count_exactly(lines)  # type: ignore[arg-type]
        sizes = rng.uniform(0.1, 9.0, n) * rng.choice([-1, 1], n)  # equal lines, different numbers
        w, b = np.array(lines, dtype=float)[:, :2] * sizes[:, None], np.array(lines, dtype=float)[:, 2] * sizes
        assert count_regions(w, b) == exact, lines
        assert partition_slice([(w, b), (np.ones((1, n)), None)], 50.0).count == exact, lines


def test_lines_through_a_random_point_make_no_slivers(seed: int) -> None:
    rng = np.random.default_rng([seed, 4])
    w, point = rng.normal(size=(30, 2)), rng.normal(size=2)
    b = -(w @ point)
    assert count_regions(w, b) == 60
    assert partition_slice([(w, b), (np.ones((1, 30)), None)], 10.0).count == 60


def test_neurons_without_bias_make_two_rays_each(seed: int) -> None:
    rng = np.random.default_rng([seed, 5])
    w, a = rng.normal(size=(300, 2)), rng.normal(size=300)
    made = partition_rays(w, a, leak=0.1)
    assert made.count == len(made.rays) == 600
    assert (np.diff(made.angles) > 0).all() and (made.angles >= 0).all() and (made.angles < 2 * np.pi).all()
    # Every ray is orthogonal to a neuron, every neuron has two.
    height = np.abs(made.rays @ w.T) / np.linalg.norm(w, axis=1)
    assert height.min(axis=1).max() < 1e-15 * 10 and (np.sort(height, axis=0)[1] < 1e-14).all()  # rounding of one ray
    for x, slope, signs in zip(made.centres, made.slopes, made.signs, strict=True):
        assert (np.sign(w @ x) == signs).all()
        z = w @ x
        assert_close(slope @ x, a @ np.maximum(z, 0.1 * z), IDENTITY, scale=np.abs(a) @ np.abs(z))
    assert len({row.tobytes() for row in made.signs}) == 600


def test_parallel_and_zero_neurons_share_or_lack_their_rays(seed: int) -> None:
    rng = np.random.default_rng([seed, 6])
    w = rng.normal(size=(5, 2))
    more = np.concatenate([w, -2.5 * w[:3], w[:1] * (1 + 1e-15), np.zeros((2, 2))])
    made = partition_rays(more)
    assert made.count == 10 and (made.signs[:, -2:] == 0).all()
    assert (made.signs[:, 5:8] == -made.signs[:, :3]).all() and (made.signs[:, 8] == made.signs[:, 0]).all()
    assert partition_rays(np.zeros((3, 2))).count == 1 == count_regions(np.zeros((3, 2)))
    half = partition_rays([[1.0, 1.0], [-2.0, -2.0]], [1.0, 3.0])
    assert half.count == 2 and sorted(map(tuple, half.slopes.tolist())) == [(-6.0, -6.0), (1.0, 1.0)]
    first, facing = distinct_hyperplanes(more)
    assert first.tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 0, -1, -1] and facing[5:].tolist() == [-1, -1, -1, 1, 0, 0]


def test_hyperplanes_with_biases_are_told_apart(seed: int) -> None:
    rng = np.random.default_rng([seed, 7])
    w, b = rng.normal(size=(4, 6)), rng.normal(size=4)
    first, facing = distinct_hyperplanes(np.concatenate([w, -3 * w, w]), np.concatenate([b, -3 * b, b + 1e-6]))
    assert first.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 8, 9, 10, 11]
    assert facing.tolist() == [1.0] * 4 + [-1.0] * 4 + [1.0] * 4


def _check_regions(made: Partition, layers: Layers, place: Floats, plane: Floats, leak: float, seed: int) -> None:
    """Signs, affine maps and boundaries of every region against the network itself."""
    rng = np.random.default_rng([seed, 8])
    reach = max(float(np.abs(p).max()) for p in made.polygons)
    scales = np.concatenate(
        [np.full(len(W), s) for (W, _), s in zip(layers[:-1], _sizes(layers, place, plane, reach), strict=False)]
    )
    for r, polygon in enumerate(made.polygons):
        share = rng.dirichlet(np.ones(len(polygon)))
        for x in (made.centres[r], share @ polygon):
            hidden, output = _forward(layers, place + x @ plane, leak)
            z = np.concatenate(hidden)
            sure = np.abs(z) > 1e-12 * scales  # else the point lies on a boundary to rounding
            assert (np.sign(z) == made.signs[r])[sure].all()
            got = made.slopes[r] @ x + made.offsets[r]
            assert_close(got, output, IDENTITY, scale=_sizes(layers, place, plane, reach)[-1])
        for k, label in enumerate(made.edges[r]):
            if label >= 0:
                j = made.neurons[label]
                for x in (polygon[k], polygon[(k + 1) % len(polygon)]):
                    z = np.concatenate(_forward(layers, place + x @ plane, leak)[0])
                    assert abs(z[j]) < 1e-12 * scales[j], "a boundary is off its neuron's zero line"


def _sizes(layers: Layers, place: Floats, plane: Floats, reach: float) -> list[float]:
    """A bound on the terms of each layer's sums."""
    size, made = np.abs(place) + reach * np.abs(plane).sum(axis=0), []
    for W, b in layers:
        size = np.abs(W) @ size + np.abs(b)
        made.append(float(size.max()))
    return made


@pytest.mark.parametrize(
    ("shape", "leak", "biased"),
    [((2, 12, 1), 0.0, True), ((2, 7, 5, 2), 0.0, True), ((5, 6, 6, 4, 1), 0.3, True), ((2, 6, 6, 1), 0.0, False),
     ((7, 9, 3), 0.0, True)],
)  # fmt: skip
def test_every_region_has_the_network_s_signs_map_and_boundaries(
    seed: int, shape: tuple[int, ...], leak: float, biased: bool
) -> None:
    rng = np.random.default_rng([seed, 9])
    layers = _network(rng, *shape)
    if not biased:
        layers = [(W, 0 * b) for W, b in layers]
    plane = np.eye(2) if shape[0] == 2 else rng.normal(size=(2, shape[0]))
    place = np.zeros(shape[0]) if shape[0] == 2 else rng.normal(size=shape[0])
    box = np.array([[-2.0, -1.0], [2.5, -1.5], [2.0, 2.0], [-1.0, 1.5]])
    made = partition_slice(layers, box, origin=place, directions=plane, leak=leak)
    _check_regions(made, layers, place, plane, leak, seed)
    assert_close(made.areas.sum(), 11.25, IDENTITY, says="the regions tile the box")
    assert (made.areas > 0).all()
    assert len({row.tobytes() for row in made.signs}) == made.count, "a pattern has one region, as it is convex"


def test_boundaries_are_shared_by_the_two_regions_beside_them(seed: int) -> None:
    rng = np.random.default_rng([seed, 10])
    layers = _network(rng, 2, 8, 6, 1)
    made = partition_slice(layers, 2.0)
    pairs, segments = made.boundaries
    length = np.linalg.norm(segments[:, 1] - segments[:, 0], axis=1)
    inner = sum(
        float(np.linalg.norm(np.roll(p, -1, axis=0) - p, axis=1)[e >= 0].sum())
        for p, e in zip(made.polygons, made.edges, strict=True)
    )
    assert_close(2 * length.sum(), inner, IDENTITY, times=10)  # thousands of lengths are summed
    for (r, s), (p, q) in zip(pairs, segments, strict=True):
        middle = (p + q) / 2
        # The function is continuous there, and exactly one neuron changes.
        both = made.slopes[[r, s], 0] @ middle + made.offsets[[r, s], 0]
        assert_close(both[0], both[1], IDENTITY, scale=_sizes(layers, np.zeros(2), np.eye(2), 2.0)[-1])
        assert (made.signs[r] != made.signs[s]).sum() == 1


@pytest.mark.place(KUN24["Proposition C.2"])
def test_parity_colours_generic_networks_and_fails_for_mirrored_ones(seed: int) -> None:
    rng = np.random.default_rng([seed, 11])
    w, b = rng.normal(size=(4, 2)), rng.normal(size=4)
    generic, student = partition_rays(w), partition_rays(np.concatenate([w, w]))
    assert flips(neuron_parity(generic.signs), generic.boundaries) == (8, 8)
    assert flips(neuron_parity(student.signs), student.boundaries) == (0, 8)
    first, _ = distinct_hyperplanes(np.concatenate([w, w]))
    for colours in (line_parity(student.signs, first), student.colours()):
        assert flips(colours, student.boundaries) == (8, 8)
    # The same with biases, and with one line of opposite orientation and one of multiplicity three.
    W, B = (
        np.concatenate([w, w[:1], -2 * w[1:2], w[2:3], w[2:3]]),
        np.concatenate([b, b[:1], -2 * b[1:2], b[2:3], b[2:3]]),
    )
    made = partition_slice([(W, B), (np.ones((1, 8)), None)], 1e3)
    pairs, _ = made.boundaries
    first, _ = distinct_hyperplanes(W, B)
    assert flips(line_parity(made.signs, first), pairs) == (len(pairs), len(pairs))
    assert 0 < flips(neuron_parity(made.signs), pairs)[0] < len(pairs)
    colours, parity = made.colours(), line_parity(made.signs, first)
    assert (colours == parity ^ parity[0]).all()
    deep = partition_slice(_network(rng, 2, 7, 7, 5, 1), 2.0)
    pairs, _ = deep.boundaries
    assert flips(deep.colours(), pairs) == (len(pairs), len(pairs)) == flips(neuron_parity(deep.signs), pairs)


@pytest.mark.place(KUN24["Proposition C.2"])
def test_a_silent_layer_or_agreeing_neurons_leave_no_colouring(seed: int) -> None:
    rng = np.random.default_rng([seed, 12])
    turn = rng.uniform(0, 2 * np.pi)
    rotate = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    # Two neurons, silent together in a sector; the next layer's difference of them is 0 there and on one more ray.
    silent = partition_slice([(rotate, None), ([[1.0, -1.0]], None), ([[1.0]], None)])
    assert silent.count == 5 and (silent.signs == 0).any(axis=1).sum() == 1
    with pytest.raises(OutsideTheoryError, match="no colouring with two colours: an odd number of regions meets"):
        silent.colours()
    # No pre-activation vanishes in a region here, but two neurons agree where the first is silent.
    second = np.array([[0.0, 1.0], [1.0, 1.0]])
    layers = [(np.eye(2), np.array([0.0, 5.0])), (second, np.full(2, -5.0)), (np.ones((1, 2)), np.zeros(1))]
    agreeing = partition_slice(layers)
    assert (agreeing.signs != 0).all() and agreeing.count == 5
    with pytest.raises(OutsideTheoryError, match="no colouring"):
        agreeing.colours()


def test_colours_of_a_ring_exist_if_it_is_even() -> None:
    ring = lambda n: np.stack([np.arange(n), np.roll(np.arange(n), -1)], axis=1)
    assert two_colours(4, ring(4)).tolist() == [0, 1, 0, 1]
    with pytest.raises(OutsideTheoryError, match="1 of 5 boundaries"):
        two_colours(5, ring(5))


def test_a_single_region_has_no_boundary() -> None:
    made = partition_slice([([[1.0, 0.0]], [5.0]), ([[2.0]], [1.0])])
    assert made.count == 1 and made.boundaries[0].shape == (0, 2) and made.colours().tolist() == [0]
    assert made.slopes.tolist() == [[[2.0, 0.0]]] and made.offsets.tolist() == [[11.0]]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: partition_rays(np.ones((3, 4))), r"`w` of partition_rays must be finite numbers \(neuron, 2\)"),
        (lambda: partition_rays(np.ones((3, 2)), [1.0]), r"`a` of partition_rays must be \(3,\)"),
        (lambda: count_regions(np.ones(3)), r"`w` of count_regions must be \(line, 2\)"),
        (lambda: partition_slice([(np.ones((3, 2)), None)]), "`layers` must hold a hidden layer and the output layer"),
        (lambda: partition_slice([(np.ones((3, 2)), None), (np.ones((1, 2)), None)]), "weight of layer 1 must have 3"),
        (lambda: partition_slice([(np.ones((3, 2)), [1.0]), (np.ones((1, 3)), None)]), r"bias of layer 0 must be \(3,\)"),
        (lambda: partition_slice([(np.ones(3), None)]), "weight of layer 0 must be a finite matrix"),
        (lambda: partition_slice([(np.ones((3, 4)), None), (np.ones((1, 3)), None)]), "`directions` must be given for 4"),
        (
            lambda: partition_slice([(np.ones((3, 2)), None), (np.ones((1, 3)), None)], directions=[[1, 2], [2, 4]]),
            "`directions` must be two independent rows of 2",
        ),
        (lambda: partition_slice([(np.ones((3, 2)), None), (np.ones((1, 3)), None)], origin=[1.0]), "`origin` must be 2"),
        (lambda: bounding_polygon(-1.0), "`box` must be a number > 0, four numbers or the corners of a convex polygon"),
        (lambda: bounding_polygon(np.array([[0, 0], [1, 0], [0.2, 0.2], [0, 1]])), "`box` must be"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(call: object, text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        call()  # type: ignore[operator]


def test_a_clockwise_box_is_turned_round_and_a_star_refused() -> None:
    clockwise = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert bounding_polygon(clockwise).tolist() == clockwise[::-1].tolist()
    turn = 2 * np.pi * np.arange(5) * 2 / 5
    with pytest.raises(ParameterError, match="convex polygon"):
        bounding_polygon(np.stack([np.cos(turn), np.sin(turn)], axis=1))
