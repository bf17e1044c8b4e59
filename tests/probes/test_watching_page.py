"""The page about watching says what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from richter.probes import watch
from richter.probes.balance import PREDICTED
from richter.probes.kernel_movement import FullKernelMovement
from richter.probes.standard import standard
from richter.probes.watching import Watch

PAGE = (Path(__file__).parents[2] / "docs" / "watching.md").read_text()


def test_the_table_lists_every_variable_with_its_dimensions_and_probe() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([\w, ]*) ?\| ([\w, ]+) \|$", PAGE, re.M)
    listed = {name: (dims.strip(), probe.strip()) for name, dims, probe in rows}
    made = {}
    for probe in [*standard().values(), FullKernelMovement()]:
        for v in probe.variables:
            if not v.name.endswith("_resampled"):
                made[v.name] = (", ".join(v.dims), probe.name)
    made |= {v.name: (", ".join(v.dims), "conserved, plain gradient descent") for v in PREDICTED}
    assert listed == made
    assert "`batch_loss`" in PAGE


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    scope: dict[str, object] = {"__name__": "example"}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, "watching.md", "exec", dont_inherit=True), scope)
    assert (tmp_path / "run.nc").exists() and isinstance(scope["see"], Watch)
    ds = watch(torch.nn.Linear(8, 1), probe=scope["x"]).dataset()
    assert set(ds.data_vars) < set(re.findall(r"`(\w+)`", PAGE))
