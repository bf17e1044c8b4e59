"""MNIST, Fashion-MNIST and CIFAR-10 from their original files in a folder.

The folder: the argument, else `$RICHTER_DATA`, else the platform's cache folder under `richter/datasets`.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from richter.errors import DataError, message
from richter.tasks.randomness import Rng, count, stream
from richter.tasks.sets import CIFAR10, FASHION_MNIST, MNIST, ImageSet, data_folder
from richter.tasks.task import Task

Folder: TypeAlias = str | os.PathLike[str] | None
Bytes = NDArray[np.uint8]


def mnist(
    folder: Folder = None, *, train: int | None = None, test: int | None = None, rng: Rng = 0, check: bool = True
) -> Task:
    """MNIST: 60,000 and 10,000 handwritten digits, shape (example, 1, 28, 28), float32 in [0, 1].

    Args:
        folder: what holds `mnist/`.
        train: how many training images, drawn at random without repetition; all by default.
        test: how many test images.
        rng: decides which.
        check: compare every file with its published checksum.
    """
    return load(MNIST, folder, train=train, test=test, rng=rng, check=check)


def fashion_mnist(
    folder: Folder = None, *, train: int | None = None, test: int | None = None, rng: Rng = 0, check: bool = True
) -> Task:
    """Fashion-MNIST: 60,000 and 10,000 pieces of clothing; everything else as `mnist`."""
    return load(FASHION_MNIST, folder, train=train, test=test, rng=rng, check=check)


def cifar10(
    folder: Folder = None, *, train: int | None = None, test: int | None = None, rng: Rng = 0, check: bool = True
) -> Task:
    """CIFAR-10 (binary version): 50,000 and 10,000 images, shape (example, 3, 32, 32); else as `mnist`."""
    return load(CIFAR10, folder, train=train, test=test, rng=rng, check=check)


def load(
    which: ImageSet, folder: Folder, *, train: int | None, test: int | None, rng: Rng = 0, check: bool = True
) -> Task:
    """An image set as a task."""
    root = data_folder(folder)
    if which.missing(root):
        raise which.absent(root)
    read = read_records if which.folder == CIFAR10.folder else read_idx_pairs
    (x, y), (x_test, y_test) = read(which, root, check)
    x, y = _some(x, y, train, rng, "train")
    x_test, y_test = _some(x_test, y_test, test, rng, "test")
    return Task(
        inputs=_scaled(x),
        targets=y.astype(np.int64),
        test_inputs=_scaled(x_test),
        test_targets=y_test.astype(np.int64),
        name=which.name,
        kind="classification",
        classes=which.classes,
        says=f"{which.title}, {len(x)} training images",
    )


def read_idx_pairs(which: ImageSet, root: Path, check: bool) -> list[tuple[Bytes, Bytes]]:
    """Images and labels of the training and of the test part, from IDX files."""
    made = []
    for part in ("train", "t10k"):
        names = (f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte")
        images, labels = (idx(which.path(root, name), which.read(root, name, check)) for name in names)
        if images.shape[1:] != which.shape[1:]:
            must = f"hold images of {which.shape[1]} × {which.shape[2]} pixels"
            raise DataError(message(f"{which.path(root, names[0])}", must, f"shape {images.shape}"))
        if labels.shape != images.shape[:1]:
            raise DataError(
                message(f"{which.path(root, names[1])}", f"hold {len(images)} labels", f"shape {labels.shape}")
            )
        _check_labels(which, which.path(root, names[1]), labels)
        made.append((images[:, None], labels))
    return made


def idx(path: Path | None, data: bytes) -> Bytes:
    """The array in an IDX file of unsigned bytes: 0, 0, 8, the number of axes, each length as 4 bytes, the values.

    >>> idx(Path("x"), bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9])).tolist()
    [7, 9]
    """
    if len(data) < 4 or data[:3] != b"\x00\x00\x08":
        raise DataError(message(f"{path}", "be an IDX file of unsigned bytes (begin with 0, 0, 8)", repr(data[:4])))
    axes, start = data[3], 4 + 4 * data[3]
    shape = tuple(int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(axes))
    if len(data) < start or len(data) - start != math.prod(shape):
        must = f"hold {math.prod(shape)} values after its header of {start} bytes (shape {shape})"
        raise DataError(message(f"{path}", must, f"{max(0, len(data) - start)}: it is truncated or damaged"))
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def read_records(which: ImageSet, root: Path, check: bool) -> list[tuple[Bytes, Bytes]]:
    """Images and labels of the training and of the test part, from records of a label and the pixels."""
    size = 1 + math.prod(which.shape)
    parts: dict[bool, list[Bytes]] = {False: [], True: []}
    for name in which.files:
        path, data = which.path(root, name), which.read(root, name, check)
        if not data or len(data) % size:
            must = f"hold whole records of {size} bytes"
            raise DataError(message(f"{path}", must, f"{len(data)} bytes: it is truncated or damaged"))
        records = np.frombuffer(data, np.uint8).reshape(-1, size)
        _check_labels(which, path, records[:, 0])
        parts[name.startswith("test")].append(records)
    made = []
    for test in (False, True):
        records = np.concatenate(parts[test])
        made.append((records[:, 1:].reshape(-1, *which.shape), records[:, 0]))
    return made


def _check_labels(which: ImageSet, path: Path | None, labels: Bytes) -> None:
    last = len(which.classes) - 1
    if labels.size and labels.max() > last:
        raise DataError(message(f"{path}", f"hold labels from 0 to {last}", f"{labels.max()}: it is damaged"))


def _some(x: Bytes, y: Bytes, n: int | None, rng: Rng, part: str) -> tuple[Bytes, Bytes]:
    if n is None:
        return x, y
    rows = stream(rng, f"images {part}").permutation(len(x))[: count(f"`{part}`", n, int(part == "train"), len(x))]
    return x[rows], y[rows]


def _scaled(x: Bytes) -> NDArray[Any]:
    scaled = x.astype(np.float32)
    scaled /= np.float32(255)
    return scaled
