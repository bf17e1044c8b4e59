"""Members of every theory on which the laws are run: signs, symmetries, extremes, batches, frozen layers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from richter.params import Given
from richter.theory.aligned_network import AlignedNetwork
from richter.theory.base import AbstractTheory
from richter.theory.diagonal_network import DiagonalNetwork
from richter.theory.extended_skills import ExtendedSkills
from richter.theory.isotropic_network import IsotropicNetwork
from richter.theory.linear_model import LinearModel
from richter.theory.multilinear_skills import MultilinearSkills
from richter.theory.scalar_network import ScalarNetwork
from richter.theory.single_neuron import SingleNeuron
from richter.theory.wide_scalar import WideScalar


@dataclass(frozen=True)
class Member:
    """A theory to test, the times to look at, and what the laws may not ask of it (with the reason)."""

    name: str
    make: Callable[[], AbstractTheory]
    times: tuple[float, ...] = (0.0, 0.1, 0.4, 1.0, 2.5)
    excused: tuple[tuple[str, str], ...] = ()

    def why_not(self, law: str) -> str | None:
        """The reason why a law is not asked of this member."""
        return dict(self.excused).get(law)


STIFF = (("agrees_with_its_simulation", "too stiff for an explicit integrator"),)
SADDLE = (("restarted_it_goes_on", "the saddle's axis repels rounding errors"),)


def _maker(kind: type[AbstractTheory], **usual: Given) -> Callable[..., Callable[[], AbstractTheory]]:
    def make(**special: Given) -> Callable[[], AbstractTheory]:
        return lambda: kind.of(**{**usual, **special})

    return make


def members() -> list[Member]:
    """The zoo."""
    e, r = np.array([0.6, -0.8]), np.random.default_rng(7)
    neuron = _maker(SingleNeuron, beta_star=1.5 * e)
    wide = _maker(WideScalar, x=[0.5, -1.0, 0.3], y=1.2)
    scalar = _maker(ScalarNetwork, target=1.3)
    diagonal = _maker(DiagonalNetwork, target=[1.0, -0.7, 2.0])
    aligned = _maker(AlignedNetwork, strengths=[1.5, -0.7, 0.4])
    linear = _maker(LinearModel, coefficients=[1.0, -0.5, 0.3])

    def isotropic(d: int, h: int, c: int, delta: float, **more: Given) -> Callable[[], AbstractTheory]:
        target = np.random.default_rng(d + 10 * c).normal(size=(d, c))
        shape = {"inputs": d, "neurons": h, "outputs": c}
        return lambda: IsotropicNetwork.random(**shape, beta_star=target, delta=delta, rng=h, **more)

    draw_from = np.random.default_rng(12)
    frozen = _maker(
        IsotropicNetwork, A0=draw_from.normal(size=(3, 2)), W0=draw_from.normal(size=(3, 4)),
        beta_star=draw_from.normal(size=(4, 2)), input_gram=np.diag([2.0, 1.0, 0.5, 0.0]) + 0.1,
    )  # fmt: skip
    skills = _maker(MultilinearSkills, alpha=0.6, n_skills=6, target=1.3, initial=0.02, eta=0.8)

    def extended(**more: Given) -> Callable[[], AbstractTheory]:
        draw = np.random.default_rng(11)
        given = {"a0": [0.5, -0.2, 0.1], "B0": 0.3 * draw.normal(size=(3, 5))}
        drawn: dict[str, Given] = {
            "alpha": 0.6,
            "n_skills": 3,
            "needed": 5,
            "target": 1.3,
            "a0": 0.3,
            "samples": 7,
            "rng": draw,
        }
        return lambda: ExtendedSkills.from_draw(**drawn, counts=[4, 2, 1]).with_(**{**given, **more})

    u, w = r.normal(size=4), r.normal(size=(4, 3))
    a, b = r.normal(size=5), r.normal(size=5)
    far = tuple(np.array([0.0, 1e-7, 1e-6, 3e-6]))
    slow = (0.0, 0.5, 2.0, 6.0, 20.0)
    return [
        Member("neuron-upstream", neuron(a0=1.4, w0=[-0.5, 0.2])),
        Member("neuron-downstream", neuron(a0=0.3, w0=[-1.2, 0.9], eta_a=0.5, eta_w=2.0)),
        Member("neuron-crossing", neuron(a0=0.4, w0=-2.0 * e + [0.1, 0.1])),
        Member("neuron-negative-a", neuron(a0=-0.8, w0=[0.3, 0.5], eta_a=2.0)),
        Member("neuron-balanced", neuron(a0=0.5, w0=[0.3, 0.4])),
        Member("neuron-aligned", neuron(a0=0.2, w0=0.7 * e)),
        Member("neuron-a-zero", neuron(a0=0.0, w0=[0.5, 0.3])),
        Member("neuron-w-zero", neuron(a0=0.7, w0=[0.0, 0.0])),
        Member("neuron-one-input", lambda: SingleNeuron(a0=-0.4, w0=[0.3], beta_star=[2.0])),
        Member("neuron-five-inputs", lambda: SingleNeuron(a0=0.3, w0=b, beta_star=a)),
        Member(
            "neuron-saddle",
            neuron(a0=0.0, w0=[0.8, 0.0], beta_star=[0.0, 1.5]),
            excused=(*SADDLE, ("obeys_its_symmetries", SADDLE[0][1])),
        ),
        Member("neuron-at-rest", neuron(a0=0.0, w0=[0.0, 0.0])),
        Member("neuron-frozen-a", neuron(a0=0.7, w0=[0.5, 0.3], eta_a=0.0, eta_w=0.6)),
        Member("neuron-frozen-w", neuron(a0=0.7, w0=[0.5, 0.3], eta_w=0.0)),
        Member("neuron-frozen-both", neuron(a0=0.7, w0=[0.5, 0.3], eta_w=0.0, eta_a=0.0)),
        Member("neuron-far-upstream", neuron(a0=1e3, w0=[0.5, 0.3]), far, STIFF),
        Member("neuron-far-downstream", neuron(a0=1e-3, w0=[5e2, 3e2]), far, STIFF),
        Member(
            "neuron-batch",
            lambda: SingleNeuron(a0=r.normal(size=(3, 1)), w0=r.normal(size=(2, 2)), beta_star=e, eta_a=[0.5, 1.0]),
        ),
        Member("wide", wide(u0=u, w0=w)),
        Member("wide-rates", wide(u0=u, w0=w, eta_u=0.3, eta_w=2.0, gamma=0.4)),
        Member("wide-negative", wide(u0=u, w0=w, y=-2.0, gamma=-0.7)),
        Member("wide-zero-target", wide(u0=u, w0=w, y=0.0)),
        Member("wide-parallel", lambda: WideScalar(u0=a, w0=0.5 * a[:, None], x=[1.0], y=0.4, gamma=0.3)),
        Member("wide-no-p", lambda: WideScalar(u0=a, w0=-a[:, None], x=[1.0], y=0.4), excused=SADDLE),
        Member("wide-no-p-down", lambda: WideScalar(u0=a, w0=-a[:, None], x=[1.0], y=-0.4)),
        Member("wide-no-p-zero", lambda: WideScalar(u0=a, w0=-a[:, None], x=[1.0], y=0.0)),
        Member("wide-u-zero", wide(u0=0 * u, w0=w)),
        Member("wide-one-neuron", lambda: WideScalar(u0=[0.3], w0=[[-0.2]], x=[2.0], y=1.0)),
        Member("wide-frozen-u", wide(u0=u, w0=w, eta_u=0.0)),
        Member("wide-frozen-w", wide(u0=u, w0=w, eta_w=0.0)),
        Member("wide-batch", lambda: WideScalar(u0=r.normal(size=(3, 4)), w0=w, x=[1.0, 0.0, 0.2], y=[1.0, -1.0, 0.0])),
        Member("scalar", scalar(a0=a, b0=b)),
        Member("scalar-rates", scalar(a0=a, b0=b, eta_a=0.4, eta_b=1.5, normalisation=3.0, input_variance=0.7)),
        Member("scalar-negative", scalar(a0=a, b0=b, target=-1.0)),
        Member("scalar-signs", scalar(a0=[1.0, -1.0, 1.0, 1.0], b0=[1.0, 1.0, -1.0, 1.0], normalisation=2.0)),
        Member("scalar-frozen-a", scalar(a0=a, b0=b, eta_a=0.0)),
        Member("scalar-frozen-b", scalar(a0=a, b0=b, eta_b=0.0)),
        Member("scalar-batch", scalar(a0=r.normal(size=(3, 2)), b0=r.normal(size=(3, 2)), target=[1.0, 0.0, 2.0])),
        Member("diagonal", diagonal(a0=[0.1, 0.2, -0.3], b0=[0.3, 0.1, 0.2], input_variance=[1.0, 0.5, 0.2])),
        Member("diagonal-equal", diagonal(a0=0.1, b0=0.1, target=[1.0, 2.0, 0.5])),
        Member("diagonal-opposite", diagonal(a0=0.1, b0=-0.1), excused=SADDLE),
        Member("diagonal-rates", diagonal(a0=0.5, b0=-0.2, eta_a=0.3, eta_b=2.0)),
        Member("diagonal-frozen", diagonal(a0=0.5, b0=-0.2, eta_a=0.0)),
        Member("diagonal-one", lambda: DiagonalNetwork(a0=[0.1], b0=[0.4], target=[-1.0])),
        Member("diagonal-batch", diagonal(a0=r.normal(size=(3, 3)), b0=0.3, input_variance=[1.0, 0.3, 0.1])),
        Member("isotropic-square", isotropic(3, 3, 3, 0.7)),
        Member("isotropic-square-down", isotropic(3, 3, 3, -0.7)),
        Member("isotropic-balanced", isotropic(4, 2, 3, 0.0)),
        Member("isotropic-wide-balanced", isotropic(2, 5, 3, 0.0)),
        Member("isotropic-funnel", isotropic(5, 2, 3, 1.3, eta_a=0.5, eta_w=1.5)),
        Member("isotropic-inverted", isotropic(2, 2, 4, -1.3, eta_a=1.5, eta_w=0.5)),
        Member("isotropic-nearly-balanced", isotropic(3, 2, 2, 1e-9)),
        Member("isotropic-tiny", isotropic(3, 2, 2, 0.0, scale=1e-6), (0.0, 0.5, 2.0, 8.0, 20.0)),
        Member("isotropic-one-neuron", isotropic(3, 1, 1, -0.4)),
        Member("isotropic-frozen-a", frozen(eta_a=0.0, eta_w=0.6)),
        Member("isotropic-frozen-w", frozen(eta_w=0.0)),
        Member("isotropic-frozen-both", frozen(eta_a=0.0, eta_w=0.0)),
        Member("isotropic-some-frozen", lambda: isotropic(3, 2, 2, 0.5)().with_(eta_w=[1.0, 0.0], eta_a=1.0)),
        Member("aligned-balanced", aligned(initial=[0.1, -0.2, 0.05])),
        Member(
            "aligned-unbalanced",
            aligned(initial=[0.1, 0.2, -0.3], delta=[1.2, -0.4, 0.1], input_spectrum=[1, 0.5, 2]),
        ),
        Member("aligned-rates", aligned(initial=[0.1, 0.2, 0.9], delta=0.3, eta_a=0.3, eta_w=2.0)),
        Member("aligned-frozen", aligned(initial=[0.1, 0.2, 0.9], delta=0.3, eta_a=0.0)),
        Member("aligned-deep", aligned(initial=[0.1, -0.2, 0.9], depth=3, eta_a=0.7, eta_w=0.7)),
        Member("aligned-deeper", aligned(initial=[0.3, -0.9, 0.2], depth=5, input_spectrum=[1.0, 0.5, 2.0])),
        Member("aligned-deep-opposed", aligned(initial=[-0.3, 0.9, 0.2], depth=4, strengths=[1.0, -2.0, 0.0])),
        Member("aligned-batch", aligned(initial=[[0.1, 0.2, 0.3], [1.0, -0.1, 0.1]], delta=0.5)),
        Member("linear", linear(eigenvalues=[2.0, 0.5, 0.1])),
        Member("linear-null", linear(eigenvalues=[2.0, 0.0, 0.1], eta=0.3, initial_output=[0.2, 0.4, -1.0])),
        Member("linear-frozen", linear(eigenvalues=[2.0, 0.5, 0.1], eta=0.0, initial_output=0.3)),
        Member("linear-batch", linear(eigenvalues=[2.0, 0.5, 0.1], eta=[0.5, 1.0], initial_output=0.1)),
        Member("multilinear", skills(), slow),
        Member("multilinear-starts", skills(initial=[0.02, 0.3, 2.0, 0.1, 0.0, 0.5], rate=0.3), slow),
        Member("multilinear-few", skills(n_basis=4), slow),
        Member("multilinear-many", skills(n_skills=700, n_basis=500), slow),
        Member("multilinear-one", skills(n_skills=1, initial=2.0)),
        Member("multilinear-frozen", skills(eta=0.0)),
        Member("multilinear-batch", skills(alpha=[0.3, 2.0], initial=[[0.1], [0.4]], eta=[0.5, 1.0]), slow),
        Member("extended", extended(), slow),
        Member("extended-batch", extended(B0=0.3 * r.normal(size=(2, 3, 5)), eta=[0.5, 1.0]), slow),
        Member("extended-frozen", extended(eta=0.0)),
        Member(
            "extended-no-data",
            lambda: ExtendedSkills.from_draw(
                alpha=0.6, n_skills=2, needed=4, target=1.0, a0=0.2, samples=3, counts=[3, 0]
            ),
            slow,
        ),
        Member(
            "extended-endless",
            lambda: ExtendedSkills.endless(alpha=0.6, n_skills=3, needed=4, target=1.3, a0=0.2, n_basis=6, eta=0.7),
            slow,
        ),
    ]
