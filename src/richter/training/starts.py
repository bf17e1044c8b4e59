"""Starts of networks: every parameter drawn from one generator; torch's global one is left as it was."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, TypeVar

import torch
from torch import nn

from richter.errors import ParameterError, message
from richter.tasks.randomness import Rng, stream

Rule = Literal["he", "lecun", "torch", "gpt2"]
GAINS = {"he": 2.0, "lecun": 1.0, "torch": 1.0 / 3.0}
M = TypeVar("M", bound=nn.Module)


def torch_generator(rng: Rng, purpose: str) -> torch.Generator:
    """A torch generator on the processor from a seed or a numpy generator.

    >>> torch_generator(0, "network").initial_seed() == torch_generator(0, "network").initial_seed()
    True
    """
    return torch.Generator().manual_seed(int(stream(rng, purpose).integers(2**63)))


def built(make: Callable[[], M], rng: Rng, rule: Rule, scale: float = 1.0) -> M:
    """Build a network and draw its start; the same seed draws the same numbers.

    Weights have mean 0 and variance gain/fan-in: gain 2 ("he"), 1 ("lecun") or 1/3 ("torch", the library's own
    uniform draws); "gpt2" draws all with standard deviation 0.02. Biases start at 0, norms at 1 and 0, except
    that "torch" draws biases as the library does. `scale` multiplies every drawn weight.
    """
    if not (math.isfinite(scale) and scale > 0):
        raise ParameterError(message("`scale` of the start", "be finite and > 0", scale))
    if rule not in (*GAINS, "gpt2"):
        raise ParameterError(message("`start`", f"be one of {', '.join(GAINS)}, gpt2", rule))
    generator = torch_generator(rng, "network")
    # The constructors draw from the global generator; it is put back, and what they drew is overwritten.
    with torch.random.fork_rng(devices=[]):
        model = make()
    with torch.no_grad():
        for module in model.modules():
            _draw(module, generator, rule, scale)
    return model


def _draw(module: nn.Module, generator: torch.Generator, rule: Rule, scale: float) -> None:
    if isinstance(module, (nn.Linear, nn.Conv2d)):
        fan_in = module.weight[0].numel()
        if rule == "torch":
            bound = 1 / math.sqrt(fan_in)
            module.weight.uniform_(-bound, bound, generator=generator).mul_(scale)
        else:
            spread = 0.02 if rule == "gpt2" else math.sqrt(GAINS[rule] / fan_in)
            module.weight.normal_(0, spread * scale, generator=generator)
        if module.bias is not None and rule == "torch":
            module.bias.uniform_(-bound, bound, generator=generator).mul_(scale)
        elif module.bias is not None:
            module.bias.zero_()
    elif isinstance(module, nn.Embedding):
        spread = 0.02 if rule == "gpt2" else 1 / math.sqrt(module.embedding_dim)
        module.weight.normal_(0, spread * scale, generator=generator)
