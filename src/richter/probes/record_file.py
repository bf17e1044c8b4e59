"""A record on disk: the readings as netCDF, and beside them the origin that they are compared with.

Written with h5py directly: a record is written many times along a run, and the libraries that label arrays take
ten times as long. A file appears whole or not at all.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from richter.errors import FileError, message
from richter.probes.probe import Snapshot
from richter.probes.rows import Labelled, Table
from richter.schema import SCHEMA

BARE = "This is a netCDF dimension but not a netCDF variable. %10d"
START_OVER = "Use another file, or pass resume=False to start over."


def check_place(path: Path) -> None:
    """A record has a place that can be written."""
    if path.suffix != ".nc":
        raise FileError(message("the file of a record", "end in .nc", str(path)))
    if not path.parent.is_dir():
        raise FileError(message("the folder of the file", "exist", str(path.parent)))


def origin_path(path: Path) -> Path:
    """Where the origin of a record is kept.

    >>> origin_path(Path("run.nc")).name
    'run.origin.npz'
    """
    return path.with_suffix(".origin.npz")


def write_table(table: Table, path: Path) -> None:
    """Write the readings."""
    import h5py  # type: ignore[import-untyped]

    def fill(part: Path) -> None:
        with h5py.File(part, "w", track_order=True) as file:
            scales: dict[str, Any] = {}
            arrays = {**table.coords, **table.variables}
            sizes = {dim: size for x in arrays.values() for dim, size in zip(x.dims, x.values.shape, strict=True)}
            for dim, size in sizes.items():
                if dim not in table.coords:
                    scales[dim] = file.create_dataset(dim, shape=(size,), dtype=">f4")
                    scales[dim].make_scale(BARE % size)
            for name, x in arrays.items():
                text = x.values.dtype.kind == "U"
                data = x.values.astype(object) if text else x.values
                made = file.create_dataset(name, data=data, dtype=h5py.string_dtype() if text else None)
                if x.dims == (name,):
                    made.make_scale(name)
                    scales[name] = made
                made.attrs.update(x.attrs)
            for name, x in arrays.items():
                for axis, dim in enumerate(x.dims):
                    if dim != name:
                        file[name].dims[axis].attach_scale(scales[dim])
            beside = [name for name, x in table.coords.items() if x.dims != (name,)]
            file.attrs.update({**table.attrs, "coordinates": " ".join(beside)})

    _replace(path, fill)


def read_table(path: Path) -> Table:
    """Read what `write_table` wrote; nothing in it is executed."""
    import h5py

    try:
        with h5py.File(path, "r") as file:
            attrs = {name: _plain(value) for name, value in file.attrs.items() if not name.startswith("_")}
            beside = str(attrs.pop("coordinates", "")).split()
            coords: dict[str, Labelled] = {}
            variables: dict[str, Labelled] = {}
            for name, x in file.items():
                if _text(x.attrs.get("NAME", b"")).startswith(BARE[:20]):
                    continue
                scale = x.is_scale
                dims = (name,) if scale else tuple(_text(d[0].name).strip("/") for d in x.dims)
                values = x.asstr()[:].astype(str) if h5py.check_string_dtype(x.dtype) else x[()]
                hidden = {"CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST"}
                said = {key: _plain(v) for key, v in x.attrs.items() if key not in hidden and not key.startswith("_")}
                (coords if scale or name in beside else variables)[name] = Labelled(dims, values, said)
    except (OSError, KeyError, IndexError, RuntimeError) as problem:
        raise FileError(f"{path} is not a record that Richter can take up: {problem}. {START_OVER}") from None
    if attrs.get("schema") != SCHEMA or "origin" not in attrs or "step" not in coords:
        raise FileError(message(str(path), "be the record of a run", "another file", START_OVER))
    return Table(coords, variables, attrs)


def write_origin(facts: Mapping[str, Any], origin: Mapping[str, Snapshot], path: Path) -> int:
    """Write the origin beside the record and return its checksum, by which the record knows it."""
    index: dict[str, Any] = {"schema": SCHEMA, "facts": dict(facts), "probes": {}}
    arrays: dict[str, Any] = {}
    crc = 0
    for name, snapshot in origin.items():
        entry: dict[str, Any] = {"notes": dict(snapshot.notes), "arrays": {}, "coords": {}}
        for key, value in snapshot.arrays.items():
            entry["arrays"][key] = place = f"a{len(arrays)}"
            arrays[place] = value
            crc = zlib.crc32(np.ascontiguousarray(value).tobytes(), crc)
        for key, (dim, value) in snapshot.coords.items():
            entry["coords"][key] = [dim, place := f"a{len(arrays)}"]
            arrays[place] = value
        index["probes"][name] = entry
    text = json.dumps(index, ensure_ascii=False)
    arrays["index"] = np.array(text)
    crc = zlib.crc32(text.encode(), crc)

    def fill(part: Path) -> None:
        with open(part, "wb") as file:
            np.savez(file, **arrays)

    _replace(origin_path(path), fill)
    return crc


def read_origin(path: Path, crc: int) -> tuple[dict[str, Any], dict[str, Snapshot]]:
    """The facts and the snapshots that belong to a record."""
    place = origin_path(path)
    found = 0
    try:
        with open(place, "rb") as handle, np.load(handle, allow_pickle=False) as file:
            text = str(file["index"])
            index, origin = json.loads(text), {}
            for name, entry in index["probes"].items():
                arrays = {key: file[at] for key, at in entry["arrays"].items()}
                for value in arrays.values():
                    found = zlib.crc32(np.ascontiguousarray(value).tobytes(), found)
                coords = {key: (dim, file[at]) for key, (dim, at) in entry["coords"].items()}
                origin[name] = Snapshot(arrays, entry["notes"], coords)
            found = zlib.crc32(text.encode(), found)
    except (OSError, KeyError, ValueError, EOFError, zipfile.BadZipFile) as problem:
        raise FileError(message(str(place), "be the origin of the record", f"{problem}", START_OVER)) from None
    if found != crc:
        raise FileError(message(str(place), f"be the origin of {path.name}", "that of another run", START_OVER))
    return index["facts"], origin


def _replace(path: Path, fill: Callable[[Path], None]) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        fill(part)
        os.replace(part, path)
    except OSError as problem:
        raise FileError(f"{path} could not be written: {problem}") from None
    finally:
        part.unlink(missing_ok=True)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, (np.generic, np.ndarray)) and np.size(value) == 1 else value
