"""Make the software bill of materials, as CycloneDX. It lists what runs with jqmaster, and is made only from the lock
files.

The same lock files give the same bytes: the bill contains no time, and its serial number is made from its content.
"""

import json
import re
import sys
import tomllib
import uuid
from pathlib import Path
from typing import Any, Final

from worker_sdk.transport.release import VERSION

ROOT: Final = Path(__file__).parents[1]
FILE: Final = ROOT / "sbom.cdx.json"
LOCK: Final = ROOT / "requirements.lock"
# The packages in tools/web/package.json with code that is copied into the pages. The other packages are only for checks
# and builds.
VENDORED: Final = (
    "d3-array", "d3-dag", "htm", "javascript-lp-solver", "preact", "quadprog", "stringify-object", "uplot",
)  # fmt: skip

_PINNED: Final = re.compile(r"^([a-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE | re.IGNORECASE)


def pinned(lock: Path) -> dict[str, str]:
    """Return the versions in a requirements file by the normalized name of the package."""
    found = _PINNED.findall(lock.read_text())
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def document() -> dict[str, Any]:
    """Return the bill of materials."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    web = json.loads((ROOT / "tools" / "web" / "package.json").read_text())["devDependencies"]
    components = [
        *(_component("pypi", name, version) for name, version in sorted(pinned(LOCK).items())),
        *(_component("npm", name, web[name]) for name in VENDORED),
    ]
    own = {
        **_component("pypi", project["name"], VERSION),
        "type": "application",
        "licenses": [{"license": {"id": project["license"]}}],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([own, components], sort_keys=True))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": own},
        "components": components,
        "dependencies": [
            {"ref": own["bom-ref"], "dependsOn": [component["bom-ref"] for component in components]}
        ],
    }


def text() -> str:
    """Return the bill of materials as the text of its file."""
    return json.dumps(document(), indent=2) + "\n"


def _component(kind: str, name: str, version: str) -> dict[str, Any]:
    purl = f"pkg:{kind}/{name}@{version}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


if __name__ == "__main__":
    if "--write" not in sys.argv:
        sys.exit("usage: python -m tools.sbom --write")
    FILE.write_text(text())
