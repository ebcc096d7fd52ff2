"""The files of the chart, and the digest that tells from which files a golden rendering was made.

This module needs only the standard library, because the tests use it, and so do the tools of `make test-chart`.
"""

import hashlib
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "deploy" / "helm" / "jqmaster"
GOLDEN: Final = ROOT / "deploy" / "helm" / "golden"
KUSTOMIZE: Final = ROOT / "deploy" / "kustomize"
SCHEMA: Final = CHART / "values.schema.json"
# The names of renderings that users without Helm can apply. Each has an overlay in deploy/kustomize/NAME.
KUSTOMIZED: Final = ("external", "embedded", "keda")

RELEASE: Final = "jqmaster"
NAMESPACE: Final = "jobs"

_SOURCE = re.compile(r"^# Source: sha256:([0-9a-f]{64})$", re.MULTILINE)


def cases() -> dict[str, Path]:
    """Return the values files of the tests by name, such as `external`."""
    return {file.name.removesuffix("-values.yaml"): file for file in sorted(CHART.glob("ci/*-values.yaml"))}


def digest(values: Path) -> str:
    """Return the digest of the files on which a rendering depends: the chart and the values.

    The digest leaves out the schema, which only refuses values. It also leaves out alert rules and dashboards: these
    are links to other folders of the repository, and golden renderings do not have their content.
    """
    sources = [CHART / "Chart.yaml", CHART / "values.yaml", values, *sorted(CHART.rglob("templates/**/*"))]
    found = hashlib.sha256()
    for file in sources:
        if file.is_file():
            found.update(f"{file.relative_to(CHART)}\0".encode())
            found.update(file.read_bytes())
            found.update(b"\0")
    return found.hexdigest()


def golden_of(name: str) -> Path:
    """Return the path of a golden rendering."""
    return GOLDEN / f"{name}.yaml"


def source_of(text: str) -> str | None:
    """Return the digest that a generated file names, or None if it names no digest."""
    found = _SOURCE.search(text)
    return found and found[1]


def head(values: Path) -> str:
    """Return the first lines of a file that is rendered from the chart with these values."""
    return (
        f"# Written by `make chart` from deploy/helm/jqmaster and its ci/{values.name}; do not edit.\n"
        f"# Source: sha256:{digest(values)}\n"
    )
