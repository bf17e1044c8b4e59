"""50-digit references: the flows solved naively, with so many digits that nothing can be lost.

Nothing here is shared with `src`: the references are written from the losses and from textbook linear algebra,
and `tests/maths/test_references.py` checks that they solve the differential equations they are made for.
"""
