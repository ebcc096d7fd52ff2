"""The documents: their blocks of code, and a folder in which each block runs as the file that it is."""

import contextlib
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
WRITTEN_URL: Final = "http://127.0.0.1:8080"
_BLOCK: Final = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
# The first line of a block may name its file: `# photos.py`, `# jqmaster: photos.py`.
_NAMED: Final = re.compile(r"# (?:\w+: )?([\w/]+\.py)\n")


def documents() -> list[Path]:
    """Return all documents for users, without the changelog, which tells of the past."""
    patterns = (
        "README.md",
        "SECURITY.md",
        "docs/*.md",
        "docs/sdk/*.md",
        "examples/*.md",
        "worker_sdk/README.md",
        "clients/typescript/README.md",
    )
    return [page for pattern in patterns for page in sorted(ROOT.glob(pattern))]


def all_blocks(page: str) -> list[tuple[str, str]]:
    """Return language and text of each block of a page, in order. The indentation of a list is taken off."""
    found = _BLOCK.findall((ROOT / page).read_text("utf-8"))
    return [
        (language, re.sub(rf"^{indent}", "", text, flags=re.MULTILINE)) for indent, language, text in found
    ]


def blocks(page: str, language: str = "python") -> list[str]:
    """Return the blocks of a page in one language."""
    return [text for one, text in all_blocks(page) if one == language]


def commands(block: str) -> list[str]:
    """Return the command lines of a block. If some begin with `$ `, the other lines are what they print."""
    lines = re.sub(r"\\\n *", " ", block).splitlines()
    if not any(line.startswith("$ ") for line in lines):
        return ["\n".join(lines)] if lines[0].startswith("curl") else [line for line in lines if line.strip()]
    found: list[str] = []
    for line in lines:
        if line.startswith("$ "):
            found.append(line.removeprefix("$ "))
        elif found and found[-1].count("'") % 2:
            found[-1] += f"\n{line}"
    return found


def file_name(page: str, number: int, text: str) -> str:
    """Return the name of the file that a block is, relative to its folder."""
    named = _NAMED.match(text)
    return named[1] if named else f"{page.removesuffix('.md').replace('/', '_').lower()}_{number}.py"


class PageFolder:
    """A folder with the blocks of a page as files. A block that names no file is a program, run as it is."""

    def __init__(self, folder: Path, page: str, url: str = WRITTEN_URL) -> None:
        self.folder = folder
        self.files = []
        for number, text in enumerate(blocks(page), 1):
            file = folder / file_name(page, number, text)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.replace(WRITTEN_URL, url), "utf-8")
            self.files.append(file)

    def run(self, file: Path) -> dict[str, Any]:
        """Run a file as `python FILE` does, in this process, and return its names."""
        return runpy.run_path(str(file), run_name="__main__")

    @contextlib.contextmanager
    def importable(self) -> Iterator[None]:
        """Let programs import the files. Afterwards this process knows nothing of them."""
        known = set(sys.modules)
        sys.path.insert(0, str(self.folder))
        try:
            yield
        finally:
            sys.path.remove(str(self.folder))
            for name in set(sys.modules) - known:
                if str(getattr(sys.modules[name], "__file__", "")).startswith(str(self.folder)):
                    del sys.modules[name]
