"""A grid: named dimensions with their values; its cells in order and the batches in which they are computed.

Which cells stand in one batch is decided by the grid alone, never by the number of workers or by what is already
done, so that a number does not depend on who computed it beside which neighbour.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from richter.errors import ParameterError, UnknownNameError, message, nearest, show

Value: TypeAlias = "bool | int | float | str | tuple[Value, ...]"
BATCH = 32  # cells computed together at most; beyond this the activations of small networks leave the cache
LARGEST = 10_000_000  # cells


@dataclass(frozen=True, init=False)
class Grid:
    """Every combination of the values of named dimensions; the last dimension runs fastest.

    >>> grid = Grid(tau=[0.1, 1.0], seed=range(3))
    >>> grid.shape, grid.cell(4)
    ((2, 3), {'tau': 1.0, 'seed': 1})
    """

    dims: Mapping[str, tuple[Value, ...]]

    def __init__(self, dims: Mapping[str, Iterable[Any]] | None = None, **more: Iterable[Any]) -> None:
        """Give dimensions as a mapping, as keywords, or both."""
        made: dict[str, tuple[Value, ...]] = {}
        for name, values in {**(dims or {}), **more}.items():
            if not (isinstance(name, str) and name.isidentifier()):
                raise ParameterError(message("a dimension of a grid", "be a name such as tau", show(name)))
            if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
                raise ParameterError(message(f"dimension `{name}`", "be a list of values", show(values)))
            row = tuple(_plain(name, value) for value in values)
            if not row:
                raise ParameterError(message(f"dimension `{name}`", "have at least one value", "none"))
            if len(set(row)) < len(row):
                raise ParameterError(message(f"the values of dimension `{name}`", "differ", show(list(row))))
            made[name] = row
        if not made:
            raise ParameterError(message("a grid", "have at least one dimension", "none", "Give one: tau=[0.1, 1]."))
        if math.prod(map(len, made.values())) > LARGEST:
            got = f"{math.prod(map(len, made.values()))}"
            raise ParameterError(message("the cells of a grid", f"be at most {LARGEST}", got))
        object.__setattr__(self, "dims", made)

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Grid:
        """Dimensions from command-line texts.

        >>> Grid.parse(["tau=1e-1:1e1:3", "seed=0..2", "kind=a,b"]).dims
        {'tau': (0.1, 1.0, 10.0), 'seed': (0, 1, 2), 'kind': ('a', 'b')}
        """
        made: dict[str, list[Any]] = {}
        for text in texts:
            name, equals, values = text.partition("=")
            name = name.strip().replace("-", "_")
            if not equals or not name or not values.strip():
                raise ParameterError(message("`--grid`", "be name=v1,v2,…", text, "For example --grid tau=0.1,1,10."))
            if name in made:
                raise ParameterError(message("`--grid`", f"name `{name}` once", "it twice"))
            made[name] = _read(text, values.strip())
        return cls(made)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of values along each dimension."""
        return tuple(len(values) for values in self.dims.values())

    @property
    def size(self) -> int:
        """The number of cells."""
        return math.prod(self.shape)

    def cell(self, index: int) -> dict[str, Value]:
        """The values of one cell by its number."""
        made: dict[str, Value] = {}
        for name, values in reversed(list(self.dims.items())):
            index, at = divmod(index, len(values))
            made[name] = values[at]
        return dict(reversed(made.items()))

    def __iter__(self) -> Iterator[dict[str, Value]]:
        names = list(self.dims)
        return (dict(zip(names, values, strict=True)) for values in itertools.product(*self.dims.values()))

    def __len__(self) -> int:
        return self.size

    def batches(self, at_most: int = BATCH, apart: Sequence[str] = ()) -> list[tuple[int, ...]]:
        """The cells by number in batches of `at_most`; no batch has two values of a dimension that is kept `apart`.

        >>> Grid(width=[10, 20], seed=range(3)).batches(2, apart=["width"])
        [(0, 1), (2,), (3, 4), (5,)]
        """
        for name in apart:
            if name not in self.dims:
                raise UnknownNameError(f"The grid has no dimension `{name}`. {nearest(name, list(self.dims))}")
        if isinstance(at_most, bool) or not isinstance(at_most, int) or at_most < 1:
            raise ParameterError(message("the size of a batch", "be a whole number ≥ 1", at_most))
        groups: dict[tuple[int, ...], list[int]] = {}
        position = [list(self.dims).index(name) for name in apart]
        for number, places in enumerate(itertools.product(*map(range, self.shape))):
            groups.setdefault(tuple(places[i] for i in position), []).append(number)
        return [
            tuple(group[i : i + at_most])
            for group in groups.values()
            for i in range(0, len(group), at_most)
        ]  # fmt: skip

    def plain(self) -> dict[str, list[Any]]:
        """The dimensions as JSON holds them."""
        return {name: json.loads(json.dumps(values)) for name, values in self.dims.items()}


def _plain(name: str, value: Any) -> Value:
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()  # a numpy scalar
    if isinstance(value, (list, tuple)):
        return tuple(_plain(name, each) for each in value)
    if not isinstance(value, (bool, int, float, str)) or (isinstance(value, float) and not math.isfinite(value)):
        must = "be a finite number, a word or a list of them"
        raise ParameterError(message(f"a value of dimension `{name}`", must, show(value)))
    return value


def _read(text: str, values: str) -> list[Any]:
    """`[…]` as JSON, `first..last` whole numbers, `first:last:count` by a constant factor, else words and numbers."""
    if values.startswith("["):
        try:
            return list(json.loads(values))
        except json.JSONDecodeError as problem:
            raise ParameterError(message("a list in `--grid`", "be JSON", f"{text} ({problem.msg})")) from None
    whole = re.fullmatch(r"(-?\d+)\.\.(-?\d+)", values)
    if whole:
        first, last = int(whole[1]), int(whole[2])
        if last < first:
            raise ParameterError(message("a range in `--grid`", "rise: first..last", text))
        return list(range(first, last + 1))
    if values.count(":") == 2:
        import numpy as np

        try:
            low, high, count = values.split(":")
            if not (0 < float(low) < float(high) < math.inf and 2 <= int(count) <= LARGEST):
                raise ValueError
        except ValueError:
            must = "be first:last:count with 0 < first < last and count ≥ 2"
            raise ParameterError(message("a range in `--grid`", must, text)) from None
        return [float(x) for x in np.geomspace(float(low), float(high), int(count))]
    return [_word(word.strip()) for word in values.split(",") if word.strip()]


def _word(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
