"""From networks and recorded runs to a verdict: `measure` and `compare`. Torch is needed for networks only."""
