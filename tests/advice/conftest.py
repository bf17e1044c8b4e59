"""Every torch network that a test makes follows the seed of the run."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def torch_seed(seed: int) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(seed)
