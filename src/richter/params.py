"""One declaration per parameter: validation, command-line option, JSON schema and documentation row.

A parameter is an array with *core* dimensions (none for a number, `("input",)` for a vector). Any dimension in
front of them is a batch dimension and broadcasts with the other parameters'.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, UnknownNameError, message, nearest, show

Floats = NDArray[np.float64]
Given: TypeAlias = Any  # a number, list or array when given, a float64 array once validated
LARGEST = 1e30  # what the theories make of four such numbers still fits into a double
SMALLEST = 1e-30


@dataclass(frozen=True)
class Param:
    """What is known about a parameter: the one source for every use of it."""

    says: str
    symbol: str = ""
    dims: tuple[str, ...] = ()
    low: float | None = None
    open_low: bool = False
    nonzero: bool = False
    advice: str = ""
    required: bool = True
    default: float | None = None
    same_as: str = ""
    identity: bool = False  # a number stands for that multiple of the identity

    @property
    def default_text(self) -> str:
        """The default in words, for tables."""
        if self.required:
            return "required"
        return f"as {self.same_as}" if self.default is None else f"{self.default:g}"

    @property
    def bounds(self) -> str:
        """The constraint in words, for messages and documentation."""
        if self.low is not None:
            return f"be {self.condition}"
        return "not be 0" if self.nonzero else "be a finite number"

    @property
    def condition(self) -> str:
        """The constraint as a formula, for tables: empty where there is none."""
        if self.low is not None:
            return f"{'>' if self.open_low else '≥'} {self.low:g}"
        return "≠ 0" if self.nonzero else ""

    @property
    def shape(self) -> str:
        """The core shape in words."""
        listed = f"({', '.join(self.dims)})" if self.dims else "number"
        return f"{listed}, or a multiple of the identity" if self.identity else listed


def param(
    says: str,
    *,
    symbol: str = "",
    dims: tuple[str, ...] = (),
    default: float | None = None,
    low: float | None = None,
    open_low: bool = False,
    nonzero: bool = False,
    advice: str = "",
    same_as: str = "",
    identity: bool = False,
) -> Any:
    """Declare a parameter of a theory; it is required unless it has a `default` or is the `same_as` another."""
    required = default is None and not same_as
    declared = Param(says, symbol, dims, low, open_low, nonzero, advice, required, default, same_as, identity)
    metadata = {"param": declared}
    if same_as:
        return dataclasses.field(default=None, metadata=metadata)
    if default is None:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def declared(owner: Any) -> dict[str, Param]:
    """The declared parameters of a class or instance, in order."""
    return {f.name: f.metadata["param"] for f in dataclasses.fields(owner) if "param" in f.metadata}


@dataclass(frozen=True)
class Resolved:
    """Validated parameters: arrays of shape (*batch, *core), the common batch shape, the core sizes."""

    values: dict[str, Floats]
    batch: tuple[int, ...]
    sizes: dict[str, int]


def numbers(what: str, value: object, advice: str = "") -> Floats:
    """`value` as a float64 array of finite numbers, or one clear line."""
    try:
        raw = np.asarray(value)
        if raw.dtype == object and raw.size and all(type(x) is int for x in raw.ravel()):
            raw = raw.astype(np.float64)  # integers beyond 64 bits
        if raw.dtype.kind not in "fiu":
            raise TypeError
        array = raw.astype(np.float64)
    except OverflowError:
        raise ParameterError(
            message(
                what, f"be at most {LARGEST:g} in magnitude", "an integer beyond every float", "Rescale the problem."
            )
        ) from None
    except (TypeError, ValueError):
        raise ParameterError(
            message(what, "be a number or a rectangular array of numbers", show(value), advice)
        ) from None
    if array.size == 0:
        raise ParameterError(message(what, "not be empty", f"shape {array.shape}", advice))
    if not np.isfinite(array).all():
        bad = array[~np.isfinite(array)].flat[0]
        raise ParameterError(message(what, "be finite", float(bad), advice))
    if np.abs(array).max() > LARGEST:
        raise ParameterError(
            message(
                what,
                f"be at most {LARGEST:g} in magnitude",
                float(np.abs(array).max()),
                "Rescale the problem.",
            )
        )
    return array


def resolve(owner: str, params: Mapping[str, Param], given: Mapping[str, object]) -> Resolved:
    """Check `given` against the declarations and broadcast it.

    >>> resolve("T", {"a": Param("x", dims=("mode",)), "b": Param("y")}, {"a": [1, 2], "b": [1, 2, 3]}).batch
    (3,)
    """
    values: dict[str, Floats] = {}
    sizes: dict[str, tuple[int, str]] = {}
    for name, p in params.items():
        what = f"`{name}` of {owner}"
        value = given[p.same_as] if p.same_as and given[name] is None else given[name]
        array = numbers(what, value, p.advice)
        _check_bounds(what, p, array)
        _check_smallness(what, p, array)
        if p.dims and 0 < array.ndim < len(p.dims):
            raise ParameterError(message(what, f"have the dimensions {p.shape}", f"shape {array.shape}", p.advice))
        if p.dims and array.ndim:
            for dim, size in zip(p.dims, array.shape[-len(p.dims) :], strict=True):
                first = sizes.setdefault(dim, (size, name))
                if first[0] != size:
                    must = f"have {first[0]} entries along {dim}, as `{first[1]}` has"
                    raise ParameterError(message(what, must, f"{size} (shape {array.shape})"))
        values[name] = array
    lengths = {dim: size for dim, (size, _) in sizes.items()}
    for name, p in params.items():
        if p.dims and values[name].ndim == 0:
            if p.identity:
                lengths.setdefault(p.dims[1], lengths.setdefault(p.dims[0], 1))
            core = tuple(lengths.setdefault(dim, 1) for dim in p.dims)
            values[name] = np.eye(core[0]) * values[name] if p.identity else np.full(core, values[name].item())
    fronts = {name: v.shape[: v.ndim - len(params[name].dims)] for name, v in values.items()}
    try:
        batch = np.broadcast_shapes(*fronts.values())
    except ValueError:
        shapes = ", ".join(f"{name} {front}" for name, front in fronts.items() if front)
        raise ParameterError(
            message(f"the batch dimensions of {owner}", "broadcast against each other", shapes)
        ) from None
    return Resolved(values, batch, lengths)


def _check_bounds(what: str, p: Param, array: Floats) -> None:
    wrong = np.zeros(array.shape, bool)
    if p.low is not None:
        wrong |= (array <= p.low) if p.open_low else (array < p.low)
    if p.nonzero:
        wrong |= array == 0
    if wrong.any():
        raise ParameterError(message(what, p.bounds, float(array[wrong].flat[0]), p.advice))


def _check_smallness(what: str, p: Param, array: Floats) -> None:
    own = tuple(range(max(0, array.ndim - len(p.dims)), array.ndim))
    peak = np.abs(array).max(axis=own)
    tiny = (peak > 0) & (peak < SMALLEST)
    if tiny.any():
        must = f"be 0 or at least {SMALLEST:g} in magnitude"
        raise ParameterError(message(what, must, float(peak[tiny].flat[0]), "Rescale the problem."))


def check_names(owner: str, params: Mapping[str, Param], given: Mapping[str, object]) -> None:
    """Every given name is declared and every required one is given."""
    for name in given:
        if name not in params:
            raise UnknownNameError(f"{owner} has no parameter `{name}`. {nearest(name, list(params))}")
    missing = [name for name, p in params.items() if p.required and name not in given]
    if missing:
        listed = ", ".join(f"`{name}` {params[name].shape}" for name in missing)
        raise ParameterError(message(f"{owner}", f"be given {listed}", f"{', '.join(given) or 'nothing'}"))


def parse(owner: str, params: Mapping[str, Param], texts: Mapping[str, str]) -> dict[str, object]:
    """Parameters from command-line texts: numbers or JSON arrays.

    >>> parse("T", {"a": Param("x", dims=("mode",))}, {"a": "[1, 2]"})
    {'a': [1, 2]}
    """
    made: dict[str, object] = {}
    for name, text in texts.items():
        check_names(owner, params, {**dict.fromkeys(params), name: text})
        try:
            made[name] = json.loads(text)
        except json.JSONDecodeError:
            kind = "a number, such as 0.5" if not params[name].dims else "a JSON array, such as [1, 0]"
            raise ParameterError(message(f"`{name}` of {owner}", f"be {kind}", show(text))) from None
    return made


def json_schema(owner: str, says: str, params: Mapping[str, Param]) -> dict[str, object]:
    """The JSON schema of the parameters."""
    properties: dict[str, object] = {}
    for name, p in params.items():
        number: dict[str, object] = {"type": "number"}
        if p.low is not None:
            number["exclusiveMinimum" if p.open_low else "minimum"] = p.low
        if p.nonzero:
            number["not"] = {"const": 0}
        entry: dict[str, object] = {
            "title": p.symbol or name,
            "description": f"{p.says}; {p.shape}, with any batch dimensions in front",
            "anyOf": [number, {"type": "array", "minItems": 1}],
            "x-dims": list(p.dims),
        }
        if p.default is not None:
            entry["default"] = p.default
        properties[name] = entry
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": owner,
        "description": says,
        "type": "object",
        "properties": properties,
        "required": [name for name, p in params.items() if p.required],
        "additionalProperties": False,
    }


def count(name: str, value: object, low: int = 1, high: int | None = None) -> int:
    """`value` as a whole number within its bounds, or one clear line.

    >>> count("`n`", 3)
    3
    """
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or int(value) < low or (high is not None and int(value) > high):  # type: ignore[call-overload]
        bounds = f"≥ {low}" if high is None else f"from {low} to {high}"
        raise ParameterError(message(name, f"be a whole number {bounds}", value))
    return int(value)  # type: ignore[call-overload]
