"""What a user gets wrong is said in one line that names the layer: by `watch`, by `measure` and by the command."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra torch")

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402

import richter  # noqa: E402
from richter.cli import main  # noqa: E402
from richter.errors import RichterError  # noqa: E402

NETS = """
from collections import OrderedDict
from torch import nn
import torch


class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = good()

    def forward(self, x):
        return {"scores": [self.net(x)]}


def good():
    layers = dict(first=nn.Linear(6, 8), act=nn.ReLU(), drop=nn.Dropout(0.5), last=nn.Linear(8, 3))
    return nn.Sequential(OrderedDict(layers))


def dead():
    net = good()
    with torch.no_grad():
        net.first.weight.zero_()
        net.first.bias.fill_(-1.0)
    return net


def nan():
    net = good()
    with torch.no_grad():
        net.first.weight[0, 0] = float("nan")
    return net
"""


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "wrong_nets.py").write_text(NETS)
    sys.path.insert(0, str(folder))
    import wrong_nets  # type: ignore[import-not-found]

    sys.path.remove(str(folder))
    return wrong_nets


X = torch.randn(12, 6, generator=torch.Generator().manual_seed(0))
Y = torch.arange(12) % 3
NAN = X.clone()
NAN[3, 2] = torch.nan
FINITE = "Look for a diverged weight or an input that is not finite"
# name → (model, inputs, targets, options, what is said, with … between its parts)
CASES: dict[str, tuple[str, Tensor, Tensor, dict[str, str], str]] = {
    "no tensor": (
        "Listed", X, Y, {}, "the output of `the model` must be a tensor. Got list. Wrap it in a module that returns one"
    ),
    "zero features": ("dead", X, Y, {}, "the features, which `last` reads, must not be 0 on every example"),
    "no such layer": ("good", X, Y, {"layer": "frist"}, "The model has no layer `frist`. Did you mean first?"),
    "nan in the weights": ("nan", X, Y, {}, f"`first … must be finite. Got … {FINITE}"),
    "nan in the inputs": ("good", NAN, Y, {}, f"the input must be finite. Got NaN or ∞. {FINITE}"),
    "wrong inputs": (
        "good", X[:, :5], Y, {}, "must be what the model takes. Got shape (12, 5), with which `first` fails: mat1 and"
    ),
    "wrong classes": ("good", X, Y + 1, {}, "must be class numbers from 0 to 2, one for each output. Got 1 to 3"),
}  # fmt: skip


def tells(said: str, text: str) -> bool:
    return all(part in text for part in said.split(" … "))


@pytest.mark.parametrize("case", CASES)
def test_every_way_to_measure_says_it_in_one_line(
    case: str, nets: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name, x, y, options, said = CASES[case]
    model = getattr(nets, name)()
    state = {key: value.clone() for key, value in model.state_dict().items()}
    calls: dict[str, Callable[[], object]] = {
        "watch": lambda: richter.watch(model, (x, y), **options),
        "measure": lambda: richter.measure(model, [(0, state), (7, state)], (x, y), draws=0, progress=False, **options),
    }
    for call in calls.values():
        with pytest.raises(RichterError) as caught:
            call()
        assert tells(said, str(caught.value)) and "\n" not in str(caught.value)
    monkeypatch.chdir(tmp_path)
    torch.save(state, "net-0.pt")
    np.savez("probe.npz", x=x.numpy(), y=y.numpy())
    words = ["measure", "-m", f"wrong_nets:{name}", "-c", "net-0.pt", "-p", "probe.npz", "--draws", "0"]
    code = main(words + [word for key, value in options.items() for word in (f"--{key}", value)])
    err = capsys.readouterr().err
    assert code == 2 and tells(said, err) and err.count("\n") == 1


def test_the_checkpoint_that_is_wrong_is_named(nets: Any) -> None:
    states = [(0, nets.good().state_dict()), (7, nets.nan().state_dict())]
    with pytest.raises(RichterError, match=r"At step 7 \(step 7\): the values of `first.weight` must be finite"):
        richter.measure(nets.good(), states, (X, Y), draws=0, progress=False)


def test_a_probe_on_another_device_says_what_to_type(nets: Any) -> None:
    elsewhere = X.to("meta")
    said = r"must be on the model's device, cpu\. Got meta\. Use batch\.to\('cpu'\)\."
    for call in (
        lambda: richter.watch(nets.good(), (elsewhere, Y)),
        lambda: richter.measure(nets.good(), [(0, nets.good().state_dict())], (elsewhere, Y)),
    ):
        with pytest.raises(RichterError, match=said):
            call()


def test_dropout_in_training_mode_is_looked_at_without_it_and_a_probe_alone_refuses(nets: Any) -> None:
    net = nets.good().train()
    see = richter.watch(net, (X, Y))
    assert net.training and net.drop.training
    with torch.no_grad():
        calm = net.eval()(X).numpy()
    np.testing.assert_allclose(see.dataset().output[0], calm, rtol=1e-6)  # single precision
    with pytest.raises(RichterError, match=r"layer `drop` draws at random in training, must be in evaluation mode"):
        richter.probes.ntk(net.train(), X)


def test_a_run_that_diverges_goes_on_and_the_record_says_which_layer(nets: Any) -> None:
    net = nets.good()
    see = richter.watch(net, (X, Y), budget=None, moments=[0, 1, 2], measure=["loss", "parameter_distance"])
    see(1)
    with torch.no_grad():
        net.first.weight[0, 0] = torch.nan
    with (
        pytest.warns(RuntimeWarning, match=r"not recorded: loss at step 2: the values of layer `first`"),
        pytest.warns(RuntimeWarning, match=r"not recorded: parameter_distance at step 2: the values of `first.weight`"),
    ):
        see(2)
    ds = see.dataset()
    assert "`first.weight` must be finite" in ds.attrs["problems"] and ds.sizes["step"] == 3
    assert np.isfinite(ds.parameter_distance[:2]).all() and np.isnan(ds.parameter_distance[2])


def test_one_checkpoint_decides_nothing(nets: Any) -> None:
    made = richter.measure(nets.good(), [(0, nets.good().state_dict())], (X, Y), progress=False)
    assert made.regime.label == "undecided"
    assert any("Only one moment was measured" in reason for reason in made.regime.reasons)


def test_a_module_without_weights_has_no_kernel() -> None:
    ds = richter.watch(nn.ReLU(), (X, X)).dataset()
    assert "kernel_movement_full: needs parameters" in ds.attrs["left_out"]
    with pytest.raises(RichterError, match="must hold one of kernel_change"):
        richter.measure(ds)
