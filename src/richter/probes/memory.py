"""A memory budget, and how many examples and outputs fit into it at once."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from richter.errors import ParameterError, message
from richter.probes.observe import torch_library

if TYPE_CHECKING:
    from torch import Tensor

LARGE = 2**20  # numbers from which room comes from numpy
PASSING, HELD, COMING = 0.4, 0.4, 0.15  # shares of the budget; what is left is for products
TOGETHER = 8  # outputs that should be multiplied together, or products are small
UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def bytes_of(memory: int | float | str) -> int:
    """A budget in bytes, from a number or a text.

    >>> bytes_of("1.5 GiB"), bytes_of(1000)
    (1610612736, 1000)
    """
    found = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([a-zA-Z]*)\s*", str(memory))
    try:
        size = float(found[1]) * UNITS[found[2].upper()] if found else 0.0
    except (KeyError, ValueError):
        size = 0.0
    if not 1 <= size < 2**60:
        raise ParameterError(message("`memory`", 'be bytes or a text such as "2 GiB"', memory))
    return int(size)


def empty(shape: Sequence[int], like: Tensor) -> Tensor:
    """Room on a tensor's device for numbers of its type, or of single precision if that is less precise.

    Numpy asks for large pages, which the system hands out several times faster than as many small ones.
    """
    torch = torch_library("The kernel")
    plain = {torch.float64: np.float64, torch.float32: np.float32}
    dtype = like.dtype if like.element_size() >= 4 else torch.float32
    if like.device.type == "cpu" and dtype in plain and math.prod(shape) >= LARGE:
        return torch.from_numpy(np.empty(tuple(shape), plain[dtype]))
    return torch.empty(tuple(shape), dtype=dtype, device=like.device)


def alone(x: Tensor) -> bool:
    """Whether numpy may multiply: on one thread it is faster, but on more its threads and torch's keep each other."""
    torch = torch_library("The kernel")
    return bool(x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64) and torch.get_num_threads() == 1)


@dataclass(frozen=True)
class Sizes:
    """Bytes of one example: its pass and its data in factors; per output its gradients, and δ to be multiplied."""

    graph: float
    data: float
    gradients: float
    waiting: float = 0.0


@dataclass(frozen=True)
class Split:
    """How a kernel is cut: examples whose gradients are held, and how many come by at a time to meet them; examples in
    one pass, outputs whose δ wait together, and outputs at once.
    """

    block: int
    chunk: int
    batch: int
    waiting: int
    outputs: int
    written: tuple[bool, ...] = field(default=(), repr=False)  # which groups of parameters are written out


def split(sizes: Sizes, examples: int, outputs: int, budget: int, sets: int = 1) -> Split:
    """Blocks that fit beside one pass that is under way.

    `sets`: how many sets of outputs of one block are held together if not all fit.

    >>> split(Sizes(10, 10, 10), examples=100, outputs=4, budget=10**9)
    Split(block=100, chunk=100, batch=100, waiting=4, outputs=4)
    >>> split(Sizes(10, 10, 10), examples=100, outputs=4, budget=4000)
    Split(block=32, chunk=12, batch=100, waiting=4, outputs=4)
    """
    passing, held, coming = PASSING * budget, HELD * budget, COMING * budget
    few, whole = min(outputs, TOGETHER), sizes.data + outputs * sizes.gradients
    batch = _between(1, passing / (sizes.graph + few * sizes.waiting), examples)
    room = passing / batch - sizes.graph
    waiting = _between(1, room / sizes.waiting, outputs) if sizes.waiting else outputs
    waiting = -(-outputs // -(-outputs // waiting))  # in parts of one size
    if examples * whole <= held + coming:
        return Split(examples, examples, batch, waiting, outputs)
    chunk = _between(1, coming / whole, examples)
    block = _between(1, (held + coming) / whole - chunk, examples)
    if block >= min(examples, max(4, outputs // 4)):
        return Split(block, chunk, batch, waiting, outputs)
    # Few outputs at a time; the pass stays in memory between them.
    for at_once in (outputs // 2**k for k in range(1, 40)):
        at_once = max(1, at_once)
        each = sizes.graph + sizes.data + at_once * (sets * sizes.gradients + sizes.waiting)
        if examples * each <= 0.85 * budget:
            return Split(examples, examples, examples, at_once, at_once)
        block = max(1, int(0.85 * budget / (2 * each)))
        if block >= min(examples, 8) or at_once == 1:
            return Split(block, block, block, at_once, at_once)
    raise AssertionError


def _between(low: int, value: float, high: int) -> int:
    return max(low, min(int(value), high))
