"""Products of factors are those of the gradients they stand for, whichever way they are computed."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from richter.probes import ntk
from richter.probes.contract import Factors, Kind, Term, _by_places, _by_rows, _with_itself, inner
from richter.probes.memory import split
from tests.probes.tangent_nets import by_definition, zoo

ROWS, COLUMNS, PLACES, OUTPUTS = 5, 4, 3, 2


def term(n: int, kind: str) -> Term:
    """A use of a matrix (ROWS, COLUMNS): plain, flipped, as a table, or with δ that all examples share."""
    flipped = kind in ("flipped", "table")
    b, a = (COLUMNS, ROWS) if flipped else (ROWS, COLUMNS)
    delta = torch.randn(n, OUTPUTS, PLACES, b).double()
    if kind == "shared":
        delta = delta[:1].expand(n, -1, -1, -1)
    data = torch.randint(0, ROWS, (n, PLACES)) if kind == "table" else torch.randn(n, PLACES, a).double()
    return Term(delta, data, flipped)


def whole(p: Factors) -> Tensor:
    """The gradients (example, output, row, column)."""
    made: Any = 0
    for x in p.terms:
        data = torch.eye(ROWS).double()[x.data] if x.data.ndim == 2 else x.data
        made = made + torch.einsum("nita,ntb->niba" if x.flipped else "nitb,nta->niba", x.delta, data)
    return made


@pytest.mark.parametrize(
    "uses",
    [("plain",), ("flipped",), ("table",), ("shared",), ("plain", "flipped"), ("table", "shared"), ("table", "plain")],
)
@pytest.mark.parametrize("kind", ["full", "trace", "diagonal"])
def test_every_way_is_the_product_of_the_gradients(uses: tuple[str, ...], kind: Kind, seed: int) -> None:
    p, q = (Factors(tuple(term(n, use) for use in uses), (ROWS, COLUMNS)) for n in (7, 3))
    product = {"full": "niba,mjba->nimj", "trace": "niba,miba->nm", "diagonal": "niba,miba->inm"}[kind]
    for left, right in ((p, q), (p, p), (q, p[:1])):
        expected = torch.einsum(product, whole(left), whole(right))
        for way in (_by_places, _by_rows, inner):
            torch.testing.assert_close(way(left, right, kind), expected, rtol=1e-12, atol=1e-12)  # sums of size 10


@pytest.mark.parametrize("cost", [0.0, float("inf")])
def test_places_are_multiplied_in_both_orders(cost: float, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("richter.probes.contract._cost_spread", lambda *_: cost)
    p, q = (Factors((term(n, "plain"), term(n, "flipped")), (ROWS, COLUMNS)) for n in (7, 3))
    for left, right in ((p, q), (p, p), (q, p[:1])):
        expected = torch.einsum("niba,mjba->nimj", whole(left), whole(right))
        torch.testing.assert_close(_by_places(left, right, "full"), expected, rtol=1e-12, atol=1e-12)  # sums of size 10


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("rows", [1, 64, 150, 300])
def test_a_block_with_itself(rows: int, alone: bool, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On one thread and on several: one half is computed, all of it is there."""
    monkeypatch.setattr("richter.probes.contract.alone", lambda _: alone)
    x = torch.randn(rows, 7).double()
    torch.testing.assert_close(_with_itself(x), x @ x.T, rtol=1e-12, atol=1e-12)  # sums of size 10


def test_one_side_that_shares_and_one_that_does_not(seed: int) -> None:
    p, q = (Factors((term(4, use),), (ROWS, COLUMNS)) for use in ("shared", "plain"))
    expected = torch.einsum("niba,mjba->nimj", whole(p), whole(q))
    for left, right, want in ((p, q, expected), (q, p, expected.permute(2, 3, 0, 1))):
        torch.testing.assert_close(_by_places(left, right, "full"), want, rtol=1e-12, atol=1e-12)  # sums of size 10


@pytest.mark.parametrize("kind", ["full", "trace", "diagonal"])
def test_kernels_of_several_tiles_and_parts_of_the_outputs(
    kind: Kind, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x = zoo(seed)["mlp"][0], torch.randn(11, 5).double()
    K = by_definition(model, x)
    expected = {"full": K, "trace": np.einsum("nmcc->nm", K), "diagonal": np.einsum("nmcc->nmc", K)}[kind]
    monkeypatch.setattr("richter.probes.tiles.EDGE", {kind: 4})
    for memory in ("1 GiB", 9000, 3000):  # whole, a few examples, a few outputs
        found = ntk(model, x, outputs=kind, memory=memory)
        assert float(np.abs(found - expected).max() / np.abs(expected).max()) < 1e-12


@pytest.mark.parametrize("kind", ["full", "trace", "diagonal", "sketch"])
def test_outputs_a_few_at_a_time(kind: Any, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few δ that wait together, few examples in a pass, and of a held kernel few outputs: the same kernel."""
    model, x = zoo(seed)["lenet5"]
    expected = ntk(model, x, outputs=kind, seed=seed)
    cut = lambda *given: replace(split(*given), waiting=3, batch=3)
    monkeypatch.setattr("richter.probes.blocks.split", cut)
    found = ntk(model, x, outputs=kind, seed=seed)
    assert float(np.abs(found - expected).max() / np.abs(expected).max()) < 1e-12
    if kind != "full":
        monkeypatch.setattr(sys.modules["richter.probes.ntk"], "at_once", lambda *_: 4)
        found = ntk(model, x, outputs=kind, seed=seed)
        assert float(np.abs(found - expected).max() / np.abs(expected).max()) < 1e-12


def test_rates_of_parameters_that_cannot_be_taken_apart(seed: int) -> None:
    model, x = zoo(seed)["recurrent"]
    each = {name: 0.25 if name.startswith("inner") else 3.0 for name, _ in model.named_parameters()}
    expected = by_definition(model, x, rates=each)
    found = ntk(model, x, rates={"inner": 0.25, "head": 3.0})
    assert float(np.abs(found - expected).max() / np.abs(expected).max()) < 1e-12


@pytest.mark.parametrize("kind", ["full", "trace"])
def test_both_sides_are_found_in_the_same_way_however_many_examples_they_have(kind: Kind, seed: int) -> None:
    """Few examples would have room for what many have not."""
    inner = (torch.nn.Linear(20, 30), torch.nn.Tanh(), torch.nn.Linear(30, 6))
    places = (torch.nn.Unflatten(1, (4, 20)), torch.nn.Flatten(0, 1)), (torch.nn.Unflatten(0, (-1, 4)), Mean())
    model = torch.nn.Sequential(*places[0], *inner, *places[1]).double()
    x = torch.randn(20, 80).double()
    K = by_definition(model, x)
    expected = K if kind == "full" else np.einsum("nmcc->nm", K)
    for memory in (2**20, 2**19, 2**17):
        for few, many in ((slice(0, 2), slice(0, 20)), (slice(0, 20), slice(5, 6))):
            found = ntk(model, x[few], x[many], outputs=kind, memory=memory)
            assert float(np.abs(found - expected[few, many]).max() / np.abs(expected).max()) < 1e-12


class Mean(torch.nn.Module):
    """The mean over places."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


def test_of_two_patterns_the_last_wins_and_of_two_layers_the_inner_one(seed: int) -> None:
    model, x = zoo(seed)["tied transformer"]
    each = {name: 0.5 if name.endswith("bias") else 1.0 for name, _ in model.named_parameters()}
    for name in each:
        if name.startswith("blocks.0."):
            each[name] = 3.0 if name.startswith("blocks.0.attention.") else 2.0
    rates = {
        "blocks.0.attention": 3.0,
        "blocks.0": 2.0,
        "*": 1.0,
        "*.weight": 7.0,
        "*.bias": 9.0,
        "*.weight*": 1.0,
        "*.bias*": 0.5,
    }
    found = ntk(model, x[:2], rates=rates)
    expected = by_definition(model, x[:2], rates=each)
    assert float(np.abs(found - expected).max() / np.abs(expected).max()) < 1e-12
