"""Comparing kernels: distance, alignment, rank. Kernels of different kinds are never compared."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from richter.errors import ParameterError, message
from richter.maths import kernels as maths

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

    def __new__(cls, value: float, name: str, kind: str) -> KernelNumber:
        """A number named `name`, of a kernel of this kind."""
        made = super().__new__(cls, value)
        made.kind, made.name = kind, f"{name}_{kind}" if kind else name
        return made

    def _one_kind(self, other: object) -> None:
        if isinstance(other, KernelNumber) and self.kind and other.kind and other.kind != self.kind:
            raise ParameterError(message("two numbers of kernels", "be of one kind", f"{self.kind} and {other.kind}"))

    def array(self) -> Any:
        """The number as a DataArray with its kind in name and attributes, to be stored."""
        import xarray as xr

        return xr.DataArray(float(self), name=self.name, attrs={"kind": self.kind, "undefined_when": UNDEFINED})

    __hash__ = float.__hash__

    def __reduce__(self) -> Any:
        return KernelNumber, (float(self), self.name.removesuffix(f"_{self.kind}"), self.kind)


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

    The kind is part of the result: the full kernel's distance is many times the trace kernel's. A kernel of one
    example and one output has distance 0 whatever happens: look at its size.

    >>> round(kernel_distance([[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]), 12)
    0.292893218813
    """
    kind = kind_of(K, K0)
    return KernelNumber(maths.cosine_distance(K, K0), "kernel_distance", kind)


def kernel_alignment(K: ArrayLike, L: ArrayLike, debiased: bool = False) -> KernelNumber:
    """Centred kernel alignment (CKA) of two kernels on the same examples, biased or debiased; see `maths.kernels`.

    For few examples the biased one is above 0 for kernels that have nothing to do with each other.
    """
    name = "kernel_alignment_debiased" if debiased else "kernel_alignment"
    kind = kind_of(K, L)
    return KernelNumber(maths.alignment(K, L, debiased), name, kind)
