"""The engine for many small networks computes what a plain numpy loop computes, however it is batched."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from richter.errors import DivergenceError, FileError, ParameterError, UnknownNameError
from richter.tasks import Task, gaussian_classes, teacher_student
from richter.testing.tolerances import IDENTITY, Tier, assert_close
from tests.training.numpy_loop import LEAK, descend

pytest.importorskip("jax")

from richter.training import Fresh, Networks, train_many  # noqa: E402

THOUSAND = Tier("thousand", 1e-10, "the same 1000 steps in two programs")
CASES: list[dict[str, Any]] = [
    {"activation": "relu", "widths": [8]},
    {"activation": "leaky-relu", "widths": [6, 5], "bias": True, "loss": "square", "layer_rates": [0.5, 1.0, 2.0]},
    {"activation": "tanh", "widths": [6], "bias": True, "optimiser": "momentum", "batch": 5},
    {"activation": "swish", "widths": [6, 4], "optimiser": "adam", "rate": 1e-3, "bias": True},
    {"activation": "sigmoid", "widths": [7], "loss": "cross-entropy", "output_scale": 2.0, "rate": 0.1},
    {"activation": "linear", "widths": [5, 5], "loss": "half-sum", "batch": 4, "rate": 2e-3},
    {"activation": "relu", "widths": [6], "loss": "binary-cross-entropy", "bias": True, "rate": 0.1},
]  # fmt: skip


def make_task(seed: int, loss: str = "mse", n: int = 13) -> Task:
    rng = np.random.default_rng([seed, n])
    if loss.endswith("cross-entropy"):
        return gaussian_classes(
            n, classes=2 if loss.startswith("binary") else 3, d=4, separation=1.0, n_test=9, rng=rng
        )
    x, x_test = rng.standard_normal((n, 4)), rng.standard_normal((9, 4))
    target = lambda z: np.stack([np.sin(z[:, 0]), z[:, 1] * z[:, 2]], axis=1)
    return Task(inputs=x, targets=target(x), test_inputs=x_test, test_targets=target(x_test), name="made")


def outputs(loss: str) -> int:
    return {"cross-entropy": 3, "binary-cross-entropy": 1}.get(loss, 2)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(str(v) for v in case.values()))
def test_a_thousand_steps_are_those_of_a_plain_numpy_loop(jax: Any, seed: int, case: dict[str, Any]) -> None:
    loss, batch, rate = case.get("loss", "mse"), case.get("batch"), case.get("rate", 0.05)
    options = {"activation": case["activation"], "leak": LEAK, "output_scale": case.get("output_scale", 1.0)}
    bias = case.get("bias", False)
    nets = Networks.drawn(4, case["widths"], outputs(loss), starts=2, bias=bias, rng=seed, **options)
    task, layer_rates = make_task(seed, loss), case.get("layer_rates")
    n, factors = len(task), layer_rates or [1.0] * len(nets.weights)
    made = train_many(
        nets, task, steps=1000, rate=[rate, rate / 2], layer_rates=layer_rates, batch=batch, loss=loss, seed=3,
        optimiser=case.get("optimiser", "sgd"), moments=[0, 7, 1000], see=["train_loss"], dtype="float64",
    )  # fmt: skip
    y = task.targets if task.kind == "regression" else np.eye(3)[task.targets]
    y = y if loss != "binary-cross-entropy" else task.targets[:, None].astype(float)
    orders = [
        np.asarray(jax.random.permutation(jax.random.fold_in(jax.random.key(3), epoch), n)) for epoch in range(1 + 1000 // (n // batch))
    ] if batch else []  # fmt: skip

    def rows(step: int) -> tuple[Any, Any]:
        if not batch:
            return task.inputs, y
        epoch, place = divmod(step, n // batch)
        chosen = orders[epoch][place * batch : (place + 1) * batch]
        return task.inputs[chosen], y[chosen]

    for k, own in enumerate((rate, rate / 2)):
        weights, biases, losses = descend(
            [w[k] for w in nets.weights], [b[k] for b in nets.biases], case["activation"], loss, rows, n, 1000,
            [own * f for f in factors], case.get("optimiser", "sgd"), case.get("output_scale", 1.0),
        )  # fmt: skip
        for got, want in zip((*made.networks.weights, *made.networks.biases), (*weights, *biases), strict=True):
            assert_close(got[k], want, THOUSAND, scale=np.abs(want).max())
        if not batch:
            assert_close(made.dataset.train_loss.values[k, :2], [losses[0], losses[7]], THOUSAND)
    assert not np.allclose(made.networks.weights[0][0], nets.weights[0][0], rtol=1e-3, atol=0)  # it has moved


def test_a_network_does_not_depend_on_the_others_nor_on_how_they_are_batched(seed: int) -> None:
    nets = Networks.drawn(4, [6], 2, starts=5, rng=seed)
    tasks = [make_task(seed + k) for k in range(5)]
    options: dict[str, Any] = {"steps": 40, "dtype": "float64", "see": ["train_loss", "test_loss"], "moments": 4}
    rates = np.linspace(0.02, 0.1, 5)
    whole = train_many(nets, tasks, rate=rates, **options)
    parts = train_many(nets, tasks, rate=rates, together=2, **options)
    alone = train_many(nets[3:4], tasks[3], rate=rates[3], **options)
    for name in ("train_loss", "test_loss"):
        assert_close(parts.dataset[name], whole.dataset[name], IDENTITY)
        assert_close(alone.dataset[name][0], whole.dataset[name][3], IDENTITY)
    assert_close(whole.dataset.t[3], rates[3] * whole.dataset.step, IDENTITY)
    predicted = ((whole.networks(tasks[3].test_inputs)[3] - tasks[3].test_targets) ** 2).sum(axis=1).mean() / 2
    assert_close(whole.dataset.test_loss[3, -1], predicted, IDENTITY)


def dense_kernel(jax: Any, nets: Networks, x: Any, rates: list[float]) -> Any:
    """(example, output, example, output) from the Jacobian of one network."""
    jnp = jax.numpy

    def f(p: Any) -> Any:
        h = jnp.asarray(x).T
        for l, (w, b) in enumerate(p):
            h = w @ h + b[:, None]
            h = jnp.tanh(h) if l < len(p) - 1 else h
        return float(np.asarray(nets.output_scale)[0]) * h.T

    p = [(jnp.asarray(w[0]), jnp.asarray(b[0])) for w, b in zip(nets.weights, nets.biases, strict=True)]
    total: Any = 0.0
    for rate, layer in zip(rates, jax.jacobian(f)(p), strict=True):
        for part in layer:
            flat = np.asarray(part).reshape(*part.shape[:2], -1)
            total = total + rate * np.einsum("acp,bdp->acbd", flat, flat)
    return total


@pytest.mark.parametrize("kind", ["trace", "full"])
def test_the_kernel_distance_is_that_of_the_jacobian(jax: Any, seed: int, kind: str) -> None:
    task = make_task(seed)
    nets = Networks.drawn(4, [5, 6], 2, bias=True, activation="tanh", output_scale=0.7, rng=seed)
    rates = [0.5, 1.0, 2.0]
    made = train_many(nets, task, steps=60, rate=0.1, layer_rates=rates, moments=[0, 60], kernel=kind, points=7,
                      see=["kernel_distance"], dtype="float64")  # fmt: skip
    k0, k1 = (dense_kernel(jax, net, task.inputs[:7], rates) for net in (nets, made.networks))
    if kind == "trace":
        k0, k1 = (np.einsum("acbc->ab", k) for k in (k0, k1))
    expected = 1 - (k0 * k1).sum() / np.linalg.norm(k0) / np.linalg.norm(k1)
    got = made.dataset[f"kernel_distance_{kind}"]
    assert got.attrs["kernel"] == kind and expected > 1e-3 and abs(float(got[0, 0])) < 1e-15
    assert_close(got[0, 1], expected, IDENTITY, scale=1.0)


def test_the_distances_are_those_of_the_parameters(seed: int) -> None:
    world = teacher_student(12, d=3, width=6, n_test=5, rng=seed)
    starts = [world.student(0.3, delta) for delta in (-1.0, 1.0)]
    nets = Networks.two_layer([s.a for s in starts], [s.w for s in starts])
    product = lambda layers: layers[1][0][0] * (layers[0][0] ** 2).sum(axis=1)
    made = train_many(
        nets, world.task, steps=300, rate=0.1, loss="half-sum", moments=[0, 100, 300], dtype="float64",
        see=["hamming", "parameter_distance", "parameters", "kernel_distance"], functions={"product": product},
    ).dataset  # fmt: skip
    w, a = made.weight1.values, made.weight2.values[:, :, 0]
    assert made.weight1.dims == ("start", "step", "neuron", "input")
    active = np.einsum("ktij,nj->ktin", w, world.task.inputs) > 0
    assert_close(made.hamming, (active != active[:, :1]).mean(axis=(2, 3)), IDENTITY)
    assert float(made.hamming.max()) > 0
    moved = ((w - w[:, :1]) ** 2).sum(axis=(2, 3)) + ((a - a[:, :1]) ** 2).sum(axis=2)
    assert_close(made.parameter_distance, np.sqrt(moved), IDENTITY)
    assert_close(made["product"], a * (w**2).sum(axis=3), IDENTITY)
    mask = active.astype(float)
    gram = world.task.inputs @ world.task.inputs.T
    kernel = np.einsum("kti,ktin,ktim->ktnm", a**2, mask, mask) * gram
    z = np.maximum(np.einsum("ktij,nj->ktin", w, world.task.inputs), 0)
    kernel += np.einsum("ktin,ktim->ktnm", z, z)
    unit = kernel / np.linalg.norm(kernel, axis=(2, 3), keepdims=True)
    assert_close(made.kernel_distance, 1 - (unit * unit[:, :1]).sum(axis=(2, 3)), IDENTITY, scale=1.0)


def test_a_killed_run_goes_on_to_the_same_numbers(seed: int, tmp_path: Path) -> None:
    nets = Networks.drawn(4, [6], 2, starts=4, rng=seed)
    options: dict[str, Any] = {
        "steps": 200, "rate": 0.02, "batch": 5, "optimiser": "adam", "together": 2, "moments": 12, "every": 20,
    }  # fmt: skip
    whole = train_many(nets, make_task(seed), **options)

    def kill(share: float) -> None:
        if share > 0.7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_many(nets, make_task(seed), checkpoints=tmp_path, progress=kill, **options)
    again = train_many(nets, make_task(seed), checkpoints=tmp_path, **options)
    assert again.resumed_from > 0 and sorted(p.name for p in tmp_path.iterdir()) == ["batch-0000.npz", "batch-0001.npz"]
    assert again.dataset.identical(whole.dataset)
    assert all(np.array_equal(a, b) for a, b in zip(again.networks.weights, whole.networks.weights, strict=True))
    with pytest.raises(ParameterError, match="must be of the same run. Got a run that differs in rates"):
        train_many(nets, make_task(seed), checkpoints=tmp_path, **{**options, "rate": 0.01})
    (tmp_path / "batch-0000.npz").write_bytes((tmp_path / "batch-0000.npz").read_bytes()[:-40])
    with pytest.raises(FileError, match="must be whole. Got a damaged one. Remove it, or pass resume=False"):
        train_many(nets, make_task(seed), checkpoints=tmp_path, **options)


def test_a_checkpoint_of_other_code_is_refused(monkeypatch: pytest.MonkeyPatch, seed: int, tmp_path: Path) -> None:
    def look(function: Callable[[Any], Any]) -> Any:
        nets = Networks.drawn(4, [3], 2, rng=seed)
        return train_many(nets, make_task(seed), steps=4, rate=0.02, functions={"size": function}, moments=2,
                          checkpoints=tmp_path)  # fmt: skip

    first = look(lambda layers: (layers[0][0] ** 2).sum())
    assert look(lambda layers: (layers[0][0] ** 2).sum()).dataset.identical(first.dataset)
    with pytest.raises(ParameterError, match="Got a run that differs in functions"):
        look(lambda layers: (layers[0][0] ** 4).sum())
    monkeypatch.setattr("richter.__version__", "another")
    with pytest.raises(ParameterError, match="Got a run that differs in richter"):
        look(lambda layers: (layers[0][0] ** 2).sum())


def test_fresh_examples_are_new_at_every_step(jax: Any, seed: int) -> None:
    def draw(key: Any, batch: int) -> tuple[Any, Any]:
        x = jax.random.normal(key, (batch, 4))
        return x, x[:, :1] - 2 * x[:, 1:2]

    x = np.random.default_rng(seed).standard_normal((50, 4))
    y = x[:, :1] - 2 * x[:, 1:2]
    task = Task(inputs=x, targets=y, test_inputs=x, test_targets=y, name="line")
    nets = Networks.drawn(4, [], 1, activation="linear", rng=seed)
    made = train_many(nets, Fresh(draw, 8, task), steps=400, rate=0.05, see=["test_loss"], dtype="float64", seed=5)
    assert float(made.dataset.test_loss[0, -1]) < 1e-10 * float(made.dataset.test_loss[0, 0])
    two = train_many(nets, Fresh(draw, 8, task), steps=2, rate=0.05, see=["test_loss"], dtype="float64", seed=5)
    w = nets.weights[0][0]
    for step in range(2):
        xs, ys = draw(jax.random.fold_in(jax.random.key(5), step), 8)
        w = w - 0.05 * (np.asarray(xs) @ w.T - np.asarray(ys)).T @ np.asarray(xs) / 8
    assert_close(two.networks.weights[0][0], w, IDENTITY, scale=1.0)
    with pytest.raises(ParameterError, match='Got train_loss. Use "test_loss".'):
        train_many(nets, Fresh(draw, 8, task), steps=2, rate=0.05)


def test_the_callers_jax_is_left_as_it_was_and_float32_is_close() -> None:
    jax: Any = pytest.importorskip("jax")
    before = jax.config.jax_enable_x64
    made = {}
    for dtype in ("float32", "float64"):
        nets = Networks.drawn(4, [6], 2, rng=1)
        made[dtype] = train_many(nets, make_task(1), steps=100, rate=0.05, dtype=dtype, moments=3).dataset.train_loss
        assert made[dtype].dtype == dtype
    assert jax.config.jax_enable_x64 == before and jax.numpy.ones(1).dtype == ("float64" if before else "float32")
    assert_close(made["float32"], made["float64"], IDENTITY, times=1e8)  # 1e-4: single precision over 100 steps


def test_accuracy_counts_the_right_classes(seed: int) -> None:
    for loss, classes in (("cross-entropy", 3), ("binary-cross-entropy", 2)):
        task = make_task(seed, loss)
        nets = Networks.drawn(4, [], 1 if classes == 2 else 3, activation="linear", rng=seed)
        ds = train_many(nets, task, steps=0, rate=0.1, loss=loss, see=["train_accuracy", "test_accuracy"]).dataset
        f = nets(task.inputs)[0]
        said = f[:, 0] > 0 if classes == 2 else f.argmax(axis=1)
        assert_close(ds.train_accuracy[0, 0], (said == task.targets).mean(), IDENTITY, times=1e6)  # single precision
        assert 0 <= float(ds.test_accuracy[0, 0]) <= 1


def test_what_diverges_is_named() -> None:
    nets = Networks.drawn(4, [6], 2, starts=3, rng=0)
    with pytest.raises(
        DivergenceError, match="must stay finite. Got network 1 beyond it by step .* Lower its rate 10000"
    ):
        train_many(nets, make_task(0), steps=300, rate=[0.01, 1e4, 0.01])
    kept = train_many(nets, make_task(0), steps=300, rate=[0.01, 1e4, 0.01], go_on=True, moments=[0, 300]).dataset
    assert np.isfinite(kept.train_loss[[0, 2]]).all() and not np.isfinite(kept.train_loss[1, 1])


def test_wrong_input_is_one_clear_line() -> None:
    nets, task = Networks.drawn(4, [6], 2, starts=2, rng=0), make_task(0)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"rate": [0.1, 0.1, 0.1]}, "`rate` must fit (start,), here (2,). Got shape (3,)."),
        ({"rate": -1.0}, "`rate` must be finite and > 0. Got -1.0."),
        ({"layer_rates": [1.0, 2.0, 3.0]}, "`layer_rates` must fit (layer,) or (start, layer), here (2, 2)."),
        ({"loss": "mes"}, "No loss named `mes`. Did you mean mse?"),
        ({"loss": "cross-entropy"}, "`loss` must be mse, half-sum or square for the regression made."),
        ({"optimiser": "adamw"}, "No optimiser named `adamw`. Did you mean adam?"),
        ({"dtype": "float16"}, "No dtype named `float16`."),
        ({"see": ["los"]}, "No observable named `los`."),
        ({"kernel": "half"}, "`kernel` must be trace or full. Got half."),
        ({"functions": {"hamming": len}}, "`functions` must have names of their own. Got hamming."),
        ({"batch": 14}, "`batch` must be a whole number from 1 to 13. Got 14."),
        ({"moments": [0, 9]}, "each of `moments` must be at most 3, the last step. Got 9."),
    ]  # fmt: skip
    for options, text in cases:
        with pytest.raises((ParameterError, UnknownNameError)) as caught:
            train_many(nets, task, **{"steps": 3, "rate": 0.1, **options})
        assert text in str(caught.value)
    with pytest.raises(ParameterError, match="the tasks must be one, or one for each of 2 networks. Got 1."):
        train_many(nets, [task], steps=3, rate=0.1)
    with pytest.raises(ParameterError, match="must have 4 inputs and 2 outputs for made. Got 4 and 1."):
        train_many(Networks.drawn(4, [6], 1), task, steps=3, rate=0.1)
    for make, text in (
        (lambda: Networks(weights=(np.ones((1, 3, 2)), np.ones((1, 1, 2)))), "that follow each other"),
        (lambda: Networks(weights=(np.ones((1, 3, 2)),), biases=(np.ones((1, 2)),)), "`biases` must have shapes"),
        (lambda: Networks.drawn(2, [3], activation="gelu"), "No activation named `gelu`."),
        (lambda: Networks.drawn(2, [3], start="xavier"), "`start` must be one of he, lecun, unit, torch. Got xavier."),
        (
            lambda: train_many(Networks(weights=(np.full((1, 2, 4), np.nan),)), task, steps=1, rate=1),
            "must be finite. Got nan or inf.",
        ),
    ):
        with pytest.raises((ParameterError, UnknownNameError), match=text.replace("`", ".")):
            make()


def test_without_torch_the_engine_works_and_without_jax_the_extra_is_named() -> None:
    code = """
import sys
sys.modules["torch"] = None
from richter.training import Networks, train_many
from richter.tasks import teacher_student
world = teacher_student(width=2)
start = world.student()
nets = Networks.two_layer([start.a], [start.w])
assert "jax" not in sys.modules and "xarray" not in sys.modules
if sys.argv[1] == "jax":
    train_many(nets, world.task, steps=2, rate=0.1)
    print("trained")
else:
    sys.modules["jax"] = None
    from richter.errors import MissingExtraError
    try:
        train_many(nets, world.task, steps=2, rate=0.1)
    except MissingExtraError as problem:
        print(problem)
"""
    for argument, text in (
        ("jax", "trained\n"),
        ("none", 'Training many networks needs jax, which is not installed. Type: pip install "richter[sim]"\n'),
    ):
        done = subprocess.run([sys.executable, "-c", code, argument], capture_output=True, text=True)
        assert done.stdout == text, done.stderr
