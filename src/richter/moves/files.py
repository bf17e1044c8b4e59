"""Moves on files of weights: read tensors, apply moves by layer name, write a new file and say what was done."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from richter.errors import FileError, ParameterError, message
from richter.moves.base import AbstractMove, Record
from richter.moves.change import largest_change, output, probe_inputs
from richter.training.checkpoints import read_tensors, write, write_tensors
from richter.training.networks import ACTIVATIONS


class Chain(nn.Module):
    """The fully connected network that a list of matrices in a row stands for, under the names of the file."""

    def __init__(self, tensors: Mapping[str, Tensor], activation: str) -> None:
        """Layers in the order of their names, numbers as numbers; a matrix must take what the one before gives."""
        super().__init__()
        self.order: list[str] = []
        for key, value in _matrices(tensors):
            name = key.removesuffix(".weight")
            bias = tensors.get(f"{name}.bias")
            layer = nn.Linear(value.shape[1], value.shape[0], bias=bias is not None, dtype=value.dtype)
            self._put(name, layer)
            self.order.append(name)
        self.activation = ACTIVATIONS[activation]()
        self.load_state_dict(dict(tensors))

    def _put(self, name: str, layer: nn.Module) -> None:
        place: nn.Module = self
        *path, last = name.split(".")
        for part in path:
            if part not in place._modules:
                place.add_module(part, nn.Module())
            place = place.get_submodule(part)
        place.add_module(last, layer)

    def forward(self, x: Tensor) -> Tensor:
        """The last layer's values."""
        for name in self.order[:-1]:
            x = self.activation(self.get_submodule(name)(x))
        made: Tensor = self.get_submodule(self.order[-1])(x)
        return made


def chain(tensors: Mapping[str, Tensor], activation: str = "relu") -> Chain | None:
    """The network of matrices in a row that a file holds, or None if it holds anything else."""
    if activation not in ACTIVATIONS:
        raise ParameterError(message("`activation`", f"be one of {', '.join(ACTIVATIONS)}", activation))
    matrices = _matrices(tensors)
    fits = all(b.shape[1] == a.shape[0] for (_, a), (_, b) in zip(matrices, matrices[1:], strict=False))
    named = {key.removesuffix(".weight") for key, _ in matrices if key.endswith(".weight")}
    biases = {f"{name}.bias" for name in named}
    others = [key for key, value in tensors.items() if value.ndim != 2 and key not in biases]
    whole = [key for key, value in tensors.items() if not value.is_floating_point()]
    if len(matrices) < 2 or not fits or others or whole or len(named) != len(matrices):
        return None
    return Chain(tensors, activation)


def _matrices(tensors: Mapping[str, Tensor]) -> list[tuple[str, Tensor]]:
    """The matrices by name, `layer10` behind `layer2`: files do not keep an order."""
    natural = lambda name: [(not part.isdigit(), int(part) if part.isdigit() else part) for part in _parts(name)]
    return sorted(((k, v) for k, v in tensors.items() if v.ndim == 2), key=lambda item: natural(item[0]))


def _parts(name: str) -> list[str]:
    return [part for part in re.split(r"(\d+)|\.", name) if part]


def factory(place: str) -> Callable[[], nn.Module]:
    """The function or class that `module:name` stands for; the current folder is looked in first."""
    module, colon, name = place.partition(":")
    if not colon or not name:
        do = "Use --model my_networks:make_network."
        raise ParameterError(message("`model`", "be module:function", place, do))
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        found = importlib.import_module(module)
    except ImportError as problem:
        raise ParameterError(message("the module of `model`", "be importable", f"{problem}")) from None
    finally:
        sys.path.remove(here)
    made = getattr(found, name, None)
    if not callable(made):
        raise ParameterError(message(f"`{name}` of {module}", "be a function or a class that makes a network", made))
    return made


def network_of(tensors: Mapping[str, Tensor], place: str | None, activation: str) -> nn.Module:
    """The network that the tensors belong to: from a factory, or a chain of matrices."""
    if place is None:
        made: nn.Module | None = chain(tensors, activation)
        if made is None:
            do = "Say what network it is: --model my_networks:make_network."
            raise FileError(message("a file without a model", "hold matrices in a row with their biases", None, do))
        return made
    make = factory(place)
    try:
        made = make()
    except Exception as problem:  # of anybody's code
        raise ParameterError(
            message(f"{place}()", "make a network", f"{type(problem).__name__}: {problem}")
        ) from problem
    if not isinstance(made, nn.Module):
        raise ParameterError(message(f"{place}()", "make a network", type(made).__name__))
    dtype = next((t.dtype for t in tensors.values() if t.is_floating_point()), torch.float32)
    made = made.to(dtype)
    try:
        made.load_state_dict(dict(tensors))
    except RuntimeError as problem:
        line = " ".join(str(problem).split())
        raise FileError(message(f"the weights of {place}", "be those of the file", line)) from None
    return made.eval()


def read_probe(path: str | None) -> Tensor | None:
    """Inputs from a .npy or a file of tensors, the first of them."""
    if path is None:
        return None
    if Path(path).suffix == ".npy":
        try:
            return torch.as_tensor(np.load(path, allow_pickle=False))
        except (OSError, ValueError):
            raise FileError(message(f"the probe {path}", "be an array saved by numpy", "another file")) from None
    return next(iter(read_tensors(path)[0].values()))


def move_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    moves: Sequence[AbstractMove],
    *,
    model: str | None = None,
    activation: str = "relu",
    probe: str | None = None,
) -> dict[str, Any]:
    """Apply moves to a file of weights, write a new file, and beside it the record as JSON.

    Args:
        source: safetensors, or torch's format read with weights_only.
        target: the new file; `target`.json is the record.
        moves: applied one after another; they must change weights in place.
        model: module:function that makes the network. Without it a file of matrices in a row is taken for a fully
            connected network with `activation` in between.
        activation: relu, tanh, gelu or linear.
        probe: a file of inputs; by default random ones.

    Returns:
        the record: files, moves with their factors, and the function's change by each and by all.
    """
    if not moves:
        raise ParameterError(message("the moves", "be at least one", "none", "Use --upstream 2 or --balance 0."))
    if Path(source).resolve() == Path(target).resolve():
        raise FileError(message("the new file", "be another one than the old", str(target)))
    tensors, notes = read_tensors(source)
    for name, tensor in tensors.items():
        if not torch.isfinite(tensor).all():
            raise FileError(message(f"`{name}` of {source}", "be finite", "nan or inf"))
    net = network_of(tensors, model, activation)
    given = read_probe(probe)
    own = next(p for p in net.parameters() if p.is_floating_point())
    x = probe_inputs(net, given.to(own.dtype) if given is not None and given.is_floating_point() else given)
    try:
        before = output(net, x)
    except (RuntimeError, IndexError, TypeError) as problem:
        line = " ".join(str(problem).split())
        must = f"be inputs of {model or 'the network'}"
        raise FileError(message(f"the probe {probe}", must, f"shape {tuple(x.shape)} ({line})")) from None
    records: list[Record] = [move.apply(net, x) for move in moves]
    if any(record.model is not net for record in records):
        wrapping = next(record.move.name for record in records if record.model is not net)
        raise ParameterError(message(f"the move {wrapping}", "change weights in place to be saved", "a wrapper"))
    state = net.state_dict()
    changed = {name: state[name] for name in tensors}
    called = f"{' → '.join(net.order)}, {activation}" if isinstance(net, Chain) else model
    record: dict[str, Any] = {
        "schema": 1, "source": Path(source).name, "target": Path(target).name, "model": called,
        "probe": probe or f"random, seed 0, shape {tuple(x.shape)}", "change": largest_change(before, output(net, x)),
        "exact": all(r.exact for r in records), "moves": [r.plain() for r in records],
    }  # fmt: skip
    names = ", ".join(r.move.name for r in records)
    write_tensors(target, changed, {**notes, "richter": names})
    write(Path(f"{target}.json"), json.dumps(record, ensure_ascii=False, indent=1).encode())
    return record
