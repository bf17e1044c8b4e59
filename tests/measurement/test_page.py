"""The page for practitioners: its lines run, its commands work, its numbers are so."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra torch")

from richter.cli import main  # noqa: E402
from richter.regime import AGREEMENT, DELAYED_BELOW, LAZY_BELOW, MINIMUM_FEATURES_BELOW  # noqa: E402

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "measuring.md").read_text()


def test_the_lines_and_the_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "nets", raising=False)
    nets, *lines = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert nets.startswith("# nets.py") and len(lines) == 2
    Path("nets.py").write_text(nets)
    scope: dict[str, object] = {"__name__": "example"}
    for block in lines:
        exec(compile(block, "measuring.md", "exec", dont_inherit=True), scope)
    said = capsys.readouterr().out
    label = said.split("\n")[0]
    assert label in ("lazy", "rich", "delayed-rich", "undecided") and "What it does not say" in said
    monkeypatch.delitem(sys.modules, "nets")
    (commands,) = re.findall(r"```text\n(.*?)```", PAGE, re.S)
    codes = {}
    for line in commands.strip().splitlines():
        program, *words = shlex.split(line)
        assert program == "richter"
        if "--out" in words:  # drawing is slow, and tested with the command
            at = words.index("--out")
            del words[at : at + 2]
        codes[line] = main([*words, "--draws", "20"] if "--model" in words else words)
        assert capsys.readouterr().out
    assert list(codes.values()) == [0, 0, int(label == "lazy"), 0]


def test_the_thresholds_of_the_page_are_the_rules() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.M))
    assert f"lazy below {LAZY_BELOW:g}" in rows["kernel_change"]
    assert f"delayed-rich below {DELAYED_BELOW:g}" in rows["early_share"]
    assert f"undecided below {AGREEMENT:g}" in rows["agreement"]
    assert f"below {MINIMUM_FEATURES_BELOW:g}" in rows["minimum_projection_distance"]
    (told,) = re.findall(r"of (\d+), (\d+) were named right, (\d+) undecided, none\nwrong", PAGE)
    found = re.search(
        r"(\d+) networks: (\d+) named right, (\d+) undecided, 0 named wrong", (DOCS / "calibration.md").read_text()
    )
    assert found is not None and found.groups() == told
