"""Richter: a scale for how richly a neural network learns."""

__version__ = "0.1.0"
