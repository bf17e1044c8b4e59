r"""The multilinear model $f=\sum_{k\le N}a_kb_kg_k$: its skills learn alone, each a logistic in its own time.

Unlike a sum over all skills, the loss needs a few thousand terms whatever their number (`skill_sums`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.maths.arrays import Array, alike
from richter.maths.linear import linear_modes
from richter.maths.logistic import logistic_mode
from richter.maths.skill_sums import CHUNK, frequency_sum, power_sum
from richter.maths.skills import zipf_constant
from richter.refs import NAM24, implements

Floats = NDArray[np.float64]
BLOCK = 1 << 15  # numbers of a sum without a common start worked on at once: they stay in the cache
GONE = 23.0  # e^{−2·23} of a skill's loss is nothing beside one that is still there


@implements(NAM24["Eq. B.5"], NAM24["Eq. B.6"], NAM24["Eq. B.7"])
def pair_flow(a: Array, b: Array, share: Array, target: Array, eta: Array = 1.0) -> tuple[Array, Array]:
    r"""$\dot a_k=-\eta\frac{d_k}Db_k(a_kb_k-S)$ and the same with a and b exchanged."""
    force = eta * share * (a * b - target)
    return -force * b, -force * a


@implements(
    NAM24["Eq. B.8"].misprint(
        printed="dR/dt = −η (da/dt) b + a (db/dt)",
        right="dR/dt = (da/dt) b + a (db/dt): the η is already in da/dt",
        how="product rule; the next line of the print is right",
    ),
    NAM24["Eq. B.9"],
)
def strength_flow(strength: Array, share: Array, target: Array, eta: Array = 1.0) -> Array:
    r"""$\dot{\mathcal R}_k=-2\eta\frac{d_k}D\mathcal R_k(\mathcal R_k-S)$ for $a_k=b_k$."""
    return -2 * eta * share * strength * (strength - target)


@implements(NAM24["Eq. 4.11"], NAM24["Eq. B.1"], NAM24["Eq. B.10"])
def multilinear_strength(t: Array, share: Array, target: Array, initial: Array, eta: Array = 1.0) -> Array:
    r"""$\mathcal R_k=S/[1+(\frac S{\mathcal R_k(0)}-1)e^{-2\eta\frac{d_k}DSt}]$.

    t = ∞ and $\mathcal R_k(0)=0$ included. `share` is $d_k/D$, or $\mathcal P_s(k)$ for endless data.

    >>> multilinear_strength(np.array([0.0, np.inf]), 0.5, 2.0, 0.01).tolist()
    [0.01, 2.0]
    """
    xp, (t, share, target, initial, eta) = alike(t, share, target, initial, eta)
    started, time = _guards(xp, t, share * eta, target, initial)
    strength = target * logistic_mode(time, started, target)
    return xp.where(initial == 0, xp.zeros_like(strength), strength)


@implements(NAM24["Eq. 4.18"], NAM24["Eq. 4.19"], NAM24["Eq. B.2"])
def multilinear_skill_loss(t: Array, share: Array, target: Array, initial: Array, eta: Array = 1.0) -> Array:
    r"""$\mathcal L_k=\frac{S^2}2\Big(\frac{re^{-x}}{1+re^{-x}}\Big)^2$.

    With $r=\frac S{\mathcal R_k(0)}-1$ and $x=2\eta\frac{d_k}DSt$. The printed $e^{+x}$ overflows;
    this form does not, and keeps its digits when the skill is learned.

    >>> round(float(multilinear_skill_loss(np.array(20.0), 1.0, 2.0, 1.0) / (2 * np.exp(-160.0))), 12)
    1.0
    """
    xp, (t, share, target, initial, eta) = alike(t, share, target, initial, eta)
    started, time = _guards(xp, t, share * eta, target, initial)
    left = (target / started - 1) * xp.exp(-2 * target * time)
    return target**2 / 2 * xp.where(initial == 0, xp.ones_like(left), left / (1 + left)) ** 2


def _guards(xp: Array, t: Array, rate: Array, target: Array, initial: Array) -> tuple[Array, Array]:
    """Starts that are not 0, and a clock without 0·∞."""
    started = xp.where(initial == 0, target, initial)
    still = rate * target == 0
    return started, xp.where(still, 0.0, rate * xp.where(still, 0.0, t))


@implements(NAM24["Eq. B.3"], NAM24["Eq. B.4"])
def counted_loss(counts: ArrayLike, strength: ArrayLike, target: ArrayLike) -> Floats:
    r"""$\mathcal L^{(D)}=\frac1{2D}\sum_kd_k(S-\mathcal R_k)^2$, the loss on data with $d_k$ examples of skill k; (…,).

    >>> counted_loss([3, 1], [1.0, 0.0], 1.0).item()
    0.125
    """
    d = np.asarray(counts, dtype=float)
    each = (np.asarray(target, dtype=float) - np.asarray(strength)) ** 2
    return np.asarray((d * each).sum(axis=-1) / (2 * d.sum(axis=-1)))


@implements(NAM24["Eq. 4.17"])
def multilinear_loss(
    t: ArrayLike,
    alpha: ArrayLike,
    target: ArrayLike,
    initial: ArrayLike,
    eta: ArrayLike = 1.0,
    n_skills: float = np.inf,
    n_basis: float | None = None,
) -> Floats:
    r"""$\mathcal L=\sum_{k\le N}\mathcal P_s(k)\mathcal L_k(t)+\frac{S^2}2\sum_{k>N}\mathcal P_s(k)$ for endless data.

    The parameters broadcast with the times, and every skill starts alike; n_skills may be ∞. Exact to rounding.

    Args:
        t: times.
        alpha: exponent less one of the frequencies.
        target: S.
        initial: $\mathcal R_k(0)$ of every skill.
        eta: learning rate (times the rate multiplier, if there is one).
        n_skills: their number.
        n_basis: N, the number of basis functions; default: all.

    >>> multilinear_loss([0.0, np.inf], 0.6, 2.0, 0.2, n_skills=10**9, n_basis=10).round(4).tolist()
    [1.6876, 0.3556]
    """
    time, power, S, start, rate = np.broadcast_arrays(
        *(np.asarray(x, dtype=float) for x in (t, alpha, target, initial, eta))
    )
    shape = time.shape
    time, power, S, start, rate = (x.ravel() for x in (time, power, S, start, rate))
    last = n_skills if n_basis is None else min(n_basis, n_skills)
    A = zipf_constant(power, n_skills)
    with np.errstate(all="ignore"):
        stuck = (start == 0) | (rate * S == 0)
        speed = np.where(stuck | (time == 0), 0.0, 2 * rate * A * S * time)
        # 1 + r = S/R(0); a skill without a start keeps its whole loss.
        r = np.where(stuck, 0.0, S / np.where(stuck, 1.0, start) - 1)
        kept = np.where(start == 0, 1.0, 1 - start / S) ** 2

        def left(x: Floats, these: NDArray[np.intp]) -> Floats:
            rest = r[these] * np.exp(-x)
            return np.where(stuck[these], kept[these], (rest / (1 + rest)) ** 2)

        reach = max(0.0, float(np.log(np.maximum(r, 1.0)).max(initial=1.0))) + GONE
        learning = frequency_sum(left, speed, power + 1, last, reach) if last >= 1 else np.zeros(power.shape)
    return (A * S**2 / 2 * (learning + power_sum(power + 1, last + 1, n_skills))).reshape(shape)


def started_loss(t: Floats, share: Floats, target: Floats, start: Floats, eta: Floats) -> Floats:
    r"""$\sum_k\mathcal P_s(k)\mathcal L_k(t)$ (Eq. 4.17) with a start of each skill's own, a term for each; (case, t).

    Args:
        t: times (t,), ∞ included.
        share: $\mathcal P_s(k)$ (skill, case, 1).
        target: S (case, 1).
        start: $\mathcal R_k(0)$ (skill, case, 1), 0 for a skill that is not in the model.
        eta: learning rate (case, 1).

    >>> P, start, one = np.array([[[0.75]], [[0.25]]]), np.array([[[0.5]], [[0.0]]]), np.ones((1, 1))
    >>> started_loss(np.array([0.0, np.inf]), P, one, start, one)
    array([[0.21875, 0.125  ]])
    """
    share, target, start, eta = np.broadcast_arrays(share, target, start, eta)
    share, target, start, eta = (x[..., 0] for x in (share, target, start, eta))
    clock = -np.minimum(t, np.finfo(float).max)  # 0·∞ is 0: a skill that does not learn stays
    shape = (share.shape[1], t.size)
    rows = max(1, BLOCK // max(1, shape[0] * t.size))
    left, below = np.empty((rows, *shape)), np.empty((rows, *shape))
    loss = np.zeros(shape)
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        for at in range(0, share.shape[0], rows):
            part = slice(at, at + rows)
            P, S, R = share[part], target[part], start[part]
            x, y = left[: len(P)], below[: len(P)]
            np.multiply((2 * eta[part] * P * S)[..., None], clock, out=x)
            np.exp(x, out=x)
            x *= np.where(R > 0, S / np.where(R > 0, R, S) - 1, 0.0)[..., None]
            np.add(x, 1.0, out=y)
            x /= y
            x *= x
            weight = P * S**2 / 2
            loss += (weight.T[:, None] @ x.swapaxes(0, 1))[:, 0] + (weight * (R == 0)).sum(axis=0)[:, None]
    return loss


@implements(NAM24["Eq. 4.26"], NAM24["Eq. B.11"], NAM24["Eq. B.12"])
def one_shot_loss(count: ArrayLike, target: ArrayLike, initial: ArrayLike = 0.0) -> Floats:
    r"""$\mathcal L_k(\infty)$: 0 with $d_k>0$ examples, else $\tfrac12(S-\mathcal R_k(0))^2$.

    >>> one_shot_loss([0, 1, 7], 2.0).tolist()
    [2.0, 0.0, 0.0]
    """
    return np.where(np.asarray(count) > 0, 0.0, (np.asarray(target, dtype=float) - np.asarray(initial)) ** 2 / 2)


@implements(NAM24["Eq. 4.35"], NAM24["Eq. B.13"])
def basis_loss(k: ArrayLike, n_basis: ArrayLike, target: ArrayLike) -> Floats:
    r"""$\mathcal L_k(\infty)$ for endless data: 0 for k ≤ N, else $S^2/2$."""
    return np.where(np.asarray(k) <= np.asarray(n_basis), 0.0, np.asarray(target, dtype=float) ** 2 / 2)


@implements(
    NAM24["Eq. B.14"].misprint(
        printed="R_k(∞) = R_k(0) for k > N",
        right="R_k(∞) = 0 for k > N: a model without g_k has no strength of it, and L_k = S²/2 as in Eq. B.13",
        how="algebra: with R_k(0) ≠ 0 the loss of Eq. B.13 would be another",
    )
)
def basis_end(k: ArrayLike, n_basis: ArrayLike, target: ArrayLike) -> Floats:
    r"""$\mathcal R_k(\infty)$ for endless data: S for k ≤ N, else 0.

    >>> basis_end([1, 2, 3], 2, 5.0).tolist()
    [5.0, 5.0, 0.0]
    """
    return np.where(np.asarray(k) <= np.asarray(n_basis), np.asarray(target, dtype=float), 0.0)


@implements(NAM24["Eq. 4.27"])
def observed_probability(frequency: ArrayLike, samples: ArrayLike) -> Floats:
    r"""$1-(1-\mathcal P_s(k))^D$, the probability that D samples show skill k.

    >>> float(observed_probability(1e-20, 10.0))
    1e-19
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        unseen = np.asarray(samples, dtype=float) * np.log1p(-np.asarray(frequency, dtype=float))
    return -np.expm1(np.where(np.asarray(samples) == 0, 0.0, unseen))


@implements(NAM24["Eq. 4.28"], NAM24["Eq. 4.29"])
def expected_data_loss(
    samples: ArrayLike,
    alpha: ArrayLike,
    target: ArrayLike,
    initial: ArrayLike = 0.0,
    n_skills: float = np.inf,
    n_basis: float | None = None,
) -> Floats:
    r"""$\mathbf E_D\mathcal L=\tfrac12(S-\mathcal R(0))^2\sum_k\mathcal P_s(k)(1-\mathcal P_s(k))^D$.

    At t = ∞, over all draws. With N basis functions the skills beyond keep $S^2/2$. Exact to rounding.

    >>> float(expected_data_loss(0, 0.6, 2.0).round(12))
    2.0
    """
    D, power, S, start = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (samples, alpha, target, initial)))
    shape = D.shape
    D, power, S, start = (x.ravel() for x in (D, power, S, start))
    last = n_skills if n_basis is None else min(n_basis, n_skills)
    A = zipf_constant(power, n_skills)

    def unseen(x: Floats, these: NDArray[np.intp]) -> Floats:
        d = D[these]
        return np.where(d == 0, 1.0, np.exp(d * np.log1p(-np.minimum(1.0, x / np.where(d == 0, 1.0, d)))))

    learning = frequency_sum(unseen, A * D, power + 1, last, 2 * GONE) if last >= 1 else np.zeros(power.shape)
    beyond = power_sum(power + 1, last + 1, n_skills)
    return (A / 2 * ((S - start) ** 2 * learning + S**2 * beyond)).reshape(shape)


def expected_skill_losses(
    t: float, frequency: Floats, samples: int, target: float, initial: float, eta: float = 1.0
) -> Floats:
    r"""$\mathbf E[\mathcal L_k(t)]$ over $d_k\sim\mathrm{Bin}(D,\mathcal P_s(k))$ at any time, (skill,)."""
    from scipy.stats import binom

    P, D = np.asarray(frequency, dtype=float), int(samples)
    middle = np.floor(D * P)
    half = int(12 * np.sqrt(D * (P * (1 - P)).max()) + 40)  # what lies outside has probability < 1e-20
    offsets = np.arange(-half, half + 1)
    made = np.empty(P.shape)
    rows = max(1, CHUNK // offsets.size)
    for at in range(0, P.size, rows):
        d = middle[at : at + rows, None] + offsets
        chance = np.where((d >= 0) & (d <= D), binom.pmf(d, D, P[at : at + rows, None]), 0.0)
        loss = multilinear_skill_loss(np.asarray(t), np.clip(d, 0, D) / max(D, 1), target, initial, eta)
        made[at : at + rows] = (chance * loss).sum(axis=1)
    return made


@implements(NAM24["Eq. C.3"], NAM24["Eq. C.4"])
def linear_strength(t: Array, share: Array, target: Array, eta: Array = 1.0) -> Array:
    r"""$\mathcal R_k=S(1-e^{-\eta\frac{d_k}Dt})$: the model with one weight per skill, from 0.

    >>> linear_strength(np.inf, np.array([0.5, 0.0]), 2.0).tolist()
    [2.0, 0.0]
    """
    return linear_modes(t, share, target, eta)[0]


def linear_loss(
    t: ArrayLike,
    alpha: ArrayLike,
    target: ArrayLike,
    eta: ArrayLike = 1.0,
    n_skills: float = np.inf,
    n_basis: float | None = None,
) -> Floats:
    r"""$\mathcal L(t)$ of the linear model of Eq. C.3 for endless data, as `multilinear_loss`.

    >>> linear_loss([0.0, np.inf], 0.6, 2.0, n_skills=100).tolist()
    [2.0, 0.0]
    """
    time, power, S, rate = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (t, alpha, target, eta)))
    shape = time.shape
    time, power, S, rate = (x.ravel() for x in (time, power, S, rate))
    last = n_skills if n_basis is None else min(n_basis, n_skills)
    A = zipf_constant(power, n_skills)
    with np.errstate(invalid="ignore"):
        speed = np.where((rate == 0) | (time == 0), 0.0, rate * A * time)
    left = lambda x, these: np.exp(-2 * x)
    learning = frequency_sum(left, speed, power + 1, last, GONE) if last >= 1 else np.zeros(power.shape)
    return (A * S**2 / 2 * (learning + power_sum(power + 1, last + 1, n_skills))).reshape(shape)
