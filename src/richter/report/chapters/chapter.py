"""What a chapter of the tour holds, and how its numbers are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.figure import Figure
from richter.figure.build import number
from richter.refs import Place
from richter.regime import Regime

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
Table = tuple[str, tuple[str, ...], list[tuple[str, ...]]]


@dataclass(frozen=True)
class Agreement:
    """How far the exact solution is from the simulation."""

    what: str
    error: float
    points: int


@dataclass(frozen=True)
class Chapter:
    """What the page shows of one setting; a measured one has nothing exact to agree with, but more to be said."""

    ident: str
    title: str
    seen: str
    figure: Figure
    alt: str
    verdict: str
    table: Table
    agreement: tuple[Agreement, ...]
    python: str
    places: tuple[Place, ...]
    said: tuple[tuple[str, tuple[str, ...]], ...] = ()


def compare(exact: xr.Dataset, simulated: xr.Dataset, names: Sequence[str], what: str = "") -> tuple[Agreement, ...]:
    """For each variable the largest |exact − simulated| over all points, in units of its curve's largest value."""
    made = []
    for name in names:
        a, b = exact[name], simulated[name]
        size = abs(b).max("t")
        error = float((abs(a - b).max("t") / size.where(size > 0)).max())
        symbol = str(a.attrs.get("symbol", "")) or str(a.attrs.get("long_name", name))
        made.append(Agreement(f"{symbol}{what}", error, int(a.size)))
    return tuple(made)


def evidence(regime: Regime, name: str) -> Any:
    """A number of the regime's evidence, or an array of it for a batch."""
    return regime.evidence[name].value


def short(value: float) -> str:
    """Three digits.

    >>> short(0.0123456), short(1234567.0)
    ('0.0123', '1.23×10⁶')
    """
    return number(float(value), 3)


def percent(share: float) -> str:
    """A share in per cent, two digits.

    >>> [percent(share).split() for share in (0.00387, 1.39)]
    [['0.39', '%'], ['139', '%']]
    """
    value = 100 * float(share)
    return f"{number(value, 2) if value < 99.5 else number(round(value))}\N{NO-BREAK SPACE}%"


def side(value: float, threshold: float) -> str:
    """Where a number lies.

    >>> side(0.1, 0.3)
    'below'
    """
    return "below" if value < threshold else "above" if value > threshold else "at"
