"""A two-layer linear network of any shape whose imbalance is isotropic."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from richter.errors import OutsideTheoryError, ParameterError, message
from richter.maths.frozen_network import frozen_network_path
from richter.maths.network_kernel import layer_product, network_kernel_movement
from richter.maths.network_law import network_flow
from richter.maths.riccati import RiccatiModes, riccati_modes, riccati_path
from richter.params import Given, Resolved, numbers, param
from richter.refs import KUN24
from richter.regime import DELAYED_BELOW, FIT_TIME, LAZY_BELOW, Evidence, Regime, by_movement, scalar_if_single
from richter.schema import Variable
from richter.theory.base import AbstractTheory
from richter.theory.isotropic_starts import isotropic_start
from richter.theory.layout import Floats, Layout, State

ISOTROPIC = 1e-9  # largest deviation of Δ from δI, relative to the squares it is made of
WHITE = 1e-12  # largest deviation of the inputs' Gram matrix from a multiple of the identity, relatively


@dataclass(frozen=True)
class _Prepared:
    layout: Layout
    modes: RiccatiModes
    root_a: Floats  # √η_w (start, 1, 1, 1): turns A into Ã
    root_w: Floats
    delta: Floats
    strength: Floats  # the multiple of the identity that the inputs' Gram matrix is (start, 1)
    frozen: NDArray[np.bool_]  # whether a layer has the rate 0 (start, 1, 1, 1)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class IsotropicNetwork(AbstractTheory):
    r"""$f(x)=A^TWx$ with $\Delta=\eta_wAA^T-\eta_aWW^T=\delta I$, any numbers of inputs, neurons and outputs.

    Whitened inputs, loss $\tfrac12\|\beta-\beta_*\|_F^2$, $\beta=W^TA$. The function and the layers' Gram matrices
    follow a matrix Riccati flow. From another imbalance, or with another `input_gram` than a multiple of the identity,
    only `simulate` works, and `solve` says so. With a frozen layer (rate 0) the other one is a linear regression, which
    is solved from any start on any inputs.

    >>> net = IsotropicNetwork.random(inputs=3, neurons=2, outputs=2, beta_star=np.ones((3, 2)), delta=0.5, rng=0)
    >>> float(abs(net.limit().beta - 1).max()) < 1e-9
    True
    """

    A0: Given = param("second layer at the start", symbol="A₀", dims=("neuron", "output"))
    W0: Given = param("first layer at the start", symbol="W₀", dims=("neuron", "input"))
    beta_star: Given = param("least-squares solution, XᵀY on whitened inputs", symbol="β*", dims=("input", "output"))
    eta_a: Given = param("learning rate of A", symbol="η_a", default=1.0, low=0, advice="Use 0 to freeze it.")
    eta_w: Given = param("learning rate of W", symbol="η_w", default=1.0, low=0, advice="Use 0 to freeze it.")
    input_gram: Given = param(
        "Gram matrix of the inputs, XᵀX", symbol="XᵀX", dims=("input", "input_2"), default=1.0, identity=True
    )

    name: ClassVar[str] = "isotropic-network"
    title: ClassVar[str] = "Isotropic wide network"
    formula: ClassVar[str] = "RRᵀ(t) = exp(Gt) R₀ (I + R₀ᵀ ∫exp(2Gs)ds R₀)⁻¹ R₀ᵀ exp(Gt),  R = [√η_w Aᵀ; √η_a Wᵀ]"
    valid: ClassVar[str] = (
        "f(x) = AᵀWx, gradient flow on ½‖XW ᵀA − Y‖² (sum over data), whitened inputs, Δ = η_w AAᵀ − η_a WWᵀ = δI; "
        "or one layer frozen, any inputs and any start"
    )
    places = (KUN24["Sec. 4"], KUN24["App. B.1.3"])
    start_params: ClassVar[dict[str, str]] = {"A": "A0", "W": "W0"}
    loss_factor: ClassVar[float] = 1.0
    loss_says: ClassVar[str] = "½‖X(β − β*)‖² (KUN24: ½, sum over data)"
    variables = (
        Variable("beta", ("input", "output"), "function learned, WᵀA", "function", "β"),
        Variable("gram_a", ("output", "output_2"), "Gram matrix of the second layer, AᵀA", "function", "AᵀA"),
        Variable("gram_w", ("input", "input_2"), "Gram matrix of the first layer, WᵀW", "function", "WᵀW"),
        Variable("loss", (), "½‖X(β − β*)‖²", "loss", "L"),
        Variable(
            "alignment", (), "cosine between β and β*", symbol="ζ", undefined_when="β = 0 or β* = 0",
        ),
        Variable(
            "kernel_distance", (), "distance of the NTK from its start, 1 − cosine", symbol="S(0, t)",
            undefined_when="the kernel is 0 at the start or at t",
        ),
        Variable(
            "kernel_change", (), "relative change of the NTK, ‖M − M₀‖/‖M₀‖", symbol="‖ΔK‖/‖K₀‖",
            undefined_when="the kernel is 0 at the start",
        ),
        Variable(
            "imbalance", ("neuron", "neuron_2"), "conserved Δ = η_w AAᵀ − η_a WWᵀ", "invariant", "Δ"
        ),
    )  # fmt: skip

    def extra_sizes(self, sizes: dict[str, int]) -> dict[str, int]:
        """The second indices of the Gram matrices."""
        return {"input_2": sizes["input"], "output_2": sizes["output"], "neuron_2": sizes["neuron"]}

    def check(self, resolved: Resolved) -> None:
        """The Gram matrix is symmetric and positive."""
        gram = resolved.values["input_gram"]
        size = np.abs(gram).max(axis=(-2, -1))
        skew = np.abs(gram - np.swapaxes(gram, -1, -2)).max(axis=(-2, -1)) if gram.shape[-1] == gram.shape[-2] else size
        if (size == 0).any() or (skew > WHITE * size).any() or (np.linalg.eigvalsh(gram)[..., 0] < -WHITE * size).any():
            must = "be symmetric with eigenvalues ≥ 0, not all 0"
            raise ParameterError(message("`input_gram` of IsotropicNetwork", must, gram, "Give X.T @ X."))

    def prepare(self, p: Layout) -> _Prepared:
        """The start in the eigenbasis of G; refuses an imbalance that is not isotropic."""
        A, W, target = _first(p.A0), _first(p.W0), _first(p.beta_star)
        eta_a, eta_w = p.eta_a.reshape(-1, 1, 1), p.eta_w.reshape(-1, 1, 1)
        frozen = (eta_a == 0) | (eta_w == 0)
        root_a, root_w = np.sqrt(eta_w), np.sqrt(eta_a)
        left, right = root_a * A, root_w * W
        imbalance = left @ np.swapaxes(left, -1, -2) - right @ np.swapaxes(right, -1, -2)
        h = imbalance.shape[-1]
        delta = np.trace(imbalance, axis1=-2, axis2=-1) / h
        size = (left**2).sum(axis=(-2, -1)) + (right**2).sum(axis=(-2, -1))
        off = np.abs(imbalance - delta[..., None, None] * np.eye(h)).max(axis=(-2, -1))
        refused = (off > ISOTROPIC * size) & ~frozen[:, 0, 0]
        if refused.any():
            worst = float((off / np.where(size > 0, size, 1.0))[refused].max())
            raise OutsideTheoryError(
                message(
                    "Δ = η_w A₀A₀ᵀ − η_a W₀W₀ᵀ of IsotropicNetwork", "be δ times the identity",
                    f"a relative deviation of {worst:.2g}",
                    "Make such a start with from_singular_values(…) or random(…), or use simulate(t).",
                )
            )  # fmt: skip
        gram = _first(p.input_gram)
        strength = np.trace(gram, axis1=-2, axis2=-1) / gram.shape[-1]
        uneven = np.abs(gram - strength[:, None, None] * np.eye(gram.shape[-1])).max(axis=(-2, -1))
        refused = (uneven > WHITE * strength) & ~frozen[:, 0, 0]
        if refused.any():
            raise OutsideTheoryError(
                message(
                    "`input_gram` of IsotropicNetwork", "be a multiple of the identity (whitened inputs)",
                    f"a relative deviation of {float((uneven / strength)[refused].max()):.2g}",
                    "Whiten the inputs, or use simulate(t); AlignedNetwork solves aligned starts on any spectrum.",
                )
            )  # fmt: skip
        modes = riccati_modes(left, right, root_a * root_w * target, delta)
        return _Prepared(p, modes, root_a[:, None], root_w[:, None], delta, strength[:, None], frozen[:, None])

    def exact(self, prepared: _Prepared, t: Floats, only: Collection[str]) -> State:
        """The Riccati solution, read through the layers of one representative."""
        state = self.exact_state(prepared, t)
        p = prepared.layout
        made = {
            **self.observables(p, state, self.begin(p)),
            "imbalance": self.invariants(p, self.begin(p))["imbalance"],
        }
        return {name: made[name] for name in only}

    def exact_state(self, prepared: _Prepared, t: Floats) -> State:
        """Layers with the exact Gram matrices and function; the true ones differ by a rotation of the neurons."""
        p, inside = prepared.layout, lambda x: np.moveaxis(x, (-2, -1), (0, 1))
        made: dict[str, Floats] = {}
        if not prepared.frozen.all():
            X = np.swapaxes(riccati_path(prepared.modes, prepared.strength * t), -1, -2)
            c = p.A0.shape[1]
            made = {"A": X[..., :c] / prepared.root_a, "W": X[..., c:] / prepared.root_w}
        if prepared.frozen.any():
            layers, task = (_first(p.A0), _first(p.W0)), (_first(p.beta_star), _first(p.input_gram))
            A, W = frozen_network_path(*layers, *task, p.eta_a.ravel(), p.eta_w.ravel(), t)
            # No rotation here: these are the layers themselves.
            made = {name: np.where(prepared.frozen, x, made.get(name, x)) for name, x in (("A", A), ("W", W))}
        return {name: inside(x) for name, x in made.items()}

    def begin(self, p: Layout) -> State:
        """(A₀, W₀)."""
        return {"A": p.A0, "W": p.W0}

    def flow(self, p: Layout, state: State) -> State:
        """Gradient flow of both layers."""
        A, W = state["A"], state["W"]
        error = np.einsum("de...,ec...->dc...", p.input_gram, layer_product(W, A) - p.beta_star)
        dA, dW = network_flow(A, W, error, p.eta_a, p.eta_w)
        return {"A": dA, "W": dW}

    def rates(self, p: Layout, state: State) -> State:
        """(η_a, η_w)."""
        return {"A": p.eta_a, "W": p.eta_w}

    def aim(self, p: Layout) -> Floats:
        """β*."""
        return p.beta_star

    def observables(self, p: Layout, state: State, start: State) -> State:
        """Every observable by its definition."""
        A, W = state["A"], state["W"]
        beta, gram_a, gram_w = layer_product(W, A), layer_product(A, A), layer_product(W, W)
        error = beta - p.beta_star
        inner = lambda x, y: (x * y).sum(axis=(0, 1))
        white = p.input_gram.shape[-2] == 1 and np.array_equal(p.input_gram[..., 0, 0], np.eye(len(p.input_gram)))
        gram = None if white else p.input_gram
        blocks = lambda a, w: (p.eta_w * a, p.eta_a * w)
        begins = blocks(layer_product(start["A"], start["A"]), layer_product(start["W"], start["W"]))
        distance, change = network_kernel_movement(begins, blocks(gram_a, gram_w), gram)
        peak = lambda x: x / np.abs(x).max(axis=(0, 1))
        straight = lambda x: peak(x) / np.sqrt(inner(peak(x), peak(x)))
        return {
            "beta": beta,
            "gram_a": gram_a,
            "gram_w": gram_w,
            "loss": inner(error, error if gram is None else np.einsum("de...,ec...->dc...", gram, error)) / 2,
            "alignment": inner(straight(beta), straight(p.beta_star)),
            "kernel_distance": distance,
            "kernel_change": change,
        }

    def invariants(self, p: Layout, state: State) -> State:
        """Δ."""
        A, W = state["A"], state["W"]
        outer = lambda x: np.einsum("hi...,ki...->hk...", x, x)
        return {"imbalance": p.eta_w * outer(A) - p.eta_a * outer(W)}

    def regime(self) -> Regime:
        """Lazy, rich or delayed-rich, from how far and when the kernel moves."""
        prepared = self.prepare(self.layout)
        modes, p = prepared.modes, prepared.layout
        with np.errstate(all="ignore"):
            starts = len(prepared.delta)
            growth = np.where(modes.values > 0, np.where(modes.excess > 0, modes.excess, modes.values), np.inf)
            slow = np.where(np.isfinite(growth.min(axis=-1)), growth.min(axis=-1), 1.0)
            first = (p.eta_w * layer_product(p.A0, p.A0), p.eta_a * layer_product(p.W0, p.W0))
            top = sum(np.linalg.eigvalsh(np.moveaxis(k[..., 0], -1, 0))[..., -1] for k in first)
            strength = np.broadcast_to(prepared.strength[:, 0], (starts,))
            fit = np.minimum(FIT_TIME / np.maximum(top * strength, 1e-300), 1e290)
            span = np.minimum(np.geomspace(1e-8, 1e4, 300) / (slow * strength)[:, None], 1e290)
            times = np.concatenate(
                [span, fit[:, None] * np.geomspace(1e-4, 1.0, 60), np.full((starts, 1), np.inf)], axis=1
            )
            got = self.exact(prepared, times, ("kernel_change", "kernel_distance"))
        change = got["kernel_change"]
        most, turned = np.fmax.reduce(change, axis=-1), np.fmax.reduce(got["kernel_distance"], axis=-1)
        early = change[:, 359]
        share = np.where(most > 0, early / np.where(most > 0, most, 1.0), 1.0)
        one = lambda x: scalar_if_single(np.broadcast_to(x, (starts,)), self.batch_shape)
        return Regime(
            one(by_movement(most, share)),
            {
                "kernel_change": Evidence(one(most), "largest ‖K − K₀‖/‖K₀‖ on the way", LAZY_BELOW),
                "kernel_distance": Evidence(one(turned), "largest S(0, t), 1 − cosine, on the way"),
                "early_share": Evidence(
                    one(share), "share of that change while the start's kernel would fit", DELAYED_BELOW
                ),
                "delta": Evidence(one(prepared.delta), "conserved imbalance δ"),
            },
        )

    @classmethod
    def from_singular_values(
        cls,
        *,
        beta_star: Given,
        values: Given,
        neurons: int,
        delta: float = 0.0,
        left: Given = None,
        right: Given = None,
        rotation: Given = None,
        eta_a: float = 1.0,
        eta_w: float = 1.0,
    ) -> Self:
        """A start with Δ = δI whose function has the given singular values; see `isotropic_start`.

        >>> net = IsotropicNetwork.from_singular_values(beta_star=np.eye(2), values=[0.1, 0.2], neurons=2, delta=1.0)
        >>> np.linalg.svd(net.W0.T @ net.A0)[1].round(12).tolist()
        [0.2, 0.1]
        """
        A0, W0 = isotropic_start(beta_star, values, neurons, delta, left, right, rotation, eta_a, eta_w)
        return cls(A0=A0, W0=W0, beta_star=beta_star, eta_a=eta_a, eta_w=eta_w)

    @classmethod
    def random(
        cls,
        *,
        inputs: int,
        neurons: int,
        outputs: int,
        beta_star: Given,
        delta: float = 0.0,
        scale: float = 1.0,
        rng: np.random.Generator | int = 0,
        eta_a: float = 1.0,
        eta_w: float = 1.0,
    ) -> Self:
        """A start with Δ = δI in random directions, its singular values of size `scale`."""
        generator = np.random.default_rng(rng)
        given = numbers("`beta_star`", beta_star)
        if given.shape not in ((), (inputs, outputs)):
            raise ParameterError(
                message("`beta_star`", f"be a number or ({inputs}, {outputs})", f"shape {given.shape}")
            )
        target = np.broadcast_to(given, (inputs, outputs))
        frame = lambda n: np.linalg.qr(generator.normal(size=(n, n)))[0]
        values = scale * generator.uniform(0.2, 1.0, min(inputs, outputs, neurons))
        return cls.from_singular_values(
            beta_star=target, values=values, neurons=neurons, delta=delta, left=frame(inputs),
            right=frame(outputs), rotation=frame(neurons), eta_a=eta_a, eta_w=eta_w,
        )  # fmt: skip


def _first(x: Floats) -> Floats:
    """(*own, starts or 1, 1) as (starts or 1, *own)."""
    return np.moveaxis(x[..., 0], -1, 0)
