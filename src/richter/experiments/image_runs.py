"""What the experiments with two-layer networks on real images share: the images as inputs, and the six variants."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message
from richter.maths.scaling_limits import fan_in_exponents, movement_exponents, to_feature_learning, to_kernel
from richter.tasks import Task, cifar10, digits, fashion_mnist, mnist
from richter.theory.phases import SCALINGS, phase
from richter.training import Networks

Floats = NDArray[np.float64]
IMAGES = {"cifar10": cifar10, "mnist": mnist, "fashion-mnist": fashion_mnist}
SETS = ("digits", *IMAGES)


def image_task(name: str, train: int, test: int, pool: int = 1, seed: int = 0) -> Task:
    """Images as rows of inputs of mean square length 1; channels are standardised, `pool` × `pool` pixels averaged.

    The set must be in the data folder; the digits come with the package.

    >>> image_task("digits", 100, 50, pool=2)
    <Task digits: 100 + 50 test examples of 16, 10 classes>
    """
    if name == "digits":
        task = digits(rng=seed).subset(train, seed, test=test)
    else:
        task = IMAGES[name](train=train, test=test, rng=seed)
    rows, columns = task.inputs.shape[2:]
    if rows % pool or columns % pool:
        raise ParameterError(message("`pool`", f"divide the images' {rows} × {columns} pixels", pool))
    smaller = lambda x: x.reshape(*x.shape[:2], rows // pool, pool, columns // pool, pool).mean((3, 5))
    task = replace(task, inputs=smaller(task.inputs), test_inputs=smaller(task.test_inputs))
    task = task.standardise().flat()
    length = np.sqrt((task.inputs.astype(float) ** 2).sum(axis=1).mean()).astype(np.float32)
    return replace(task, inputs=task.inputs / length, test_inputs=task.test_inputs / length)


@dataclass(frozen=True)
class Variant:
    r"""A start with its output scale and rate as powers of the width over a base width, $\kappa=d/d_{base}$.

    At the base all variants are one network, $d^{-1/2}\sum_iu_i\sigma(w_i\cdot x)$ with u and w of variance 1 and
    equal rates: from there on the exponents alone part them.
    """

    name: str
    c_u: float
    c_w: float
    c_gamma: float
    c_eta: float

    @property
    def shown(self) -> str:
        """The name as it is printed."""
        return self.name.replace("+", "⁺").replace("-", "⁻")

    @cached_property
    def phase(self) -> str:
        """Of Theorem 2, as the width grows."""
        return str(phase(1, self.c_gamma, self.c_u, self.c_w, self.c_eta, self.c_eta).label)

    @cached_property
    def movement(self) -> tuple[float, float]:
        """Powers of the relative movement of u and of w, for a residual of order 1."""
        both = movement_exponents(self.c_gamma, self.c_u, self.c_w, self.c_eta)
        return float(both[0]), float(both[1])

    @cached_property
    def output(self) -> float:
        r"""Power of the first output, $f(0)\sim\gamma\sqrt d\,\sigma_u\sigma_w$."""
        return self.c_gamma + (1 + self.c_u + self.c_w) / 2

    def scales(self, width: int, base: int) -> tuple[float, float, float, float]:
        """Standard deviations of u and w, γ, and the factor on the rate.

        >>> [round(float(x), 3) for x in VARIANTS["Kaiming+"].scales(400, 100)]
        [0.5, 1.0, 0.025, 4.0]
        """
        kappa = width / base
        powers = (self.c_u / 2, self.c_w / 2, self.c_gamma, self.c_eta)
        u, w, gamma, rate = (kappa**power for power in powers)
        return u, w, base**-0.5 * gamma, rate


def _variants() -> dict[str, Variant]:
    """NTK, mean field, and Kaiming and Xavier in both phases (XU24 Sec. 4.1), the kernel ones first."""
    column = {s.name: s for s in SCALINGS}
    c_u, c_w = (float(c) for c in fan_in_exponents(1))
    starts = {"NTK": (0.0, 0.0), "mean field": (0.0, 0.0), "Kaiming": (c_u, c_w), "Xavier": (-1.0, -1.0)}
    made = []
    for sign, names in (("-", ("NTK", "Kaiming", "Xavier")), ("+", ("mean field", "Kaiming", "Xavier"))):
        for name in names:
            c = starts[name]
            rate, scale = to_kernel(1, *c, column[name].below) if sign == "-" else to_feature_learning(1, *c)
            word = name if c == (0.0, 0.0) else name + sign
            made.append(Variant(word, *c, float(scale) + 0.0, float(rate) + 0.0))
    return {v.name: v for v in made}


VARIANTS = _variants()


def drawn(
    scales: Sequence[tuple[float, float, float, float]],
    sizes: tuple[int, int, int],
    draws: int,
    seed: int,
    mirrored: bool = False,
) -> tuple[Networks, Floats]:
    """Networks of one width, the draws of each member together, and the factors on their rates.

    `scales`: standard deviations of u and w, γ and the rate's factor, member by member; `sizes`: inputs, width and
    outputs. A draw's standard normal numbers are the same in all members. `mirrored`: the second half of the neurons
    repeats the first with the opposite sign of u, so that the output is 0.
    """
    inputs, width, outputs = sizes
    w, u = [], []
    half = width // 2
    for spread_u, spread_w, _, _ in scales:
        for draw in range(draws):
            rng = np.random.default_rng([seed, width, draw])
            first = (spread_w * rng.standard_normal((width, inputs))).astype(np.float32)
            last = (spread_u * rng.standard_normal((outputs, width))).astype(np.float32)
            if mirrored:
                first[half : 2 * half], last[:, half : 2 * half] = first[:half], -last[:, :half]
                last[:, 2 * half :] = 0
            w.append(first)
            u.append(last)
    gamma, rates = np.repeat([[scale, factor] for _, _, scale, factor in scales], draws, axis=0).T
    return Networks(weights=(np.stack(w), np.stack(u)), output_scale=gamma), rates


def minus(text: str) -> str:
    """Minus signs before numbers."""
    return re.sub(r"-(?=\d)", "−", text)


def interval(values: Floats) -> tuple[float, float]:
    """Mean and half-width of its 95 % interval."""
    from scipy.stats import t as student

    return float(values.mean()), float(student.ppf(0.975, values.size - 1) * values.std(ddof=1) / np.sqrt(values.size))


def relative(before: Floats, after: Floats) -> Floats:
    """‖after − before‖/‖before‖ of every network's matrix."""
    norm = lambda x: np.sqrt((x.astype(float) ** 2).sum(axis=(1, 2)))
    return np.asarray(norm(after.astype(float) - before) / norm(before))


def slope(x: Floats, y: Floats) -> tuple[float, float]:
    """Of the line through the points, and the half-width of its 95 % interval."""
    from scipy.stats import linregress
    from scipy.stats import t as student

    made = linregress(x, y)
    return float(made.slope), float(student.ppf(0.975, len(x) - 2) * made.stderr)
