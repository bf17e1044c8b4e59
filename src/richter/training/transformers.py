"""Transformers: one layer for modular arithmetic, and a stack of GPT-2's shape."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from richter.errors import ParameterError, message
from richter.tasks.randomness import Rng, count
from richter.training.starts import Rule, built


class Attention(nn.Module):
    """Causal attention of several heads."""

    def __init__(self, d: int, heads: int, bias: bool) -> None:
        """The layers for a stream of d numbers."""
        super().__init__()
        self.heads = heads
        self.query_key_value = nn.Linear(d, 3 * d, bias=bias)
        self.out = nn.Linear(d, d, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Mix the positions: (example, position, d) to the same shape."""
        n, positions, d = x.shape
        split = self.query_key_value(x).view(n, positions, 3, self.heads, d // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(n, positions, d))


class Block(nn.Module):
    """Attention and a two-layer network, each added to the stream, each behind a norm if there is one."""

    def __init__(self, d: int, heads: int, hidden: int, activation: nn.Module, norm: bool, bias: bool) -> None:
        """The layers; without norms, identities stand in their places."""
        super().__init__()
        self.norm1 = nn.LayerNorm(d) if norm else nn.Identity()
        self.attention = Attention(d, heads, bias)
        self.norm2 = nn.LayerNorm(d) if norm else nn.Identity()
        self.up, self.act, self.down = nn.Linear(d, hidden), activation, nn.Linear(hidden, d)

    def forward(self, x: Tensor) -> Tensor:
        """The stream behind the block."""
        x = x + self.attention(self.norm1(x))
        return x + self.down(self.act(self.up(self.norm2(x))))


class ModularTransformer(nn.Module):
    """Token and position embedding, one block without norms, unembedding of the last position."""

    def __init__(self, tokens: int, positions: int, d: int, heads: int, hidden: int, outputs: int) -> None:
        """The layers for so many tokens and positions."""
        super().__init__()
        self.tokens = nn.Embedding(tokens, d)
        self.positions = nn.Embedding(positions, d)
        self.block = Block(d, heads, hidden, nn.ReLU(), norm=False, bias=False)
        self.unembed = nn.Linear(d, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Class scores (example, output) of whole-number inputs (example, position)."""
        stream = self.tokens(x) + self.positions.weight[: x.shape[1]]
        return self.unembed(self.block(stream)[:, -1])


class Gpt2(nn.Module):
    """GPT-2's shape: embeddings, blocks with norms in front, a last norm, output weights tied to the tokens'."""

    def __init__(self, layers: int, d: int, heads: int, context: int, vocabulary: int) -> None:
        """The layers for so many tokens and positions."""
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, d)
        self.positions = nn.Embedding(context, d)
        made = (Block(d, heads, 4 * d, nn.GELU(approximate="tanh"), norm=True, bias=True) for _ in range(layers))
        self.blocks = nn.Sequential(*made)
        self.norm = nn.LayerNorm(d)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the next token (example, position, vocabulary)."""
        stream = self.blocks(self.tokens(x) + self.positions.weight[: x.shape[1]])
        return functional.linear(self.norm(stream), self.tokens.weight)


def modular_transformer(
    modulus: int = 113,
    *,
    d: int = 128,
    heads: int = 4,
    hidden: int = 512,
    positions: int = 3,
    start: Rule = "lecun",
    scale: float = 1.0,
    rng: Rng = 0,
) -> ModularTransformer:
    """A one-layer transformer for sums modulo a number: inputs (a, b, =) as tokens, = is the token `modulus`.

    >>> modular_transformer(5, d=8, heads=2, hidden=16)(torch.tensor([[1, 2, 5]])).shape
    torch.Size([1, 5])
    """
    _check_heads(d, heads)
    p = count("`modulus`", modulus, 2)
    make = lambda: ModularTransformer(p + 1, count("`positions`", positions), d, heads, count("`hidden`", hidden), p)
    return built(make, rng, start, scale)


def gpt2(
    *,
    layers: int = 12,
    d: int = 768,
    heads: int = 12,
    context: int = 1024,
    vocabulary: int = 50257,
    rng: Rng = 0,
) -> Gpt2:
    """A stack of GPT-2's shape with random weights; the defaults are its smallest form, 124,439,808 parameters.

    >>> gpt2(layers=1, d=8, heads=2, context=4, vocabulary=7)(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 7])
    """
    _check_heads(d, heads)
    sizes = {"layers": layers, "context": context, "vocabulary": vocabulary}
    made = {name: count(f"`{name}`", value) for name, value in sizes.items()}
    model = built(lambda: Gpt2(d=d, heads=heads, **made), rng, "gpt2")
    with torch.no_grad():  # each layer adds twice to the stream; its last weights are smaller by √(2 · layers)
        for block in model.blocks:
            assert isinstance(block, Block)
            for last in (block.attention.out, block.down):
                last.weight.div_((2 * layers) ** 0.5)
    return model


def _check_heads(d: int, heads: int) -> None:
    if count("`d`", d) % count("`heads`", heads):
        raise ParameterError(message("`d`", f"be a multiple of the {heads} heads", d))
