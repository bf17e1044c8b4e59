"""Comparing kernels: distance, alignment, rank. Kernels of different kinds are never compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message
from richter.maths import kernels as maths
from richter.maths.kernel_sums import LEAST_SKETCHES, Places, Sums, estimated_distance
from richter.maths.projections import class_indicators

Floats = NDArray[np.float64]

UNDEFINED = "one of the kernels is 0"


class KernelNumber(float):
    """A number that belongs to one kind of kernel; two of different kinds cannot be compared or combined.

    >>> a, b = KernelNumber(0.1, "kernel_distance", "full"), KernelNumber(0.2, "kernel_distance", "trace")
    >>> a < KernelNumber(0.3, "kernel_distance", "full")
    True
    >>> a < b
    Traceback (most recent call last):
    richter.errors.ParameterError: two numbers of kernels must be of one kind. Got full and trace.
    """

    kind: str
    name: str
    error: float | None  # of a sketched number, ± 2 of them hold the truth in about 9 of 10; None: it is exact

    def __new__(cls, value: float, name: str, kind: str, error: float | None = None) -> KernelNumber:
        """A number named `name`, of a kernel of this kind."""
        made = super().__new__(cls, value)
        made.kind, made.name, made.error = kind, f"{name}_{kind}" if kind else name, error
        return made

    def _one_kind(self, other: object) -> None:
        if isinstance(other, KernelNumber) and self.kind and other.kind and other.kind != self.kind:
            raise ParameterError(message("two numbers of kernels", "be of one kind", f"{self.kind} and {other.kind}"))

    def over(self, elapsed: float) -> KernelNumber:
        """A distance per unit of time: the velocity."""
        if not 0 < elapsed < float("inf"):
            raise ParameterError(message("the time between two kernels", "be > 0 and finite", elapsed))
        error = None if self.error is None else self.error / elapsed
        return KernelNumber(float(self) / elapsed, "kernel_velocity", self.kind, error)

    def array(self) -> Any:
        """The number as a DataArray with its kind in name and attributes, to be stored."""
        import xarray as xr

        attrs: dict[str, Any] = {"kind": self.kind, "undefined_when": UNDEFINED}
        if self.error is not None:
            attrs["standard_error"] = self.error
        return xr.DataArray(float(self), name=self.name, attrs=attrs)

    __hash__ = float.__hash__

    def __reduce__(self) -> Any:
        return KernelNumber, (float(self), self.name.removesuffix(f"_{self.kind}"), self.kind, self.error)


def _guarded(operation: str) -> Any:
    plain = getattr(float, operation)

    def checked(self: KernelNumber, other: Any) -> Any:
        self._one_kind(other)
        return plain(self, other)

    return checked


for _operation in "lt le gt ge eq ne add radd sub rsub truediv rtruediv".split():
    setattr(KernelNumber, f"__{_operation}__", _guarded(f"__{_operation}__"))


def kind_of(*kernels: Any) -> str:
    """The one kind of all kernels that say theirs; an error if there are two."""
    kinds = list(dict.fromkeys(k.attrs["kind"] for k in kernels if "kind" in getattr(k, "attrs", {})))
    if len(kinds) > 1:
        advice = "Compute both with the same outputs=."
        raise ParameterError(message("two kernels that are compared", "be of one kind", " and ".join(kinds), advice))
    return str(kinds[0]) if kinds else ""


def kernel_distance(K: ArrayLike, K0: ArrayLike) -> KernelNumber:
    r"""$S=1-\langle K_0,K\rangle/(\|K_0\|\|K\|)$ (KUN24 App. D.3), 0 to 1 for kernels; NaN if one of them is 0.

    The kind is part of the result: the full kernel's distance is many times the trace kernel's. Of two sketches it
    estimates the trace kernel's, with its standard error as `error`. A kernel of one example and one output has
    distance 0 whatever happens: look at its size.

    >>> round(kernel_distance([[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]), 12)
    0.292893218813
    """
    kind = kind_of(K, K0)
    if kind == "sketch":
        k, l = _sketches(K, K0)
        flat = lambda x: x.reshape(len(x), -1)
        d, s = flat(k - l), flat(k + l)
        grown = d @ s.T
        found = estimated_distance(flat(k) @ flat(k).T, d @ d.T, (grown + grown.T) / 2)
        return KernelNumber(found.value, "kernel_distance", kind, found.error)
    return KernelNumber(maths.cosine_distance(K, K0), "kernel_distance", kind)


def kernel_velocity(K: ArrayLike, K_before: ArrayLike, elapsed: float) -> KernelNumber:
    r"""$S(K_{t-\tau},K_t)/\tau$, how fast the kernel turns, between two moments `elapsed` τ apart.

    >>> round(kernel_velocity([[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]], 0.1), 12)
    2.928932188135
    """
    return kernel_distance(K, K_before).over(elapsed)


def kernel_alignment(K: ArrayLike, L: ArrayLike, debiased: bool = False) -> KernelNumber:
    """Centred kernel alignment (CKA) of two kernels on the same examples, biased or debiased; see `maths.kernels`.

    For few examples the biased one is above 0 for kernels that have nothing to do with each other.
    """
    name = "kernel_alignment_debiased" if debiased else "kernel_alignment"
    kind = kind_of(K, L)
    if kind == "sketch":
        found = _sums(K, L).alignment(debiased)
        return KernelNumber(found.value, name, kind, found.error)
    return KernelNumber(maths.alignment(K, L, debiased), name, kind)


def target_alignment(K: ArrayLike, targets: ArrayLike) -> KernelNumber:
    r"""Centred alignment with the targets' kernel $yy^T$: how much of the kernel speaks of the task, −1 to 1.

    For a kernel summed over outputs the targets' is summed too, $\sum_cy_cy_c^T$; for a full one it is
    $y_{ic}y_{jd}$, and for a diagonal one $y_{ic}y_{jc}$.

    Args:
        K: a kernel of examples with themselves.
        targets: whole-number labels (example,), or numbers (example, component); of a full or diagonal kernel a
            component per output.

    >>> round(target_alignment([[2.0, 0.0], [0.0, 2.0]], [1.0, -1.0]), 12)
    1.0
    """
    kind = kind_of(K)
    values = maths.square(K)
    n, outputs = len(values), values.shape[2] if values.ndim > 2 and kind != "sketch" else 1
    y = centred_targets(targets, n, outputs if values.ndim > 2 and kind != "sketch" else 0)
    T = target_kernel(y, slice(0, n), slice(0, n), kind or {2: "trace", 3: "diagonal", 4: "full"}[values.ndim])
    if kind == "sketch":
        found = _sums(K, K, T[..., None]).target_alignment(0)
        return KernelNumber(found.value, "kernel_target_alignment", kind, found.error)
    return KernelNumber(maths.alignment(values, T), "kernel_target_alignment", kind)


def kernel_rank(K: ArrayLike) -> KernelNumber:
    r"""The effective rank $\exp(-\sum_ip_i\ln p_i)$ of the eigenvalues' shares, 1 to their number.

    A streamed or sketched kernel has the participation ratio $(\mathrm{Tr}K)^2/\|K\|^2$ instead.

    >>> round(kernel_rank([[1.0, 0.0], [0.0, 1.0]]), 12)
    2.0
    """
    kind = kind_of(K)
    if kind == "sketch":
        found = _sums(K, K).rank(0, np.ones(1, dtype=bool))
        return KernelNumber(found.value, "kernel_participation_ratio", kind, found.error)
    return KernelNumber(maths.effective_rank(K), "kernel_effective_rank", kind)


def centred_targets(targets: Any, examples: int, outputs: int = 0) -> Floats:
    """Targets (example, component) without their mean; labels as indicators, of as many classes as `outputs`."""
    y = np.asarray(targets.detach().cpu().numpy() if hasattr(targets, "detach") else targets)
    if y.ndim == 1 and y.dtype.kind in "iu" and y.size:
        y = class_indicators(y, max(outputs, int(y.max()) + 1))
    y = np.asarray(y, dtype=np.float64)
    y = y[:, None] if y.ndim == 1 else y.reshape(len(y), -1)
    if len(y) != examples or (outputs and y.shape[1] != outputs):
        must = f"have {examples} rows" + (f" and {outputs} components, one per output" if outputs else "")
        raise ParameterError(message("the targets of a kernel", must, f"shape {y.shape}"))
    if not np.isfinite(y).all():
        raise ParameterError(message("the targets of a kernel", "be finite", "NaN or ∞"))
    return np.asarray(y - y.mean(axis=0))


def target_kernel(y: Floats, rows: slice, columns: slice, kind: str) -> Floats:
    """The targets' kernel for some examples: (row, column, …), the further axes those of the kind of kernel."""
    if kind == "full":
        return np.einsum("ri,cj->rcij", y[rows], y[columns])
    if kind == "diagonal":
        return np.einsum("ri,ci->rci", y[rows], y[columns])
    return y[rows] @ y[columns].T


def _sketches(*kernels: Any) -> list[Floats]:
    """Sketched kernels as (sketch, example, example), if they are of the same signs and enough for an error bar."""
    if kernels[0].shape[2] < LEAST_SKETCHES:
        must = f"be at least {LEAST_SKETCHES}, for an error bar"
        raise ParameterError(message("the sketches of a kernel that is compared", must, kernels[0].shape[2]))
    drawn = [(k.attrs["seed"], k.shape) for k in kernels]
    if drawn[0] != drawn[-1]:
        got = f"seeds {drawn[0][0]} and {drawn[-1][0]}, shapes {drawn[0][1]} and {drawn[-1][1]}"
        raise ParameterError(message("two sketches that are compared", "be of the same signs and examples", got))
    return [np.moveaxis(maths.as_kernel(k), 2, 0) for k in kernels]


def _sums(K: Any, L: Any, T: Floats | None = None) -> Sums:
    k, l = _sketches(K, L)
    n = maths.square(K).shape[0]
    sums, one = Sums(len(k), n, 1), np.zeros(1, dtype=np.intp)
    sums.add(np.stack([k, l])[..., None], slice(0, n), slice(0, n), Places(one, one), mirrored=False, T=T)
    return sums
