"""Finished batches as one Dataset over the grid.

Results of different sizes (a run with more moments in one cell than in another) are filled up to the largest: with
NaN, or with the empty word. Coordinates that differ between cells become variables of the grid, `x_by_cell`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.errors import FileError, message
from richter.sweep.grid import Grid
from richter.sweep.part import Part

if TYPE_CHECKING:
    import xarray as xr


def assemble(grid: Grid, parts: Iterable[Part]) -> xr.Dataset:
    """One Dataset; cells of no part are missing, and `finished` says which are there if any is not."""
    import xarray as xr

    found = sorted(parts, key=lambda part: part.cells)
    seen = np.zeros(grid.size, bool)
    for part in found:
        if seen[list(part.cells)].any():
            raise FileError(f"Cell {part.cells[0]} of the sweep is there twice.")
        seen[list(part.cells)] = True
    ds = xr.Dataset(coords={name: (name, _axis(values)) for name, values in grid.dims.items()})
    if not found:
        return ds.assign(finished=(tuple(grid.dims), seen.reshape(grid.shape)))
    loose = _loose_coords(found)
    rows: dict[str, list[tuple[Part, tuple[str, ...], NDArray[Any]]]] = {}
    for part in found:
        for name, (dims, array) in part.variables.items():
            rows.setdefault(name, []).append((part, dims, array))
        for name in loose & set(part.coords):
            values = part.coords[name]
            spread = np.broadcast_to(values, (len(part.cells), values.size))
            rows.setdefault(f"{name}_by_cell", []).append((part, (name,), spread))
    sizes = _sizes(found)
    for name, pieces in rows.items():
        dims = pieces[0][1]
        for part, other, _ in pieces:
            if other != dims:
                where = f"{dims} in cell {pieces[0][0].cells[0]}, {other} in cell {part.cells[0]}"
                raise FileError(message(f"the dimensions of `{name}`", "be the same in every cell", where))
        inner = tuple(sizes[dim] for dim in dims)
        filled = sum(len(part.cells) for part, _, _ in pieces) < grid.size
        filled |= any(array.shape[1:] != inner for _, _, array in pieces)
        made = _empty((grid.size, *inner), [array.dtype for _, _, array in pieces], filled)
        for part, _, array in pieces:
            for cell, values in zip(part.cells, array, strict=True):
                corner: tuple[int | slice, ...] = (cell, *(slice(size) for size in array.shape[1:]))
                made[corner] = values
        ds[name] = ((*grid.dims, *dims), made.reshape(*grid.shape, *inner))
    for name, values in found[0].coords.items():
        if name not in loose:
            ds = ds.assign_coords({name: values})
    for name, notes in found[0].attrs.items():
        if name in ds.variables:
            ds[name].attrs.update(notes)
    return ds if seen.all() else ds.assign(finished=(tuple(grid.dims), seen.reshape(grid.shape)))


def digest(parts: Iterable[Part]) -> str:
    """A checksum of all numbers in order: equal for two sweeps exactly if every bit of every result is.

    >>> part = Part((0,), {"x": ((), np.array([1.0]))})
    >>> digest([part]) == digest([Part((0,), {"x": ((), np.array([1.0]))})]) != digest([])
    True
    """
    total = hashlib.sha256()
    for part in sorted(parts, key=lambda part: part.cells):
        for name in sorted(part.variables):
            dims, array = part.variables[name]
            little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
            total.update(f"{part.cells} {name} {dims} {array.shape} {little.dtype.str}".encode() + little.tobytes())
        for name in sorted(part.coords):
            total.update(name.encode() + np.ascontiguousarray(part.coords[name]).tobytes())
    return total.hexdigest()


def _axis(values: tuple[Any, ...]) -> NDArray[Any]:
    """A dimension's values; lists become their text, mixed kinds too."""
    array = np.asarray(values) if not any(isinstance(value, tuple) for value in values) else None
    kinds = {str if isinstance(value, str) else float for value in values}
    return np.asarray([str(value) for value in values]) if array is None or len(kinds) > 1 else array


def _sizes(found: list[Part]) -> dict[str, int]:
    """The largest size of every inner dimension."""
    sizes: dict[str, int] = {}
    for part in found:
        for dims, array in part.variables.values():
            for dim, size in zip(dims, array.shape[1:], strict=True):
                sizes[dim] = max(size, sizes.get(dim, 0))
    return sizes


def _loose_coords(found: list[Part]) -> set[str]:
    """Coordinates that are not the same in every part."""
    first: Mapping[str, NDArray[Any]] = found[0].coords
    names = {name for part in found for name in part.coords}
    same = lambda name, part: name in part.coords and np.array_equal(part.coords[name], first[name])
    return {name for name in names if name not in first or not all(same(name, part) for part in found)}


def _empty(shape: tuple[int, ...], kinds: list[np.dtype[Any]], filled: bool) -> NDArray[Any]:
    words = {kind.kind == "U" for kind in kinds}
    if len(words) > 1:
        raise FileError(message("a variable of the sweep", "be words in every cell or in none", "both"))
    if words == {True}:
        return np.full(shape, "", dtype=f"<U{max(kind.itemsize // 4 for kind in kinds)}")
    kind = np.result_type(*kinds)
    if not filled:
        return np.empty(shape, kind)
    return np.full(shape, np.nan, kind if kind.kind == "f" else np.float64)
