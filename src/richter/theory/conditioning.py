"""Eigenvalues and conditioning of the preconditioner M along an exact path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from richter.errors import ParameterError, message
from richter.maths.shapes import conditioning, preconditioner_spectrum
from richter.theory.base import AbstractTheory
from richter.theory.isotropic_network import IsotropicNetwork
from richter.theory.single_neuron import SingleNeuron

if TYPE_CHECKING:
    import xarray as xr


def conditioning_path(theory: AbstractTheory, t: object) -> xr.Dataset:
    r"""How unevenly function space is learned: the spectrum of M, $\dot\beta=-M\nabla L$, at times t.

    M has the value $\eta_wa^2$ across β and $\eta_wa^2+\eta_a\|w\|^2$ along it for one neuron; for the wide network
    it is a Kronecker sum, whose eigenvalues are sums of those of the two layers' Gram matrices.

    Args:
        theory: a `SingleNeuron` or an `IsotropicNetwork`.
        t: times ≥ 0, ∞ included.

    >>> net = SingleNeuron(a0=2.0, w0=[1.0, 0.0], beta_star=[0.0, 1.0])
    >>> conditioning_path(net, 0.0).condition.values.tolist()
    [1.25]
    """
    import xarray as xr

    def over_neurons(name: str) -> xr.DataArray:
        rate = np.asarray(theory.params[name]).reshape(theory.batch_shape if theory.params[name].ndim else ())
        return xr.DataArray(rate, dims=theory.batch_names if rate.ndim else ())

    if isinstance(theory, SingleNeuron):
        ds = theory.solve(t, only=("a", "w"))
        left = (over_neurons("eta_w") * ds.a**2).expand_dims({"output": 1, "output_2": 1}, axis=(-2, -1))
        right = over_neurons("eta_a") * ds.w * ds.w.rename(input="input_2")
    elif isinstance(theory, IsotropicNetwork):
        ds = theory.solve(t, only=("gram_a", "gram_w"))
        left, right = over_neurons("eta_w") * ds.gram_a, over_neurons("eta_a") * ds.gram_w
    else:
        must = "be a SingleNeuron or an IsotropicNetwork"
        raise ParameterError(message("the theory of conditioning_path", must, type(theory).__name__))
    front = (*theory.batch_names, "t")
    values = preconditioner_spectrum(
        left.transpose(*front, "output", "output_2").values, right.transpose(*front, "input", "input_2").values
    )
    says = {"eigenvalues": "eigenvalues of M, increasing", "condition": "largest over smallest eigenvalue of M"}
    return xr.Dataset(
        {
            "eigenvalues": ((*front, "mode"), values, {"long_name": says["eigenvalues"], "units": "1"}),
            "condition": (front, conditioning(values), {"long_name": says["condition"], "units": "1"}),
        },
        {"t": ds.t},
        {"model": theory.name},
    )
