"""1797 real handwritten digits of 8 × 8 pixels, shipped with the package."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from richter.tasks.randomness import Rng, count, stream
from richter.tasks.task import Task

COUNT = 1797
CLASSES = tuple("0123456789")


def read() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The stored images, (1797, 8, 8) with pixels 0 to 16, and their labels, in the original order.

    >>> images, labels = read()
    >>> images.shape, labels[:3].tolist()
    ((1797, 8, 8), [0, 1, 2])
    """
    with (files("richter.tasks") / "digits.npz").open("rb") as file, np.load(file, allow_pickle=False) as stored:
        images: Any = stored["images"]
        return images, stored["labels"]


def digits(*, test: int = 297, rng: Rng = 0) -> Task:
    """The digits as a task: pixels scaled to [0, 1], shape (example, 1, 8, 8), a random split.

    Args:
        test: how many of the 1797 images are kept for the test.
        rng: decides which.

    >>> task = digits()
    >>> task.inputs.shape, task.test_inputs.shape
    ((1500, 1, 8, 8), (297, 1, 8, 8))
    """
    images, labels = read()
    order = stream(rng, "digits").permutation(COUNT)
    cut = COUNT - count("`test`", test, 0, COUNT - 1)
    x = (images[order] / np.float32(16))[:, None].astype(np.float32)
    y = labels[order].astype(np.int64)
    return Task(
        inputs=x[:cut],
        targets=y[:cut],
        test_inputs=x[cut:],
        test_targets=y[cut:],
        name="digits",
        kind="classification",
        classes=CLASSES,
        says="handwritten digits, 8 × 8 pixels (UCI, Alpaydin and Kaynak 1998)",
    )
