"""The multilinear model of many skills: neural scaling laws with every skill solved."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from richter import params as parameters
from richter.errors import ParameterError, message
from richter.maths.logistic import stage_times
from richter.maths.multilinear import (
    expected_data_loss,
    expected_skill_losses,
    multilinear_loss,
    multilinear_skill_loss,
    multilinear_strength,
    started_loss,
    strength_flow,
)
from richter.maths.skills import aligned_skill_loss, skill_frequencies
from richter.maths.spectrum import length
from richter.params import Given, param
from richter.refs import NAM24
from richter.regime import LAZY_BELOW, Evidence, Regime, by_movement, scalar_if_single
from richter.schema import Variable
from richter.theory.base import AbstractTheory
from richter.theory.layout import Floats, Layout, State
from richter.theory.linear_model import LinearModel

if TYPE_CHECKING:
    import xarray as xr

_READ = ("skill_loss", "kernel", "kernel_change")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MultilinearSkills(AbstractTheory):
    r"""$f=\sum_{k\le N}a_kb_kg_k$ learns $S\sum_kg_k$; skill k occurs with frequency $\propto k^{-(\alpha+1)}$.

    Loss $\tfrac12\sum_k\mathcal P_s(k)(S-\mathcal R_k)^2$ on endless data. The loss alone (`only=("loss",)`) of a
    million skills needs a few thousand terms.

    >>> skills = MultilinearSkills(alpha=0.6, n_skills=1000, target=5.0, initial=0.01, eta=0.05)
    >>> skills.solve([0.0, 1e3, np.inf], only=("loss",)).loss.round(4).values.tolist()
    [12.4501, 2.0849, 0.0]
    """

    alpha: Given = param("exponent of the frequencies, less one", symbol="α", low=0, open_low=True)
    n_skills: Given = param("number of skills", symbol="n_s", low=1)
    target: Given = param("target scale", symbol="S", low=0, open_low=True)
    initial: Given = param("skill strengths at the start", symbol="R(0)", dims=("skill",), low=0)
    eta: Given = param("learning rate", symbol="η", low=0, advice="Use 0 to freeze the model.")
    rate: Given = param("rate multiplier (ℬ of Eq. 5.1)", symbol="ℬ", default=1.0, low=0)
    n_basis: Given = param("number of skills in the model", symbol="N", low=0, same_as="n_skills")

    name: ClassVar[str] = "multilinear-skills"
    title: ClassVar[str] = "Multilinear skills"
    formula: ClassVar[str] = "R_k = S/(1 + (S/R_k(0) − 1) exp(−2ηℬP(k)St)) for k ≤ N, 0 beyond"
    valid: ClassVar[str] = "f = Σ a_k b_k g_k, a = b > 0, endless data, gradient flow on ½E(f − f*)²"
    places = (NAM24["Sec. 4.2"], NAM24["Eq. 4.11"])
    start_params: ClassVar[dict[str, str]] = {"skill_strength": "initial"}
    loss_factor: ClassVar[float] = 1.0
    loss_says: ClassVar[str] = "½Σ P(k)(S − R_k)² (NAM24: ½, mean over data)"
    variables = (
        Variable("skill_strength", ("skill",), "skill strength E[g_k f]", "function", "R"),
        Variable("skill_loss", ("skill",), "loss of each skill, ½(S − R)²", symbol="L_k"),
        Variable("loss", (), "½Σ P(k)(S − R_k)²", "loss", "L"),
        Variable("kernel", ("skill",), "eigenvalue of the NTK, 2ηℬP(k)R_k", symbol="K"),
        Variable(
            "kernel_change", (), "relative change of the NTK, ‖K − K₀‖/‖K₀‖", symbol="‖ΔK‖/‖K₀‖",
            undefined_when="the kernel is 0 at the start",
        ),
    )  # fmt: skip

    def check(self, resolved: parameters.Resolved) -> None:
        """Whole numbers, alike for every start; one start for all skills or one for each."""
        for name in ("n_skills", "n_basis"):
            value = resolved.values[name]
            if np.unique(value).size > 1 or (value % 1).any():
                raise ParameterError(message(f"`{name}` of MultilinearSkills", "be one whole number", value))
        n, N = (int(resolved.values[name].flat[0]) for name in ("n_skills", "n_basis"))
        if N > n:
            raise ParameterError(message("`n_basis` of MultilinearSkills", f"be at most n_skills = {n}", N))
        given = resolved.sizes.get("skill", 1)
        if given not in (1, n):
            must = f"be one number or one for each of the {n} skills"
            raise ParameterError(message("`initial` of MultilinearSkills", must, f"{given}"))

        start = resolved.values["initial"]
        tiny = (start > 0) & (start < parameters.SMALLEST)  # S/R(0) would overflow: every skill starts alone
        if tiny.any():
            must = f"be 0 or at least {parameters.SMALLEST:g} for every skill"
            raise ParameterError(message("`initial` of MultilinearSkills", must, float(start[tiny].flat[0])))

    def extra_sizes(self, sizes: dict[str, int]) -> dict[str, int]:
        """The number of skills, which is a parameter."""
        return {"skill": self._count("n_skills")}

    def _count(self, name: str) -> int:
        return int(self.params[name].flat[0])

    def frequencies(self) -> Floats:
        """P_s(k) of every skill, (*batch, skill)."""
        return self.by_start(self._share(self.layout))

    def _share(self, p: Layout) -> Floats:
        return skill_frequencies(p.alpha, self._count("n_skills"))

    def _start(self, p: Layout) -> Floats:
        """R(0), and 0 for the skills that the model has not."""
        n, N = self._count("n_skills"), self._count("n_basis")
        known = (np.arange(n) < N).reshape(-1, 1, 1)
        return np.where(known, np.broadcast_to(p.initial, (n, *p.initial.shape[1:])), 0.0)

    def prepare(self, p: Layout) -> Layout:
        """Nothing to prepare."""
        return p

    def exact(self, prepared: Layout, t: Floats, only: Collection[str]) -> State:
        """Eq. 4.11 for each skill; the loss alone without them."""
        p = prepared
        made: State = {}
        if "loss" in only:
            made["loss"] = self._loss(p, t)
        rest = [name for name in only if name != "loss"]
        if rest:
            strength = multilinear_strength(t, self._share(p), p.target, self._start(p), p.eta * p.rate)
            made["skill_strength"] = strength
            if set(rest) & set(_READ):
                made |= self._read(p, strength, self._start(p))
            if "skill_loss" in rest:
                made["skill_loss"] = multilinear_skill_loss(t, self._share(p), p.target, self._start(p), p.eta * p.rate)
        return {name: made[name] for name in only}

    def _loss(self, p: Layout, t: Floats) -> Floats:
        n, N = self._count("n_skills"), self._count("n_basis")
        first = p.initial[:1]
        if (p.initial == first).all():
            return multilinear_loss(t, p.alpha, p.target, first[0], p.eta * p.rate, n, N)
        return started_loss(t, self._share(p), p.target, self._start(p), p.eta * p.rate)

    def _read(self, p: Layout, strength: Floats, start: Floats) -> State:
        kernel = lambda x: 2 * p.eta * p.rate * self._share(p) * x
        return {
            "skill_loss": aligned_skill_loss(strength, p.target),
            "kernel": kernel(strength),
            "kernel_change": length(kernel(strength - start)) / length(kernel(start)),
        }

    def begin(self, p: Layout) -> State:
        """R(0)."""
        return {"skill_strength": self._start(p)}

    def flow(self, p: Layout, state: State) -> State:
        """Gradient flow of a = b, seen in R = ab."""
        return {"skill_strength": strength_flow(state["skill_strength"], self._share(p), p.target, p.eta * p.rate)}

    def rates(self, p: Layout, state: State) -> State:
        """2ηℬR: the weights' rate times what R gains by them."""
        return {"skill_strength": 2 * p.eta * p.rate * state["skill_strength"]}

    def aim(self, p: Layout) -> Floats:
        """S."""
        return np.broadcast_to(p.target, (self._count("n_skills"), *p.target.shape))

    def observables(self, p: Layout, state: State, start: State) -> State:
        """Every observable by its definition."""
        strength = state["skill_strength"]
        made = self._read(p, strength, start["skill_strength"])
        return {**made, "loss": (self._share(p) * made["skill_loss"]).sum(axis=0)}

    def invariants(self, p: Layout, state: State) -> State:
        """None: a = b already."""
        return {}

    def regime(self) -> Regime:
        """Lazy or rich by the kernel's movement, which is that of the skill strengths."""
        p = self.layout
        shape = (max(1, math.prod(self.batch_shape)),)
        with np.errstate(all="ignore"):
            share, start = self._share(p), self._start(p)
            moved = np.where((start > 0) & (p.eta * p.rate > 0), p.target - start, 0.0)
            change = np.broadcast_to((length(share * moved) / length(share * start))[..., 0], shape)
            change = np.where(np.broadcast_to((p.eta * p.rate)[..., 0], shape) > 0, change, np.nan)
        one = lambda x: scalar_if_single(x, self.batch_shape)
        return Regime(
            one(by_movement(change)),
            {"kernel_change": Evidence(one(change), "largest ‖K − K₀‖/‖K₀‖, at t = ∞", LAZY_BELOW)},
        )

    def stages(self, epsilon: float = 0.05) -> tuple[Floats, Floats]:
        """When each skill reaches εS, and how long it takes from there to (1 − ε)S (Eq. 3.12); (*batch, skill).

        Skills that the model has not, and such as start at 0 or learn nothing, never emerge.

        >>> skills = MultilinearSkills(alpha=1.0, n_skills=2, target=1.0, initial=1e-3, eta=1.0)
        >>> [times.round(2).tolist() for times in skills.stages()]
        [[2.48, 9.91], [3.68, 14.72]]
        """
        if not 0 < epsilon < 0.5:
            raise ParameterError(message("`epsilon`", "lie between 0 and ½", epsilon))
        p = self.layout
        speed, start = p.eta * p.rate * self._share(p), self._start(p)
        learns = (start > 0) & (speed > 0)
        safe = np.where(learns, speed, 1.0)
        inside = np.clip(np.where(learns, start, p.target / 2), 0.0, p.target * (1 - epsilon))
        first, wait = np.broadcast_arrays(*stage_times(epsilon, inside, p.target, safe))
        first = np.where(learns, np.maximum(first, 0.0), np.inf)
        return self.by_start(first), self.by_start(np.where(learns, wait, np.inf))

    # Finite data, and the model without layers.

    def _single(self, what: str) -> dict[str, float]:
        if self.batch_shape or self.params["initial"].size > 1:
            raise ParameterError(message(what, "be asked of one start, alike for all skills", "more"))
        return {name: float(value.flat[0]) for name, value in self.params.items()}

    def draw_counts(self, samples: int, draws: int = 1, rng: np.random.Generator | int = 0) -> Floats:
        """d_k, how often each skill is among `samples` examples: (draw, skill).

        >>> skills = MultilinearSkills(alpha=0.6, n_skills=3, target=1.0, initial=0.1, eta=1.0)
        >>> skills.draw_counts(100, draws=2).sum(axis=1).tolist()
        [100.0, 100.0]
        """
        p = skill_frequencies(self._single("draw_counts")["alpha"], self._count("n_skills"))
        return np.random.default_rng(rng).multinomial(samples, p / p.sum(), size=draws).astype(float)

    def from_counts(self, t: ArrayLike, counts: ArrayLike) -> xr.Dataset:
        """Skill strengths, training and test loss after training on data with d_k examples of skill k.

        A skill without examples does not learn. Dimensions: those in front of `counts` (…, skill) as `draw`, then t.

        >>> skills = MultilinearSkills(alpha=0.6, n_skills=3, target=1.0, initial=0.1, eta=1.0)
        >>> skills.from_counts([np.inf], [5, 1, 0]).skill_strength.values.tolist()
        [[1.0, 1.0, 0.1]]
        """
        import xarray as xr

        p = self._single("from_counts")
        d = np.asarray(counts, dtype=float)
        n = self._count("n_skills")
        if d.ndim not in (1, 2) or d.shape[-1] != n or (d < 0).any() or not (d.sum(axis=-1) > 0).all():
            raise ParameterError(message("`counts`", f"be (skill,) or (draw, skill) with {n} skills, ≥ 0", d))
        share = (d / d.sum(axis=-1, keepdims=True))[..., None, :]
        time = np.asarray(t, dtype=float).reshape(-1, 1)
        start = self._start(self.layout)[:, 0, 0]
        rate = p["eta"] * p["rate"]
        strength = multilinear_strength(time, share, p["target"], start, rate)
        losses = multilinear_skill_loss(time, share, p["target"], start, rate)
        P = skill_frequencies(p["alpha"], n)
        dims = (*(("draw",) if d.ndim == 2 else ()), "t")
        return xr.Dataset(
            {
                "skill_strength": ((*dims, "skill"), strength, {"long_name": "skill strength", "symbol": "R"}),
                "loss": (dims, (P * losses).sum(axis=-1), {"long_name": "test loss", "symbol": "L"}),
                "train_loss": (dims, (share * losses).sum(axis=-1), {"long_name": "loss on the data"}),
            },
            {"t": time[:, 0]},
        )

    def expected_loss(self, samples: ArrayLike, t: float = np.inf) -> Floats:
        """The test loss after training on D examples, averaged over all draws of them, exactly; as `samples`.

        >>> skills = MultilinearSkills(alpha=0.6, n_skills=1000, target=1.0, initial=1e-3, eta=1.0)
        >>> skills.expected_loss([1, 100]).round(4).tolist()
        [0.3849, 0.073]
        """
        p, D = self._single("expected_loss"), np.asarray(samples, dtype=float)
        if (D < 1).any() or (D % 1).any():
            raise ParameterError(message("`samples`", "be whole numbers ≥ 1", D))
        n, N = self._count("n_skills"), self._count("n_basis")
        if t == np.inf and p["initial"] > 0 and p["eta"] * p["rate"] > 0:
            return expected_data_loss(D, p["alpha"], p["target"], p["initial"], n, N)
        P, S = skill_frequencies(p["alpha"], n), p["target"]
        unknown = P[N:].sum() * S**2 / 2
        each = [
            (P[:N] * expected_skill_losses(t, P[:N], int(d), S, p["initial"], p["eta"] * p["rate"])).sum() + unknown
            for d in D.ravel()
        ]
        return np.array(each).reshape(D.shape)

    def linear_model(self) -> LinearModel:
        r"""The same skills with one weight each, $f=\sum w_kg_k$ from w = 0 (Eq. C.3).

        In the orthonormal basis $g_k/\sqrt{\mathcal P_s(k)}$.

        >>> skills = MultilinearSkills(alpha=0.6, n_skills=5, target=2.0, initial=1e-3, eta=1.0)
        >>> float(skills.linear_model().solve([0.0]).loss.round(9).item())
        2.0
        """
        if self._count("n_basis") < self._count("n_skills"):
            raise ParameterError(message("linear_model()", "be asked with n_basis = n_skills", self._count("n_basis")))
        share = self.frequencies()
        rates = np.asarray(self.params["eta"] * self.params["rate"])
        target = np.sqrt(share) * np.asarray(self.params["target"])[..., None]
        return LinearModel(eigenvalues=share, coefficients=target, eta=rates, batch=self.batch)
