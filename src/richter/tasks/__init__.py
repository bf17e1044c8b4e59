"""Data to train on, as plain arrays, drawn from a seeded generator."""
