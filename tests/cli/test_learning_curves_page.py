"""The page on learning curves shows what its commands print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from richter.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "learning_curves.md").read_text()
NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?")
SHOWN = [
    (block.group(1), block.group(2))
    for console in re.findall(r"```console\n(.*?)```", PAGE, re.S)
    for block in re.finditer(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", console, re.M)
]


@pytest.mark.parametrize(("command", "printed"), SHOWN, ids=[command for command, _ in SHOWN])
def test_the_page_shows_what_its_commands_print(
    command: str, printed: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("first_skill.json").write_text(re.findall(r"```json\n(.*?)```", PAGE, re.S)[0])
    assert main(shlex.split(command)[1:]) == 0
    got, want = capsys.readouterr().out, printed
    words = lambda text: re.sub(r"[─━┏┓┡┩└┘┳╇┴┃│\s]+", " ", NUMBER.sub("#", text)).strip()
    assert words(got) == words(want)
    values = [[float(x) for x in NUMBER.findall(text)] for text in (got, want)]
    assert values[0] == pytest.approx(values[1], rel=2e-3, abs=1e-6)  # the last digit shown, and errors of rounding


def test_every_command_of_the_page_is_run() -> None:
    assert len(SHOWN) == PAGE.count("\n$ richter ") >= 7


def test_the_page_s_python_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, "learning_curves.md", "exec", dont_inherit=True), {"__name__": "example"})
