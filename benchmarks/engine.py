"""The engine for many small networks against a numpy loop and against bare matrix products.

The medium problem of the bars: d = 100, h = 50, n = 1000, 16 networks at once, every library with all cores. All are
interleaved, so that they see the same machine; the best of their repeats counts.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

import numpy as np

INPUTS, WIDTH, EXAMPLES, NETWORKS, RATE = 100, 50, 1000, 16, 1e-3


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def numpy_step(a: np.ndarray, w: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """One step of gradient descent of one network in place, with the gradient by hand."""
    z = x @ w.T
    h = np.maximum(z, 0)
    slope = (2 / len(x)) * (h @ a - y)
    back = (z > 0) * (slope[:, None] * a)
    a -= RATE * (slope @ h)
    w -= RATE * (back.T @ x)


def measure(steps: int, repeats: int, dtype: str) -> dict[str, float]:
    """Microseconds for one step of one network; `blas` and `xla` do only the two matrix products of a step."""
    from richter.tasks import Task
    from richter.training import Networks, train_many
    from richter.training.engine_batch import jax_in

    rng = np.random.default_rng(0)
    x = (rng.standard_normal((EXAMPLES, INPUTS)) / 10).astype(dtype)
    y = rng.standard_normal(EXAMPLES).astype(dtype)
    a = rng.standard_normal((NETWORKS, WIDTH)).astype(dtype)
    w = rng.standard_normal((NETWORKS, WIDTH, INPUTS)).astype(dtype)
    task = Task(inputs=x, targets=y, test_inputs=x[:1], test_targets=y[:1], name="medium")
    networks = Networks.two_layer(a, w)
    stacked = w.reshape(NETWORKS * WIDTH, INPUTS)
    back = rng.standard_normal((NETWORKS * WIDTH, EXAMPLES)).astype(dtype)
    turned = np.ascontiguousarray(x.T)

    def engine() -> None:
        train_many(networks, task, steps=steps, rate=RATE, loss="square", moments=[0, steps], dtype=dtype)

    def nothing() -> None:
        train_many(networks, task, steps=0, rate=RATE, loss="square", moments=[0], dtype=dtype)

    def loop() -> None:
        for k in range(NETWORKS):
            one_a, one_w = a[k].copy(), w[k].copy()
            for _ in range(max(1, steps // 10)):
                numpy_step(one_a, one_w, x, y)

    def products() -> None:
        for _ in range(steps):
            np.matmul(stacked, turned)
            np.matmul(back, x)

    with jax_in(dtype):
        compiled = _products(steps, stacked, turned)
        compiled()
    engine()
    nothing()
    works = {"engine": engine, "call": nothing, "numpy": loop, "blas": products, "xla": compiled}
    best = dict.fromkeys(works, np.inf)
    for _ in range(repeats):
        for name, work in works.items():
            with jax_in(dtype):
                best[name] = min(best[name], seconds(work))
    per = 1e6 / NETWORKS
    return {
        "engine": per * (best["engine"] - best["call"]) / steps,
        "numpy": per * best["numpy"] / max(1, steps // 10),
        "blas": per * best["blas"] / steps,
        "xla": per * best["xla"] / steps,
    }


def _products(steps: int, stacked: np.ndarray, turned: np.ndarray) -> Callable[[], object]:
    """The same two products, nothing else, in the same library."""
    import jax

    def loop(w: object, x: object) -> object:
        return jax.lax.fori_loop(0, steps, lambda _, v: v + 1e-9 * ((v @ x) @ x.T), w)  # type: ignore[attr-defined]

    made = jax.jit(loop)
    given = (jax.numpy.asarray(stacked), jax.numpy.asarray(turned))
    return lambda: jax.block_until_ready(made(*given))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    print(json.dumps({dtype: measure(options.steps, options.repeats, dtype) for dtype in ("float32", "float64")}))


if __name__ == "__main__":
    main()
