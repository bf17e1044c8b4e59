"""Checkpoint files of others: what is read, what is refused and why."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from richter.errors import FileError, ParameterError
from richter.tasks import step as step_task
from richter.training import mlp, train
from richter.training.states import find_states, put, read_state, read_states, step_of


def _state(seed: int = 0) -> dict[str, torch.Tensor]:
    return dict(mlp(2, [3], rng=seed).state_dict())


def test_both_formats_give_the_same_weights_and_steps(tmp_path: Path) -> None:
    for k in (200, 30, 1):
        save_file(_state(k), tmp_path / f"run-{k}.safetensors")
        torch.save(_state(k), tmp_path / f"run-{k}.pt")
    for suffix in ("safetensors", "pt"):
        states = read_states(str(tmp_path / f"*.{suffix}"))
        assert [state.step for state in states] == [1, 30, 200]
        for state in states:
            for name, value in _state(state.step).items():
                assert torch.equal(state.tensors[name], value)
    both = f"{tmp_path}/run-30.pt|{tmp_path}/run-1.safetensors"
    assert [state.step for state in read_states(both)] == [1, 30]


def test_the_step_in_the_file_wins_over_its_name(tmp_path: Path) -> None:
    save_file(_state(), tmp_path / "epoch-3.safetensors", metadata={"step": "1200"})
    torch.save({"state_dict": _state(), "global_step": 77, "epoch": 2}, tmp_path / "last.ckpt")
    assert read_state(tmp_path / "epoch-3.safetensors")[1] == 1200
    tensors, step = read_state(tmp_path / "last.ckpt")
    assert step == 77 and tensors.keys() == _state().keys()
    assert step_of("epoch=4-step=5000-v1") == 5000 and step_of("model") is None


def test_the_librarys_own_checkpoints_are_read(tmp_path: Path) -> None:
    model = mlp(1, [4])
    train(model, step_task(16), steps=10, rate=0.1, checkpoints=tmp_path, progress=False)
    (state,) = read_states(str(tmp_path / "*.safetensors"))
    assert state.step == 10
    fresh = mlp(1, [4], rng=5)
    put(fresh, state.tensors, state.path)
    assert all(torch.equal(a, b) for a, b in zip(fresh.parameters(), model.parameters(), strict=True))


class _Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("touch evil-was-here",)


def test_code_in_a_file_is_refused_and_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"weight": torch.ones(2), "extra": _Evil()}, "evil-1.pt")
    with pytest.raises(
        FileError, match=r"evil-1\.pt is refused: it asks to run `[\w.]*system`; only tensors are loaded"
    ):
        read_state("evil-1.pt")
    Path("plain-1.pt").write_bytes(pickle.dumps(_Evil()))
    with pytest.raises(FileError, match=r"plain-1\.pt is refused: "):
        read_state("plain-1.pt")
    assert not Path("evil-was-here").exists()
    torch.save(mlp(2, [3]), "whole-1.pt")
    with pytest.raises(FileError, match=r"is refused: it asks to run `torch\.nn\.modules\.container\.Sequential`"):
        read_state("whole-1.pt")


def test_every_other_refusal_says_why(tmp_path: Path) -> None:
    (tmp_path / "broken-1.safetensors").write_bytes(b"\x00" * 9)
    (tmp_path / "notes.txt").write_text("")
    torch.save(torch.ones(2), tmp_path / "bare-1.pt")
    torch.save({"a": 1}, tmp_path / "empty-1.pt")
    for name, why in (
        ("broken-1.safetensors", "cannot be read as safetensors"),
        ("notes.txt", r"ends in neither \.safetensors nor \.pt"),
        ("bare-1.pt", "it holds Tensor, not tensors by name"),
        ("empty-1.pt", "it holds no tensors"),
    ):
        with pytest.raises(FileError, match=why):
            read_state(tmp_path / name)
    with pytest.raises(FileError, match=r"must be files that exist\. Got nothing for .*none"):
        find_states(str(tmp_path / "none*.pt"))


def test_steps_must_be_told_and_differ(tmp_path: Path) -> None:
    save_file(_state(), tmp_path / "a.safetensors")
    assert read_states(tmp_path / "a.safetensors")[0].step == 0
    save_file(_state(), tmp_path / "b.safetensors")
    with pytest.raises(FileError, match="must tell its step. Got no number in its name. Name the files like"):
        read_states(str(tmp_path / "*.safetensors"))
    save_file(_state(), tmp_path / "x-5.safetensors")
    save_file(_state(), tmp_path / "y-5.safetensors")
    with pytest.raises(FileError, match="must have a step of its own. Got step 5 in"):
        read_states(str(tmp_path / "?-5.safetensors"))


class _Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3, bias=False)
        self.second = nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight


def test_wrappers_and_tied_weights_are_understood_other_models_are_not(tmp_path: Path) -> None:
    model = mlp(2, [3])
    for prefix in ("module.", "_orig_mod.", "module._orig_mod."):
        wrapped = {prefix + name: value + 1 for name, value in _state().items()}
        put(model, wrapped, "x.pt")
        assert torch.equal(model.state_dict()["layer1.weight"], _state()["layer1.weight"] + 1)
    tied = _Tied()
    put(tied, {"first.weight": torch.eye(3)}, "x.pt")
    assert torch.equal(tied.second.weight, torch.eye(3))
    with pytest.raises(ParameterError, match=r"checkpoint x\.pt must hold the model's weights\. Got no `layer1\.bias`"):
        put(model, {"layer1.weight": torch.ones(3, 2)}, "x.pt")
    with pytest.raises(ParameterError, match=r"`layer1\.weight` of shape \(3, 2\), not \(4, 2\)|of shape"):
        put(mlp(2, [4]), _state(), "x.pt")
    with pytest.raises(ParameterError, match=r"Got `layer9`, which the model has not"):
        put(model, {**_state(), "layer9": torch.ones(1)}, "x.pt")
