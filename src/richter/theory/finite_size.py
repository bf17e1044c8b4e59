"""Scaling limits measured: P/Q, the learning time and the end of the growth factor while κ grows (XU24 §4).

Everything measured depends on the layers through their lengths and the angle between them only. These are drawn
exactly as those of Gaussian layers are, so that many networks of 10⁷ neurons cost what as many of two do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message
from richter.maths.growth import growth
from richter.maths.pair import layer_pair, solve_pair
from richter.maths.scaling_limits import EQUAL, speed_exponents
from richter.params import numbers
from richter.theory.phases import EXPONENTS

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
RESAMPLES = 200  # of the draws, for the intervals
ROUNDING = 100 * np.finfo(float).eps  # differences from 1 below this are none
NARROW = 64  # width where the width does not grow


def finite_size(
    scaling: dict[str, float],
    kappa: ArrayLike = (1e2, 3e2, 1e3, 3e3, 1e4),
    draws: int = 2000,
    rng: np.random.Generator | int = 0,
    zero_output: bool = False,
) -> xr.Dataset:
    """P/Q, t_c, α₊, ζ(∞) and ‖u‖² + ‖v‖² of Gaussian networks whose hyper-parameters scale with κ: the limit, measured.

    Args:
        scaling: the exponents `c_d, c_gamma, c_u, c_w, c_eta_u, c_eta_w`.
        kappa: the values of κ; the width is κ^c_d, but 64 where c_d = 0.
        draws: networks drawn at each κ.
        rng: generator or seed.
        zero_output: symmetrise the start (u → −u, w → w in the second half), so that f(0) = 0.
    """
    import xarray as xr

    missing = [name for name in EXPONENTS if name not in scaling]
    if missing or len(scaling) != len(EXPONENTS):
        raise ParameterError(message("`scaling`", f"have the keys {', '.join(EXPONENTS)}", ", ".join(scaling)))
    values = numbers("`kappa`", kappa)
    if values.ndim != 1 or (values <= 0).any():
        raise ParameterError(message("`kappa`", "be a list of numbers > 0", values))
    if scaling["c_d"] < 0:
        raise ParameterError(message("`c_d`", "be ≥ 0 (a width cannot shrink)", scaling["c_d"]))
    generator = np.random.default_rng(rng)
    says = {"ratio": "P/Q", "t_c": "time scale of learning", "growth_end": "growth factor at the end, α₊",
            "alignment_end": "alignment of the layers at the end, ζ(∞)", "norm_end": "final ‖u‖² + ‖v‖²"}  # fmt: skip
    found: dict[str, list[Floats]] = {name: [] for name in says}
    for k in values:
        width = max(2, round(k ** scaling["c_d"])) if scaling["c_d"] else NARROW
        width += width % 2
        u, w = gaussian_pair(generator, draws, width, zero_output)
        u, w = k ** (scaling["c_u"] / 2) * u, k ** (scaling["c_w"] / 2) * w
        pair = layer_pair(
            u.T[..., None], w.T[..., None], 1.0, k ** scaling["c_gamma"], 2.0,
            k ** scaling["c_eta_u"], k ** scaling["c_eta_w"],
        )  # fmt: skip
        found["ratio"].append((pair.rates.p / pair.rates.q)[:, 0])
        found["t_c"].append(1 / pair.rates.root[:, 0])
        found["growth_end"].append(growth(pair.rates, np.array([np.inf])).factor[:, 0])
        end = solve_pair(pair, np.array([np.inf]), only=("alignment", "u_square", "v_square"))
        found["alignment_end"].append(end["alignment"][:, 0])
        found["norm_end"].append((end["u_square"] + end["v_square"])[:, 0])
    return xr.Dataset(
        {name: (("kappa", "draw"), np.array(value), {"long_name": says[name]}) for name, value in found.items()},
        {"kappa": values},
        {"scaling": ", ".join(f"{name} = {scaling[name]:g}" for name in EXPONENTS)},
    )


def gaussian_pair(
    rng: np.random.Generator | int, draws: int, width: int, zero_output: bool = False
) -> tuple[Floats, Floats]:
    """Two vectors (draws, 2) with the lengths and the angle of two standard Gaussian ones of `width` entries.

    Bartlett's decomposition: ‖u‖² is χ² with `width` degrees of freedom, w has one Gaussian entry along u and a χ²
    with one degree less across it. `zero_output`: those of (u, −u) and (w, w), which are orthogonal.

    >>> u, w = gaussian_pair(0, 4, 1000)
    >>> u.shape, bool((abs((u * w).sum(axis=1)) < 200).all()), bool((abs((w**2).sum(axis=1) - 1000) < 250).all())
    ((4, 2), True, True)
    """
    if isinstance(draws, bool) or not isinstance(draws, (int, np.integer)) or draws < 1:
        raise ParameterError(message("`draws`", "be a whole number ≥ 1", draws))
    generator = np.random.default_rng(rng)
    nothing = np.zeros(draws)
    if zero_output:
        first, second = (np.sqrt(2 * generator.chisquare(width // 2, draws)) for _ in range(2))
        return np.stack([first, nothing], axis=1), np.stack([nothing, second], axis=1)
    long, across = np.sqrt(generator.chisquare(width, draws)), np.sqrt(generator.chisquare(width - 1, draws))
    along = generator.standard_normal(draws)
    return np.stack([long, nothing], axis=1), np.stack([along, across], axis=1)


def expected_exponents(scaling: dict[str, float], zero_output: bool = False) -> dict[str, float]:
    r"""The powers of κ that theory gives to the typical sizes of $t_c$, |P/Q − 1| and |α₊ − 1| of Gaussian layers.

    $t_c\sim\kappa^{-\max(F/2,K)}$. P/Q − 1 is the layers' correlation over their mean square: it falls with
    $\kappa^{-c_d/2}$ and, where one layer dominates, with the ratio of their sizes. α₊ − 1 is the larger of P/Q − 1 and
    $b/2cP\sim\kappa^{F/2-K}$; it grows where that does, and stays where F/2 = K. −∞: identically 0.

    >>> expected_exponents({"c_d": 1, "c_gamma": -0.5, "c_u": 0, "c_w": 0, "c_eta_u": 0, "c_eta_w": 0})["t_c"]
    0.0
    """
    c_d, c_gamma, c_u, c_w, c_eta_u, c_eta_w = (float(scaling[name]) for name in EXPONENTS)
    F, K = (float(x) for x in speed_exponents(c_d, c_gamma, c_u, c_w, c_eta_u, c_eta_w))
    ratio = -np.inf if zero_output else -c_d / 2 - abs((c_u + c_eta_w) - (c_w + c_eta_u)) / 2
    pull = F / 2 - K
    end = 0.0 if abs(pull) < EQUAL else max(pull, ratio)
    return {"t_c": 0.0 - max(F / 2, K), "ratio": ratio, "growth_end": end}


def fitted_exponents(ds: xr.Dataset, rng: np.random.Generator | int = 0) -> xr.Dataset:
    """Exponents fitted to a `finite_size` run: of the median over draws of t_c, |P/Q − 1| and |α₊ − 1|.

    Each has a 95 % interval from resampling the draws; NaN where the quantity is 0.

    >>> scaling = {"c_d": 1, "c_gamma": -0.5, "c_u": 0, "c_w": 0, "c_eta_u": 0, "c_eta_w": 0}
    >>> made = fitted_exponents(finite_size(scaling, kappa=(1e2, 1e3, 1e4), draws=200))
    >>> bool(abs(made.exponent.sel(quantity="ratio") + 0.5) < 0.1)
    True
    """
    import xarray as xr

    if ds.sizes.get("kappa", 0) < 3:
        got = f"{ds.sizes.get('kappa', 0)}"
        raise ParameterError(message("a finite-size run", "have at least three values of κ", got))
    generator = np.random.default_rng(rng)
    names = ("t_c", "ratio", "growth_end")
    sizes = {"t_c": ds.t_c.values, "ratio": np.abs(ds.ratio.values - 1), "growth_end": np.abs(ds.growth_end.values - 1)}
    draws = ds.sizes["draw"]
    picks = [generator.integers(0, draws, draws) for _ in range(RESAMPLES)]
    log_kappa = np.log(ds.kappa.values) - np.log(ds.kappa.values).mean()
    found = np.full((len(names), 3), np.nan)
    for row, name in enumerate(names):
        # The same draws are picked at every κ.
        typical = np.stack([np.median(sizes[name][:, pick], axis=-1) for pick in picks], axis=-1)
        middle = np.median(sizes[name], axis=-1)
        if (middle <= (0.0 if name == "t_c" else ROUNDING)).any():
            continue
        slope = lambda values: log_kappa @ np.log(values) / (log_kappa @ log_kappa)
        found[row] = slope(middle), *np.quantile(slope(typical), [0.025, 0.975])
    say = lambda words: {"long_name": words}
    return xr.Dataset(
        {
            "exponent": ("quantity", found[:, 0], say("fitted power of κ")),
            "low": ("quantity", found[:, 1], say("lower end of the 95 % interval")),
            "high": ("quantity", found[:, 2], say("upper end of the 95 % interval")),
        },
        {"quantity": list(names)},
        ds.attrs,
    )
