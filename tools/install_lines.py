"""Write the commands in documents that install jqmaster: `python -m tools.install_lines --write`.

Until jqmaster is published, the commands install this checkout. Afterwards, they install from a package index. The
setting `is_published` in pyproject.toml tells whether it is published.
"""

import re
import sys
from pathlib import Path
from typing import Final

from tools.publication import IS_PUBLISHED, ROOT

CHECKOUT: Final = "/path/to/this/checkout"
_COMMAND: Final = re.compile(
    r"""(\bpip\ (?:install|wheel)(?:\ --[\w-]+(?:\ dist)?)*\ ["']?)"""
    rf"(?:(?P<checkout>{CHECKOUT})(?P<part>/worker_sdk)?|(?P<name>jqmaster)(?P<sdk>-sdk)?)(?![\w/.*-])",
    re.VERBOSE,
)


def pages() -> list[Path]:
    """Return the documents with such commands."""
    found = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("examples/**/*.md"),
        ROOT / "worker_sdk/README.md",
        ROOT / "clients/typescript/README.md",
    ]
    # Leave out the changelog, because it describes past releases.
    return sorted(page for page in found if page.name != "CHANGELOG.md")


def rewritten(text: str, *, is_published: bool = IS_PUBLISHED) -> str:
    """Return the document with commands that install from the index or, if jqmaster is not published, from this
    checkout."""

    def replace(match: re.Match[str]) -> str:
        is_sdk = match["part"] or match["sdk"]
        if is_published:
            return f"{match[1]}jqmaster{'-sdk' if is_sdk else ''}"
        return f"{match[1]}{CHECKOUT}{'/worker_sdk' if is_sdk else ''}"

    return _COMMAND.sub(replace, text)


if __name__ == "__main__":
    if "--write" not in sys.argv:
        sys.exit(__doc__)
    for page in pages():
        text = page.read_text("utf-8")
        if (new := rewritten(text)) != text:
            page.write_text(new, "utf-8")
