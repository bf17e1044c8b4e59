"""Weights from checkpoint files that others wrote: tensors only, never a pickle's code; a refused file says why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from richter.errors import FileError, ParameterError, message

PICKLED = (".pt", ".pth", ".bin", ".ckpt")
SAFE_SINCE = (2, 6)  # before this release, weights_only=True could be made to run code
STEPS = ("step", "global_step", "iteration", "iter")  # keys that hold the step, the likeliest first
NESTED = ("state_dict", "model_state_dict", "model", "weights", "module")  # keys that hold the weights
PREFIXES = ("module.", "_orig_mod.", "model.", "net.")  # what wrappers put before every name


@dataclass(frozen=True, eq=False)
class State:
    """The weights of one moment: the step, tensors by name, and the file they are from."""

    step: int
    tensors: Mapping[str, Tensor]
    path: Path | str


def find_states(patterns: str | Path | Iterable[str | Path]) -> list[Path]:
    """The files that names and patterns such as `runs/*.safetensors` stand for; several may be joined by `|`."""
    given = [patterns] if isinstance(patterns, (str, Path)) else list(patterns)
    words = [part for each in given for part in ([str(each)] if Path(each).exists() else str(each).split("|"))]
    found: dict[Path, None] = {}
    for word in words:
        here = [Path(word)] if Path(word).is_file() else [Path(p) for p in sorted(glob(word, recursive=True))]
        files = [path for path in here if path.is_file()]
        if not files:
            do = "Quote a pattern, so that the shell does not take it apart."
            raise FileError(message("the checkpoints", "be files that exist", f"nothing for {word}", do))
        found |= dict.fromkeys(files)
    return list(found)


def read_state(path: str | Path) -> tuple[dict[str, Tensor], int | None]:
    """(tensors by name, the step if the file or its name tells it) of a .safetensors or .pt file."""
    file = Path(path)
    suffix = file.suffix.lower()
    if suffix == ".safetensors":
        tensors, stored = _safe(file)
    elif suffix in PICKLED:
        tensors, stored = _weights_only(file)
    else:
        raise _refused(file, f"its name ends in neither .safetensors nor {', '.join(PICKLED)}")
    if not tensors:
        raise _refused(file, "it holds no tensors")
    return tensors, step_of(file.stem) if stored is None else stored


def read_states(patterns: str | Path | Iterable[str | Path]) -> list[State]:
    """Every checkpoint, by step. The step is read from the file, else from its name; a single file needs none."""
    paths = find_states(patterns)
    made: dict[int, State] = {}
    for path in paths:
        tensors, step = read_state(path)
        if step is None and len(paths) > 1:
            do = "Name the files like run-000100.safetensors, or store `step` in them."
            raise FileError(message(f"the checkpoint {path}", "tell its step", "no number in its name", do))
        number = step or 0
        if number in made:
            got = f"step {number} in {made[number].path} too"
            raise FileError(message(f"the checkpoint {path}", "have a step of its own", got, "Leave one of them out."))
        made[number] = State(number, tensors, path)
    return [made[step] for step in sorted(made)]


def step_of(name: str) -> int | None:
    """The step in a file's name: the number behind "step", else the last one.

    >>> step_of("epoch=3-step=1200"), step_of("run7_000050"), step_of("last")
    (1200, 50, None)
    """
    told = re.search(r"(?:step|iter|iteration)s?[-_=.]?(\d+)", name, re.IGNORECASE)
    numbers = re.findall(r"\d+", name)
    return int(told[1]) if told else int(numbers[-1]) if numbers else None


def put(model: nn.Module, tensors: Mapping[str, Tensor], path: str | Path) -> None:
    """Load the weights into the model; names may carry the prefix of a wrapper, shapes must be the model's."""
    own = model.state_dict()
    named = dict(tensors)
    for prefix in PREFIXES:
        if not own.keys() & named.keys() and all(name.startswith(prefix) for name in named):
            named = {name.removeprefix(prefix): value for name, value in named.items()}
    missing, strange = sorted(own.keys() - named.keys()), sorted(named.keys() - own.keys())
    # Tied weights are stored once by some formats.
    tied = {id(value) for name, value in model.state_dict(keep_vars=True).items() if name in named}
    missing = [name for name in missing if id(model.state_dict(keep_vars=True)[name]) not in tied]
    wrong = [name for name in own.keys() & named.keys() if own[name].shape != named[name].shape]
    if missing or strange or wrong:
        what = (
            f"no `{missing[0]}`" if missing else f"`{strange[0]}`, which the model has not" if strange
            else f"`{wrong[0]}` of shape {tuple(named[wrong[0]].shape)}, not {tuple(own[wrong[0]].shape)}"
        )  # fmt: skip
        do = "Build the model as it was trained."
        raise ParameterError(message(f"the checkpoint {path}", "hold the model's weights", what, do))
    model.load_state_dict(named, strict=not (own.keys() - named.keys()))


def _safe(file: Path) -> tuple[dict[str, Tensor], int | None]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt", device="cpu") as stored:
            facts = stored.metadata() or {}
            tensors = {name: stored.get_tensor(name) for name in list(stored.keys())}
    except (OSError, SafetensorError) as problem:
        raise _refused(file, f"it cannot be read as safetensors ({problem})") from None
    if any(name.startswith("model/") for name in tensors):  # as `richter.training` writes it
        tensors = {name.removeprefix("model/"): x for name, x in tensors.items() if name.startswith("model/")}
    return tensors, _step(facts)


def _weights_only(file: Path) -> tuple[dict[str, Tensor], int | None]:
    release = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    if release < SAFE_SINCE:
        raise _refused(file, f"torch {torch.__version__} cannot read it safely; save it as .safetensors")
    try:
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except Exception as problem:  # unpickling errors, a broken archive, a missing file: all are a refusal
        code = re.search(r"GLOBAL ([\w.]+)", str(problem))
        why = f"it asks to run `{code[1]}`" if code else " ".join(str(problem).split())[:120]
        raise _refused(file, f"{why}; only tensors are loaded: save model.state_dict()") from None
    facts: Mapping[str, Any] = loaded if isinstance(loaded, Mapping) else {}
    for key in NESTED:
        if isinstance(facts.get(key), Mapping):
            loaded = facts[key]
            break
    if not isinstance(loaded, Mapping):
        raise _refused(file, f"it holds {type(loaded).__name__}, not tensors by name")
    return {str(name): x for name, x in loaded.items() if isinstance(x, Tensor)}, _step(facts)


def _step(facts: Mapping[str, Any]) -> int | None:
    for key in STEPS:
        if re.fullmatch(r"\d+", str(facts.get(key))):
            return int(facts[key])
    return None


def _refused(file: Path, why: str) -> FileError:
    return FileError(f"The checkpoint {file} is refused: {why}.")
