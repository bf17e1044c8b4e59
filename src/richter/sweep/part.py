"""What one batch gives, as labelled arrays, and as one checksummed file.

The file: a line with the SHA-256 of all that follows, a line of JSON that describes the arrays, then their bytes.
Nothing in it is executed when it is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.errors import FileError, ParameterError, message, show

if TYPE_CHECKING:
    import xarray as xr

MAGIC = b"richter-cells 1 "
KINDS = "biufU"  # truth values, whole numbers, floats, words: what every file format of a result can hold
Labelled = tuple[tuple[str, ...], NDArray[Any]]


@dataclass(frozen=True)
class Part:
    """The results of some cells: every variable has the cells as its first axis; `dims` are those that follow."""

    cells: tuple[int, ...]
    variables: Mapping[str, Labelled]
    coords: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    attrs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    note: Mapping[str, Any] = field(default_factory=dict)


def gather(result: Any, cells: Sequence[int], together: bool, taken: Sequence[str]) -> Part:
    """A function's result as a `Part`; a name that is also a dimension of the grid (`taken`) gets `_of_cell`.

    A result is a mapping from names to numbers, arrays or (dims, array), or a Dataset, or one number. Of a function
    of a whole batch every array has the cells as its first axis (a Dataset: as its dimension `cell`).
    """
    coords: dict[str, NDArray[Any]] = {}
    attrs: dict[str, dict[str, Any]] = {}
    if hasattr(result, "data_vars"):
        given, coords, attrs = _of_dataset(result, together)
    elif isinstance(result, Mapping):
        given = dict(result)
    else:
        given = {"value": result}
    if not given:
        raise ParameterError(message("the result of a cell", "hold at least one variable", "none"))
    rename = lambda name: f"{name}_of_cell" if name in taken else name
    made: dict[str, Labelled] = {}
    sizes: dict[str, int] = {}
    for name, value in given.items():
        array, dims = _labelled(str(name), value, len(cells) if together else None)
        for dim, size in zip(dims, array.shape[1:], strict=True):
            if sizes.setdefault(dim, size) != size:
                raise ParameterError(
                    message(f"dimension `{dim}`", "have one size in a result", f"{sizes[dim]}, {size}")
                )
        made[rename(str(name))] = (tuple(rename(dim) for dim in dims), array)
    kept = {rename(name): np.asarray(values) for name, values in coords.items() if name in sizes}
    return Part(tuple(cells), made, kept, {rename(name): notes for name, notes in attrs.items()})


def _of_dataset(ds: xr.Dataset, together: bool) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    plain = lambda notes: {str(k): v for k, v in notes.items() if isinstance(v, (str, int, float))}
    given = {}
    loose = {name: c.variable for name, c in ds.coords.items() if c.dims != (name,)}
    for name, variable in [*ds.data_vars.items(), *loose.items()]:
        dims = tuple(map(str, variable.dims))
        if together:
            if dims[:1] != ("cell",):
                raise ParameterError(message(f"`{name}`", "have `cell` as its first dimension", show(dims)))
            dims = dims[1:]
        given[str(name)] = (dims, variable.values)
    coords = {str(name): c.values for name, c in ds.coords.items() if c.dims == (name,) and name != "cell"}
    attrs = {str(name): plain(variable.attrs) for name, variable in ds.variables.items() if variable.attrs}
    return given, coords, attrs


def _labelled(name: str, value: Any, cells: int | None) -> tuple[NDArray[Any], tuple[str, ...]]:
    named = isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], (tuple, list, str))
    dims = ((value[0],) if isinstance(value[0], str) else tuple(value[0])) if named else None
    array = np.asarray(value[1] if named else value)
    if array.dtype.kind == "O" and all(isinstance(each, str) for each in array.ravel()):
        array = array.astype(str)
    if array.dtype.kind not in KINDS:
        must = "be real numbers, truth values or words"
        raise ParameterError(message(f"`{name}` of a cell", must, f"an array of {array.dtype}"))
    if cells is None:
        array = array[None]
    elif array.ndim == 0 or array.shape[0] != cells:
        must = f"have the {cells} cells of the batch as its first axis"
        raise ParameterError(message(f"`{name}`", must, f"shape {array.shape}"))
    if dims is None:
        dims = tuple(f"{name}_{i}" for i in range(array.ndim - 1))
    if len(dims) != array.ndim - 1:
        raise ParameterError(message(f"the dims of `{name}`", f"be {array.ndim - 1} names", show(dims)))
    return array, tuple(map(str, dims))


def encode(part: Part) -> bytes:
    """The content of the file."""
    arrays: list[NDArray[Any]] = []
    entries = []
    for role, rows in (("variable", part.variables), ("coord", {n: ((n,), a) for n, a in part.coords.items()})):
        for name, (dims, array) in rows.items():
            fixed = np.ascontiguousarray(array)
            fixed = fixed.astype(fixed.dtype.newbyteorder("<"), copy=False)
            arrays.append(fixed)
            entries.append([role, name, list(dims), fixed.dtype.str, list(fixed.shape)])
    head = {"cells": list(part.cells), "arrays": entries, "attrs": part.attrs, "note": part.note}
    body = json.dumps(head).encode() + b"\n" + b"".join(array.tobytes() for array in arrays)
    return MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def decode(content: bytes, what: str) -> Part:
    """The part in a file's content, or an error that says that `what` is damaged."""
    first, _, body = content.partition(b"\n")
    if not first.startswith(MAGIC) or hashlib.sha256(body).hexdigest().encode() != first[len(MAGIC) :]:
        raise FileError(f"{what} is damaged: its checksum does not fit its content.")
    line, _, data = body.partition(b"\n")
    head = json.loads(line)
    at = 0
    variables: dict[str, Labelled] = {}
    coords: dict[str, NDArray[Any]] = {}
    for role, name, dims, kind, shape in head["arrays"]:
        array = np.frombuffer(data, np.dtype(kind), int(np.prod(shape)), at).reshape(shape)
        at += array.nbytes
        if role == "coord":
            coords[name] = array
        else:
            variables[name] = (tuple(dims), array)
    return Part(tuple(head["cells"]), variables, coords, head["attrs"], head["note"])
