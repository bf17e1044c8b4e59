"""Per-example gradients of a site, from its input and the gradient behind it: as factors, or written out.

A weight's gradient for one example is Σ_t δ_t x_tᵀ over the places t at which the example uses it (tokens, pixels):
δ (n, t, b) are the rows, x (n, t, a) the columns. An embedding's columns are indices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from richter.probes.memory import empty
from richter.probes.observe import torch_library

if TYPE_CHECKING:
    from torch import Tensor

    from richter.probes.uses import Site


def rows(site: Site, delta: Tensor, n: int) -> Tensor:
    """δ as (n, t, b)."""
    if site.kind == "conv":
        flat = delta.flatten(2).transpose(1, 2)
        return flat if flat.shape[0] == n else flat.reshape(n, -1, flat.shape[-1])
    made = delta.movedim(site.axis, 0).reshape(n, -1, delta.shape[-1])
    if site.kind == "table" and site.facts["padding"] is not None:
        made = made * (columns(site, n) != site.facts["padding"])[..., None]
    return made


def columns(site: Site, n: int, roots: Sequence[float] = (1.0,)) -> Tensor:
    """What δ is multiplied with: (n, t, a), or the rows of a table (n, t).

    `roots`: of the rates, of the matrix and, if there is one, of the bias, which becomes one more column.
    """
    if site.kind == "table":
        return site.data.movedim(site.axis, 0).reshape(n, -1)
    if site.kind == "conv":
        patches = patches_of(site, roots).transpose(1, 2)
        return patches if patches.shape[0] == n else patches.reshape(n, -1, patches.shape[-1])
    x = site.data.movedim(site.axis, 0).reshape(n, -1, site.data.shape[-1])
    if tuple(roots) == (1.0,):
        return x
    made = empty((*x.shape[:2], x.shape[2] + len(roots) - 1), x)
    made[..., : x.shape[2]] = x if roots[0] == 1 else x * roots[0]
    made[..., x.shape[2] :] = roots[-1]
    return made


def patches_of(site: Site, roots: Sequence[float] = (1.0,)) -> Tensor:
    """The patches of a convolution's input, (example, channel × kernel, place), and a row for the bias."""
    from torch.nn import functional

    facts, x = site.facts, site.data
    pair = lambda v: tuple(v) if isinstance(v, (tuple, list)) else (v,) * (x.ndim - 2)
    stride, dilation, kernel = pair(facts["stride"]), pair(facts["dilation"]), facts["kernel"]
    if isinstance(facts["padding"], str):
        whole = [d * (k - 1) * (facts["padding"] == "same") for d, k in zip(dilation, kernel, strict=True)]
        sides = [(w // 2, w - w // 2) for w in whole]
    else:
        sides = [(p, p) for p in pair(facts["padding"])]
    if any(map(any, sides)):
        x = functional.pad(x, [p for side in reversed(sides) for p in side])
    x = x if roots[0] == 1 else x * roots[0]
    if len(kernel) == 1:
        x, kernel, stride, dilation = x[:, :, None], (1, *kernel), (1, *stride), (1, *dilation)
    # A view in which the entries stand once for every patch that they are in, copied in one go.
    places = [
        (size - d * (k - 1) - 1) // s + 1 for size, d, k, s in zip(x.shape[2:], dilation, kernel, stride, strict=True)
    ]
    steps = [[by * s for by, s in zip(x.stride()[2:], apart, strict=True)] for apart in (dilation, stride)]
    view = x.as_strided((*x.shape[:2], *kernel, *places), (*x.stride()[:2], *steps[0], *steps[1]), x.storage_offset())
    made = empty((x.shape[0], math.prod(view.shape[1:4]) + len(roots) - 1, math.prod(places)), x)
    inside = made[:, : math.prod(view.shape[1:4])]
    inside.view(view.shape).copy_(view)
    made[:, inside.shape[1] :] = roots[-1]
    return made


def written_out(site: Site, delta: Tensor, role: str, n: int, count: int) -> Tensor:
    """The gradient of one parameter for every example, (n, entry); `count` is the parameter's size."""
    torch = torch_library("The kernel")
    part = site.parts[role]
    if site.kind == "spread":
        return _placed(_narrowed(site, delta, n), part, count)
    if site.kind == "norm":
        return _of_norm(site, role, delta, n)
    if role == "bias":
        return rows(site, delta, n).sum(1)
    if site.kind == "table":
        d = rows(site, delta, n)
        made = torch.zeros(n, site.facts["rows"], d.shape[-1], dtype=d.dtype, device=d.device)
        return made.scatter_add_(1, columns(site, n)[..., None].expand(d.shape), d).flatten(1)
    if site.kind == "conv" and site.facts["groups"] > 1:
        groups, x = site.facts["groups"], patches_of(site)
        d = delta.flatten(2).unflatten(1, (groups, -1)).to(x.dtype)
        made = d @ x.unflatten(1, (groups, -1)).transpose(-1, -2)
        return made.reshape(n, -1, count).sum(1)
    d, x = rows(site, delta, n), columns(site, n)
    left, right = (x, d.to(x.dtype)) if site.facts.get("flipped") else (d.to(x.dtype), x)
    return (left.transpose(1, 2) @ right).flatten(1)


def _narrowed(site: Site, delta: Tensor, n: int) -> Tensor:
    """δ of a parameter that was spread over examples and more, summed over all but the examples: (n, entry)."""
    value = site.facts["value"]
    lead = delta.ndim - len(value)
    wide = [i for i in range(delta.ndim) if i != site.axis and (i < lead or value[i - lead] == 1)]
    made = delta.sum(wide, keepdim=True) if wide else delta
    return made.movedim(site.axis, 0).reshape(n, delta.shape[site.axis] // n, -1).sum(1)


def _placed(gradient: Tensor, part: Any, count: int) -> Tensor:
    """A gradient by the entries that were used, put where they are in the parameter."""
    torch = torch_library("The kernel")
    if not part.how and gradient.shape[1] == count:
        return gradient
    made = torch.zeros(gradient.shape[0], count, dtype=gradient.dtype, device=gradient.device)
    return made.index_add_(1, part.index().flatten().to(gradient.device), gradient)


def _of_norm(site: Site, role: str, delta: Tensor, n: int) -> Tensor:
    if role == "weight":
        delta = delta * _normed(site)
    if "over" in site.facts:
        made = delta.movedim(site.axis, 0).reshape(n, -1, *delta.shape[-len(site.facts["over"]) :])
        return made.sum(1).flatten(1)
    made = delta.flatten(2).sum(2) if delta.ndim > 2 else delta
    return made.reshape(n, -1, delta.shape[1]).sum(1)


def _normed(site: Site) -> Tensor:
    """What the scale of a norm is multiplied with; made once, since it is the same for every output."""
    from torch.nn import functional

    facts, x = site.facts, site.data
    if site.normed is None:
        if site.function == "rms_norm":
            site.normed = functional.rms_norm(x, facts["over"], eps=facts["eps"])
        elif site.function == "layer_norm":
            site.normed = functional.layer_norm(x, facts["over"], eps=1e-5 if facts["eps"] is None else facts["eps"])
        elif site.function == "group_norm":
            site.normed = functional.group_norm(x, facts["groups"], eps=facts["eps"])
        else:
            site.normed = functional.batch_norm(x, facts["mean"], facts["var"], eps=facts["eps"])
    return site.normed
