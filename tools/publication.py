"""The facts about the publication of jqmaster: whether it is published, and at which addresses.

These facts are only in `[tool.jqmaster]` and `[project.urls]` of pyproject.toml. After a change there, `make docs`
updates the documents.
"""

import re
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
_PYPROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

# Whether package indexes have the distributions, and a container registry has the image.
IS_PUBLISHED: Final[bool] = _PYPROJECT["tool"]["jqmaster"]["is_published"]
URLS: Final[dict[str, str]] = _PYPROJECT["project"]["urls"]
# A placeholder for addresses that do not exist yet. Nobody can own this name, because it is reserved for examples.
PLACEHOLDER: Final = "https://jqmaster.example"


def page(path: str) -> str:
    """Return the address of a file of the repository, such as `docs/ui.md`."""
    return f"{URLS['Repository']}/blob/main/{path}"


def runbook(section: str) -> str:
    """Return the address of a section of docs/runbooks.md. Alerts link to it."""
    base = page("docs/runbooks.md") if IS_PUBLISHED else f"{PLACEHOLDER}/runbooks.html"
    return f"{base}#{section}"


def obstacles(tag: str) -> list[str]:
    """Return the reasons why this checkout cannot be published under the tag."""
    text = (ROOT / "worker_sdk" / "transport" / "release.py").read_text("utf-8")
    [version] = re.findall(r'^VERSION(?:: Final)? = "(.+)"$', text, re.MULTILINE)
    wanted = f"v{version}"
    found = [] if tag == wanted else [f"the tag {tag} is not the version: {wanted}"]
    if not IS_PUBLISHED:
        found.append("pyproject.toml says that jqmaster is not published (tool.jqmaster.is_published)")
    if any(url.startswith(PLACEHOLDER) for url in URLS.values()):
        found.append(f"pyproject.toml has placeholders among its addresses ({PLACEHOLDER})")
    return found


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] != "--tag":
        sys.exit("usage: python -m tools.publication --tag TAG")
    sys.exit("\n".join(obstacles(sys.argv[2])) or None)
