"""A memory budget, and how many examples and outputs fit into it at once."""

from __future__ import annotations

import re
from dataclasses import dataclass

from richter.errors import ParameterError, message

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


@dataclass(frozen=True)
class Sizes:
    """Bytes that one example needs: its pass, its data in factors, and its gradients per output."""

    graph: float
    data: float
    gradients: float


@dataclass(frozen=True)
class Split:
    """Examples in one block, examples in one pass, outputs at once."""

    block: int
    batch: int
    outputs: int


def split(sizes: Sizes, examples: int, outputs: int, budget: int, sets: int = 1) -> Split:
    """Blocks that fit: two blocks of gradients are held at a time, and one pass is under way.

    `sets`: how many sets of outputs of one block are held together if not all fit.

    >>> split(Sizes(10, 10, 10), examples=100, outputs=4, budget=10**9)
    Split(block=100, batch=100, outputs=4)
    """
    held, passing = 0.5 * budget, 0.35 * budget
    whole = sizes.data + outputs * sizes.gradients
    batch = max(1, min(examples, int(passing / sizes.graph)))
    if examples * whole <= held:
        return Split(examples, batch, outputs)
    block = int(held / (2 * whole))
    if block >= min(examples, max(8, outputs // 4)):
        return Split(block, min(batch, block), outputs)
    # Few outputs at a time; the pass stays in memory between them.
    for at_once in (outputs // 2**k for k in range(1, 40)):
        at_once = max(1, at_once)
        each = sizes.graph + sizes.data + sets * at_once * sizes.gradients
        if examples * each <= 0.85 * budget:
            return Split(examples, examples, at_once)
        block = max(1, int(0.85 * budget / (2 * each)))
        if block >= min(examples, 8) or at_once == 1:
            return Split(block, block, at_once)
    raise AssertionError
