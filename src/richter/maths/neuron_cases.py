r"""The single neuron as the paper solves it, case by case in δ; rates 1, whitened inputs.

These forms overflow, divide by zero at aligned starts and need $a_0\ne0$. They are here as independent
witnesses of the unified form in `richter.maths.neuron`; nothing else uses them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from richter.refs import KUN24, implements

Floats = NDArray[np.float64]


@implements(
    KUN24["Eq. 2"],
    KUN24["Eq. 16"],
    KUN24["Eq. 17"],
    KUN24["Eq. 19"],
    KUN24["Eq. 20"].misprint(
        printed="without loss of generality η_aη_w = 1",
        right="enough for μ and φ (Eqs 19–25); Eqs 26–34 need η_a = η_w = 1, that is a → √η_w a, w → √η_a w, "
        "β* → √(η_aη_w) β*",
        how="DOP853 at η_a = 1/η_w = 4: Eqs 19 and 20 agree, Eqs 26 and 33 do not",
    ),
    role="witness",
)
def coordinates_flow(
    mu: float, phi: float, delta: float, target_norm: float, eta_a: float = 1.0, eta_w: float = 1.0
) -> tuple[float, float]:
    r"""$\dot\mu=\kappa(\phi\|\beta_*\|-\mu)$, $\dot\phi=\frac{2\eta_a\eta_w\mu\|\beta_*\|}{\kappa-\delta}(1-\phi^2)$.

    The quotient is $(\kappa+\delta)/2\mu$ where that is the one that does not cancel.
    """
    product = eta_a * eta_w
    kappa = float(np.hypot(delta, 2 * np.sqrt(product) * mu))
    ratio = (kappa + delta) / (2 * mu) if delta > 0 else 2 * product * mu / (kappa - delta)
    return kappa * (phi * target_norm - mu), ratio * target_norm * (1 - phi**2)


@implements(KUN24["Eq. 18"], role="witness")
def kappa_of(mu: Floats, delta: float, eta_a: float = 1.0, eta_w: float = 1.0) -> Floats:
    r"""$\eta_wa^2+\eta_a\|w\|^2=\sqrt{\delta^2+4\eta_a\eta_w\mu^2}$."""
    return np.hypot(delta, 2 * np.sqrt(eta_a * eta_w) * mu)


@implements(KUN24["Eq. 23"], KUN24["Eq. 22"], role="witness")
def balanced_phi(t: Floats, mu0: float, phi0: float, target_norm: float) -> Floats:
    r"""δ = 0: $\phi=s\tanh(c_\phi+\|\beta_*\|t)$, $s=\mathrm{sgn}\,a_0$, $c_\phi=\tanh^{-1}(s\phi_0)$."""
    s = np.sign(mu0)
    return s * np.tanh(np.arctanh(s * phi0) + target_norm * t)


@implements(
    KUN24["Eq. 25"].misprint(
        printed="μ(t) = 2cosh²z/(2z + sinh 2z + c_μ), c_μ = 2μ₀⁻¹cosh²c_φ − (2c_φ + sinh 2c_φ)",
        right="μ(t) = s·2‖β*‖cosh²z/(2z + sinh 2z + c_μ), c_μ = 2‖β*‖cosh²c_φ/|μ₀| − (2c_φ + sinh 2c_φ), "
        "z = c_φ + ‖β*‖t; the print is right for ‖β*‖ = 1 only",
        how="DOP853: error 0.13 at ‖β*‖ = 2.3 as printed",
    ),
    KUN24["Eq. 21"],
    KUN24["Eq. 24"],
    role="witness",
)
def balanced_mu(t: Floats, mu0: float, phi0: float, target_norm: float) -> Floats:
    """δ = 0: the Bernoulli equation driven by φ."""
    s = np.sign(mu0)
    c_phi = np.arctanh(s * phi0)
    z = c_phi + target_norm * t
    c_mu = 2 * target_norm * np.cosh(c_phi) ** 2 / abs(mu0) - (2 * c_phi + np.sinh(2 * c_phi))
    return s * 2 * target_norm * np.cosh(z) ** 2 / (2 * z + np.sinh(2 * z) + c_mu)


@implements(
    KUN24["Eq. 26"].misprint(
        printed="dν/dt = ‖β*‖² − δν − ν², after “WLOG η_aη_w = 1”",
        right="dν/dt = η_w‖β*‖² − δν − η_aν² for ν = w·β*/a; as printed for η_a = η_w = 1 only",
        how="the product rule on Eqs 14 and 15, numerically",
    ),
    KUN24["Eq. 27"],
    role="witness",
)
def upstream_nu(t: Floats, nu0: float, delta: float, target_norm: float) -> Floats:
    r"""$\nu=w\!\cdot\!\beta_*/a$ while a keeps its sign, from $\dot\nu=\|\beta_*\|^2-\delta\nu-\nu^2$."""
    R = np.hypot(delta, 2 * target_norm) / 2
    cosh, sinh = np.cosh(R * t), np.sinh(R * t)
    top = 2 * R * nu0 * cosh + (2 * target_norm**2 - delta * nu0) * sinh
    return top / (2 * R * cosh + (2 * nu0 + delta) * sinh)


@implements(KUN24["Eq. 28"], role="witness")
def upstream_a(t: Floats, a0: float, nu0: float, delta: float, target_norm: float) -> Floats:
    r"""The form the paper omits: $a=a_0e^{\delta t/2}D/\sqrt{1+2a_0^2\int e^{\delta s}D^2}$.

    $D=\cosh Rt+\frac{\nu_0+\delta/2}R\sinh Rt$; the integral by quadrature.
    """
    from scipy.integrate import quad

    R = np.hypot(delta, 2 * target_norm) / 2
    D = lambda s: np.cosh(R * s) + (nu0 + delta / 2) / R * np.sinh(R * s)
    weight = lambda s: np.exp(delta * s) * D(s) ** 2
    integrals = np.array([quad(weight, 0, end, epsabs=0, epsrel=1e-13, limit=200)[0] for end in np.ravel(t)])
    return a0 * np.exp(delta * t / 2) * D(t) / np.sqrt(1 + 2 * a0**2 * integrals.reshape(np.shape(t)))


@implements(KUN24["Eq. 31"], role="witness")
def downstream_v(t: Floats, v0: float, delta: float, target_norm: float) -> Floats:
    r"""$v=a/(w\!\cdot\!\beta_*)$ while w·β* keeps its sign, from $\dot v=1+\delta v-\|\beta_*\|^2v^2$."""
    R = np.hypot(delta, 2 * target_norm) / 2
    cosh, sinh = np.cosh(R * t), np.sinh(R * t)
    top = 2 * R * v0 * cosh + (2 + delta * v0) * sinh
    return top / (2 * R * cosh + (2 * target_norm**2 * v0 - delta) * sinh)


@implements(KUN24["Eq. 29"], KUN24["Eq. 30"], role="witness")
def crossing_flow(a: float, omega: float, delta: float, target_norm: float) -> tuple[float, float]:
    r"""$\dot a=\omega-a(a^2-\delta)$, $\dot\omega=a\|\beta_*\|^2-a^2\omega$ with $\omega=w\!\cdot\!\beta_*$."""
    return omega - a * (a * a - delta), a * target_norm**2 - a * a * omega


@implements(KUN24["Eq. 32"], role="witness")
def downstream_omega(t: Floats, omega0: float, v0: float, delta: float, target_norm: float) -> Floats:
    r"""$\omega=w\!\cdot\!\beta_*$ from $\dot\omega=v\|\beta_*\|^2\omega-v^2\omega^3$, by quadrature over v.

    The linear part grows like $D=e^{\delta t/2}[\cosh Rt+\frac{\|\beta_*\|^2v_0-\delta/2}R\sinh Rt]$.
    """
    from scipy.integrate import quad

    R = np.hypot(delta, 2 * target_norm) / 2
    D = lambda s: np.exp(delta * s / 2) * (np.cosh(R * s) + (target_norm**2 * v0 - delta / 2) / R * np.sinh(R * s))
    weight = lambda s: (downstream_v(s, v0, delta, target_norm) * D(s)) ** 2
    integrals = np.array([quad(weight, 0, end, epsabs=0, epsrel=1e-13, limit=200)[0] for end in np.ravel(t)])
    return omega0 * D(t) / np.sqrt(1 + 2 * omega0**2 * integrals.reshape(np.shape(t)))
