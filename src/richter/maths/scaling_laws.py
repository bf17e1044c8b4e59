r"""How the loss of endlessly many skills falls with time, data and parameters: exponents and prefactors.

With $s=\alpha/(\alpha+1)$, $A=1/\zeta(\alpha+1)$ and $r=S/\mathcal R(0)-1$,

| bottleneck | law | holds for |
|---|---|---|
| time T | $\frac{S^2A}{2(\alpha+1)}(2\eta AST)^{-s}\,I(r,s)$ | $2\eta AST\gg\ln r$, $N^{\alpha+1}\gg2\eta AST$ |
| data D | $\frac{S^2A^{1-s}}{2(\alpha+1)}\mathrm B(s,D+1)$ | $AD\gg1$ |
| parameters N | $\frac{S^2A}2\zeta(\alpha+1,N+1)$ | always |
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.maths.skills import zipf_constant
from richter.refs import NAM24, implements

Floats = NDArray[np.float64]
_GAUSS, _GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(20)
_STEP = 1 / 16
_TANH = np.arange(-56, 57) * _STEP  # tanh–sinh abscissae: full precision with algebraic ends
PANEL = 2.0  # length of a panel; the integrand's poles lie at distance π from the real line
TAIL = 22.0  # how far beyond ln r and the start the integrand, which falls like e^{−2u}, still counts


@implements(NAM24["Table 4.1"])
def scaling_exponents(alpha: ArrayLike) -> dict[str, Floats]:
    r"""Exponents of the loss: $-\frac\alpha{\alpha+1}$ (time, data), $-\alpha$ (parameters), $-\frac\alpha{\alpha+2}$
    (compute), and those of the optimal T and N against C: $\frac{\alpha+1}{\alpha+2}$, $\frac1{\alpha+2}$.

    >>> {name: float(value) for name, value in scaling_exponents(1.0).items()}["parameters"]
    -1.0
    """  # fmt: skip
    a = np.asarray(alpha, dtype=float)
    return {
        "time": -a / (a + 1), "data": -a / (a + 1), "parameters": -a, "compute": -a / (a + 2),
        "best_time": (a + 1) / (a + 2), "best_parameters": 1 / (a + 2),
    }  # fmt: skip


def saturation_integral(r: ArrayLike, s: ArrayLike, start: ArrayLike = 0.0) -> Floats:
    r"""$\int_{u_0}^\infty\frac{u^{s-1}\,du}{(1+e^u/r)^2}$, the integral of the time law.

    From $u_0=0$ it is $I=\Gamma(s)[\mathrm{Li}_{s-1}(-r)-\mathrm{Li}_s(-r)]$. Below u = 1 it is taken
    in $v=u^s$, where the integrand has no pole at 0; arguments broadcast.

    >>> float(saturation_integral(1299.0, 0.375).round(6))
    5.228435
    """
    r, s, start = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (r, s, start)))
    r, s, low = r[..., None], s[..., None], start[..., None]
    plateau = lambda u: (r / (r + np.exp(np.minimum(u, 700.0)))) ** 2
    # From u₀ to 1 in v = u^s.
    half = (1 - np.minimum(low, 1.0) ** s) / 2
    bend = np.pi / 2 * np.sinh(_TANH)
    place = np.exp(bend) / np.cosh(bend)  # 1 + tanh, without cancellation at the lower end
    weight = _STEP * np.pi / 2 * np.cosh(_TANH) / np.cosh(bend) ** 2
    v = np.minimum(low, 1.0) ** s + half * place
    first = (half * weight * plateau(v ** (1 / s))).sum(axis=-1) / s[..., 0]
    # From max(u₀, 1) on, panel by panel.
    begin = np.maximum(low, 1.0)
    end = np.maximum(begin, np.log(r)) + TAIL
    count = max(1, int(np.ceil(np.nanmax((end - begin) / PANEL, initial=0.0))))
    edge = np.arange(count)
    unit = ((edge[:, None] + (1 + _GAUSS) / 2) / count).ravel()
    share = np.tile(_GAUSS_WEIGHTS / 2 / count, count)
    u = begin + (end - begin) * unit
    second = ((end - begin) * share * u ** (s - 1) * plateau(u)).sum(axis=-1)
    return np.asarray(first + second)


def small_start_integral(r: ArrayLike, s: ArrayLike) -> Floats:
    r"""$I\approx\frac{(\ln r)^s}s-(\ln r)^{s-1}$ for a small start, r ≫ 1."""
    log = np.log(np.asarray(r, dtype=float))
    s = np.asarray(s, dtype=float)
    return np.asarray(log**s / s - log ** (s - 1))


@implements(NAM24["Sec. 4.3.1"], NAM24["Eq. 4.21"])
def time_law(t: ArrayLike, alpha: ArrayLike, target: ArrayLike, initial: ArrayLike, eta: ArrayLike = 1.0) -> Floats:
    r"""$\mathcal L(T)\simeq\frac{S^2A}{2(\alpha+1)}(2\eta AST)^{-s}I(r,s)$: an integral over all skills.

    >>> float(time_law(1e4, 0.6, 1.3, 1e-3, 0.8).round(6))
    0.039577
    """
    t, a, S, start, eta = (np.asarray(x, dtype=float) for x in (t, alpha, target, initial, eta))
    A, s = zipf_constant(a), a / (a + 1)
    return S**2 * A / (2 * (a + 1)) * (2 * eta * A * S * t) ** -s * saturation_integral(S / start - 1, s)


@implements(NAM24["Eq. 4.25"], NAM24["Eq. 4.16"])
def time_slope(t: ArrayLike, loss: ArrayLike, alpha: ArrayLike) -> Floats:
    r"""$\frac{d\mathcal L}{dT}=-\frac\alpha{\alpha+1}\frac{\mathcal L}T$."""
    a = np.asarray(alpha, dtype=float)
    return np.asarray(-a / (a + 1) * np.asarray(loss) / np.asarray(t))


@implements(NAM24["Eq. 4.20"])
def skill_time_slope(t: ArrayLike, k: ArrayLike, slope: ArrayLike, alpha: ArrayLike) -> Floats:
    r"""$\frac{d\mathcal L_k}{dT}=-\frac k{(\alpha+1)T}\frac{d\mathcal L_k}{dk}$.

    For $\mathcal L_k$ depends on $Tk^{-(\alpha+1)}$ only.

    Args:
        t: T.
        k: the skill, as a real number.
        slope: $d\mathcal L_k/dk$.
        alpha: exponent of the frequencies, less one.
    """
    a = np.asarray(alpha, dtype=float)
    return np.asarray(-np.asarray(k, dtype=float) / ((a + 1) * np.asarray(t, dtype=float)) * np.asarray(slope))


@implements(NAM24["Eq. 4.22"], NAM24["Eq. 4.23"], NAM24["Eq. 4.24"])
def slope_by_parts(
    t: ArrayLike, integral: ArrayLike, ends: tuple[ArrayLike, ArrayLike], skills: tuple[float, float], alpha: ArrayLike,
    constant: ArrayLike,
) -> Floats:  # fmt: skip
    r"""$(\alpha+1)T\frac{d\mathcal L}{dT}=-[Ak^{-\alpha}\mathcal L_k]-\alpha\int Ak^{-(\alpha+1)}\mathcal L_k\,dk$.

    The bracket is what Eq. 4.24 neglects: at k = 1 it falls exponentially with T, at k = N like $N^{-\alpha}$.

    Args:
        t: T.
        integral: $\int Ak^{-(\alpha+1)}\mathcal L_k\,dk$ between the two skills.
        ends: $\mathcal L_k$ of the first and the last skill.
        skills: the first and the last skill.
        alpha: exponent of the frequencies, less one.
        constant: A.
    """
    a, A, T = (np.asarray(x, dtype=float) for x in (alpha, constant, t))
    first, last = (A * k**-a * np.asarray(loss) for k, loss in zip(skills, ends, strict=True))
    return np.asarray(-((last - first) + a * np.asarray(integral)) / ((a + 1) * T))


@implements(
    NAM24["Eq. 4.12"].misprint(
        printed="ΔL/L ≈ P(k)/Σ_{j≥k} P(j), with a minus sign on what follows",
        right="ΔL/L = −P(k)/Σ_{j≥k} P(j): the loss falls",
        how="sign of the difference",
    ),
    NAM24["Eq. 4.13"],
)
def stage_drop(k: ArrayLike, alpha: ArrayLike) -> Floats:
    r"""$\Delta\mathcal L/\mathcal L=-k^{-(\alpha+1)}/\zeta(\alpha+1,k)=-\alpha/k+O(k^{-2})$ when skill k saturates.

    >>> float(stage_drop(1000, 0.5).round(6))
    -0.0005
    """
    from scipy.special import zeta

    k, a = np.asarray(k, dtype=float), np.asarray(alpha, dtype=float)
    return np.asarray(-(k ** -(a + 1)) / zeta(a + 1, k))


@implements(NAM24["Eq. 4.14"], NAM24["Eq. 4.15"])
def stage_wait(k: ArrayLike, alpha: ArrayLike) -> Floats:
    r"""$\Delta T/T=[(k+1)^{\alpha+1}-k^{\alpha+1}]/k^{\alpha+1}=(\alpha+1)/k+O(k^{-2})$ until skill k + 1 emerges."""
    return np.asarray(np.expm1((np.asarray(alpha, dtype=float) + 1) * np.log1p(1 / np.asarray(k, dtype=float))))


@implements(NAM24["Sec. 4.3.2"], NAM24["Eq. 4.30"])
def data_law(samples: ArrayLike, alpha: ArrayLike, target: ArrayLike) -> Floats:
    r"""$\mathbf E_D\mathcal L\simeq\frac{S^2A^{1-s}}{2(\alpha+1)}\mathrm B(s,D+1)$, for t = ∞ and small starts.

    The integral of Eq. 4.30, taken where $\mathcal P\le1$.

    >>> float(data_law(1e4, 0.6, 1.3).round(6))
    0.023613
    """
    D, a, S = (np.asarray(x, dtype=float) for x in (samples, alpha, target))
    A, s = zipf_constant(a), a / (a + 1)
    return np.asarray(S**2 * A ** (1 - s) / (2 * (a + 1)) * _beta(s, D + 1))


def _beta(s: Floats, z: Floats) -> Floats:
    r"""$\mathrm B(s,z)=\Gamma(s)\Gamma(z)/\Gamma(z+s)$, by Stirling's differences for large z."""
    from scipy.special import beta, gamma

    far = np.maximum(z, 30.0)
    rest = lambda x: (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * x**2)) / x**2) / x**2) / x
    ratio = (far - 0.5) * np.log1p(s / far) + s * np.log(far + s) - s + rest(far + s) - rest(far)
    return np.where(z < far, beta(s, np.minimum(z, 30.0)), gamma(s) * np.exp(-ratio))


def data_law_asymptote(samples: ArrayLike, alpha: ArrayLike, target: ArrayLike) -> Floats:
    r"""$\frac{S^2A}{2(\alpha+1)}\Gamma(s)(AD)^{-s}$, where `data_law` goes for large D."""
    from scipy.special import gamma

    D, a, S = (np.asarray(x, dtype=float) for x in (samples, alpha, target))
    A, s = zipf_constant(a), a / (a + 1)
    return np.asarray(S**2 * A / (2 * (a + 1)) * gamma(s) * (A * D) ** -s)


@implements(NAM24["Eq. 4.31"], NAM24["Eq. 4.32"])
def data_step(samples: ArrayLike, alpha: ArrayLike, target: ArrayLike) -> Floats:
    r"""$\Delta\mathcal L=-\frac{S^2A^2}2\int k^{-2(\alpha+1)}(1-\mathcal P)^Ddk$, what one more sample takes away.

    That is $-\frac{S^2A^{1-s}}{2(\alpha+1)}\mathrm B(s+1,D+1)$; the integral is over all k with
    $\mathcal P=Ak^{-(\alpha+1)}\le1$.

    >>> float((data_step(1000, 0.6, 1.3) / data_law(1000, 0.6, 1.3)).round(10)), float(data_drop(1000, 0.6).round(10))
    (-0.0003744851, -0.0003744851)
    """
    D, a, S = (np.asarray(x, dtype=float) for x in (samples, alpha, target))
    A, s = zipf_constant(a), a / (a + 1)
    return np.asarray(-(S**2) * A ** (1 - s) / (2 * (a + 1)) * _beta(s + 1, D + 1))


@implements(
    NAM24["Eq. 4.33"].misprint(
        printed="ΔL/L = −α/(1 + (α+1)D), from + α/((α+1)(D+1)) ΔL in the line before",
        right="ΔL/L = −α/((α+1)(D+1) + α), from − α/((α+1)(D+1)) ΔL: the leading order is the same",
        how="D = 1000, α = 0.6: exact −3.744851e-4, corrected −3.744851e-4, printed −3.747658e-4",
    ),
    NAM24["Eq. 4.34"],
)
def data_drop(samples: ArrayLike, alpha: ArrayLike) -> Floats:
    r"""$\Delta\mathcal L/\mathcal L$ of one more sample: $-\alpha/((\alpha+1)(D+1)+\alpha)$.

    >>> float(data_drop(1000, 0.6).round(10))
    -0.0003744851
    """
    a = np.asarray(alpha, dtype=float)
    return np.asarray(-a / ((a + 1) * (np.asarray(samples, dtype=float) + 1) + a))


@implements(NAM24["Sec. 4.3.3"])
def parameter_law(n_basis: ArrayLike, alpha: ArrayLike, target: ArrayLike) -> Floats:
    r"""$\mathcal L=\frac{S^2A}2\zeta(\alpha+1,N+1)$, exact for t, D = ∞.

    >>> float(parameter_law(0, 0.6, 2.0))
    2.0
    """
    from scipy.special import zeta

    N, a, S = (np.asarray(x, dtype=float) for x in (n_basis, alpha, target))
    return np.asarray(S**2 * zipf_constant(a) / 2 * zeta(a + 1, N + 1))


@implements(NAM24["Eq. 4.36"])
def parameter_law_asymptote(n_basis: ArrayLike, alpha: ArrayLike, target: ArrayLike) -> Floats:
    r"""$\frac{S^2A}{2\alpha}(N+\tfrac12)^{-\alpha}$: the power law, right to order $N^{-2}$."""
    N, a, S = (np.asarray(x, dtype=float) for x in (n_basis, alpha, target))
    return np.asarray(S**2 * zipf_constant(a) / (2 * a) * (N + 0.5) ** -a)


def missing_loss(alpha: ArrayLike, target: ArrayLike, n_skills: float) -> Floats:
    r"""$\mathcal L_C=\frac{S^2A}{2\alpha}N^{-\alpha}$ of Eq. C.2, A normalised over the N skills."""
    a, S = np.asarray(alpha, dtype=float), np.asarray(target, dtype=float)
    return np.asarray(S**2 * zipf_constant(a, n_skills) / (2 * a) * float(n_skills) ** -a)


@implements(NAM24["Eq. C.2"], NAM24["Eq. C.1"])
def corrected_slope(t: ArrayLike, loss: ArrayLike, alpha: ArrayLike, target: ArrayLike, n_skills: float) -> Floats:
    r"""$\frac{d\mathcal L}{dT}=-\frac\alpha{\alpha+1}\frac{\mathcal L+\mathcal L_C}T$ when there are N skills only."""
    return time_slope(t, np.asarray(loss) + missing_loss(alpha, target, n_skills), alpha)


def corrected_time_law(
    t: ArrayLike, first_time: ArrayLike, first_loss: ArrayLike, alpha: ArrayLike, target: ArrayLike, n_skills: float
) -> Floats:
    r"""Solution of Eq. C.2: $\mathcal L=(\mathcal L_0+\mathcal L_C)(T/T_0)^{-s}-\mathcal L_C$.

    It holds as long as $N^{\alpha+1}\gg2\eta AST$.
    """
    a, missing = np.asarray(alpha, dtype=float), missing_loss(alpha, target, n_skills)
    share = (np.asarray(t, dtype=float) / np.asarray(first_time)) ** (-a / (a + 1))
    return np.asarray((np.asarray(first_loss) + missing) * share - missing)
