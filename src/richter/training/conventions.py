"""The losses by name, with the convention of each: a factor of 2 in the loss is a factor of 2 in time."""

LOSSES = {
    "mse": "½ · mean over the examples of ‖f − y‖², as NAM24",
    "half-sum": "½ · sum over the examples of ‖f − y‖², as KUN24; a batch of b stands for all n: its sum times n/b",
    "square": "mean over the examples of ‖f − y‖², without ½, as XU24",
    "cross-entropy": "mean over the examples of −log softmax(f) at the class",
}
