"""The state of one batch of the engine on disk: one file of plain arrays, whole or not at all, never a pickle."""

from __future__ import annotations

import io
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from richter.errors import FileError, ParameterError, message

Array = NDArray[Any]
SCHEMA = 1


def save_state(path: Path, facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write named arrays and what run they belong to."""
    told = np.frombuffer(json.dumps({"schema": SCHEMA, **facts}, sort_keys=True).encode(), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **{"facts": told, **arrays})  # type: ignore[arg-type]
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "wb") as file:
            file.write(buffer.getvalue())
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as problem:
        raise FileError(f"The checkpoint {path} could not be written: {problem.strerror}.") from None
    finally:
        part.unlink(missing_ok=True)


def load_state(path: Path, facts: Mapping[str, Any]) -> dict[str, Array] | None:
    """The arrays of a file of the same run; None if there is no file."""
    if not path.exists():
        return None
    start_over = "Remove it, or pass resume=False to start over."
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:  # its checksums are verified
            arrays = {name: file[name] for name in file.files}
        found = json.loads(arrays.pop("facts").tobytes())
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        raise FileError(message(f"the checkpoint {path}", "be whole", "a damaged one", start_over)) from None
    mine = json.loads(json.dumps({"schema": SCHEMA, **facts}))
    other = [key for key in {**mine, **found} if mine.get(key) != found.get(key)]
    if other:
        got = f"a run that differs in {', '.join(other)}"
        do = "Use another folder, or pass resume=False to start over."
        raise ParameterError(message(f"the checkpoint {path}", "be of the same run", got, do))
    return arrays


def written(function: Callable[..., Any]) -> int:
    """A checksum of what a function does, as far as its own code says.

    >>> written(lambda x: x + 1) == written(lambda x: x + 2)
    False
    """
    code = getattr(function, "__code__", None)
    if code is None:
        return 0
    # Inner functions and sets print differently from one process to the next.
    constants = [value for value in code.co_consts if not isinstance(value, (frozenset, type(code)))]
    return zlib.crc32(code.co_code + repr((constants, code.co_names)).encode())


def checksum(*arrays: Array) -> int:
    """A checksum of types, shapes and bytes.

    >>> checksum(np.zeros(2)) == checksum(np.zeros(3))
    False
    """
    made = 0
    for array in arrays:
        made = zlib.crc32(f"{array.dtype}{array.shape}".encode(), made)
        made = zlib.crc32(np.ascontiguousarray(array).tobytes(), made)
    return made
