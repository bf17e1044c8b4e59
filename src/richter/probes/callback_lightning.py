"""`richter.watch` as a Lightning callback."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Any

from richter.errors import MissingExtraError
from richter.probes.watching import Watch, on_device, recorded, watch


def lightning_callback(probe: Any, module: str = "", **options: Any) -> Any:
    """A Lightning callback that watches the module it trains.

    The probe is moved to the module's device; rate and layer rates come from the first optimiser unless given. The
    step is the trainer's `global_step`; only the first of several processes records. When Lightning resumes from
    a checkpoint, the record in `file` goes on behind that step. Afterwards `callback.dataset()` is what was seen.

    Args:
        probe: inputs, or an (inputs, targets) pair, as for `richter.watch`.
        module: the name of the network inside the LightningModule; by default the LightningModule itself, whose
            `forward` is then called.
        options: of `richter.watch`.
    """
    return _callback()(probe, module, options)


@cache
def _callback() -> Any:
    """The class, made on use, since Lightning takes seconds to load."""
    name = next(
        (name for name in ("lightning.pytorch", "pytorch_lightning") if name in sys.modules), "lightning.pytorch"
    )
    try:
        base: Any = import_module(name).Callback
    except ImportError:
        raise MissingExtraError("The callback needs Lightning: pip install 'richter[lightning]'") from None

    class RichterCallback(base):  # type: ignore[misc]
        """Watches the network along `Trainer.fit`."""

        def __init__(self, probe: Any, module: str, options: dict[str, Any]) -> None:
            """Only remember what to do; the model comes with the trainer."""
            super().__init__()
            self.probe, self.module, self.options = probe, module, options
            self.watch: Watch | None = None

        def dataset(self) -> Any:
            """What has been seen so far."""
            return recorded(self.watch)

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            if not trainer.is_global_zero:
                return
            options = {"steps": _steps(trainer), **self.options}
            if trainer.optimizers and not {"rate", "optimiser"} & set(options):
                options["optimiser"] = trainer.optimizers[0]
            network = pl_module.get_submodule(self.module) if self.module else pl_module
            self.watch = watch(network, on_device(self.probe, pl_module.device), step=trainer.global_step, **options)

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            if self.watch is not None:
                loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
                self.watch(trainer.global_step, loss)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            if self.watch is not None:
                self.watch.close()

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            if self.watch is not None:
                self.watch.__exit__(type(exception), exception, None)

    return RichterCallback


def _steps(trainer: Any) -> int | None:
    steps = trainer.estimated_stepping_batches
    return int(steps) if 0 < steps < float("inf") else None
