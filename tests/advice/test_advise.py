from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import richter
from richter.advice import GOALS, Advice, advise
from richter.advice.pilot import Course, judge
from richter.advice.snippet import source_of
from richter.errors import OutsideTheoryError, ParameterError, UnknownNameError
from richter.moves import OutputScale
from richter.training import mlp
from tests.advice.models import NormedCnn, images, tokens

GROUND = {"images": images, "tokens": tokens}


def regression(n: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(n, 4)
    return x, x[:, :1] * x[:, 1:2]


@pytest.fixture(scope="module")
def advised() -> Advice:
    torch.manual_seed(0)
    return advise(mlp(4, [32], 1, start="torch"), regression(), "richer", steps=30, progress=False)


@pytest.mark.parametrize(
    ("ground", "goal"), [("images", "richer"), ("tokens", "lazier"), ("tokens", "less grokking delay")]
)
def test_networks_never_seen_get_ranked_moves_and_stay_as_they_are(ground: str, goal: str) -> None:
    net, data = GROUND[ground]()
    before = {name: t.clone() for name, t in net.state_dict().items()}
    modes = [module.training for module in net.modules()]
    chance, numpys = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index]
    made = advise(net, data, goal)
    assert made.goal in GOALS and [option.rank for option in made.options] == list(range(1, len(made.options) + 1))
    assert all(torch.equal(t, before[name]) for name, t in net.state_dict().items())
    assert [module.training for module in net.modules()] == modes
    assert torch.equal(torch.get_rng_state(), chance)
    assert np.array_equal(np.random.get_state()[1], numpys)  # type: ignore[index]
    for option in made.options:
        assert option.expected is not None and option.expected.theory and option.pays and option.says
        assert option.expected.holds or option.expected.assumes
    assert json.loads(made.to_json())["goal"] == made.goal and made.table() in str(made) == repr(made)


def test_a_pilot_is_fair_leaves_no_trace_and_gives_the_same_twice() -> None:
    net, data = tokens()
    before = {name: t.clone() for name, t in net.state_dict().items()}
    modes, chance = [module.training for module in net.modules()], torch.get_rng_state()
    first, again = (advise(net, data, "lazier", steps=10, batch=16, progress=False) for _ in range(2))
    assert first.to_json().partition('"pilot"')[0] == again.to_json().partition('"pilot"')[0]
    assert all(torch.equal(t, before[name]) for name, t in net.state_dict().items())
    assert [module.training for module in net.modules()] == modes and torch.equal(torch.get_rng_state(), chance)
    assert first.pilot is not None and first.pilot["steps"] == 10 and first.pilot["compared"] == "at the same loss"
    tried = [option.measured for option in first.options if option.measured is not None]
    assert tried and sorted((m.reached for m in tried), reverse=True) == [m.reached for m in tried]


def test_the_order_without_a_pilot_is_goal_then_cost_and_the_numbers_are_the_forecasts(advised: Advice) -> None:
    torch.manual_seed(0)
    net = mlp(4, [32], 1, start="torch")
    plain = advise(net, regression(), "richer")
    there = [option for option in plain.options if option.expected and option.expected.reaches]
    assert there and list(plain.options[: len(there)]) == there
    assert [option.cost for option in there] == sorted(option.cost for option in there)
    for option in plain.options:
        assert option.expected is not None and option.expected.ratio > 1
    assert advised.best.measured is not None and advised.best.measured.reached


def test_the_rate_keeps_the_speed_of_the_starts_kernel() -> None:
    net, data = mlp(4, [16], 1, start="torch"), regression()
    for optimiser, power in (("sgd", -2), ("adam", -1)):
        made = advise(net, data, "richer", optimiser=optimiser)
        option = next(o for o in made.options if o.lever == "output-scale")
        move = option.moves[0]
        assert isinstance(move, OutputScale)
        assert option.rate == pytest.approx(move.tau**power, rel=1e-4)  # single precision
        assert option.expected is not None and (optimiser == "sgd" or option.expected.holds is False)


def test_small_embeddings_are_said_to_change_the_function() -> None:
    net, data = tokens()
    made = advise(net, data, "less-grokking-delay")
    option = next((o for o in made.options if o.lever == "small-embeddings"), None)
    if option is None:  # it would not help this start: then the reason is given
        assert any("SmallEmbeddings" in name for name in made.refused)
        net.tokens.weight.data *= 8  # type: ignore[union-attr, operator]
        option = next(o for o in advise(net, data, "richer").options if o.lever == "small-embeddings")
    assert not option.exact and option.change > 1e-3
    assert "another function" in option.pays and "function is changed" in option.keeps
    assert any("Not function-preserving" in note for note in option.notes)
    assert any("of all parameters" in note for note in option.notes)


def test_a_normed_network_is_not_told_to_scale_through_its_norms() -> None:
    made = advise(*images(), "richer")
    assert "batch_norm" in made.refused["upstream"]
    assert all("Upstream" not in option.code for option in made.options)


def test_transfer_across_width_prefers_the_feature_learning_phase_and_tells_its_limits() -> None:
    two = advise(mlp(4, [32], 1), regression(), "transfer-across-width", pilot=5)
    assert two.best.code == "Parametrise()" and two.best.expected is not None and two.best.expected.holds
    assert [o.expected.label for o in two.options if o.expected][-1] == "kernel"
    assert two.pilot is None and any("one width cannot show" in note for note in two.notes)
    deep = advise(mlp(4, [32, 32], 1), regression(), "transfer-across-width").best.expected
    assert deep is not None and not deep.holds and "3 weight layers" in deep.assumes


@pytest.mark.parametrize("goal", ["richer", "lazier", "transfer-across-width"])
def test_snippets_run_as_printed_on_the_names_they_use(goal: str) -> None:
    x, y = regression()
    made = advise(mlp(4, [32], 1, start="torch"), (x, y), goal, rate=0.05)
    for option in made.options:
        names: dict[str, Any] = {"model": mlp(4, [32], 1, start="torch"), "x": x, "y": y}
        exec(compile(option.snippet, option.code, "exec"), names)
        group = names["optimiser"].param_groups[0]
        biggest = max((1.0, *option.rates.values())) if option.rates else 1.0
        assert 0 < group["lr"] <= 0.0501 * option.rate * biggest * 1.01
        assert names["model"](x).shape == (32, 1)
        assert torch.equal(names["y"], option.targets * y)
    applied = made.best.apply(mlp(4, [32], 1), x)
    assert applied(x).shape == (32, 1)


def test_a_function_may_build_a_network_with_dropout_and_the_snippet_trains_it(tmp_path: Path) -> None:
    x, y = regression()
    np.savez(tmp_path / "data.npz", x=x.numpy(), y=y.numpy())
    made = advise(dropping, str(tmp_path / "data.npz"), "richer")
    for option in made.options:
        names: dict[str, Any] = {}
        exec(compile(option.snippet, option.code, "exec"), names)
        assert all(module.training for module in names["model"].modules())


def test_functions_and_files_are_written_into_the_snippet() -> None:
    source = source_of(NormedCnn, "data.npz")
    assert "from tests.advice.models import NormedCnn" in source.imports
    assert source.lines[0] == "model = NormedCnn().eval()" and "'data.npz'" in source.lines[1]
    unknown = source_of(lambda: nn.Linear(1, 1), ([0.0], [0.0]))
    assert unknown.lines == ("# model and x, y: as you gave them to advise",)


def course(loss: list[float], movement: list[float], diverged: bool = False) -> Course:
    blank = np.zeros(len(loss))
    return Course(np.arange(len(loss)), np.array(loss), np.array(movement), blank, blank, 1e-3, diverged)


BASE = course([1.0, 0.5, 0.25], [0.0, 0.1, 0.2])
JUDGED: list[tuple[str, Course, float, bool]] = [
    ("richer", course([1.0, 0.5, 0.25], [0.0, 0.2, 0.4]), 2.0, True),
    ("richer", course([1.0, 0.6, 0.5], [0.0, 0.1, 0.2]), 2.0, True),  # at the loss 0.5, where the other has 0.1
    ("richer", course([1.0, 0.2, 0.1], [0.0, 0.1, 0.3]), 0.0, False),  # faster, not richer: less at the loss 0.25
    ("richer", course([1.0, 0.95, 0.9], [0.0, 1.0, 2.0]), 100.0, False),  # it hardly learns
    ("lazier", course([1.0, 0.5, 0.25], [0.0, 0.05, 0.1]), 0.5, True),
    ("lazier", course([1.0, 0.98, 0.97], [0.0, 0.0, 0.0]), 0.0, False),  # lazy for lack of learning
    ("lazier", course([0.2, 0.1, 0.05], [0.0, 0.02, 0.04]), 0.2, True),  # it starts below: at the same share
    ("lazier", course([0.2, 0.2, 0.199], [0.0, 0.0, 0.0]), 0.0, False),  # it starts below, and stays there
    ("faster-features", course([1.0, 0.5, 0.1], [0.0, 0.2, 0.4]), 2.0, True),
    ("faster-features", course([1.0, 0.5, math.nan], [0.0, 9.0, 9.0], True), math.nan, False),
]


@pytest.mark.parametrize(("goal", "one", "ratio", "reached"), JUDGED)
def test_the_pilot_judges_at_the_same_loss_or_step(goal: str, one: Course, ratio: float, reached: bool) -> None:
    found = judge(goal, one, BASE)
    assert found.reached is reached
    if reached:
        assert found.ratio == pytest.approx(ratio, rel=1e-6)
    json.dumps(found.plain(), allow_nan=False)


def dropping() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 1))


def poisoned() -> nn.Module:
    net = mlp(4, [8], 1)
    net.layer1.weight.data[0, 0] = math.nan  # type: ignore[union-attr, operator]
    return net


class OneNumber(nn.Module):
    """A regression without an axis for its output."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp(4, [16], 1, start="torch")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)[:, 0]


def test_a_number_per_example_without_an_axis_is_an_output() -> None:
    x, y = regression()
    net = OneNumber()
    bare, axis = advise(net, (x, y[:, 0]), "richer"), advise(net.net, (x, y), "richer")
    assert [o.lever for o in bare.options] == [o.lever for o in axis.options]
    moved = [made.start.value("kernel_movement") for made in (bare, axis)]
    assert moved[0] == pytest.approx(moved[1], rel=1e-4)  # single precision


X, Y = torch.randn(8, 4), torch.randn(8, 1)
ERRORS: dict[str, tuple[Any, Any, dict[str, Any], type[Exception], str]] = {
    "unknown goal": (mlp(4, [8], 1), (X, Y), {"goal": "richr"}, UnknownNameError, "Did you mean richer"),
    "unknown optimiser": (mlp(4, [8], 1), (X, Y), {"optimiser": "sdg"}, UnknownNameError, "No optimiser named"),
    "unknown loss": (mlp(4, [8], 1), (X, Y), {"loss": "huber"}, UnknownNameError, "No loss named"),
    "dropout in training": (dropping(), (X, Y), {}, ParameterError, "Call model.eval"),
    "wrong width": (mlp(3, [8], 1), (X, Y), {}, ParameterError, "the inputs must be what the model takes"),
    "wrong targets": (mlp(4, [8], 2), (X, Y), {}, ParameterError, "the targets must"),
    "one target too few": (mlp(4, [8], 1), (X, Y[:7]), {}, ParameterError, "one per example"),
    "no targets": (mlp(4, [8], 1), X, {}, ParameterError, "a pair"),
    "nan inputs": (mlp(4, [8], 1), (X * math.nan, Y), {}, ParameterError, "the inputs must be finite"),
    "nan targets": (mlp(4, [8], 1), (X, Y * math.nan), {}, ParameterError, "the targets must be finite"),
    "nan weights": (poisoned(), (X, Y), {}, ParameterError, "parameter `layer1.weight` must be finite"),
    "no model": (3, (X, Y), {}, ParameterError, "be a torch model"),
    "nothing learns": (nn.ReLU(), (X, Y), {}, ParameterError, "have parameters that learn"),
    "no time": (mlp(4, [8], 1), (X, Y), {"pilot": 1e-3}, ParameterError, "suffice for two runs"),
    "negative time": (mlp(4, [8], 1), (X, Y), {"pilot": -1.0}, ParameterError, "`pilot` must be finite and > 0"),
    "nothing applies": (nn.Linear(4, 1), (X, Y), {"goal": "richer"}, OutsideTheoryError, "take at least one move"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_wrong_requests_are_told_in_one_line(name: str) -> None:
    model, data, options, kind, words = ERRORS[name]
    with pytest.raises(kind, match=words) as caught:
        advise(model, data, **options)
    assert "\n" not in str(caught.value)


def test_the_verbs_are_public() -> None:
    assert richter.advise is advise and callable(richter.predict) and callable(richter.move)
    assert {"moves", "advice", "sweep"} <= set(dir(richter))


def test_transfer_is_measured_where_networks_of_several_widths_can_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("richter.advice.transfer.WIDTHS", (16, 64, 256))
    wide = lambda width, seed: mlp(4, [width], 1, start="torch", rng=seed)
    made = advise(wide(64, 0), regression(), "transfer-across-width", wide=wide, steps=5, progress=False)
    assert made.best.measured is not None and made.best.measured.reached
    assert made.best.expected is not None and made.best.expected.label == "feature-learning"
    assert made.best.measured.movement < made.best.measured.before
    wrong: Any = lambda width, seed: 3
    with pytest.raises(ParameterError, match="one for every"):
        advise(wide(64, 0), regression(), "transfer-across-width", wide=wrong)


def test_a_large_network_is_looked_at_on_fewer_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("richter.advice.trial.LARGE", 10)
    monkeypatch.setattr("richter.advice.trial.PATIENCE", 0.0)
    made = advise(mlp(4, [16], 1), regression(), "lazier")
    assert any("on 6 examples" in note for note in made.notes)
