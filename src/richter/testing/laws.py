"""Laws that every theory obeys, run on every member of the zoo.

Each `check_*` takes a member and raises `AssertionError` with the numbers when its law is broken. Which wrong
theories each law finds is measured by `richter.testing.mutants`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from richter.params import Given, declared
from richter.regime import LABELS
from richter.schema import DIMS
from richter.testing.symmetries import symmetries_of
from richter.testing.zoo import Member
from richter.theory.base import AbstractTheory
from richter.theory.layout import BLOCK, Floats, State

Law = Callable[[Member], None]
IDENTITY, SOLVED, DERIVATIVE = 1e-12, 1e-8, 1e-6
STEP = 1e-30  # of complex steps, which do not round


def laws() -> dict[str, Law]:
    """Every law by name."""
    return {name.removeprefix("check_"): law for name, law in globals().items() if name.startswith("check_")}


def check_starts_at_its_start(member: Member) -> None:
    """At t = 0 the exact solution is the start, up to a few roundings."""
    theory = member.make()
    first = theory.arrays([0.0])
    given = theory.read(theory.begin(theory.layout), np.zeros(1))
    for v in theory.variables:
        _close(f"{v.name}(0)", first[v.name][1], given[v.name][1], IDENTITY, floor=1e-2)
    for name in set(theory.start_params) & _names(theory):
        _close(f"{name}(0)", first[name][1], given[name][1], 1e-14)


def check_agrees_with_its_simulation(member: Member) -> None:
    """Every variable of `solve` is that of `simulate`, which knows only the flow and the definitions."""
    theory = member.make()
    exact, simulated = theory.solve(member.times), theory.simulate(member.times)
    for name in exact.data_vars:
        _close(str(name), exact[name].values, simulated[name].values, SOLVED, floor=1e-3)


def check_solves_its_own_flow(member: Member) -> None:
    """Time derivatives of state and function (differences of order 4) are those along the flow (complex steps)."""
    theory = member.make()
    moving = [v.name for v in theory.variables if v.role in ("state", "function")]
    for t in member.times[1:]:
        h = 1e-3 * min(t, float(np.diff(member.times).min()))
        near = theory.arrays(t + h * np.array([-2.0, -1.0, 0.0, 1.0, 2.0]), only=moving)
        state = _states(theory, np.array([t]))
        flow = theory.flow(theory.layout, state)
        step = {name: x + 1j * STEP * flow[name] for name, x in state.items()}
        slopes = {**step, **_at(theory, step)}
        for name in moving:
            x = _inside(theory, *near[name])
            slope = (x[..., 0] - 8 * x[..., 1] + 8 * x[..., 3] - x[..., 4]) / (12 * h)
            scale = np.abs(x).max() / t  # rounding of the differences
            expected = np.broadcast_to(slopes[name].imag / STEP, (*slope.shape, 1))[..., 0]
            _close(f"d{name}/dt at t = {t:g}", slope, expected, DERIVATIVE, floor=scale)


def check_flow_descends_the_loss(member: Member) -> None:
    """The flow of each state variable is minus its rate times the loss's gradient (complex steps)."""
    theory = member.make()
    p, state = theory.layout, _states(theory, np.array(member.times))
    flow, rates = theory.flow(p, state), theory.rates(p, state)
    for name, x in state.items():
        gradient = np.zeros(x.shape)
        for index in np.ndindex(*x.shape[:-2]):
            moved = {k: v.astype(complex) for k, v in state.items()}
            moved[name][index] += 1j * STEP
            gradient[index] = _at(theory, moved)["loss"].imag / STEP
        _close(f"flow of {name}", np.broadcast_to(flow[name], x.shape), -rates[name] * gradient, IDENTITY, floor=1e-2)


def check_output_follows_the_kernel(member: Member) -> None:
    """d(function)/dt = −loss_factor · kernel · residual along the flow."""
    theory = member.make()
    p, state = theory.layout, _states(theory, np.array(member.times))
    flow = theory.flow(p, state)
    moved = {name: x + 1j * STEP * flow[name] for name, x in state.items()}
    name = next((v.name for v in theory.variables if v.role == "function"), "output")
    if "kernel" not in _names(theory):
        return
    slope = {**moved, **_at(theory, moved)}[name].imag / STEP
    exact = theory.arrays(member.times, only=(name, "kernel"))
    function, kernel = (_inside(theory, *exact[k]) for k in (name, "kernel"))
    residual = function - theory.aim(p)
    push = (kernel * residual).sum(axis=1) if kernel.ndim == function.ndim + 1 else kernel * residual
    _close(f"d{name}/dt", slope, -theory.loss_factor * push, 1e-10, floor=1e-2)


def check_conserves_its_invariants(member: Member) -> None:
    """What is declared conserved keeps its value on the exact path, relative to the squares it is made of."""
    theory = member.make()
    p, state = theory.layout, _states(theory, np.array([*member.times, np.inf]))
    size = sum(float(np.abs(x).max()) ** 2 * max(1, x.shape[0]) for x in state.values())
    for name, value in theory.invariants(p, state).items():
        drift = np.abs(value - value[..., :1]).max()
        assert drift <= IDENTITY * max(size, 1e-300) * 10, f"{name} drifts by {drift:.3g} (scale {size:.3g})"
        stored = _inside(theory, *theory.arrays([0.0, 1.0], only=(name,))[name])
        _close(name, stored[..., 0], value[..., 0], IDENTITY, floor=size * 1e-3)


def check_ends_at_its_limit(member: Member) -> None:
    """t = ∞ is where the solution goes: the flow vanishes there and late times are near it."""
    theory = member.make()
    end = _states(theory, np.array([np.inf]))
    flow, rates = theory.flow(theory.layout, end), theory.rates(theory.layout, end)
    for name, speed in flow.items():
        size = 1 + np.abs(end[name]).max()
        top = np.abs(speed / np.maximum(rates[name], 1e-300) / size**3).max()
        assert top <= 1e-10, f"{name} still moves at t = ∞: {top:.3g}"
    late, last = theory.arrays([1e30]), theory.arrays([np.inf])
    for v in theory.variables:
        if v.role in ("state", "function", "loss"):
            _close(f"{v.name}(∞)", late[v.name][1], last[v.name][1], SOLVED, floor=1.0)


def check_many_times_are_one_at_a_time(member: Member) -> None:
    """Asking for all times at once, in any order, with ∞ among them, changes nothing."""
    theory = member.make()
    times = np.array([*member.times, np.inf])[::-1]
    together = theory.solve(times)
    for i, t in enumerate(times):
        alone = theory.solve(t)
        for name in together.data_vars:
            _close(f"{name} at t = {t}", together[name].isel(t=[i]).values, alone[name].values, IDENTITY)


def check_batch_is_a_loop(member: Member) -> None:
    """A batch of starts is the starts one by one."""
    theory = member.make()
    stacked = theory.with_(**{
        param: np.stack([theory.params[param], 0.7 * theory.params[param]]) for param in theory.start_params.values()
    }, batch=None) if not theory.batch_shape else theory  # fmt: skip
    whole = stacked.solve(member.times)
    for index in np.ndindex(*stacked.batch_shape):
        one: dict[str, Given] = {}
        for param, value in stacked.params.items():
            own = value.shape[value.ndim - len(declared(stacked)[param].dims) :]
            one[param] = np.broadcast_to(value, (*stacked.batch_shape, *own))[index]
        alone = type(stacked).of(**one).solve(member.times)
        for name in whole.data_vars:
            floor = 1e-3 * float(np.abs(np.where(np.isfinite(whole[name]), whole[name], 0.0)).max(initial=0.0))
            if whole[name].attrs["role"] == "invariant":  # a difference of squares
                floor = max(
                    floor, *(float(np.abs(stacked.params[p]).max()) ** 2 for p in stacked.start_params.values())
                )
            _close(f"{name} of start {index}", whole[name].values[index], alone[name].values, IDENTITY, floor=floor)


def check_blocks_do_not_show(member: Member) -> None:
    """Working in blocks of starts and of times changes nothing."""
    theory = member.make()
    whole = theory.solve(member.times)
    many = theory.solve(np.tile(member.times, BLOCK // len(member.times) + 1))
    for name in whole.data_vars:
        for part in (slice(0, len(member.times)), slice(-len(member.times), None)):
            _close(str(name), many[name].isel(t=part).values, whole[name].values, IDENTITY)


def check_growth_is_monotone(member: Member) -> None:
    """A growth factor starts at 1 and only rises or only falls, to ∞ or 0 where nothing stops it."""
    theory = member.make()
    if "growth" not in _names(theory):
        return
    span = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 200), [np.inf]])
    growth = _inside(theory, *theory.arrays(span, only=("growth",))["growth"])
    assert np.abs(growth[..., 0] - 1).max() <= IDENTITY, "the growth factor does not start at 1"
    with np.errstate(invalid="ignore"):
        steps = np.nan_to_num(np.diff(growth), nan=0.0)
    slack = 1e-13 * np.minimum(growth[..., 1:], growth[..., :-1])
    up, down = (steps >= -slack).all(axis=-1), (steps <= slack).all(axis=-1)
    assert (up | down).all(), "the growth factor turns"


def check_restarted_it_goes_on(member: Member) -> None:
    """Stopping at t₁ and starting again from there gives the solution at t₁ + t₂."""
    theory = member.make()
    first, last = member.times[2], member.times[-1]
    there = theory.solve([first, last])
    state = {
        param: np.moveaxis(x[..., 0], -1, 0).reshape((*theory.batch_shape, *x.shape[:-2]))
        for (_, x), param in zip(_states(theory, np.array([first])).items(), theory.start_params.values(), strict=True)
    }
    again = theory.with_(**state).solve([last - first])
    for v in theory.variables:
        if v.role in ("state", "function"):
            _close(v.name, again[v.name].isel(t=0).values, there[v.name].isel(t=1).values, SOLVED, floor=1e-6)


def check_obeys_its_symmetries(member: Member) -> None:
    """Rotations, sign flips, swaps of layers and changes of clock act on the solution as they must."""
    theory = member.make()
    names = [v.name for v in theory.variables if v.role in ("state", "function", "loss")]
    names += [n for n in ("kernel_distance", "kernel_change", "alignment", "phi") if n in _names(theory)]
    plain = theory.solve(member.times, only=names)
    for symmetry in symmetries_of(theory):
        image = symmetry.theory.solve(np.asarray(member.times) * symmetry.clock, only=names)
        for name in names:
            expected = symmetry.act(name, plain[name].values)
            _close(f"{name} under {symmetry.name}", image[symmetry.source(name)].values, expected, 1e-10, floor=1e-4)


def check_loss_never_increases(member: Member) -> None:
    """Gradient flow never climbs."""
    theory = member.make()
    span = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 400), [np.inf]])
    loss = theory.solve(span, only=("loss",)).loss
    rise = loss.diff("t").max().item()
    assert rise <= 1e-14 * loss.max().item(), f"the loss rises by {rise:.3g}"


def check_is_finite_where_declared(member: Member) -> None:
    """State, function and loss are finite; NaN and ∞ stand only where they are declared."""
    theory = member.make()
    ds = theory.solve([0.0, 1e-9, *member.times, 1e3, 1e9, np.inf])
    for v in theory.variables:
        values = ds[v.name].values
        if v.role in ("state", "function", "loss", "invariant"):
            assert np.isfinite(values).all(), f"{v.name} is not finite"
        elif not v.undefined_when:
            assert not np.isnan(values).any(), f"{v.name} is NaN and nothing declares it"


def check_follows_the_schema(member: Member) -> None:
    """Batch dimensions, then t, then the variable's own, all in the vocabulary, all described."""
    theory = member.make()
    ds = theory.solve(member.times)
    for v in theory.variables:
        assert ds[v.name].dims == (*theory.batch_names, "t", *v.dims), f"{v.name} has {ds[v.name].dims}"
        assert set(v.dims) <= set(DIMS), f"{v.name}: {v.dims}"
        assert ds[v.name].dtype == np.float64 and ds[v.name].attrs["long_name"] and ds[v.name].attrs["units"]
    assert ds.attrs["model"] == theory.name and ds.attrs["loss_factor"] == theory.loss_factor


def check_names_its_regime(member: Member) -> None:
    """The regime is a known word of the batch's shape, with evidence."""
    theory = member.make()
    regime = theory.regime()
    assert np.shape(regime.label) == theory.batch_shape and regime.evidence
    assert set(np.ravel(regime.label)) <= set(LABELS), regime.label


def _states(theory: AbstractTheory, times: Floats) -> State:
    """The exact state (or a representative), own dimensions first, in the order of `start_params`."""
    with np.errstate(all="ignore"):
        made = theory.exact_state(theory.prepare(theory.layout), times)
    starts = max(1, int(np.prod(theory.batch_shape)))
    return {
        name: np.broadcast_to(made[name], (*made[name].shape[:-2], starts, times.size)) for name in theory.start_params
    }


def _inside(theory: AbstractTheory, dims: tuple[str, ...], value: Floats) -> Floats:
    """(*batch, t, *own) as (*own, starts, t)."""
    batch = len(theory.batch_shape)
    flat = value.reshape(-1, *value.shape[batch:])
    return np.moveaxis(flat, (0, 1), (-2, -1))


def _at(theory: AbstractTheory, state: dict[str, Any]) -> dict[str, Any]:
    with np.errstate(all="ignore"):
        return theory.observables(theory.layout, state, theory.begin(theory.layout))


def _names(theory: AbstractTheory) -> set[str]:
    return {v.name for v in theory.variables}


def _close(what: str, actual: Floats, expected: Floats, rtol: float, floor: float = 0.0) -> None:
    """Relative agreement; `floor` is the size below which differences count absolutely. NaN and ∞ must match."""
    actual, expected = np.broadcast_arrays(actual, expected)
    special = ~np.isfinite(expected) | ~np.isfinite(actual)
    same = np.array_equal(actual[special], expected[special], equal_nan=True)
    assert same, f"{what}: NaN or ∞ in different places ({actual[special][:4]} against {expected[special][:4]})"
    got, want = actual[~special], expected[~special]
    error = np.abs(got - want) / np.maximum(np.abs(want), max(floor, 1e-300))
    worst = float(error.max(initial=0.0))
    assert worst <= rtol, f"{what}: relative error {worst:.3g} > {rtol:g}"
