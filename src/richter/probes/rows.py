"""What was read at each moment, as rows; and the same as labelled arrays over `step`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message
from richter.probes.probe import LABELLED, Reading
from richter.schema import Variable

if TYPE_CHECKING:
    import xarray as xr

STEP = {"long_name": "steps of the run", "units": "1"}
T = {"long_name": "time, step × rate", "units": "1", "undefined_when": "no rate was given"}


@dataclass
class Row:
    """The readings of one moment."""

    step: int
    t: float
    readings: dict[str, Reading] = field(default_factory=dict)


@dataclass(frozen=True)
class Labelled:
    """An array with the names of its dimensions and what is said of it."""

    dims: tuple[str, ...]
    values: NDArray[Any]
    attrs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """A Dataset in plain arrays, so that neither writing nor reading one has to load a library."""

    coords: dict[str, Labelled]
    variables: dict[str, Labelled]
    attrs: dict[str, Any]

    def dataset(self) -> xr.Dataset:
        """The same with labels."""
        import xarray as xr

        plain = lambda made: {name: (x.dims, x.values, dict(x.attrs)) for name, x in made.items()}
        return xr.Dataset(plain(self.variables), plain(self.coords), self.attrs)

    def rows(self) -> list[Row]:
        """The rows that the table was made of; a named entry that is NaN was not read."""
        made = [Row(int(s), float(t)) for s, t in zip(self.coords["step"].values, self.coords["t"].values, strict=True)]
        for name, variable in self.variables.items():
            labels = self.coords[variable.dims[1]].values if set(variable.dims) & set(LABELLED) else None
            for row, value in zip(made, variable.values, strict=True):
                if np.isnan(value).all():
                    continue
                if labels is not None:
                    row.readings[name] = {str(k): float(x) for k, x in zip(labels, value, strict=True) if x == x}
                else:
                    row.readings[name] = np.array(value) if value.ndim else float(value)
        return made


def tabulate(
    rows: Sequence[Row],
    variables: Iterable[Variable],
    notes: Mapping[str, Mapping[str, str]],
    coords: Mapping[str, tuple[str, NDArray[Any]]],
    attrs: dict[str, Any],
) -> Table:
    """Rows as arrays over `step`; what a row does not have is NaN, a variable that no row has is left out.

    >>> rows = [Row(0, 0.0, {"loss": 1.0}), Row(5, 0.5, {"layer_norm": {"fc": 2.0}})]
    >>> seen = (Variable("loss", (), "loss"), Variable("layer_norm", ("layer",), "norm"))
    >>> made = tabulate(rows, seen, {}, {}, {})
    >>> made.variables["loss"].values.tolist(), made.variables["layer_norm"].values.tolist()
    ([1.0, nan], [[nan], [2.0]])
    """
    found = {v.name: v for v in variables if any(v.name in row.readings for row in rows)}
    labels: dict[str, dict[str, int]] = {}
    for v in found.values():
        for dim in set(v.dims) & set(LABELLED):
            known = labels.setdefault(dim, {})
            for row in rows:
                for name in row.readings.get(v.name, {}):  # type: ignore[union-attr]
                    known.setdefault(name, len(known))
    made = {}
    for v in found.values():
        readings = [row.readings.get(v.name) for row in rows]
        if set(v.dims) & set(LABELLED):
            known = labels[v.dims[0]]
            values = np.array([[(r or {}).get(name, np.nan) for name in known] for r in readings])  # type: ignore[union-attr]
        else:
            values = _stacked(v.name, readings)
        made[v.name] = Labelled(("step", *v.dims), values, {**v.attrs, **notes.get(v.name, {})})
    kept = {
        "step": Labelled(("step",), np.array([row.step for row in rows], np.int64), STEP),
        "t": Labelled(("step",), np.array([row.t for row in rows]), T),
    }
    kept |= {dim: Labelled((dim,), np.array(list(names))) for dim, names in labels.items()}
    used = {dim for x in made.values() for dim in x.dims}
    kept |= {name: Labelled((dim,), values) for name, (dim, values) in coords.items() if dim in used}
    return Table(kept, made, attrs)


def _stacked(name: str, readings: Sequence[Any]) -> NDArray[np.float64]:
    shape = next(np.shape(r) for r in readings if r is not None)
    odd = next((np.shape(r) for r in readings if r is not None and np.shape(r) != shape), None)
    if odd is not None:
        raise ParameterError(message(f"`{name}`", f"keep its shape, {shape}", f"{odd}"))
    return np.stack([np.full(shape, np.nan) if r is None else np.asarray(r, dtype=np.float64) for r in readings])


def scalars(row: Row) -> dict[str, float]:
    """The finite numbers of a row under flat names of letters, digits, `_` and `/`, as loggers want them.

    >>> scalars(Row(1, 0.1, {"loss": 0.5, "layer_alignment": {"net.0 → net.2": 1.0}, "delta": np.zeros(3)}))
    {'loss': 0.5, 'layer_alignment/net_0_to_net_2': 1.0}
    """
    made: dict[str, float] = {}
    for name, reading in row.readings.items():
        if isinstance(reading, Mapping):
            plain = {key.replace(" → ", "_to_"): value for key, value in reading.items()}
            made |= {f"{name}/{''.join(c if c.isalnum() else '_' for c in key)}": x for key, x in plain.items()}
        elif np.ndim(reading) == 0:
            made[name] = float(reading)
    return {name: value for name, value in made.items() if np.isfinite(value)}
