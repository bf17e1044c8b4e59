"""A task: examples with targets to learn from, and others to test on, as plain arrays."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from richter.errors import MissingExtraError, OutsideTheoryError, ParameterError, message
from richter.tasks.randomness import Rng, count, stream

if TYPE_CHECKING:
    import torch

Array = NDArray[Any]


class Tensors(NamedTuple):
    """A task's four arrays as tensors; class numbers are int64."""

    inputs: torch.Tensor
    targets: torch.Tensor
    test_inputs: torch.Tensor
    test_targets: torch.Tensor


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Task:
    """Training and test examples; the first axis counts them.

    Images have shape (example, channel, row, column), other inputs (example, input). A regression has targets of
    shape (example, output); a classification has class numbers of shape (example,), and `classes` names them.

    >>> task = Task(inputs=[[0.0], [1.0]], targets=[0.0, 2.0], test_inputs=[[3.0]], test_targets=[6.0], name="line")
    >>> task.targets.shape, task.outputs, len(task)
    ((2, 1), 1, 2)
    >>> task
    <Task line: 2 + 1 test examples of 1, 1 outputs>
    """

    inputs: Array
    targets: Array
    test_inputs: Array
    test_targets: Array
    name: str
    kind: Literal["regression", "classification"] = "regression"
    classes: tuple[str, ...] = ()
    says: str = ""

    def __post_init__(self) -> None:
        if self.kind not in ("regression", "classification"):
            raise ParameterError(message("`kind` of a task", "be regression or classification", self.kind))
        for part in ("", "test_"):
            inputs, targets = np.asarray(getattr(self, f"{part}inputs")), np.asarray(getattr(self, f"{part}targets"))
            if self.kind == "regression" and targets.ndim == 1:
                targets = targets[:, None]
            object.__setattr__(self, f"{part}inputs", inputs)
            object.__setattr__(self, f"{part}targets", targets)
            self._check(f"`{part}inputs` of {self.name}", inputs, f"`{part}targets` of {self.name}", targets)
        for name in ("inputs", "targets"):
            here, there = getattr(self, name).shape[1:], getattr(self, f"test_{name}").shape[1:]
            if here != there:
                raise ParameterError(
                    message(f"`test_{name}` of {self.name}", f"have examples of shape {here}", str(there))
                )

    def _check(self, inputs_name: str, inputs: Array, targets_name: str, targets: Array) -> None:
        for name, array in ((inputs_name, inputs), (targets_name, targets)):
            if array.dtype.kind not in "fiu":
                raise ParameterError(message(name, "be numbers", f"an array of {array.dtype}"))
            # The extremes are NaN when any entry is; no second array as large as the images.
            if array.dtype.kind == "f" and array.size and not np.isfinite([array.min(), array.max()]).all():
                raise ParameterError(message(name, "be finite", "nan or inf"))
        if inputs.ndim < 2:
            raise ParameterError(message(inputs_name, "have the shape (example, …)", f"shape {inputs.shape}"))
        if len(inputs) != len(targets):
            raise ParameterError(message(targets_name, f"be {len(inputs)}, one for each input", f"{len(targets)}"))
        if self.kind == "regression":
            if targets.ndim != 2:
                raise ParameterError(
                    message(targets_name, "have the shape (example, output)", f"shape {targets.shape}")
                )
            return
        last = len(self.classes) - 1
        if last < 1:
            raise ParameterError(message(f"`classes` of {self.name}", "name at least two classes", self.classes))
        whole = targets.ndim == 1 and targets.dtype.kind in "iu"
        if not whole or (targets.size and not 0 <= targets.min() <= targets.max() <= last):
            raise ParameterError(message(targets_name, f"be class numbers from 0 to {last}, shape (example,)", targets))

    def __len__(self) -> int:
        return len(self.inputs)

    def __repr__(self) -> str:
        shape = " × ".join(map(str, self.inputs.shape[1:]))
        what = f"{self.outputs} {'classes' if self.kind == 'classification' else 'outputs'}"
        return f"<Task {self.name}: {len(self)} + {len(self.test_inputs)} test examples of {shape}, {what}>"

    @property
    def outputs(self) -> int:
        """How many outputs a network for the task has."""
        return len(self.classes) if self.kind == "classification" else int(self.targets.shape[1])

    def subset(self, n: int, rng: Rng = 0, *, test: int | None = None) -> Task:
        """`n` training examples drawn without repetition, and `test` test examples (all by default).

        With the same seed a smaller subset lies within a larger one, as learning curves want it.
        """
        rows = stream(rng, "subset").permutation(len(self.inputs))[: count("`n`", n, 1, len(self.inputs))]
        kept = replace(self, inputs=self.inputs[rows], targets=self.targets[rows])
        if test is None:
            return kept
        left = stream(rng, "test subset").permutation(len(self.test_inputs))
        left = left[: count("`test`", test, 0, len(self.test_inputs))]
        return replace(kept, test_inputs=self.test_inputs[left], test_targets=self.test_targets[left])

    def flat(self) -> Task:
        """The same examples as rows of numbers: inputs of shape (example, input)."""
        rows = lambda x: x.reshape(len(x), int(np.prod(x.shape[1:])))
        return replace(self, inputs=rows(self.inputs), test_inputs=rows(self.test_inputs))

    def one_hot(self) -> Task:
        """The regression on the indicators of the classes: targets of shape (example, class), 0 or 1."""
        if self.kind == "regression":
            raise ParameterError(message(f"the task {self.name}", "be a classification", "a regression"))
        rows = np.eye(len(self.classes), dtype=np.result_type(self.inputs.dtype, np.float32))
        made, test = rows[self.targets], rows[self.test_targets]
        return replace(self, targets=made, test_targets=test, kind="regression", classes=())

    def standardise(self) -> Task:
        """Mean 0 and variance 1 over the training examples: of each channel of images, else of all inputs."""
        self._check_floating("standardise")
        axes = (0, *range(2, self.inputs.ndim)) if self.inputs.ndim > 2 else None
        mean = self.inputs.mean(axis=axes, keepdims=True, dtype=np.float64)
        spread = self.inputs.std(axis=axes, keepdims=True, dtype=np.float64)
        if not (spread > 0).all():
            raise OutsideTheoryError(message(f"the inputs of {self.name}", "vary", "a constant", "Use other inputs."))
        dtype = self.inputs.dtype
        scaled = lambda x: (x - mean.astype(dtype)) / spread.astype(dtype)
        return replace(self, inputs=scaled(self.inputs), test_inputs=scaled(self.test_inputs))

    def whiten(self, convention: Literal["sum", "mean"] = "sum") -> Task:
        r"""Inputs with $X^TX=I$ ("sum", as in KUN24) or $X^TX/n=I$ ("mean", as in NAM24), nothing subtracted.

        Training and test inputs are multiplied by the same symmetric matrix $(X^TX)^{-1/2}$ (times √n).

        >>> task = Task(inputs=[[2.0, 0.0], [0.0, 1.0]], targets=[1, 2], test_inputs=[[4.0, 1.0]],
        ...             test_targets=[1], name="two points").whiten()
        >>> task.inputs.tolist(), task.test_inputs.tolist()
        ([[1.0, 0.0], [0.0, 1.0]], [[2.0, 1.0]])
        """
        self._check_floating("whiten")
        if convention not in ("sum", "mean"):
            raise ParameterError(message("`convention`", "be sum or mean", convention))
        if self.inputs.ndim != 2:
            must, got = "have the shape (example, input)", f"shape {self.inputs.shape}"
            raise ParameterError(message(f"the inputs of {self.name}", must, got, "Use task.flat().whiten()."))
        n, d = self.inputs.shape
        x = self.inputs.astype(np.float64)
        _, sizes, directions = np.linalg.svd(x, full_matrices=False)
        rank = int((sizes > max(n, d) * np.finfo(self.inputs.dtype).eps * sizes[0]).sum())
        if rank < d:
            do = "Take more examples, drop constant inputs, or project on the first principal components."
            got = f"rank {rank} from {n} examples"
            raise OutsideTheoryError(message(f"the inputs of {self.name}", f"have rank {d} to be whitened", got, do))
        matrix = (directions.T / sizes) @ directions * (np.sqrt(n) if convention == "mean" else 1.0)
        white = lambda z: (z.astype(np.float64) @ matrix).astype(self.inputs.dtype)
        return replace(self, inputs=white(self.inputs), test_inputs=white(self.test_inputs))

    def _check_floating(self, verb: str) -> None:
        if self.inputs.dtype.kind != "f":
            must = f"be floating numbers to {verb}"
            raise ParameterError(message(f"the inputs of {self.name}", must, f"an array of {self.inputs.dtype}"))

    def torch(self, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> Tensors:
        """The four arrays as tensors of `dtype` (float32 by default); whole numbers become int64."""
        try:
            import torch
        except ImportError:
            raise MissingExtraError('Tensors need torch. Type: pip install "richter[torch]"') from None
        made = []
        for array in (self.inputs, self.targets, self.test_inputs, self.test_targets):
            floating = (torch.float32 if dtype is None else dtype) if array.dtype.kind == "f" else torch.int64
            made.append(torch.tensor(array, dtype=floating, device=device))
        return Tensors(*made)
