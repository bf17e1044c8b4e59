"""One batch of networks through the compiled loop: from stop to stop, with checkpoints between."""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from richter.errors import DivergenceError, MissingExtraError, message
from richter.training.engine_checkpoints import checksum, load_state, save_state, written
from richter.training.engine_data import Arrays
from richter.training.engine_networks import Networks
from richter.training.engine_observables import Look, observe
from richter.training.engine_step import Rule, begin, take_step

Array = NDArray[Any]
STRIDE = 4  # stops in one compiled call; between calls there is progress, a checkpoint, a look at divergence


@dataclass(frozen=True, eq=False)
class Batch:
    """Networks that are trained together, and how far."""

    rule: Rule
    look: Look
    networks: Networks
    data: Arrays
    rates: Array
    factors: Array  # (start, layer)
    dtype: str
    seed: int
    looks: tuple[int, ...]
    steps: int
    go_on: bool
    first: int

    def run(
        self, path: Path | None, gap: int, resume: bool, tell: Callable[[float], object]
    ) -> tuple[dict[str, Array], Networks, int]:
        """The observables (start, moment, …), the trained networks, and the step a checkpoint had reached."""
        with jax_in(self.dtype) as jax:
            jnp = jax.numpy
            put = lambda x: jnp.asarray(x, self.dtype)
            data = {name: put(getattr(self.data, name)) for name in ("x", "y", "x_test", "y_test", "points")}
            biases = self.networks.biases or (None,) * len(self.networks.weights)
            layers = [
                (put(w), None if b is None else put(b)) for w, b in zip(self.networks.weights, biases, strict=True)
            ]
            key = jax.random.key(self.seed)
            state = begin(self.rule, layers, key)
            given = (data, put((self.rates[:, None] * self.factors).T), put(self.factors.T),
                     put(self.networks.output_scale), key, layers)  # fmt: skip
            leaves, shape = jax.tree.flatten(state)
            facts = {} if path is None else self._facts()
            held = load_state(path, facts) if path is not None and resume else None
            kept: dict[str, list[Array]] = {}
            done = saved = 0
            if held is not None:
                state = jax.tree.unflatten(shape, [jnp.asarray(held[f"state{i}"]) for i in range(len(leaves))])
                kept = {name[5:]: list(rows) for name, rows in held.items() if name.startswith("seen/")}
                done = saved = int(state["step"])
            begun, advance = done, compiled(self.rule, self.look)
            stops, wanted = self._stops(gap)
            after = 0 if held is None else bisect_right(stops, done)
            while after < len(stops):
                part = slice(after, after + STRIDE)
                row = np.array(stops[part] + [stops[part][-1]] * (STRIDE - len(stops[part])), np.int32)
                see = np.array(wanted[part] + [False] * (STRIDE - len(wanted[part])))
                state, (found, finite) = advance(state, row, see, given)
                after += STRIDE
                done = int(row[-1])
                self._check(np.asarray(finite), row)
                for name, values in found.items():
                    kept.setdefault(name, []).extend(np.asarray(values)[see])
                tell(done / max(self.steps, 1))
                if path is not None and (done - saved >= gap or after >= len(stops)):
                    held_now = {f"state{i}": np.asarray(x) for i, x in enumerate(jax.tree.leaves(state))}
                    held_now |= {f"seen/{name}": np.stack(rows) for name, rows in kept.items()}
                    save_state(path, facts, held_now)
                    saved = done
            ends = [(np.asarray(w), None if b is None else np.asarray(b)) for w, b in state["layers"]]
        made = replace(
            self.networks, weights=tuple(w for w, _ in ends), biases=tuple(b for _, b in ends if b is not None)
        )
        return {name: np.stack(rows, axis=1) for name, rows in kept.items()}, made, begun

    def _stops(self, gap: int) -> tuple[list[int], list[bool]]:
        """Where the compiled loop stops: the moments, and between them so often that checkpoints are not late."""
        at = {step: True for step in self.looks} | {
            step: step in self.looks
            for step in [*range(0, self.steps, max(1, min(gap, self.steps // 20 + 1))), self.steps]
        }
        stops = sorted(at)
        return stops, [at[step] for step in stops]

    def _check(self, finite: Array, stops: Array) -> None:
        if self.go_on or finite.all():
            return
        late, which = (int(i[0]) for i in np.nonzero(~finite))
        rate = float(self.rates[which])
        got = f"network {self.first + which} beyond it by step {int(stops[late])}"
        do = (
            f"Lower its rate {rate:g}, for example to {rate / 10:.3g}, or make its start smaller; go_on=True keeps NaN."
        )
        raise DivergenceError(message("the parameters", "stay finite", got, do))

    def _facts(self) -> dict[str, Any]:
        import jax

        from richter import __version__

        rule, net, data = self.rule, self.networks, self.data
        return {
            "richter": __version__, "jax": jax.__version__,  # others may round otherwise
            "functions": [written(function) for _, function in self.look.functions],
            "rule": [str(x) for x in (*vars(rule).values(),)[:-1]], "fresh": getattr(rule.draw, "__qualname__", ""),
            "see": [*self.look.names, self.look.kernel, *(name for name, _ in self.look.functions)],
            "moments": list(self.looks), "steps": self.steps, "dtype": self.dtype, "seed": self.seed,
            "start": checksum(*net.weights, *net.biases, np.asarray(net.output_scale)),
            "rates": checksum(self.rates, self.factors),
            "examples": checksum(data.x, data.y, data.x_test, data.y_test, data.points),
        }  # fmt: skip


@cache
def compiled(rule: Rule, look: Look) -> Callable[..., Any]:
    """From a state to the state some stops later, with what was seen at them; compiled once for each shape."""
    import jax
    from jax import lax
    from jax import numpy as jnp

    def advance(state: Any, stops: Any, see: Any, given: Any) -> Any:
        data, rates, factors, scale, key, before = given
        read = lambda layers: observe(rule, look, data, factors, scale, before, layers)
        blank = jax.eval_shape(read, state["layers"])

        def go(now: Any, item: Any) -> Any:
            stop, wanted = item
            now = lax.fori_loop(now["step"], stop, lambda _, s: take_step(rule, data, rates, scale, key, s), now)
            seen = lax.cond(
                wanted, lambda: read(now["layers"]), lambda: jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), blank)
            )
            leaves = jax.tree.leaves(now["layers"])
            finite = jnp.stack([jnp.isfinite(p).all(axis=tuple(range(1, p.ndim))) for p in leaves]).all(axis=0)
            return now, (seen, finite)

        return lax.scan(go, state, (stops, see))

    return jax.jit(advance)


@contextlib.contextmanager
def jax_in(dtype: str) -> Iterator[Any]:
    """JAX with 64-bit numbers if they are wanted, and products at full precision, for this block only."""
    try:
        import jax
    except ImportError:
        raise MissingExtraError(
            'Training many networks needs jax, which is not installed. Type: pip install "richter[sim]"'
        ) from None
    # Older versions keep it among their experiments.
    switch: Any = (jax if hasattr(jax, "enable_x64") else import_module("jax.experimental")).enable_x64
    with switch(dtype == "float64"), jax.default_matmul_precision("highest"):
        yield jax
