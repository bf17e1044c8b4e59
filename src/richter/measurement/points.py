"""The examples on which a network is measured."""

from __future__ import annotations

import os
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from richter.errors import FileError, ParameterError, message
from richter.params import count
from richter.probes.observe import inputs as checked
from richter.probes.observe import torch_library

if TYPE_CHECKING:
    from torch import nn

POINTS = 128  # examples, if more are given: a full kernel of ten outputs then has 1280 rows
X_NAMES, Y_NAMES = ("x", "inputs", "images", "X"), ("y", "targets", "labels", "Y")


def read_points(path: str | os.PathLike[str]) -> tuple[Any, Any]:
    """(inputs, targets or None) of an .npz file with arrays `x` and, if there are targets, `y`."""
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files} if hasattr(file, "files") else {"x": file}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as problem:
        why = " ".join(str(problem).split())[:120]
        do = "Write it with numpy.savez(path, x=inputs, y=labels)."
        raise FileError(f"The probe {os.fspath(path)} is refused: {why}. {do}") from None
    x = next((found[name] for name in X_NAMES if name in found), None)
    y = next((found[name] for name in Y_NAMES if name in found), None)
    if x is None:
        must, do = "hold an array `x`", "Write it with numpy.savez(path, x=inputs, y=labels)."
        raise FileError(message(f"the probe {os.fspath(path)}", must, ", ".join(found) or "none", do))
    return x, y


def as_batch(model: nn.Module, probe: Any, points: int | None = POINTS, seed: int = 0) -> tuple[Any, Any]:
    """(inputs, targets or None) as tensors on the model's device and in its type; at most `points` of them, drawn.

    `probe`: inputs, an (inputs, targets) pair of tensors or arrays, or the path of an .npz file.
    """
    torch = torch_library("measure")
    if isinstance(probe, (str, os.PathLike)):
        probe = read_points(probe)
    x, y = probe if isinstance(probe, (tuple, list)) and len(probe) == 2 else (probe, None)
    own = next(model.parameters(), None)
    place = None if own is None else own.device
    made: list[Any] = []
    for name, value in (("inputs", x), ("targets", y)):
        if value is None:
            made.append(None)
            continue
        if isinstance(value, torch.Tensor):
            tensor = value.detach()
        else:
            array = np.array(value)
            if array.dtype.kind not in "fiub":
                raise ParameterError(message(f"the {name} of the probe", "be numbers", f"an array of {array.dtype}"))
            tensor = torch.as_tensor(array, device=place)
        if tensor.is_floating_point() and own is not None and own.is_floating_point():
            tensor = tensor.to(own.dtype)
        elif not tensor.is_floating_point():
            tensor = tensor.long()
        made.append(tensor)
    inputs, targets = made
    if inputs is None or inputs.ndim == 0 or not len(inputs):
        raise ParameterError(message("the probe", "hold at least one example", None))
    checked(model, inputs)
    if targets is not None and (targets.ndim == 0 or len(targets) != len(inputs)):
        raise ParameterError(
            message("the probe's targets", f"be one per example, {len(inputs)}", f"shape {tuple(targets.shape)}")
        )
    if points is not None and len(inputs) > count("`points`", points):
        rows = np.sort(np.random.default_rng(seed).permutation(len(inputs))[:points])
        kept = torch.as_tensor(rows, device=inputs.device)
        inputs, targets = inputs[kept], None if targets is None else targets[kept.to(targets.device)]
    return inputs, targets
