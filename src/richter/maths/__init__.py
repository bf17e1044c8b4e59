"""The formulas, on plain arrays.

Everything here is written against the array-API standard: numpy, jax and torch arrays go in, arrays of the
same library come out, and results can be differentiated. Vectors keep their component axis *first*, so that
the inner loops run over times: `w0` has shape (input, …) and broadcasts against times on the last axis.
"""
