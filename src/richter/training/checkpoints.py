"""The state of a run on disk: tensors as safetensors, the rest as JSON; whole or not at all, never a pickle."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from richter.errors import FileError, ParameterError, message
from richter.probes.observe import fingerprint as fingerprint

SCHEMA = 1
INDEX = "checkpoint.json"


@dataclass(frozen=True)
class Checkpoints:
    """A folder that holds the last state of one run; `facts` say which run it is.

    The tensors of a step are written first, under a name of their own; `checkpoint.json` then names them. Putting
    that file in place is the one moment at which the new state counts.
    """

    folder: Path
    facts: Mapping[str, Any]

    def save(self, step: int, model: nn.Module, optimiser: torch.optim.Optimizer, losses: Tensor) -> None:
        """Write the state after `step` steps."""
        from safetensors.torch import save

        tensors = {f"model/{name}": value for name, value in model.state_dict().items()}
        for index, state in optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser/{index}/{name}": x for name, x in state.items() if isinstance(x, Tensor)}
        tensors["losses"] = losses[:step]
        # Copies, because the format refuses tensors that share memory, as tied weights do.
        data = save({name: value.detach().cpu().clone().contiguous() for name, value in tensors.items()})
        file = f"step-{step:09d}.safetensors"
        index_ = {"schema": SCHEMA, "step": step, "file": file, "crc32": zlib.crc32(data), "bytes": len(data)}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write(self.folder / file, data)
            text = json.dumps({**index_, "torch": torch.__version__, "facts": self.facts}, ensure_ascii=False, indent=1)
            write(self.folder / INDEX, text.encode())
            for old in [*self.folder.glob("step-*.safetensors"), *self.folder.glob("*.part")]:
                if old.name != file:
                    old.unlink(missing_ok=True)
        except OSError as problem:
            raise FileError(f"The checkpoint {self.folder / file} could not be written: {problem.strerror}.") from None

    def load(self, model: nn.Module, optimiser: torch.optim.Optimizer, losses: Tensor) -> int:
        """Put the stored state in place and return its step; 0 if there is none."""
        from safetensors import SafetensorError
        from safetensors.torch import load

        path = self.folder / INDEX
        if not path.exists():
            return 0
        start_over = "Remove the folder, or pass resume=False to start over."
        try:
            index = json.loads(path.read_text())
            step, facts = int(index["step"]), index["facts"]
            data = (self.folder / Path(index["file"]).name).read_bytes()
            if int(index["schema"]) != SCHEMA or zlib.crc32(data) != index["crc32"]:
                raise ValueError
            tensors = load(data)
        except (OSError, ValueError, KeyError, TypeError, SafetensorError):
            raise FileError(message(f"the checkpoint {path}", "be whole", "a damaged one", start_over)) from None
        self._compare(facts)
        if step > len(losses):
            do = f"Pass steps={step} or more, or resume=False."
            raise ParameterError(
                message("`steps`", f"be at least {step}, where the run in {self.folder} is", len(losses), do)
            )
        model.load_state_dict(_part(tensors, "model/"))
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in _part(tensors, "optimiser/").items():
            number, _, key = name.partition("/")
            state.setdefault(int(number), {})[key] = value
        optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
        losses[:step] = tensors["losses"]
        return step

    def _compare(self, found: Mapping[str, Any]) -> None:
        mine = json.loads(json.dumps(dict(self.facts)))
        other = [key for key in {**mine, **found} if mine.get(key) != found.get(key)]
        if other:
            key = other[0]
            values = "" if isinstance(mine.get(key), dict) else f" ({found.get(key)}, now {mine.get(key)})"
            do = "Use another folder, or pass resume=False to start over."
            got = f"a run that differs in {', '.join(other)}{values}"
            raise ParameterError(message(f"the checkpoint in {self.folder}", "be of the same run", got, do))


def write(path: Path, data: bytes) -> None:
    """Write a file so that it appears whole or not at all, even if the power fails."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with open(part, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def describe_rate(rate: float | Callable[[int], float]) -> float | list[float]:
    """The rate as data: itself, or a schedule's first values at powers of two."""
    return [float(rate(2**k)) for k in range(20)] if callable(rate) else float(rate)


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
