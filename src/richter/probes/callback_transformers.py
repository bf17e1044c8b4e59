"""`richter.watch` as a callback of the Hugging Face Trainer."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from richter.errors import MissingExtraError
from richter.probes.watching import Watch, on_device, recorded, watch


def trainer_callback(probe: Any, **options: Any) -> Any:
    """A callback for `transformers.Trainer(…, callbacks=[…])` that watches the model it trains.

    The model is called with the probe's inputs as its first argument (`input_ids`) and its logits are the outputs.
    The probe is moved to the model's device; rate and layer rates come from the optimiser unless given. The step is
    the trainer's `global_step`; only the first of several processes records. When the Trainer resumes from a
    checkpoint, the record in `file` goes on behind that step. The Trainer tells its callbacks of no exception: what
    was seen up to one is in the file. Afterwards `callback.dataset()` is what was seen.

    Args:
        probe: inputs, or an (inputs, targets) pair, as for `richter.watch`.
        options: of `richter.watch`.
    """
    return _callback()(probe, options)


@cache
def _callback() -> Any:
    """The class, made on use, since the library takes seconds to load."""
    try:
        base: Any = import_module("transformers").TrainerCallback
    except ImportError:
        raise MissingExtraError("The callback needs transformers: pip install 'richter[hf]'") from None

    class RichterCallback(base):  # type: ignore[misc]
        """Watches the model along `Trainer.train`."""

        def __init__(self, probe: Any, options: dict[str, Any]) -> None:
            """Only remember what to do; the model comes with the trainer."""
            super().__init__()
            self.probe, self.options = probe, options
            self.watch: Watch | None = None

        def dataset(self) -> Any:
            """What has been seen so far."""
            return recorded(self.watch)

        def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **more: Any) -> None:
            if not state.is_world_process_zero:
                return
            options = {"steps": state.max_steps if state.max_steps > 0 else None, **self.options}
            if more.get("optimizer") is not None and not {"rate", "optimiser"} & set(options):
                # Accelerate wraps the optimiser; what is inside says what it is.
                options["optimiser"] = getattr(more["optimizer"], "optimizer", more["optimizer"])
            device = next(model.parameters()).device
            self.watch = watch(model, on_device(self.probe, device), step=state.global_step, **options)

        def on_optimizer_step(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            # The step is taken and the gradients are still there; the Trainer counts it a little later.
            if self.watch is not None:
                self.watch(state.global_step + 1)

        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            # Older versions do not tell of the optimiser's step.
            if self.watch is not None and state.global_step > self.watch.recorder.now:
                self.watch(state.global_step)

        def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            if self.watch is not None:
                self.watch.close()

    return RichterCallback
