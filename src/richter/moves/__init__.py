"""Moves: change how a network will learn, keep or rescale its function, and say which.

Every move is a frozen object with `apply(model) → Record`, its `inverse`, and `with move.applied(model):`; and a
function of the same effect. Needs the extra `torch`.
"""

from richter.errors import MissingExtraError

try:
    import torch as _torch
except ImportError:
    raise MissingExtraError('Moves need PyTorch, which is not installed. Type: pip install "richter[torch]"') from None
del _torch

from richter.moves.around import InputScale as InputScale  # noqa: E402
from richter.moves.around import OutputScale as OutputScale  # noqa: E402
from richter.moves.around import Scaled as Scaled  # noqa: E402
from richter.moves.around import TargetScale as TargetScale  # noqa: E402
from richter.moves.around import Unwrap as Unwrap  # noqa: E402
from richter.moves.around import scale_input as scale_input  # noqa: E402
from richter.moves.around import scale_output as scale_output  # noqa: E402
from richter.moves.around import scale_targets as scale_targets  # noqa: E402
from richter.moves.balance import NeuronBalance as NeuronBalance  # noqa: E402
from richter.moves.balance import balance as balance  # noqa: E402
from richter.moves.base import AbstractMove as AbstractMove  # noqa: E402
from richter.moves.base import Multiply as Multiply  # noqa: E402
from richter.moves.base import Record as Record  # noqa: E402
from richter.moves.layers import OverallScale as OverallScale  # noqa: E402
from richter.moves.layers import ScaleLayers as ScaleLayers  # noqa: E402
from richter.moves.layers import SmallEmbeddings as SmallEmbeddings  # noqa: E402
from richter.moves.layers import Upstream as Upstream  # noqa: E402
from richter.moves.layers import downstream as downstream  # noqa: E402
from richter.moves.layers import scale_layers as scale_layers  # noqa: E402
from richter.moves.layers import scale_overall as scale_overall  # noqa: E402
from richter.moves.layers import shrink_embeddings as shrink_embeddings  # noqa: E402
from richter.moves.layers import upstream as upstream  # noqa: E402
from richter.moves.linearised import LastLayerOnly as LastLayerOnly  # noqa: E402
from richter.moves.linearised import Linearise as Linearise  # noqa: E402
from richter.moves.linearised import last_layer_only as last_layer_only  # noqa: E402
from richter.moves.linearised import linearised as linearised  # noqa: E402
from richter.moves.parametrise import Parametrise as Parametrise  # noqa: E402
from richter.moves.parametrise import parametrise as parametrise  # noqa: E402
from richter.moves.rates import LayerRates as LayerRates  # noqa: E402
from richter.moves.rates import groups as groups  # noqa: E402
from richter.moves.rates import layer_rates as layer_rates  # noqa: E402
from richter.moves.width_check import width_check as width_check  # noqa: E402
from richter.moves.width_check import width_verdict as width_verdict  # noqa: E402
from richter.moves.zero_output import ZeroOutput as ZeroOutput  # noqa: E402
from richter.moves.zero_output import zero_output as zero_output  # noqa: E402
