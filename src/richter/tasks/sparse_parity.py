"""Multitask sparse parity: control bits name a skill, the skill is the parity of a few of the other bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message
from richter.maths.skills import own_parity, parity_target, skill_frequencies, skill_functions, skill_strengths
from richter.tasks import randomness
from richter.tasks.randomness import Rng, count
from richter.tasks.task import Task

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Examples:
    """Examples of the task: `inputs` (example, control + skill bits) of 0 and 1, `targets` (example,)."""

    inputs: Floats
    targets: Floats
    skill: NDArray[np.int64]  # index k − 1 of each example's skill
    bits: NDArray[np.int8]  # the skill bits alone (example, bit)

    def __len__(self) -> int:
        return len(self.skill)


@dataclass(frozen=True, kw_only=True, eq=False)
class SparseParity:
    r"""`n_tasks` skills with frequencies $\propto k^{-(\alpha+1)}$; skill k is S times the parity of its sparse bits.

    `positions` (skill, sparse) says which of the `n_bits` skill bits belong to which skill; draw it with
    `SparseParity.draw`. Bits are fair and independent.

    >>> task = SparseParity.draw(n_tasks=2, n_bits=6, sparse=3, rng=0)
    >>> data = task.sample(4, rng=1)
    >>> data.inputs.shape, sorted(set(np.abs(data.targets).tolist()))
    ((4, 8), [1.0])
    """

    positions: NDArray[np.int64]
    n_bits: int
    alpha: float = 0.6
    target: float = 1.0

    def __post_init__(self) -> None:
        """Check the sparse bits and the numbers."""
        places = np.array(self.positions)
        if places.ndim != 2 or places.size == 0 or places.dtype.kind not in "iu":
            raise ParameterError(message("`positions`", "be whole numbers (skill, sparse)", places))
        if places.min() < 0 or places.max() >= self.n_bits:
            raise ParameterError(message("`positions`", f"lie between 0 and n_bits − 1 = {self.n_bits - 1}", places))
        if (np.diff(np.sort(places, axis=1), axis=1) == 0).any():
            raise ParameterError(message("`positions`", "be different bits for each skill", places))
        for name in ("alpha", "target"):
            value = getattr(self, name)
            if not 0 < value < np.inf:
                raise ParameterError(message(f"`{name}`", "be > 0", value))
        places.flags.writeable = False
        object.__setattr__(self, "positions", places.astype(np.int64))

    @classmethod
    def draw(
        cls,
        *,
        n_tasks: int = 5,
        n_bits: int = 32,
        sparse: int = 3,
        alpha: float = 0.6,
        target: float = 1.0,
        disjoint: bool = True,
        rng: Rng = 0,
    ) -> Self:
        """Random sparse bits: `disjoint` for different skills (as in NAM24), or drawn for each skill alone.

        The default is the task of NAM24 Fig. 5.1, but for its S = 5.
        """
        generator = randomness.stream(rng, "sparse bits")
        n_tasks, sparse, n_bits = count("`n_tasks`", n_tasks), count("`sparse`", sparse), count("`n_bits`", n_bits)
        if sparse > n_bits:
            raise ParameterError(message("`sparse`", f"be at most n_bits = {n_bits}", sparse))
        if disjoint:
            if n_tasks * sparse > n_bits:
                raise ParameterError(
                    message(
                        "`n_bits`", f"be at least n_tasks · sparse = {n_tasks * sparse} for disjoint skills", n_bits,
                        "Use disjoint=False for skills that share bits.",
                    )
                )  # fmt: skip
            places = generator.permutation(n_bits)[: n_tasks * sparse].reshape(n_tasks, sparse)
        else:
            places = generator.permuted(np.tile(np.arange(n_bits), (n_tasks, 1)), axis=1)[:, :sparse]
        return cls(positions=np.sort(places, axis=1), n_bits=n_bits, alpha=alpha, target=target)

    @property
    def n_tasks(self) -> int:
        """The number of skills."""
        return len(self.positions)

    @property
    def frequencies(self) -> Floats:
        """P_s(k), (skill,)."""
        return skill_frequencies(self.alpha, self.n_tasks)

    def of(self, skill: ArrayLike, bits: ArrayLike) -> Examples:
        """The examples with given skills (index k − 1) and skill bits (example, bit)."""
        index, given = np.asarray(skill, dtype=np.int64), np.asarray(bits, dtype=np.int8)
        if given.shape != (index.size, self.n_bits) or ((given != 0) & (given != 1)).any():
            raise ParameterError(message("`bits`", f"be 0 or 1, ({index.size}, {self.n_bits})", f"{given.shape}"))
        if (index < 0).any() or (index >= self.n_tasks).any():
            raise ParameterError(message("`skill`", f"lie between 0 and {self.n_tasks - 1}", index))
        inputs = np.zeros((index.size, self.n_tasks + self.n_bits))
        inputs[np.arange(index.size), index] = 1.0
        inputs[:, self.n_tasks :] = given
        return Examples(inputs, parity_target(index, given, self.positions, self.target), index, given)

    def sample(self, examples: int, rng: Rng = 0) -> Examples:
        """A data set of independent examples."""
        generator = randomness.stream(rng, "sparse parity")
        edges = np.cumsum(self.frequencies)
        skill = np.searchsorted(edges / edges[-1], generator.random(examples), side="right")
        return self.of(skill, self._bits(examples, generator))

    def data_set(self, n: int, n_test: int = 1000, rng: Rng = 0) -> Task:
        """A fixed data set: `n` training and `n_test` test examples, drawn alike, as a regression.

        >>> SparseParity.draw(n_tasks=2, n_bits=6).data_set(10, 5).targets.shape
        (10, 1)
        """
        generator = randomness.stream(rng, "sparse parity")
        known, new = (self.sample(size, generator) for size in (count("`n`", n), count("`n_test`", n_test, 0)))
        return Task(
            inputs=known.inputs, targets=known.targets, test_inputs=new.inputs, test_targets=new.targets,
            name="sparse-parity", says=f"{self.n_tasks} parities of {self.positions.shape[1]} of {self.n_bits} bits",
        )  # fmt: skip

    def stream(self, batch: int, rng: Rng = 0) -> Iterator[Examples]:
        """Fresh batches without end: endless data."""
        generator = randomness.stream(rng, "sparse parity")
        while True:
            yield self.sample(batch, generator)

    def of_skill(self, k: int, examples: int, rng: Rng = 0) -> Examples:
        """Examples of the skill with index k − 1 = `k` alone."""
        generator = randomness.stream(rng, "sparse parity")
        return self.of(np.full(examples, k), self._bits(examples, generator))

    def every(self, k: int) -> Examples:
        """All 2^n_bits inputs of one skill; up to 20 bits."""
        if self.n_bits > 20:
            raise ParameterError(message("`n_bits`", "be at most 20 for all inputs", self.n_bits, "Use of_skill(…)."))
        bits = np.arange(2**self.n_bits)[:, None] >> np.arange(self.n_bits)[::-1] & 1
        return self.of(np.full(len(bits), k), bits)

    def basis(self, examples: Examples) -> Floats:
        """The skill functions g_k(i, x), (skill, example)."""
        return skill_functions(examples.skill, examples.bits, self.positions)

    def strengths(self, outputs: ArrayLike, examples: Examples) -> tuple[Floats, Floats]:
        """Skill strengths R_k of outputs (…, example), and their standard errors; NaN for skills without examples."""
        parity = own_parity(examples.skill, examples.bits, self.positions)
        return skill_strengths(outputs, examples.skill, parity, self.n_tasks)

    def measure(self, model: Callable[[Floats], Any], examples: int = 20_000, rng: Rng = 0) -> tuple[Floats, Floats]:
        """R_k of a model (inputs → outputs) and its standard error, from `examples` fresh ones of each skill."""
        generator = randomness.stream(rng, "sparse parity")
        made = []
        for k in range(self.n_tasks):  # one skill's examples in memory at a time
            data = self.of_skill(k, examples, generator)
            strength, error = self.strengths(np.asarray(model(data.inputs), dtype=float).reshape(-1), data)
            made.append((strength[k], error[k]))
        strengths, errors = np.array(made).T
        return strengths, errors

    def _bits(self, examples: int, generator: np.random.Generator) -> NDArray[np.int8]:
        return generator.integers(0, 2, size=(examples, self.n_bits), dtype=np.int8)
