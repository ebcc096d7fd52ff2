"""The release has the same number everywhere."""

from pathlib import Path

from hatchling.builders.wheel import WheelBuilder

import jqmaster
from worker_sdk.transport.release import VERSION

ROOT = Path(__file__).parents[2]


def test_the_package_the_project_and_the_changelog_name_the_same_release() -> None:
    for file in ("pyproject.toml", "worker_sdk/pyproject.toml"):
        assert WheelBuilder(str((ROOT / file).parent)).metadata.version == VERSION, file
    assert jqmaster.__version__ == VERSION
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    assert headings[0] == "## Unreleased"
    assert headings[1].startswith(f"## {jqmaster.__version__} (")
    versions = [tuple(int(part) for part in line.split()[1].split(".")) for line in headings[1:]]
    assert versions == sorted(set(versions), reverse=True)
