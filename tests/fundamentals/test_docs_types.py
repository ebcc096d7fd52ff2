"""The code in both READMEs and docs/tutorial.md passes a strict type checker, as a user would run it."""

import subprocess
import sys
from pathlib import Path

from tests.fundamentals.test_docs import ROOT, blocks

# The tutorial's handlers have no annotations, which would distract there; their bodies are checked all the same.
PAGES = {
    "README.md": "",
    "worker_sdk/README.md": "",
    "docs/tutorial.md": "# mypy: allow-untyped-defs, allow-untyped-calls\n",
}


def test_the_examples_pass_mypy_strict(tmp_path: Path) -> None:
    # Each block of the page continues the one before.
    (tmp_path / "flows.py").write_text("\n\n".join(blocks("docs/flows.md")))
    for page, settings in PAGES.items():
        for number, source in enumerate(blocks(page), 1):
            name = f"{page.removesuffix('.md').replace('/', '_')}_block_{number}.py"
            (tmp_path / name).write_text(settings + source)
    done = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--follow-imports", "silent",
            "--cache-dir", str(ROOT / ".mypy_cache" / "docs"), "--check-untyped-defs",
            *map(str, sorted(tmp_path.glob("*.py"))),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout.replace(f"{tmp_path}/", "") + done.stderr
