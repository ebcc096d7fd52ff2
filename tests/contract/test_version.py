"""The release has one number, wherever it is told."""

import tomllib
from pathlib import Path

import jqmaster

ROOT = Path(__file__).parents[2]


def test_the_package_the_project_and_the_changelog_name_the_same_release() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert jqmaster.__version__ == project["version"]
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    assert headings[0] == "## Unreleased"
    assert headings[1].startswith(f"## {jqmaster.__version__} (")
