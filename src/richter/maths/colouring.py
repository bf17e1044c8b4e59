r"""Colouring the regions of a partition with two colours, and when the parity of active neurons does it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import OutsideTheoryError
from richter.refs import KUN24, implements

Ints = NDArray[np.intp]


@implements(
    KUN24["Proposition C.2"].misprint(
        printed="without redundant neurons, the parity of active neurons colours neighbouring regions differently",
        right="this needs that no two neurons share a zero line (mirrored copies, parallel weights), and beyond one "
        "hidden layer that no pre-activation vanishes in a whole region; colour by distinct lines",
        how="exact partitions: parity flips at all boundaries of generic networks, at none of D.1's mirrored student",
    )
)
def neuron_parity(signs: ArrayLike) -> NDArray[np.int8]:
    """Whether the number of active neurons is odd, of patterns (region, neuron).

    >>> neuron_parity([[1, -1, 1], [1, 1, 1]]).tolist()
    [0, 1]
    """
    return ((np.asarray(signs) > 0).sum(axis=-1) % 2).astype(np.int8)


def line_parity(signs: ArrayLike, first: ArrayLike) -> NDArray[np.int8]:
    """The same counting neurons with one zero line once; `first` is from `distinct_hyperplanes`.

    >>> line_parity([[1, 1, -1], [-1, -1, -1]], [0, 0, 2]).tolist()
    [1, 0]
    """
    index = np.asarray(first)
    return neuron_parity(np.asarray(signs)[..., np.flatnonzero(index == np.arange(index.size))])


def flips(parity: ArrayLike, pairs: ArrayLike) -> tuple[int, int]:
    """At how many boundaries (boundary, 2) of regions a colour changes, and how many there are.

    A network with mirrored neurons shows no change at all: two neurons switch at once.

    >>> from richter.maths.rays import partition_rays
    >>> w = np.array([[1.0, 0.2], [-0.3, 1.0]])
    >>> single, mirrored = partition_rays(w), partition_rays(np.concatenate([w, w]))
    >>> [flips(neuron_parity(p.signs), p.boundaries) for p in (single, mirrored)]
    [(4, 4), (0, 4)]
    """
    colour, both = np.asarray(parity), np.asarray(pairs)
    return int((colour[both[:, 0]] != colour[both[:, 1]]).sum()), len(both)


def two_colours(count: int, pairs: Ints) -> NDArray[np.int8]:
    """Colours 0 and 1 of `count` regions such that the two of each pair differ."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import dijkstra

    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(count, count)).tocsr()
    steps = dijkstra(graph, directed=False, unweighted=True, indices=0)
    colours = (steps % 2).astype(np.int8)
    wrong = len(pairs) - flips(colours, pairs)[0]
    if wrong:
        raise OutsideTheoryError(
            f"This partition has no colouring with two colours: an odd number of regions meets in a point "
            f"({wrong} of {len(pairs)} boundaries stay uncoloured). Use neuron_parity(signs) for a picture."
        )
    return colours
