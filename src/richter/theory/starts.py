"""Random starts, many draws in one call, and their mean and spread."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message

if TYPE_CHECKING:
    import xarray as xr


def draw(
    rng: np.random.Generator | int, draws: int, *layers: tuple[float, tuple[int, ...]]
) -> list[NDArray[np.float64]]:
    """Gaussian layers: one array (draws, *shape) for each (standard deviation, shape).

    >>> [x.shape for x in draw(0, 3, (1.0, ()), (0.1, (4,)))]
    [(3,), (3, 4)]
    """
    if isinstance(draws, bool) or not isinstance(draws, (int, np.integer)) or draws < 1:
        raise ParameterError(message("`draws`", "be a whole number ≥ 1", draws))
    for sigma, _ in layers:
        if not (math.isfinite(sigma) and sigma >= 0):
            raise ParameterError(message("a standard deviation", "be finite and ≥ 0", sigma))
    generator = np.random.default_rng(rng)
    return [sigma * generator.standard_normal((draws, *shape)) for sigma, shape in layers]


def mean_and_spread(ds: xr.Dataset, over: str = "start") -> xr.Dataset:
    """Mean, standard deviation and standard error over the draws, along a new dimension `statistic`.

    Undefined entries are left out of each statistic; `draws` counts what is left.

    >>> from richter.theory import SingleNeuron
    >>> ds = SingleNeuron.random(beta_star=[1.0, 0.0], draws=9).solve([0.0, 1.0], only=("loss",))
    >>> mean_and_spread(ds).loss.dims
    ('statistic', 't')
    """
    import xarray as xr

    if over not in ds.dims:
        raise ParameterError(message("`over`", f"be one of {', '.join(map(str, ds.dims))}", over))
    kept: Any = ds[[name for name, value in ds.data_vars.items() if over in value.dims]]
    count = kept.count(over)
    spread = kept.std(over, ddof=1) if ds.sizes[over] > 1 else kept.std(over) * np.nan
    made = xr.concat([kept.mean(over), spread, spread / np.sqrt(count), count * 1.0], "statistic")
    return made.assign_coords(statistic=["mean", "standard deviation", "standard error", "draws"])
