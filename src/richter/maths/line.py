"""Data on a line through the origin, reduced to one example."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from richter.errors import OutsideTheoryError, ParameterError, message
from richter.params import numbers
from richter.refs import XU24, implements

Floats = NDArray[np.float64]
OFF_LINE = 1e-8  # largest second singular value of the inputs, relative to the first


@implements(
    XU24["Eq. 1"],
    XU24["Eq. 3"],
    XU24["Prop. 1"].misprint(
        printed="x = √E[x̃²] n, y = E[x̃ y(x̃)]/√E[x̃²] with the vector x̃",
        right="x = √E[a²] n, y = E[a y]/√E[a²] with the scalar a = n·x̃",
        how="DOP853: 2e-15",
    ),
    XU24["Eq. 17"].misprint(
        printed="L̃ = (1/N)Σ(…)² expanded without its 1/N, and L = (γ Σ u_iw_ijx_j − y) without its square",
        right="E(f(x̃) − ỹ)² = (f(x) − y)² + E[ỹ²] − y²",
        how="both sides at random weights",
    ),
    XU24["App. A.1"].misprint(
        printed="the loss (1/N)Σ with x_j = √(Σ a_k²) n_j and y = Σ a_k y_k/√(Σ a_k²)",
        right="x = √E[a²] n and y = E[a y]/√E[a²] for the mean loss; the printed sums are N times too fast",
        how="DOP853: 2e-15 with means, 0.24 as printed, 2e-15 again with t → t/N",
    ),
)
def reduce_line(inputs: object, targets: object) -> tuple[Floats, float, float]:
    r"""$(x, y, c)$ with $\mathbf E(f(\tilde x)-\tilde y)^2=(f(x)-y)^2+c$ for inputs $\tilde x=a\,n$.

    $x=\sqrt{\mathbf E[a^2]}\,n$, $y=\mathbf E[a\tilde y]/\sqrt{\mathbf E[a^2]}$, $c=\mathbf E[\tilde y^2]-y^2$.

    Args:
        inputs: (example, input), all on one line through the origin.
        targets: (example,).

    >>> x, y, c = reduce_line([[1.0, 0.0], [3.0, 0.0]], [2.0, 6.0])
    >>> x.round(3).tolist(), round(y, 3), round(c, 12)
    ([2.236, 0.0], 4.472, 0.0)
    """
    X, Y = numbers("`inputs`", inputs), numbers("`targets`", targets)
    if X.ndim == 1:
        X = X[:, None]
    if X.ndim != 2 or Y.shape != X.shape[:1]:
        raise ParameterError(
            message("`inputs` and `targets`", "be (example, input) and (example,)", f"{X.shape} and {Y.shape}")
        )
    _, size, directions = np.linalg.svd(X, full_matrices=False)
    if size[0] == 0:
        raise ParameterError(message("`inputs`", "not all be 0", "all 0"))
    if size.size > 1 and size[1] > OFF_LINE * size[0]:
        raise OutsideTheoryError(
            message(
                "the inputs of WideScalar", "lie on one line through the origin",
                f"a second direction of relative size {size[1] / size[0]:.2g}",
                "Project them on their first singular direction, or train the network and measure it.",
            )
        )  # fmt: skip
    n = directions[0] * np.sign(directions[0][np.argmax(np.abs(directions[0]))])
    a = X @ n
    scale = np.sqrt(np.mean(a * a))
    y = float(np.mean(a * Y) / scale)
    return scale * n, y, float(max(np.mean((Y - a * y / scale) ** 2), 0.0))
