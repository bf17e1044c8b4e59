r"""References for the lazy end: the linearised network, and learning in the last layer only."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

from richter.errors import ParameterError, message
from richter.moves.around import Unwrap, change_between
from richter.moves.base import AbstractMove, Record
from richter.moves.change import probe_inputs
from richter.probes.trace import watch


class LinearisedNetwork(nn.Module):
    r"""$f(x;\theta_0)+\nabla_\theta f(x;\theta_0)\,(\theta-\theta_0)$: its kernel never moves, whatever the rate.

    The network inside holds θ₀ and is frozen; `offset` are the parameters θ − θ₀ that learn, 0 at the start. Batch
    norm is taken in evaluation mode, for in training mode it is no function of one example.
    """

    def __init__(self, inner: nn.Module) -> None:
        """Wrap a network as it is now."""
        super().__init__()
        learned = {name: p for name, p in inner.named_parameters() if p.requires_grad}
        self.names = tuple(learned)
        self.offset = nn.ParameterList([nn.Parameter(torch.zeros_like(p)) for p in learned.values()])
        self.inner = inner.requires_grad_(False).eval()
        _load_forward_mode()

    def train(self, mode: bool = True) -> LinearisedNetwork:
        """The network inside stays in evaluation mode."""
        super().train(mode)
        self.inner.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        """The linearised output, by one pass in the direction θ − θ₀."""
        held = {**dict(self.inner.named_parameters()), **dict(self.inner.named_buffers())}
        base = {name: held[name] for name in self.names}

        def run(theta: dict[str, Tensor]) -> Tensor:
            made: Tensor = functional_call(self.inner, {**held, **theta}, (x,))
            return made

        direction = dict(zip(self.names, self.offset, strict=True))
        with sdpa_kernel(SDPBackend.MATH):  # the only attention with forward derivatives
            value, tangent, *_ = jvp(run, (base,), (direction,))
        return value + tangent

    @torch.no_grad()
    def settle(self) -> nn.Module:
        """Write θ into the network inside and give it back, learning again; the wrapper is then at its new θ₀."""
        known = dict(self.inner.named_parameters())
        for name, offset in zip(self.names, self.offset, strict=True):
            known[name].add_(offset)
            offset.zero_()
            known[name].requires_grad_(True)
        return self.inner


@dataclass(frozen=True, kw_only=True)
class Linearise(AbstractMove):
    """Replace the network by its tangent at the present parameters: lazy by construction (NTK, no feature learning)."""

    name: ClassVar[str] = "linearise"
    says: ClassVar[str] = "the tangent of the network at the start: lazy by construction, a reference"
    keeps: ClassVar[str] = "the function and the kernel at the start, exactly"

    def apply(self, model: nn.Module, batch: Any = None) -> Record:
        """Wrap a copy; the model itself stays."""
        import copy

        if not any(p.requires_grad for p in model.parameters()):
            raise ParameterError(message("the model", "have parameters that learn", "none"))
        wrapped = LinearisedNetwork(copy.deepcopy(model))
        measured = change_between(copy.deepcopy(model).eval(), wrapped, batch)
        return Record(self, wrapped, self.keeps, True, measured, back=Unwrap())


@dataclass(frozen=True, kw_only=True)
class LastLayerOnly(AbstractMove):
    """Only the last layer learns: fixed features, the lazy reference of NAM24 Fig. 2.3 and 6.3."""

    layer: str | None = None

    name: ClassVar[str] = "last-layer-only"
    says: ClassVar[str] = "all layers but the last are frozen: fixed features, a reference"
    keeps: ClassVar[str] = "the function and all values, exactly; only what learns is changed"

    def apply(self, model: nn.Module, batch: Any = None) -> Record:
        """Freeze in place."""
        chosen = self.layer
        if chosen is None:
            ends = watch(model, probe_inputs(model, batch)).ends
            if len(ends) != 1:
                do = "Name the layer: layer='…'."
                raise ParameterError(message("the last layer", "be one", ", ".join(ends) or "none", do))
            chosen = ends[0]
        before = {name: p.requires_grad for name, p in model.named_parameters()}
        kept = [name for name in before if name == chosen or name.startswith(f"{chosen}.")]
        if not kept:
            from richter.moves.layers import layer_parameters

            kept = list(layer_parameters(model, None, (chosen,)).values())
        for name, p in model.named_parameters():
            p.requires_grad_(before[name] and name in kept)
        count = sum(p.numel() for p in model.parameters() if p.requires_grad)
        note = f"{', '.join(kept)}: {count} numbers learn."
        return Record(self, model, self.keeps, True, 0.0, notes=(note,), back=Learning(flags=before))


@dataclass(frozen=True, kw_only=True)
class Learning(AbstractMove):
    """Set which parameters learn: the inverse of `LastLayerOnly`."""

    flags: dict[str, bool]

    name: ClassVar[str] = "learning"
    says: ClassVar[str] = "sets which parameters learn"
    keeps: ClassVar[str] = "the function and all values, exactly"

    def apply(self, model: nn.Module, batch: Any = None) -> Record:
        """Set the flags in place."""
        before = {name: p.requires_grad for name, p in model.named_parameters()}
        for name, p in model.named_parameters():
            p.requires_grad_(self.flags.get(name, before[name]))
        return Record(self, model, self.keeps, True, 0.0, back=Learning(flags=before))


def _load_forward_mode() -> None:
    """What torch loads at the first forward derivative warns of its own old parts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        jvp(torch.sin, (torch.zeros(()),), (torch.zeros(()),))


def linearised(model: nn.Module, batch: Any = None) -> nn.Module:
    """The tangent of a network at its present parameters, with `offset` to learn; the model itself stays.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    >>> tangent, x = linearised(net), torch.ones(4, 2)
    >>> bool((tangent(x) - net(x)).abs().max() < 1e-6), len(list(tangent.parameters()))
    (True, 8)
    """
    return Linearise().apply(model, batch).model


def last_layer_only(model: nn.Module, layer: str | None = None, batch: Any = None) -> Record:
    """Freeze all but the last layer: `LastLayerOnly(layer=layer).apply(model, batch)`."""
    return LastLayerOnly(layer=layer).apply(model, batch)
