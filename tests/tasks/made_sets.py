"""Small sets in the original formats, for the loaders and the fetcher."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from richter.tasks.sets import CIFAR10, MNIST, ImageSet, md5

Files = dict[str, bytes]


def idx_bytes(array: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    return header + array.tobytes()


def small_mnist(seed: int) -> tuple[ImageSet, Files]:
    """MNIST's format with 12 and 5 images of 4 × 3 pixels."""
    rng = np.random.default_rng([seed, 3])
    files: Files = {}
    for part, n in (("train", 12), ("t10k", 5)):
        files[f"{part}-images-idx3-ubyte"] = idx_bytes(rng.integers(256, size=(n, 4, 3), dtype=np.uint8))
        files[f"{part}-labels-idx1-ubyte"] = idx_bytes(rng.integers(10, size=n, dtype=np.uint8))
    return as_set(MNIST, files, (1, 4, 3), {f"{name}.gz": gzip.compress(data) for name, data in files.items()})


def small_cifar(seed: int, extra: Files | None = None) -> tuple[ImageSet, Files]:
    """CIFAR-10's format with 6 records in each file, images of 2 × 2 pixels; `extra` members in the archive."""
    rng = np.random.default_rng([seed, 4])
    files: Files = {}
    for name in CIFAR10.files:
        records = rng.integers(256, size=(6, 13), dtype=np.uint8)
        records[:, 0] %= 10
        files[name] = records.tobytes()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, data in {
            **(extra or {}),
            **{f"{CIFAR10.folder}/{name}": data for name, data in files.items()},
        }.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return as_set(CIFAR10, files, (3, 2, 2), {"cifar-10-binary.tar.gz": packed.getvalue()})


def as_set(
    like: ImageSet, files: Mapping[str, bytes], shape: tuple[int, int, int], archives: Mapping[str, bytes]
) -> tuple[ImageSet, Files]:
    """The set with these files, and what a server of it holds."""
    sums = {name: md5(data) for name, data in files.items()}
    packed = {name: md5(data) for name, data in archives.items()}
    return replace(like, shape=shape, files=sums, archives=packed), {**files, **archives}


def write(which: ImageSet, files: Files, root: Path, packed: bool = False) -> None:
    """Put the set's files in their folder, gzipped if wanted."""
    folder = root / which.folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in which.files:
        path = folder / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(files[name]) if packed else files[name])
