"""The page on moving a network runs as it is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "moving.md"


def test_the_loop_of_the_page_turns_a_lazy_network_rich(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    exec(compile(block, PAGE.name, "exec", dont_inherit=True), {"__name__": "page"})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "lazy" and lines[-1] == "rich" and lines[1].startswith("kernel_movement = 0.0")


def test_every_goal_is_on_the_page() -> None:
    from richter.advice import GOALS

    assert all(f"`{goal}`" in PAGE.read_text() for goal in GOALS)
