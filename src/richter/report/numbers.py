"""The numbers of a Dataset as files: CSV over time and JSON of everything."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

MOST_COLUMNS = 500  # of a CSV: variables with more entries per moment are in the JSON alone


def to_csv(ds: xr.Dataset) -> bytes:
    """One row per moment, one column per number: `name`, or `name[entry]` where a variable has several.

    >>> import xarray as xr
    >>> print(to_csv(xr.Dataset({"loss": ("step", [2.0, 1.0])}, {"step": [0, 5]})).decode().replace("\\r", ""))
    step,loss
    0,2.0
    5,1.0
    <BLANKLINE>
    """
    dim = "step" if "step" in ds.dims else "t"
    along = [
        name for name in (dim, *(n for n in ds.coords if n != dim)) if name in ds.coords and ds[name].dims == (dim,)
    ]
    columns: dict[str, Any] = {str(name): ds[name].values for name in along}
    for name, value in ds.data_vars.items():
        rest = [d for d in value.dims if d != dim]
        count = int(np.prod([value.sizes[d] for d in rest], dtype=np.int64))
        if dim not in value.dims or count > MOST_COLUMNS:
            continue
        for index in np.ndindex(*(value.sizes[d] for d in rest)):
            words = [str(ds[d].values[i]) if d in ds.coords else str(i) for d, i in zip(rest, index, strict=True)]
            title = f"{name}[{', '.join(words)}]" if words else str(name)
            columns[title] = value.isel(dict(zip(rest, index, strict=True))).values
    text = io.StringIO()
    out = csv.writer(text)
    out.writerow(columns)
    rows = zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True)
    out.writerows([["" if isinstance(x, float) and math.isnan(x) else x for x in row] for row in rows])
    return text.getvalue().encode()


def to_json(ds: xr.Dataset, **more: object) -> bytes:
    """Every variable and coordinate with its dimensions; undefined is null, infinite "inf"; and what else is given."""
    entry = lambda value: {"dims": list(map(str, value.dims)), "data": _plain(np.asarray(value.values).tolist())}
    plain = {
        "dims": {str(name): int(size) for name, size in ds.sizes.items()},
        "variables": {str(name): entry(ds[name]) for name in ds.variables},
        "attrs": {str(name): _plain(value) for name, value in ds.attrs.items()},
        "schema": 1,
        **more,
    }
    return json.dumps(plain, ensure_ascii=False).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(x) for x in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    return value if isinstance(value, (int, float, str, bool)) or value is None else str(value)
