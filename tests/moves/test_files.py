from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from richter.cli import main
from richter.errors import FileError, ParameterError
from richter.moves import OutputScale, OverallScale, Upstream
from richter.moves.change import output
from richter.moves.files import chain, factory, move_file, network_of
from richter.probes import conserved
from richter.training import lenet5, mlp
from richter.training.checkpoints import read_tensors, write_tensors

NETWORKS = "from richter.training import lenet5, mlp\n\ndef small():\n    return lenet5(size=16)\n\ndef other():\n    return mlp(2, [3])\n\nnothing = 1\n\ndef boom():\n    raise ValueError('out of order')\n\ndef number():\n    return 1\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_networks.py").write_text(NETWORKS)
    tensors = mlp(4, [6, 5], 2, start="torch").state_dict()
    save_file(tensors, "net.safetensors", {"made": "here"})
    save_file({name: t.to(torch.int64) for name, t in tensors.items()}, "whole.safetensors")
    save_file({**tensors, "layer2.bias": tensors["layer2.bias"] * math.nan}, "nan.safetensors")
    np.save("wide.npy", np.ones((3, 7)))
    torch.save(lenet5(size=16, start="torch").state_dict(), "cnn.pt")
    return tmp_path


def test_a_chain_of_matrices_is_moved_checked_and_written(folder: Path, capsys: Any) -> None:
    assert main(["move", "net.safetensors", "--upstream", "4", "--out", "up.safetensors", "--check"]) == 0
    said = capsys.readouterr().out
    assert "the function is kept; largest change" in said and "wrote up.safetensors and up.safetensors.json" in said
    old, new = load_file("net.safetensors"), load_file("up.safetensors")
    torch.testing.assert_close(new["layer1.weight"], old["layer1.weight"] / 4)
    torch.testing.assert_close(new["layer2.bias"], old["layer2.bias"] / 4)
    torch.testing.assert_close(new["layer3.weight"], old["layer3.weight"] * 4)
    torch.testing.assert_close(new["layer3.bias"], old["layer3.bias"])
    net = mlp(4, [6, 5], 2)
    x = torch.randn(5, 4)
    net.load_state_dict(old)
    before = output(net, x)
    net.load_state_dict(new)
    torch.testing.assert_close(output(net, x), before, rtol=1e-5, atol=1e-6)
    record = json.loads(Path("up.safetensors.json").read_text())
    assert record["exact"] and record["change"] < 1e-6 and record["moves"][0]["factors"]["layer3.weight"] == 4.0
    assert read_tensors("up.safetensors")[1] == {"made": "here", "richter": "upstream"}


def test_a_model_of_ones_own_with_a_probe_and_json(folder: Path, capsys: Any) -> None:
    np.save("x.npy", np.random.default_rng(0).standard_normal((3, 1, 16, 16)))
    args = ["move", "cnn.pt", "--balance", "0.5", "--model", "my_networks:small", "--out", "b.pt", "--probe", "x.npy"]
    assert main([*args, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["exact"] and record["probe"] == "x.npy"
    net = lenet5(size=16)
    net.load_state_dict(torch.load("b.pt", weights_only=True))
    for value in conserved(net, batch=torch.randn(2, 1, 16, 16)).delta.values():
        np.testing.assert_allclose(value, 0.5, atol=1e-5)  # saved in float32
    assert main(["move", "cnn.pt", "--balance", "0", "--out", "c.pt"]) == 2
    assert "--model my_networks:make_network" in capsys.readouterr().err


def test_the_neurons_between_two_named_layers_are_balanced_alone(folder: Path) -> None:
    ends = ["--first", "layer2", "--last", "layer3"]
    assert main(["move", "net.safetensors", "--balance", "0.5", *ends, "--out", "b.safetensors", "--check"]) == 0
    old, new = load_file("net.safetensors"), load_file("b.safetensors")
    assert torch.equal(old["layer1.weight"], new["layer1.weight"])
    net = mlp(4, [6, 5], 2)
    net.load_state_dict(new)
    np.testing.assert_allclose(conserved(net).delta["layer2", "layer3"], 0.5, atol=1e-5)  # saved in float32


def test_what_is_not_kept_exits_with_1_under_check(folder: Path, capsys: Any) -> None:
    both = ["--scale", "layer1=0.5", "--scale", "layer3=2", "--out", "s.safetensors"]
    assert main(["move", "net.safetensors", *both, "--check"]) == 0
    assert main(["move", "net.safetensors", *both, "--activation", "tanh"]) == 2
    assert "not homogeneous" in capsys.readouterr().err
    assert main(["move", "net.safetensors", *both, "--activation", "tanh", "--approximate", "--check"]) == 1
    assert "the function is changed" in capsys.readouterr().out
    assert main(["move", "net.safetensors", "--overall", "0.5"]) == 0 and Path("net-moved.safetensors").exists()


@pytest.mark.parametrize(("args", "said"), [
    (["net.safetensors"], "the moves must be at least one"),
    (["nothing.safetensors", "--balance", "0"], "There is no file nothing.safetensors"),
    (["my_networks.py", "--balance", "0"], "end in .safetensors"),
    (["net.safetensors", "--balance", "0", "--out", "net.safetensors"], "be another one than the old"),
    (["net.safetensors", "--scale", "layer1"], "be layer=factor"),
    (["net.safetensors", "--overall", "2", "--first", "layer1"], "come with --upstream or --balance. Got layer1"),
    (["net.safetensors", "--balance", "0", "--first", "layer1"], "be two neighbours, or not named. Got layer1"),
    (["net.safetensors", "--balance", "0", "--first", "layer1", "--last", "layer3"], "no pair of layers"),
    (["net.safetensors", "--upstream", "2", "--first", "layer9"], "no layer `layer9`"),
    (["net.safetensors", "--balance", "0", "--model", "my_networks"], "be module:function"),
    (["net.safetensors", "--balance", "0", "--model", "no_such_module:f"], "be importable"),
    (["net.safetensors", "--balance", "0", "--model", "my_networks:nothing"], "be a function or a class"),
    (["net.safetensors", "--balance", "0", "--model", "my_networks:other"], "be those of the file"),
    (["net.safetensors", "--balance", "0", "--model", "my_networks:boom"], "make a network. Got ValueError: out of"),
    (["net.safetensors", "--balance", "0", "--model", "my_networks:number"], "make a network. Got int"),
    (["net.safetensors", "--balance", "0", "--probe", "wide.npy"], "the probe wide.npy must be inputs of the network"),
    (["whole.safetensors", "--balance", "0"], "hold matrices in a row"),
    (["nan.safetensors", "--balance", "0"], "`layer2.bias` of nan.safetensors must be finite"),
    (["net.safetensors", "--balance", "0", "--probe", "my.npy"], "be an array saved by numpy"),
])  # fmt: skip
def test_wrong_requests_are_one_line(folder: Path, capsys: Any, args: list[str], said: str) -> None:
    assert main(["move", *args]) == 2
    problem = capsys.readouterr().err
    assert said in problem and problem.count("\n") == 1
    assert not list(folder.glob("*.json"))


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("was-run"),)


def test_a_pickle_is_never_run(folder: Path) -> None:
    Path("evil.pt").write_bytes(pickle.dumps({"w": Evil()}))
    torch.save({"w": Evil()}, "evil2.pt")
    Path("bad.safetensors").write_bytes(b"nothing of the kind")
    for name in ("evil.pt", "evil2.pt", "bad.safetensors"):
        with pytest.raises(FileError, match="hold tensors and nothing else"):
            read_tensors(name)
    assert not Path("was-run").exists()


def test_a_probe_is_an_array_and_nothing_that_runs(folder: Path) -> None:
    np.save("evil.npy", np.array([Evil()], dtype=object), allow_pickle=True)
    with pytest.raises(FileError, match="be an array saved by numpy"):
        move_file("net.safetensors", "out.safetensors", [Upstream(alpha=2.0)], probe="evil.npy")
    assert not Path("was-run").exists() and not Path("out.safetensors").exists()


def test_a_record_is_exact_only_if_every_move_is(folder: Path) -> None:
    both = move_file("net.safetensors", "out.safetensors", [Upstream(alpha=2.0), OverallScale(tau=0.5)])
    assert [m["exact"] for m in both["moves"]] == [True, False] and both["exact"] is False
    assert both["change"] > 0.1


def test_a_move_that_wraps_cannot_be_saved(folder: Path) -> None:
    with pytest.raises(ParameterError, match="output-scale must change weights in place to be saved. Got a wrapper"):
        move_file("net.safetensors", "out.safetensors", [OutputScale(tau=2.0)])
    assert not list(folder.glob("out*"))


def test_files_go_round_and_a_checkpoint_gives_its_network(folder: Path) -> None:
    tensors = mlp(2, [3]).state_dict()
    for name in ("a.safetensors", "a.pt"):
        again, _ = read_tensors(write_tensors(name, tensors))
        assert list(again) == list(tensors) or name.endswith("safetensors")
        assert all(torch.equal(again[k], tensors[k]) for k in tensors)
    torch.save({"state_dict": dict(tensors), "epoch": 3}, "c.ckpt")
    assert read_tensors("c.ckpt")[0].keys() == tensors.keys()
    torch.save({"epoch": 3}, "d.ckpt")
    with pytest.raises(FileError, match="hold a state_dict"):
        read_tensors("d.ckpt")


def test_only_matrices_in_a_row_are_a_chain(folder: Path) -> None:
    net = mlp(4, [6, 5], 2)
    found = chain(net.state_dict())
    assert found is not None
    x = torch.randn(3, 4)
    torch.testing.assert_close(found(x), net(x))
    assert chain(lenet5().state_dict()) is None
    deep = mlp(4, [4] * 10, 4).state_dict()  # layer10 and layer11 come last, whatever a file's order is
    again = chain(dict(sorted(deep.items())))
    assert again is not None and again.order == [f"layer{i}" for i in range(1, 12)]
    state = dict(net.state_dict())
    assert chain({**state, "norm.weight": torch.ones(3)}) is None
    assert chain({**state, "layer9.weight": torch.ones(3, 3)}) is None
    with pytest.raises(ParameterError, match="`activation` must be one of"):
        chain(state, "sine")
    assert network_of(state, None, "relu") is not None and callable(factory("my_networks:small"))
    with pytest.raises(FileError, match="matrices in a row"):
        move_file("cnn.pt", "out.pt", [Upstream(alpha=2.0)])
