"""The arrow of dependence, read off the imports."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "richter"
# Left to right: a room may import itself and what stands to its left.
ARROW = [
    {"errors", "refs"}, {"params", "schema", "regime"}, {"maths"}, {"theory", "probes"}, {"tasks"}, {"training"},
    {"moves", "measurement"}, {"advice"}, {"figure"}, {"sweep"}, {"experiments"}, {"draw"}, {"catalog", "doctor"}, {"report"}, {"testing"}, {"cli"}, {"__main__"},
]  # fmt: skip
# Optional libraries and the only rooms that may name them.
OPTIONAL = {
    "matplotlib": {"draw"}, "plotly": {"draw"}, "torch": {"probes", "tasks", "training", "moves", "advice"},
    "safetensors": {"training"}, "jax": {"training"}, "typer": {"cli"}, "pooch": {"tasks"},
    "dask": {"sweep"}, "distributed": {"sweep"}, "lightning": {"probes"}, "transformers": {"probes"},
}  # fmt: skip
TORCH_ROOMS = {"training", "moves"}  # rooms that are about torch, which they may import at once
HEAVY = {  # load on use
    "xarray", "scipy", "matplotlib", "plotly", "torch", "jax", "h5netcdf", "rich", "pooch", "safetensors", "dask",
    "distributed", "lightning", "transformers",
}  # fmt: skip


def _room(path: Path) -> str:
    parts = path.relative_to(SRC).parts
    return parts[0].removesuffix(".py")


def _imports(path: Path) -> list[tuple[str, bool]]:
    """(module, whether it is imported when the file is) of a file."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    top = {id(node) for node in tree.body}
    found = []
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            found += [(alias.name, id(node) in top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found += [(f"{node.module}.{alias.name}", id(node) in top) for alias in node.names]
    return found


FILES = sorted(path for path in SRC.rglob("*.py") if path.parent != SRC or path.name != "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SRC)))
def test_imports_follow_the_arrow(path: Path) -> None:
    place = {room: i for i, rooms in enumerate(ARROW) for room in rooms}
    room = _room(path)
    assert room in place, f"{path.name} is in no declared room: decide where `{room}` stands in the arrow"
    for module, at_import in _imports(path):
        parts = module.split(".")
        if parts[0] == "richter" and len(parts) > 1 and parts[1] in place:
            assert place[parts[1]] < place[room] or parts[1] == room, f"{room} must not import {module}"
        if parts[0] in OPTIONAL:
            assert room in OPTIONAL[parts[0]], f"{parts[0]} belongs into {OPTIONAL[parts[0]]}, not into {room}"
        allowed = room == "testing" or (parts[0] == "torch" and room in TORCH_ROOMS)
        heavy = parts[0] in HEAVY and at_import and not allowed
        assert not heavy, f"{path.name} imports {parts[0]} before it is used"


def test_no_room_without_a_name() -> None:
    names = {path.stem for path in SRC.rglob("*.py")}
    assert not names & {"utils", "helpers", "common", "misc"}


def test_the_type_checker_looks_at_what_exists() -> None:
    import tomllib

    config = tomllib.loads((SRC.parents[1] / "pyproject.toml").read_text())
    for folder in [*config["tool"]["mypy"]["files"], *config["tool"]["ruff"]["src"]]:
        assert (SRC.parents[1] / folder).is_dir(), folder
