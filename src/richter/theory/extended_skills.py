"""The extended multilinear model: every skill needs several examples and several basis functions."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from richter import params as parameters
from richter.errors import OutsideTheoryError, ParameterError, message
from richter.maths.extended_skills import (
    basis_shares,
    endless_gram,
    extended_coefficients,
    extended_end,
    extended_flow,
    sample_loss,
    skill_direction,
    skill_imbalance,
    skill_kernel_change,
)
from richter.maths.neuron import solve_neuron
from richter.maths.skills import skill_frequencies, total_loss
from richter.params import Given, param
from richter.refs import NAM24
from richter.regime import LAZY_BELOW, Evidence, Regime, by_movement, scalar_if_single
from richter.schema import Variable
from richter.theory.base import AbstractTheory
from richter.theory.layout import Floats, Layout, State

if TYPE_CHECKING:
    import xarray as xr

ISOTROPIC = 1e-9  # largest deviation of a Gram matrix from a multiple of a projector, relative to it


@dataclass(frozen=True)
class _Prepared:
    layout: Layout
    value: Floats  # λ of each skill, 0 without data
    aim: Floats  # the part of the target that the data shows (basis, skill, …)
    inside: Floats  # the part of B₀ that moves
    outside: Floats  # the part that does not (skill, basis, …)
    hidden: Floats  # the part of the target that the data does not show (skill, basis, …)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ExtendedSkills(AbstractTheory):
    r"""$f=\sum_ka_k\sum_lB_{k,l}e_{k,l}$ learns $S\sum_kg_k$, $g_k=\sum_le_{k,l}/\sqrt{D_c}$, from data.

    The data of skill k is its Gram matrix $G_k=\Phi_k\Phi_k^T/D$. Where that is $\lambda_kUU^T$ (endless or whitened
    data) each skill is a single neuron on U and the flow is exact; for other data `end_state` still is. Loss:
    $\tfrac12\sum_k(a_k\vec B_k-\vec S/\sqrt{D_c})^TG_k(\dots)$ on the data.

    >>> model = ExtendedSkills.from_draw(alpha=0.6, n_skills=2, needed=8, target=1.0, a0=1e-3, samples=10, rng=3)
    >>> model.limit().skill_strength.values.shape
    (2,)
    """

    alpha: Given = param("exponent of the frequencies, less one", symbol="α", low=0, open_low=True)
    target: Given = param("target scale", symbol="S", low=0, open_low=True)
    a0: Given = param("second layer at the start", symbol="a(0)", dims=("skill",))
    B0: Given = param("first layer at the start", symbol="B(0)", dims=("skill", "basis"))
    gram: Given = param("the data's Gram matrices ΦΦᵀ/D", symbol="G", dims=("skill", "basis", "basis_2"))
    eta: Given = param("learning rate", symbol="η", default=1.0, low=0, advice="Use 0 to freeze the model.")

    name: ClassVar[str] = "extended-skills"
    title: ClassVar[str] = "Extended skills"
    formula: ClassVar[str] = (
        "each skill a single neuron (a, UUᵀB) with target UUᵀS⃗/√D_c on the clock ηλt; (I − UUᵀ)B stays"
    )
    valid: ClassVar[str] = "f = Σ a_k Σ B_kl e_kl, orthonormal e_kl, G_k = λ_k UUᵀ, gradient flow on ½E_data(f − f*)²"
    places = (NAM24["Sec. 5.2.2"], NAM24["Sec. 5.2.3"], NAM24["App. B.1.4"])
    start_params: ClassVar[dict[str, str]] = {"a": "a0", "B": "B0"}
    loss_factor: ClassVar[float] = 1.0
    loss_says: ClassVar[str] = "½ mean over the data of (f − f*)² (NAM24)"
    variables = (
        Variable("a", ("skill",), "second layer", "state", "a"),
        Variable("B", ("skill", "basis"), "first layer", "state", "B"),
        Variable("coefficient", ("skill", "basis"), "coefficient of each basis function, aB", "function", "aB"),
        Variable("skill_strength", ("skill",), "skill strength E[g_k f]", symbol="R"),
        Variable("effective_strength", ("skill",), "that of a multilinear model with this loss, S − √(2L_k)"),
        Variable("skill_loss", ("skill",), "test loss of each skill, ½‖aB − S⃗/√D_c‖²", symbol="L_k"),
        Variable("loss", (), "loss on the data", "loss", "L_D"),
        Variable("test_loss", (), "Σ P(k) L_k", symbol="L"),
        Variable("imbalance", ("skill",), "conserved a² − ‖B‖²", "invariant"),
    )  # fmt: skip

    def check(self, resolved: parameters.Resolved) -> None:
        """Gram matrices are square, symmetric and positive semi-definite; starts are not tiny."""
        gram = resolved.values["gram"]
        if gram.shape[-1] != gram.shape[-2]:
            raise ParameterError(message("`gram` of ExtendedSkills", "be (skill, basis, basis)", f"shape {gram.shape}"))
        size = np.abs(gram).max()
        if np.abs(gram - np.swapaxes(gram, -1, -2)).max() > 1e-10 * size:
            raise ParameterError(message("`gram` of ExtendedSkills", "be symmetric", "another", "Use ΦΦᵀ/D."))
        if np.linalg.eigvalsh(gram).min() < -1e-10 * size:
            raise ParameterError(message("`gram` of ExtendedSkills", "have no negative eigenvalue", "one < 0"))

        for name, axes in (("a0", ()), ("B0", (-1,))):  # every skill starts alone
            size = np.abs(resolved.values[name]).max(axis=axes)
            tiny = (size > 0) & (size < parameters.SMALLEST)
            if tiny.any():
                must = f"be 0 or at least {parameters.SMALLEST:g} in magnitude for every skill"
                raise ParameterError(message(f"`{name}` of ExtendedSkills", must, float(size[tiny].flat[0])))

    def extra_sizes(self, sizes: dict[str, int]) -> dict[str, int]:
        """None: every dimension belongs to a parameter."""
        return {}

    def prepare(self, p: Layout) -> _Prepared:
        """The part of the start and of the target that the data shows; refuses data that is not whitened."""
        gram = p.gram
        trace = np.einsum("kii...->k...", gram)
        square = np.einsum("kij...,kij...->k...", gram, gram)
        shown = trace > 0
        value = np.where(shown, square / np.where(shown, trace, 1.0), 0.0)
        projector = gram / np.where(shown, value, 1.0)[:, None, None]
        off = np.abs(np.einsum("kij...,kjl...->kil...", projector, projector) - projector).max()
        if off > ISOTROPIC:
            raise OutsideTheoryError(
                message(
                    "The Gram matrices of ExtendedSkills", "be multiples of projectors (endless or whitened data)",
                    f"a deviation of {off:.2g}", "Use end_state() for the exact end, or simulate(t) for the way there.",
                )
            )  # fmt: skip
        onto = lambda x: np.einsum("kij...,kj...->ki...", projector, x)
        aim, inside = onto(self.aim(p)), onto(p.B0 + 0 * gram[:, 0])
        seen = shown & ((aim**2).sum(axis=1) > 1e-24 * p.target**2)
        if (shown & ~seen).any():
            raise OutsideTheoryError(
                "The data of a skill of ExtendedSkills shows nothing of its target: use end_state() or simulate(t)."
            )
        # A skill without data stands still; any target keeps its formula finite.
        whole = (np.abs(trace - value * gram.shape[1]) <= ISOTROPIC * value)[:, None] & seen[:, None]
        hidden = np.where(whole, 0.0, self.aim(p) - np.where(seen[:, None], aim, 0.0))
        first = lambda x: np.moveaxis(x, 1, 0)
        return _Prepared(
            p,
            value,
            first(np.where(seen[:, None], aim, 1.0)),
            first(inside),
            np.where(whole, 0.0, p.B0 - inside),
            hidden,
        )

    def _solve(self, m: _Prepared, t: Floats, only: Collection[str]) -> State:
        speed = m.layout.eta * m.value
        clock = np.where(speed == 0, 0.0, speed * np.where(speed == 0, 0.0, t))
        return solve_neuron(clock, m.layout.a0 + 0 * speed, m.inside, m.aim, 1.0, 1.0, only)

    def exact_state(self, prepared: _Prepared, t: Floats) -> State:
        """One single neuron per skill."""
        got = self._solve(prepared, t, ("a", "w"))
        return {"a": got["a"], "B": np.moveaxis(got["w"], 0, 1) + prepared.outside}

    def exact(self, prepared: _Prepared, t: Floats, only: Collection[str]) -> State:
        """The state, what is read off it, and the losses from the neuron's residual, which keeps its digits."""
        m, p = prepared, prepared.layout
        state = self.exact_state(m, t)
        if set(only) <= set(state):
            return {name: state[name] for name in only}
        made = {**state, **self.observables(p, state, self.begin(p)), **self.invariants(p, self.begin(p))}
        known = np.where(m.value > 0, (self._solve(m, t, ("residual",))["residual"] ** 2).sum(axis=0), 0.0)
        unknown = ((state["a"][:, None] * m.outside - m.hidden) ** 2).sum(axis=1)
        losses = (known + unknown) / 2
        made |= {
            "skill_loss": losses,
            "effective_strength": p.target - np.sqrt(2 * losses),
            "loss": (m.value * known).sum(axis=0) / 2,
            "test_loss": total_loss(skill_frequencies(p.alpha, losses.shape[0]), losses),
        }
        return {name: made[name] for name in only}

    def begin(self, p: Layout) -> State:
        """(a₀, B₀)."""
        return {"a": p.a0, "B": p.B0}

    def flow(self, p: Layout, state: State) -> State:
        """Eqs B.21 and B.23."""
        da, dB = extended_flow(state["a"], state["B"], p.gram, self.aim(p), p.eta)
        return {"a": da, "B": dB}

    def rates(self, p: Layout, state: State) -> State:
        """η of both layers."""
        return {"a": p.eta, "B": p.eta}

    def aim(self, p: Layout) -> Floats:
        """S⃗/√D_c of every skill."""
        skills, basis = p.B0.shape[:2]
        return np.broadcast_to(skill_direction(basis, p.target), (skills, basis, *p.target.shape))

    def observables(self, p: Layout, state: State, start: State) -> State:
        """Every observable by its definition."""
        a, B, aim = state["a"], state["B"], self.aim(p)
        coefficient = extended_coefficients(a, B)
        losses = ((coefficient - aim) ** 2).sum(axis=1) / 2
        return {
            "coefficient": coefficient,
            "skill_strength": coefficient.sum(axis=1) / np.sqrt(B.shape[1]),
            "effective_strength": p.target - np.sqrt(2 * losses),
            "skill_loss": losses,
            "loss": sample_loss(a, B, p.gram, aim),
            "test_loss": total_loss(skill_frequencies(p.alpha, B.shape[0]), losses),
        }

    def invariants(self, p: Layout, state: State) -> State:
        """Lemma 3."""
        return {"imbalance": skill_imbalance(state["a"], state["B"])}

    def regime(self) -> Regime:
        """Lazy or rich by the largest movement of any skill's kernel $a^2I+\\vec B\\vec B^T$, at the end."""
        p = self.layout
        start = {name: x[..., 0] for name, x in self.begin(p).items()}
        end = {name: x[..., 0] for name, x in self.exact_state(self.prepare(p), np.array([np.inf])).items()}
        with np.errstate(invalid="ignore"):
            change = skill_kernel_change(end["a"], end["B"], start["a"], start["B"])
        shape = (max(1, math.prod(self.batch_shape)),)
        most = np.broadcast_to(np.fmax.reduce(change, axis=0), shape)
        one = lambda x: scalar_if_single(x, self.batch_shape)
        return Regime(
            one(by_movement(most)),
            {"kernel_change": Evidence(one(most), "largest ‖M − M₀‖/‖M₀‖ of a skill, at t = ∞", LAZY_BELOW)},
        )

    def end_state(self) -> xr.Dataset:
        """Where gradient flow ends on any data, whitened or not (Eqs B.37, B.39): every variable, without times."""
        p = self.layout
        with np.errstate(all="ignore"):
            a, B = extended_end(p.a0 + 0 * p.gram[:, 0, 0], p.B0 + 0 * p.gram[:, 0], p.gram, self.aim(p))
        return self.labelled(self.read({"a": a, "B": B}, np.array([np.inf])), "end state").isel(t=0)

    @classmethod
    def endless(
        cls,
        *,
        alpha: float,
        n_skills: int,
        needed: int,
        target: float,
        a0: float,
        n_basis: int | None = None,
        eta: float = 1.0,
    ) -> Self:
        """Endless data ($G_k=\\mathcal P_s(k)I$, Eq. B.46) and N basis functions in all (Eq. 5.6), from $B_0=a_0/\\sqrt{D_c}$ each.

        >>> model = ExtendedSkills.endless(alpha=0.6, n_skills=3, needed=4, target=1.0, a0=1e-2, n_basis=6)
        >>> model.limit().skill_strength.round(3).values.tolist()
        [1.0, 0.5, 0.0]
        """  # noqa: E501 (one sentence)
        N = n_skills * needed if n_basis is None else n_basis
        if not (isinstance(N, int) and 0 <= N <= n_skills * needed):
            raise ParameterError(message("`n_basis`", f"be a whole number from 0 to {n_skills * needed}", N))
        there = np.arange(needed) < basis_shares(N, needed, n_skills)[:, None]
        frequency = skill_frequencies(alpha, n_skills)
        gram = endless_gram(frequency, there)
        B0 = np.where(there, a0 / np.sqrt(needed), 0.0)
        return cls(alpha=alpha, target=target, a0=np.full(n_skills, float(a0)), B0=B0, gram=gram, eta=eta)

    @classmethod
    def from_draw(
        cls,
        *,
        alpha: float,
        n_skills: int,
        needed: int,
        target: float,
        a0: float,
        samples: int,
        whitened: bool = True,
        counts: Given = None,
        eta: float = 1.0,
        rng: np.random.Generator | int = 0,
    ) -> Self:
        """D examples, $d_k$ of each skill drawn by its frequency, with independent Gaussian values of the $e_{k,l}$.

        Whitened data ($G_k=\\frac{d_k}DUU^T$) has the same end and an exact way there. `counts` fixes the $d_k$.
        """
        generator = np.random.default_rng(rng)
        p = skill_frequencies(alpha, n_skills)
        d = generator.multinomial(samples, p / p.sum()) if counts is None else np.asarray(counts, dtype=int)
        if d.shape != (n_skills,) or d.sum() != samples or (d < 0).any():
            raise ParameterError(message("`counts`", f"be {n_skills} whole numbers ≥ 0 of sum {samples}", d))
        gram = np.zeros((n_skills, needed, needed))
        for k, count in enumerate(d):  # a Gram matrix per skill
            phi = generator.standard_normal((needed, count))
            if whitened and count:
                U, _, _ = np.linalg.svd(phi, full_matrices=False)
                gram[k] = count / samples * (U @ U.T)
            else:
                gram[k] = phi @ phi.T / samples
        B0 = np.zeros((n_skills, needed))
        return cls(alpha=alpha, target=target, a0=np.full(n_skills, float(a0)), B0=B0, gram=gram, eta=eta)
