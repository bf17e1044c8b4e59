"""The training loop: what it computes, that it is repeatable, and what it says when a run diverges."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")

import torch  # noqa: E402

from richter.errors import DivergenceError, ParameterError, UnknownNameError  # noqa: E402
from richter.tasks import Task, digits, gaussian_classes, step  # noqa: E402
from richter.testing.tolerances import IDENTITY, assert_close  # noqa: E402
from richter.theory import SingleNeuron  # noqa: E402
from richter.theory.discrete import descend  # noqa: E402
from richter.training import mlp, score, train, two_layer  # noqa: E402


def linear_task(seed: int, n: int = 12, d: int = 3) -> Task:
    rng = np.random.default_rng([seed, 5])
    return Task(
        inputs=rng.standard_normal((n, d)), targets=rng.standard_normal(n),
        test_inputs=rng.standard_normal((4, d)), test_targets=rng.standard_normal(4), name="linear",
    )  # fmt: skip


def test_full_batch_steps_are_the_theorys_gradient_descent(seed: int) -> None:
    task = linear_task(seed).whiten()
    beta = (task.inputs.T @ task.targets)[:, 0]
    rng = np.random.default_rng([seed, 6])
    a, w = rng.standard_normal(), rng.standard_normal(3)
    theory = SingleNeuron(a0=a, w0=w, beta_star=beta, eta_a=0.5, eta_w=2.0)
    expected = descend(theory, 0.05, [0, 1, 40])
    model = two_layer([a], w[None], activation="linear", dtype=torch.float64)
    rates = {"layer1": 2.0, "layer2": 0.5}
    seen: dict[int, Any] = {}
    keep = lambda at, net: seen.update({at: [p.detach().clone().numpy() for p in net.parameters()]})
    train(model, task, steps=40, rate=0.05, loss="half-sum", layer_rates=rates, moments=[0, 1, 40], on_moment=keep)
    for i, at in enumerate((0, 1, 40)):
        assert_close(seen[at][0][0], expected.w.values[i], IDENTITY, scale=1.0, times=10)  # 40 steps add up
        assert_close(seen[at][1][0], expected.a.values[i : i + 1], IDENTITY, scale=1.0, times=10)  # 40 steps add up


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam", "adamw"])
def test_the_optimisers_are_their_formulas(seed: int, name: str) -> None:
    task = linear_task(seed)
    x, y, w = task.inputs, task.targets[:, 0], np.random.default_rng(seed).standard_normal(3)
    model = torch.nn.Linear(3, 1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        model.weight.copy_(torch.tensor(w))
    rate, decay = (lambda k: 0.1 / (1 + k)), 0.01
    run = train(model, task, steps=7, rate=rate, optimiser=name, momentum=0.8, weight_decay=decay)
    first, second, losses = np.zeros(3), np.zeros(3), []
    for k in range(7):
        losses.append(0.5 * np.mean((x @ w - y) ** 2))
        g = x.T @ (x @ w - y) / len(y)
        if name == "adamw":
            w = w * (1 - rate(k) * decay)
        else:
            g = g + decay * w
        if name in ("sgd", "momentum"):
            first = (0.8 if name == "momentum" else 0.0) * first + g
            w = w - rate(k) * first
        else:
            first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g * g
            size = np.sqrt(second / (1 - 0.999 ** (k + 1))) + 1e-8
            w = w - rate(k) * first / (1 - 0.9 ** (k + 1)) / size
    assert_close(model.weight.detach().numpy()[0], w, IDENTITY, scale=1.0)
    assert_close(run.losses, losses, IDENTITY, scale=1.0)


def test_an_epoch_sees_each_example_once_and_the_next_in_another_order(seed: int) -> None:
    task = step(11, rng=seed)
    model = mlp(1, [3])
    seen: list[list[float]] = []
    model.register_forward_pre_hook(lambda module, given: seen.append(given[0][:, 0].tolist()))
    train(model, task, steps=6, rate=0.1, batch=5, rng=seed)  # two batches of 5 per epoch, one example left out
    epochs = [sum(seen[i : i + 2], []) for i in (0, 2, 4)]
    values = set(task.inputs[:, 0].astype(np.float32).tolist())
    for epoch in epochs:
        assert len(set(epoch)) == 10 and set(epoch) <= values
    assert epochs[0] != epochs[1] != epochs[2]


class Dropping(torch.nn.Module):
    """A network with dropout and batch normalisation: it draws numbers and keeps running means."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            self.make()

    def make(self) -> None:
        self.norm, self.drop, self.layer = torch.nn.BatchNorm1d(10), torch.nn.Dropout(0.5), torch.nn.Linear(10, 3)
        with torch.no_grad():
            self.layer.weight.copy_(torch.linspace(-1, 1, 30).view(3, 10))
            self.layer.bias.zero_()

    def forward(self, x: Any) -> Any:
        return self.layer(self.drop(self.norm(x)))


def dropping(seed: int, **more: Any) -> tuple[Any, dict[str, Any]]:
    model = Dropping()
    given = {"steps": 12, "rate": 0.05, "batch": 8, "loss": "cross-entropy", "rng": seed, **more}
    run = train(model, gaussian_classes(40, rng=seed), **given)
    return run, {name: value.clone() for name, value in model.state_dict().items()}


def test_the_same_call_gives_the_same_bits_whatever_else_draws(seed: int) -> None:
    before = torch.random.get_rng_state()
    run, state = dropping(seed)
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(seed + 5)
    again, same = dropping(seed, on_moment=lambda at, model: torch.rand(3))
    torch.random.set_rng_state(before)
    np.testing.assert_array_equal(run.losses, again.losses)
    assert all(torch.equal(value, same[name]) for name, value in state.items())
    other, _ = dropping(seed + 1)
    assert (other.losses != run.losses).any()
    # Another order alone changes the run as well.
    task, orders = step(20, rng=seed), []
    for rng in (seed, seed + 1):
        orders.append(train(mlp(1, [4]), task, steps=9, rate=0.1, batch=4, rng=rng).losses)
    assert (orders[0] != orders[1]).any()


def test_dropout_draws_anew_at_every_step(seed: int) -> None:
    model, task = Dropping(), gaussian_classes(40, rng=seed)
    kept: list[Any] = []
    model.drop.register_forward_hook(lambda module, given, made: kept.append(made[0] != 0))
    train(model, task, steps=3, rate=1e-9, loss="cross-entropy", rng=seed)
    assert not torch.equal(kept[0], kept[1]) and not torch.equal(kept[1], kept[2])


def test_moments_see_the_model_before_the_step_and_in_evaluation_mode(seed: int) -> None:
    model, seen = Dropping(), []
    model.drop.eval()
    look = lambda at, net: seen.append((at, net.training, float(net.layer.bias.detach().abs().sum())))
    train(model, gaussian_classes(20, rng=seed), steps=5, rate=0.1, moments=[0, 2, 5], on_moment=look)
    assert [at for at, _, _ in seen] == [0, 2, 5] and not any(training for _, training, _ in seen)
    assert seen[0][2] == 0 and seen[1][2] > 0
    assert model.training and not model.drop.training  # as it came


def test_zero_steps_only_look() -> None:
    seen: list[int] = []
    model = mlp(1, [2])
    run = train(model, step(3), steps=0, rate=1.0, on_moment=lambda at, net: seen.append(at))
    assert seen == [0] and run.losses.shape == (0,)


def test_a_diverging_run_is_one_line_that_says_what_to_change(seed: int) -> None:
    task = linear_task(seed)
    sharpest = np.linalg.eigvalsh(task.inputs.T @ task.inputs / 12).max()
    model = torch.nn.Linear(3, 1, bias=False, dtype=torch.float64)
    torch.nn.init.zeros_(model.weight)
    with pytest.raises(DivergenceError) as caught:
        train(model, task, steps=10_000, rate=3 / sharpest)
    text = str(caught.value)
    assert "\n" not in text and "the loss must stay finite and bounded. Got " in text
    assert f"Lower rate={3 / sharpest:g}, for example to {0.3 / sharpest:.3g}" in text and "go_on=True" in text
    torch.nn.init.zeros_(model.weight)
    run = train(model, task, steps=2000, rate=3 / sharpest, go_on=True)
    assert run.diverged_at is not None and f"at step {run.diverged_at} " in text
    assert not math.isfinite(run.losses[-1])
    # The step named is the first beyond 10⁶ times the loss of the zero network, which is the start here.
    bound = 1e6 * run.losses[0]
    assert run.losses[run.diverged_at] > bound >= run.losses[run.diverged_at - 1]


def test_a_loss_that_is_not_finite_from_the_start_is_noticed() -> None:
    model = mlp(1, [2])
    with torch.no_grad():
        model.get_parameter("layer1.weight").fill_(math.nan)
    with pytest.raises(DivergenceError, match=r"Got nan at step 0 \(at the start nan\)\. Lower rate=0\.1,"):
        train(model, step(4), steps=5, rate=0.1)


def test_a_steep_start_that_then_learns_is_not_a_divergence_control(seed: int) -> None:
    task = linear_task(seed)
    model = torch.nn.Linear(3, 1, bias=False, dtype=torch.float64)
    with torch.no_grad():
        model.weight.copy_(torch.tensor(np.linalg.lstsq(task.inputs, task.targets)[0].T))
    # From the optimum, where the loss cannot fall, a run may rise a little without being stopped.
    run = train(model, task, steps=200, rate=0.01, batch=2, rng=seed)
    assert run.diverged_at is None and np.isfinite(run.losses).all()


def test_a_first_batch_that_is_fitted_already_does_not_make_the_rest_a_divergence() -> None:
    task = Task(
        inputs=np.eye(2), targets=np.array([0.0, 1.0]), test_inputs=np.eye(2), test_targets=np.ones(2), name="two"
    )
    first = []
    for rng in range(8):
        model = torch.nn.Linear(2, 1, bias=False, dtype=torch.float64)
        torch.nn.init.zeros_(model.weight)
        run = train(model, task, steps=6, rate=0.1, batch=1, rng=rng)
        first.append(float(run.losses[0]))
        assert run.losses.max() == 0.5
    assert set(first) == {0.0, 0.5}


def test_a_batch_of_the_half_sum_moves_as_far_as_all_examples_would(seed: int) -> None:
    task, made = linear_task(seed), []
    for loss, rate in (("half-sum", 0.01), ("mse", 0.12)):  # a sum over 12 examples, a mean over them
        model = torch.nn.Linear(3, 1, bias=False, dtype=torch.float64)
        torch.nn.init.ones_(model.weight)
        train(model, task, steps=9, rate=rate, batch=4, loss=loss, rng=seed)
        made.append(model.weight.detach().numpy())
    assert_close(made[0], made[1], IDENTITY, scale=1.0)


@pytest.mark.parametrize(
    ("more", "error", "text"),
    [
        ({"rate": 0.0}, ParameterError, "`rate` must be finite and > 0, or a function of the step. Got 0.0."),
        ({"steps": -1}, ParameterError, "`steps` must be a whole number ≥ 0. Got -1."),
        ({"batch": 5}, ParameterError, "`batch` must be a whole number from 1 to 4. Got 5."),
        ({"optimiser": "adan"}, UnknownNameError, "No optimiser named `adan`. Did you mean adam?"),
        ({"momentum": 1.0}, ParameterError, "`momentum` must be at least 0 and below 1. Got 1.0."),
        ({"weight_decay": -1.0}, ParameterError, "`weight_decay` must be finite and ≥ 0. Got -1.0."),
        ({"layer_rates": {"layer9": 1.0}}, UnknownNameError, "No parameter of the model begins with `layer9`. Did you"),
        (
            {"layer_rates": {"layer1": -1.0}},
            ParameterError,
            "the layer rate of layer1 must be finite and ≥ 0. Got -1.0",
        ),
        ({"every": 0}, ParameterError, "`every` must be a whole number ≥ 1. Got 0."),
    ],
)
def test_wrong_calls_are_one_line(more: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        train(mlp(1, [2]), step(4), **{"steps": 3, "rate": 0.1, **more})


def test_a_model_without_parameters_to_learn_is_refused() -> None:
    model = mlp(1, [2])
    model.requires_grad_(False)
    with pytest.raises(ParameterError, match="the model must have parameters that require a gradient. Got none."):
        train(model, step(4), steps=1, rate=0.1)
    model.get_submodule("layer2").requires_grad_(True)
    first = model.get_parameter("layer1.weight")
    before = first.clone()
    train(model, step(4), steps=3, rate=0.1)
    assert torch.equal(first, before)


def test_a_small_network_learns_to_read_the_digits() -> None:
    task = digits()
    model = mlp(64, [64], 10)
    train(model, task, steps=400, rate=0.05, optimiser="momentum", batch=64, loss="cross-entropy")
    reached = score(model, task, loss="cross-entropy")
    assert reached.accuracy > 0.98 and reached.test_accuracy > 0.93


def test_the_bar_is_shown_when_asked_for_and_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    train(mlp(1, [2]), step(4), steps=3, rate=0.1)
    assert capsys.readouterr() == ("", "")
    train(mlp(1, [2]), step(4), steps=3, rate=0.1, progress=True)
    out, err = capsys.readouterr()
    assert not out and "training on step" in err and "3/3" in err


def test_without_torch_the_extra_is_named_and_tasks_still_work() -> None:
    code = """
import sys
sys.modules["torch"] = None
from richter.tasks import digits, teacher_student
digits(), teacher_student()
assert not {"scipy", "xarray", "pooch"} & set(sys.modules)
from richter.errors import MissingExtraError
import richter.training
try:
    from richter.training import train
except MissingExtraError as problem:
    print(problem)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == 'Training needs torch, which is not installed. Type: pip install "richter[torch]"\n', (
        done.stderr
    )


def test_the_longest_name_decides_a_layers_rate() -> None:
    model = mlp(2, [3])
    rates = {"layer1.bias": 3.0, "layer1": 0.0}
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    train(model, linear_task(0, d=2), steps=1, rate=0.1, layer_rates=rates)
    moved = {name: not torch.equal(p, before[name]) for name, p in model.named_parameters()}
    assert moved == {"layer1.weight": False, "layer1.bias": True, "layer2.weight": True, "layer2.bias": True}
