"""One seed for every test, printed in the header; float64 in jax for the tests that ask for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that tests can import tests.references

SEED = "RICHTER_TEST_SEED"


def chosen_seed() -> int:
    """The seed from the environment, 0 to 99."""
    text = os.environ.get(SEED, "0")
    if not (text.isdigit() and int(text) < 100):
        raise pytest.UsageError(f"{SEED} must be a whole number from 0 to 99. Got {text!r}.")
    return int(text)


def pytest_report_header() -> str:
    return f"richter: {SEED}={chosen_seed()}"


@pytest.fixture(scope="session")
def seed() -> int:
    """The seed of this run; public functions get `np.random.default_rng([seed, …])`."""
    return chosen_seed()


@pytest.fixture
def jax() -> Iterator[Any]:
    """The jax library in float64, for one test."""
    library = pytest.importorskip("jax")
    before = library.config.jax_enable_x64
    library.config.update("jax_enable_x64", True)
    yield library
    library.config.update("jax_enable_x64", before)


@pytest.fixture
def torch() -> Any:
    """The torch library, if it is installed."""
    return pytest.importorskip("torch")
