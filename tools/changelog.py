"""Move the fragments of changes.d into the section Unreleased of CHANGELOG.md: `python -m tools.changelog`.

Each fragment becomes an entry under the heading of its kind. After that, condense the section to at most `MAX_ENTRIES`
entries by hand. Readers want to know what changes for them. They do not need each step on the way.
"""

import re
from pathlib import Path
from typing import Final

from tools.publication import ROOT

FILE: Final = ROOT / "CHANGELOG.md"
FRAGMENTS: Final = ROOT / "changes.d"
MAX_ENTRIES: Final = 40
UNRELEASED: Final = "Unreleased"
# Maps each kind that the name of a fragment can contain to its heading, in the order of the changelog.
HEADINGS: Final = {
    "upgrade": "Upgrade notes", "added": "Added", "changed": "Changed", "fixed": "Fixed", "performance": "Performance",
}  # fmt: skip


def releases(text: str) -> dict[str, str]:
    """Return the texts of the releases by version, the newest first."""
    return dict(re.findall(r"^## (\S+)[^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))


def entries(release: str) -> dict[str, list[str]]:
    """Return the entries of a release by heading, without their bullets. Leave out the text before the first
    heading."""
    return {
        heading: [entry.strip() for entry in re.split(r"^- ", body, flags=re.MULTILINE)[1:]]
        for heading, body in re.findall(
            r"^### ([^\n]+)\n(.*?)(?=^### |\Z)", release, re.MULTILINE | re.DOTALL
        )
    }


def fragments(folder: Path = FRAGMENTS) -> dict[str, list[str]]:
    """Return the texts of the fragments by section, with links in the form for CHANGELOG.md."""
    found: dict[str, list[str]] = {}
    for file in _files(folder):
        text = file.read_text("utf-8").strip().replace("](../", "](")
        found.setdefault(file.name.split(".")[-2], []).append(text.replace("\n", "\n  "))
    return found


def awaiting(text: str, folder: Path = FRAGMENTS) -> str:
    """Return the text of the section Unreleased, including the fragments."""
    parts = entries(releases(text).get(UNRELEASED, ""))
    for section, texts in fragments(folder).items():
        parts.setdefault(HEADINGS[section], []).extend(texts)
    return "\n\n".join(
        f"### {heading}\n\n" + "\n".join(f"- {entry}" for entry in parts[heading])
        for heading in HEADINGS.values()
        if heading in parts
    )


def collect(file: Path = FILE, folder: Path = FRAGMENTS) -> int:
    """Move the fragments into the file, and return their number."""
    text, files = file.read_text("utf-8"), _files(folder)
    head, before, rest = text.partition(f"## {UNRELEASED}\n")
    if not before:
        raise ValueError(f"{file} has no section {UNRELEASED}")
    _, mark, older = rest.partition("\n## ")
    file.write_text(f"{head}{before}\n{awaiting(text, folder)}\n{mark}{older}", "utf-8")
    for one in files:
        one.unlink()
    return len(files)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("+*.*.md"))


if __name__ == "__main__":
    number = collect()
    total = sum(map(len, entries(releases(FILE.read_text("utf-8"))[UNRELEASED]).values()))
    print(f"{number} fragments moved; {UNRELEASED} has {total} entries, and may have {MAX_ENTRIES}")
