"""The contract of every exactly solved setting.

A theory is a task, a network, a start and learning rates. A subclass writes the physics on plain arrays
(`prepare`, `exact`, `begin`, `flow`, `observables`, `invariants`); the base class lays out the parameters,
works in cache-sized blocks and labels the result.

Inside these methods arrays have their own dimensions first, then one axis for all starts, then one for times.
"""

from __future__ import annotations

import abc
import dataclasses
import json
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from richter import params as parameters
from richter.errors import ParameterError, UnknownNameError, message, nearest, show
from richter.refs import Place
from richter.regime import Regime
from richter.schema import SCHEMA, TIME, Variable
from richter.theory.layout import BLOCK, WIDE_BLOCK, Floats, Layout, Packing, State, check_times

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, kw_only=True, eq=False)
class AbstractTheory(abc.ABC):
    """An exactly solved setting: `solve` (exact), `simulate` (its witness), `limit`, `regime`.

    Every array parameter may carry batch dimensions in front; `batch` names them (default: `start`).
    """

    batch: tuple[str, ...] | None = None
    _resolved: parameters.Resolved = dataclasses.field(init=False)

    name: ClassVar[str]
    title: ClassVar[str]
    formula: ClassVar[str]
    valid: ClassVar[str]
    places: ClassVar[tuple[Place, ...]]
    variables: ClassVar[tuple[Variable, ...]]
    start_params: ClassVar[dict[str, str]]  # state variable → parameter that holds its start
    loss_factor: ClassVar[float]
    loss_says: ClassVar[str]

    # What a subclass writes.

    @abc.abstractmethod
    def prepare(self, p: Layout) -> Any:
        """What the solution needs of each start, computed once."""

    @abc.abstractmethod
    def exact(self, prepared: Any, t: Floats, only: Collection[str]) -> State:
        """The closed form of the variables `only` at times `t`, ∞ included."""

    @abc.abstractmethod
    def begin(self, p: Layout) -> State:
        """The state at t = 0."""

    @abc.abstractmethod
    def flow(self, p: Layout, state: State) -> State:
        """The state's time derivative, written from the loss alone."""

    @abc.abstractmethod
    def observables(self, p: Layout, state: State, start: State) -> State:
        """Every other variable, read off a state by its definition."""

    @abc.abstractmethod
    def invariants(self, p: Layout, state: State) -> State:
        """What gradient flow conserves, read off a state."""

    @abc.abstractmethod
    def rates(self, p: Layout, state: State) -> State:
        """What multiplies minus the loss's gradient in each state variable's flow."""

    @abc.abstractmethod
    def aim(self, p: Layout) -> Floats:
        """The value of the function at which the loss is 0."""

    @abc.abstractmethod
    def regime(self) -> Regime:
        """The learning regime with its numbers and reasons."""

    def exact_state(self, prepared: Any, t: Floats) -> State:
        """The exact state; where only Gram matrices are known, one representative of it."""
        return self.exact(prepared, t, tuple(self.start_params))

    def check(self, resolved: parameters.Resolved) -> None:
        """Assumptions beyond the declared bounds; raises a `ParameterError`."""
        return None

    # What it gets for free.

    def __post_init__(self) -> None:
        """Validate and store the parameters."""
        declared = parameters.declared(self)
        given = {name: getattr(self, name) for name in declared}
        resolved = parameters.resolve(type(self).__name__, declared, given)
        self.check(resolved)
        for name, value in resolved.values.items():
            value.flags.writeable = False
            object.__setattr__(self, name, value)
        names = self.batch
        if isinstance(names, str):
            names = (names,)
        if names is not None and not (isinstance(names, Sequence) and all(isinstance(name, str) for name in names)):
            raise ParameterError(message("`batch`", "be a name or a tuple of names", show(names)))
        if names is not None and len(names) != len(resolved.batch):
            raise ParameterError(message("`batch`", f"name the {len(resolved.batch)} batch dimensions", tuple(names)))
        taken = {"t", *(d for v in self.variables for d in v.dims), *(v.name for v in self.variables)}
        if names is not None and (len(set(names)) < len(names) or taken & set(names)):
            must = f"be different names, none of them {', '.join(sorted(taken & set(names))) or 'twice'}"
            raise ParameterError(message("`batch`", must, tuple(names)))
        object.__setattr__(self, "batch", None if names is None else tuple(names))
        object.__setattr__(self, "_resolved", resolved)

    @classmethod
    def of(cls, **given: Any) -> Self:
        """Build from names and values, with an error that lists what is unknown or missing."""
        parameters.check_names(cls.__name__, parameters.declared(cls), given)
        return cls(**given)

    @property
    def params(self) -> dict[str, Floats]:
        """The validated parameters, (*batch, *own dimensions)."""
        return self._resolved.values

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The shape of the batch; () for a single start."""
        return self._resolved.batch

    @property
    def batch_names(self) -> tuple[str, ...]:
        """The names of the batch dimensions."""
        if self.batch is not None:
            return self.batch
        count = len(self.batch_shape)
        return ("start",) if count == 1 else tuple(f"start_{i + 1}" for i in range(count))

    @property
    def sizes(self) -> dict[str, int]:
        """The lengths of the theory's own dimensions."""
        return {**self._resolved.sizes, **self.extra_sizes(self._resolved.sizes)}

    def extra_sizes(self, sizes: dict[str, int]) -> dict[str, int]:
        """Lengths of dimensions that no parameter has."""
        return {"input_2": sizes["input"]} if "input" in sizes else {}

    @cached_property
    def layout(self) -> Layout:
        """The parameters laid out for computing."""
        shape = self.batch_shape
        made = Layout()
        for name, p in parameters.declared(self).items():
            value = self.params[name]
            own = len(p.dims)
            front = value.shape[: value.ndim - own]
            if math.prod(front) > 1 or shape == ():
                value = np.broadcast_to(value, (*shape, *value.shape[value.ndim - own :]))
            flat = value.reshape(-1, *value.shape[value.ndim - own :])
            made[name] = np.ascontiguousarray(np.moveaxis(flat, 0, -1))[..., None]
        return made

    def by_start(self, value: Floats) -> Floats:
        """An array (*own dimensions, starts or 1, 1) as (*batch, *own dimensions)."""
        full = np.broadcast_to(value[..., 0], (*value.shape[:-2], max(1, math.prod(self.batch_shape))))
        return np.moveaxis(full, -1, 0).reshape((*self.batch_shape, *value.shape[:-2]))

    def with_(self, **changes: Any) -> Self:
        """The same theory with some parameters changed."""
        now: dict[str, Any] = {**self.params, "batch": self.batch}
        for name in changes:
            if name not in now:
                raise UnknownNameError(f"{type(self).__name__} has no parameter `{name}`. {nearest(name, list(now))}")
        for name, p in parameters.declared(self).items():
            if p.same_as in changes and np.array_equal(now[name], now[p.same_as]):
                now[name] = None  # it follows the other one as before
        return type(self)(**{**now, **changes})

    def arrays(self, t: object, only: Iterable[str] | None = None) -> dict[str, tuple[tuple[str, ...], Floats]]:
        """The exact solution as plain arrays with their dimension names; `solve` without labels."""
        times = check_times(t)
        variables = self.select(only)
        starts = math.prod(self.batch_shape)
        sizes = self.sizes
        shapes = {v.name: tuple(sizes[dim] for dim in v.dims) for v in variables}
        out = {name: np.empty((*own, starts, times.size)) for name, own in shapes.items()}
        widest = max([1, *(math.prod(own) for own in shapes.values())])
        block = max(1, min(BLOCK, WIDE_BLOCK // widest))
        columns = min(times.size, block)
        rows = max(1, block // columns)
        with np.errstate(all="ignore"):
            for r in range(0, starts, rows):
                part = slice(r, min(r + rows, starts))
                prepared = self.prepare(self.layout.rows(part) if starts > rows else self.layout)
                for c in range(0, times.size, columns):
                    when = slice(c, c + columns)
                    for name, value in self.exact(prepared, times[when], shapes.keys()).items():
                        out[name][..., part, when] = value
        return self.shaped(times, variables, out)

    def solve(self, t: object, only: Iterable[str] | None = None) -> xr.Dataset:
        """The exact solution at times `t` (≥ 0, `inf` allowed) as a labelled Dataset.

        `only` names the variables wanted; the others are then not computed.
        """
        return self.labelled(self.arrays(t, only), "exact")

    def limit(self, only: Iterable[str] | None = None) -> xr.Dataset:
        """Where gradient flow ends, t = ∞."""
        return self.solve([np.inf], only).isel(t=0)

    def simulate(
        self,
        t: object,
        only: Iterable[str] | None = None,
        *,
        method: str = "DOP853",
        rtol: float = 1e-11,
        atol: float = 1e-13,
    ) -> xr.Dataset:
        """The same Dataset from numerical integration of the flow: an independent witness."""
        from richter.maths.integrate import integrate

        times = check_times(t)
        if not np.isfinite(times).all():
            raise ParameterError(message("the times of simulate()", "be finite", "inf", "Use limit() for t = ∞."))
        variables = self.select(only)
        order = np.argsort(times, kind="stable")
        p, packing = self.layout, Packing(self.begin(self.layout), math.prod(self.batch_shape))
        states = integrate(
            lambda flat: packing.pack(self.flow(p, packing.unpack(flat))),
            packing.pack(packing.start),
            times[order],
            method=method,
            rtol=rtol,
            atol=atol,
        )
        path = np.empty_like(states)
        path[:, order] = states
        return self.labelled(self.read(packing.unpack(path), times, variables), f"simulated ({method})")

    def read(
        self,
        state: State,
        times: Floats,
        variables: Sequence[Variable] | None = None,
        first: State | None = None,
    ) -> dict[str, tuple[tuple[str, ...], Floats]]:
        """Every variable of a given path of states, by definition."""
        variables = self.variables if variables is None else variables
        with np.errstate(all="ignore"):
            every = {
                **state,
                **self.observables(self.layout, state, self.begin(self.layout)),
                **self.invariants(self.layout, state),
            }
        starts, sizes = math.prod(self.batch_shape), self.sizes
        out = {
            v.name: np.broadcast_to(every[v.name], (*(sizes[d] for d in v.dims), starts, times.size)) for v in variables
        }
        return self.shaped(times, variables, out)

    def select(self, only: Iterable[str] | None) -> list[Variable]:
        """The declared variables of the given names; all for None."""
        known = {v.name: v for v in self.variables}
        if only is None:
            return list(self.variables)
        names = [only] if isinstance(only, str) else list(only)
        for name in names:
            if name not in known:
                raise UnknownNameError(f"{type(self).__name__} has no variable `{name}`. {nearest(name, list(known))}")
        return [known[name] for name in dict.fromkeys(names)]

    def shaped(
        self, times: Floats, variables: Sequence[Variable], out: State
    ) -> dict[str, tuple[tuple[str, ...], Floats]]:
        """Arrays (*own dimensions, starts, times) as (*batch, times, *own dimensions) with their names."""
        made: dict[str, tuple[tuple[str, ...], Floats]] = {"t": (("t",), times)}
        for v in variables:
            own = len(v.dims)
            value = np.moveaxis(out[v.name], tuple(range(own)), tuple(range(-own, 0))) if own else out[v.name]
            value = value.reshape(*self.batch_shape, *value.shape[1:])
            made[v.name] = ((*self.batch_names, "t", *v.dims), value)
        return made

    def labelled(self, arrays: dict[str, tuple[tuple[str, ...], Floats]], how: str) -> xr.Dataset:
        """Arrays with dimension names as a Dataset with the schema's metadata."""
        import xarray as xr

        meta = {v.name: v.attrs for v in self.variables}
        small = {k: v.tolist() if v.size <= 1000 else f"shape {v.shape}" for k, v in self.params.items()}
        attrs = {
            "model": self.name,
            "how": how,
            "params": json.dumps(small),
            "loss_factor": self.loss_factor,
            "loss": self.loss_says,
            "schema": SCHEMA,
        }
        named = {name: xr.Variable(dims, value, meta[name]) for name, (dims, value) in arrays.items() if name != "t"}
        return xr.Dataset(named, {"t": xr.Variable(("t",), arrays["t"][1], TIME.attrs)}, attrs)

    def __repr__(self) -> str:
        given = ", ".join(f"{k}={v.tolist() if v.size <= 4 else v.shape}" for k, v in self.params.items())
        return f"{type(self).__name__}({given})"
