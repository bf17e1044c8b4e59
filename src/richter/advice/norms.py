"""Batch norms of a network that is looked at: their running statistics are those of the examples, as in training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn


def settle(net: nn.Module, x: Tensor) -> None:
    """Set every batch norm's running statistics to those of `x`, in place.

    In evaluation mode a fresh network's norms do nothing, and after a change of the weights they divide by what the
    old ones gave; in training they do neither.

    >>> import torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)).eval()
    >>> settle(net, torch.randn(64, 2))
    >>> bool((net(torch.randn(64, 2)).std(0) > 0.5).all()), net.training
    (True, False)
    """
    import torch

    from richter.moves.linearised import LinearisedNetwork

    norms: list[Any] = [m for m in net.modules() if _keeps_statistics(m)]
    tangent = any(isinstance(m, LinearisedNetwork) for m in net.modules())  # whose norms stay those of its start
    if not norms or tangent or len(x) < 2:
        return
    modes = {module: module.training for module in net.modules()}
    momenta = [norm.momentum for norm in norms]
    try:
        net.eval()
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the mean of all batches since: of this one
            norm.train()
        with torch.no_grad():
            net(x)
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        for module, training in modes.items():
            module.training = training


def _keeps_statistics(module: nn.Module) -> bool:
    from torch import nn

    return isinstance(module, nn.modules.batchnorm._BatchNorm) and module.track_running_stats
