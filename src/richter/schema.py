"""The one schema of every result: variable names, dimensions, units; to and from files.

A result is a plain `xarray.Dataset`. Batch dimensions come first, then `t`, then the variable's own.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from richter.errors import FileError, message

if TYPE_CHECKING:
    import xarray as xr

SCHEMA = 1
DIMS = {
    "start": "one entry per start (the default name of a batch dimension)",
    "t": "time of the gradient flow; in a discrete run step × rate",
    "step": "steps of a discrete run",
    "neuron": "hidden neurons",
    "neuron_2": "hidden neurons again, the second index of a matrix",
    "input": "inputs",
    "input_2": "inputs again, the second index of a kernel",
    "output": "outputs of the network",
    "output_2": "outputs again, the second index of a Gram matrix",
    "mode": "decoupled modes",
    "skill": "skills",
    "basis": "basis functions of one skill",
    "basis_2": "basis functions again, the second index of a Gram matrix",
    "example": "examples",
    "n": "numbers of training examples: a learning curve",
    "draw": "random draws of a data set",
    "example_2": "examples again, the second index of a kernel matrix",
    "point": "points at which a function is read",
    "component": "outputs of a trained network, the second index of its variable `output`",
    "layer": "layers of a trained network, by name",
    "pair": "two weight layers, the second of which reads what the first gives",
    "activation": "activation functions of a trained network, by the module that applies them",
}
Role = Literal["state", "function", "loss", "observable", "invariant"]


@dataclass(frozen=True)
class Variable:
    """A named quantity of a result, with the dimensions that follow the batch and `t`."""

    name: str
    dims: tuple[str, ...]
    says: str
    role: Role = "observable"
    symbol: str = ""
    undefined_when: str = ""

    @property
    def attrs(self) -> dict[str, str]:
        """What is stored beside the numbers."""
        made = {"long_name": self.says, "units": "1", "role": self.role}
        if self.symbol:
            made["symbol"] = self.symbol
        if self.undefined_when:
            made["undefined_when"] = self.undefined_when
        return made


TIME = Variable("t", ("t",), "time of the gradient flow", "observable", "t")


def to_plain(
    model: str,
    params: Mapping[str, Any],
    arrays: Mapping[str, tuple[Sequence[str], NDArray[np.float64]]],
) -> dict[str, object]:
    """The stable JSON form: undefined is null, infinite is "inf".

    >>> to_plain("m", {}, {"t": (("t",), np.array([0.0, np.inf]))})["variables"]
    {'t': {'dims': ['t'], 'data': [0.0, 'inf']}}
    """
    dims: dict[str, int] = {}
    for names, array in arrays.values():
        dims.update(zip(names, array.shape, strict=True))
    return {
        "model": model,
        "params": {name: _plain(value) for name, value in params.items()},
        "dims": dims,
        "variables": {name: {"dims": list(names), "data": _plain(array)} for name, (names, array) in arrays.items()},
        "schema": SCHEMA,
    }


def _plain(value: Any) -> Any:
    array = np.asarray(value, dtype=np.float64)
    if np.isfinite(array).all():
        return array.tolist()
    if array.ndim:
        return [_plain(row) for row in array]
    number = float(array)
    return None if math.isnan(number) else ("inf" if number > 0 else "-inf")


def from_plain(plain: Mapping[str, Any]) -> xr.Dataset:
    """A Dataset from the JSON form."""
    import xarray as xr

    special = {None: math.nan, "inf": math.inf, "-inf": -math.inf}

    def number(x: Any) -> Any:
        if isinstance(x, list):
            return [number(y) for y in x]
        return special[x] if x is None or isinstance(x, str) else float(x)

    made = {
        name: (tuple(entry["dims"]), np.asarray(number(entry["data"]), dtype=np.float64))
        for name, entry in plain["variables"].items()
    }
    attrs = {"model": plain["model"], "params": json.dumps(plain["params"]), "schema": plain["schema"]}
    ds = xr.Dataset({name: value for name, value in made.items() if name != "t"}, attrs=attrs)
    return ds.assign_coords(t=made["t"]) if "t" in made else ds


def target_of(path: str | os.PathLike[str]) -> Path:
    """The file that `save` will write, or why it cannot: to be asked before the work, not after it.

    >>> str(target_of("run.nc"))
    'run.nc'
    """
    target = Path(path)
    if target.suffix != ".nc":
        raise FileError(message("the file of a result", "end in .nc", str(target)))
    if not target.parent.is_dir():
        raise FileError(message("the folder of the file", "exist", str(target.parent)))
    if target.is_dir():
        raise FileError(message(f"{target}", "be a file", "a folder"))
    if not os.access(target.parent, os.W_OK):
        raise FileError(f"The folder {target.parent.resolve()} may not be written to.")
    return target


def save(ds: xr.Dataset, path: str | os.PathLike[str]) -> Path:
    """Write a Dataset as netCDF; the file appears whole or not at all, also after a crash."""
    target = target_of(path)
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    # Made in memory first: on a full disk the HDF5 library ends the process instead of raising an error.
    content = ds.to_netcdf(engine="h5netcdf")
    try:
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except OSError as problem:
        raise FileError(f"{target} could not be written: {problem}") from None
    finally:
        part.unlink(missing_ok=True)
    return target


def load(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read a Dataset written by `save`, whole into memory; nothing in it is executed."""
    import xarray as xr

    if not Path(path).exists():
        raise FileError(f"There is no file {path}.")
    try:
        with xr.open_dataset(path, engine="h5netcdf") as ds:
            made = ds.load()
    except (OSError, ValueError) as problem:
        raise FileError(f"{path} is not a result that Richter can read: {problem}") from None
    if int(made.attrs.get("schema", -1)) != SCHEMA:
        raise FileError(message(f"the schema of {path}", f"be {SCHEMA}", str(made.attrs.get("schema", "none"))))
    return made
