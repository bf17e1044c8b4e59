"""A watched loop: the numbers are those of the probes, and the loop does not notice."""

from __future__ import annotations

import copy
import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import richter
from richter import probes
from richter.errors import ParameterError, UnknownNameError
from richter.probes import LogSpaced, Recorder, neural_collapse, watch
from richter.probes.losses import Loss
from richter.probes.movement import distance
from richter.testing.tolerances import IDENTITY, assert_close, assert_slope
from richter.theory import SingleNeuron
from tests.probes.loops import Told, loop
from tests.probes.nets import Attention, Residual, mlp, small_cnn


def _data(seed: int, n: int = 24, d: int = 4, c: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(n, d, generator=g).double(), torch.randn(n, c, generator=g).double()


def test_every_variable_is_what_its_probe_says(seed: int) -> None:
    net, (x, y) = mlp(seed), _data(seed)
    before = copy.deepcopy(net)
    origin = probes.start(before, x)
    with watch(net, probe=(x, y), rate=0.05, budget=None, moments=[0, 3, 9]) as see:
        loop(net, x, y, see, 9)
    ds = see.dataset()
    assert ds.step.values.tolist() == [0, 3, 9] and ds.t.values.tolist() == pytest.approx([0, 0.15, 0.45])
    now = ds.isel(step=-1)
    with torch.no_grad():
        out = net(x)
    assert float(now.loss) == float(0.5 * (out - y).square().sum() / len(x))
    np.testing.assert_array_equal(now.output, out)
    moved = probes.parameter_distance(net, origin)
    assert float(now.parameter_distance) == moved.absolute
    assert float(now.parameter_distance_relative) == moved.relative
    for name, pair in moved.layers.items():
        assert float(now.parameter_distance_layer.sel(layer=name)) == pair[0]
        assert float(now.parameter_distance_layer_relative.sel(layer=name)) == pair[1]
    flipped = probes.hamming_distance(net, x, origin)
    assert float(now.hamming_distance) == flipped.total > 0
    assert {
        str(k): float(v) for k, v in zip(ds.activation.values, now.hamming_distance_layer, strict=True)
    } == flipped.layers
    drifted = probes.representation_drift(net, x, origin)
    assert float(now.representation_drift) == drifted.turned and float(now.representation_change) == drifted.changed
    aligned = probes.layer_alignment(net, x)
    assert [float(v) for v in now.layer_alignment] == list(aligned.values())
    assert ds.pair.values.tolist() == ["0 → 2", "2 → 4"]
    kept, first = probes.conserved(net, batch=x), probes.conserved(before, batch=x)
    np.testing.assert_array_equal(now.delta, np.concatenate(list(kept.delta.values())))
    assert ds.neuron_pair.values.tolist() == ["0 → 2"] * 7 + ["2 → 4"] * 5
    K, K0 = (probes.ntk(each, x) for each in (net, before))
    assert float(now.kernel_distance_full) == pytest.approx(float(probes.kernel_distance(K, K0)), rel=1e-9)
    assert ds.kernel_distance_full.attrs["kind"] == "full" and ds.kernel_distance_full.attrs["examples"] == "24"
    drift = probes.conserved_drift(kept, first)
    assert [float(v) for v in now.conserved_drift] == [pair[0] for pair in drift.values()]
    assert [float(v) for v in now.conserved_drift_relative] == [pair[1] for pair in drift.values()]
    assert {str(k): float(v) for k, v in zip(ds.layer.values, now.layer_norm, strict=True)} == kept.norms
    spectrum = probes.features(net, x, y)
    for name in ("intensity", "quality", "cumulative_utilisation", "minimum_projection_distance"):
        np.testing.assert_allclose(now[name], spectrum[name], rtol=1e-9, atol=1e-12)  # another way to the spectrum
    assert ds.loss.attrs["long_name"] and ds.loss.attrs["loss"].startswith("½ · mean")
    assert "neural_collapse" in ds.attrs["left_out"] and ds.attrs["problems"] == "" and ds.attrs["ended"] == "done"
    at_start = ds.isel(step=0)
    for name in ("parameter_distance", "hamming_distance", "conserved_drift", "predicted_drift", "unexplained_drift"):
        assert not np.any(at_start[name].values), f"{name} must be 0 at the start"
        assert np.all(now[name].values > 0), f"{name} must not stay 0"


def test_classes_give_collapse_and_cross_entropy(seed: int) -> None:
    net, (x, _) = mlp(seed, (4, 6, 3)), _data(seed)
    labels = torch.arange(24) % 3
    see = watch(net, probe=(x, labels))
    with torch.no_grad():
        phi, out = net[:2](x).numpy(), net(x)
    ds = see.dataset().isel(step=0)
    assert float(ds.loss) == pytest.approx(float(nn.functional.cross_entropy(out, labels)), rel=1e-13)
    made = neural_collapse(phi, labels.numpy(), net[2].weight.detach().numpy(), net[2].bias.detach().numpy())
    for name in ("within_over_between", "equinorm", "equiangle", "duality", "disagreement"):
        assert float(ds[name]) == made[name]
    assert ds.duality.attrs["imbalance"] == "1"
    named = watch(net, probe=(x, labels), layer="0").dataset().isel(step=0)
    assert float(named.equinorm) != float(ds.equinorm) and "duality" not in named.dropna("mode", how="all").coords
    assert np.isnan(named.duality) if "duality" in named else True
    # The squared losses take classes as indicators.
    square = watch(net, probe=(x, labels), loss="half-sum", measure=["loss"]).dataset()
    onehot = nn.functional.one_hot(labels, 3)
    assert float(square.loss[0]) == pytest.approx(float(0.5 * (out - onehot).square().sum()), rel=1e-13)
    own = watch(net, probe=(x, labels), loss=lambda f, y: f.sum() + y.sum(), measure=["loss"]).dataset()
    assert float(own.loss[0]) == pytest.approx(float(out.sum()) + 24, rel=1e-12)


@pytest.mark.parametrize("kind", ["mlp", "cnn", "residual", "dropout"])
def test_the_loop_does_not_notice_that_it_is_watched(kind: str, seed: int) -> None:
    def run(watched: bool) -> dict[str, torch.Tensor]:
        torch.manual_seed(seed)
        net: Any = {"mlp": mlp, "cnn": small_cnn, "residual": Residual}.get(kind, lambda s: None)(seed)
        if net is None:
            net = nn.Sequential(
                nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.ReLU(), nn.Linear(6, 2)
            ).double()
        net.train()
        x, y = _data(seed) if kind != "cnn" else (_data(seed, 9, 128)[0].reshape(9, 2, 8, 8), _data(seed, 9, 4, 3)[1])
        see = watch(net, probe=(x, y), rate=0.05, budget=None) if watched else None
        loop(net, x, y, see, 12)
        assert all(module.training for module in net.modules())
        return {name: value.clone() for name, value in net.state_dict().items()}

    bare, watched = run(False), run(True)
    assert all(torch.equal(value, watched[name]) for name, value in bare.items())


def _neuron_run(h: float, seconds: float) -> tuple[Any, Any]:
    """A network a w·x on whitened data, trained in steps of h, and the exact theory at the same times."""
    start: dict[str, Any] = {"a0": 0.7, "w0": [-0.4, 0.3], "beta_star": [0.6, 1.1]}
    net: Any = nn.Sequential(nn.Linear(2, 1, bias=False), nn.Linear(1, 1, bias=False)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([start["w0"]], dtype=torch.float64))
        net[1].weight.fill_(start["a0"])
    x, y = torch.eye(2).double(), torch.tensor(start["beta_star"], dtype=torch.float64)[:, None]
    looks = [round(t / h) for t in np.linspace(0, seconds, 7)]
    steps = looks[-1]
    with watch(net, probe=(x, y), rate=h, loss="half-sum", budget=None, moments=looks) as see:
        optimiser = torch.optim.SGD(net.parameters(), lr=h)
        for step in range(steps):
            optimiser.zero_grad()
            loss = 0.5 * (net(x) - y).square().sum()
            loss.backward()
            optimiser.step()
            see(step + 1, loss)
    ds = see.dataset()
    return ds, SingleNeuron(**start).solve(ds.t.values)


def test_a_trained_network_has_the_variables_of_the_theory_at_first_order_in_the_step() -> None:
    steps = [0.02, 0.01, 0.005]
    gaps: dict[str, list[float]] = {"loss": [], "delta": [], "predicted_drift": [], "kernel_distance": []}
    for h in steps:
        ds, exact = _neuron_run(h, 3.0)
        gaps["loss"].append(float(np.abs(ds.loss - exact.loss.values).max()))
        gaps["delta"].append(float(np.abs(ds.delta[:, 0] - exact.delta.values).max()))
        gaps["kernel_distance"].append(float(np.abs(ds.kernel_distance_full - exact.kernel_distance.values).max()))
        assert float(exact.kernel_distance[-1]) > 0.1  # there is something to measure
        gaps["predicted_drift"].append(float(ds.predicted_drift.max()))
        assert float(ds.loss[0]) == pytest.approx(float(exact.loss[0]), rel=1e-14)
        assert_close(ds.delta_predicted.values, ds.delta.values, IDENTITY, scale=1.0)
    for name, values in gaps.items():
        assert_slope(steps, values, 1, says=name)


def test_the_time_is_the_sum_of_the_rates(seed: int) -> None:
    net, (x, _) = mlp(seed), _data(seed)
    rate = lambda step: 0.1 / (1 + step)
    see = watch(net, probe=x, rate=rate, measure=["parameter_distance"], moments=[0, 2, 5], budget=None)
    for step in range(1, 6):
        see(step)
    sums = np.cumsum([0, *(rate(k) for k in range(5))])
    np.testing.assert_allclose(see.dataset().t, sums[[0, 2, 5]], rtol=1e-14)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.2)
    see = watch(net, probe=x, optimiser=optimiser, measure=["parameter_distance"], budget=None)
    see(1)
    optimiser.param_groups[0]["lr"] = 0.1
    see(2)
    ds = see.dataset()
    np.testing.assert_allclose(ds.t, [0, 0.2, 0.3], rtol=1e-14)
    assert ds.attrs["rate"] == "optimiser_rate"
    see = watch(net, probe=x, measure=["parameter_distance"])
    see(1)
    ds = see.dataset()
    assert np.isnan(ds.t).all() and ds.attrs["rate"] == "none given" and "undefined_when" in ds.t.attrs


def test_layer_rates_come_from_the_optimiser(seed: int) -> None:
    net, (x, y) = mlp(seed, (4, 6, 2)), _data(seed)
    groups = [{"params": net[0].parameters(), "lr": 0.02}, {"params": net[2].parameters(), "lr": 0.08}]
    optimiser = torch.optim.SGD(groups)
    with watch(net, probe=(x, y), optimiser=optimiser, budget=None) as see:
        loop(net, x, y, see, 60, optimiser=optimiser)
    ds = see.dataset()
    first = probes.conserved(mlp(seed, (4, 6, 2)), {"0": 1.0, "2": 4.0}, x)
    np.testing.assert_allclose(ds.delta[0], first.delta["0", "2"], rtol=1e-12)
    assert float(ds.conserved_drift[-1, 0]) > 1e-6
    assert float(ds.unexplained_drift.max()) < 1e-12  # of numbers of size 1
    assert ds.attrs["gradients_seen"] == 60
    # Taken for equal rates, the same run breaks the law.
    plain = mlp(seed, (4, 6, 2))
    groups = [{"params": plain[0].parameters(), "lr": 0.02}, {"params": plain[2].parameters(), "lr": 0.08}]
    with watch(plain, probe=(x, y), rate=0.02, budget=None) as see:
        loop(plain, x, y, see, 60, optimiser=torch.optim.SGD(groups))
    assert float(see.dataset().unexplained_drift.max()) > 1e-3


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda p: torch.optim.Adam(p), "Adam is not plain gradient descent"),
        (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1), "has momentum and weight_decay"),
    ],
)
def test_other_dynamics_have_no_predicted_drift(make: Any, says: str, seed: int) -> None:
    net, (x, y) = mlp(seed), _data(seed)
    with watch(net, probe=(x, y), optimiser=make(net.parameters())) as see:
        loop(net, x, y, see, 3)
    ds = see.dataset()
    assert "predicted_drift" not in ds and says in ds.attrs["left_out"] and "conserved_drift" in ds


def test_a_loss_level_is_a_moment_and_a_loss_that_is_not_finite_is_one(seed: int) -> None:
    net, (x, _) = mlp(seed), _data(seed)
    see = watch(net, probe=x, measure=["parameter_distance"], budget=None)
    losses = {55: 0.4, 56: 0.4, 70: math.nan, 71: math.nan, 72: math.inf}
    for step in range(1, 90):
        see(step, losses.get(step, 1.0))
    ds = see.dataset()
    seen = set(ds.step.values.tolist())
    assert {55, 70} <= seen and not {54, 56, 71, 72} & seen
    assert float(ds.batch_loss.sel(step=55)) == 0.4 and np.isnan(ds.batch_loss.sel(step=70))
    assert ds.attrs["diverged_at"] == 70
    see(90, torch.tensor(0.1, requires_grad=True))
    assert 90 in see.dataset().step
    with pytest.raises(ParameterError, match=r"`loss` must be one number\. Got Tensor\."):
        see(91, torch.ones(2))


def test_parameters_that_are_not_finite_are_noted_and_the_loop_goes_on(seed: int) -> None:
    net, (x, y) = mlp(seed), _data(seed)
    with pytest.warns(RuntimeWarning) as caught, watch(net, probe=(x, y), budget=None, moments=[0, 1, 2, 3]) as see:
        see(1)
        with torch.no_grad():
            net[2].weight[0, 0] = math.nan
        see(2)
        see(3)
    texts = [str(w.message) for w in caught]
    assert "not recorded: parameter_distance at step 2: the values of `2.weight` must be finite" in " ".join(texts)
    assert len(texts) == len(set(texts)) and all("\n" not in text for text in texts)  # once each, in one line
    ds = see.dataset()
    assert ds.step.values.tolist() == [0, 1, 2, 3] and "`2.weight`" in ds.attrs["problems"]
    assert np.isfinite(ds.parameter_distance[:2]).all() and np.isnan(ds.parameter_distance[2:]).all()
    assert np.isnan(ds.loss[2]) and ds.attrs["ended"] == "done"
    with pytest.raises(ParameterError, match="the values of `0.weight` must be finite. Got 1 of"):
        broken = mlp(seed)
        with torch.no_grad():
            broken[0].weight[0, 0] = math.inf
        watch(broken, probe=x)


def test_a_strict_watch_raises_and_a_lenient_one_does_not(seed: int) -> None:
    net, (x, _) = mlp(seed), _data(seed)
    calls: list[int] = []

    def breaks(model: nn.Module) -> float:
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("broken\non purpose")
        return float(len(calls))

    see = watch(net, probe=x, measure=[Told(breaks)], budget=None)
    with pytest.warns(RuntimeWarning, match=r"^not recorded: told at step 1: RuntimeError: broken$"):
        see(1)
    see(2)
    assert see.dataset().told.values.tolist()[::2] == [1, 3] and np.isnan(see.dataset().told[1])
    calls.clear()
    see = watch(net, probe=x, measure=[Told(breaks)], budget=None, strict=True)
    with pytest.raises(RuntimeError, match="broken"):
        see(1)


class _Slow(nn.Module):
    """Counts how often it is run."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.runs = nn.Linear(4, 2).double(), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.runs += 1
        return self.layer(x)


def test_one_look_runs_the_model_once_for_outputs_and_features(seed: int) -> None:
    net, (x, _) = _Slow(), _data(seed)
    labels = torch.arange(24) % 2
    names = ["loss", "output", "representation_drift", "features", "neural_collapse"]
    see = watch(net, probe=(x, labels), measure=names, budget=None)
    net.runs = 0
    see(1)
    whole = net.runs
    see = watch(net, probe=(x, labels), measure=names[:1], budget=None)
    net.runs = 0
    see(1)
    assert whole <= net.runs + 2  # what finds the last layer is run with two examples


def test_a_call_without_a_step_counts_on(seed: int) -> None:
    net, (x, _) = mlp(seed), _data(seed)
    see = watch(net, probe=x, measure=["parameter_distance"], budget=None, moments=LogSpaced(1))
    looks = [see() for _ in range(10)]
    assert looks == [True, *[False] * 8, True]
    assert not see(10) and see.dataset().step.values.tolist() == [0, 1, 10]
    with pytest.raises(ParameterError, match=r"`step` must not go back; it was 10\. Got 9\."):
        see(9)
    with pytest.raises(ParameterError, match=r"`step` must be a whole number ≥ 0\. Got 1\.5\."):
        see(1.5)  # type: ignore[arg-type]
    see(12)
    see.close()
    assert see.dataset().step.values.tolist() == [0, 1, 10, 12]
    see.close()
    assert see.dataset().step.values.tolist() == [0, 1, 10, 12]


def test_the_budget_leaves_out_looks_but_never_the_first_and_the_last(seed: int) -> None:
    net, (x, y) = mlp(seed), _data(seed)
    with watch(net, probe=(x, y), rate=0.01, budget=1e-7) as see:
        loop(net, x, y, see, 50)
    ds = see.dataset()
    assert ds.step.values.tolist() == [0, 50] and ds.attrs["budget"] == 1e-7 < ds.attrs["overhead"]
    assert all(
        np.isfinite(v).all() for name, v in ds.data_vars.items() if v.dims != ("step", "mode") and name != "batch_loss"
    )
    assert ds.attrs["seconds_watching"] > 0 < ds.attrs["seconds_training"] and ds.attrs["gradients_seen"] <= 50


def test_wrapped_models_are_seen_through(seed: int) -> None:
    net, (x, y) = mlp(seed), _data(seed)
    wrapped = nn.DataParallel(net)
    ds = watch(wrapped, probe=(x, y)).dataset()
    assert ds.layer.values.tolist()[:3] == ["0", "2", "4"]

    class Compiled(nn.Module):  # what torch.compile returns looks so
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self._orig_mod = inner

    assert watch(Compiled(net), probe=(x, y)).dataset().layer.values.tolist()[:3] == ["0", "2", "4"]


def test_sequences_have_a_loss_at_every_position(seed: int) -> None:
    class Scores(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(11, 8), nn.Linear(8, 11)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.head(self.embed(tokens))

    torch.manual_seed(seed)
    net, tokens = Scores(), torch.randint(0, 11, (6, 5))
    ds = watch(net, probe=(tokens, tokens.roll(-1, 1))).dataset()
    expected = nn.functional.cross_entropy(net(tokens).flatten(0, 1), tokens.roll(-1, 1).flatten())
    assert float(ds.loss[0]) == pytest.approx(float(expected.detach()), rel=1e-6)  # a float32 network
    assert ds.output.shape == (1, 6, 55)
    attention = Attention(seed)
    made = watch(attention, probe=(tokens, torch.arange(6) % 3)).dataset()
    assert "layer_alignment" in made and "multi_head_attention" in made.layer_alignment.attrs["excluded"]


def test_the_kernel_is_of_one_kind_and_of_so_many_examples(seed: int) -> None:
    net, (x, y) = mlp(seed), _data(seed)
    options: dict[str, Any] = {"probe": (x, y), "rate": 0.05, "budget": None, "kernel_points": 5}
    with watch(net, **options, kernel="trace") as see:
        loop(net, x, y, see, 4)
    ds = see.dataset()
    K, K0 = (probes.ntk(each, x[:5], outputs="trace") for each in (net, mlp(seed)))
    assert float(ds.kernel_distance_trace[-1]) == pytest.approx(float(probes.kernel_distance(K, K0)), rel=1e-9)
    assert ds.kernel_change_trace.attrs["examples"] == "5" and "kernel_distance_full" not in ds
    rates = {"0": 0.0, "2": 1.0, "4": 3.0}
    with watch(mlp(seed), **options, rates=rates) as see:
        loop(see.model, x, y, see, 2)
    K, K0 = (probes.ntk(each, x[:5], rates=rates) for each in (see.model, mlp(seed)))
    distance = float(see.dataset().kernel_distance_full[-1])
    assert distance == pytest.approx(float(probes.kernel_distance(K, K0)), rel=1e-9)
    assert not [name for name in watch(net, probe=x, kernel=None).dataset() if "kernel" in str(name)]
    big = nn.Linear(4, 100).double()
    assert (
        "at most 2048 outputs on its examples (they have 3200)"
        in watch(big, probe=_data(seed, 64)[0], kernel="full").dataset().left_out
    )


def test_outputs_that_are_too_many_are_left_out(seed: int) -> None:
    net, (x, _) = mlp(seed), _data(seed, 6000)
    ds = watch(net, probe=x).dataset()
    assert "output" not in ds and "output: needs at most 10000 outputs (it has 12000)" in ds.attrs["left_out"]


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"measure": ["hamming"]}, UnknownNameError, r"No probe named `hamming`\. Did you mean hamming_distance\? Known: "),
    (
        {"measure": "loss"},
        ParameterError,
        r"`measure` must be a list of names and probes\. Got loss\. Use \['loss'\]\.",
    ),
    ({"measure": ["neural_collapse"]}, ParameterError, "must have a whole number per example as its class"),
    ({"measure": [Loss(), Loss("mse")]}, ParameterError, r"the names of the probes must differ\. Got loss, loss\."),
    ({"measure": []}, ParameterError, "the probes must measure something"),
    ({"layer": "9"}, UnknownNameError, r"The model has no layer `9`\. (Did you mean .*\? )?Known: 0, 1, 2, 3, 4\."),
    ({"rates": {"last": 1.0}}, UnknownNameError, "The model has no layer or parameter `last`"),
    ({"loss": "mee"}, UnknownNameError, r"No loss named `mee`\. Did you mean mse\?"),
    (
        {"budget": 0.0},
        ParameterError,
        r"`budget` must be a share of the time, above 0 and at most 1, or None\. Got 0\.0",
    ),
    ({"rate": -0.1}, ParameterError, r"`rate` must be finite and > 0, a function of the step, or None\. Got -0\.1\."),
    ({"moments": 7}, ParameterError, r"a number of `moments` must come with the number of steps"),
    (
        {"probe": "x"},
        ParameterError,
        r"the batch must be a tensor or an \(inputs, labels\) pair of tensors\. Got str\.",
    ),
    ({"kernel": "diagonal"}, ParameterError, r"`kernel` must be one of auto, full, trace, or None\. Got diagonal\."),
    ({"kernel_points": 0}, ParameterError, r"`kernel_points` must be a whole number ≥ 1\. Got 0\."),
    ({"file": "run.csv"}, OSError, r"the file of a record must end in \.nc\. Got run\.csv\."),
    ({"file": "nowhere/run.nc"}, OSError, r"the folder of the file must exist\. Got nowhere\."),
]


@pytest.mark.parametrize(("given", "error", "text"), WRONG, ids=lambda value: str(value)[:30])
def test_wrong_calls_are_one_line(given: dict[str, Any], error: type[Exception], text: str, seed: int) -> None:
    net, (x, y) = mlp(seed), _data(seed)
    with pytest.raises(error, match=text) as caught:
        watch(net, **{"probe": (x, y), **given})
    assert "\n" not in str(caught.value)


def test_a_probe_that_does_not_fit_the_model_is_one_line(seed: int) -> None:
    net, (x, y) = mlp(seed), _data(seed)
    with pytest.raises(
        ParameterError, match=r"the batch must be on the model's device, cpu\. Got meta\. Use batch\.to"
    ):
        watch(net, probe=x.to("meta"))
    with pytest.raises(
        ParameterError, match=r"inputs must be of the model's type, torch\.float64\. Got torch\.float32\."
    ):
        watch(net, probe=x.float())
    with pytest.raises(
        ParameterError, match=r"the probe's targets must be one per example, 24\. Got shape \(23, 2\)\."
    ):
        watch(net, probe=(x, y[1:]))
    with pytest.raises(ParameterError, match=r"`probe` must be inputs or an \(inputs, targets\) pair\. Got 3 things\."):
        watch(net, probe=(x, y, y))
    with pytest.raises(ParameterError, match=r"the model must be a torch module\. Got function\."):
        watch(lambda x: x, probe=x)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="`rate` and `rates` must be left to the optimiser, or it to them"):
        watch(net, probe=x, rate=0.1, optimiser=torch.optim.SGD(net.parameters(), lr=0.1))
    with pytest.raises(ParameterError, match=r"the targets must have shape \(24, 2\)\. Got \(24, 1\)\."):
        watch(net, probe=(x, y[:, :1]))
    wanted = r"the network's output must have the shape \(24, 1\)\. Got shape \(24, 2\)\."
    with pytest.raises(ParameterError, match=wanted):
        watch(net, probe=(x, y[:, :1]), measure=["loss"])


def test_a_recorder_can_be_used_without_watch_and_starts_at_the_first_step_seen(seed: int) -> None:
    net, (x, y) = mlp(seed), _data(seed)
    recorder = Recorder([Loss("mse"), Told(lambda model: model.training)], (x, y), rate=1, budget=None)
    net.train()
    assert recorder.see(7, net) and not recorder.see(7, net) and recorder.see(10, net)
    ds = recorder.dataset()
    assert ds.step.values.tolist() == [7, 10] and ds.t.values.tolist() == [7, 10]
    assert ds.told.values.tolist() == [0, 0] and net.training  # measured in evaluation mode


def test_watch_is_a_name_of_the_package_and_there_are_few_such_names() -> None:
    assert richter.watch is watch
    assert len(richter.__all__) <= 12 and "watch" in richter.__all__
    for name in richter.__all__:
        assert getattr(richter, name) is not None
    with pytest.raises(AttributeError, match="module 'richter' has no attribute 'wacth'; it has .*watch"):
        richter.wacth  # noqa: B018


def test_a_watched_loop_warns_of_nothing(seed: int) -> None:
    net, (x, y) = mlp(seed), _data(seed)
    with warnings.catch_warnings(), watch(net, probe=(x, y), rate=0.05) as see:
        warnings.simplefilter("error")
        loop(net, x, y, see, 30)
    assert distance({"a": np.ones(1)}, {"a": np.ones(1, np.float32)}).absolute == 0
