"""The generated pages are fresh; every published place is checked by a test that names it."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from richter import catalog
from richter.cli import app

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_generated_pages_are_fresh() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "docs/generate.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_place_is_named_by_a_test(generate: ModuleType) -> None:
    named = set(generate.named_in_tests())
    places = {str(formula.place) for formula in catalog.formulas()}
    assert places - named == set(), "formulas that no test names"
    assert named - places == set(), "places named by a test that no function implements"


def test_no_place_has_two_formulas() -> None:
    seen: dict[str, str] = {}
    for formula in catalog.formulas():
        if formula.role == "formula":
            assert str(formula.place) not in seen, f"{formula.place}: {formula.where} and {seen[str(formula.place)]}"
            seen[str(formula.place)] = formula.where


def test_a_missing_place_is_noticed_control(generate: ModuleType) -> None:
    assert "KUN24 Eq. 25" in generate.named_in_tests()
    assert "KUN24 Eq. 999" not in generate.named_in_tests()


def test_every_verb_is_in_the_readme_or_the_command_page() -> None:
    page = (ROOT / "docs/command.md").read_text()
    for command in app.registered_commands:
        assert f"## richter {command.name}" in page


@pytest.mark.parametrize("page", ["README.md", "docs/extending.md", "docs/kernels.md", "docs/parametrisations.md"])
def test_python_examples_in_prose_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec", dont_inherit=True), {"__name__": "example"})


def test_links_between_pages_exist() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]:
        for link in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_the_repository_names_no_machine_and_no_registry() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    forbidden = re.compile("|".join(["/" + "work/main", "/" + "root/", "pypi" + r"\.org", "registry" + r"\.npmjs"]))
    for name in filter(None, tracked):
        path = ROOT / name
        if path.is_file() and path.suffix not in {".png", ".npz"}:
            assert not forbidden.search(path.read_text(errors="ignore")), name
