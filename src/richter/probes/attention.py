"""Attention of `nn.MultiheadAttention`, written in functions that can be taken apart; the same values and gradients."""

from __future__ import annotations

from typing import Any

from richter.probes.observe import torch_library

NAMES = (
    "query key value embed_dim_to_check num_heads in_proj_weight in_proj_bias bias_k bias_v add_zero_attn dropout_p "
    "out_proj_weight out_proj_bias training key_padding_mask need_weights attn_mask use_separate_proj_weight "
    "q_proj_weight k_proj_weight v_proj_weight static_k static_v average_attn_weights is_causal"
).split()
DEFAULTS = {"training": True, "need_weights": True, "average_attn_weights": True}


def apart(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """(output, weights) of `multi_head_attention_forward`, or None for a variant that is not treated here."""
    torch = torch_library("The kernel")
    from torch.nn import functional

    given = {**DEFAULTS, **dict(zip(NAMES, args, strict=False)), **kwargs}
    of = given.get
    q, k, v = (given[name] for name in ("query", "key", "value"))
    strange = [of(name) is not None for name in ("bias_k", "bias_v", "static_k", "static_v", "key_padding_mask")]
    if any(strange) or of("add_zero_attn") or of("use_separate_proj_weight") or q.ndim != 3:
        return None
    if (of("training") and of("dropout_p")) or (of("need_weights") and not of("average_attn_weights")):
        return None
    mask, heads = of("attn_mask"), given["num_heads"]
    if mask is not None and mask.ndim != 2:
        return None
    weight, bias = given["in_proj_weight"], of("in_proj_bias")
    if k is q and v is q:
        parts = functional.linear(q, weight, bias).chunk(3, -1)
    else:
        biases = (None,) * 3 if bias is None else bias.chunk(3)
        parts = tuple(functional.linear(x, w, b) for x, w, b in zip((q, k, v), weight.chunk(3), biases, strict=True))
    # (position, example, feature) to (example, head, position, feature)
    split = lambda t: t.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)
    query, key, value = (split(t) for t in parts)
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.zeros(mask.shape, dtype=q.dtype, device=q.device).masked_fill(mask, float("-inf"))
    if of("need_weights"):
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        weights = (scores if mask is None else scores + mask).softmax(-1)
        mixed = weights @ value
    else:
        causal = bool(of("is_causal")) and mask is None
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
    out = functional.linear(mixed.permute(2, 0, 1, 3).flatten(2), given["out_proj_weight"], of("out_proj_bias"))
    return out, (weights.mean(1) if of("need_weights") else None)
