"""A theory against its 50-digit reference: every variable, in units of its own condition number."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import numpy as np
from mpmath import mp

from richter.theory.base import AbstractTheory
from tests.maths.starts import Floats, Starts
from tests.references.precision import Number, Outputs, Solver, conditioned

BAR = 1e-13  # allowed relative error, times the condition number where that exceeds 1
SMALL = 1e-280  # a double this small has lost digits or is 0: what is divided by it is left out
# A state decays towards a saddle as 1/√(growth factor), and a factor beyond 1e308 counts as infinite.
FLOOR = dict.fromkeys(("a", "b", "u", "w", "p", "q"), 1e-150)
UNDERLYING = {"phi": "w", "alignment": "alignment's least", "kernel_distance": "kernel", "kernel_change": "kernel"}


@dataclass
class Verdict:
    """The worst error of every variable in units of the condition number, and what is wrong."""

    worst: dict[str, float] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    counted: int = 0


def judge(theory: Callable[..., AbstractTheory], reference: Solver, given: Starts, t: Floats) -> Verdict:
    """Compare `theory` with `reference` for every start (first axis of `given`) and its own times (start, time).

    The reference takes the parameters in the order of `given`, flat, with the time last.
    """
    made = theory(**given)
    prepared = made.prepare(made.layout)
    names = [v.name for v in made.variables]
    with np.errstate(all="ignore"):
        got = made.exact(prepared, t, names)
    shapes = {v.name: tuple(made.sizes[d] for d in v.dims) for v in made.variables}
    full = {n: np.broadcast_to(got[n], (*shapes[n], *t.shape)) for n in names}
    return judge_outputs(full, reference, given, t, {v.name for v in made.variables if v.undefined_when})


def judge_outputs(
    outputs: Starts, reference: Solver, given: Starts, t: Floats, may_be_undefined: Collection[str]
) -> Verdict:
    """The same for arrays (*own, start, time), whoever computed them."""
    flat = {name: value.reshape(-1, *t.shape) for name, value in outputs.items()}
    verdict = Verdict(dict.fromkeys(outputs, 0.0))
    for i, j in np.ndindex(*t.shape):
        inputs = [float(x) for values in given.values() for x in np.ravel(values[i])]
        value, condition = conditioned(reference, [*inputs, float(t[i, j])])
        for name in outputs:
            for k, (x, exact, size) in enumerate(zip(flat[name][:, i, j], value[name], condition[name], strict=True)):
                error = _error(name, float(x), exact, size, value, may_be_undefined)
                verdict.counted += 1
                verdict.worst[name] = max(verdict.worst[name], error)
                if error > BAR:
                    start = {n: v[i].tolist() for n, v in given.items()}
                    verdict.wrong.append(
                        f"{name}[{k}] = {x!r}, should be {mp.nstr(exact, 17)} (condition {mp.nstr(size, 3)}, "
                        f"error {error:.2g}) at t = {float(t[i, j])!r} of start {i}: {start}"
                    )
    return verdict


def _error(
    name: str, x: float, exact: Number, size: Number, value: Outputs, may_be_undefined: Collection[str]
) -> float:
    """Error in units of the value or of its condition number, ∞ where one is undefined and the other is not."""
    if name in may_be_undefined and 0 < max(map(abs, value[UNDERLYING[name]])) < SMALL:
        return 0.0
    if np.isnan(x) or mp.isnan(exact):
        return 0.0 if np.isnan(x) and mp.isnan(exact) and name in may_be_undefined else np.inf
    if np.isinf(x) or abs(exact) > 1.79e308:
        return 0.0 if np.isinf(x) and abs(exact) > 1.79e308 and (x > 0) == (exact > 0) else np.inf
    off = abs(mp.mpf(x) - exact)
    return 0.0 if off <= FLOOR.get(name, 1e-290) else float(off / max(abs(exact), size)) if exact or size else np.inf


def assert_digits(verdict: Verdict) -> None:
    """Every error below the bar; the message lists the worst offenders."""
    wrong = verdict.wrong
    assert not wrong, f"{len(wrong)} of {verdict.counted} numbers are off:\n" + "\n".join(wrong[:5])
