"""Phases of scaling limits of the wide network (XU24 §4): names and Table 1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from richter.errors import ParameterError, UnknownNameError, message, nearest
from richter.maths.scaling_limits import (
    classify,
    halves_balance,
    speed_exponents,
    stable_rate,
    to_feature_learning,
    to_kernel,
)
from richter.params import numbers
from richter.regime import Evidence, Regime

if TYPE_CHECKING:
    import xarray as xr

PHASES = ("kernel", "feature-learning", "frozen", "unstable")
EXPONENTS = ("c_d", "c_gamma", "c_u", "c_w", "c_eta_u", "c_eta_w")


def phase(
    c_d: ArrayLike,
    c_gamma: ArrayLike,
    c_u: ArrayLike,
    c_w: ArrayLike,
    c_eta_u: ArrayLike,
    c_eta_w: ArrayLike,
    balanced_output: bool | None = None,
) -> Regime:
    """The phase of a scaling limit from its exponents (Theorem 2, corrected); arrays broadcast.

    Args:
        c_d: exponent of the width.
        c_gamma: exponent of the output scale γ.
        c_u: exponent of the variance of u.
        c_w: exponent of the variance of w.
        c_eta_u: exponent of u's learning rate.
        c_eta_w: exponent of w's learning rate.
        balanced_output: whether P/Q → 1 at any width, as for a start with zero output; None: whether
            independent Gaussian layers have it (the width grows, or one layer dominates).

    >>> str(phase(1, -0.5, 0, 0, 0, 0).label), str(phase(1, -1, 0, 0, 1, 1).label)
    ('kernel', 'feature-learning')
    """
    given = [numbers(f"`{name}`", value) for name, value in
             zip(EXPONENTS, (c_d, c_gamma, c_u, c_w, c_eta_u, c_eta_w), strict=True)]  # fmt: skip
    try:
        d, g, u, w, eu, ew = np.broadcast_arrays(*given)
    except ValueError:
        shapes = ", ".join(f"{name} {c.shape}" for name, c in zip(EXPONENTS, given, strict=True) if c.ndim)
        raise ParameterError(message("the exponents", "broadcast against each other", shapes)) from None
    if (d < 0).any():
        raise ParameterError(message("`c_d`", "be ≥ 0 (a width cannot shrink)", float(d.min())))
    F, K = speed_exponents(d, g, u, w, eu, ew)
    natural = halves_balance(d, u, w, eu, ew)
    balanced = natural if balanced_output is None else np.full(d.shape, bool(balanced_output))
    label = classify(F, K, balanced)
    single = d.ndim == 0
    why = {
        "kernel": "the kernel part of the speed dominates and P/Q → 1: the kernel stays as it starts",
        "feature-learning": "learning takes a time of order 1 and the kernel moves",
        "frozen": "the learning time diverges: nothing moves",
        "unstable": "the learning time vanishes: discrete steps diverge",
    }
    reasons = [f"{name}: {why[name]}." for name in PHASES if (label == name).any()]
    if not balanced.all() and (K > F).any():
        reasons.append("Where P/Q does not tend to 1 a dominating kernel part is still feature learning.")
    return Regime(
        label.item() if single else label,
        {
            "feature_exponent": Evidence(F.item() if single else F, "F, exponent of the feature part of t_c⁻²", 0.0),
            "kernel_exponent": Evidence(K.item() if single else K, "K, half that of the kernel part", 0.0),
            "halves_balance": Evidence(
                bool(balanced) if single else balanced, "whether P/Q → 1, needed for the kernel phase"
            ),
        },
        tuple(reasons),
    )


@dataclass(frozen=True)
class Scaling:
    """A named scaling: a column of Table 1."""

    name: str
    c_d: float
    c_gamma: float
    c_u: float
    c_w: float
    c_eta: float
    balanced_output: bool | None = None
    below: float = 1.0  # how far below the bound of Corollary 3 the printed kernel pair lies

    def phase(self, c_eta: float | None = None, c_gamma: float | None = None) -> Regime:
        """The phase of the column, with its own or another rate and output scale."""
        rate, scale = self.c_eta if c_eta is None else c_eta, self.c_gamma if c_gamma is None else c_gamma
        return phase(self.c_d, scale, self.c_u, self.c_w, rate, rate, self.balanced_output)


# Kaiming as printed, (c_u, c_w) = (0, −1); fan-in of f = γ Σ u_i w_ij x_j is (−1, 0): only the maximum enters.
# The lazy column keeps the width and needs a start with zero output.
SCALINGS = (
    Scaling("NTK", 1, -1 / 2, 0, 0, 0),
    Scaling("mean field", 1, -1, 0, 0, 0),
    Scaling("Xavier", 1, 0, -1, -1, 0, below=2),
    Scaling("Kaiming", 1, 0, 0, -1, 0, below=2),
    Scaling("lazy", 0, 1, 0, 0, 0, balanced_output=True, below=2),
)


def table_1() -> list[dict[str, object]]:
    """XU24 Table 1 recomputed: each column as it stands, with η*, with (η⁺, γ⁺) and with (η⁻, γ⁻).

    >>> [row["phase"] for row in table_1()]
    ['kernel', 'frozen', 'feature-learning', 'unstable', 'unstable']
    """
    rows: list[dict[str, object]] = []
    for s in SCALINGS:
        star = float(stable_rate(s.c_d, s.c_gamma, s.c_u, s.c_w))
        plus = tuple(float(c) for c in to_feature_learning(s.c_d, s.c_u, s.c_w))
        minus = tuple(float(c) for c in to_kernel(s.c_d, s.c_u, s.c_w, s.below))
        rows.append({
            "scaling": s.name, "phase": s.phase().label,
            "c_eta*": star, "phase*": s.phase(star).label,
            "c_eta+": plus[0], "c_gamma+": plus[1], "phase+": s.phase(*plus).label,
            "c_eta-": minus[0], "c_gamma-": minus[1], "phase-": s.phase(*minus).label,
        })  # fmt: skip
    return rows


def phase_diagram(
    x: str,
    y: str,
    base: Mapping[str, float],
    x_values: ArrayLike,
    y_values: ArrayLike,
    balanced_output: bool | None = None,
) -> xr.Dataset:
    """The phase over any two exponents, the others as in `base`; `c_eta` stands for both rates together.

    Args:
        x: exponent along the first axis, one of c_d, c_gamma, c_u, c_w, c_eta_u, c_eta_w, c_eta.
        y: the one along the second.
        base: the exponents that stay, each of them or `c_eta`.
        x_values: values along the first axis.
        y_values: values along the second.
        balanced_output: as in `phase`.

    >>> ds = phase_diagram("c_eta", "c_gamma", {"c_d": 1, "c_u": 0, "c_w": 0}, [0, 1], [-1, -0.5])
    >>> [PHASES[int(code)] for code in ds.phase.values.ravel()]
    ['frozen', 'feature-learning', 'kernel', 'unstable']
    """
    import xarray as xr

    known = (*EXPONENTS, "c_eta")
    for name in (x, y, *base):
        if name not in known:
            raise UnknownNameError(f"There is no exponent `{name}`. {nearest(name, list(known))}")
    first, second = numbers("`x_values`", x_values), numbers("`y_values`", y_values)
    if x == y or first.ndim != 1 or second.ndim != 1:
        raise ParameterError(message("a phase diagram", "have two different exponents with a list of values each", x))
    spread: dict[str, ArrayLike] = {**base, x: first[None, :], y: second[:, None]}
    both = spread.pop("c_eta", None)
    if both is not None:
        spread = {"c_eta_u": both, "c_eta_w": both, **spread}
    missing = [name for name in EXPONENTS if name not in spread]
    if missing:
        raise ParameterError(message("`base`", f"give {', '.join(missing)}", ", ".join(base) or "nothing"))
    c_d, c_gamma, c_u, c_w, c_eta_u, c_eta_w = (spread[name] for name in EXPONENTS)
    regime = phase(c_d, c_gamma, c_u, c_w, c_eta_u, c_eta_w, balanced_output)
    codes = np.array([PHASES.index(str(label)) for label in np.ravel(regime.label)], dtype=float)
    shape = (second.size, first.size)
    value = lambda key: (("y", "x"), np.broadcast_to(regime.evidence[key].value, shape))
    return xr.Dataset(
        {
            "phase": (("y", "x"), codes.reshape(shape), {"long_name": "phase", "words": ", ".join(PHASES)}),
            "F": value("feature_exponent"),
            "K": value("kernel_exponent"),
        },
        {"x": ("x", first, {"symbol": x}), "y": ("y", second, {"symbol": y})},
        {"base": ", ".join(f"{name} = {base[name]:g}" for name in base)},
    )
