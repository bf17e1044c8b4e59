"""A two-layer piecewise-linear network: not exactly solvable, followed across every change of its pattern."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from richter.errors import ParameterError, UnknownNameError, message, nearest, show
from richter.maths import piecewise
from richter.maths.switching import Path, follow
from richter.params import Given, declared, numbers, param, resolve
from richter.refs import KUN24
from richter.schema import SCHEMA, TIME, Variable
from richter.theory.layout import Floats, check_times

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PiecewiseNetwork:
    r"""$f(x)=\sum_ia_i\sigma(w_i\cdot x)$ with $\sigma(z)=\max(z,\gamma z)$, on $\tfrac12\sum_j(f(x_j)-y_j)^2$.

    There is no closed form, so this is no theory of the catalog: it has `simulate` only. The integrator stops at
    every change of the activation pattern; a neuron whose flow points to an example's hyperplane from both sides
    slides along it. For biases append a constant input to X and to the rows of w0. No batch dimensions.

    >>> net = PiecewiseNetwork(a0=[1.0, -1.0], w0=[[1.0, 0.0], [0.0, 1.0]], X=[[1.0, 0.2], [0.1, 1.0]], y=[2.0, -2.0])
    >>> ds = net.simulate([0.0, 20.0])
    >>> bool(ds.loss[-1] < 1e-9), float(abs(ds.delta - ds.delta[0]).max()) < 1e-10
    (True, True)
    """

    a0: Given = param("output weights at the start", symbol="a₀", dims=("neuron",))
    w0: Given = param("input weights at the start", symbol="w₀", dims=("neuron", "input"))
    X: Given = param("inputs", symbol="X", dims=("example", "input"))
    y: Given = param("targets", symbol="y", dims=("example",))
    leak: Given = param("slope of σ for z < 0", symbol="γ", default=0.0, low=0)
    eta_a: Given = param("learning rate of a", symbol="η_a", default=1.0, low=0, advice="Use 0 to freeze it.")
    eta_w: Given = param("learning rate of w", symbol="η_w", default=1.0, low=0, advice="Use 0 to freeze it.")

    name: ClassVar[str] = "piecewise-network"
    places = (KUN24["Sec. 5"], KUN24["App. C.2"])
    loss_factor: ClassVar[float] = 1.0
    loss_says: ClassVar[str] = "½Σ(f(xⱼ) − yⱼ)² (KUN24: ½, sum over data)"
    variables = (
        Variable("a", ("neuron",), "output weights", "state", "a"),
        Variable("w", ("neuron", "input"), "input weights", "state", "w"),
        Variable("output", ("example",), "network's output at the examples", "function", "f(xⱼ)"),
        Variable("loss", (), "½Σ(f(xⱼ) − yⱼ)²", "loss", "L"),
        Variable("mu", ("neuron",), "signed size of each neuron's function, a‖w‖", symbol="μ"),
        Variable("kernel", ("example", "example_2"), "tangent kernel, rates included", symbol="K"),
        Variable(
            "kernel_distance", (), "distance of the kernel from its start, 1 − cosine", symbol="S(0, t)",
            undefined_when="the kernel is 0 at the start or at t",
        ),
        Variable(
            "hamming", (),
            "share of (neuron, example) pairs whose activation has changed since the start; sliding is inactive",
        ),
        Variable("parameter_distance", (), "‖θ(t) − θ(0)‖ over both layers", symbol="‖Δθ‖"),
        Variable("function_distance", (), "root mean square of f(t) − f(0) over the examples", symbol="‖Δf‖/√n"),
        Variable("delta", ("neuron",), "conserved imbalance η_w a² − η_a‖w‖²", "invariant", "δ"),
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Validate and store the parameters."""
        own, known = type(self).__name__, declared(self)
        resolved = resolve(own, known, {name: getattr(self, name) for name in known})
        if resolved.batch:
            raise ParameterError(
                message(
                    f"the parameters of {own}", "have no batch dimensions", f"{resolved.batch}", "Call it per start."
                )
            )
        if not resolved.values["leak"] < 1:
            advice = "A leak of 1 is a linear network: use IsotropicNetwork."
            raise ParameterError(message(f"`leak` of {own}", "be ≥ 0 and < 1", float(resolved.values["leak"]), advice))
        dead = ~resolved.values["w0"].any(axis=1)
        if dead.any():
            raise ParameterError(
                message(
                    f"every row of `w0` of {own}", "have an entry that is not 0", f"row {int(np.argmax(dead))}: 0",
                    "At w = 0 gradient flow is not unique. Leave the neuron out.",
                )
            )  # fmt: skip
        for name, value in resolved.values.items():
            value.flags.writeable = False
            object.__setattr__(self, name, value)

    @property
    def params(self) -> dict[str, Floats]:
        """The validated parameters."""
        return {name: getattr(self, name) for name in declared(self)}

    def with_(self, **changes: Given) -> Self:
        """The same network with some parameters changed."""
        return dataclasses.replace(self, **changes)

    def simulate(
        self, t: object, only: Iterable[str] | None = None, *, rtol: float = 1e-12, atol: float = 1e-14
    ) -> xr.Dataset:
        """Gradient flow at times `t` as a labelled Dataset; `attrs["changes"]` counts changes of the pattern.

        At w_i exactly across an example, outside sliding, the slope is the leak. `only` names the variables wanted.
        """
        import xarray as xr

        times = check_times(t)
        if not np.isfinite(times).all():
            raise ParameterError(message("the times of simulate()", "be finite", "inf", "Use a long time."))
        wanted = self._select(only)
        order = np.argsort(times, kind="stable")
        path = follow(
            self.a0, self.w0, self.X, self.y, times[order], float(self.leak), float(self.eta_a), float(self.eta_w),
            rtol=rtol, atol=atol,
        )  # fmt: skip
        back = np.argsort(order)
        start = follow(self.a0, self.w0, self.X, self.y, np.zeros(1), float(self.leak))
        values = self._read(Path(path.a[back], path.w[back], path.slopes[back], path.changes), start, set(wanted))
        small = {k: v.tolist() if v.size <= 1000 else f"shape {v.shape}" for k, v in self.params.items()}
        attrs = {
            "model": self.name, "how": "integrated between changes of the activation pattern",
            "changes": path.changes, "params": json.dumps(small), "loss_factor": self.loss_factor,
            "loss": self.loss_says, "schema": SCHEMA,
        }  # fmt: skip
        named = {name: xr.Variable(("t", *v.dims), values[name], v.attrs) for name, v in wanted.items()}
        return xr.Dataset(named, {"t": xr.Variable(("t",), times, TIME.attrs)}, attrs)

    def _select(self, only: Iterable[str] | None) -> dict[str, Variable]:
        known = {v.name: v for v in self.variables}
        names = list(known) if only is None else [only] if isinstance(only, str) else list(only)
        for name in names:
            if name not in known:
                raise UnknownNameError(f"{type(self).__name__} has no variable `{name}`. {nearest(name, list(known))}")
        return {name: known[name] for name in names}

    def _read(self, path: Path, start: Path, wanted: set[str]) -> dict[str, Floats]:
        """The wanted variables of a path, (time, *own dimensions)."""
        a, w, X, y = path.a, path.w, np.asarray(self.X), np.asarray(self.y)
        rates = (float(self.eta_a), float(self.eta_w))
        output = piecewise.network_output(a, w, X, float(self.leak))
        first = piecewise.network_output(start.a, start.w, X, float(self.leak))
        moved = ((a - start.a) ** 2).sum(axis=-1) + ((w - start.w) ** 2).sum(axis=(-2, -1))
        made = {
            "a": a,
            "w": w,
            "output": output,
            "loss": ((output - y) ** 2).sum(axis=-1) / 2,
            "mu": a * np.linalg.norm(w, axis=-1),
            "hamming": ((path.slopes == 1) != (start.slopes == 1)).mean(axis=(-2, -1)),
            "parameter_distance": np.sqrt(moved),
            "function_distance": np.sqrt(((output - first) ** 2).mean(axis=-1)),
            "delta": piecewise.imbalance(a, w, *rates),
        }
        if wanted & {"kernel", "kernel_distance"}:
            kernel = lambda p: piecewise.kernel_matrix(p.a, p.w, X, float(self.leak), *rates, pattern=p.slopes)
            made["kernel"] = kernel(path)
            made["kernel_distance"] = _one_minus_cosine(made["kernel"], kernel(start))
        return made

    def values(self, ds: xr.Dataset, points: Given) -> xr.DataArray:
        """The function at any points (point, input), along a result of `simulate` that holds a and w.

        >>> net = PiecewiseNetwork(a0=[2.0], w0=[[1.0]], X=[[1.0]], y=[1.0])
        >>> net.values(net.simulate([0.0]), [[3.0], [-3.0]]).values.tolist()
        [[6.0, 0.0]]
        """
        import xarray as xr

        where = numbers("`points`", points)
        d = np.asarray(self.w0).shape[1]
        if where.ndim != 2 or where.shape[1] != d:
            raise ParameterError(message("`points`", f"be (point, {d})", f"shape {where.shape}"))
        made = piecewise.network_output(ds.a.values, ds.w.values, where, float(self.leak))
        return xr.DataArray(made, {"t": ds.t}, ("t", "point"), attrs={"long_name": "network's output", "units": "1"})

    @classmethod
    def symmetrised(
        cls,
        *,
        X: Given,
        y: Given,
        neurons: int,
        tau: float,
        delta: float,
        leak: float = 0.0,
        eta_a: float = 1.0,
        eta_w: float = 1.0,
        rng: np.random.Generator | int = 0,
    ) -> Self:
        r"""KUN24's Fig. 1 start: unit neurons and their mirror copies (−a, w), so that f = 0 at the start.

        Every neuron has imbalance δ and, for rates 1, function size $\|\beta_i\|=\tau^2$: $a_i=\pm\tau\alpha$,
        $\|w_i\|=\tau/\alpha$ with α from `layer_scale`.

        Args:
            X: inputs (example, input).
            y: targets (example,).
            neurons: their number, even.
            tau: scale τ > 0.
            delta: imbalance δ of every neuron.
            leak: slope γ of σ for z < 0.
            eta_a: learning rate of a, > 0.
            eta_w: learning rate of w, > 0.
            rng: draws the directions and the signs.

        >>> net = PiecewiseNetwork.symmetrised(X=np.eye(2), y=[1.0, -1.0], neurons=6, tau=0.1, delta=1.0)
        >>> ds = net.simulate([0.0])
        >>> ds.delta.values.round(12).tolist(), (abs(ds.output) < 1e-15).values.tolist()
        ([[1.0, 1.0, 1.0, 1.0, 1.0, 1.0]], [[True, True]])
        """
        if isinstance(neurons, bool) or not isinstance(neurons, (int, np.integer)) or neurons < 2 or neurons % 2:
            raise ParameterError(message("`neurons` of symmetrised", "be an even number ≥ 2", neurons))
        for name, value in (("tau", tau), ("eta_a", eta_a), ("eta_w", eta_w)):
            if not (np.isfinite(value) and value > 0):
                raise ParameterError(message(f"`{name}` of symmetrised", "be > 0", value))
        if not np.isfinite(delta):
            raise ParameterError(message("`delta` of symmetrised", "be finite", delta))
        inputs = numbers("`X`", X)
        if inputs.ndim != 2:
            raise ParameterError(message("`X` of symmetrised", "be (example, input)", f"shape {inputs.shape}"))
        generator, half = np.random.default_rng(rng), int(neurons) // 2
        w = generator.normal(size=(half, inputs.shape[1]))
        w /= np.linalg.norm(w, axis=1)[:, None]
        a = generator.choice([-1.0, 1.0], half)
        alpha = float(piecewise.layer_scale(tau, delta, eta_a, eta_w))
        return cls(
            a0=tau * alpha * np.concatenate([a, -a]), w0=tau / alpha * np.concatenate([w, w]), X=inputs, y=y,
            leak=leak, eta_a=eta_a, eta_w=eta_w,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={show(v)}' for k, v in self.params.items())})"


def _one_minus_cosine(kernels: Floats, first: Floats) -> Floats:
    """1 − cos of matrices (time, …) and one, without cancellation: half the square of the unit vectors' difference."""
    flat, start = kernels.reshape(len(kernels), -1), first.reshape(1, -1)
    with np.errstate(invalid="ignore"):
        unit = flat / np.linalg.norm(flat, axis=1)[:, None]
        apart = unit - start / np.linalg.norm(start)
    return np.asarray((apart**2).sum(axis=1) / 2)
