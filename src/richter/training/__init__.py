"""Plain torch: the networks used throughout, and one training loop that is exact about what it does.

Needs the extra `torch`; importing this room without it raises one line that names the extra.
"""

from richter.errors import MissingExtraError

try:
    import safetensors as _safetensors
    import torch as _torch
except ImportError as _problem:
    raise MissingExtraError(
        f'Training needs {_problem.name}, which is not installed. Type: pip install "richter[torch]"'
    ) from None
del _safetensors, _torch

from richter.training.loop import Run as Run  # noqa: E402
from richter.training.loop import train as train  # noqa: E402
from richter.training.losses import LOSSES as LOSSES  # noqa: E402
from richter.training.moments import log_moments as log_moments  # noqa: E402
from richter.training.networks import lenet5 as lenet5  # noqa: E402
from richter.training.networks import mlp as mlp  # noqa: E402
from richter.training.networks import parameters as parameters  # noqa: E402
from richter.training.networks import two_layer as two_layer  # noqa: E402
from richter.training.resnets import resnet8 as resnet8  # noqa: E402
from richter.training.resnets import resnet18 as resnet18  # noqa: E402
from richter.training.scores import Score as Score  # noqa: E402
from richter.training.scores import score as score  # noqa: E402
from richter.training.transformers import gpt2 as gpt2  # noqa: E402
from richter.training.transformers import modular_transformer as modular_transformer  # noqa: E402
