"""Networks and how they are trained: plain torch with one exact loop, and many small networks at once in JAX.

The torch half (`train`, `mlp`, `resnet18`, …) needs the extra `torch`, the engine for small networks (`train_many`,
`Networks`) the extra `sim`; each is imported when it is first named, and says which extra is missing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from richter.errors import MissingExtraError

if TYPE_CHECKING:
    from richter.training.engine import Many as Many
    from richter.training.engine import train_many as train_many
    from richter.training.engine_data import Fresh as Fresh
    from richter.training.engine_networks import Networks as Networks
    from richter.training.loop import Run as Run
    from richter.training.loop import train as train
    from richter.training.losses import LOSSES as LOSSES
    from richter.training.moments import log_moments as log_moments
    from richter.training.networks import lenet5 as lenet5
    from richter.training.networks import mlp as mlp
    from richter.training.networks import parameters as parameters
    from richter.training.networks import two_layer as two_layer
    from richter.training.resnets import resnet8 as resnet8
    from richter.training.resnets import resnet18 as resnet18
    from richter.training.scores import Score as Score
    from richter.training.scores import score as score
    from richter.training.transformers import gpt2 as gpt2
    from richter.training.transformers import modular_transformer as modular_transformer

HOMES = {
    "Many": "engine", "train_many": "engine", "Fresh": "engine_data", "Networks": "engine_networks",
    "LOSSES": "losses", "log_moments": "moments", "Run": "loop", "train": "loop", "lenet5": "networks",
    "mlp": "networks", "parameters": "networks", "two_layer": "networks", "resnet8": "resnets",
    "resnet18": "resnets", "Score": "scores", "score": "scores", "gpt2": "transformers",
    "modular_transformer": "transformers",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a name's file when it is first asked for."""
    if name not in HOMES:
        raise AttributeError(f"module 'richter.training' has no attribute {name!r}; it has {', '.join(sorted(HOMES))}")
    try:
        return getattr(import_module(f"richter.training.{HOMES[name]}"), name)
    except ModuleNotFoundError as problem:
        if problem.name not in ("torch", "safetensors"):
            raise
        raise MissingExtraError(
            f'Training needs {problem.name}, which is not installed. Type: pip install "richter[torch]"'
        ) from None


def __dir__() -> list[str]:
    """What can be named."""
    return sorted(HOMES)
