"""Per-example gradients of a site, from its input and the gradient behind it: as factors, or written out.

A weight's gradient for one example is Σ_t δ_t x_tᵀ over the places t at which the example uses it (tokens, pixels):
δ (n, t, b) are the rows, x (n, t, a) the columns. An embedding's columns are indices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


def columns(site: Site, n: int) -> Tensor:
    """What δ is multiplied with: (n, t, a), or the rows of a table (n, t)."""
    if site.kind == "table":
        return site.data.movedim(site.axis, 0).reshape(n, -1)
    if site.kind == "conv":
        patches = _patches(site).transpose(1, 2)
        return patches if patches.shape[0] == n else patches.reshape(n, -1, patches.shape[-1])
    return site.data.movedim(site.axis, 0).reshape(n, -1, site.data.shape[-1])


def _patches(site: Site) -> Tensor:
    """The patches of a convolution's input, (example, channel × kernel, place)."""
    from torch.nn import functional

    facts, x = site.facts, site.data
    pair = lambda v: tuple(v) if isinstance(v, (tuple, list)) else (v,) * (x.ndim - 2)
    stride, dilation, kernel = pair(facts["stride"]), pair(facts["dilation"]), facts["kernel"]
    if isinstance(facts["padding"], str):
        whole = [d * (k - 1) * (facts["padding"] == "same") for d, k in zip(dilation, kernel, strict=True)]
        x = functional.pad(x, [side for w in reversed(whole) for side in (w // 2, w - w // 2)])
        padding: tuple[int, ...] = (0,) * len(kernel)
    else:
        padding = pair(facts["padding"])
    if len(kernel) == 1:
        x, kernel = x[:, :, None], (1, *kernel)
        stride, dilation, padding = (1, *stride), (1, *dilation), (0, *padding)
    return functional.unfold(x, kernel, dilation, padding, stride)


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
        groups, x = site.facts["groups"], _patches(site)
        d = delta.flatten(2).unflatten(1, (groups, -1))
        made = d @ x.unflatten(1, (groups, -1)).transpose(-1, -2)
        return made.reshape(n, -1, count).sum(1)
    d, x = rows(site, delta, n), columns(site, n)
    left, right = (x, d) if site.facts.get("flipped") else (d, x)
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
    from torch.nn import functional

    facts, x = site.facts, site.data
    if "over" in facts:
        k = len(facts["over"])
        if role == "weight":
            if site.function == "rms_norm":
                x = functional.rms_norm(x, facts["over"], eps=facts["eps"])
            else:
                x = functional.layer_norm(x, facts["over"], eps=1e-5 if facts["eps"] is None else facts["eps"])
            delta = delta * x
        made = delta.movedim(site.axis, 0).reshape(n, -1, *delta.shape[-k:])
        return made.sum(1).flatten(1)
    if role == "weight":
        if site.function == "group_norm":
            x = functional.group_norm(x, facts["groups"], eps=facts["eps"])
        else:
            x = functional.batch_norm(x, facts["mean"], facts["var"], eps=facts["eps"])
        delta = delta * x
    return (
        delta.flatten(2).sum(2).reshape(n, -1, delta.shape[1]).sum(1)
        if delta.ndim > 2
        else delta.reshape(n, -1, delta.shape[1]).sum(1)
    )
