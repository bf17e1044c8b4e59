"""A network's checkpoints or recorded runs in, numbers and a verdict out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from richter.errors import ParameterError, RichterError, message, show
from richter.measurement.points import POINTS, as_batch
from richter.probes.moments import AbstractMoments, Past
from richter.probes.observe import numbers, torch_library, tried
from richter.probes.verdict import verdict
from richter.regime import RESAMPLES, Regime
from richter.schema import load

if TYPE_CHECKING:
    import xarray as xr
    from torch import nn

    from richter.probes.recorder import Recorder

Kind: TypeAlias = Literal["auto", "full", "trace"]
LARGEST = 3000  # rows of a full kernel that "auto" allows
PLAIN = ("sgd", "momentum")  # optimisers whose steps are a time


@dataclass(frozen=True)
class Always(AbstractMoments):
    """Whenever it is asked: who calls has chosen the moments."""

    def due(self, step: int, loss: float, past: Past) -> bool:
        """Yes."""
        return True


@dataclass(frozen=True, eq=False)
class Measured:
    """What was measured, one Dataset per run (several: seeds), and the regime that follows from it."""

    runs: tuple[xr.Dataset, ...]
    regime: Regime

    @property
    def dataset(self) -> xr.Dataset:
        """The Dataset; of several runs, one with the dimension `seed`."""
        if len(self.runs) == 1:
            return self.runs[0]
        import xarray as xr

        return xr.concat(self.runs, "seed", join="outer", combine_attrs="drop_conflicts")

    def __str__(self) -> str:
        return str(self.regime)


def measure(
    run: Any,
    checkpoints: Any = None,
    probe: Any = None,
    *,
    rate: float | None = None,
    loss: str | None = None,
    optimiser: str = "sgd",
    momentum: float = 0.0,
    rates: Mapping[str, float] | float = 1.0,
    examples: int | None = None,
    kernel: Kind = "auto",
    layer: str | None = None,
    points: int | None = POINTS,
    draws: int = RESAMPLES,
    seed: int = 0,
    progress: bool | None = None,
) -> Measured:
    """Name the regime of a recorded run, or of a model from its checkpoints, with the numbers behind it.

    Args:
        run: a Dataset of a run, several of them (other seeds), the path of a saved one (.nc), or a torch model (or a
            function without arguments that builds it).
        checkpoints: for a model: a file, a pattern such as "runs/*.safetensors", several of them, or (step, state
            dict) pairs. The first one is the start that everything is compared with.
        probe: for a model: inputs or an (inputs, targets) pair, or an .npz file with `x` and `y`.
        rate: the learning rate of plain gradient descent; without it steps are no time, and delayed-rich is not told
            from rich.
        loss: of the training: mse, half-sum, square or cross-entropy (`richter.probes.losses.LOSSES`); by default
            cross-entropy for whole numbers as targets, else mse.
        optimiser: sgd, momentum, or any other, whose steps are no time.
        momentum: of the optimiser momentum: a step then counts 1/(1 − momentum) times.
        rates: learning rates of layers or parameters, relative to `rate`, as far as they differ.
        examples: how many examples the training loss runs over, for half-sum; by default the probe's.
        kernel: full (every pair of outputs: what the thresholds are about), trace (summed over outputs), or auto:
            full where it is small enough.
        layer: whose output the features are; by default what the last weight layer reads.
        points: how many probe points are used at most, drawn at random.
        draws: resamples of the probe points for the intervals.
        seed: of the draws.
        progress: show a bar; by default if standard error is a terminal.

    >>> from richter.theory import SingleNeuron
    >>> made = measure(SingleNeuron(a0=5.0, w0=[1.0], beta_star=[2.0]).solve([0.0, 1.0]))
    >>> made.regime.label, float(made.dataset.t[-1])
    ('lazy', 1.0)
    """
    recorded = _recorded(run)
    if recorded is not None:
        if checkpoints is not None or probe is not None:
            do = "Give a model to measure checkpoints."
            raise ParameterError(message("a recorded run", "come alone", "checkpoints or a probe too", do))
        return Measured(recorded, verdict(recorded))
    model = _model(run)
    if checkpoints is None or probe is None:
        missing = "checkpoints" if checkpoints is None else "a probe"
        do = 'Type: measure(model, "runs/*.safetensors", probe=(x, y)).'
        raise ParameterError(message("a model", "come with checkpoints and a probe", f"no {missing}", do))
    batch = as_batch(model, probe, points, seed)
    states = _states(checkpoints)
    plain = optimiser in PLAIN
    clock = None if rate is None or not plain else rate / (1 - momentum)
    recorder = recorder_for(
        model, batch, rate=clock, explain="the gradients between the checkpoints are not seen", loss=loss, rates=rates,
        examples=examples, kernel=kernel, layer=layer, draws=draws, seed=seed,
    )  # fmt: skip
    ds = _see(model, recorder, states, progress)
    return Measured((ds,), verdict(ds))


def recorder_for(
    model: nn.Module,
    batch: tuple[Any, Any],
    *,
    rate: float | None = None,
    explain: str = "",
    loss: str | None = None,
    rates: Mapping[str, float] | float = 1.0,
    examples: int | None = None,
    kernel: Kind = "auto",
    layer: str | None = None,
    draws: int = RESAMPLES,
    seed: int = 0,
    only: Iterable[str] | None = None,
    more: Iterable[Any] = (),
) -> Recorder:
    """A recorder of everything that the model and the batch allow, the kernel with its resamples among it.

    It looks whenever it is called. `only` names the probes besides the kernel's; `more` are further probes.
    """
    from richter.probes.kernel_movement import FullKernelMovement, TraceKernelMovement
    from richter.probes.recorder import Recorder
    from richter.probes.standard import chosen_probes, standard

    kinds = {"full": FullKernelMovement, "trace": TraceKernelMovement}
    if kernel not in ("auto", *kinds):
        raise ParameterError(message("`kernel`", "be auto, full or trace", kernel))
    outputs = output_count(model, batch[0])
    chosen = kernel if kernel != "auto" else "full" if outputs * len(batch[0]) <= LARGEST else "trace"
    named = None if isinstance(rates, (int, float)) else dict(rates)
    movement = kinds[chosen](rates=named, draws=draws, loss=loss, examples=examples, seed=seed)
    known = standard(loss=loss, rates=rates, layer=layer)
    known.pop(movement.name, None)
    made = Recorder(
        [*chosen_probes(only, known), movement, *more], batch, rate=rate, explain=explain, moments=Always(),
        budget=None, optional=True, strict=True,
    )  # fmt: skip
    made.record.attrs |= {
        "clock": "steps" if rate is None else "flow", "outputs": outputs, "probe_points": len(batch[0]),
        "kernel": chosen, "draws": draws,
    }  # fmt: skip
    return made


def output_count(model: nn.Module, x: Any) -> int:
    """How many outputs the model has per example."""
    return int(tried(model, x).numel())


def _recorded(run: Any) -> tuple[Any, ...] | None:
    """The Datasets that a run is, or None if it is a model."""
    if isinstance(run, Measured):
        return run.runs
    if isinstance(run, (str, os.PathLike)):
        return (load(run),)
    if hasattr(run, "data_vars"):
        return (run,)
    if isinstance(run, (list, tuple)) and run:
        parts = [_recorded(each) for each in run]
        if all(part is not None for part in parts):
            return tuple(ds for part in parts for ds in part or ())
    return None


def _model(run: Any) -> nn.Module:
    torch = torch_library("measure")
    model = run() if callable(run) and not isinstance(run, torch.nn.Module) else run
    if not isinstance(model, torch.nn.Module):
        must = "be a Dataset, a .nc file, a torch model or a function that builds one"
        raise ParameterError(message("what is measured", must, show(model)))
    return model


def _states(checkpoints: Any) -> list[Any]:
    """(step, tensors, where from) by step."""
    from richter.training.states import State, read_states

    given = checkpoints
    pairs = isinstance(given, Sequence) and not isinstance(given, str) and bool(given)
    if pairs and all(isinstance(each, (tuple, State)) for each in given):
        made = [each if isinstance(each, State) else State(each[0], each[1], f"step {each[0]}") for each in given]
        return sorted(made, key=lambda state: state.step)
    return read_states(given)


def _see(model: nn.Module, recorder: Recorder, states: Sequence[Any], progress: bool | None) -> Any:
    from richter.training.progress import bar
    from richter.training.states import put

    before = {name: value.detach().clone() for name, value in model.state_dict().items()}
    try:
        with bar("measuring", len(states), show=progress) as tell:
            for done, state in enumerate(states):
                put(model, state.tensors, state.path)
                try:
                    for name, value in model.named_parameters():
                        numbers(value, name)
                    recorder.see(state.step, model)
                except RichterError as problem:
                    raise type(problem)(f"At step {state.step} ({state.path}): {problem}") from None
                tell(done + 1)
        recorder.record.attrs["ended"] = "measured from checkpoints"
    finally:
        model.load_state_dict(before)
    return recorder.dataset()
